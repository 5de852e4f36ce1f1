//! Starting a run in directories with other content. Damage is in `damage`.

use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, Mode};
use strata_base::advice::Advice;
use strata_base::files::blob::Blobs;
use strata_core::record::event::{Event, Status};
use strata_core::state::environment::Environment;
use strata_team_json::export;

use super::{DirectoryContent, KEPT_ASIDE, ReplacePolicy, StorageDirectory};
use crate::sqlite::rows::SqliteRows;
use crate::tests::conformance::loaded_state;
use crate::tests::damage::{read_all, saved};
use crate::tests::script::pseudorandom;
use crate::tests::script::{ScriptedRun, copy, definition, names, record, scripted_run, team};
use crate::{Durability, Lease, Record, RecordedRun, StateSelector, StorageLocation, StoreError};

#[test]
fn paths_that_hold_no_team_are_refused_and_nothing_is_created() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    std::fs::create_dir(path("empty")).unwrap();
    std::fs::create_dir(path("other")).unwrap();
    std::fs::write(path("other/notes.txt"), "n").unwrap();
    let refused = |name: &str, expected: &str| {
        let error = StorageDirectory::locate(&path(name))
            .and_then(|directory| directory.require_team())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected) && error.contains(name), "{error}");
    };
    refused("missing", "nothing is there");
    refused("missing/team.json", "nothing is there");
    refused("empty", "the directory is empty");
    refused("empty/team.json", "nothing is there");
    (1..=2).for_each(|n| std::fs::create_dir_all(path(&format!("cut/old-{n}"))).unwrap());
    refused("cut", "cut/old-2");
    refused("other", "holds neither `team.db` nor `team.json`");
    refused("other/notes.txt", "another name than `team.json`");
    refused("other/notes.txt/team.json", "other/notes.txt` is a file");
    assert!(!path("missing").exists());
    assert_eq!(std::fs::read_dir(path("empty")).unwrap().count(), 0);
    let (_temp, directory, ..) = saved(10);
    for given in [directory.path().to_path_buf(), directory.team_json()] {
        assert_eq!(StorageDirectory::locate(&given).unwrap(), directory);
    }
}

#[test]
fn only_an_existing_team_json_refers_to_the_directory_that_contains_it() {
    let (_temp, directory, ..) = saved(10);
    let check = |path: &Path, expected: &Path, is_occupied: bool| {
        let location = StorageLocation::new(path);
        assert_eq!(location.local_paths(), [expected]);
        let vacant = location.require_vacant();
        if is_occupied {
            assert!(matches!(vacant, Err(StoreError::Occupied { .. })));
        } else {
            assert!(vacant.is_ok());
        }
    };
    let file = directory.team_json();
    std::fs::write(&file, "{}").unwrap();
    check(&file, directory.path(), true);
    check(directory.path(), directory.path(), true);
    let new = directory.path().join("fresh/team.json");
    check(&new, &new, false);
    std::fs::create_dir_all(&new).unwrap();
    check(&new, &new, false);
}

/// Creates a run where there is one already. Returns what the directory that the old one was moved
/// to contains, if it was moved.
fn replace(
    directory: &StorageDirectory,
    mode: ReplacePolicy,
) -> Result<Option<Vec<String>>, StoreError> {
    let created = directory.create(mode, &Environment::new(&team()), &definition())?;
    assert_eq!(created.lease.records(0, 10).unwrap(), []);
    Ok(created.moved_to.map(|aside| names(&aside)))
}

