//! `builtin:probe`, the probe that is part of the program: wherever a component can be named, pinned, locked, submitted
//! to another machine, and made from the present source.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use strata_host::blob::digest_of;

use crate::probe::{component, project};
use crate::workspace::Workspace;

const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "one"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "One"
component = "builtin:probe"
EXTRA
config = { steps = [{ say = "built in" }] }
"#;

/// What the stored component is made from: directories, and the extension of the files in them.
const SOURCES: [(&str, &str); 3] = [
    ("plugins/probe/src", "rs"),
    ("guest-sdk/rust/src", "rs"),
    ("wit", "wit"),
];
/// The file with the digest of the sources that the stored component is made from.
const RECORD: &str = "plugins/probe/probe.made-from";

/// Returns the team, with more lines in the table of the action.
fn team(extra: &str) -> String {
    TEAM.replace("EXTRA", extra)
}

fn list_files(directory: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list_files(&path, extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}

#[test]
fn the_stored_component_is_made_from_the_present_source() {
    let mut files = Vec::new();
    for (directory, extension) in SOURCES {
        list_files(&project().join(directory), extension, &mut files);
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let name = file.strip_prefix(project()).unwrap();
        let text = fs::read(&file).unwrap();
        sources.extend(format!("{} {}\n", digest_of(&text), name.display()).bytes());
    }
    let (digest, record) = (format!("{}\n", digest_of(&sources)), project().join(RECORD));
    if std::env::var_os("BLESS").is_some() {
        fs::copy(component(), project().join("plugins/probe/probe.wasm")).unwrap();
        fs::write(&record, &digest).unwrap();
    }
    assert!(
        fs::read_to_string(record).unwrap_or_default() == digest,
        "the probe or what it is made from has changed: run this test with BLESS=1"
    );
}

#[test]
fn a_team_runs_and_resumes_it_without_a_file() {
    let place = Workspace::with(&team(""));
    fs::remove_file(place.path("probe.wasm")).unwrap();
    let checked = place.host(&["check", "team.toml"]).expect(0);
    assert!(
        checked.stdout.contains("component  builtin:probe"),
        "{}",
        checked.stdout
    );
    place.run().expect(0);
    let resumed = place.resume().expect(0);
    assert!(!resumed.stderr.contains("warning"), "{}", resumed.stderr);
    let lines = place.recorded();
    let finished = lines.iter().find(|line| line["kind"] == "action-finished");
    assert_eq!(finished.unwrap()["output"]["content"], "built in");
}

#[test]
fn commands_that_take_a_component_take_it() {
    let place = Workspace::empty();
    let config = r#"{"steps":[{"say":"{inputs}"}]}"#;
    let tried = place
        .host(&["try", "builtin:probe", "hello", "--config", config])
        .expect(0);
    assert_eq!(tried.stdout, "hello\n");
    let described = place.host(&["describe", "builtin:probe"]).expect(0);
    let described: Value = serde_json::from_str(&described.stdout).unwrap();
    assert_eq!(described["name"], "probe");
    let mut command = place.command(&["skill", "add", "builtin:probe"]);
    command.env("STRATA_SHELF", place.path("shelf"));
    let added = crate::process::Process::spawn(command).end().expect(0);
    assert_eq!(added.stdout, "probe@0.1.0\n");

    place.write("other.js", "throw new Error('replaced');");
    let scripted = team("").replace("component = \"builtin:probe\"", "script = \"other.js\"");
    place.write("team.toml", scripted);
    let replaced = ["--component", "A.One=builtin:probe"];
    place
        .host(&[&["run", "team.toml", "--storage", "store"], &replaced[..]].concat())
        .expect(0);
    // The name is saved, and means the same in any directory.
    let store = place.path("store").display().to_string();
    let mut resume = place.command(&["resume", &store]);
    resume.current_dir("/");
    crate::process::Process::spawn(resume).end().expect(0);
}

#[test]
fn an_unknown_name_is_an_error_with_the_known_ones() {
    let place = Workspace::with(&team("").replace("builtin:probe", "builtin:prob"));
    let check = |args: &[&str]| {
        let refused = place.host(args).expect(2).stderr;
        for part in [
            "there is no built-in component `builtin:prob`",
            "did you mean `builtin:probe`?",
        ] {
            assert!(refused.contains(part), "`{part}`: {refused}");
        }
    };
    check(&["check", "team.toml"]);
    check(&["describe", "builtin:prob"]);
    check(&["try", "builtin:prob"]);
    place.write("team.toml", team(""));
    check(&["run", "team.toml", "--component", "A.One=builtin:prob"]);
    // A file of that name has to be written as a path.
    fs::copy(component(), place.path("builtin:prob")).unwrap();
    place.write(
        "team.toml",
        team("").replace("builtin:probe", "./builtin:prob"),
    );
    place.host(&["check", "team.toml"]).expect(0);
}

#[test]
fn its_digest_is_pinned_and_locked_like_that_of_a_file() {
    let digest = digest_of(&fs::read(project().join("plugins/probe/probe.wasm")).unwrap());
    let pinned = |digest: &str| team(&format!("sha256 = \"{digest}\""));
    let place = Workspace::with(&pinned(&digest.0));
    place.host(&["check", "team.toml"]).expect(0);
    place.write("team.toml", pinned(&"0".repeat(64)));
    let refused = place.host(&["check", "team.toml"]).expect(2);
    assert!(
        refused.stderr.contains("the team file pins"),
        "{}",
        refused.stderr
    );

    place.write("team.toml", team(""));
    place.host(&["lock", "team.toml"]).expect(0);
    let lock = String::from_utf8(place.read("strata.lock")).unwrap();
    assert!(
        lock.contains("source = \"builtin:probe\"") && lock.contains(&digest.0),
        "{lock}"
    );
    // Locking again keeps it, although there is no such file.
    place.host(&["lock", "team.toml"]).expect(0);
    place.host(&["check", "team.toml"]).expect(0);
    place.write("strata.lock", lock.replace(&digest.0, &"0".repeat(64)));
    let refused = place.host(&["check", "team.toml"]).expect(2);
    assert!(
        refused
            .stderr
            .contains("the component `builtin:probe` has the sha256"),
        "{}",
        refused.stderr
    );
}
