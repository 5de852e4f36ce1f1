//! A database whose directory is moved away, or replaced, while it is open.

use std::fs;
use std::path::Path;

use strata_base::files::blob::digest_of;

use crate::{
    Intake, Retention, RunDatabase, ServedFilter, ServerRecord, ServerRecords, StoreError,
};

type Use = fn(&RunDatabase, &dyn ServerRecords) -> Result<(), StoreError>;

/// What is read of a database, and what is changed in it.
const USES: [(&str, Use); 14] = [
    ("put a record", |_, records| records.put_record(&record())),
    ("insert a record", |_, records| {
        records.insert_record(&record()).map(drop)
    }),
    ("check recording", |_, records| records.check_recording(1)),
    ("delete a record", |_, records| {
        records.delete_record("kind", "", "name").map(drop)
    }),
    ("delete expired records", |_, records| {
        records.delete_expired_records(1)
    }),
    ("put a file", |_, records| {
        records.put_file(&digest_of(b"x"), b"x".to_vec(), &record())
    }),
    ("hold a name", |_, records| {
        records.hold("", "name").map(drop)
    }),
    ("read a record", |_, records| {
        records.read_record("kind", "", "name").map(drop)
    }),
    ("list records", |_, records| {
        records.list_records("kind", None).map(drop)
    }),
    ("list runs", |database, _| {
        database.list_served(&ServedFilter::default(), 1).map(drop)
    }),
    ("find a run", |database, _| {
        database.find_served_by_id("x").map(drop)
    }),
    ("open it", |database, _| database.set_intake(Intake::Open)),
    ("set a retention", |database, _| {
        database.set_retention(&Retention::default())
    }),
    ("prepare it", |database, _| database.prepare().map(drop)),
];

fn record() -> ServerRecord {
    ServerRecord {
        kind: "kind".into(),
        name: "name".into(),
        text: "text".into(),
        ..ServerRecord::default()
    }
}

/// Uses a database in each way.
fn check(database: &RunDatabase, records: &dyn ServerRecords, is_displaced: bool) {
    for (name, use_it) in USES {
        let used = use_it(database, records);
        if is_displaced {
            assert!(
                matches!(used, Err(StoreError::Displaced { .. })),
                "{name}: {used:?}"
            );
        } else {
            used.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn a_database_that_was_moved_away_is_neither_used_nor_created_again() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("real")).unwrap();
    std::os::unix::fs::symlink(temp.path().join("real"), temp.path().join("link")).unwrap();
    for place in ["real/served", "link/other"] {
        let directory = temp.path().join(place);
        let database = RunDatabase::in_file(&directory.join("runs.db"));
        database.prepare().unwrap();
        let _open = database.watch_runs().unwrap();
        let records = database.records().unwrap();
        check(&database, records.as_ref(), false);
        let away = temp.path().join("away");
        fs::rename(&directory, &away).unwrap();
        check(&database, records.as_ref(), true);
        assert!(!directory.exists(), "nothing is created there");
        // Another directory in its place, also with a copy, is not the one that is open.
        fs::create_dir(&directory).unwrap();
        check(&database, records.as_ref(), true);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::copy(away.join("runs.db"), directory.join("runs.db")).unwrap();
        check(&database, records.as_ref(), true);
        assert_same(&away.join("runs.db"), &directory.join("runs.db"));
        fs::remove_dir_all(&directory).unwrap();
        fs::rename(&away, &directory).unwrap();
        check(&database, records.as_ref(), false);
    }
}

/// Fails unless a copy is as it was made.
fn assert_same(file: &Path, copy: &Path) {
    assert!(fs::read(file).unwrap() == fs::read(copy).unwrap());
}
