//! Submitted runs that no worker has taken: they are ended, suspended and written to like others, and begin
//! once; and what becomes of those that name secrets. Without PostgreSQL, most of these tests are skipped, and
//! say so.

use serde_json::Value;
use strata_core::state::environment::Environment;
use strata_host::blob::Blobs;
use strata_host::manifest::Definition;
use strata_host::storage::{ReplacePolicy, SavedDefinition, StorageLocation};

use crate::live::GREETER;
use crate::process::{Ended, Process};
use crate::stream;
use crate::workers::{Pool, stop_workers, wait_until};
use crate::workspace::Workspace;

/// Checks the status of a run that `inspect` shows.
fn assert_status(place: &Workspace, run: &str, status: &str) {
    let shown = place.host(&["inspect", run]).expect(0).stdout;
    assert!(shown.contains(status), "{shown}");
}

/// Returns the recorded events of a run.
fn events(place: &Workspace, run: &str) -> Vec<Value> {
    place.host(&["events", run]).expect(0).events()
}

/// Returns the ids of the messages that were sent to roles, in their order.
fn routed(events: &[Value]) -> Vec<&str> {
    let routed = stream::of_kind(events, "message-routed").into_iter();
    routed.filter_map(|line| line["id"].as_str()).collect()
}

fn assert_says(ended: &Ended, part: &str) {
    assert!(ended.stderr.contains(part), "{part}\n{}", ended.stderr);
}

#[test]
fn a_run_that_nobody_has_taken_is_ended_and_suspended_and_begins_once() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(GREETER), Workspace::empty());
    let waiting = pool.submit(&place, "cancelled", &["--wait"]);
    let url = pool.run("cancelled");
    wait_until(|| elsewhere.host(&["inspect", &url]).code == Some(0));
    elsewhere.host(&["cancel", &url]).expect(0);
    waiting.end().expect(12);
    assert_status(&elsewhere, &url, "cancelled");

    pool.submit(&place, "paused", &[]).end().expect(0);
    let url = pool.run("paused");
    elsewhere.host(&["pause", &url]).expect(0);
    assert_status(&elsewhere, &url, "paused");
    let resumed = elsewhere.host(&["resume", &url]).expect(0);
    // Workers of other tests may be there, which do not have its label.
    assert_says(&resumed, "no worker is there that");
    assert!(!resumed.stderr.contains("a worker continues"));
    let worker = pool.worker(&elsewhere, &[]);
    pool.until_event(&elsewhere, "paused", "\"status\":\"done\"");
    pool.until_rest("paused");
    let recorded = events(&elsewhere, &url);
    assert_eq!(stream::of_kind(&recorded, "run-started").len(), 1);
    assert_eq!(routed(&recorded)[0], "idea");
    let repeated = routed(&recorded).iter().filter(|id| **id == "idea").count();
    assert_eq!(repeated, 1, "{recorded:?}");
    assert!(stream::of_kind(&recorded, "component-changed").is_empty());

    // A run that is done is neither continued nor suspended.
    let resumed = elsewhere.host(&["resume", &url]).expect(0);
    assert_says(&resumed, "is done, so there is nothing to continue");
    let suspended = elsewhere.host(&["pause", &url]).expect(2);
    assert_says(&suspended, "nothing to suspend");
    stop_workers([worker]);
}

#[test]
fn a_message_to_a_run_that_nobody_has_taken_follows_its_idea() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(GREETER), Workspace::empty());
    pool.submit(&place, "early", &[]).end().expect(0);
    let url = pool.run("early");
    for text in ["first", "second"] {
        let send = ["send", &url, "--cause", "UserRequirement", text];
        let sent = elsewhere.host(&send).expect(0);
        assert_says(&sent, "no worker is there that");
        assert_says(&sent, "is in the mailbox of A");
    }
    let worker = pool.worker(&elsewhere, &[]);
    pool.until_event(&elsewhere, "early", "\"status\":\"done\"");
    let recorded = events(&elsewhere, &url);
    assert_eq!(routed(&recorded)[..3], ["idea", "sent-0", "sent-1"]);
    let finished = stream::of_kind(&recorded, "action-finished");
    assert_eq!(finished.len(), 1, "{recorded:?}");
    stop_workers([worker]);
}

