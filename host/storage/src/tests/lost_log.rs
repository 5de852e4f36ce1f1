//! Logs that were lost or cut off: this is noticed, unless their content is in the database.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use strata_core::state::environment::Environment;

use super::script::pseudorandom;
use super::script::{copy, definition, scripted_run, team};
use crate::progress::{ProgressFile, WriteProgress};
use crate::sqlite::rows::SqliteRows;
use crate::{
    Durability, Lease, Record, RecordedRun, ReplacePolicy, SqliteLease, StateSelector,
    StorageDirectory, StoreError,
};

/// A store that is open, and how many of its records have been appended.
struct OpenRun {
    temp: TempDir,
    store: SqliteLease,
    records: Vec<Record>,
    at: usize,
}

impl OpenRun {
    /// Creates a store, and appends this many records, one by one.
    fn new(records: usize) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let store = directory
            .create(
                ReplacePolicy::Never,
                &Environment::new(&team()),
                &definition(),
            )
            .unwrap()
            .lease;
        let mut under = Self {
            temp,
            store,
            records: scripted_run(&pseudorandom(9, 8 * 400), 400).0,
            at: 0,
        };
        under.append_next(records);
        under
    }

    fn directory(&self) -> StorageDirectory {
        StorageDirectory::new(self.temp.path().join("store"))
    }

    fn append_next(&mut self, records: usize) {
        for record in &self.records[self.at..self.at + records] {
            self.store
                .append(std::slice::from_ref(record), Durability::Full)
                .unwrap();
        }
        self.at += records;
    }

    /// Returns a copy of the files, as a kill would leave them.
    fn copy_files(&self, wanted: impl Fn(&str) -> bool) -> (TempDir, StorageDirectory) {
        copy_files(&self.directory(), wanted)
    }

    /// Closes the store in an orderly way, and opens it again after `while_closed`.
    fn reopen(self, while_closed: impl FnOnce(&StorageDirectory)) -> Self {
        let directory = self.directory();
        let Self {
            temp,
            store,
            records,
            at,
        } = self;
        drop(store);
        while_closed(&directory);
        Self {
            store: directory.open().unwrap().lease,
            temp,
            records,
            at,
        }
    }
}

/// Returns a copy of the files of a directory.
fn copy_files(
    from: &StorageDirectory,
    wanted: impl Fn(&str) -> bool,
) -> (TempDir, StorageDirectory) {
    let copied = tempfile::tempdir().unwrap();
    copy(from.path(), copied.path(), |name| {
        name != "team.lock" && wanted(name)
    });
    let directory = StorageDirectory::new(copied.path());
    (copied, directory)
}

fn file_count(directory: &StorageDirectory) -> usize {
    std::fs::read_dir(directory.path()).unwrap().count()
}

