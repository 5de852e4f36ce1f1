//! Several runs in one database: each is as if it were alone.

use rusqlite::Connection;
use strata_base::files::blob::{Blobs, digest_of};
use strata_core::state::environment::Environment;
use strata_records::error::StoreError;

use super::super::lineage::next_lineage_id;
use super::super::rows::{SqliteReader, SqliteRows};
use super::super::write::NewRun;
use super::super::{InlineWriter, SqliteLease};
use crate::lock::StorageLock;
use crate::tests::conformance::{loaded_state, replay};
use crate::tests::damage::add_lineage;
use crate::tests::script::pseudorandom;
use crate::tests::script::{definition, scripted_run};
use crate::{
    Durability, Lease, Record, RecordedRun, ReplacePolicy, SavedDefinition, StateSelector,
    StorageDirectory,
};

/// A run of the database, and what it must contain.
struct ExpectedRun {
    key: i64,
    records: Vec<Record>,
    /// How many of the records were appended.
    at: usize,
    definition: SavedDefinition,
    bytes: &'static [u8],
}

impl ExpectedRun {
    fn new(key: i64, seed: u64, bytes: &'static [u8]) -> Self {
        Self {
            key,
            records: scripted_run(&pseudorandom(seed, 8_000), 600).0,
            at: 0,
            definition: SavedDefinition {
                text: format!("run {key}"),
                ..definition()
            },
            bytes,
        }
    }

    fn open(&self, directory: &StorageDirectory) -> SqliteLease {
        let lock = StorageLock::acquire(directory.path()).unwrap();
        InlineWriter::open(lock, directory.path(), self.key).unwrap()
    }

    fn append(&mut self, directory: &StorageDirectory, count: usize) {
        let mut lease = self.open(directory);
        let next = &self.records[self.at..self.at + count];
        for some in next.chunks(7) {
            lease.append(some, Durability::Full).unwrap();
        }
        self.at += count;
        lease
            .save_snapshot(&replay(&self.records[..self.at]))
            .unwrap();
    }

    fn check(&self, directory: &StorageDirectory, is_pruned: bool) {
        let lease = self.open(directory);
        let expected = &self.records[..self.at];
        let saved = lease.load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), replay(expected));
        if !is_pruned {
            assert_eq!(lease.records(0, usize::MAX).unwrap(), expected);
        }
        assert_eq!(lease.definition().unwrap(), self.definition);
        let note = lease.note("key").unwrap();
        assert_eq!(note, Some(self.key.to_string()));
        // Pruning removes what no state refers to.
        let blob = lease.blob(&digest_of(self.bytes)).unwrap();
        assert_eq!(blob.as_deref(), (!is_pruned).then_some(self.bytes));
        let names: Vec<String> = lease
            .lineages()
            .unwrap()
            .into_iter()
            .map(|row| row.name)
            .collect();
        assert_eq!(names.first().map(String::as_str), Some("main"));
        for row in lease.checkpoints().unwrap() {
            let state = lease.load(&StateSelector::Checkpoint(row.id)).unwrap();
            assert_eq!(loaded_state(&state).idea, replay(expected).idea);
        }
    }
}

/// Creates a database with two runs that have no records yet.
fn create_two_runs(temp: &tempfile::TempDir) -> (StorageDirectory, [ExpectedRun; 2]) {
    let directory = StorageDirectory::new(temp.path().join("store"));
    let runs = [
        ExpectedRun::new(1, 41, b"one"),
        ExpectedRun::new(2, 42, b"two"),
    ];
    let base: Environment = replay(&[]);
    drop(
        directory
            .create(ReplacePolicy::Never, &base, &runs[0].definition)
            .unwrap(),
    );
    let conn = Connection::open(directory.database()).unwrap();
    let second = NewRun {
        run: (2, "second"),
        lineage: next_lineage_id(&conn).unwrap(),
        base: &base,
        definition: &runs[1].definition,
        blobs: &Blobs::new(),
    };
    second.insert(&conn).unwrap();
    (directory, runs)
}

#[test]
fn a_reader_that_opens_its_database_again_reads_the_same_run() {
    let temp = tempfile::tempdir().unwrap();
    let (directory, mut runs) = create_two_runs(&temp);
    // Without a log, the file is read as if it did not change until it does.
    let rows = SqliteRows::open_unlocked(directory.database(), 2).unwrap();
    let reader = SqliteReader::from_rows(rows);
    runs[1].append(&directory, 100);
    assert_eq!(
        reader.records(0, usize::MAX).unwrap(),
        runs[1].records[..100]
    );
    assert_eq!(reader.definition().unwrap(), runs[1].definition);
}

#[test]
fn a_damaged_row_of_another_run_changes_nothing_in_how_commits_are_synced() {
    let temp = tempfile::tempdir().unwrap();
    let (directory, runs) = create_two_runs(&temp);
    // Opening a database reads all rows, so this one is damaged later.
    let mut lease = runs[0].open(&directory);
    let conn = Connection::open(directory.database()).unwrap();
    let damage = "UPDATE lineage SET sum = (sum + 1) % 1000 WHERE run = 2";
    assert_eq!(conn.execute(damage, []).unwrap(), 1);
    drop(conn);
    let synchronous = |lease: &mut SqliteLease| -> i64 {
        let value = |row: &rusqlite::Row<'_>| row.get(0);
        lease
            .writer()
            .connection()
            .reader
            .rows
            .conn
            .pragma_query_value(None, "synchronous", value)
            .unwrap()
    };
    let before = synchronous(&mut lease);
    for _ in 0..2 {
        let failed = lease.append(&runs[0].records[..1], Durability::Full);
        assert!(matches!(failed, Err(StoreError::Corrupt { .. })));
        assert_eq!(synchronous(&mut lease), before);
        assert!(!lease.writer().connection().progress.is_open());
    }
}

#[test]
fn runs_in_one_database_do_not_see_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let (directory, mut runs) = create_two_runs(&temp);
    for run in &runs {
        let mut lease = run.open(&directory);
        let blobs = Blobs::from([(digest_of(run.bytes), run.bytes.into())]);
        lease.put_blobs(&blobs).unwrap();
        lease
            .set_note("key", &run.key.to_string(), Durability::Full)
            .unwrap();
    }
    for round in 0..5 {
        for run in &mut runs {
            run.append(&directory, 100);
        }
        for run in &runs {
            run.check(&directory, false);
        }
        if round == 1 {
            // A lineage of one run between those of another.
            for run in &runs {
                add_lineage(&mut run.open(&directory));
            }
        }
    }
    let pruned = runs[0]
        .open(&directory)
        .prune(2, &mut |saved| Ok(loaded_state(&saved)))
        .unwrap();
    assert!(pruned.events > 100, "{pruned:?}");
    runs[0].check(&directory, true);
    runs[1].check(&directory, false);
}