#[test]
fn a_run_in_a_directory_that_was_killed_before_it_began_is_suspended_and_begins_once() {
    let place = Workspace::with(GREETER);
    let base = place.path("team.toml").parent().unwrap().to_owned();
    let team = Definition::parse_without_files(GREETER, "team.toml", &base).unwrap();
    let mut env = Environment::new(&team.team);
    env.idea = "hello".into();
    let definition = SavedDefinition {
        name: "team.toml".into(),
        base,
        text: GREETER.into(),
        components: Vec::new(),
    };
    let location = StorageLocation::from(place.path("store"));
    let blobs = Blobs::new();
    let prepared = location.prepare(&env, &definition, &blobs).unwrap();
    let vacant = prepared.vacate(ReplacePolicy::Never).unwrap();
    drop(vacant.create().unwrap());

    let sent = place.host(&["send", "store", "--cause", "UserRequirement", "more"]);
    assert_says(&sent.expect(2), "was killed before it began");
    place.host(&["pause", "store"]).expect(0);
    assert_status(&place, "store", "paused");
    let resumed = place.host(&["run", "--recover_path", "store"]).expect(0);
    assert_eq!(resumed.stdout, "re: hello\n");
    let recorded = events(&place, "store");
    assert_eq!(stream::of_kind(&recorded, "run-started").len(), 1);
    assert_eq!(routed(&recorded)[0], "idea");
}

/// A team that names a secret.
fn secretive() -> String {
    format!("{GREETER}[role.action.allow]\nsecrets = [\"TOKEN\"]\n")
}

#[test]
fn a_run_whose_secret_no_worker_has_is_refused_with_a_list() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(&secretive()), Workspace::empty());
    let without_policy = pool.worker(&elsewhere, &[]);
    let refused = pool.submit(&place, "granted", &["--wait"]).end().expect(2);
    assert_says(&refused, "no worker is there that has the secret `TOKEN`");
    assert_says(
        &refused,
        "may use nothing of this worker that its operator has not allowed",
    );
    stop_workers([without_policy]);

    // One of a model, and a policy that grants something else.
    let model = "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\napi_key = { env = \"TOKEN\" }\n[[role]]\n";
    place.write("team.toml", GREETER.replacen("[[role]]\n", model, 1));
    elsewhere.write(
        "policy.toml",
        "schema = \"strata.policy/1\"\n[allow]\nsecrets = [\"OTHER\"]\n",
    );
    let with_policy = pool.worker(&elsewhere, &["--policy", "policy.toml"]);
    let refused = pool.submit(&place, "model", &["--wait"]).end().expect(2);
    assert_says(&refused, "use the secret `TOKEN`");
    stop_workers([with_policy]);
}

#[test]
fn a_run_with_a_secret_is_left_to_the_worker_that_has_it() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(&secretive()), Workspace::empty());
    elsewhere.write(
        "policy.toml",
        "schema = \"strata.policy/1\"\n[allow]\nsecrets = [\"TOKEN\"]\n",
    );
    let without_policy = pool.worker(&elsewhere, &[]);
    let without_value = {
        let mut command = pool.worker_command(&elsewhere, &["--policy", "policy.toml"]);
        command.env("TOKEN", "");
        Process::spawn(command)
    };
    let waiting = pool.submit(&place, "left", &["--wait"]);
    let holder = {
        let mut command = pool.worker_command(&elsewhere, &["--policy", "policy.toml"]);
        command.env("TOKEN", "value");
        Process::spawn(command)
    };
    assert_eq!(waiting.end().expect(0).stdout, "re: hello\n");
    stop_workers([without_policy, without_value, holder]);
}

#[test]
fn whoever_submitted_a_run_may_run_it_without_asking() {
    let Some(pool) = Pool::new() else { return };
    let team = format!("{GREETER}[role.action.allow]\nenv = [\"LANG\"]\n");
    let (place, elsewhere) = (Workspace::with(&team), Workspace::empty());
    pool.submit(&place, "own", &[]).end().expect(0);
    let recover = ["run", "--recover_path", &pool.run("own")];
    let mut stranger = elsewhere.command(&recover);
    stranger.env("XDG_STATE_HOME", elsewhere.path("state"));
    let refused = Process::spawn(stranger).end().expect(2);
    assert_says(&refused, "read the variable `LANG`");
    let own = elsewhere.host(&recover).expect(0);
    assert_eq!(own.stdout, "re: hello\n");
}
