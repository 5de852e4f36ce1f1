//! The shelf: components are added, found, used by teams, and removed. Damaged components and those
//! of other users are rejected before anything runs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::probe;
use crate::process::{Ended, Process};
use crate::signer::Signer;
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
skill = "SKILL"
config = { steps = [{ say = "from the shelf" }] }
"#;

/// Returns a command of the host with a shelf in the directory.
fn command(place: &Workspace, args: &[&str]) -> Command {
    let mut command = place.command(args);
    command.env("STRATA_SHELF", place.path("shelf"));
    command
}

fn host(place: &Workspace, args: &[&str]) -> Ended {
    Process::spawn(command(place, args)).end()
}

/// Creates a directory with a team that uses this skill.
fn place(skill: &str) -> Workspace {
    Workspace::with(&TEAM.replace("SKILL", skill))
}

/// Adds the probe to the shelf, and returns its name and version.
fn add_probe(place: &Workspace) -> String {
    host(place, &["skill", "add", "probe.wasm"])
        .expect(0)
        .stdout
        .trim()
        .to_owned()
}

/// Returns the probe with an additional empty section: another component with the same description.
fn another_probe() -> Vec<u8> {
    [fs::read(probe::component()).unwrap(), vec![0, 2, 1, b'x']].concat()
}

#[test]
fn a_team_runs_a_skill_that_it_names() {
    let place = Workspace::empty();
    let name = add_probe(&place);
    let (_, version) = name.split_once('@').unwrap();
    for skill in [name.clone(), format!("probe@^{version}")] {
        place.write("team.toml", TEAM.replace("SKILL", &skill));
        let checked = host(&place, &["check", "team.toml"]).expect(0);
        assert!(
            checked.stdout.contains("shelf/components/"),
            "{}",
            checked.stdout
        );
        let store = format!("store-{}", skill.len());
        let run = host(
            &place,
            &["run", "team.toml", "--storage", &store, "--events", "-"],
        )
        .expect(0);
        assert!(run.stdout.contains("from the shelf"), "{}", run.stdout);
    }
}

#[test]
fn a_signed_skill_runs_where_signatures_are_required() {
    let signer = Signer::of(1);
    let trusting = TEAM.replace(
        "[[role]]\n",
        &format!("[trust]\nkeys = [\"{}\"]\n[[role]]\n", signer.key()),
    );
    let place = Workspace::with(&trusting.replace("SKILL", "probe@0.1.0"));
    let name = add_probe(&place);
    let refused = host(&place, &["check", "team.toml"]).expect(2);
    assert!(
        refused.stderr.contains("there is no signature"),
        "{}",
        refused.stderr
    );
    // The signature is added, also to a component that was already on the shelf.
    place.write("probe.wasm.minisig", signer.sign(&place.read("probe.wasm")));
    assert_eq!(add_probe(&place), name);
    let run = host(
        &place,
        &["run", "team.toml", "--storage", "store", "--events", "-"],
    )
    .expect(0);
    assert!(run.stdout.contains("from the shelf"), "{}", run.stdout);
}

