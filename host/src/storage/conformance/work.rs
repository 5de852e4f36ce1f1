//! Runs that workers take from a database.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::state::environment::Environment;
use tokio::sync::Notify;

use super::fresh_run;
use crate::blob::Blobs;
use crate::storage::postgres::{DatabaseWorker, RunSubmission, submit};
use crate::storage::script::{definition, team};
use crate::storage::work::{NewSubmission, RunNeeds, RunRelease, RunSchedule, WorkerProfile};

#[test]
fn a_run_whose_claim_was_never_answered_is_available_again() {
    let Some(url) = fresh_run() else { return };
    let name = url.run.clone().unwrap();
    // No other test's worker has this label.
    let labels = vec![name.clone()];
    let needs = RunNeeds {
        labels: labels.clone(),
        ..RunNeeds::default()
    };
    let submission = NewSubmission {
        name: &name,
        base: &Environment::new(&team()),
        definition: &definition(),
        blobs: &Blobs::new(),
        files: &BTreeMap::new(),
        contents: &Blobs::new(),
        needs: &needs,
    };
    submit(&url, &submission).unwrap();
    let run = RunSubmission::open(&url).unwrap();
    let profile = WorkerProfile {
        labels,
        ..WorkerProfile::default()
    };
    let mut worker = DatabaseWorker::open(&url, &profile, &Arc::new(Notify::new())).unwrap();

    let first = worker.claim(9).unwrap().remove(0);
    worker.tend().unwrap();
    assert!(run.state().unwrap().is_owned);
    let release = RunRelease {
        schedule: Some(RunSchedule::Now),
        problem: None,
        keeps_request: false,
    };
    worker.release(&first, &release).unwrap();

    worker.claim_without_answer().unwrap();
    assert!(run.state().unwrap().is_owned);
    assert!(worker.claim(9).unwrap().is_empty());
    worker.tend().unwrap();
    let again = worker.claim(9).unwrap().remove(0);
    assert!(again.epoch > first.epoch + 1, "{again:?}");
}
