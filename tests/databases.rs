//! Runs in a database: what commands do with the URL of one, who owns it, and what is said where it
//! cannot be used. Without PostgreSQL, these tests are skipped, and say so.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::live::GREETER;
use crate::postgres_server;
use crate::process::Signal;
use crate::workspace::Workspace;

/// A team with a question, and an action that fails once.
const CLERK: &str = r#"
schema = "strata.team/1"
[team]
name = "clerk"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ ask = "how many?" }, { set = "k", value = 7, scope = "role" }, { say = "{reads}" }] }
[[role.action]]
name = "Try"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }, { say = "tried: {inputs}" }] }
"#;

/// Returns the URL of a database and a name that no run in it has. `None` if there is no server.
fn database() -> Option<Database> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let n = RUNS.fetch_add(1, Ordering::Relaxed);
    Some(Database {
        url: postgres_server::database_url()?,
        run: format!("program-{}-{n}", std::process::id()),
    })
}

struct Database {
    url: &'static str,
    run: String,
}

impl Database {
    fn run(&self) -> String {
        format!("{}&run={}", self.url, self.run)
    }
}

#[test]
fn a_run_in_a_database_is_asked_answered_mended_and_finished_like_one_in_a_directory() {
    let Some(database) = database() else { return };
    check_like_in_a_directory(&database.run(), &database.run);
}

/// Checks that a run of this name, whose URL this is, does the same as one in a directory.
pub fn check_like_in_a_directory(url: &str, name: &str) {
    let place = Workspace::with(CLERK);
    let lines = |ended: &crate::process::Ended| -> Vec<String> {
        let events = ended.events();
        let kinds = events.iter().map(|event| event["kind"].to_string());
        kinds.collect()
    };
    let mut runs = Vec::new();
    for storage in ["store", url] {
        let first = place.host(&["run", "team.toml", "--storage", storage, "--events", "-"]);
        let first = first.expect(4);
        place.host(&["answer", storage, "ask-0-0-0-0=3"]).expect(0);
        let resume = ["run", "--recover_path", storage, "--events", "-"];
        let failed = place.host(&resume).expect(3);
        let done = place.host(&resume).expect(0);
        let all = place.host(&["events", storage]).expect(0);
        let checkpoints = place.host(&["checkpoints", storage]).expect(0);
        let state = place.host(&["inspect", storage, "--team-json"]).expect(0);
        let state: serde_json::Value = serde_json::from_str(&state.stdout).unwrap();
        runs.push((
            [lines(&first), lines(&failed), lines(&done), lines(&all)],
            checkpoints.stdout.lines().count(),
            state["env"]["roles"].clone(),
            state["strata"]["state"].clone(),
        ));
    }
    assert_eq!(runs[0], runs[1]);
    let finished = place.host(&["run", "--recover_path", url]).expect(0);
    assert!(finished.stderr.contains("nothing is left to run"));
    // The name can be used again.
    let again = place
        .host(&["run", "team.toml", "--storage", url])
        .expect(4);
    let former = format!("{name}.old-1");
    assert!(again.stderr.contains(&former), "{}", again.stderr);
    let unfinished = place
        .host(&["run", "team.toml", "--storage", url])
        .expect(2);
    assert!(unfinished.stderr.contains("holds an unfinished team"));
}

#[test]
fn a_run_is_forked_from_a_directory_into_a_database_and_back() {
    let Some(database) = database() else { return };
    check_forks(&database.run());
}

/// Checks that a run is forked from a directory to a URL and back.
pub fn check_forks(url: &str) {
    let place = Workspace::with(GREETER);
    place.run().expect(0);
    let into = ["fork", "store", "--at", "main-1", "--to", url];
    place.host(&into).expect(0);
    let refused = place.host(&into).expect(2);
    assert!(
        refused.stderr.contains("holds a team"),
        "{}",
        refused.stderr
    );
    let done = place.host(&["run", "--recover_path", url]).expect(0);
    assert_eq!(done.stdout, "re: hello\n");
    let lineage = place.host(&["checkpoints", url, "--json"]).expect(0);
    let rows: serde_json::Value = serde_json::from_str(&lineage.stdout).unwrap();
    let newest = rows["checkpoints"]
        .as_array()
        .unwrap_or_else(|| rows.as_array().unwrap());
    let newest = newest.last().unwrap()["id"].as_str().unwrap().to_owned();
    place
        .host(&["fork", url, "--at", &newest, "--to", "back"])
        .expect(0);
    place.host(&["inspect", "back"]).expect(0);
}

