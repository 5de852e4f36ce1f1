//! A run that was killed and whose log was lost or damaged: it is rejected and never started again
//! from the beginning. Also special files, and files that a run needs, as arguments of commands
//! that read or write.

use std::fs;
use std::process::Command;

use crate::workspace::Workspace;

/// The exit code if the database lost what it had acknowledged.
const LOST: i32 = 11;

const WAITS: &str = r#"
schema = "strata.team/1"
[team]
name = "waits"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
[[role.action]]
name = "Two"
component = "probe.wasm"
config = { steps = [{ sleep = "90s", attempts = [1] }] }
"#;

/// Creates a run that was killed during its second action.
fn killed() -> Workspace {
    let place = Workspace::with(WAITS);
    let mut process = place.start_run(&[]);
    while process.until("action-started", Some("A"))["action"] != "Two" {}
    process.kill();
    let _ = fs::remove_file(place.path("store/team.db-shm"));
    place
}

#[test]
fn a_killed_run_whose_log_is_damaged_or_lost_is_rejected_and_never_restarted() {
    let place = killed();
    let log = place.read("store/team.db-wal");
    let whole: Vec<(&str, Vec<u8>)> = ["team.db", "team.db-progress", "team.json"]
        .map(|name| (name, place.read(&format!("store/{name}"))))
        .into();
    let frame = 24 + 4096;
    let flips = [
        1,
        5,
        10,
        15,
        17,
        21,
        25,
        29,
        32 + 24 + 200,
        32 + frame + 24 + 200,
        32 + 2 * frame + 3,
    ];
    let flipped = |at: usize| {
        let mut bad = log.clone();
        bad[at] ^= 1;
        Some(bad)
    };
    let empty = [Some(Vec::new()), None, Some(log[..32 + frame].to_vec())];
    for bad in flips.into_iter().map(flipped).chain(empty) {
        for (name, bytes) in &whole {
            place.write(&format!("store/{name}"), bytes);
        }
        let path = place.path("store/team.db-wal");
        match &bad {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            // An empty log may have been removed already.
            None => drop(fs::remove_file(&path)),
        }
        for args in [
            &["inspect", "store"][..],
            &["events", "store"],
            &["run", "--recover_path", "store"],
            &["run", "team.toml", "--storage", "store"],
        ] {
            let ended = place.host(args).expect(LOST);
            assert!(
                ended.stderr.contains("changes were recorded in it"),
                "{args:?}: {}",
                ended.stderr
            );
            assert!(
                ended.stderr.contains("go on from `team.json`"),
                "{args:?}: {}",
                ended.stderr
            );
            assert_eq!(ended.stdout, "");
        }
    }
    // With its log, the run continues.
    for (name, bytes) in whole.iter().chain([&("team.db-wal", log)]) {
        place.write(&format!("store/{name}"), bytes);
    }
    let ended = place.resume().expect(0);
    assert_eq!(
        crate::stream::actions(&ended.events(), "action-started"),
        ["A.Two"]
    );
}

#[test]
fn a_killed_run_whose_database_is_lost_is_not_replaced_by_a_fresh_run() {
    for has_json in [true, false] {
        let place = killed();
        fs::remove_file(place.path("store/team.db")).unwrap();
        if !has_json {
            fs::remove_file(place.path("store/team.json")).unwrap();
        }
        let commands: [&[&str]; 4] = [
            &["run", "--recover_path", "store"],
            &["run", "team.toml", "--recover_path", "store"],
            &["run", "team.toml", "--storage", "store"],
            &["inspect", "store"],
        ];
        for args in commands {
            let ended = place.host(args).expect(LOST);
            assert!(
                ended.stderr.contains(
                    "`store/team.db` lost what it had acknowledged: it is not there, and"
                ),
                "{}",
                ended.stderr
            );
        }
        assert!(place.path("store/team.db-wal").exists() && !place.path("store/team.db").exists());
    }
}

