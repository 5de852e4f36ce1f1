//! What a run needs travels with it: wherever it lies, however it is continued, and whatever is changed with that.

use serde_json::Value;

use super::status;
use crate::postgres_server;
use crate::process::Process;
use crate::workers::{Pool, stop_workers, wait_until};
use crate::workspace::Workspace;

/// A team that fails once; asks; and says what it read, was told, and brings with it.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "baker"
idea = "bread"
on_fault = "stop"
[[role]]
name = "Baker"
watch = ["UserRequirement"]
[[role.action]]
name = "Bake"
component = "probe.wasm"
config = { steps = [{ read = "/in/flour.txt" }, { write = "/in/log.txt", text = "baked" }, { fail = "trap", attempts = [1] }, PAUSE { say = "{reads}" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in", write = true }]
[[role]]
name = "Eater"
watch = ["Bake"]
[[role.action]]
name = "Eat"
component = "probe.wasm"
config = { steps = [{ ask = "good?" }, { read = "/in/log.txt" }, { read = "/spice/kind.txt" }, { say = "TASTE {inputs} {reads}" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in" }, { host = "spice", guest = "/spice" }]
"#;

/// The step in which a process is killed that continues a run.
const PAUSE: &str = "{ sleep = \"100s\", attempts = [2] },";

/// Where a run lies before it is continued.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    Directory,
    /// A file of many runs.
    File,
    /// A file of many runs, to which it was submitted.
    FileQueue,
    /// A server, where it was started by the process of its operator.
    Server,
    /// A server, to which it was submitted.
    ServerQueue,
}

/// How it is continued.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// By workers if it was submitted.
    Resume,
    /// By the process of its operator.
    OwnProcess,
    /// From a copy of its last checkpoint in a directory.
    Fork,
    /// From a copy of its last checkpoint in the same database.
    ForkBeside,
    /// By the workers of a server, to which it is handed over.
    AdoptIntoServer,
    /// By the worker of a file, to which it is handed over.
    AdoptIntoFile,
    /// By another process than that which continued it first, and was killed.
    TakeOver,
}

const WAYS: [Way; 7] = [
    Way::Resume,
    Way::OwnProcess,
    Way::Fork,
    Way::ForkBeside,
    Way::AdoptIntoServer,
    Way::AdoptIntoFile,
    Way::TakeOver,
];

/// What is changed when it is continued.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Nothing,
    /// The file of a component.
    Component,
    /// The files that the team brings.
    Files,
    /// What the team does about faults, and what an action says.
    Policy,
}

const CHANGES: [Change; 4] = [
    Change::Nothing,
    Change::Component,
    Change::Files,
    Change::Policy,
];

impl Change {
    /// Returns the arguments with which a run is continued.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Component => &["--component", "Eater.Eat=other.wasm"],
            Self::Files => &["files.toml"],
            Self::Policy => &["policy.toml"],
        }
    }

    /// Returns what the last action says.
    fn said(self) -> &'static str {
        match self {
            Self::Nothing | Self::Component => "TASTE rye yes,baked,salt",
            Self::Files => "TASTE rye yes,baked,pepper",
            Self::Policy => "FIXED rye yes,baked,salt",
        }
    }
}

/// A run that travels.
struct Traveller {
    change: Change,
    name: String,
    /// Where it began, and where it is now.
    start: String,
    now: String,
}

/// The runs that travel from one home in one way, one for each change.
struct Journey<'a> {
    pool: &'a Pool,
    place: Workspace,
    home: Home,
    way: Way,
    runs: Vec<Traveller>,
}

/// Whether there is something to try: a directory holds one run, and its team is nobody else's.
fn exists(home: Home, way: Way) -> bool {
    let is_queue = matches!(home, Home::FileQueue | Home::ServerQueue);
    match way {
        Way::Resume => is_queue,
        Way::ForkBeside => home != Home::Directory,
        Way::AdoptIntoServer => home != Home::ServerQueue,
        Way::AdoptIntoFile => home != Home::FileQueue,
        Way::OwnProcess | Way::Fork | Way::TakeOver => true,
    }
}

/// Returns the directory of the team, with another version of it for each change.
fn kitchen(way: Way) -> Workspace {
    let pause = match way {
        Way::TakeOver => PAUSE,
        _ => "",
    };
    let team = TEAM.replace("PAUSE", pause);
    let place = Workspace::with(&team);
    for (file, text) in [("in/flour.txt", "rye"), ("in/log.txt", "")] {
        place.write(file, text);
    }
    place.write("spice/kind.txt", "salt");
    place.write("new/kind.txt", "pepper");
    place.write(
        "files.toml",
        team.replace("host = \"spice\"", "host = \"new\""),
    );
    let policy = team.replace("on_fault = \"stop\"", "on_fault = \"park\"");
    place.write("policy.toml", policy.replace("TASTE", "FIXED"));
    // The same component with a section that means nothing.
    let mut other = place.read("probe.wasm");
    other.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    place.write("other.wasm", other);
    place
}

