//! The team that ships with the product and has a model that works with tools: its conversation, a
//! tool that traps, the resume with the fixed tool, and the decision of a person.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::probe::project;
use crate::workspace::Workspace;
use crate::{python, stream};

const DIR: &str = "plugins/teams/analyst";
const TEAM: &str = "plugins/teams/analyst/team.toml";
const TRAP: &str = "plugins/teams/analyst/trap.toml";
const DRAFT: &str = "plugins/teams/analyst/files/2026-03-draft.csv";
const REQUEST: &str = "ask-0-0-3-0";

/// Returns a copy of the team's directory, beside the sources of its tools.
fn copy_of_team() -> Workspace {
    let workspace = Workspace::empty();
    fs::create_dir_all(workspace.path(DIR)).unwrap();
    for source in [
        "plugins/teams/analyst/search",
        "plugins/calculate",
        "plugins/probe",
    ] {
        symlink(project().join(source), workspace.path(source)).unwrap();
    }
    let files = fs::read_dir(project().join(DIR).join("files")).unwrap();
    let names = files.map(|file| format!("files/{}", file.unwrap().file_name().display()));
    let others = [
        "team.toml",
        "trap.toml",
        "replies.toml",
        "remove.py",
        "remove.schema.json",
        "code.schema.json",
        "answer.schema.json",
    ];
    for name in names.chain(others.map(String::from)) {
        let file = format!("{DIR}/{name}");
        workspace.write(&file, fs::read(project().join(&file)).unwrap());
    }
    // Tools are set up and interpreters compiled, which takes longer than a run is waited for.
    let checked = workspace.command(&["check", TEAM]).output().unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    workspace
}

#[test]
fn a_model_answers_with_tools_and_a_person_approves_the_deletion() {
    let workspace = copy_of_team();
    let waiting = workspace
        .host(&["run", TEAM, "--storage", "store", "--events", "-"])
        .expect(4);
    let events = waiting.events();
    assert_eq!(stream::of_kind(&events, "turn").len(), 4);
    let opened = stream::of_kind(&events, "request-opened");
    assert_eq!(opened[0]["request"], REQUEST);
    assert_eq!(opened[0]["arguments"]["file"], "2026-03-draft.csv");
    assert!(workspace.path(DRAFT).exists());

    let answer = format!("{REQUEST}={}", json!({ "approve": true }));
    let done = workspace
        .host(&["run", "--recover_path", "store", "--answer", &answer])
        .expect(0);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(answer["supplier"], "Old Bridge Mill");
    assert_eq!(answer["removed"], json!(["2026-03-draft.csv"]));
    assert!(!workspace.path(DRAFT).exists());

    let shown = workspace
        .host(&["inspect", "store", "--conversation", "Analyst", "--json"])
        .expect(0);
    let conversation: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(conversation["turns"].as_array().unwrap().len(), 5);
    let calculated = &conversation["turns"][2]["calls"][1];
    assert_eq!(calculated["tool"], "calculate");
    assert_eq!(calculated["outcome"]["data"], json!(345.0 / 350.0));
    workspace.host(&["replay", "store", "--verify"]).expect(0);
}

#[test]
fn a_person_declines_and_the_model_is_told() {
    let workspace = copy_of_team();
    workspace
        .host(&["run", TEAM, "--storage", "store"])
        .expect(4);
    let answer = format!(
        "{REQUEST}={}",
        json!({ "approve": false, "reason": "we keep drafts" })
    );
    let done = workspace
        .host(&["run", "--recover_path", "store", "--answer", &answer])
        .expect(0);
    let answer: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(answer["removed"], json!([]));
    assert!(workspace.path(DRAFT).exists());
    let shown = workspace
        .host(&["inspect", "store", "--conversation", "Analyst"])
        .expect(0);
    let text = shown.stdout;
    let person = user_name();
    let declined = format!("declined by {person}: we keep drafts");
    assert!(text.contains(&declined), "{text}");
    let events = workspace.recorded();
    let answered = stream::of_kind(&events, "request-answered");
    assert_eq!(answered[0]["by"], "person");
    assert_eq!(answered[0]["person"], person.as_str());
}

/// Returns the name of the user who runs the tests.
fn user_name() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_tool_that_traps_is_fixed_and_no_turn_is_paid_for_twice() {
    let workspace = copy_of_team();
    let failed = workspace
        .host(&["run", TRAP, "--storage", "store", "--events", "-"])
        .expect(3);
    assert_eq!(stream::of_kind(&failed.events(), "turn").len(), 3);
    let text = failed.stderr;
    for part in [
        "fault: Analyst action 1 `calculate`",
        "model default, turn 2, call 0: {\"expression\":",
        "misbehave",
    ] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    let shown = workspace.host(&["inspect", "store"]).expect(0);
    let text = shown.stdout;
    assert!(text.contains("turn 2: 2 tool calls open"), "{text}");

    let waiting = workspace
        .host(&["run", TEAM, "--recover_path", "store", "--events", "-"])
        .expect(4);
    let events = waiting.events();
    let finished = stream::actions(&events, "action-finished");
    assert_eq!(finished, ["Analyst.calculate", "Analyst.calculate"]);
    // Only the turn that follows the fixed tool is requested.
    assert_eq!(stream::of_kind(&events, "turn").len(), 1);
}

#[test]
fn the_search_tool_passes_its_own_tests() {
    python::unittest(
        &project().join(DIR).join("search"),
        &project().join("guest-sdk/python"),
    );
}
