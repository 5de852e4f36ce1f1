//! What is in the log of a storage directory and what in its database, and when the disk works.

use rusqlite::OpenFlags;
use strata_records::lineage::{FIRST_LINEAGE, MAX_BYTES_BEHIND, MAX_EVENTS_BEHIND};

use super::*;
use crate::tests::conformance::{loaded_state, replay};
use crate::tests::script::pseudorandom;
use crate::tests::script::{definition, scripted_run};
use crate::{
    Append, Appending, Lease, OtherWork, Record, RecordedRun, ReplacePolicy, StateSelector,
    StorageDirectory,
};

/// Appends events, and returns whether the disk was still working when the append had begun.
fn is_disk_working(
    lease: &mut SqliteLease,
    records: &[Record],
    durability: Durability,
    other_work: OtherWork,
) -> bool {
    let appending = lease.begin_append(Append {
        other_work,
        ..Append::new(records, durability)
    });
    let is_working = matches!(appending, Appending::Written(_));
    appending.finish_blocking().unwrap();
    is_working
}

#[test]
fn the_disk_works_beside_an_owner_with_other_work_once_the_directory_is_synced() {
    use Durability::{Full, Process};
    let (records, _) = scripted_run(&pseudorandom(13, 3000), 60);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("store"));
    let created = directory.create(ReplacePolicy::Never, &replay(&[]), &definition());
    let mut lease = created.unwrap().lease;
    let cases = [
        (10, Full, OtherWork::Some, false),
        (10, Full, OtherWork::Some, true),
        (10, Full, OtherWork::None, false),
        (10, Process, OtherWork::Some, false),
        (0, Full, OtherWork::Some, false),
    ];
    let mut at = 0;
    for (count, durability, other_work, expected) in cases {
        let next = &records[at..at + count];
        let found = is_disk_working(&mut lease, next, durability, other_work);
        assert_eq!(
            found, expected,
            "event {at}, {durability:?}, {other_work:?}"
        );
        at += count;
    }
    lease.append(&records[at..], Full).unwrap();
    assert_eq!(lease.records(0, usize::MAX).unwrap(), records);
    let saved = lease.load(&StateSelector::Head).unwrap();
    assert_eq!(loaded_state(&saved), replay(&records));
}

fn created(temp: &tempfile::TempDir) -> (StorageDirectory, SqliteLease) {
    let directory = StorageDirectory::new(temp.path().join("store"));
    let store = directory
        .create(ReplacePolicy::Never, &replay(&[]), &definition())
        .unwrap()
        .lease;
    (directory, store)
}

/// Returns the last event that the row covers and the last event that exists; in the database
/// file itself, or including its log.
fn ends(directory: &StorageDirectory, options: &str) -> (i64, i64) {
    let uri = format!("file:{}{options}", directory.database().display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(uri, flags).unwrap();
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get(0)).unwrap();
    (
        number("SELECT events FROM lineage WHERE id = 0"),
        number("SELECT coalesce(max(n), 0) FROM event"),
    )
}

#[test]
fn the_row_is_behind_in_the_log_only_and_not_far() {
    let (records, _) = scripted_run(&pseudorandom(5, 20_000), 1500);
    let temp = tempfile::tempdir().unwrap();
    let (directory, mut store) = created(&temp);
    store.writer().connection().limit_log(20);
    let (mut moved, mut behind) = (0, 0);
    for records in records.chunks(3) {
        store.append(records, Durability::Process).unwrap();
        let (told, last) = ends(&directory, "?immutable=1");
        assert_eq!(told, last, "the database alone");
        let (told, last) = ends(&directory, "");
        assert!(
            last - MAX_EVENTS_BEHIND < told && told <= last,
            "{told} of {last}"
        );
        (moved, behind) = (moved.max(told), behind + i64::from(told < last));
    }
    assert!(moved > 1000 && behind > 300, "{moved} {behind}");
    drop(store);
    assert_eq!(ends(&directory, ""), (1500, 1500));
}

