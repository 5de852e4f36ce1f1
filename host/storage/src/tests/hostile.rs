//! Databases that were made to mislead: this program never wrote them, but all checksums match.
//! Damage is in `damage`.

use rusqlite::{Connection, params};
use strata_records::codec;
use strata_records::codec::MessageBundle;
use strata_records::lineage::{DIRECTORY_RUN, StoredLineage, StoredRun};
use tempfile::TempDir;

use strata_core::machine::stepper::Stepper;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::state::activation::Activation;
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::{InvalidState, validate};
use strata_core::state::messages::MessageRef;

use super::damage::saved;
use super::script::pseudorandom;
use super::script::{scripted_run, team};
use crate::sqlite::lineage::SqliteRow;
use crate::sqlite::rows::SqliteRows;
use crate::{Durability, Lease, Reader, RecordedRun, StateSelector, StorageDirectory, StoreError};

/// Changes a saved run, and checks the error when it is read and continued.
fn check(change: impl Fn(&Connection), expected: &str) {
    let (_temp, directory, ..) = saved(120);
    let conn = Connection::open(directory.database()).unwrap();
    change(&conn);
    conn.close().unwrap();
    let read = || {
        let reader = SqliteRows::open(&directory)?;
        reader.load(&StateSelector::Head)?;
        reader.checkpoints()?;
        reader.dropped()
    };
    let go_on = || directory.open()?.lease.load(&StateSelector::Head);
    for error in [read().err(), go_on().err()].into_iter().flatten() {
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }
    let error = read().unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

/// The newest snapshot of the first lineage, and its bundles.
fn newest_bundles(conn: &Connection) -> (i64, Vec<MessageBundle>) {
    let sql = "SELECT n, bundles FROM snapshot WHERE n < 1 << 40 ORDER BY n DESC LIMIT 1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?));
    let (n, list) = conn.query_row(sql, [], read).unwrap();
    (n, codec::decode_bundles(&list).unwrap())
}

/// Replaces the list of bundles of a snapshot.
fn write_bundles(conn: &Connection, n: i64, bundles: &[MessageBundle]) {
    let list = codec::encode_bundles(bundles);
    let row = params![list, codec::checksum(&[n], &list), n];
    let sql = "UPDATE snapshot SET bundles = ?1, bundles_sum = ?2 WHERE n = ?3";
    conn.execute(sql, row).unwrap();
}

/// Replaces the messages of the first bundle by bytes that cannot be decoded.
fn write_undecodable_messages(conn: &Connection) {
    let MessageBundle { key, messages, .. } = newest_bundles(conn).1[0];
    let body = [1, 255, 255];
    let sum = codec::checksum(&[key, i64::from(messages)], &body);
    let sql = "UPDATE bundle SET body = ?1, sum = ?2 WHERE n = ?3";
    conn.execute(sql, params![body, sum, key]).unwrap();
}

fn undecodable_run() -> (TempDir, StorageDirectory) {
    let (temp, directory, ..) = saved(120);
    let conn = Connection::open(directory.database()).unwrap();
    write_undecodable_messages(&conn);
    conn.close().unwrap();
    (temp, directory)
}

/// Makes a run continue a lineage and a public line.
fn write_run(conn: &Connection, lineage: i64, next_line: i64) {
    let (id, name) = DIRECTORY_RUN;
    let run = StoredRun {
        id,
        name: name.into(),
        epoch: 1,
        lineage,
        next_line,
    };
    run.write(conn).unwrap();
}

/// Returns the first lineage.
fn first(conn: &Connection) -> StoredLineage {
    let read = |row: &rusqlite::Row<'_>| {
        let name: String = row.get(0)?;
        let events: i64 = row.get(1)?;
        let last: u32 = row.get(2)?;
        Ok((name, events, last))
    };
    let row = conn.query_row(
        "SELECT name, events, last FROM lineage WHERE id = 0",
        [],
        read,
    );
    let (name, events, last) = row.unwrap();
    StoredLineage {
        events,
        last_checksum: last,
        ..StoredLineage::first(&name)
    }
}

fn check_lineage(change: fn(&mut StoredLineage)) {
    let put = |conn: &Connection| {
        let mut row = first(conn);
        change(&mut row);
        conn.execute("DELETE FROM lineage WHERE id = 0", [])
            .unwrap();
        row.write(conn).unwrap();
    };
    check(
        put,
        "a lineage cannot be read: no storage has these numbers",
    );
}

