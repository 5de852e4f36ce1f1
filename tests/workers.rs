//! Workers: they run submitted teams of which they have no file, continue those of dead workers, and
//! leave alone what has ended. Without PostgreSQL, these tests are skipped, and say so.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use strata_host::storage::{RunDatabase, RunSchedule, StorageLocation};

use crate::live::GREETER;
use crate::postgres_server;
use crate::process::{Process, Signal};
use crate::stream;
use crate::workspace::Workspace;

/// How long a state is waited for. A worker is taken for dead after ten seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A database, and a label that only the workers and the runs of one test have.
pub struct Pool {
    pub url: String,
    pub label: String,
}

impl Pool {
    /// Returns a pool that no other test uses. `None` if there is no server.
    pub fn new() -> Option<Self> {
        postgres_server::database_url().map(Self::in_database)
    }

    /// Returns a pool in a database.
    pub fn in_database(url: &str) -> Self {
        static POOLS: AtomicU32 = AtomicU32::new(0);
        let n = POOLS.fetch_add(1, Ordering::Relaxed);
        Self {
            url: url.to_owned(),
            label: format!("pool-{}-{n}", std::process::id()),
        }
    }

    /// Returns the name of a run that no other test has.
    pub fn name(&self, run: &str) -> String {
        format!("{}-{run}", self.label)
    }

    /// Returns the URL of a run.
    pub fn run(&self, run: &str) -> String {
        format!("{}&run={}", self.url, self.name(run))
    }

    /// Returns where a run is kept.
    pub fn location(&self, run: &str) -> StorageLocation {
        RunDatabase::parse(&self.url)
            .unwrap()
            .location(&self.name(run))
    }

    /// Starts a worker in a directory.
    pub fn worker(&self, place: &Workspace, more: &[&str]) -> Process {
        Process::spawn(self.worker_command(place, more))
    }

    /// Returns the command that starts a worker in a directory.
    pub fn worker_command(&self, place: &Workspace, more: &[&str]) -> Command {
        let first = ["worker", "--database", &self.url, "--label", &self.label];
        place.command(&[&first, more].concat())
    }

    /// Submits the team of a directory, and returns the process, which may wait.
    pub fn submit(&self, place: &Workspace, run: &str, more: &[&str]) -> Process {
        let name = self.name(run);
        let first = [
            "submit",
            "team.toml",
            "--database",
            &self.url,
            "--needs",
            &self.label,
            "--name",
            &name,
        ];
        place.start(&[&first, more].concat())
    }

    /// Waits until the recorded events of a run contain a text.
    pub fn until_event(&self, place: &Workspace, run: &str, part: &str) {
        let url = self.run(run);
        wait_until(|| place.host(&["events", &url]).stdout.contains(part));
    }

    /// Waits until no worker has a run or is to take it now.
    pub fn until_rest(&self, run: &str) {
        let location = self.location(run);
        wait_until(|| {
            let state = location.submission_state().unwrap().unwrap();
            !state.is_owned && state.schedule != Some(RunSchedule::Now)
        });
    }
}

/// Stops workers, and waits for their end.
pub fn stop_workers(workers: impl IntoIterator<Item = Process>) {
    for worker in workers {
        worker.signal(Signal::TERM);
        worker.end().expect(0);
    }
}

/// Waits until something is the case.
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it did not become so");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A team that needs files: replies, a schema, and a directory from which it reads and to which it
/// writes.
const READER: &str = r#"
schema = "strata.team/1"
[team]
name = "reader"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Read"
component = "probe.wasm"
output_schema = "schema/out.json"
config = { steps = [{ read = "/in/a.txt" }, { llm = "q" }, { write = "/in/b.txt", text = "written" }, { say = "{reads}", data = {} }] }
[role.action.allow]
llm = { models = ["*"] }
dirs = [{ host = "in", guest = "/in", write = true }]
[[role]]
name = "B"
watch = ["Read"]
[[role.action]]
name = "Again"
component = "probe.wasm"
config = { steps = [{ sleep = "60s", attempts = [1] }, { read = "/in/b.txt" }, { say = "{inputs} {reads}" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in" }]
"#;

fn reader() -> Workspace {
    let place = Workspace::with(READER);
    place.write("in/a.txt", "from the file");
    place.write("replies.toml", "[[reply]]\ntext = \"from the model\"\n");
    place.write("schema/out.json", "{}");
    place
}

/// A team whose action is still running when a test does something about it.
pub fn slow_greeter() -> String {
    greeter_after("sleep = \"60s\", attempts = [1]")
}

/// A team whose action begins with this step.
pub fn greeter_after(step: &str) -> String {
    GREETER.replace("steps = [", &format!("steps = [{{ {step} }}, "))
}

/// A team that asks, then fails once, then says what it was told.
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
config = { steps = [{ ask = "how many?" }, { say = "{reads}" }] }
[[role.action]]
name = "Try"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }, { say = "tried: {inputs}" }] }
"#;