/// Returns how many records are found, both by a reader and by opening the store.
fn found(directory: &StorageDirectory) -> Result<usize, StoreError> {
    let read =
        SqliteRows::open(directory).and_then(|reader| Ok(reader.records(0, usize::MAX)?.len()));
    let opened = directory
        .open()
        .and_then(|opened| Ok(opened.lease.records(0, usize::MAX)?.len()));
    match (read, opened) {
        (Ok(read), Ok(opened)) => {
            assert_eq!(read, opened);
            Ok(read)
        }
        (Err(read), Err(opened)) => {
            assert_eq!(read.to_string(), opened.to_string());
            Err(read)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_refused(directory: &StorageDirectory, expected: &str) {
    // Repeatedly, since a refusal must not change anything.
    for _ in 0..2 {
        let error = found(directory).unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let anew = directory.create(
        ReplacePolicy::Never,
        &Environment::new(&team()),
        &definition(),
    );
    assert!(anew.is_err());
}

#[test]
fn a_log_that_is_lost_emptied_or_cut_off_is_noticed_early_and_late_in_a_run() {
    let mut under = OpenRun::new(10);
    // At first, after the log was moved into the database, and after a stop and a resume.
    for round in 0..3 {
        let at = under.at;
        let log = |directory: &StorageDirectory| directory.path().join("team.db-wal");
        let (_temp, whole) = under.copy_files(|_| true);
        assert_eq!(found(&whole).unwrap(), at, "round {round}");
        let (_temp, gone) = under.copy_files(|name| name != "team.db-wal");
        check_refused(&gone, "`team.db-wal` is missing or empty");
        let (_temp, emptied) = under.copy_files(|_| true);
        std::fs::write(log(&emptied), b"").unwrap();
        check_refused(&emptied, "`team.db-wal` is missing or empty");
        let (_temp, header) = under.copy_files(|_| true);
        let mut bytes = std::fs::read(log(&header)).unwrap();
        bytes[17] ^= 1;
        std::fs::write(log(&header), &bytes).unwrap();
        check_refused(&header, "`team.db-wal` has a damaged header");
        let (_temp, cut) = under.copy_files(|_| true);
        bytes[17] ^= 1;
        std::fs::write(log(&cut), &bytes[..32 + 4120 * 3]).unwrap();
        check_refused(&cut, "changes were recorded in it");
        let (_temp, alone) = under.copy_files(|name| name == "team.db");
        check_refused(&alone, "what follows is not there");
        match round {
            0 => {
                under.store.writer().connection().limit_log(10);
                under.append_next(100);
                under.store.writer().connection().limit_log(2000);
                under.append_next(7);
            }
            _ => {
                under = under.reopen(|directory| assert_eq!(file_count(directory), 1));
                under.append_next(9);
            }
        }
    }
}

#[test]
fn what_another_program_moved_into_the_database_is_not_missed() {
    let under = OpenRun::new(30);
    let with = |work: &dyn Fn(&Connection)| {
        let (temp, directory) = under.copy_files(|_| true);
        let conn = Connection::open(directory.database()).unwrap();
        work(&conn);
        conn.close().unwrap();
        (temp, directory)
    };
    let looked = |conn: &Connection| {
        conn.query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0))
            .map(drop)
            .unwrap();
    };
    let (_temp, moved) = with(&looked);
    assert!(!moved.path().join("team.db-wal").exists());
    let alone = tempfile::tempdir().unwrap();
    copy(moved.path(), alone.path(), |name| name == "team.db");
    assert_eq!(found(&StorageDirectory::new(alone.path())).unwrap(), 30);
    assert_eq!(found(&moved).unwrap(), 30);
    for mode in ["delete", "truncate", "persist", "memory", "off"] {
        let change = |conn: &Connection| {
            conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
                .unwrap();
        };
        let (_temp, changed) = with(&change);
        let mut store = changed.open().unwrap().lease;
        store
            .append(&under.records[30..31], Durability::Full)
            .unwrap();
        drop(store);
        assert_eq!(found(&changed).unwrap(), 31, "{mode}");
    }
    let copied = tempfile::tempdir().unwrap();
    let into = copied.path().join("team.db");
    let (_temp, _) = with(&|conn| {
        conn.execute("VACUUM INTO ?1", [into.to_str().unwrap()])
            .map(drop)
            .unwrap()
    });
    assert_eq!(found(&StorageDirectory::new(copied.path())).unwrap(), 30);
}

/// A program that reads the state of a database until it is dropped.
struct SlowReader {
    conn: Connection,
}

impl SlowReader {
    fn new(directory: &StorageDirectory) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = Connection::open_with_flags(directory.database(), flags).unwrap();
        conn.execute_batch("BEGIN").unwrap();
        let reader = Self { conn };
        reader.events();
        reader
    }

    fn events(&self) -> usize {
        let count = self
            .conn
            .query_row("SELECT count(*) FROM event", [], |row| row.get::<_, i64>(0));
        usize::try_from(count.unwrap()).unwrap()
    }
}

#[test]
fn a_slow_reader_delays_the_move_of_the_log_and_loses_nothing() {
    let log_bytes = |directory: &StorageDirectory| {
        std::fs::metadata(directory.path().join("team.db-wal"))
            .unwrap()
            .len()
    };
    let check_copies = |directory: &StorageDirectory, records: usize| {
        let (_temp, whole) = copy_files(directory, |_| true);
        assert_eq!(found(&whole).unwrap(), records);
        let (_temp, without_log) = copy_files(directory, |name| name != "team.db-wal");
        check_refused(&without_log, "`team.db-wal` is missing or empty");
        let (_temp, alone) = copy_files(directory, |name| name == "team.db");
        check_refused(&alone, "what follows is not there");
    };
    let mut under = OpenRun::new(10);
    // In a run that was created, and in one that was resumed after an orderly stop.
    for round in 0..2 {
        let directory = under.directory();
        under.store.writer().connection().limit_log(10);
        under.append_next(1);
        let before = under.at;
        let reader = SlowReader::new(&directory);
        under.append_next(89);
        let blobs = (0..160u8).map(|n| {
            let bytes: std::sync::Arc<[u8]> = vec![n; (64 << 10) + round].into();
            (strata_base::files::blob::digest_of(&bytes), bytes)
        });
        for blob in blobs {
            under
                .store
                .put_blobs(&[blob].into_iter().collect())
                .unwrap();
        }
        assert_eq!(reader.events(), before);
        check_copies(&directory, under.at);
        assert!(log_bytes(&directory) > 10 << 20);
        drop(reader);
        under.append_next(9);
        // Writes the row, after which the log is moved, and the next change starts it anew.
        under.store.write_row_if_behind().unwrap();
        under.append_next(1);
        assert!(under.store.writer().connection().log_length() < 100);
        assert!(log_bytes(&directory) < 10 << 20);
        check_copies(&directory, under.at);
        // The reader also prevents the move at the stop.
        let reader = SlowReader::new(&directory);
        let at = under.at;
        under = under.reopen(|directory| {
            assert_eq!(reader.events(), at);
            check_copies(directory, at);
            drop(reader);
            // The next stop moves it.
            drop(directory.open().unwrap());
            assert_eq!(file_count(directory), 1);
            assert_eq!(found(directory).unwrap(), at);
        });
    }
}

#[test]
fn a_log_that_cannot_be_marked_at_first_is_marked_when_its_reader_has_ended() {
    let mut under = OpenRun::new(10).reopen(|_| {});
    let reader = SlowReader::new(&under.directory());
    under.append_next(10);
    drop(reader);
    under.store.write_row_if_behind().unwrap();
    under.append_next(1);
    let (_temp, alone) = under.copy_files(|name| name == "team.db");
    check_refused(&alone, "what follows is not there");
}

#[test]
fn a_database_that_is_only_just_there_has_lost_nothing() {
    let under = OpenRun::new(0);
    let (_temp, whole) = under.copy_files(|_| true);
    assert_eq!(found(&whole).unwrap(), 0);
    // Before the log was started.
    let (_temp, early) = under.copy_files(|name| name != "team.db-wal" && name != "team.db-shm");
    assert_eq!(found(&early).unwrap(), 0);
}

#[test]
fn a_loss_of_power_may_take_what_was_not_synced_and_no_more() {
    let mut under = OpenRun::new(20);
    let record = under.records[20].clone();
    under
        .store
        .append(std::slice::from_ref(&record), Durability::Process)
        .unwrap();
    let boot = |directory: &Path| {
        let path = directory.join("team.db-progress");
        let WriteProgress {
            written, synced, ..
        } = WriteProgress::read(&directory.join("team.db"))
            .unwrap()
            .unwrap();
        assert_eq!((written, synced), (21, 20));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] ^= 1;
        let end = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        std::fs::write(&path, bytes).unwrap();
    };
    let end = 32 + 4120 * u64::from(under.store.writer().connection().log_length());
    let log = |directory: &StorageDirectory| {
        std::fs::File::options()
            .write(true)
            .open(directory.path().join("team.db-wal"))
            .unwrap()
    };
    for (lost, expected) in [(1, Ok(20)), (4, Err(()))] {
        let (_temp, copied) = under.copy_files(|_| true);
        boot(copied.path());
        log(&copied).set_len(end - 4120 * lost).unwrap();
        assert_eq!(found(&copied).map_err(drop), expected, "{lost}");
    }
    // Without a loss of power, nothing may be missing.
    let (_temp, copied) = under.copy_files(|_| true);
    log(&copied).set_len(end - 4120).unwrap();
    check_refused(&copied, "21 changes were recorded in it, and it has 20");
}