#[test]
fn a_fresh_run_never_replaces_an_unfinished_team_unless_told_to() {
    let (_temp, directory, records, end) = saved(50);
    assert_ne!(end.status, Status::Done);
    std::fs::write(directory.path().join("notes.txt"), "mine").unwrap();
    let before = std::fs::read(directory.team_json()).unwrap();
    let error = replace(&directory, ReplacePolicy::Never).unwrap_err();
    let advice = error.advice();
    assert!(
        matches!(advice, Some(Advice::ResumeOrReplace { .. })),
        "{error}: {advice:?}"
    );
    read_all(&directory, &records, &end).unwrap();
    assert_eq!(std::fs::read(directory.team_json()).unwrap(), before);
    assert_eq!(
        replace(&directory, ReplacePolicy::Unfinished).unwrap(),
        Some(vec!["team.db".into(), "team.json".into()])
    );
    assert_eq!(names(directory.path()), ["notes.txt", "old-1", "team.db"]);
    read_all(
        &StorageDirectory::new(directory.path().join("old-1")),
        &records,
        &end,
    )
    .unwrap();
    // A run that has not started is not finished either.
    replace(&directory, ReplacePolicy::Never).unwrap_err();
    assert_eq!(
        replace(&directory, ReplacePolicy::Unfinished).unwrap(),
        Some(vec!["team.db".into()])
    );
    assert_eq!(
        names(directory.path()),
        ["notes.txt", "old-1", "old-2", "team.db"]
    );
}

#[test]
fn only_the_oldest_teams_moved_aside_are_removed_and_none_that_is_in_use() {
    let (_temp, directory, ..) = saved(50);
    let old = |n: u32| directory.path().join(format!("old-{n}"));
    for n in 1..=KEPT_ASIDE as u32 + 3 {
        replace(&directory, ReplacePolicy::Unfinished).unwrap();
        assert!(old(n).is_dir());
    }
    assert_eq!(directory.numbered_asides(), [1, 2, 3, 4, 5, 6, 7, 8]);
    std::fs::write(old(1).join("notes.txt"), "mine").unwrap();
    let used = StorageDirectory::new(old(2)).open().unwrap();
    assert_eq!(directory.remove_oldest_aside(), [old(3)]);
    assert_eq!(names(&old(1)), ["notes.txt", "team.db", "team.json"]);
    drop(used);
    assert_eq!(directory.remove_oldest_aside(), [old(2)]);
    assert_eq!(directory.numbered_asides(), [1, 4, 5, 6, 7, 8]);
    // Numbers are not used again.
    replace(&directory, ReplacePolicy::Unfinished).unwrap();
    assert_eq!(directory.newest_aside(), Some(old(9)));
}

/// Returns the events that a database and its log have.
fn found_in(place: &Path) -> Vec<Record> {
    let temp = tempfile::tempdir().unwrap();
    copy(place, temp.path(), |name| {
        matches!(name, "team.db" | "team.db-wal")
    });
    StorageDirectory::new(temp.path())
        .open()
        .unwrap()
        .lease
        .records(0, usize::MAX)
        .unwrap()
}

#[test]
fn what_the_log_has_of_a_team_goes_aside_with_it_wherever_that_is_cut_off() {
    let (records, _) = scripted_run(&pseudorandom(3, 800), 40);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("a"));
    let mut store = directory
        .create(
            ReplacePolicy::Never,
            &Environment::new(&team()),
            &definition(),
        )
        .unwrap()
        .lease;
    store.append(&records, Durability::Full).unwrap();
    // While a reader is open, the log cannot be moved into the database.
    let reader = SqliteRows::open(&directory).unwrap();
    drop(store);
    let aside = directory.move_aside().unwrap();
    assert_eq!(
        names(&aside),
        ["team.db", "team.db-progress", "team.db-shm", "team.db-wal"]
    );
    // The database is renamed atomically, so it is in one of the two directories, and the log is in
    // both.
    assert_eq!(found_in(&aside), records);
    std::fs::rename(aside.join("team.db"), directory.database()).unwrap();
    assert_eq!(found_in(directory.path()), records);
    drop(reader);
}