#[test]
fn a_lock_that_names_a_skill_holds_on_every_machine() {
    let place = place("probe@^0.1");
    let on = |shelf: &str, args: &[&str]| {
        let mut command = place.command(args);
        command.env("STRATA_SHELF", place.path(shelf));
        Process::spawn(command).end()
    };
    on("ann", &["skill", "add", "probe.wasm"]).expect(0);
    on("ann", &["lock"]).expect(0);
    let text = String::from_utf8(place.read("strata.lock")).unwrap();
    assert!(
        text.contains("skill = \"probe@0.1.0\"") && !text.contains("ann"),
        "{text}"
    );
    on("bob", &["skill", "add", "probe.wasm"]).expect(0);
    on("bob", &["check", "team.toml"]).expect(0);

    place.write("another.wasm", another_probe());
    on("eve", &["skill", "add", "another.wasm"]).expect(0);
    let refused = on("eve", &["check", "team.toml"]).expect(2);
    assert!(
        refused.stderr.contains("`probe@0.1.0` has the sha256"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_saved_team_is_resumed_with_its_skill_and_can_be_read_without_it() {
    let place = place("probe@0.1.0");
    assert_eq!(add_probe(&place), "probe@0.1.0");
    let trap = place.read("team.toml");
    let trap = String::from_utf8(trap)
        .unwrap()
        .replace("{ say = \"from the shelf\" }", "{ fail = \"error\" }");
    place.write("trap.toml", trap);
    host(&place, &["run", "trap.toml", "--storage", "store"]).expect(3);
    host(&place, &["skill", "remove", "probe@0.1.0"]).expect(0);
    host(&place, &["inspect", "store"]).expect(0);
    host(&place, &["graph", "team.toml"]).expect(0);
    let refused = host(&place, &["run", "team.toml", "--recover_path", "store"]).expect(2);
    assert!(
        refused.stderr.contains("there is no skill `probe@0.1.0`"),
        "{}",
        refused.stderr
    );
    add_probe(&place);
    host(&place, &["run", "team.toml", "--recover_path", "store"]).expect(0);
}

#[test]
fn a_missing_skill_is_rejected_with_its_position() {
    let check = |skill: &str, expected: &[&str]| {
        let place = place(skill);
        add_probe(&place);
        for args in [
            vec!["check", "team.toml"],
            vec!["run", "team.toml", "--storage", "store"],
        ] {
            let refused = host(&place, &args).expect(2);
            let parts = ["--> team.toml:10:9"].iter().chain(expected);
            parts.for_each(|part| {
                assert!(
                    refused.stderr.contains(part),
                    "`{part}`: {}",
                    refused.stderr
                )
            });
        }
        assert!(!place.path("store").exists());
    };
    check(
        "prob@0.1.0",
        &[
            "there is no skill `prob@0.1.0`",
            "did you mean `probe@0.1.0`?",
        ],
    );
    check("probe@7.0.0", &["there is `probe@0.1.0`"]);
    check("probe@^7", &["there is `probe@0.1.0`"]);
    check("probe", &["expected a name and a version"]);
}

#[test]
fn a_flipped_byte_is_found_before_the_component_is_used() {
    let place = place("probe@0.1.0");
    add_probe(&place);
    let components = place.path("shelf/components");
    let file = fs::read_dir(components)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    for args in [
        vec!["run", "team.toml", "--storage", "store"],
        vec!["check", "team.toml"],
        vec!["describe", "probe@0.1.0"],
        vec!["skill", "show", "probe@0.1.0"],
    ] {
        let refused = host(&place, &args).expect(2);
        assert!(
            refused
                .stderr
                .contains("the skill `probe@0.1.0` is damaged"),
            "{}",
            refused.stderr
        );
    }
    add_probe(&place);
    host(&place, &["run", "team.toml", "--storage", "store"]).expect(0);
}

#[test]
fn adding_the_same_changes_nothing_and_another_one_is_refused() {
    let place = Workspace::empty();
    add_probe(&place);
    let entry = place.read("shelf/probe@0.1.0.skill");
    let again = host(&place, &["skill", "add", "probe.wasm"]).expect(0);
    assert!(
        again.stderr.contains("on the shelf already"),
        "{}",
        again.stderr
    );
    place.write("other.wasm", another_probe());
    let refused = host(&place, &["skill", "add", "other.wasm"]).expect(2);
    let parts = [
        "cannot add `other.wasm`",
        "with another component",
        "another version",
    ];
    parts
        .iter()
        .for_each(|part| assert!(refused.stderr.contains(part), "{}", refused.stderr));
    assert_eq!(place.read("shelf/probe@0.1.0.skill"), entry);
}

#[test]
fn a_component_without_a_description_is_not_a_skill() {
    let place = Workspace::empty();
    place.write("module.wasm", wat::parse_str("(module)").unwrap());
    place.write("plain.wasm", wat::parse_str("(component)").unwrap());
    for name in ["module.wasm", "plain.wasm", "absent.wasm"] {
        let refused = host(&place, &["skill", "add", name]).expect(2);
        assert!(
            refused.stderr.contains(name) && refused.stdout.is_empty(),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(host(&place, &["skill", "list"]).expect(0).stdout, "");
}

#[test]
fn skills_are_listed_searched_and_shown() {
    let place = Workspace::empty();
    let saver = probe::build("plugins/save-file");
    let saver = saver.to_str().unwrap();
    let elsewhere = place.path("elsewhere").display().to_string();
    host(
        &place,
        &["skill", "add", "probe.wasm", saver, "--shelf", &elsewhere],
    )
    .expect(0);
    let empty = host(&place, &["skill", "list"]).expect(0);
    assert_eq!(
        (empty.stdout.as_str(), empty.stderr.as_str()),
        ("", "the shelf is empty\n")
    );
    let listed = host(&place, &["skill", "list", "--shelf", &elsewhere])
        .expect(0)
        .stdout;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["probe@0.1.0", "save-file@0.1.0"]);
    let found = host(
        &place,
        &["skill", "search", "PROBE", "--json", "--shelf", &elsewhere],
    )
    .expect(0);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(
        (found.as_array().unwrap().len(), &found[0]["name"]),
        (1, &Value::from("probe"))
    );
    let shown = host(
        &place,
        &["skill", "show", "save-file@^0.1", "--shelf", &elsewhere],
    )
    .expect(0)
    .stdout;
    assert!(
        shown.contains("needs        files") && shown.contains("save-file@0.1.0"),
        "{shown}"
    );
    let all = host(&place, &["describe", "--shelf", &elsewhere]).expect(0);
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    let described: Vec<&str> = all["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].as_str().unwrap())
        .collect();
    assert_eq!(described, ["probe", "save-file"]);
}

#[test]
fn skills_can_be_added_in_parallel_with_runs() {
    let place = place("probe@0.1.0");
    add_probe(&place);
    let mirror = probe::build("tests/mirror");
    let adding: Vec<Process> = (0..3)
        .flat_map(|_| {
            [
                vec!["skill", "add", "probe.wasm"],
                vec!["skill", "add", mirror.to_str().unwrap()],
            ]
        })
        .map(|args| Process::spawn(command(&place, &args)))
        .collect();
    let running: Vec<Process> = (0..2)
        .map(|n| {
            Process::spawn(command(
                &place,
                &["run", "team.toml", "--storage", &format!("store-{n}")],
            ))
        })
        .collect();
    adding
        .into_iter()
        .chain(running)
        .for_each(|process| drop(process.end().expect(0)));
    assert_eq!(
        host(&place, &["skill", "list"])
            .expect(0)
            .stdout
            .lines()
            .count(),
        2
    );
}