#[test]
fn a_lost_change_that_is_no_event_is_noticed() {
    let mut under = OpenRun::new(5);
    let changed = crate::SavedDefinition {
        text: "[team]\nname = \"other\"\n".into(),
        ..definition()
    };
    under.store.set_definition(&changed).unwrap();
    let (_temp, copied) = under.copy_files(|_| true);
    let path = copied.path().join("team.db-wal");
    let log = std::fs::read(&path).unwrap();
    let is_old = |directory: &StorageDirectory| {
        SqliteRows::open(directory).is_ok_and(|r| r.definition().unwrap() == definition())
    };
    // Wherever the log is cut off.
    for end in (32..log.len()).step_by(4120) {
        std::fs::write(&path, &log[..end]).unwrap();
        assert!(!is_old(&copied), "{end}");
    }
}

#[test]
fn the_file_is_read_as_it_was_written_or_not_at_all() {
    let temp = tempfile::tempdir().unwrap();
    let database = temp.path().join("team.db");
    assert_eq!(WriteProgress::read(&database).unwrap(), None);
    let file = ProgressFile::for_database(&database, 7).unwrap();
    file.open().unwrap();
    file.count_changes(2);
    file.flush();
    let read = || WriteProgress::read(&database).unwrap();
    assert_eq!(
        read().map(|found| (found.written, found.synced)),
        Some((9, 0))
    );
    file.mark_synced();
    file.flush();
    assert_eq!(
        read().map(|found| (found.written, found.synced)),
        Some((9, 9))
    );
    let path = temp.path().join("team.db-progress");
    let good = std::fs::read(&path).unwrap();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, bad).unwrap();
        assert_eq!(read(), None);
    }
    std::fs::write(&path, &good[..10]).unwrap();
    assert_eq!(read(), None);
    // Without a log, there is nothing to compare.
    drop(file);
    assert!(!path.exists());
}

#[test]
fn a_run_that_is_turned_aside_and_resumed_goes_on_with_what_it_has() {
    let under = OpenRun::new(12);
    let (_temp, copied) = under.copy_files(|_| true);
    let created = copied
        .create(
            ReplacePolicy::Unfinished,
            &Environment::new(&team()),
            &definition(),
        )
        .unwrap();
    let aside = StorageDirectory::new(created.moved_to.unwrap());
    drop(created.lease);
    assert_eq!(found(&aside).unwrap(), 12);
    assert_eq!(found(&copied).unwrap(), 0);
    assert!(
        matches!(SqliteRows::open(&copied).unwrap().load(&StateSelector::Head), Ok(saved) if saved.tail.is_empty())
    );
}