#[test]
fn a_worker_runs_a_team_of_which_it_has_no_file_and_another_continues_it() {
    let Some(pool) = Pool::new() else { return };
    let (place, first, second) = (reader(), Workspace::empty(), Workspace::empty());
    // What is locked is so wherever the team runs.
    place.host(&["lock", "team.toml"]).expect(0);
    let waiting = pool.submit(&place, "reader", &["--wait"]);
    let killed = pool.worker(&first, &[]);
    // Its workspace goes with it.
    wait_until(|| {
        let events = second.host(&["events", &pool.run("reader")]).stdout;
        events.matches("action-started").count() == 2
    });
    killed.kill();
    let next = pool.worker(&second, &[]);
    let done = waiting.end().expect(0);
    assert_eq!(done.stdout, "from the file,from the model written\n");
    next.signal(Signal::TERM);
    next.end().expect(0);
    let submission = pool.location("reader").open_submission().unwrap().unwrap();
    let files = submission.files().unwrap();
    assert!(files.contains_key("team/strata.lock"), "{files:?}");
    let events = second.host(&["events", &pool.run("reader")]).expect(0);
    let events = stream::parse(&events.stdout);
    let started = stream::of_kind(&events, "action-started");
    let read = started.iter().filter(|line| line["action"] == "Read");
    assert_eq!(read.count(), 1, "what had finished was not run again");
    let kept: Vec<_> = std::fs::read_dir(second.path("workspaces"))
        .unwrap()
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn a_run_that_waits_has_no_owner_and_goes_on_when_it_is_answered_and_ends_once() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(CLERK), Workspace::empty());
    let worker = pool.worker(&elsewhere, &[]);
    let asked = pool.submit(&place, "clerk", &["--wait"]).end().expect(4);
    assert!(asked.stderr.contains("how many?"), "{}", asked.stderr);
    let url = pool.run("clerk");
    let holder = elsewhere.host(&["inspect", &url]).expect(0).stdout;
    assert!(holder.contains("waiting"), "{holder}");
    elsewhere.host(&["answer", &url, "ask-0-0-0-0=3"]).expect(0);
    pool.until_event(&elsewhere, "clerk", "\"status\":\"failed\"");
    pool.until_rest("clerk");
    // It failed, so it is continued when somebody asks for it, and only then.
    let failed = elsewhere.host(&["events", &url]).expect(0).stdout;
    assert_eq!(failed.matches("action-failed").count(), 1, "{failed}");
    elsewhere.host(&["resume", &url]).expect(0);
    pool.until_event(&elsewhere, "clerk", "\"status\":\"done\"");
    pool.until_rest("clerk");
    // A message continues a run that is done.
    let send = ["send", &url, "--cause", "UserRequirement", "more"];
    elsewhere.host(&send).expect(0);
    pool.until_event(&elsewhere, "clerk", "ask-1-0-0-0");
    worker.signal(Signal::TERM);
    worker.end().expect(0);
}

/// A team of what is no component file: source in directories, which needs no build, and a built-in
/// component.
const SOURCES: &str = r#"
schema = "strata.team/1"
[team]
name = "sources"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Python"
component = "python"
[[role.action]]
name = "JavaScript"
component = "javascript"
[[role]]
name = "B"
watch = ["JavaScript"]
[[role.action]]
name = "Builtin"
component = "builtin:probe"
config = { steps = [{ say = "{inputs}, built in" }] }
"#;

/// Creates a directory with the team and the source.
fn sources() -> Workspace {
    let place = Workspace::with(SOURCES);
    let files = [
        (
            "python/action.py",
            "from strata_action import Context, action\nfrom lib.words import word\n\n@action\ndef work(cx: Context):\n    return f'{cx.text} {word}'\n",
        ),
        ("python/lib/words.py", "word = 'python'\n"),
        ("python/test_action.py", "1 +\n"),
        ("javascript/package.json", "{ \"name\": \"js\" }\n"),
        (
            "javascript/src/action.ts",
            "import { word } from \"./words\";\nexport default { run: (cx: { text: string }) => `${cx.text} ${word}` };\n",
        ),
        (
            "javascript/src/words.ts",
            "export const word: string = \"typescript\";\n",
        ),
    ];
    for (name, text) in files {
        place.write(name, text);
    }
    // Setting up the interpreters takes longer than a run may.
    place.command(&["check", "team.toml"]).output().unwrap();
    place
}