#[test]
fn who_reads_a_row_that_is_behind_sees_the_same_as_in_one_that_is_not() {
    let (records, _) = scripted_run(&pseudorandom(9, 8_000), 60);
    let temp = tempfile::tempdir().unwrap();
    let (directory, mut store) = created(&temp);
    for record in &records {
        let record = std::slice::from_ref(record);
        store.append(record, Durability::Process).unwrap();
    }
    assert_ne!(store.current().row_behind(), None);
    let reader = SqliteRows::open(&directory).unwrap();
    assert_eq!(&reader.selected_lineage().unwrap(), store.current().line());
    assert_eq!(
        reader.load(&StateSelector::Head).unwrap(),
        store.load(&StateSelector::Head).unwrap()
    );
    store.write_row_if_behind().unwrap();
    assert_eq!(
        (
            reader.rows.lineage(FIRST_LINEAGE).unwrap(),
            reader.selected_lineage().unwrap()
        ),
        (
            store.current().line().clone(),
            store.current().line().clone()
        )
    );
}

#[test]
fn the_log_is_moved_however_little_happens_beside_large_files() {
    let temp = tempfile::tempdir().unwrap();
    let (directory, mut store) = created(&temp);
    store.writer().connection().limit_log(20);
    for n in 0..50u8 {
        let bytes: std::sync::Arc<[u8]> = vec![n; 64 << 10].into();
        store
            .put_blobs(
                &[(strata_base::files::blob::digest_of(&bytes), bytes)]
                    .into_iter()
                    .collect(),
            )
            .unwrap();
    }
    let log = std::fs::metadata(directory.path().join(crate::directory::names::WAL_FILE))
        .unwrap()
        .len();
    assert!(log < 10 * (64 << 10), "{log}");
}

#[test]
fn a_large_event_is_told_of_at_once() {
    let (records, _) = scripted_run(&pseudorandom(9, 8_000), 10);
    let temp = tempfile::tempdir().unwrap();
    let (_directory, mut store) = created(&temp);
    store.append(&records[..5], Durability::Process).unwrap();
    assert!(store.current().row_behind().is_some());
    store.current().add_bytes(MAX_BYTES_BEHIND);
    store.append(&records[5..6], Durability::Process).unwrap();
    assert_eq!(store.current().row_behind(), None);
}

#[test]
fn a_snapshot_that_found_no_room_does_not_put_the_row_off() {
    let (records, _) = scripted_run(&pseudorandom(9, 8_000), 10);
    let temp = tempfile::tempdir().unwrap();
    let (_directory, mut store) = created(&temp);
    store.append(&records[..5], Durability::Process).unwrap();
    store.write_row_if_behind().unwrap();
    store.current().add_bytes(10 << 20);
    store.write_row_if_behind().unwrap();
    let mut env = replay(&records[..5]);
    env.idea = format!("{:?}", pseudorandom(3, 100_000));
    store.writer().connection().limit_pages(1);
    assert!(matches!(
        store.save_snapshot(&env),
        Err(StoreError::Full { .. })
    ));
    store.writer().connection().limit_pages(u32::MAX - 1);
    store.current().add_bytes(MAX_BYTES_BEHIND);
    store.append(&records[5..6], Durability::Process).unwrap();
    assert_eq!(store.current().row_behind(), None);
}

#[test]
fn a_database_that_lost_its_end_is_noticed_and_so_is_one_with_another() {
    let check = |change: &str, expected: &str| {
        let (records, _) = scripted_run(&pseudorandom(9, 8_000), 200);
        let temp = tempfile::tempdir().unwrap();
        let (directory, mut store) = created(&temp);
        store.append(&records, Durability::Process).unwrap();
        drop(store);
        let conn = Connection::open(directory.database()).unwrap();
        assert!(conn.execute(change, []).unwrap() > 0, "{change}");
        conn.close().unwrap();
        let errors: [Option<StoreError>; 2] =
            [SqliteRows::open(&directory).err(), directory.open().err()];
        for error in errors {
            let error = error.expect("it is noticed").to_string();
            assert!(error.contains(expected), "{error}");
        }
    };
    check("DELETE FROM event WHERE n = 200", "event 200 is missing");
    check("DELETE FROM event WHERE n > 100", "event 200 is missing");
    let other = "UPDATE event SET (line, lines, time_ms, marks, sum, body) = \
                 (SELECT line, lines, time_ms, marks, sum, body FROM event WHERE n = 199) WHERE n = 200";
    check(
        other,
        "event 200 cannot be read: its checksum does not match",
    );
    check(
        "UPDATE event SET n = 202 WHERE n = 200",
        "event 200 is missing",
    );
    check(
        "INSERT INTO event SELECT 202, line, lines, time_ms, marks, sum, body FROM event WHERE n = 200",
        "event 201 is missing",
    );
    check(
        "UPDATE lineage SET last = last + 1",
        "a lineage cannot be read: its checksum does not match",
    );
}
