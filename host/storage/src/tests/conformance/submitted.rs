//! Runs that were submitted to a database file: what is listed of one is what its state is, whatever happens to its owners
//! and to the file; and what is set for the file as a whole.

use std::collections::BTreeMap;

use strata_base::clock::now_ms;
use strata_base::files::blob::Blobs;
use strata_core::record::event::Status;
use strata_core::state::environment::Environment;
use strata_records::work::{NewSubmission, RunNeeds, SubmissionIdentity};

use super::super::script::{copy, definition, pseudorandom, scripted_run, team};
use super::random_scripts::{append_with_state, check_listed};
use super::{SharedStorage, TestStorage, fresh, loaded_state};
use crate::sqlite::shared;
use crate::sqlite_url::SqliteUrl;
use crate::{
    Durability, Handover, Intake, Lease, LifecycleState, ReplacePolicy, Retention, RunDatabase,
    RunFilter, StateSelector, StorageLocation, StoreError, WorkerProfile, has_ended,
};

/// Submits the run of a URL.
fn submit(url: &SqliteUrl) -> Result<(), StoreError> {
    shared::submit(
        url,
        &NewSubmission {
            name: url.run.as_deref().unwrap(),
            team: &team().name,
            base: &fresh(),
            definition: &definition(),
            blobs: &Blobs::new(),
            files: &BTreeMap::new(),
            contents: &Blobs::new(),
            needs: &RunNeeds::default(),
            tags: &BTreeMap::new(),
            handover: Handover::Queued,
            scope: None,
            identity: SubmissionIdentity::unserved(),
            resume_note: None,
            records: &[],
        },
    )
}

impl SharedStorage {
    /// Submits a run to a database file, and takes it.
    pub(super) fn submitted() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let url = SqliteUrl {
            file: temp.path().join("runs.db"),
            run: Some("run".into()),
        };
        submit(&url).unwrap();
        Self {
            lease: Some(shared::take_lease(&url).unwrap()),
            url,
            run: 1,
            _other: None,
            temp,
        }
    }

    /// Continues with the files as a kill leaves them.
    fn be_killed(&mut self) {
        let left = tempfile::tempdir().unwrap();
        copy(self.temp.path(), left.path(), |_| true);
        drop(self.lease.take());
        self.url.file = left.path().join("runs.db");
        self.temp = left;
        self.lease = Some(shared::take_lease(&self.url).unwrap());
    }

    /// Continues after the file was restored from a backup.
    fn be_restored(&mut self) {
        drop(self.lease.take());
        assert_eq!(shared::fence(&self.url).unwrap().runs, 1);
        self.lease = Some(shared::take_lease(&self.url).unwrap());
    }
}

#[test]
fn a_submitted_run_in_a_file_is_listed_as_it_is_after_kills_take_overs_and_restores() {
    let mut storage = SharedStorage::submitted();
    let (records, _) = scripted_run(&pseudorandom(72, 3000), 160);
    for (n, some) in records.chunks(10).enumerate() {
        match n % 4 {
            1 => storage.be_killed(),
            2 => {
                let next = storage.take_over();
                let refused = append_with_state(storage.lease(), some, Durability::Full);
                assert!(
                    matches!(refused, Err(StoreError::Fenced { .. })),
                    "{refused:?}"
                );
                drop(next);
                storage.reopen();
            }
            3 => storage.be_restored(),
            _ => {}
        }
        append_with_state(storage.lease(), some, Durability::Full).unwrap();
        assert!(check_listed(&mut storage), "after {n} appends");
        let location = storage.location().unwrap();
        let run = location
            .list_overviews(&RunFilter::default())
            .unwrap()
            .remove(0);
        assert_eq!(run.state, LifecycleState::Running);
        assert_eq!(
            run.owner.unwrap().worker,
            std::process::id().to_string(),
            "after {n} appends"
        );
    }
}

