//! The runs at a location are listed in the same way wherever they are kept.

use strata_core::record::event::Status;
use strata_core::state::environment::Environment;

#[cfg(feature = "postgres")]
use super::{DatabaseStorage, fresh_run};
use super::{FileStorage, SharedStorage, TestStorage, fresh};
use crate::sqlite_url::SqliteUrl;
use crate::tests::script::pseudorandom;
use crate::tests::script::scripted_run;
use crate::{Durability, ListedRun, Record, StorageLocation};

/// How many runs are listed at most.
const LIMIT: usize = 1000;

/// Returns the events of a run that ends, and the state at its end.
fn ended_run() -> (Vec<Record>, Environment) {
    for seed in 1.. {
        let (records, end) = scripted_run(&pseudorandom(seed, 3000), 60);
        if end.status != Status::Running {
            return (records, end);
        }
    }
    unreachable!("one of them ends");
}

/// Returns the run at a location that has one at most.
fn listed(location: &StorageLocation) -> Option<ListedRun> {
    let mut runs = location.list(LIMIT).unwrap();
    assert!(runs.len() < 2, "{runs:?}");
    runs.pop()
}

/// Checks that the status of a run is listed while it goes on, when it has ended, and when it is opened
/// again.
fn check_status(storage: &mut dyn TestStorage, location: &StorageLocation, name: &str) {
    let run = listed(location).unwrap();
    assert_eq!(
        (run.name.as_str(), run.status),
        (name, Some(Status::Running))
    );
    assert_eq!(&run.location, location);
    let (records, end) = ended_run();
    storage
        .lease()
        .append(&records, Durability::Process)
        .unwrap();
    assert_eq!(listed(location).unwrap().status, Some(end.status));
    storage.lease().save_snapshot(&end).unwrap();
    storage.reopen();
    let again = listed(location).unwrap();
    assert_eq!((again.key, again.status), (run.key, Some(end.status)));
}

#[test]
fn the_run_of_a_directory_is_listed() {
    let mut storage = FileStorage::new(&fresh());
    let location = StorageLocation::new(storage.directory.path());
    check_status(&mut storage, &location, "team");
    assert_eq!(listed(&location).unwrap().key, 1);
}

#[test]
fn the_runs_of_a_database_file_are_listed() {
    let mut storage = SharedStorage::new(&fresh());
    let location = StorageLocation::of_shared(storage.url.clone());
    check_status(&mut storage, &location, "run");
    let url = SqliteUrl {
        run: None,
        ..storage.url.clone()
    };
    let whole = StorageLocation::of_shared(url.clone());
    let all = whole.list(LIMIT).unwrap();
    let names: Vec<&str> = all.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["run", "other"]);
    assert_eq!(whole.list(1).unwrap(), all[..1]);
    let check_none = |url: SqliteUrl| {
        assert_eq!(listed(&StorageLocation::of_shared(url)), None);
    };
    check_none(url.with_run("another"));
    check_none(SqliteUrl {
        file: url.file.with_file_name("absent"),
        ..url
    });
}

#[test]
fn a_directory_without_a_run_has_none() {
    let temp = tempfile::tempdir().unwrap();
    let check = |name: &str| {
        let location = StorageLocation::new(temp.path().join(name));
        assert_eq!(listed(&location), None, "{name}");
    };
    check("absent");
    check(".");
    std::fs::write(temp.path().join("other"), "").unwrap();
    check(".");
}

#[test]
fn a_file_alone_is_listed_with_its_status() {
    let check = |text: &str, status: Option<Status>| {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("team.json"), text).unwrap();
        let run = listed(&StorageLocation::new(temp.path())).unwrap();
        assert_eq!(run.status, status, "{text}");
    };
    check(
        "{\"strata\":{\"status\":\"waiting\"}}",
        Some(Status::Waiting),
    );
    check("{\"idea\":\"of MetaGPT\"}", Some(Status::Running));
    check("{", None);
}

#[cfg(feature = "postgres")]
#[test]
fn the_runs_of_a_database_are_listed() {
    let Some(url) = fresh_run() else { return };
    let name = url.run().unwrap().to_owned();
    let location = StorageLocation::of_database(url.clone());
    assert_eq!(listed(&location), None);
    let mut storage = DatabaseStorage::at(url.clone(), &fresh());
    check_status(&mut storage, &location, &name);

    let _other = DatabaseStorage::at(url.with_run(&format!("{name}-newer")), &fresh());
    let whole = StorageLocation::of_database(url.whole());
    // Other tests create runs at the same time.
    let all = whole.list(LIMIT).unwrap();
    let ours: Vec<&str> = all
        .iter()
        .map(|run| run.name.as_str())
        .filter(|one| one.starts_with(&name))
        .collect();
    assert_eq!(ours, [&format!("{name}-newer"), &name]);
    assert_eq!(whole.list(1).unwrap().len(), 1);
}
