//! Runs that workers take from a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_core::state::environment::Environment;
use strata_postgres::Database;
use strata_postgres::{
    DatabaseWorker, RunSubmission, TestUser, open_claimed, open_reader, receive_requests,
    request_owner, submit, take_lease, tamper,
};
use strata_records::work::{
    KeptSubmission, NewSubmission, RunNeeds, RunRelease, RunSchedule, SubmissionIdentity,
    WorkerProfile,
};
use tokio::sync::Notify;

use super::{DatabaseStorage, fresh, fresh_run, replay};
use crate::tests::script::pseudorandom;
use crate::tests::script::{definition, scripted_run, team};
use crate::{
    Durability, IncomingRequest, Lease, OwnerWait, Record, RequestOutcome, Shortage, StateSelector,
    StoreError,
};

/// Puts the run of a URL into its database. Only a worker with the label takes it.
fn submit_run(url: &Database, label: &str) {
    submit_with_secrets(url, label, &[]);
}

/// Does the same with a run that names secrets.
fn submit_with_secrets(url: &Database, label: &str, secrets: &[&str]) {
    let needs = RunNeeds {
        labels: vec![label.into()],
        secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
    };
    let submission = NewSubmission {
        name: url.run().unwrap(),
        team: "team",
        base: &Environment::new(&team()),
        definition: &definition(),
        blobs: &Blobs::new(),
        files: &BTreeMap::new(),
        contents: &Blobs::new(),
        needs: &needs,
        tags: &BTreeMap::new(),
        handover: crate::Handover::Queued,
        scope: None,
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
    };
    submit(url, &submission).unwrap();
}

fn worker(url: &Database, label: &str) -> DatabaseWorker {
    worker_with_secrets(url, label, &[])
}

fn worker_with_secrets(url: &Database, label: &str, secrets: &[&str]) -> DatabaseWorker {
    let profile = WorkerProfile {
        labels: vec![label.into()],
        secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
        room: 1,
        ..WorkerProfile::default()
    };
    DatabaseWorker::open(url, &profile, &Arc::new(Notify::new())).unwrap()
}

#[test]
fn a_run_of_which_a_newer_program_records_something_else_is_left_to_that() {
    let Some(url) = fresh_run() else { return };
    let name = url.run().unwrap().to_owned();
    submit_run(&url, &name);
    let mut worker = worker(&url, &name);
    tamper(
        &url,
        "UPDATE strata.run SET format = format + 1 WHERE id = $1",
    );
    assert!(worker.claim(9).unwrap().is_empty());
    let newer = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::Newer { .. })),
            "{result:?}"
        );
    };
    newer(take_lease(&url, OwnerWait::Brief).map(drop));
    let reader = open_reader(&url).unwrap();
    newer(reader.load(&StateSelector::Head).map(drop));
    // Nothing about it was changed, so the newer program finds it as it left it.
    let run = RunSubmission::open(&url).unwrap();
    assert_eq!(run.state().unwrap().problem, None);
    tamper(
        &url,
        "UPDATE strata.run SET format = format - 1 WHERE id = $1",
    );
    assert_eq!(worker.claim(9).unwrap().len(), 1);
}

