//! What is the same of runs in storage directories, in a file of many runs and in a server: what is listed of them, how they
//! are waited for, which names they may have, and what commands print as JSON.

use serde_json::Value;

use super::assert_says;
use crate::database_commands::new_database;
use crate::process::Ended;
use crate::workspace::Workspace;

/// A team of one action.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "NAME"
idea = "bread"
[[role]]
name = "Baker"
watch = ["UserRequirement"]
[[role.action]]
name = "Bake"
component = "builtin:probe"
config = { steps = [STEP] }
"#;

/// Each team, what it does, and the exit code of its run.
const TEAMS: [(&str, &str, i32); 3] = [
    ("says", "{ say = \"a loaf\" }", 0),
    ("fails", "{ fail = \"trap\" }", 3),
    ("asks", "{ ask = \"white?\" }, { say = \"{reads}\" }", 4),
];

/// Every member of what is listed of a run.
const KEYS: [&str; 19] = [
    "name", "id", "team", "state", "status", "step", "spent", "budget", "requests", "faults",
    "owner", "scope", "labels", "needs", "problem", "created", "changed", "ended", "place",
];

/// Where several runs are kept.
struct Shelf {
    place: Workspace,
    /// Names all of the runs.
    all: String,
}

impl Shelf {
    fn new(all: &str) -> Self {
        let place = Workspace::empty();
        for (name, step, _) in TEAMS {
            let team = TEAM.replace("NAME", name).replace("STEP", step);
            place.write(&format!("{name}.toml"), team);
        }
        Self {
            place,
            all: all.into(),
        }
    }

    /// Returns one of each kind; one in a server only if there is a server.
    fn each() -> Vec<Self> {
        let databases = ["sqlite:runs.db".to_owned()]
            .into_iter()
            .chain(new_database());
        let places = ["shelf".to_owned()].into_iter().chain(databases);
        places.map(|all| Self::new(&all)).collect()
    }

    fn is_database(&self) -> bool {
        self.all.contains(':')
    }

    fn run(&self, name: &str) -> String {
        if !self.is_database() {
            format!("{}/{name}", self.all)
        } else if self.all.contains('?') {
            format!("{}&run={name}", self.all)
        } else {
            format!("{}?run={name}", self.all)
        }
    }

    fn host(&self, arguments: &[&str]) -> Ended {
        self.place.host(arguments)
    }

    /// Runs each of the teams, under its name.
    fn fill(&self) {
        for (name, _, code) in TEAMS {
            let (team, run) = (format!("{name}.toml"), self.run(name));
            self.host(&["run", &team, "--storage", &run, "-q"])
                .expect(code);
        }
    }

    fn listed(&self, filter: &[&str]) -> Vec<Value> {
        let list = [&["runs", &self.all, "--json"], filter].concat();
        self.host(&list).expect(0).events()
    }

    /// Returns the names of the runs that a filter accepts.
    fn names(&self, filter: &[&str]) -> Vec<String> {
        let name = |run: &Value| run["name"].as_str().unwrap().to_owned();
        self.listed(filter).iter().map(name).collect()
    }
}

