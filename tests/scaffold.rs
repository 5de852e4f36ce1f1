//! `new`: what it creates in Rust can be built, passes its tests and runs; also its errors. Other
//! languages have tests of their own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::probe::project;
use crate::workspace::Workspace;

/// Checks that the action of a new team has a schema, so that an error in its config is found
/// before a model is called.
#[track_caller]
pub fn a_mistyped_config_is_refused(place: &Workspace) {
    let team = String::from_utf8(place.read("press/team.toml")).unwrap();
    place.write(
        "press/mistyped.toml",
        team.replacen("{ instruction =", "{ instructoin =", 1),
    );
    let refused = place
        .host(&["check", "press/mistyped.toml"])
        .expect(2)
        .stderr;
    assert!(refused.contains("did you mean `instruction`?"), "{refused}");
}

/// Runs the commands that a README shows, in its directory.
#[track_caller]
fn the_commands_of_a_readme_work(place: &Workspace, dir: &str) {
    let readme = String::from_utf8(place.read(&format!("{dir}/README.md"))).unwrap();
    let commands = readme
        .split("```sh\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    assert_eq!(commands.lines().count(), 3, "{readme}");
    let host = place.command(&[]);
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(host.get_program(), bin.join("strata-host")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell
        .args(["-e", "-c", commands])
        .current_dir(place.path(dir));
    shell
        .envs(
            host.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", path);
    let output = shell.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_new_team_runs_and_its_action_passes_its_test() {
    let place = Workspace::empty();
    let made = place.host(&["new", "team", "press"]).expect(0);
    assert_eq!(made.stdout, "press\n");
    assert!(
        made.stderr.contains("strata-host run team.toml"),
        "{}",
        made.stderr
    );
    let action = place.path("press/respond");
    // The locked versions of the project, so that cargo need not ask a registry for newer ones.
    fs::copy(project().join("Cargo.lock"), action.join("Cargo.lock")).unwrap();

    let ended = place
        .host(&["run", "press/team.toml", "--storage", "store"])
        .expect(0);
    assert!(ended.stderr.contains("Editor.Edit"), "{}", ended.stderr);
    let again = place.host(&["build", "press/respond"]).expect(0);
    assert_eq!(again.stderr, "");
    a_mistyped_config_is_refused(&place);
    the_commands_of_a_readme_work(&place, "press");

    let mut tests = Command::new("cargo");
    tests.args(["test", "--quiet"]).current_dir(&action);
    let output = tests
        .env(
            "CARGO_TARGET_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join("new"),
        )
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_new_team_with_tools_runs_and_its_conversation_is_shown() {
    let place = Workspace::empty();
    place.host(&["new", "team", "helper", "--tools"]).expect(0);
    the_commands_of_a_readme_work(&place, "helper");
    let saved = place.read("helper/workspace/storage/helper/team.json");
    let saved: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    let history = &saved["env"]["history"]["storage"];
    assert_eq!(history[1]["content"], "The sentence has seven words.");
    let refused = place
        .host(&["new", "action", "helper", "--tools"])
        .expect(2);
    assert!(refused.stderr.contains("new team"), "{}", refused.stderr);
    let with = |lang| place.host(&["new", "team", "other", "--tools", "--lang", lang]);
    let refused = with("rust").expect(2);
    assert!(
        refused.stderr.contains("are scripts in python"),
        "{}",
        refused.stderr
    );
    with("python").expect(0);
}

#[test]
fn a_fault_names_the_line_of_a_source_that_keeps_its_lines() {
    let place = Workspace::empty();
    place.host(&["new", "team", "press"]).expect(0);
    let action = place.path("press/respond");
    fs::copy(project().join("Cargo.lock"), action.join("Cargo.lock")).unwrap();
    let (manifest, source) = (action.join("Cargo.toml"), action.join("src/lib.rs"));
    let good = fs::read_to_string(&source).unwrap();
    let before = "        let words = ";
    fs::write(
        &source,
        good.replace(
            before,
            &format!("        assert!(reply.text.is_empty());\n{before}"),
        ),
    )
    .unwrap();
    let line = 1 + good[..good.find(before).unwrap()].lines().count();
    let kept =
        fs::read_to_string(&manifest).unwrap() + "\n[package.metadata.strata]\nlines = true\n";
    fs::write(&manifest, kept).unwrap();

    let ended = place
        .host(&["run", "press/team.toml", "--storage", "store"])
        .expect(3);
    assert!(
        ended
            .stderr
            .contains(&format!("  run (./src/lib.rs:{line})\n")),
        "{}",
        ended.stderr
    );
    assert!(
        ended
            .stderr
            .contains(&format!("panicked at src/lib.rs:{line}:9: ")),
        "{}",
        ended.stderr
    );
}

#[test]
fn new_prints_the_next_commands_and_overwrites_nothing() {
    let place = Workspace::empty();
    let made = place
        .host(&["new", "action", "greet-people", "--lang", "python"])
        .expect(0);
    assert_eq!(made.stdout, "greet-people\n");
    for part in [
        "cd greet-people",
        "strata-host build",
        "python3 -m unittest",
    ] {
        assert!(made.stderr.contains(part), "{}", made.stderr);
    }
    let sdk = |name: &str| place.host(&["sdk", name]).expect(0).stdout;
    assert_eq!(sdk("ts"), sdk("js"), "every language that is begun has one");
    let before = fs::read(place.path("greet-people/action.py")).unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["new", "team", "greet-people"], "it already exists"),
        (&["new", "action", "../x"], "a name begins with a letter"),
        (&["new", "action", "x", "--lang", "cobol"], "rust"),
        (
            &["sdk", "cobol"],
            "there are `rust`, `python`, `js`, `c`, `wit`",
        ),
    ];
    for (args, expected) in cases {
        let ended = place.host(args).expect(2);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    assert_eq!(
        fs::read(place.path("greet-people/action.py")).unwrap(),
        before
    );
    assert!(!place.path("x").exists());
}

#[test]
fn the_sdk_for_rust_is_independent_and_has_the_versions_of_the_project() {
    let read = |path: &str| {
        fs::read_to_string(project().join(path))
            .unwrap()
            .parse::<toml::Table>()
            .unwrap()
    };
    let (own, workspace) = (read("guest-sdk/rust/Cargo.toml"), read("Cargo.toml"));
    for (key, value) in workspace["workspace"]["package"].as_table().unwrap() {
        assert_eq!(own["package"].get(key), Some(value), "{key}");
    }
    for (name, value) in own["dependencies"].as_table().unwrap() {
        let mut value = value.clone();
        if let Some(table) = value.as_table_mut() {
            table.remove("optional");
        }
        assert_eq!(
            workspace["workspace"]["dependencies"].get(name),
            Some(&value),
            "{name}"
        );
    }
    assert_eq!(own["lints"], workspace["workspace"]["lints"]);
}
