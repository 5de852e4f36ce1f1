//! Directories that were damaged or changed: opening them yields a clear error or the right state,
//! but never a panic or a wrong state.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, RunEnded, Status};
use strata_core::record::id::RoleId;
use strata_core::record::spending::Account;
use strata_core::record::work::{CallKey, Work};
use strata_core::state::environment::Environment;
use strata_team_json::{import, write};

use super::conformance::loaded_state;
use super::script::pseudorandom;
use super::script::{definition, scripted_run, team};
use crate::directory::DirectoryContent;
use crate::sqlite::rows::SqliteRows;
use crate::{
    Durability, Lease, Record, RecordedRun, ReplacePolicy, StateSelector, StorageDirectory,
    StoreError,
};

/// The lineage in the saved runs that is not the current one.
pub(crate) const OTHER_LINEAGE: &str = "main.1";

/// Saves a run with this many events and its `team.json`, and closes it in an orderly way.
pub(crate) fn saved(events: usize) -> (TempDir, StorageDirectory, Vec<Record>, Environment) {
    let (records, end) = scripted_run(&pseudorandom(21, 8 * events), events);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("store"));
    let base = Environment::new(&team());
    let mut store = directory
        .create(ReplacePolicy::Never, &base, &definition())
        .unwrap()
        .lease;
    let (first, rest) = records.split_at(events / 2);
    store.append(first, Durability::Process).unwrap();
    store
        .save_snapshot(&loaded_state(&store.load(&StateSelector::Head).unwrap()))
        .unwrap();
    store.append(rest, Durability::Full).unwrap();
    add_lineage(&mut store);
    let fill: &crate::WriteContent<'_> = &|out| write(&team(), &end, &definition(), out);
    let file = directory.projection();
    file.write(&mut store, fill, Durability::Full).unwrap();
    drop(store);
    (temp, directory, records, end)
}

/// Forks the newest checkpoint, if there is one. The current lineage stays the same.
pub(crate) fn add_lineage(store: &mut crate::SqliteLease) {
    if let Some(forked) = fork_newest(store) {
        store.append(&[forked], Durability::Full).unwrap();
    }
}

/// Returns the event with which another lineage begins at the newest checkpoint, if there is one.
pub(crate) fn fork_newest(store: &dyn Lease) -> Option<Record> {
    let from = store.checkpoints().unwrap().pop()?;
    let saved = store.load(&StateSelector::Checkpoint(from.id)).unwrap();
    let (line, env) = (saved.next_line, loaded_state(&saved));
    let account = Account {
        spent: store.spent().unwrap(),
        ..Account::default()
    };
    let event = Stepper::new(team(), env)
        .forked_event(OTHER_LINEAGE.into(), Vec::new(), account)
        .unwrap();
    Some(Record {
        line,
        lines: 1,
        time_ms: 0,
        event,
    })
}

/// Reads everything. Each result is right, or this fails.
pub(crate) fn read_all(
    directory: &StorageDirectory,
    records: &[Record],
    end: &Environment,
) -> Result<(), StoreError> {
    let reader = SqliteRows::open(directory)?;
    assert_eq!(loaded_state(&reader.load(&StateSelector::Head)?), *end);
    assert_eq!(reader.records(0, usize::MAX)?, records);
    assert_eq!(reader.definition()?, definition());
    let forked = reader
        .checkpoints()?
        .into_iter()
        .find(|row| row.lineage == OTHER_LINEAGE)
        .expect("it was made");
    let from = loaded_state(&reader.load(&StateSelector::Checkpoint(
        forked.parent.expect("where it left"),
    ))?);
    let forked = loaded_state(&reader.load(&StateSelector::Lineage(OTHER_LINEAGE.into()))?);
    assert_eq!((forked.roles, forked.messages), (from.roles, from.messages));
    Ok(())
}

/// Opens the store, reads its state, and appends an event.
fn continue_run(
    directory: &StorageDirectory,
    records: &[Record],
    end: &Environment,
) -> Result<(), StoreError> {
    let mut store = directory.open()?.lease;
    assert_eq!(loaded_state(&store.load(&StateSelector::Head)?), *end);
    let more = Record {
        event: Event::Attempt(CallKey::new(RoleId(0), Work::Plan), AttemptEvent::RetryDue),
        ..records[0].clone()
    };
    store.append(std::slice::from_ref(&more), Durability::Process)?;
    let now = store.records(0, usize::MAX)?;
    assert_eq!(
        (&now[..now.len() - 1], &now[now.len() - 1]),
        (records, &more)
    );
    Ok(())
}