#[test]
fn the_commands_suggested_for_a_lost_log_work() {
    let place = killed();
    fs::remove_file(place.path("store/team.db-wal")).unwrap();
    place.resume().expect(LOST);
    for name in ["team.db", "team.db-progress"] {
        fs::rename(place.path(&format!("store/{name}")), place.path(name)).unwrap();
    }
    place.write(
        "team.toml",
        WAITS.replace("{ sleep = \"90s\", attempts = [1] }", ""),
    );
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--recover_path",
            "store",
            "--events",
            "-",
        ])
        .expect(0);
    assert_eq!(
        crate::stream::actions(&ended.events(), "action-started"),
        ["A.One", "A.Two"]
    );
}

#[test]
fn a_pipe_instead_of_a_file_is_rejected_without_waiting() {
    let team = WAITS
        .replace("{ sleep = \"90s\", attempts = [1] }", "{ llm = \"x\" }")
        .replace(
            "[[role]]",
            "[llm]\nprovider = \"scripted\"\nreplies = \"replies.toml\"\n[[role]]",
        );
    let team = team + "allow = { llm = { models = [\"*\"] } }\n";
    let cases: [(&str, &[&str]); 6] = [
        ("pipe", &["--events", "pipe"]),
        ("pipe", &["--record", "pipe"]),
        ("pipe", &["--policy", "pipe"]),
        ("pipe", &["--component", "A.One=pipe"]),
        ("strata.lock", &[]),
        ("replies.toml", &[]),
    ];
    for (name, options) in cases {
        let place = Workspace::with(&team);
        place.write("replies.toml", "[[reply]]\ntext = \"y\"\n");
        let _ = fs::remove_file(place.path(name));
        assert!(
            Command::new("mkfifo")
                .arg(place.path(name))
                .status()
                .unwrap()
                .success()
        );
        let args = [&["run", "team.toml", "--storage", "store"], options].concat();
        let ended = place.host(&args).expect(2);
        let said = [
            "it is no regular file",
            "it is not a file",
            "it is a pipe that nobody reads",
            "there is no file",
        ];
        assert!(
            said.iter().any(|said| ended.stderr.contains(said)),
            "{args:?}: {}",
            ended.stderr
        );
        assert!(!place.path("store/team.db").exists(), "{args:?}");
    }
    let place = Workspace::with(&WAITS.replace("90s", "0s"));
    let args = "run team.toml --storage store --quiet --events /dev/null";
    let args: Vec<&str> = args.split(' ').collect();
    place.host(&args).expect(0);
    assert!(
        Command::new("mkfifo")
            .arg(place.path("pipe"))
            .status()
            .unwrap()
            .success()
    );
    let ended = place.host(&["report", "store", "-o", "pipe"]);
    assert!(
        ended.code != Some(0) && ended.stderr.contains("a pipe that nobody reads"),
        "{}",
        ended.stderr
    );
}

/// A failing team with a file of each kind.
const SMALL: &str = r#"
schema = "strata.team/1"
[team]
name = "small"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
output_schema = "schema.json"
config = { steps = [{ fail = "error" }] }
"#;

#[test]
fn files_of_a_team_are_not_overwritten_whatever_their_names() {
    let place = Workspace::with(SMALL);
    place.write("schema.json", "{}");
    place.write("policy.toml", "schema = \"strata.policy/1\"\n");
    fs::copy(place.path("probe.wasm"), place.path("other.wasm")).unwrap();
    place.write("probe.wasm.minisig", "untrusted comment: x\n");
    place.host(&["lock", "team.toml"]).expect(0);
    place.run().expect(3);
    let inputs = [
        "team.toml",
        "probe.wasm",
        "schema.json",
        "strata.lock",
        "store/team.db",
        "store/team.json",
    ];
    fs::hard_link(place.path("probe.wasm"), place.path("hard")).unwrap();
    std::os::unix::fs::symlink("team.toml", place.path("link")).unwrap();
    let names = inputs
        .iter()
        .chain(["probe.wasm.minisig", "hard", "link", "./store/../team.toml"].iter());
    let before: Vec<Vec<u8>> = inputs.iter().map(|name| place.read(name)).collect();
    for name in names {
        let is_saved = name.starts_with("store/team");
        for args in [
            &["report", "store", "-o", name][..],
            &["run", "--recover_path", "store", "--events", name],
            &["run", "--recover_path", "store", "--record", name],
            &[
                "run",
                "team.toml",
                "--storage",
                "elsewhere",
                "--events",
                name,
            ],
            &[
                "run",
                "team.toml",
                "--storage",
                "elsewhere",
                "--record",
                name,
            ],
        ] {
            if is_saved && args.contains(&"elsewhere") {
                continue;
            }
            let ended = place.host(args).expect(2);
            assert!(
                ended.stderr.contains("which would be written over"),
                "{args:?}: {}",
                ended.stderr
            );
            assert!(!place.path("elsewhere").exists(), "{args:?}");
        }
    }
    check_named_inputs(&place);
    let after: Vec<Vec<u8>> = inputs.iter().map(|name| place.read(name)).collect();
    assert!(before == after);
    // Any other path may exist already.
    place.write("events", "mine");
    place
        .host(&["run", "--recover_path", "store", "--events", "events"])
        .expect(3);
    place.host(&["report", "store", "-o", "events"]).expect(0);
}