#[test]
fn what_an_earlier_database_left_is_not_taken_for_the_next_ones() {
    let (records, end) = scripted_run(&pseudorandom(3, 800), 40);
    let temp = tempfile::tempdir().unwrap();
    let running = StorageDirectory::new(temp.path().join("running"));
    let base = Environment::new(&team());
    let mut store = running
        .create(ReplacePolicy::Never, &base, &definition())
        .unwrap()
        .lease;
    store.append(&records, Durability::Full).unwrap();
    let text = export(&team(), &end, &definition());
    let left = |name: &str| {
        let directory = StorageDirectory::new(temp.path().join(name));
        std::fs::create_dir(directory.path()).unwrap();
        // With `team.db-progress`, the loss would be noticed.
        copy(running.path(), directory.path(), |name| {
            ["team.db-shm", "team.db-wal"].contains(&name)
        });
        assert_eq!(names(directory.path()), ["team.db-shm", "team.db-wal"]);
        std::fs::write(directory.path().join("team.db-journal"), "half").unwrap();
        directory
    };
    let check = |directory: &StorageDirectory, store: super::SqliteLease, from: &Environment| {
        assert_eq!(
            (
                store.records(0, 10).unwrap(),
                loaded_state(&store.load(&StateSelector::Head).unwrap())
            ),
            (vec![], from.clone())
        );
        drop(store);
        let mut store = directory.open().unwrap().lease;
        store.append(&records[..1], Durability::Full).unwrap();
        assert_eq!(store.records(0, 10).unwrap(), records[..1]);
        assert!(!directory.path().join("team.db-journal").exists());
    };
    let fresh = left("fresh");
    check(
        &fresh,
        fresh
            .create(ReplacePolicy::Never, &base, &definition())
            .unwrap()
            .lease,
        &base,
    );
    // What is advised for a damaged database: to move it away and continue from the `team.json`
    // beside it.
    let moved = left("moved");
    std::fs::write(moved.team_json(), &text).unwrap();
    check(
        &moved,
        moved
            .import_team_json(text.as_bytes(), &end, &definition())
            .unwrap(),
        &end,
    );
    let given = left("given");
    given
        .place_team(&text, &end, &definition(), &Blobs::new())
        .unwrap();
    check(&given, given.open().unwrap().lease, &end);
}

#[test]
fn a_team_json_that_nobody_could_read_is_not_written_and_no_earlier_one_stays() {
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("a"));
    let mut store = directory
        .create(
            ReplacePolicy::Never,
            &Environment::new(&team()),
            &definition(),
        )
        .unwrap()
        .lease;
    let mut write = |text: &str, durability| {
        let fill: &crate::WriteContent<'_> = &|out| out.write_all(text.as_bytes());
        let file = directory.projection();
        file.write_limited(&mut store, 10, fill, durability)
            .unwrap();
        std::fs::read_to_string(directory.team_json()).ok()
    };
    assert_eq!(
        write("0123456789", Durability::Full).as_deref(),
        Some("0123456789")
    );
    assert_eq!(write("0123456789a", Durability::Full), None);
    assert_eq!(
        write("0123456789", Durability::Process).as_deref(),
        Some("0123456789")
    );
    assert_eq!(write("0123456789a", Durability::Process), None);
    assert_eq!(
        names(directory.path())
            .iter()
            .filter(|name| name.contains("json"))
            .count(),
        0
    );
    drop(store);
    assert!(!directory.open().unwrap().team_json_differs);
}

#[test]
fn a_finished_team_makes_room_by_itself() {
    let (records, end) = scripted_run(&[], 1000);
    assert_eq!(end.status, Status::Done);
    let text = export(&team(), &end, &definition());
    let base = Environment::new(&team());
    let whole = |directory: &StorageDirectory| {
        let mut store = directory
            .create(ReplacePolicy::Never, &base, &definition())
            .unwrap()
            .lease;
        store.append(&records, Durability::Full).unwrap();
        let fill: &crate::WriteContent<'_> = &|out| out.write_all(text.as_bytes());
        let file = directory.projection();
        file.write(&mut store, fill, Durability::Full).unwrap();
        store
    };
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("a"));
    drop(whole(&directory));
    assert!(replace(&directory, ReplacePolicy::Never).unwrap().is_some());

    let directory = StorageDirectory::new(temp.path().join("summed-up"));
    let mut store = whole(&directory);
    store.save_snapshot(&end).unwrap();
    drop(store);
    assert!(replace(&directory, ReplacePolicy::Never).unwrap().is_some());

    let directory = StorageDirectory::new(temp.path().join("json-alone"));
    std::fs::create_dir(directory.path()).unwrap();
    std::fs::write(directory.team_json(), &text).unwrap();
    assert!(replace(&directory, ReplacePolicy::Never).unwrap().is_some());

    // Finished, but then it was sent a message.
    let directory = StorageDirectory::new(temp.path().join("with-mail"));
    let mut store = whole(&directory);
    let mut sent = ScriptedRun::from_state(end.clone(), &[0]);
    sent.advance();
    assert!(matches!(sent.events[0], Event::MessageSent(_)));
    store
        .append(&[record(records.len(), &sent.events[0])], Durability::Full)
        .unwrap();
    drop(store);
    replace(&directory, ReplacePolicy::Never).unwrap_err();
}

