//! Teams as tools of MCP clients, whose own MCP servers ask a person within a call: the client's user is asked, and the
//! call stays open meanwhile, so that it is made once.

use serde_json::{Value, json};

use crate::mcp_client::{McpClient, NEWEST, OLDER};
use crate::mcp_server::{accept, run_name, runs, serve, status, text};
use crate::mcp_servers::{ASK, assert_nothing_is_left, lines, team_with_action};
use crate::workspace::Workspace;

/// Returns a team with an action that writes by an older server, which asks for a name within the call.
fn team() -> Workspace {
    team_with_action(r#""old""#, "timeout = \"500ms\"\nmax_timeout = \"1s\"", ASK)
}

/// Returns the id of the only question in a result that asks for input.
fn question(asked: &Value) -> String {
    let requests = &asked["result"]["inputRequests"];
    let requests = requests.as_object().unwrap_or_else(|| panic!("{asked}"));
    assert_eq!(requests.len(), 1, "{asked}");
    requests.keys().next().expect("one").clone()
}

/// Returns the call that brings a reply to a question.
fn reply(asked: &Value, reply: Value) -> Value {
    json!({
        "name": "t", "arguments": { "idea": "go" }, "inputResponses": { question(asked): reply },
        "requestState": asked["result"]["requestState"],
    })
}

#[test]
fn the_call_of_an_older_server_stays_open_while_the_user_of_the_client_is_asked() {
    let place = team();
    let mut client = McpClient::start(serve(&place), NEWEST);
    let asked = client.call("t", json!({ "idea": "go" }));
    let request = &asked["result"]["inputRequests"][question(&asked)]["params"];
    let message = request["message"].as_str().expect("a text");
    assert!(message.contains("> > which name?"), "{message}");
    assert!(message.contains("`pages`"), "{message}");
    let wrong = reply(&asked, accept(json!({ "name": 1 })));
    let asked = client.request("tools/call", wrong);
    let done = client.request(
        "tools/call",
        reply(&asked, accept(json!({ "name": "bob" }))),
    );
    assert_eq!(status(&done), "done", "{done}");
    assert!(text(&done).contains("bob"), "{done}");
    client.end().expect_orderly();
    assert_eq!(lines(&place, "calls.txt").len(), 1);

    let place = team();
    let mut client = McpClient::start(serve(&place), OLDER[0]);
    client.answers = [json!({ "name": 1 }), json!({ "name": "ann" })]
        .map(accept)
        .into();
    let done = client.call("t", json!({ "idea": "go" }));
    assert_eq!(status(&done), "done", "{done}");
    assert!(text(&done).contains("ann"), "{done}");
    client.end().expect_orderly();
    assert_eq!(lines(&place, "calls.txt").len(), 1);
    assert_nothing_is_left(&place, 1);
}

#[test]
fn a_client_that_cannot_ask_is_told_the_command_that_answers_and_the_call_goes_on() {
    let place = team();
    let mut client = McpClient::start_with(serve(&place), NEWEST, json!({}));
    let waiting = client.call("t", json!({ "idea": "go" }));
    assert_eq!(waiting["result"]["isError"], true, "{waiting}");
    assert_eq!(status(&waiting), "waiting");
    let said = text(&waiting);
    assert!(said.contains("which name?"), "{said}");
    assert!(said.contains("strata-host answer"), "{said}");
    // No other process can continue what this one keeps open.
    assert!(!said.contains("--recover_path"), "{said}");
    let name = run_name(&waiting);
    let store = format!("runs/{name}");
    let open = place.host(&["inspect", &store, "--json"]).expect(0).stdout;
    let open: Value = serde_json::from_str(&open).expect("JSON");
    let request = open["strata"]["requests"][0]["id"].as_str();
    let request = request.unwrap_or_else(|| panic!("{open}"));
    let answer = format!(r#"{request}={{"name": "eve"}}"#);
    place.host(&["answer", &store, &answer]).expect(0);
    let done = client.call("t", json!({ "idea": "go", "run": name }));
    assert_eq!(status(&done), "done", "{done}");
    assert!(text(&done).contains("eve"), "{done}");
    client.end().expect_orderly();
    assert_eq!(lines(&place, "calls.txt").len(), 1);
    place.host(&["replay", &store, "--verify"]).expect(0);
}

#[test]
fn a_run_that_is_kept_open_is_saved_when_the_input_ends_and_its_write_is_in_doubt_then() {
    let place = team();
    let mut client = McpClient::start(serve(&place), NEWEST);
    let asked = client.call("t", json!({ "idea": "go" }));
    question(&asked);
    client.end().expect_orderly();
    assert_nothing_is_left(&place, 1);
    // The state is as good as before, but the call is lost.
    let mut client = McpClient::start(serve(&place), NEWEST);
    let answered = reply(&asked, accept(json!({ "name": "bob" })));
    let ended = client.request("tools/call", answered);
    assert_eq!(status(&ended), "in-doubt", "{ended}");
    assert!(text(&ended).contains("--in-doubt"), "{ended}");
    client.end().expect_orderly();
    assert_eq!(lines(&place, "calls.txt").len(), 1);
}

#[test]
fn a_call_that_is_cancelled_while_its_client_is_asked_interrupts_its_run() {
    let place = team();
    let mut client = McpClient::start(serve(&place), OLDER[0]);
    let params = json!({ "name": "t", "arguments": { "idea": "go" } });
    let id = client.send("tools/call", params);
    client.until("elicitation/create");
    client.notify("notifications/cancelled", json!({ "requestId": id }));
    assert_nothing_is_left(&place, 1);
    let kept = runs(&place);
    let name = kept[0].file_name().expect("a name").to_string_lossy();
    // It goes on by its name: the question is open, and asked again.
    client.answers = vec![accept(json!({ "name": "bob" }))];
    let ended = client.call("t", json!({ "idea": "go", "run": name }));
    assert_eq!(status(&ended), "in-doubt", "{ended}");
    client.end().expect_orderly();
}