/// Replaces the database by a file, and reads and continues it. Returns whether that was refused.
fn refused(
    with: &[u8],
    directory: &StorageDirectory,
    records: &[Record],
    end: &Environment,
) -> bool {
    let path = directory.path().join("team.db");
    std::fs::write(&path, with).unwrap();
    let first = read_all(directory, records, end);
    let second = continue_run(directory, records, end);
    for error in [&first, &second]
        .into_iter()
        .filter_map(|result| result.as_ref().err())
    {
        assert!(error.to_string().contains("team.db"), "{error}");
    }
    for log in ["team.db-wal", "team.db-shm"] {
        let _ = std::fs::remove_file(directory.path().join(log));
    }
    first.is_err() || second.is_err()
}

#[test]
fn flipped_bytes_are_noticed_or_do_not_matter() {
    let (_temp, directory, records, end) = saved(120);
    let good = std::fs::read(directory.path().join("team.db")).unwrap();
    let random = pseudorandom(31, 4 * 300);
    let anywhere = random
        .chunks(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize % good.len());
    let mut noticed = 0;
    for at in (0..110).chain(anywhere) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        noticed += usize::from(refused(&bad, &directory, &records, &end));
    }
    // The other bytes are unused space.
    assert!(noticed > 100, "{noticed}");
    assert!(!refused(&good, &directory, &records, &end));
}

#[test]
fn messages_that_are_missing_or_another_states_are_noticed() {
    let check = |change: &str, expected: &str| {
        let (_temp, directory, records, end) = saved(120);
        let path = directory.path().join("team.db");
        let conn = rusqlite::Connection::open(path).unwrap();
        assert!(conn.execute(change, []).unwrap() > 0, "{change}");
        conn.close().unwrap();
        let error = read_all(&directory, &records, &end)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("DELETE FROM bundle", "bundle 1 of messages is missing");
    check(
        "UPDATE bundle SET n = n + 1",
        "bundle 1 of messages is missing",
    );
    check(
        "UPDATE bundle SET body = CAST(body || x'00' AS BLOB)",
        "bundle 1 of messages cannot be read: its checksum does not match",
    );
    let none = "UPDATE snapshot SET (bundles_sum, bundles) = (SELECT bundles_sum, bundles FROM snapshot WHERE n = 0) \
                WHERE n > 0";
    check(none, "cannot be read: its checksum does not match");
}

#[test]
fn a_database_that_is_cut_off_is_refused() {
    let (_temp, directory, records, end) = saved(120);
    let good = std::fs::read(directory.path().join("team.db")).unwrap();
    let lengths = (0..good.len())
        .step_by(1777)
        .chain([1, 50, 99, 100, 4095, 4096]);
    for length in lengths.filter(|length| length + 4096 < good.len()) {
        assert!(
            refused(&good[..length], &directory, &records, &end),
            "{length} of {}",
            good.len()
        );
    }
    // The end of the last page may be unused; then nothing is missing.
    refused(&good[..good.len() - 1], &directory, &records, &end);
}

#[test]
fn a_damaged_log_is_noticed_and_without_what_lies_beside_it_loses_what_it_held_and_no_more() {
    let (_temp, directory, records, _) = saved(40);
    let path = directory.path().join("team.db");
    let mut store = directory.open().unwrap().lease;
    let (more, _) = scripted_run(&pseudorandom(21, 8 * 60), 60);
    assert_eq!(more[..40], records);
    for record in &more[40..] {
        store
            .append(std::slice::from_ref(record), Durability::Full)
            .unwrap();
    }
    // As a killed process leaves it: read while the store is still open.
    let (database, log) = (
        std::fs::read(&path).unwrap(),
        std::fs::read(directory.path().join("team.db-wal")).unwrap(),
    );
    let progress = std::fs::read(directory.path().join("team.db-progress")).unwrap();
    drop(store);
    for at in (0..log.len()).step_by(log.len() / 60) {
        let mut bad = log.clone();
        bad[at] ^= 0x10;
        let kept = |progress: Option<&Vec<u8>>| {
            std::fs::write(&path, &database).unwrap();
            std::fs::write(directory.path().join("team.db-wal"), &bad).unwrap();
            let beside =
                ["team.db-shm", "team.db-progress"].map(|name| directory.path().join(name));
            for file in &beside {
                let _ = std::fs::remove_file(file);
            }
            if let Some(bytes) = progress {
                std::fs::write(&beside[1], bytes).unwrap();
            }
            directory
                .open()
                .map(|opened| opened.lease.records(0, usize::MAX).unwrap())
        };
        match kept(Some(&progress)) {
            Ok(kept) => assert_eq!(kept, more, "{at}"),
            Err(error) => assert!(
                error.to_string().contains("changes were recorded in it"),
                "{error}"
            ),
        }
        match kept(None) {
            Ok(kept) => assert!(
                kept.len() >= 40 && kept == more[..kept.len()],
                "{at}: {}",
                kept.len()
            ),
            Err(error) => assert!(
                error.to_string().contains("what follows is not there"),
                "{error}"
            ),
        }
    }
}

fn check(content: &[u8], expected: &str) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("team.db");
    std::fs::write(&path, content).unwrap();
    let directory = StorageDirectory::new(temp.path());
    let errors = [
        SqliteRows::open(&directory).unwrap_err(),
        directory.open().unwrap_err(),
        directory
            .create(
                ReplacePolicy::Never,
                &Environment::new(&team()),
                &definition(),
            )
            .unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), content);
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
}