#[test]
fn a_file_that_is_closed_gets_no_runs_in_any_way_and_a_restored_one_another_name() {
    let storage = SharedStorage::submitted();
    let database = RunDatabase::in_file(&storage.url.file);
    let before = database.prepare().unwrap();
    assert_eq!(before.intake, Intake::Open);
    database.set_intake(Intake::Closed).unwrap();
    assert_eq!(database.prepare().unwrap().intake, Intake::Closed);
    let other = storage.url.with_run("other");
    let closed = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::Closed { .. })),
            "{result:?}"
        );
    };
    closed(submit(&other));
    closed(shared::vacate(&other, ReplacePolicy::Never).map(drop));
    closed(shared::place_run(
        &other,
        &fresh(),
        &definition(),
        &Blobs::new(),
    ));
    // What is in there goes on.
    let SharedStorage {
        lease, url, temp, ..
    } = storage;
    drop(lease);
    drop(shared::take_lease(&url).unwrap());
    database.set_intake(Intake::Open).unwrap();
    submit(&other).unwrap();
    let fenced = database.fence().unwrap();
    assert_eq!(fenced.runs, 2);
    assert_ne!(fenced.incarnation, before.incarnation);
    assert_eq!(database.prepare().unwrap().incarnation, fenced.incarnation);
    drop(temp);
    let absent = RunDatabase::in_file(&url.file).fence();
    assert!(
        matches!(absent, Err(StoreError::Absent { .. })),
        "{absent:?}"
    );
}

#[test]
fn who_deleted_a_run_of_a_file_is_said_when_somebody_looks_for_it() {
    let SharedStorage {
        lease, url, temp, ..
    } = SharedStorage::submitted();
    drop(lease);
    let location = StorageLocation::new(url.to_path());
    location.delete_run(Some("Anna")).unwrap();
    let gone = location.list_overviews(&RunFilter::default()).unwrap_err();
    let StoreError::NoRun {
        deleted: Some(deleted),
        ..
    } = &gone
    else {
        panic!("{gone:?}")
    };
    assert_eq!(deleted.by, "Anna");
    assert!(now_ms() - deleted.at_ms < 60_000, "{deleted:?}");
    assert!(gone.to_string().contains(": Anna deleted it at "), "{gone}");
    // The name is free again.
    submit(&url).unwrap();
    location.delete_run(None).unwrap();
    drop(temp);
}

#[test]
fn runs_of_a_file_that_were_never_submitted_are_kept_no_longer_than_others() {
    let temp = tempfile::tempdir().unwrap();
    let url = |run: &str| SqliteUrl {
        file: temp.path().join("runs.db"),
        run: Some(run.into()),
    };
    let mut runs = (1..100).map(|seed| scripted_run(&pseudorandom(seed, 3000), 60));
    let is_over = |end: &Environment| has_ended(end.status) && end.open_requests().count() == 0;
    let (records, end) = runs.find(|(_, end)| is_over(end)).unwrap();
    let unfinished = &records[..records.len() - 1];
    for (run, records, status) in [
        ("ended", &records[..], end.status),
        ("goes-on", unfinished, Status::Running),
    ] {
        let vacant = shared::vacate(&url(run), ReplacePolicy::Never).unwrap();
        let mut lease = vacant
            .create(&fresh(), &definition(), &Blobs::new())
            .unwrap();
        append_with_state(&mut lease, records, Durability::Full).unwrap();
        let saved = lease.load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved).status, status);
    }
    let database = RunDatabase::in_file(&temp.path().join("runs.db"));
    let mut worker = database
        .register(&WorkerProfile::default(), &Default::default())
        .unwrap();
    assert_eq!(worker.sweep().unwrap(), 0);
    drop(worker);
    let kept = Retention::parse(&format!("{}=0s", end.status.name())).unwrap();
    database.set_retention(&kept).unwrap();
    let mut worker = database
        .register(&WorkerProfile::default(), &Default::default())
        .unwrap();
    assert_eq!(worker.sweep().unwrap(), 1);
    let left = database.all_runs().list_overviews(&RunFilter::default());
    let names: Vec<String> = left.unwrap().into_iter().map(|run| run.name).collect();
    assert_eq!(names, ["goes-on"]);
}
