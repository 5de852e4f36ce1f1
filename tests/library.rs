//! The team that ships with the product and that uses the tools of an MCP server.

use std::fs;

use serde_json::json;

use crate::probe::project;
use crate::stream;
use crate::workspace::Workspace;

const DIR: &str = "plugins/teams/library";
const FILES: [&str; 5] = [
    "team.toml",
    "replies.toml",
    "server.py",
    "notes/garden.md",
    "notes/kitchen.md",
];

#[test]
fn a_script_reads_all_notes_of_a_server_and_the_model_appends_to_one() {
    let workspace = Workspace::empty();
    for file in FILES {
        let path = workspace.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(project().join(DIR).join(file), path).unwrap();
    }
    // The interpreter is set up and compiled, which takes longer than a run is waited for.
    let checked = workspace.command(&["check", "team.toml"]).output().unwrap();
    assert!(checked.status.success());
    let ended = workspace
        .host(&["run", "team.toml", "--storage", "store", "--events", "-"])
        .expect(0);
    let events = ended.events();
    let finished = stream::of_kind(&events, "action-finished");
    let nested = finished.iter().filter(|event| !event["nested"].is_null());
    assert_eq!(nested.count(), 3);
    let code = finished.iter().find(|event| event["action"] == "run_code");
    let data = &code.expect("the script ends")["output"]["data"];
    let expected = json!({
        "garden": ["The tomatoes are planted.", "The fence needs paint."],
        "kitchen": ["The tap drips."],
    });
    assert_eq!(*data, expected);
    let garden = fs::read_to_string(workspace.path("notes/garden.md")).unwrap();
    assert!(garden.ends_with("Looked up by the library.\n"), "{garden}");
    fs::remove_file(workspace.path("server.py")).unwrap();
    workspace.host(&["replay", "store", "--verify"]).expect(0);
}