#[test]
fn files_that_are_not_ours_are_recognised_and_left_alone() {
    let sqlite = |setup: &str| {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("other.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(setup).unwrap();
        conn.close().unwrap();
        std::fs::read(&path).unwrap()
    };
    check(b"", "is damaged: it is empty");
    check(
        b"some text",
        "was not written by strata-host: it is no SQLite database",
    );
    check(&[0; 5000], "was not written by strata-host");
    check(
        &sqlite("CREATE TABLE t (a)"),
        "it is the database of another program; choose another storage directory",
    );
    let ours = "CREATE TABLE t (a); PRAGMA application_id = 0x53545254;";
    check(
        &sqlite(&format!("{ours} PRAGMA user_version = 99;")),
        "has schema version 99, this program knows versions up to 1",
    );
    check(&sqlite(ours), "is damaged: its schema version is 0");
    check(
        &sqlite(&format!("{ours} PRAGMA user_version = 1;")),
        "it contains the table `t`, which strata-host does not create",
    );
}

#[test]
fn a_lost_team_json_is_written_again_and_a_changed_one_is_noticed() {
    let (_temp, directory, ..) = saved(30);
    let path = directory.team_json();
    let text = std::fs::read_to_string(&path).unwrap();
    let opened = || directory.open().unwrap();
    assert!(!opened().team_json_differs);
    std::fs::remove_file(&path).unwrap();
    assert!(!opened().team_json_differs);
    std::fs::write(&path, text.replace("quoted", "edited")).unwrap();
    assert!(opened().team_json_differs);
    let write = |bytes: &'static [u8]| {
        let mut store = opened().lease;
        let fill: &crate::WriteContent<'_> = &|out| out.write_all(bytes);
        let file = directory.projection();
        file.write(&mut store, fill, Durability::Full).unwrap();
    };
    write(b"{}");
    assert!(!opened().team_json_differs);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
    // Killed after the new file was recorded and before it was renamed.
    let mut store = opened().lease;
    let fill: &crate::WriteContent<'_> = &|out| out.write_all(b"{\"n\": 1}");
    let file = directory.projection();
    file.prepare(&mut store, fill, Durability::Full).unwrap();
    drop(store);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}");
    assert!(!opened().team_json_differs);
    // A copy of the directory has files with other inodes and the same content.
    std::fs::copy(&path, directory.path().join("copy")).unwrap();
    std::fs::rename(directory.path().join("copy"), &path).unwrap();
    assert!(!opened().team_json_differs);
    write(b"{\"n\": 2}");
    assert!(!opened().team_json_differs);
}

#[test]
fn a_lost_database_is_made_again_from_team_json() {
    let (_temp, directory, _, end) = saved(90);
    std::fs::remove_file(directory.path().join("team.db")).unwrap();
    assert_eq!(
        directory.require_team().unwrap(),
        DirectoryContent::TeamJson
    );
    let bytes = directory.read_team_json().unwrap();
    let base = import(&team(), &bytes).unwrap();
    let store = directory
        .import_team_json(&bytes, &base, &definition())
        .unwrap();
    assert_eq!(store.load(&StateSelector::Head).unwrap().base, base);
    assert_eq!(
        super::script::normalized(&base),
        super::script::normalized(&end)
    );
    drop(store);
    assert_eq!(
        directory.require_team().unwrap(),
        DirectoryContent::Database
    );
    assert!(!directory.open().unwrap().team_json_differs);
    assert_eq!(std::fs::read(directory.team_json()).unwrap(), bytes);
}