#[test]
fn a_damaged_team_is_moved_aside_and_a_foreign_file_is_not() {
    let (_temp, directory, ..) = saved(50);
    let path = directory.path().join("team.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[110..middle].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    replace(&directory, ReplacePolicy::Never).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert!(
        replace(&directory, ReplacePolicy::Unfinished)
            .unwrap()
            .is_some()
    );
    assert_eq!(
        std::fs::read(directory.path().join("old-1/team.db")).unwrap(),
        bytes
    );
    std::fs::write(&path, "mine").unwrap();
    assert!(matches!(
        replace(&directory, ReplacePolicy::Unfinished),
        Err(StoreError::Foreign { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(directory.path()), ["old-1", "team.db"]);
}

/// Runs a command on a directory, and panics if it blocks.
fn without_blocking<T: Send + 'static>(
    directory: &StorageDirectory,
    command: impl FnOnce(&StorageDirectory) -> Result<T, StoreError> + Send + 'static,
) -> String {
    let (told, heard) = std::sync::mpsc::channel();
    let directory = directory.clone();
    std::thread::spawn(move || told.send(command(&directory).err().map(|error| error.to_string())));
    let said = heard
        .recv_timeout(Duration::from_secs(10))
        .expect("it says something");
    said.expect("it is refused")
}

#[test]
fn what_is_no_regular_file_is_refused_and_nobody_waits_for_it() {
    for name in ["team.db", "team.json", "team.lock", "team.db-journal"] {
        let (temp, directory) = if name == "team.json" {
            let temp = tempfile::tempdir().unwrap();
            let directory = StorageDirectory::new(temp.path());
            (temp, directory)
        } else {
            let (temp, directory, ..) = saved(10);
            (temp, directory)
        };
        let path = directory.path().join(name);
        let check = |what: &str| {
            let commands: [fn(&StorageDirectory) -> Result<(), StoreError>; 4] = [
                |directory| directory.read_team_json().map(drop),
                |directory| SqliteRows::open(directory).map(drop),
                |directory| directory.open().map(drop),
                |directory| replace(directory, ReplacePolicy::Unfinished).map(drop),
            ];
            for command in commands {
                let said = without_blocking(&directory, command);
                assert!(
                    said.contains(name) && said.contains(what) && said.contains("move it away"),
                    "{said}"
                );
            }
        };
        let _ = std::fs::remove_file(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        check("no regular file");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(temp.path().join("elsewhere"), &path).unwrap();
        check("a symbolic link");
    }
}

#[test]
fn a_creation_that_was_cut_off_leaves_an_empty_directory() {
    let temp = tempfile::tempdir().unwrap();
    for name in [
        ".team.db.new",
        ".team.db.new-journal",
        ".team.db.new-wal",
        ".team.json.new",
        "team.lock",
    ] {
        std::fs::write(temp.path().join(name), "half").unwrap();
    }
    let directory = StorageDirectory::new(temp.path());
    assert_eq!(directory.content().unwrap(), DirectoryContent::Empty);
    replace(&directory, ReplacePolicy::Never).unwrap();
    assert_eq!(directory.content().unwrap(), DirectoryContent::Database);
}

#[test]
fn who_looks_at_a_run_sees_whole_commits_while_it_is_written() {
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("store"));
    let (records, _) = scripted_run(&pseudorandom(7, 9000), 2000);
    let base = Environment::new(&team());
    let mut store = directory
        .create(ReplacePolicy::Never, &base, &definition())
        .unwrap()
        .lease;
    store.append(&records[..1], Durability::Process).unwrap();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for record in &records[1..] {
                store
                    .append(std::slice::from_ref(record), Durability::Process)
                    .unwrap();
            }
        });
        while !writer.is_finished() {
            SqliteRows::open(&directory)
                .unwrap()
                .load(&StateSelector::Head)
                .unwrap();
        }
    });
}