#[test]
fn a_lineage_with_numbers_that_none_has_is_refused() {
    check_lineage(|row| row.events = 1 << 41);
    check_lineage(|row| row.events = -5);
    check_lineage(|row| row.events = i64::MAX);
    check_lineage(|row| row.forgotten_until = 1 << 50);
    check_lineage(|row| row.bytes_since_snapshot = -1);
    check_lineage(|row| row.spent = i64::MIN);
    check_lineage(|row| row.origin = Some((0, 3)));
    check_lineage(|row| row.origin = Some((-7, 1 << 50)));
    let far = |conn: &Connection| {
        StoredLineage {
            id: 5_000_000,
            name: "far".into(),
            ..first(conn)
        }
        .write(conn)
        .unwrap();
        write_run(conn, 5_000_000, 9);
    };
    check(
        far,
        "a lineage cannot be read: no storage has these numbers",
    );
    let before = |conn: &Connection| write_run(conn, 0, -1);
    check(
        before,
        "what its newest state is cannot be read: no storage has these numbers",
    );
}

#[test]
fn a_gap_that_ends_nowhere_is_refused() {
    let gap = |last: i64| {
        move |conn: &Connection| {
            let row = params![2, last, codec::checksum(&[2, last, 0], &[])];
            conn.execute("INSERT INTO gap VALUES (?1, ?2, 0, ?3)", row)
                .unwrap();
        }
    };
    check(
        gap(1 << 50),
        "what was dropped of it cannot be read: no storage has these numbers",
    );
    check(
        gap(1),
        "what was dropped of it cannot be read: no storage has these numbers",
    );
}

#[test]
fn a_state_that_speaks_of_messages_it_does_not_have_is_refused() {
    let unbundled = |conn: &Connection| write_bundles(conn, newest_bundles(conn).0, &[]);
    check(unbundled, "it speaks of messages that it does not have");
}

#[test]
fn messages_that_cannot_be_decoded_or_are_not_as_long_as_their_state_says_are_refused() {
    let cannot = "bundle 1 of messages cannot be read: it cannot be decoded";
    check(write_undecodable_messages, cannot);
    let longer = |conn: &Connection| {
        let (n, mut bundles) = newest_bundles(conn);
        bundles[0].texts.content_bytes += 1;
        write_bundles(conn, n, &bundles);
    };
    check(longer, "its messages are not as long as its state says");
}

#[test]
fn messages_that_cannot_be_decoded_are_an_error_for_the_owner_of_the_run_once_they_are_needed() {
    let (_temp, directory) = undecodable_run();
    let mut lease = directory.open().unwrap().lease;
    let before = std::fs::read(directory.team_json()).unwrap();
    let env = lease.recorded().load_to_continue().unwrap().base;
    lease.recorded().check_loaded().unwrap();
    let file = directory.projection();
    let stepper = Stepper::new(team(), env);
    let written = file.write_state(&mut lease, &stepper, Durability::Full);
    let found = lease.recorded().check_loaded();
    for error in [written.unwrap_err(), found.unwrap_err()] {
        let expected = "bundle 1 of messages cannot be read: it cannot be decoded";
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(std::fs::read(directory.team_json()).unwrap(), before);
    assert_eq!(stepper.env().messages.get(0).content, "");
}

#[test]
fn a_state_whose_parts_do_not_go_together_is_none() {
    let (_, good) = scripted_run(&pseudorandom(21, 960), 120);
    assert_eq!(validate(good.clone()).as_ref(), Ok(&good));
    let check = |change: &dyn Fn(&mut Environment), expected: InvalidState| {
        let mut env = good.clone();
        change(&mut env);
        assert_eq!(validate(env).err(), Some(expected));
    };
    let nowhere = Slot {
        role: RoleId(1),
        kind: SlotKind::Action(ActionId(3)),
    };
    let nobody = Slot {
        role: RoleId(9),
        kind: SlotKind::Think,
    };
    check(&|env| drop(env.roles.pop()), InvalidState::Roles);
    check(&|env| drop(env.rules.roles.pop()), InvalidState::Roles);
    check(&|env| drop(env.joins.pop()), InvalidState::Joins);
    check(&|env| drop(env.joins[0].queues.pop()), InvalidState::Joins);
    check(
        &|env| env.history.push(MessageRef(1 << 20)),
        InvalidState::Messages,
    );
    check(
        &|env| env.roles[4].latest = Some(MessageRef(u32::MAX)),
        InvalidState::Messages,
    );
    check(
        &|env| drop(env.components.insert(nowhere, "d".into())),
        InvalidState::Actions,
    );
    check(
        &|env| assert!(env.ledger.insert(nobody, Default::default()).is_none()),
        InvalidState::Actions,
    );
    let check_open = |change: fn(&mut Activation), expected: InvalidState| {
        let open = |env: &mut Environment| {
            let mut open = Activation::new(0, Vec::new(), team().role(RoleId(2)));
            change(&mut open);
            env.roles[2].activation = Some(open);
        };
        check(&open, expected);
    };
    check_open(|open| open.choices = vec![2], InvalidState::Actions);
    check_open(|open| open.choices = vec![0; 2], InvalidState::Actions);
    check_open(|open| open.message_count = u32::MAX, InvalidState::Numbers);
    check_open(
        |open| open.memory.kept_bytes = u64::MAX,
        InvalidState::Numbers,
    );
}