#[test]
fn reading_leaves_no_trace() {
    let (_temp, directory, records, end) = saved(60);
    let names = || {
        let entries = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap());
        let mut all: Vec<_> = entries
            .map(|e| (e.file_name(), e.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let before = names();
    read_all(&directory, &records, &end).unwrap();
    assert_eq!(names(), before);
    assert_eq!(before.len(), 2);
}

#[test]
fn a_directory_that_cannot_be_written_can_be_read_and_says_so_otherwise() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let (_temp, directory, records, end) = saved(60);
    let mode =
        |mode| std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(mode)).unwrap();
    let mut store = directory.open().unwrap().lease;
    mode(0o555);
    let late = store.append(&records[..1], Durability::Full).unwrap_err();
    mode(0o755);
    drop(store);
    mode(0o555);
    let (read, opened) = (
        read_all(&directory, &records, &end),
        directory.open().unwrap_err(),
    );
    mode(0o755);
    read.unwrap();
    for error in [late, opened] {
        assert!(matches!(error, StoreError::Permission { .. }), "{error:?}");
        assert!(
            error.to_string().contains("give this user write access"),
            "{error}"
        );
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_saved() {
    let (_temp, directory, records, _) = saved(60);
    let mut store = directory.open().unwrap().lease;
    let pages =
        |store: &mut crate::SqliteLease, max: u32| store.writer().connection().limit_pages(max);
    pages(&mut store, 1);
    let large = Event::RunEnded(RunEnded {
        status: Status::Failed,
        checkpoint: Some("x".repeat(100_000).as_str().into()),
        parent: None,
        by: None,
    });
    let large = Record {
        event: large,
        ..records[0].clone()
    };
    for _ in 0..2 {
        let error = store
            .append(&[records[0].clone(), large.clone()], Durability::Full)
            .unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(error.to_string().contains("no space is left"), "{error}");
        assert_eq!(store.records(0, usize::MAX).unwrap(), records);
    }
    pages(&mut store, u32::MAX - 1);
    store
        .append(std::slice::from_ref(&large), Durability::Full)
        .unwrap();
    drop(store);
    let kept = directory
        .open()
        .unwrap()
        .lease
        .records(0, usize::MAX)
        .unwrap();
    assert_eq!((&kept[..60], &kept[60]), (&records[..], &large));
}

#[test]
fn a_reader_is_not_disturbed_by_a_writer() {
    let (_temp, directory, records, _) = saved(60);
    let before = SqliteRows::open(&directory).unwrap();
    let mut store = directory.open().unwrap().lease;
    store.append(&records[..1], Durability::Process).unwrap();
    let during = SqliteRows::open(&directory).unwrap();
    // Enough to move the log into the database several times while the first reader is open.
    let more: Vec<Record> = records.iter().cycle().take(600).cloned().collect();
    for n in 0..40 {
        store.append(&more, Durability::Process).unwrap();
        for reader in [&before, &during] {
            let found = reader.records(0, usize::MAX).unwrap();
            assert_eq!(found.len(), 61 + 600 * (n + 1));
            assert_eq!(found[..60], records);
            assert_eq!(reader.definition().unwrap(), definition());
            assert!(reader.checkpoints().unwrap().len() > 3);
        }
    }
    assert_eq!(
        store.load(&StateSelector::Head).unwrap().tail.len(),
        31 + 600 * 40
    );
}

#[test]
fn a_former_owner_writes_no_team_json() {
    let (records, _) = scripted_run(&pseudorandom(3, 800), 40);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("a"));
    let base = Environment::new(&team());
    let created = directory.create(ReplacePolicy::Never, &base, &definition());
    let mut former = created.unwrap().lease;
    former.append(&records[..20], Durability::Full).unwrap();
    let file = directory.projection();
    let first: &crate::WriteContent<'_> = &|out| out.write_all(b"first");
    let second: &crate::WriteContent<'_> = &|out| out.write_all(b"second");
    file.write(&mut former, first, Durability::Full).unwrap();
    std::fs::remove_file(directory.path().join("team.lock")).unwrap();
    let mut owner = directory.open().unwrap().lease;
    owner.append(&records[20..], Durability::Full).unwrap();
    for durability in [Durability::Process, Durability::Full] {
        let refused = file.write(&mut former, second, durability);
        assert!(
            matches!(refused, Err(StoreError::Fenced { .. })),
            "{refused:?}"
        );
    }
    drop(former);
    // The former owner leaves the lock of the new one alone.
    let holder = crate::LockHolder::Process {
        pid: Some(std::process::id()),
    };
    assert_eq!(directory.holder().unwrap(), holder);
    let text = std::fs::read_to_string(directory.team_json()).unwrap();
    assert_eq!(text, "first");
    assert!(!directory.path().join(".team.json.new").exists());
}
