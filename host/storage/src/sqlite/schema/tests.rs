//! Schemas of other databases, and our own.

use rusqlite::Connection;

use super::{
    QUEUE_TABLES, TABLES, create_queue_tables, expected_objects, expected_queue_objects,
    read_objects,
};
use crate::sqlite::rows::SqliteRows;
use crate::tests::damage::saved;
use crate::{StorageDirectory, StoreError};

/// Changes a saved run, and checks the error when it is read, continued, and replaced by a fresh
/// run.
#[track_caller]
fn check_refused(change: &str, expected: &str) {
    let (_temp, directory, _, end) = saved(60);
    let conn = Connection::open(directory.database()).unwrap();
    conn.execute_batch(change).unwrap();
    conn.close().unwrap();
    let start_fresh = |directory: &StorageDirectory| {
        directory
            .create(
                crate::ReplacePolicy::Never,
                &end,
                &crate::tests::script::definition(),
            )
            .err()
    };
    let errors = [
        SqliteRows::open(&directory).err(),
        directory.open().err(),
        start_fresh(&directory),
    ];
    for error in errors {
        let error = error.expect("it is refused");
        assert!(
            matches!(
                error,
                StoreError::Foreign { .. } | StoreError::Corrupt { .. }
            ),
            "{error:?}"
        );
        assert!(error.to_string().contains(expected), "{error}");
    }
}

const ENDLESS: &str =
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";

#[test]
fn whatever_strata_does_not_create_is_refused_before_it_is_read() {
    for table in [
        "run",
        "lineage",
        "event",
        "gap",
        "snapshot",
        "bundle",
        "definition",
        "note",
        "blob",
        "log",
    ] {
        let view = format!(
            "ALTER TABLE {table} RENAME TO ours; CREATE VIEW {table} AS SELECT ours.* FROM ours, ({ENDLESS})"
        );
        check_refused(&view, "which strata-host does not create");
    }
    let trigger = format!(
        "CREATE TABLE other (x); CREATE VIEW endless AS {ENDLESS};
         CREATE TRIGGER t AFTER INSERT ON event BEGIN INSERT INTO other SELECT * FROM endless; END"
    );
    check_refused(&trigger, "which strata-host does not create");
    check_refused(
        "CREATE INDEX i ON event (time_ms)",
        "it contains the index `i`, which strata-host does not create",
    );
    check_refused(
        "CREATE INDEX i ON event (abs(time_ms)) WHERE body IS NOT NULL",
        "it contains the index `i`",
    );
    check_refused(
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "which strata-host does not create",
    );
    check_refused("ANALYZE", "it contains the table `sqlite_stat");
    check_refused(
        "CREATE VIEW \"\u{202e}x\" AS SELECT 1",
        "which strata-host does not create",
    );
}

#[test]
fn a_table_that_is_not_as_ours_is_refused() {
    check_refused(
        "DROP TABLE blob",
        "its index `sqlite_autoindex_blob_1` is missing",
    );
    check_refused(
        "ALTER TABLE event ADD COLUMN more INTEGER",
        "its table `event` is not the one that strata-host creates",
    );
    check_refused(
        "ALTER TABLE log ADD COLUMN more INTEGER AS (abs(1))",
        "its table `log` is not the one that strata-host creates",
    );
    check_refused(
        "ALTER TABLE event RENAME COLUMN marks TO other",
        "its table `event` is not the one that strata-host creates",
    );
}

#[test]
fn a_schema_that_is_large_is_not_read_to_its_end() {
    let many: String = (0..4_000)
        .map(|n| format!("CREATE TABLE t{n} (x);\n"))
        .collect();
    check_refused(
        &format!("BEGIN; {many} COMMIT"),
        "its schema is larger than any of ours",
    );
    let long = format!(
        "CREATE TABLE t (x CHECK (x IN ({})))",
        vec!["1"; 100_000].join(", ")
    );
    check_refused(&long, "string or blob too big");
}

#[test]
fn a_journal_that_names_a_file_is_refused_and_that_file_stays() {
    let (temp, directory, ..) = saved(30);
    let file = temp.path().join("precious");
    std::fs::write(&file, "text").unwrap();
    let name = file.to_str().unwrap().as_bytes();
    let sum = name.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&magic);
    journal[20..24].copy_from_slice(&512u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096u32.to_be_bytes());
    journal.extend(u32::MAX.to_be_bytes());
    journal.extend(name);
    journal.extend((name.len() as u32).to_be_bytes());
    journal.extend(sum.to_be_bytes());
    journal.extend(magic);
    let conn = Connection::open(directory.database()).unwrap();
    conn.query_row("PRAGMA journal_mode = delete", [], |_| Ok(()))
        .unwrap();
    conn.close().unwrap();
    std::fs::write(directory.path().join("team.db-journal"), journal).unwrap();
    for error in [SqliteRows::open(&directory).err(), directory.open().err()] {
        let error = error.expect("it is refused").to_string();
        assert!(
            error
                .contains("team.db-journal` was not written by strata-host: it names another file"),
            "{error}"
        );
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "text");
}

#[test]
fn the_schema_is_what_sqlite_makes_of_the_statements() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(TABLES).unwrap();
    assert_eq!(expected_objects(), read_objects(&conn, 1_000).unwrap());
    create_queue_tables(&conn).unwrap();
    let mut all = expected_objects();
    all.extend(expected_queue_objects());
    assert_eq!(all, read_objects(&conn, 1_000).unwrap());
    // Once more changes nothing.
    create_queue_tables(&conn).unwrap();
}

#[test]
fn a_database_has_all_tables_of_a_queue_or_none() {
    let (_temp, directory, ..) = saved(60);
    let conn = Connection::open(directory.database()).unwrap();
    conn.execute_batch(QUEUE_TABLES).unwrap();
    conn.close().unwrap();
    SqliteRows::open(&directory).unwrap();
    check_refused("CREATE TABLE file (digest TEXT PRIMARY KEY)", "is missing");
}