impl<'a> Journey<'a> {
    fn begin(pool: &'a Pool, home: Home, way: Way) -> Self {
        let place = kitchen(way);
        let runs = CHANGES.map(|change| {
            let name = format!("{change:?}").to_lowercase();
            let start = match home {
                Home::Directory => format!("store-{name}"),
                Home::File => format!("sqlite:many.db?run={name}"),
                Home::FileQueue => format!("sqlite:queue.db?run={name}"),
                Home::Server | Home::ServerQueue => pool.run(&format!("{home:?}-{way:?}-{name}")),
            };
            Traveller {
                change,
                now: start.clone(),
                name,
                start,
            }
        });
        Self {
            pool,
            place,
            home,
            way,
            runs: runs.into(),
        }
    }

    /// Returns whether workers continue the runs.
    fn is_queued(&self) -> bool {
        match self.way {
            Way::Resume | Way::OwnProcess | Way::TakeOver => {
                matches!(self.home, Home::FileQueue | Home::ServerQueue)
            }
            Way::AdoptIntoServer | Way::AdoptIntoFile => true,
            Way::Fork | Way::ForkBeside => false,
        }
    }

    /// Returns the file whose worker continues the runs.
    fn queue_file(&self) -> Option<&'static str> {
        match (self.home, self.way) {
            (_, Way::AdoptIntoFile) => Some("handed.db"),
            (Home::FileQueue, Way::Resume | Way::OwnProcess | Way::TakeOver) => Some("queue.db"),
            _ => None,
        }
    }

    /// Starts a worker, of a file if one is given.
    fn start_worker(&self, file: Option<&str>) -> Process {
        match file {
            Some(file) => {
                let database = format!("sqlite:{file}");
                // A run that is handed over needs what it needed before.
                let label = &self.pool.label;
                let worker = ["worker", "--database", &database, "--label", label, "-q"];
                self.place.start(&worker)
            }
            None => self
                .pool
                .worker(&self.place, &["-q", "--workspaces", "work"]),
        }
    }

    /// Lets a worker work until all runs have a status. Nobody else changes runs of its file meanwhile.
    fn work_until(&self, file: Option<&str>, wanted: &str) {
        let worker = self.start_worker(file);
        self.wait_until(wanted);
        stop_workers([worker]);
    }

    fn wait_until(&self, wanted: &str) {
        for run in &self.runs {
            wait_until(|| status(&self.place, &run.now) == wanted);
        }
    }

    /// Lets the runs begin and fail.
    fn fail(&self) {
        let place = &self.place;
        for run in &self.runs {
            let submitted = |database: &str, name: &str, more: &[&str]| {
                let submit = [
                    "submit",
                    "team.toml",
                    "--database",
                    database,
                    "--name",
                    name,
                ];
                place.host(&[&submit[..], more].concat()).expect(0);
            };
            match self.home {
                Home::FileQueue => submitted("sqlite:queue.db", &run.name, &[]),
                Home::ServerQueue => {
                    let (_, name) = run.start.rsplit_once('=').unwrap();
                    submitted(&self.pool.url, name, &["--needs", &self.pool.label]);
                }
                Home::Directory | Home::File | Home::Server => {
                    let run = ["run", "team.toml", "--storage", &run.start, "-q"];
                    place.host(&run).expect(3);
                }
            }
        }
        match self.home {
            Home::FileQueue => self.work_until(Some("queue.db"), "failed"),
            Home::ServerQueue => self.work_until(None, "failed"),
            Home::Directory | Home::File | Home::Server => {}
        }
    }

    /// Moves or copies the runs to where they are continued.
    fn relocate(&mut self) {
        let place = &self.place;
        for run in &mut self.runs {
            let new = format!("new-{}", run.name);
            let to = match (self.way, self.home) {
                (Way::Fork, _) => new.clone(),
                (Way::ForkBeside | Way::AdoptIntoServer, Home::Server | Home::ServerQueue)
                | (Way::AdoptIntoServer, _) => self
                    .pool
                    .run(&format!("{:?}-{:?}-{new}", self.home, self.way)),
                (Way::AdoptIntoFile, _) => format!("sqlite:handed.db?run={new}"),
                (Way::ForkBeside, _) => {
                    let (file, _) = run.start.split_once('?').unwrap();
                    format!("{file}?run={new}")
                }
                _ => return,
            };
            if matches!(self.way, Way::Fork | Way::ForkBeside) {
                let at = last_checkpoint(place, &run.start);
                let fork = ["fork", &run.start, "--at", &at, "--to", &to];
                place.host(&fork).expect(0);
            } else {
                let (database, name) = match self.way {
                    Way::AdoptIntoFile => ("sqlite:handed.db", new.as_str()),
                    _ => (self.pool.url.as_str(), to.rsplit_once('=').unwrap().1),
                };
                let adopt = ["adopt", &run.start, "--to", database, "--name", name];
                let needs = ["--needs", &self.pool.label];
                let needs = match self.way {
                    Way::AdoptIntoFile => &[][..],
                    _ => &needs[..],
                };
                place.host(&[&adopt[..], needs].concat()).expect(0);
                let left = place.host(&["inspect", &run.start]);
                assert_eq!(left.code, Some(2), "{}: {}", run.start, left.stdout);
            }
            run.now = to;
        }
    }

    /// Continues the runs with their changes, until all of them ask.
    fn go_on(&self) {
        let in_queue = self.is_queued() && self.way != Way::OwnProcess;
        let recover = |run: &Traveller, more: &[&str]| {
            let first = ["run", "--recover_path", &run.now, "-q"];
            self.place.start(&[&first[..], more].concat())
        };
        if in_queue {
            for run in &self.runs {
                let resume = ["resume", &run.now];
                let resume = [&resume[..], run.change.arguments()].concat();
                self.place.host(&resume).expect(0);
            }
            if self.way == Way::TakeOver {
                let worker = self.start_worker(self.queue_file());
                self.until_second_attempts();
                worker.kill();
            }
            self.work_until(self.queue_file(), "waiting");
            return;
        }
        for run in &self.runs {
            let mut process = recover(run, run.change.arguments());
            if self.way == Way::TakeOver {
                wait_until(|| is_in_second_attempt(&self.place, run));
                process.kill();
                process = recover(run, &[]);
            }
            process.end().expect(4);
        }
    }

    fn until_second_attempts(&self) {
        for run in &self.runs {
            wait_until(|| is_in_second_attempt(&self.place, run));
        }
    }

    /// Answers what the runs ask, lets them end, and expects them to be done with the files that they had.
    fn end(&self) {
        for run in &self.runs {
            let answer = format!("{}=yes", open_request(&self.place, &run.now));
            self.place.host(&["answer", &run.now, &answer]).expect(0);
        }
        if self.is_queued() {
            self.work_until(self.queue_file(), "done");
        } else {
            for run in &self.runs {
                let recover = ["run", "--recover_path", &run.now, "-q"];
                self.place.host(&recover).expect(0);
            }
        }
        for run in &self.runs {
            self.check(run);
        }
    }

    fn check(&self, run: &Traveller) {
        let which = format!("{:?} {:?} {:?}", self.home, self.way, run.change);
        let saved = self.place.host(&["inspect", &run.now, "--team-json"]);
        let saved = saved.expect(0).stdout;
        let said = regex::Regex::new("(TASTE|FIXED) [^{\"]+\"").unwrap();
        let mut said: Vec<&str> = said.find_iter(&saved).map(|found| found.as_str()).collect();
        said.dedup();
        let expected = format!("{}\"", run.change.said());
        assert_eq!(said, [expected], "{which}: {saved}");
    }
}