/// Returns the keys of an object.
fn keys(object: &Value) -> Vec<&str> {
    let object = object.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

#[test]
fn runs_are_listed_and_filtered_alike_wherever_they_are() {
    for shelf in Shelf::each() {
        shelf.fill();
        // The one that changed last comes first.
        assert_eq!(shelf.names(&[]), ["asks", "fails", "says"]);
        for run in shelf.listed(&[]) {
            let mut expected = KEYS;
            expected.sort_unstable();
            let mut keys = keys(&run);
            keys.sort_unstable();
            assert_eq!(keys, expected, "{run}");
            assert_eq!(run["team"], run["name"], "{run}");
            // That which is open or, if none is, the next one.
            assert_eq!(run["step"], i32::from(run["name"] == "says"), "{run}");
            assert_eq!(run["owner"], Value::Null, "{run}");
            let is_waiting = run["name"] == "asks";
            assert_eq!(run["requests"], i32::from(is_waiting), "{run}");
            assert_eq!(run["faults"], i32::from(run["name"] == "fails"), "{run}");
            assert_eq!(run["ended"].is_null(), is_waiting, "{run}");
        }
        let check = |filter: &[&str], expected: &[&str]| {
            assert_eq!(shelf.names(filter), expected, "{} {filter:?}", shelf.all);
        };
        check(&["--status", "done,failed"], &["fails", "says"]);
        check(&["--state", "ended"], &["fails", "says"]);
        check(&["--team", "fails"], &["fails"]);
        check(&["--name", "*s?ys"], &["says"]);
        check(&["--since", "1h"], &["asks", "fails", "says"]);
        check(&["--until", "1h"], &[]);
        check(&["--limit", "2"], &["asks", "fails"]);
        check(&["--label", "shop=one"], &[]);
        check(&["--scope", "night"], &[]);
        if shelf.is_database() {
            let labelled = ["--name", "labelled", "--label", "shop=one"];
            let submit = ["submit", "says.toml", "--database", &shelf.all];
            shelf.host(&[&submit[..], &labelled].concat()).expect(0);
            check(&["--label", "shop=one"], &["labelled"]);
            check(&["--status", "queued"], &["labelled"]);
            check(&["--state", "queued"], &["labelled"]);
            let listed = shelf.listed(&["--name", "labelled"]);
            assert_eq!(listed[0]["labels"]["shop"], "one", "{listed:?}");
        }
    }
}

#[test]
fn runs_are_waited_for_alike_wherever_they_are() {
    for shelf in Shelf::each() {
        shelf.fill();
        for (name, _, code) in TEAMS {
            shelf.host(&["wait", &shelf.run(name), "-q"]).expect(code);
        }
        // Of several, the greatest.
        let all = shelf.host(&["wait", &shelf.all]).expect(4);
        assert_says(&all, "fails: failed");
        let some = [shelf.run("says"), shelf.run("fails")];
        shelf.host(&["wait", &some[0], &some[1]]).expect(3);
        shelf.host(&["wait", &shelf.run("none")]).expect(2);
        if shelf.is_database() {
            let submit = [
                "submit",
                "says.toml",
                "--database",
                &shelf.all,
                "--name",
                "queued",
            ];
            shelf.host(&submit).expect(0);
            let queued = shelf.run("queued");
            shelf
                .host(&["wait", &queued, "--timeout", "1s"])
                .expect(124);
            shelf.host(&["wait", &queued, &some[0], "--any"]).expect(0);
            let listed = shelf.host(&["wait", &some[1], "--json"]).expect(3).events();
            assert_eq!(listed[0]["status"], "failed", "{listed:?}");
        }
    }
}

#[test]
fn a_name_that_no_run_may_have_is_refused_by_each_command_before_anything_is_stored() {
    let long = "n".repeat(201);
    for shelf in Shelf::each() {
        shelf.fill();
        let (all, asks) = (&shelf.all, shelf.run("asks"));
        let before = shelf.listed(&[]).len();
        for name in ["", ".", "..", "a/b", "a b", "a%2Fb", &long] {
            if !shelf.is_database() {
                let to = "sqlite:other.db";
                let adopt = ["adopt", &asks, "--to", to, "--name", name, "--copy"];
                shelf.host(&adopt).expect(2);
                assert!(!shelf.place.path("other.db").exists(), "{name}");
                continue;
            }
            let run = shelf.run(name);
            let submit = ["submit", "says.toml", "--database", all, "--name", name];
            let commands: [&[&str]; 4] = [
                &submit,
                &["run", "says.toml", "--storage", &run],
                &["fork", &asks, "--at", "entry", "--to", &run],
                &["adopt", &asks, "--to", all, "--name", name, "--copy"],
            ];
            for command in commands {
                let refused = shelf.host(command);
                assert_eq!(refused.code, Some(2), "{command:?} {refused:?}");
            }
        }
        assert_eq!(shelf.listed(&[]).len(), before);
    }
}

#[test]
fn commands_about_runs_print_nothing_but_json_if_that_is_asked_for() {
    for shelf in Shelf::each() {
        shelf.fill();
        let (says, fails, asks) = (shelf.run("says"), shelf.run("fails"), shelf.run("asks"));
        let all = &shelf.all;
        let check = |command: &[&str]| {
            let ended = shelf.host(&[command, &["--json"]].concat());
            assert!(matches!(ended.code, Some(0 | 3)), "{command:?} {ended:?}");
            let mut printed =
                serde_json::Deserializer::from_str(&ended.stdout).into_iter::<Value>();
            assert!(printed.all(|one| one.is_ok()), "{command:?} {ended:?}");
            // There is no worker.
            assert!(
                !ended.stdout.is_empty() || command[0] == "workers",
                "{command:?} {ended:?}"
            );
        };
        check(&["send", &asks, "--cause", "Nobody", "more"]);
        check(&["answer", &asks, "ask-0-0-0-0=\"white\""]);
        check(&["pause", &asks]);
        check(&["cancel", &asks]);
        check(&["wait", &says]);
        check(&["runs", all]);
        check(&["prune", &says, "--keep", "1"]);
        check(&["resume", &fails]);
        check(&["delete", &says]);
        if !shelf.is_database() {
            check(&["adopt", &fails, "--to", "sqlite:other.db"]);
            continue;
        }
        check(&["submit", "says.toml", "--database", all, "--name", "queued"]);
        check(&["workers", all]);
        check(&["adopt", &fails, "--to", all, "--name", "adopted"]);
        for command in [
            &["migrate", all][..],
            &["close", all],
            &["open", all],
            &["retention", all, "--keep", "done=30d"],
            &["cap", all, "--set", "5"],
            &["find", "queued", all],
            &["fence", all],
        ] {
            check(&[&["database"], command].concat());
        }
    }
}
