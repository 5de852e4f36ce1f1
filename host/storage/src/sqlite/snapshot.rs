//! Writes snapshots and their bundles, and deletes those that are not needed any more.

use rusqlite::{Connection, params};
use strata_records::codec::MessageBundle;
use strata_records::lineage::{KeyRange, MAX_POSITION, position_of_key};
use strata_records::snapshot::{
    EncodedSnapshot, OLD_SNAPSHOTS_SHARE, SnapshotRows, SnapshotSize, unneeded_snapshots,
};

/// Inserts a state with the key `n`. It uses the bundles of an earlier state and adds its own, with
/// keys in the range `bundle_keys`. Returns all of them.
pub(super) fn insert_snapshot(
    conn: &Connection,
    state: &EncodedSnapshot<'_>,
    bundle_keys: KeyRange,
    n: i64,
    bundles: Vec<MessageBundle>,
) -> rusqlite::Result<Vec<MessageBundle>> {
    let rows = state.rows(n, last_bundle(conn, bundle_keys)?, bundles);
    insert_snapshot_rows(conn, &rows)?;
    Ok(rows.bundles)
}

/// Returns the largest key of a bundle in a range, or the beginning of the range.
pub(super) fn last_bundle(conn: &Connection, keys: KeyRange) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(max(n), ?1) FROM bundle WHERE n BETWEEN ?1 AND ?2";
    let last: i64 = conn.query_row(sql, [keys.first, keys.last], |row| row.get(0))?;
    // This program cannot have inserted that many.
    if position_of_key(last) > MAX_POSITION {
        Err(rusqlite::Error::IntegralValueOutOfRange(0, last))
    } else {
        Ok(last)
    }
}

/// Inserts a state that was encoded before.
pub(super) fn insert_snapshot_rows(conn: &Connection, rows: &SnapshotRows) -> rusqlite::Result<()> {
    let mut insert = conn.prepare_cached("INSERT INTO bundle VALUES (?1, ?2, ?3)")?;
    for bundle in &rows.new_bundles {
        insert.execute(params![bundle.n, bundle.sum, bundle.body])?;
    }
    let sql = "INSERT OR REPLACE INTO snapshot VALUES (?1, ?2, ?3, ?4, ?5)";
    conn.execute(
        sql,
        params![rows.n, rows.list_sum, rows.list, rows.sum, *rows.body],
    )
    .map(drop)
}

