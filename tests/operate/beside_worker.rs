//! What an operator does while a worker works, with a file of many runs and with a server alike.

use serde_json::Value;

use super::{assert_says, bakery, last_of_kind, status};
use crate::database_commands::new_database;
use crate::process::{Ended, Process, Signal};
use crate::workers::wait_until;
use crate::workspace::Workspace;

/// A database with a worker.
struct Office {
    place: Workspace,
    database: String,
    worker: Process,
}

impl Office {
    fn open(database: &str) -> Self {
        let place = bakery();
        let worker = [
            "worker",
            "--database",
            database,
            "-q",
            "--workspaces",
            "work",
        ];
        let worker = Process::spawn(place.command(&worker));
        let office = Self {
            place,
            database: database.into(),
            worker,
        };
        wait_until(|| {
            let listed = office.host(&["workers", &office.database, "--json"]);
            // The worker creates its file.
            listed.code == Some(0) && listed.events().len() == 1
        });
        office
    }

    fn run(&self, name: &str) -> String {
        let sign = if self.database.contains('?') {
            '&'
        } else {
            '?'
        };
        format!("{}{sign}run={name}", self.database)
    }

    fn host(&self, arguments: &[&str]) -> Ended {
        self.place.host(arguments)
    }

    fn workers(&self) -> Vec<Value> {
        let listed = self.host(&["workers", &self.database, "--json"]);
        listed.expect(0).events()
    }