#[test]
fn only_a_run_whose_secret_no_worker_has_is_taken_to_be_refused() {
    let Some(url) = fresh_run() else { return };
    let label = url.run().unwrap().to_owned();
    let named = |secret: &str| url.with_run(&format!("{label}-{secret}"));
    // The last one is available last.
    for secret in ["HELD", "ALLOWED", "FORBIDDEN"] {
        submit_with_secrets(&named(secret), &label, &[secret]);
    }
    let mut worker = worker(&url, &label);
    let _holder = worker_with_secrets(&url, &label, &["HELD"]);
    let state = |secret: &str| {
        let run = RunSubmission::open(&named(secret)).unwrap();
        run.state().unwrap()
    };
    assert_eq!(state("HELD").shortage, None);
    let missing = Shortage::Secrets(vec!["FORBIDDEN".into()]);
    assert_eq!(state("FORBIDDEN").shortage, Some(missing));

    let is_forbidden = |name: &str| name != "ALLOWED";
    let refused = loop {
        assert!(worker.claim(9).unwrap().is_empty());
        let refused = worker.claim_forbidden(9, &is_forbidden).unwrap();
        if !refused.is_empty() {
            break refused;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let names: Vec<&str> = refused.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, [named("FORBIDDEN").run().unwrap()]);
    // One that was taken once waits for a worker that has its secret.
    let release = RunRelease {
        schedule: Some(RunSchedule::Now),
        problem: None,
        keeps_request: false,
        failure: None,
    };
    worker.release(&refused[0], &release).unwrap();
    let again = worker.claim_forbidden(9, &is_forbidden).unwrap();
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn a_run_whose_claim_was_never_answered_is_available_again() {
    let Some(url) = fresh_run() else { return };
    let name = url.run().unwrap().to_owned();
    // No other test's worker has this label.
    submit_run(&url, &name);
    let run = RunSubmission::open(&url).unwrap();
    let mut worker = worker(&url, &name);

    let first = worker.claim(9).unwrap().remove(0);
    worker.tend().unwrap();
    assert!(run.state().unwrap().is_owned);
    let release = RunRelease {
        schedule: Some(RunSchedule::Now),
        problem: None,
        keeps_request: false,
        failure: None,
    };
    worker.release(&first, &release).unwrap();

    worker.claim_without_answer().unwrap();
    assert!(run.state().unwrap().is_owned);
    assert!(worker.claim(9).unwrap().is_empty());
    worker.tend().unwrap();
    let again = worker.claim(9).unwrap().remove(0);
    assert!(again.epoch > first.epoch + 1, "{again:?}");

    // Neither does one stay with its worker that could not be released.
    let too_late = RunRelease {
        schedule: Some(RunSchedule::Later(Some(i64::MAX))),
        ..release
    };
    worker.release(&again, &too_late).unwrap_err();
    assert!(run.state().unwrap().is_owned);
    worker.tend().unwrap();
    let again = worker.claim(9).unwrap().remove(0);
    // What a team contains is no reason that it cannot be released.
    let problem = RunRelease::refused("a \0 in a name".into());
    worker.release(&again, &problem).unwrap();
    assert_eq!(
        run.state().unwrap().problem.as_deref(),
        Some("a \u{fffd} in a name")
    );
}

/// Answers a request with its own body.
fn echo(incoming: IncomingRequest) -> BoxFuture<'static, RunReply> {
    let status = ReplyStatus::Done;
    let body = incoming.request.body;
    Box::pin(async move { RunReply { status, body } })
}

/// Changes a run in each way in which a run changes that goes on.
fn work_on(lease: &mut dyn Lease, records: &[Record]) {
    for (n, some) in records.chunks(10).enumerate() {
        lease.append(some, Durability::Full).unwrap();
        let bytes: Arc<[u8]> = n.to_string().into_bytes().into();
        let blobs = Blobs::from([(digest_of(&bytes), bytes)]);
        lease.put_blobs(&blobs).unwrap();
        let so_far = replay(&records[..n * 10 + some.len()]);
        lease.save_snapshot(&so_far).unwrap();
        lease.keep_checkpoints(3).unwrap();
    }
}

#[test]
fn a_process_uses_six_connections_however_many_runs_it_has() {
    const CLAIMED: usize = 40;
    const MAX_CONNECTIONS: i64 = 6;
    let Some(url) = fresh_run() else { return };
    let user = TestUser::create(&url);
    let label = url.run().unwrap().to_owned();
    let run = |n: usize| user.database.with_run(&format!("{label}-{n}"));
    for n in 0..CLAIMED {
        submit_run(&run(n), &label);
    }
    let mut worker = worker(&user.database, &label);
    let claimed = worker.claim(CLAIMED).unwrap();
    assert_eq!(claimed.len(), CLAIMED);
    let mut leases: Vec<Box<dyn Lease>> = Vec::new();
    let mut mailboxes = Vec::new();
    for one in &claimed {
        leases.push(Box::new(open_claimed(&user.database, one).unwrap()));
        let url = user.database.with_run(&one.name);
        let epoch = leases[leases.len() - 1].epoch();
        mailboxes.push(receive_requests(&url, epoch, Arc::new(echo)).unwrap());
    }
    // One that no worker took has a heartbeat of its own.
    leases.push(Box::new(
        DatabaseStorage::at(run(CLAIMED), &fresh()).lease.unwrap(),
    ));
    let (records, _) = scripted_run(&pseudorandom(38, 3000), 30);
    let working = AtomicUsize::new(leases.len());
    std::thread::scope(|scope| {
        for lease in &mut leases {
            let (records, working) = (&records, &working);
            scope.spawn(move || {
                work_on(lease.as_mut(), records);
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        // The heartbeat's connection is opened for its first beat.
        let mut most = 0;
        while most < MAX_CONNECTIONS || working.load(Ordering::Relaxed) > 0 {
            most = user.connections().max(most);
            assert!(most <= MAX_CONNECTIONS, "{most}");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    for one in &claimed {
        let request = RunRequest {
            operation: RunOperation::Send,
            body: one.name.clone(),
        };
        let replied = request_owner(&user.database.with_run(&one.name), &request);
        let is_echo = matches!(&replied, RequestOutcome::Replied(reply) if reply.body == one.name);
        assert!(is_echo, "{replied:?}");
    }
    assert!(user.connections() <= MAX_CONNECTIONS);
}