/// Checks that events and records do not overwrite a policy or a component that an option names.
fn check_named_inputs(place: &Workspace) {
    for (option, name) in [("--policy", "policy.toml"), ("--component", "other.wasm")] {
        let value = if option == "--component" {
            "A.One=other.wasm"
        } else {
            name
        };
        let ended = place
            .host(&[
                "run",
                "--recover_path",
                "store",
                option,
                value,
                "--events",
                name,
            ])
            .expect(2);
        assert!(
            ended.stderr.contains("which would be written over"),
            "{option}: {}",
            ended.stderr
        );
    }
}

/// A team with an action that may read one directory and write in another.
const GRANTED: &str = r#"
schema = "strata.team/1"
[team]
name = "granted"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "probe.wasm"
config = { steps = [{ fail = "error" }] }
[role.action.allow]
dirs = [{ host = "in", guest = "/in" }, { host = "out", guest = "/out", write = true }]
"#;

#[test]
fn files_that_actions_use_or_could_change_are_not_overwritten() {
    let place = Workspace::with(GRANTED);
    place.write("in/data/a", "an input");
    place.run().expect(3);
    place.write("out/b", "an output");
    fs::hard_link(place.path("in/data/a"), place.path("hard")).unwrap();
    std::os::unix::fs::symlink("in/data/a", place.path("link")).unwrap();
    std::os::unix::fs::symlink("out/later", place.path("dangling")).unwrap();
    let fresh = ["run", "team.toml", "--storage", "elsewhere"];
    let resume = ["run", "--recover_path", "store"];
    let check = |args: &[&str], option: &str, name: &str, expected: Option<&str>| {
        let args = [args, &[option, name]].concat();
        let ended = place.host(&args);
        match expected {
            None => assert!(
                !ended.stderr.contains("a directory that"),
                "{args:?}: {}",
                ended.stderr
            ),
            Some(why) => {
                assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
                assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
            }
        }
    };
    let (changed, over) = ("could change what", "would be written over");
    for name in ["in/data/a", "./in/../in/data/a", "hard", "link"] {
        for option in ["--events", "--record"] {
            check(&fresh, option, name, Some(over));
            check(&resume, option, name, Some(over));
        }
    }
    for name in ["out/b", "out/new", "dangling"] {
        for option in ["--events", "--record"] {
            check(&fresh, option, name, Some(changed));
            check(&resume, option, name, Some(changed));
        }
    }
    assert!(!place.path("elsewhere").exists() && !place.path("out/later").exists());
    // No action runs while a report is written, so the report may be created there or replace a
    // file.
    for name in ["in/data/a", "hard", "link", "out/b"] {
        check(&["report", "store"], "-o", name, Some(over));
    }
    for _ in 0..2 {
        place
            .host(&["report", "store", "-o", "out/report.html"])
            .expect(0);
    }
    assert_eq!(place.read("in/data/a"), b"an input");
    assert_eq!(place.read("out/b"), b"an output");
    // The storage is hidden from actions, and a device has no content.
    let all = GRANTED.replace("host = \"in\"", "host = \"/\"");
    place.write("team.toml", all);
    check(&fresh, "--events", "elsewhere/events", None);
    check(&fresh, "--events", "/dev/null", None);
    check(&fresh, "--events", "-", None);
    // Actions may read a new file.
    check(&fresh, "--events", "events", None);
}