    /// Lets a run fail once, and continues it until it asks.
    fn until_it_asks(&self, name: &str) {
        let database = &self.database;
        let submit = [
            "submit",
            "team.toml",
            "--database",
            database,
            "--name",
            name,
            "--wait",
        ];
        let failed = self.host(&submit).expect(3);
        let resume = format!("strata-host resume '{}'", self.shown(name));
        assert_says(&failed, &resume);
        assert!(!failed.stderr.contains("--recover_path"), "{failed:?}");
        let run = self.run(name);
        let shown = self.host(&["inspect", &run]).expect(0);
        assert_says(&shown, &resume);
        assert!(!shown.stdout.contains("--recover_path"), "{shown:?}");
        let refused = self.host(&["pause", &run]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        self.host(&["resume", &run, "--by", "Anna"]).expect(0);
        let asks = self.host(&["wait", &run]).expect(4);
        assert_says(&asks, "then a worker continues it");
        assert_eq!(last_of_kind(&self.place, &run, "run-resumed")["by"], "Anna");
    }

    /// Returns the URL of a run as it is shown.
    fn shown(&self, name: &str) -> String {
        let listed = self.host(&["runs", &self.database, "--name", name, "--json"]);
        let listed = listed.expect(0).events();
        listed[0]["place"].as_str().unwrap().to_owned()
    }

    fn ask_and_answer(&self) {
        self.until_it_asks("one");
        let run = self.run("one");
        let again = [
            "submit",
            "team.toml",
            "--database",
            &self.database,
            "--name",
            "one",
        ];
        assert_says(&self.host(&again).expect(2), "a run of the name `one`");
        let answered = self.host(&["answer", &run, "ask-1-1-0-0=yes"]).expect(0);
        assert!(!answered.stderr.contains("no worker"), "{answered:?}");
        assert_says(&self.host(&["wait", &run, "-q"]).expect(0), "TASTE rye yes");
        for command in ["pause", "cancel"] {
            self.host(&[command, &run, "--dry-run"]).expect(2);
            self.host(&[command, &run]).expect(2);
        }
        let pruned = self.host(&["prune", &run, "--keep", "1", "--by", "Anna"]);
        assert_says(&pruned.expect(0), "pruned");
        assert_says(&self.host(&["inspect", &run]).expect(0), "by Anna, at ");
    }

    fn halt_and_delete(&self) {
        self.until_it_asks("two");
        let run = self.run("two");
        let sent = ["send", &run, "--cause", "Nobody", "more"];
        self.host(&sent).expect(0);
        wait_until(|| status(&self.place, &run) == "waiting");
        self.host(&["pause", &run, "--by", "Bert"]).expect(0);
        assert_eq!(status(&self.place, &run), "paused");
        assert_eq!(last_of_kind(&self.place, &run, "run-ended")["by"], "Bert");
        let early = self.host(&["delete", &run]).expect(2);
        assert_says(
            &early,
            &format!("`strata-host delete '{}' --force`", self.shown("two")),
        );
        self.host(&["delete", &run, "--dry-run"]).expect(2);
        self.host(&["cancel", &run, "--json"]).expect(0);
        let missing = self.run("missing");
        let some = self.host(&["delete", &run, &missing, "--by", "Anna", "--json"]);
        let results = some.expect(2).events();
        assert_eq!(results[0]["result"], "deleted", "{results:?}");
        assert!(
            results[1]["error"]
                .as_str()
                .unwrap()
                .contains("no run `missing`"),
            "{results:?}"
        );
        assert_says(
            &self.host(&["inspect", &run]).expect(2),
            ": Anna deleted it at ",
        );
    }

    /// Deletes a run that somebody waits for.
    fn delete_what_is_waited_for(&self) {
        let submit = ["submit", "team.toml", "--database", &self.database];
        let unclaimed = ["--needs", "nobody", "--name", "five"];
        self.host(&[&submit[..], &unclaimed].concat()).expect(0);
        let (one, five) = (self.run("one"), self.run("five"));
        let mut waiting = Process::spawn(self.place.command(&["wait", &one, &five, "--json"]));
        assert_eq!(waiting.next().unwrap()["name"], "one");
        // It is cancelled first, which would be seen.
        waiting.signal(Signal::STOP);
        self.host(&["delete", &five, "--force", "--by", "Anna"])
            .expect(0);
        waiting.signal(Signal::CONT);
        let deleted = waiting.next().unwrap();
        assert_eq!(deleted["state"], "deleted", "{deleted}");
        let problem = deleted["problem"].as_str().unwrap();
        assert!(problem.starts_with("Anna deleted it at "), "{deleted}");
        waiting.end().expect(2);
    }

    /// Moves a run that waits for a person away, and back.
    fn take_away(&self) {
        let run = self.run("three");
        // The name is taken. What was not moved is free again.
        let taken = ["adopt", &run, "--to", &self.database, "--name", "one"];
        assert_says(&self.host(&taken).expect(2), "a run of the name `one`");
        let other = "sqlite:other.db";
        self.host(&["adopt", &run, "--to", other]).expect(0);
        self.host(&["inspect", &run]).expect(2);
        let listed = self.host(&["runs", other, "--json"]).expect(0).events();
        assert_eq!(listed[0]["status"], "waiting", "{listed:?}");
        let moved = format!("{other}?run=three");
        self.host(&["adopt", &moved, "--to", &self.database])
            .expect(0);
        self.host(&["answer", &run, "ask-1-1-0-0=yes"]).expect(0);
        assert_says(&self.host(&["wait", &run, "-q"]).expect(0), "TASTE rye yes");
    }

    fn hand_over(&self) {
        let begin = ["run", "team.toml", "--storage", "desk", "-q"];
        self.host(&begin).expect(3);
        let adopt = ["adopt", "desk", "--to", &self.database, "--name", "three"];
        self.host(&adopt).expect(0);
        let run = self.run("three");
        // With another component: the same with a section that means nothing.
        let mut other = self.place.read("probe.wasm");
        other.extend([0, 5, 4, b'n', b'o', b't', b'e']);
        self.place.write("other.wasm", other);
        let component = "Baker.Bake=other.wasm";
        self.host(&["resume", &run, "--component", component])
            .expect(0);
        self.host(&["wait", &run, "-q"]).expect(4);
        let checkpoints = self.host(&["checkpoints", &run, "--json"]).expect(0);
        let checkpoints: Vec<Value> = serde_json::from_str(&checkpoints.stdout).unwrap();
        let newest = checkpoints.last().unwrap()["id"].as_str().unwrap();
        let copy = self.run("four");
        self.host(&["fork", &run, "--at", newest, "--to", &copy])
            .expect(0);
        let listed = self.host(&["runs", &self.database, "--state", "detached", "--json"]);
        assert_eq!(listed.expect(0).events()[0]["name"], "four");
    }

    fn administer(&self) {
        let database = &self.database;
        let kept = ["database", "retention", database, "--keep", "failed=90d"];
        self.host(&kept).expect(0);
        let kept = self.host(&["database", "retention", database]).expect(0);
        assert_says(&kept, "failed: kept for 90d");
        self.host(&["database", "cap", database, "--set", "5"])
            .expect(0);
        assert_says(
            &self.host(&["database", "cap", database]).expect(0),
            "of $5.0000",
        );
        self.host(&["database", "close", database]).expect(0);
        let submit = ["submit", "team.toml", "--database", database];
        let closed = self.host(&submit).expect(2);
        assert_says(&closed, "is closed for new runs");
        let hint = closed.stderr.split("`strata-host ").nth(1).unwrap();
        let hint = hint.split('`').next().unwrap().replace('\'', "");
        self.host(&hint.split(' ').collect::<Vec<_>>()).expect(0);
        self.host(&[&submit[..], &["--needs", "gpu", "--name", "gpu"]].concat())
            .expect(0);
        let shown = self.host(&["inspect", &self.run("gpu")]).expect(0);
        assert_says(&shown, "the label `gpu`; ");
        assert_says(&shown, "--label gpu`");
        let doctor = self.host(&["doctor", "--database", database]);
        assert_says(&doctor, "open for new runs");
        assert_says(&doctor, "this user may read, run and administer");
    }

    /// Runs a command that is refused because of the worker, and then the one that is suggested.
    fn leave_to_worker(&self, arguments: &[&str]) {
        let refused = self.host(arguments).expect(9);
        let (_, command) = refused.stderr.split_once("`strata-host ").unwrap();
        let command = command.split('`').next().unwrap().replace('\'', "");
        self.host(&command.split(' ').collect::<Vec<_>>()).expect(0);
    }

    /// Tells the worker to end.
    fn close(self) {
        let [worker] = &self.workers()[..] else {
            panic!("one worker")
        };
        assert_eq!(worker["room"], 8);
        let id = worker["id"].as_str().unwrap();
        let other = self.host(&["workers", "drain", &self.database, "other"]);
        assert_says(&other.expect(2), "has no worker `other`");
        let drained = self.host(&["workers", "drain", &self.database, id, "--json"]);
        assert_says(&drained.expect(0), "\"draining\":true");
        self.worker.end().expect(0);
        assert!(
            self.place
                .host(&["workers", &self.database])
                .stdout
                .is_empty()
        );
    }
}

fn operate(database: &str) {
    let office = Office::open(database);
    office.ask_and_answer();
    office.halt_and_delete();
    office.delete_what_is_waited_for();
    office.hand_over();
    office.take_away();
    office.administer();
    office.close();
}

#[test]
fn a_file_of_many_runs_is_operated_while_its_worker_works() {
    operate("sqlite:queue.db");
}

#[test]
fn what_cannot_be_run_beside_the_worker_of_a_file_is_left_to_that() {
    let office = Office::open("sqlite:queue.db");
    let run = office.run("own");
    let wait = ["wait", &run, "-q"];
    office.leave_to_worker(&["run", "team.toml", "--storage", &run]);
    office.host(&wait).expect(3);
    office.leave_to_worker(&["run", "--recover_path", &run]);
    office.host(&wait).expect(4);
    office.close();
}

#[test]
fn a_server_is_operated_while_a_worker_works() {
    if let Some(database) = new_database() {
        operate(&database);
    }
}