#[test]
fn source_that_needs_no_build_and_built_in_components_are_submitted_with_a_team() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (sources(), Workspace::empty());
    for (run, locks) in [("open", false), ("locked", true)] {
        if locks {
            place.host(&["lock", "team.toml"]).expect(0);
        }
        pool.submit(&place, run, &[]).end().expect(0);
    }
    for directory in ["python", "javascript"] {
        std::fs::remove_dir_all(place.path(directory)).unwrap();
    }
    let worker = pool.worker(&elsewhere, &[]);
    for run in ["open", "locked"] {
        pool.until_rest(run);
        let events = elsewhere.host(&["events", &pool.run(run)]).expect(0);
        let said = "go python typescript, built in";
        assert!(events.stdout.contains(said), "{}", events.stdout);
    }
    stop_workers([worker]);
}

#[test]
fn a_worker_that_is_stopped_gives_its_runs_to_others() {
    let Some(pool) = Pool::new() else { return };
    let team = slow_greeter();
    let (place, elsewhere) = (Workspace::with(&team), Workspace::empty());
    let first = pool.worker(&elsewhere, &[]);
    let waiting = pool.submit(&place, "drained", &["--wait"]);
    wait_until(|| {
        let events = elsewhere.host(&["events", &pool.run("drained")]).stdout;
        events.contains("action-started")
    });
    first.signal(Signal::TERM);
    first.end().expect(0);
    let second = pool.worker(&elsewhere, &[]);
    assert_eq!(waiting.end().expect(0).stdout, "re: hello\n");
    second.signal(Signal::TERM);
    second.end().expect(0);
    let events = elsewhere.host(&["events", &pool.run("drained")]).expect(0);
    assert!(events.stdout.contains("\"status\":\"interrupted\""));
}

#[test]
fn a_worker_that_drains_takes_nothing_and_lets_its_runs_end_for_a_while() {
    let Some(pool) = Pool::new() else { return };
    let sleeps = |time: &str| greeter_after(&format!("sleep = \"{time}\""));
    let (place, elsewhere) = (Workspace::with(&sleeps("4s")), Workspace::empty());
    let worker = pool.worker(&elsewhere, &["--drain", "100"]);
    pool.submit(&place, "ends", &[]).end().expect(0);
    pool.until_event(&elsewhere, "ends", "action-started");
    worker.signal(Signal::TERM);
    pool.submit(&place, "later", &[]).end().expect(0);
    let ended = worker.end().expect(0);
    assert!(
        ended.stderr.contains("waiting for the end of 1 run"),
        "{}",
        ended.stderr
    );
    let events = elsewhere
        .host(&["events", &pool.run("ends")])
        .expect(0)
        .stdout;
    assert!(events.contains("\"status\":\"done\""), "{events}");
    assert!(!events.contains("interrupted"), "{events}");
    let state = pool.location("later").submission_state().unwrap().unwrap();
    assert_eq!(
        (state.schedule, state.shortage.is_none()),
        (Some(RunSchedule::Now), false)
    );
    // One that takes too long is stopped.
    place.write("team.toml", sleeps("300s"));
    let worker = pool.worker(&elsewhere, &["--drain", "1"]);
    pool.submit(&place, "stopped", &[]).end().expect(0);
    pool.until_event(&elsewhere, "stopped", "action-started");
    worker.signal(Signal::TERM);
    worker.end().expect(0);
    let events = elsewhere
        .host(&["events", &pool.run("stopped")])
        .expect(0)
        .stdout;
    assert!(events.contains("\"status\":\"interrupted\""), "{events}");
}

#[test]
fn workers_are_replaced_one_after_the_other_while_runs_go_on_and_nothing_is_done_again() {
    const RUNS: usize = 6;
    let Some(pool) = Pool::new() else { return };
    let team = greeter_after("sleep = \"2s\"");
    let (place, elsewhere) = (Workspace::with(&team), Workspace::empty());
    let start = || pool.worker(&elsewhere, &["--drain", "100", "--room", "2"]);
    let old = [start(), start()];
    let names: Vec<String> = (0..RUNS).map(|n| format!("rolling-{n}")).collect();
    for name in &names {
        pool.submit(&place, name, &[]).end().expect(0);
    }
    pool.until_event(&elsewhere, &names[0], "action-started");
    let mut new = Vec::new();
    for worker in old {
        stop_workers([worker]);
        new.push(start());
    }
    for name in &names {
        pool.until_event(&elsewhere, name, "\"status\":\"done\"");
        let events = elsewhere
            .host(&["events", &pool.run(name)])
            .expect(0)
            .stdout;
        assert_eq!(events.matches("\"action-started\"").count(), 1, "{events}");
        assert!(!events.contains("interrupted"), "{events}");
    }
    stop_workers(new);
}

