//! Teams that MetaGPT saved, which are resumed until they are done.

use serde_json::{Value, json};

use crate::process::Ended;
use crate::workspace::Workspace;

/// Creates a directory with a team file of these roles, and a file that MetaGPT wrote in `store`.
fn saved(fixture: &str, roles: &str) -> Workspace {
    let place = Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\n{roles}"
    ));
    let file = format!(
        "{}/fixtures/metagpt/{fixture}.json",
        env!("CARGO_MANIFEST_DIR")
    );
    place.write("store/team.json", std::fs::read(file).unwrap());
    place
}

/// Returns a role whose actions output their names and inputs.
fn role(name: &str, rest: &str, actions: &[&str]) -> String {
    let mut text = format!("[[role]]\nname = \"{name}\"\n{rest}\n");
    for action in actions {
        let config = format!("config = {{ steps = [{{ say = \"{action}({{inputs}})\" }}] }}");
        text.push_str(&format!(
            "[[role.action]]\nname = \"{action}\"\ncomponent = \"probe.wasm\"\n{config}\n"
        ));
    }
    text
}

fn resume(place: &Workspace) -> Ended {
    place.host(&[
        "run",
        "team.toml",
        "--recover_path",
        "store",
        "--max-steps",
        "6",
        "--events",
        "-",
    ])
}

/// Returns the outputs of the actions that finished in a resume.
fn said(place: &Workspace) -> Vec<String> {
    let ended = resume(place);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let finished = |line: &Value| line["kind"] == "action-finished";
    let content = |line: &Value| line["output"]["content"].as_str().unwrap().to_owned();
    crate::stream::parse(&ended.stdout)
        .iter()
        .filter(|line| finished(line))
        .map(content)
        .collect()
}

const IDEA: &str = "watch = [\"UserRequirement\"]";
const WRITE: &str = "watch = [\"Write\"]";

#[test]
fn a_role_of_one_action_continues_in_any_mode_without_a_thinker() {
    for react in ["", "react = \"react\""] {
        let roles =
            role("Ann", &format!("{IDEA}\n{react}"), &["Write"]) + &role("Bob", WRITE, &["Read"]);
        assert_eq!(
            said(&saved("react-one-action", &roles)),
            ["Write(an idea)", "Read(Write(an idea))"]
        );
    }
}

#[test]
fn a_role_that_failed_while_thinking_handles_its_message() {
    let think =
        "think = { component = \"probe.wasm\", config = { steps = [{ choose = [0, 1] }] } }";
    let roles = role(
        "Cy",
        &format!("{IDEA}\nreact = \"react\"\nmax_react_loop = 2\n{think}"),
        &["X", "Y"],
    );
    assert_eq!(said(&saved("think", &roles)), ["X(an idea)", "Y(an idea)"]);
}

#[test]
fn a_plan_continues_at_its_first_open_task() {
    let roles = role(
        "Pia",
        &format!("{IDEA}\nreact = \"plan_and_act\""),
        &["Plan", "Work"],
    );
    let place = saved("plan-tasks", &roles);
    assert_eq!(said(&place).len(), 2);
    assert!(
        !place
            .recorded()
            .iter()
            .any(|line| line["kind"] == "action-started" && line["action"] == "Plan")
    );
}

#[test]
fn unread_messages_are_handled() {
    let roles = [
        role("Bob", WRITE, &["Read"]),
        role("Ann", IDEA, &["Write"]),
        role("Sam", IDEA, &["Ponder"]),
    ];
    let mut said = said(&saved("unread-mail", &roles.concat()));
    said.sort();
    assert_eq!(said, ["Ponder(an idea)", "Read(Write(an idea))"]);
}

#[test]
fn a_role_of_an_imported_team_never_receives_its_own_messages() {
    let roles = role(
        "Ann",
        "watch = [\"UserRequirement\", \"Write\"]",
        &["Write"],
    );
    let place = saved("own-watch", &roles);
    assert_eq!(said(&place), ["Write(an idea)"]);
    let sent = place.host(&["send", "store", "--cause", "UserRequirement", "more"]);
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    assert_eq!(said(&place), ["Write(more)"]);
}

#[test]
fn the_file_that_metagpt_wrote_is_kept() {
    let roles = role("Ann", IDEA, &["Write"]) + &role("Bob", WRITE, &["Read"]);
    let place = saved("react-one-action", &roles);
    let written = place.read("store/team.json");
    said(&place);
    assert_eq!(place.read("store/team.metagpt.json"), written);
    assert_ne!(place.read("store/team.json"), written);
    let other = saved("react-one-action", &roles);
    other.write("store/team.metagpt.json", "mine");
    said(&other);
    assert_eq!(other.read("store/team.metagpt.json"), b"mine");
    assert_eq!(other.read("store/team.metagpt-2.json"), written);
}

#[test]
fn a_saved_team_is_shown_without_its_team_file() {
    for fixture in ["earlier-outputs", "plan-tasks", "unread-mail", "own-watch"] {
        let place = saved(fixture, "");
        for args in [
            &["inspect", "store"][..],
            &["checkpoints", "store"],
            &["report", "store", "-o", "page.html"],
        ] {
            let ended = place.host(args);
            assert_eq!(ended.code, Some(0), "{fixture} {args:?}: {}", ended.stderr);
        }
        assert!(
            place
                .host(&["inspect", "store"])
                .stdout
                .contains("run TEAM.toml --recover_path store")
        );
    }
}

#[test]
fn a_message_that_a_mailbox_has_twice_is_handled_once_with_a_warning() {
    let roles = role("Ann", IDEA, &["Write"]) + &role("Bob", WRITE, &["Read"]);
    let place = Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"x\"\n{roles}"
    ));
    place
        .host(&["run", "team.toml", "--storage", "made", "--max-steps", "1"])
        .expect(7);
    let mut file: Value = serde_json::from_slice(&place.read("made/team.json")).unwrap();
    let mail = file["strata"]["buffers"]["Bob"][0].clone();
    file["strata"]["buffers"]["Bob"] = json!([mail, mail]);
    place.write("store/team.json", file.to_string());
    let ended = resume(&place);
    assert!(
        ended.stderr.contains("`/strata/buffers/Bob` has message"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.code, Some(0));
    let team = place.team_json();
    let storage = team
        .pointer("/env/roles/Bob/rc/memory/storage")
        .and_then(Value::as_array)
        .unwrap();
    assert_eq!(
        storage
            .iter()
            .filter(|message| message["content"] == "Write(x)")
            .count(),
        1
    );
    assert!(
        storage
            .iter()
            .any(|message| message["content"] == "Read(Write(x))")
    );
}
