//! The team that ships with the product and that uses the tools of an MCP server; and the same team as a tool of an MCP
//! client, which is asked whether the server may write.

use std::fs;

use serde_json::json;

use crate::mcp_client::{McpClient, NEWEST, OLDER};
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

/// Returns a copy of the team's directory.
fn copy_of_team() -> Workspace {
    let workspace = Workspace::empty();
    for file in FILES {
        let path = workspace.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(project().join(DIR).join(file), path).unwrap();
    }
    // The interpreter is set up and compiled, which takes longer than a run is waited for.
    let checked = workspace.command(&["check", "team.toml"]).output().unwrap();
    assert!(checked.status.success());
    workspace
}

#[test]
fn a_script_reads_all_notes_of_a_server_and_the_model_appends_to_one() {
    let workspace = copy_of_team();
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

/// The last line of the note that is written to.
const WRITTEN: &str = "Looked up by the library.\n";

fn garden(workspace: &Workspace) -> String {
    fs::read_to_string(workspace.path("notes/garden.md")).unwrap()
}

/// Returns a copy of the team with a person who decides on what is written.
fn asking_team() -> Workspace {
    let workspace = copy_of_team();
    let team = fs::read_to_string(workspace.path("team.toml")).unwrap();
    let key = "max_calls = 10\n";
    assert!(team.contains(key), "{team}");
    let asks = format!("{key}approve = [\"append_*\"]\n");
    workspace.write("team.toml", team.replace(key, &asks));
    workspace
}

#[test]
fn a_client_calls_the_library_and_its_user_approves_what_is_written() {
    let workspace = asking_team();
    let command = workspace.command(&["mcp", "team.toml", "--storage", "runs"]);
    let mut client = McpClient::start(command, NEWEST);
    let arguments = json!({ "idea": "What is to be done?" });
    let asked = client.call("library", arguments.clone());
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (id, question) = asked["inputRequests"]
        .as_object()
        .and_then(|all| all.iter().next())
        .expect("a question");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("append_note"), "{message}");
    assert!(!garden(&workspace).ends_with(WRITTEN));
    let reply = json!({ id: { "action": "accept", "content": { "approve": true } } });
    let params = json!({
        "name": "library", "arguments": arguments, "inputResponses": reply, "requestState": asked["requestState"],
    });
    let done = client.request("tools/call", params);
    let data = &done["result"]["structuredContent"];
    assert_eq!(data["status"], "done", "{done}");
    assert!(garden(&workspace).ends_with(WRITTEN));
    client.end().expect_orderly();
    // Nothing that was answered is sent again: the server is not needed any more.
    fs::remove_file(workspace.path("server.py")).unwrap();
    let run = format!("runs/{}", data["run"].as_str().unwrap());
    workspace.host(&["replay", &run, "--verify"]).expect(0);
}

#[test]
fn a_client_of_an_older_revision_is_asked_within_its_call_and_declines() {
    let workspace = asking_team();
    let command = workspace.command(&["mcp", "team.toml", "--storage", "runs"]);
    let mut client = McpClient::start(command, OLDER[0]);
    client.answers = vec![json!({ "action": "decline" })];
    let done = client.call("library", json!({ "idea": "What is to be done?" }));
    let status = &done["result"]["structuredContent"]["status"];
    assert_eq!(*status, "done", "{done}");
    assert!(!garden(&workspace).ends_with(WRITTEN));
    client.end().expect_orderly();
}