/// Deletes snapshots of a lineage that are not worth their space once there is a newer one. Called
/// before the newer snapshot is inserted, so that it can reuse the space. `stored_bytes` is about how
/// large all that is stored of the run is.
pub(super) fn delete_old_snapshots(
    conn: &Connection,
    newest: i64,
    stored_bytes: u64,
) -> rusqlite::Result<()> {
    let first = newest - position_of_key(newest);
    let mut statement = conn.prepare_cached(
        "SELECT n, length(body) FROM snapshot WHERE n > ?1 AND n < ?2 ORDER BY n",
    )?;
    let rows = statement.query_map([first, newest], |row| {
        Ok(SnapshotSize {
            n: row.get(0)?,
            bytes: row.get::<_, i64>(1)? as u64,
        })
    })?;
    let old = rows.collect::<rusqlite::Result<_>>()?;
    let mut gaps = conn.prepare_cached("SELECT last FROM gap WHERE n > ?1 AND n < ?2")?;
    let gaps = gaps
        .query_map([first, newest], |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let room = stored_bytes / OLD_SNAPSHOTS_SHARE;
    let mut delete = conn.prepare_cached("DELETE FROM snapshot WHERE n = ?1")?;
    for n in unneeded_snapshots(newest, old, &gaps, room) {
        delete.execute([n])?;
    }
    Ok(())
}

/// Returns the size of a database in bytes.
pub(super) fn database_bytes(conn: &Connection) -> rusqlite::Result<u64> {
    let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    Ok((pages * page) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use strata_core::record::message::Message;
    use strata_core::state::environment::Environment;

    use super::*;
    use crate::tests::conformance::{loaded_state, replay};
    use crate::tests::script::pseudorandom;
    use crate::tests::script::{definition, scripted_run, team};
    use crate::{
        Durability, Lease, ReplacePolicy, SqliteLease, StateSelector, StorageDirectory, schema,
    };
    use strata_records::lineage::{FIRST_LINEAGE, event_key, key_range};
    use strata_records::snapshot::message_count;

    fn put(conn: &Connection, n: i64, body: &[u8]) {
        let env = Environment::new(&team());
        let state = EncodedSnapshot::with_body(&env, body.to_vec());
        insert_snapshot(conn, &state, key_range(FIRST_LINEAGE), n, Vec::new()).unwrap();
    }

    /// Checks which snapshots remain if one of this size is saved after every hundred events, in a
    /// file of about this size.
    fn check(count: i64, bytes: usize, file: i64, expected: impl Fn(&[i64])) {
        let conn = Connection::open_in_memory().unwrap();
        schema::create(&conn).unwrap();
        conn.execute(
            "INSERT INTO event VALUES (1, 1, 1, 1, 0, 0, zeroblob(?1))",
            [file],
        )
        .unwrap();
        let lineage = 3;
        put(&conn, event_key(FIRST_LINEAGE, 0), b"the base");
        put(&conn, event_key(lineage - 1, 500), b"another lineage's");
        for i in 1..=count {
            let n = event_key(lineage, i * 100);
            delete_old_snapshots(&conn, n, database_bytes(&conn).unwrap()).unwrap();
            put(&conn, n, &vec![0; bytes]);
        }
        let mut left = conn.prepare("SELECT n FROM snapshot ORDER BY n").unwrap();
        let left: Vec<i64> = left
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(left[..2], [0, event_key(lineage - 1, 500)]);
        let own: Vec<i64> = left[2..].iter().map(|n| position_of_key(*n)).collect();
        assert_eq!(own.last(), Some(&(count * 100)));
        expected(&own);
    }

    #[test]
    fn snapshots_lie_the_closer_together_the_newer_they_are() {
        check(1000, 10, 1 << 20, |left| {
            assert!((5..30).contains(&left.len()), "{left:?}");
            for (before, at) in [0].iter().chain(left).zip(left) {
                // Twice as close to the one before as to the newest, with a tolerance while old
                // ones are deleted.
                assert!(at - before <= (100_000 - before) / 2 + 200, "{left:?}");
            }
        });
    }

    #[test]
    fn what_stands_for_dropped_events_stays() {
        let conn = Connection::open_in_memory().unwrap();
        schema::create(&conn).unwrap();
        let lineage = 3;
        for (first, last) in [(1, 150), (152, 199), (501, 598)] {
            conn.execute(
                "INSERT INTO gap VALUES (?1, ?2, 0, 0)",
                [event_key(lineage, first), last],
            )
            .unwrap();
        }
        for i in 2..=1000 {
            let n = event_key(lineage, i * 100);
            delete_old_snapshots(&conn, n, database_bytes(&conn).unwrap()).unwrap();
            put(&conn, n, b"a state");
        }
        let mut is_left = conn.prepare("SELECT 1 FROM snapshot WHERE n = ?1").unwrap();
        let left = [200, 500, 600, 700].map(|n| is_left.exists([event_key(lineage, n)]).unwrap());
        assert_eq!(left, [true, false, true, false]);
    }

    #[test]
    fn old_snapshots_take_up_a_part_of_the_file_only() {
        check(100, 4000, 100_000, |left| {
            assert!((2..6).contains(&left.len()), "{left:?}")
        });
        check(100, 100_000, 100_000, |left| assert_eq!(left, [10_000]));
    }

    /// Returns the keys of the bundles that exist, and of those that states refer to.
    fn bundles(store: &mut SqliteLease) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let reader = &store.writer().connection().reader;
        let mut rows = reader.rows.conn.prepare("SELECT n FROM bundle").unwrap();
        let there = rows
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        let named = reader
            .snapshots()
            .unwrap()
            .into_iter()
            .flat_map(|state| state.bundles);
        (there, named.map(|bundle| bundle.key).collect())
    }

    #[test]
    fn a_message_is_saved_once_however_many_states_have_it_and_as_long_as_one_has() {
        let (records, end) = scripted_run(&pseudorandom(9, 8000), 900);
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let mut store = directory
            .create(ReplacePolicy::Never, &replay(&[]), &definition())
            .unwrap()
            .lease;
        for until in (100..=600).step_by(100) {
            store
                .append(&records[until - 100..until], Durability::Process)
                .unwrap();
            let so_far = replay(&records[..until]);
            store.save_snapshot(&so_far).unwrap();
            let newest = store.current().bundles().to_vec();
            assert_eq!(message_count(&newest), so_far.final_message_count());
            let saved = store
                .writer()
                .connection()
                .reader
                .snapshots()
                .unwrap()
                .pop();
            assert_eq!(saved.unwrap().bundles, newest);
            assert_eq!(
                bundles(&mut store).0,
                newest.iter().map(|bundle| bundle.key).collect()
            );
        }
        store.append(&records[600..], Durability::Process).unwrap();
        // A bundle that a dropped state left behind.
        store
            .writer()
            .connection()
            .reader
            .rows
            .conn
            .execute("INSERT INTO bundle VALUES (99, 0, x'00')", [])
            .unwrap();
        store
            .prune(3, &mut |saved| Ok(loaded_state(&saved)))
            .unwrap();
        let (there, named) = bundles(&mut store);
        assert_eq!(there, named);
        assert_eq!(
            loaded_state(&store.load(&StateSelector::Head).unwrap()),
            end
        );
    }

    #[test]
    fn messages_come_back_in_order_from_more_bundles_than_are_read_at_once() {
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let mut env = replay(&[]);
        // Each fills a bundle of its own.
        for n in 0..200 {
            let text = format!("{n} {}", "x".repeat(140_000));
            env.add_message(Message::from_user(
                format!("m{n}").as_str().into(),
                text,
                "label".into(),
            ));
        }
        let mut store = directory
            .create(ReplacePolicy::Never, &replay(&[]), &definition())
            .unwrap()
            .lease;
        store
            .append(&scripted_run(&pseudorandom(1, 8), 1).0, Durability::Process)
            .unwrap();
        store.save_snapshot(&env).unwrap();
        let count = store.current().bundles().len();
        assert!(count > 2 * 64, "{count}");
        assert_eq!(store.load(&StateSelector::Head).unwrap().base, env);
    }
}