#[test]
fn a_run_has_one_owner_who_takes_messages_and_is_replaced_when_it_is_killed() {
    let Some(database) = database() else { return };
    let (place, url) = (Workspace::with(GREETER), database.run());
    let mut owner = place.start_resting_in(&url);
    let refused = place.host(&["run", "--recover_path", &url]).expect(9);
    let pid = owner.pid().to_string();
    assert!(refused.stderr.contains(&format!("in use by process {pid}")));
    let send = ["send", &url, "--cause", "UserRequirement", "more"];
    place.write("notes.md", "# note");
    let with_file = [&send[..], &["--file", "notes.md"]].concat();
    place.host(&with_file).expect(0);
    owner.until("step-committed", None);
    let shown = place.host(&["inspect", &url, "--message", "sent-0"]);
    let shown = shown.expect(0).stdout;
    assert!(
        shown.contains("notes.md [text/markdown, 6 bytes] sha256 "),
        "{shown}"
    );
    owner.kill();
    // The process is known to have ended, since it was one of this machine.
    let sent = place.host(&send).expect(0);
    assert!(sent.stderr.contains("message sent-1"), "{}", sent.stderr);
    let resumed = place.host(&["run", "--recover_path", &url]).expect(0);
    assert_eq!(resumed.stdout, "re: more\n");
}

#[test]
fn an_owner_that_was_suspended_for_too_long_records_nothing_more() {
    let Some(database) = database() else { return };
    let (place, url) = (Workspace::with(GREETER), database.run());
    let owner = place.start_resting_in(&url);
    owner.signal(Signal::STOP);
    let taken_over = place.host(&["run", "--recover_path", &url]).expect(0);
    assert!(taken_over.stderr.is_empty() || !taken_over.stderr.contains("in use"));
    let before = place.host(&["events", &url]).expect(0).stdout;
    owner.signal(Signal::CONT);
    owner.signal(Signal::INT);
    let ended = owner.end().expect(9);
    assert!(ended.stderr.contains("was taken over"), "{}", ended.stderr);
    assert_eq!(place.host(&["events", &url]).expect(0).stdout, before);
}

#[test]
fn what_is_wrong_with_a_database_is_said_without_the_password() {
    let Some(database) = database() else { return };
    let place = Workspace::with(GREETER);
    place
        .host(&["run", "team.toml", "--storage", &database.run()])
        .expect(0);
    let check = |url: &str, code: i32, expected: &str| {
        for command in [&["inspect", url][..], &["run", "--recover_path", url]] {
            let ended = place.host(command).expect(code);
            assert!(ended.stderr.contains(expected), "{url}: {}", ended.stderr);
            let all = ended.stdout + &ended.stderr;
            assert!(!all.contains("s3cret"), "{all}");
        }
    };
    let at = database.url;
    check(at, 2, "names no run; add `?run=NAME`; in it are: ");
    check(at, 2, &database.run);
    check(&format!("{at}&run=none-such"), 2, "no run `none-such` at");
    check(
        &format!("{at}&rum=x&password=s3cret"),
        2,
        "did you mean `run`?",
    );
    let other = at.replace("/postgres?", "/none_such?");
    check(
        &format!("{other}&run=x"),
        2,
        "database \"none_such\" does not exist",
    );
    check("postgres://a:s3cret@localhost:1/d?run=x", 1, "cannot reach");
    check("postgres://a:s3cret@/?run=x", 2, "it names no database");
    let doctor = place.host(&["doctor", "--database", at]);
    assert!(doctor.stdout.contains("PostgreSQL"), "{}", doctor.stdout);
}