fn is_in_second_attempt(place: &Workspace, run: &Traveller) -> bool {
    let events = place.host(&["events", &run.now]).stdout;
    events.contains("\"attempt\":2")
}

fn last_checkpoint(place: &Workspace, run: &str) -> String {
    let listed = place.host(&["checkpoints", run, "--json"]).expect(0).stdout;
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    listed.last().unwrap()["id"].as_str().unwrap().to_owned()
}

fn open_request(place: &Workspace, run: &str) -> String {
    let shown = place.host(&["inspect", run, "--json"]).expect(0);
    let found = regex::Regex::new("ask-[0-9]+-[0-9]+-[0-9]+-[0-9]+").unwrap();
    let request = found.find(&shown.stdout).expect("an open request");
    request.as_str().to_owned()
}

/// Lets runs travel from a home in all ways.
fn travel_from(home: Home) {
    let Some(url) = postgres_server::database_url() else {
        return;
    };
    for way in WAYS.into_iter().filter(|way| exists(home, *way)) {
        let pool = Pool::in_database(url);
        let mut journey = Journey::begin(&pool, home, way);
        journey.fail();
        journey.relocate();
        journey.go_on();
        journey.end();
    }
}

#[test]
fn what_a_run_in_a_directory_needs_travels_with_it() {
    travel_from(Home::Directory);
}

#[test]
fn what_a_run_in_a_file_needs_travels_with_it() {
    travel_from(Home::File);
}

#[test]
fn what_a_run_needs_that_was_submitted_to_a_file_travels_with_it() {
    travel_from(Home::FileQueue);
}

#[test]
fn what_a_run_in_a_server_needs_travels_with_it() {
    travel_from(Home::Server);
}

#[test]
fn what_a_run_needs_that_was_submitted_to_a_server_travels_with_it() {
    travel_from(Home::ServerQueue);
}