#[test]
fn a_worker_takes_only_runs_for_which_it_has_the_labels() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (Workspace::with(GREETER), Workspace::empty());
    let needs = ["--needs", "gpu"];
    pool.submit(&place, "labelled", &needs).end().expect(0);
    pool.submit(&place, "plain", &[]).end().expect(0);
    let without = pool.worker(&elsewhere, &[]);
    pool.until_event(&elsewhere, "plain", "run-ended");
    let state = pool
        .location("labelled")
        .submission_state()
        .unwrap()
        .unwrap();
    assert!(!state.is_owned);
    let with = pool.worker(&elsewhere, &["--label", "gpu"]);
    wait_until(|| {
        let events = elsewhere.host(&["events", &pool.run("labelled")]).stdout;
        events.contains("run-ended")
    });
    stop_workers([with, without]);
}

#[test]
fn what_cannot_be_submitted_is_refused_before_anything_is_stored() {
    let Some(pool) = Pool::new() else { return };
    let place = Workspace::with(GREETER);
    let first = pool.submit(&place, "twice", &[]).end().expect(0);
    assert!(
        first.stderr.contains("no worker is there"),
        "{}",
        first.stderr
    );
    let again = pool.submit(&place, "twice", &[]).end().expect(2);
    assert!(
        again.stderr.contains("has a run of the name"),
        "{}",
        again.stderr
    );
    let foreign = place
        .host(&["submit", "--database", "mysql://host/x"])
        .expect(2);
    assert!(foreign.stderr.contains("postgres://"), "{}", foreign.stderr);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(0);
    let resumed = place.host(&["resume", "store"]).expect(0);
    assert!(
        resumed.stderr.contains("is done; nothing is left to run"),
        "{}",
        resumed.stderr
    );
    // It takes no space, and would not fit into memory.
    let huge = reader();
    let file = std::fs::File::create(huge.path("in/huge")).unwrap();
    file.set_len(1 << 36).unwrap();
    let refused = pool.submit(&huge, "huge", &[]).end().expect(2);
    assert!(
        refused.stderr.contains("too many to submit"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("in/huge"), "{}", refused.stderr);
    place.write("team.toml", GREETER.replace("probe.wasm", "absent.wasm"));
    pool.submit(&place, "absent", &[]).end().expect(2);
    let absent = place.host(&["inspect", &pool.run("absent")]).expect(2);
    assert!(absent.stderr.contains("no run"), "{}", absent.stderr);
}

#[test]
fn a_run_is_ended_and_suspended_by_any_process_wherever_it_runs() {
    let Some(pool) = Pool::new() else { return };
    let team = slow_greeter();
    let (place, elsewhere) = (Workspace::with(&team), Workspace::empty());
    let worker = pool.worker(&elsewhere, &[]);
    let url = pool.run("halted");
    let waiting = pool.submit(&place, "halted", &["--wait"]);
    pool.until_event(&elsewhere, "halted", "action-started");
    elsewhere.host(&["cancel", &url]).expect(0);
    waiting.end().expect(12);
    let events = elsewhere.host(&["events", &url]).expect(0).stdout;
    assert!(events.contains("\"status\":\"cancelled\""), "{events}");
    elsewhere.host(&["resume", &url]).expect(0);
    pool.until_event(&elsewhere, "halted", "\"status\":\"done\"");
    elsewhere.host(&["pause", &url]).expect(2);
    // One that rests gets the status without being run.
    place.write("team.toml", CLERK);
    pool.submit(&place, "resting", &["--wait"]).end().expect(4);
    let url = pool.run("resting");
    elsewhere.host(&["pause", &url]).expect(0);
    let state = elsewhere.host(&["inspect", &url]).expect(0).stdout;
    assert!(state.contains("paused"), "{state}");
    worker.signal(Signal::TERM);
    worker.end().expect(0);
    // The same in a directory.
    place.write("team.toml", &team);
    let run = ["run", "team.toml", "--storage", "store", "--events", "-"];
    let mut running = place.start(&run);
    running.until("action-started", None);
    place.host(&["pause", "store"]).expect(0);
    let ended = running.end().expect(130);
    assert!(
        ended.stdout.contains("\"status\":\"paused\""),
        "{}",
        ended.stdout
    );
    let resumed = place.host(&["run", "--recover_path", "store"]).expect(0);
    assert_eq!(resumed.stdout, "re: hello\n");
}

#[test]
fn a_submitted_run_can_be_run_without_a_worker() {
    let Some(pool) = Pool::new() else { return };
    let (place, elsewhere) = (reader(), Workspace::empty());
    let team = READER.replace("{ sleep = \"60s\", attempts = [1] }, ", "");
    place.write("team.toml", team);
    pool.submit(&place, "alone", &[]).end().expect(0);
    let resumed = elsewhere.host(&["run", "--recover_path", &pool.run("alone")]);
    assert_eq!(
        resumed.expect(0).stdout,
        "from the file,from the model written\n"
    );
    let state = pool.location("alone").submission_state().unwrap().unwrap();
    assert_eq!(state.schedule, Some(RunSchedule::OnRequest));
}
