//! A server for MCP clients is killed after each event of a run that pays, writes and asks a person. The
//! client repeats its call with the same key, and answers: there is one run, nothing that was answered is
//! requested again, and the result is that of a run that was not disturbed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp_client::{McpClient, NEWEST};
use crate::process::Process;
use crate::web::Web;
use crate::workspace::Workspace;

/// Returns a team that asks a model, writes with a key, asks a person and answers with all of it.
fn team(web: &Web) -> String {
    let port = web.port();
    format!(
        r#"
schema = "strata.team/1"
[team]
name = "desk"
[llm]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"
retries = 0
price = {{ input = 10.0, output = 10.0 }}
[[role]]
name = "Clerk"
watch = ["UserRequirement"]
[[role.action]]
name = "order"
component = "probe.wasm"
config = {{ steps = [
  {{ llm = "how many?" }},
  {{ http = "http://127.0.0.1:{port}/v1/order/20/a", method = "POST", body = "x", key = "a" }},
  {{ say = "ordered {{reads}}" }},
] }}
allow = {{ llm = {{ models = ["*"] }}, http = [{{ host = "127.0.0.1:{port}", methods = ["POST"] }}] }}
[[role.action]]
name = "confirm"
component = "probe.wasm"
config = {{ steps = [
  {{ ask = "is it right?", schema = {{ type = "object", properties = {{ right = {{ type = "boolean" }} }}, required = ["right"] }} }},
  {{ say = "confirmed {{reads}}" }},
] }}
"#
    )
}

/// Calls the team with a key until it is done, and answers what it asks.
fn finish(client: &mut McpClient, key: &str) -> Value {
    let arguments = json!({ "idea": "go" });
    let mut params = json!({ "name": "desk", "arguments": arguments });
    loop {
        params["_meta"] = json!({ "strata/idempotency-key": key });
        let response = client.request("tools/call", params.clone());
        let result = &response["result"];
        if result["resultType"] != "input_required" {
            return response;
        }
        let requests = result["inputRequests"].as_object().expect("requests");
        let answer = json!({ "action": "accept", "content": { "right": true } });
        let answers: BTreeMap<&String, &Value> =
            requests.keys().map(|request| (request, &answer)).collect();
        params["inputResponses"] = json!(answers);
        params["requestState"] = result["requestState"].clone();
    }
}

/// Follows the events of the run in the directory of runs until there are so many, or it rests. Returns
/// how many came.
fn follow(place: &Workspace, count: usize) -> usize {
    let runs = place.path("runs");
    let run = loop {
        let found = fs::read_dir(&runs).into_iter().flatten().flatten();
        let mut stores = found.map(|entry| entry.path());
        if let Some(run) = stores.find(|path: &std::path::PathBuf| path.join("team.db").exists()) {
            break run;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let run = run
        .strip_prefix(place.path(""))
        .unwrap_or(Path::new(""))
        .to_string_lossy()
        .into_owned();
    let mut events: Process = place.start(&["events", &run, "--follow", "--until-rest"]);
    let mut seen = 0;
    while seen < count && events.next().is_some() {
        seen += 1;
    }
    events.kill();
    seen
}

#[test]
fn a_call_is_finished_by_its_key_whenever_the_server_was_killed() {
    let web = Web::new();
    let undisturbed = Workspace::with(&team(&web));
    let serve = |place: &Workspace| place.command(&["mcp", "team.toml", "--storage", "runs"]);
    let mut client = McpClient::start(serve(&undisturbed), NEWEST);
    let expected = finish(&mut client, "k");
    client.end().expect_orderly();
    let expected = &expected["result"]["structuredContent"]["output"];
    assert!(expected.is_string(), "{expected}");
    for events in 1.. {
        let web = Web::new();
        let place = Workspace::with(&team(&web));
        let mut client = McpClient::start(serve(&place), NEWEST);
        let meta = json!({ "strata/idempotency-key": "k" });
        let params = json!({ "name": "desk", "arguments": { "idea": "go" }, "_meta": meta });
        client.send("tools/call", params);
        let seen = follow(&place, events);
        client.kill();
        let mut client = McpClient::start(serve(&place), NEWEST);
        let done = finish(&mut client, "k");
        let result = &done["result"]["structuredContent"];
        assert_eq!(result["status"], "done", "after {events} events: {done}");
        assert_eq!(result["output"], *expected, "after {events} events");
        client.end().expect_orderly();
        // A request whose answer was lost with the process is made once more, and the order has a key.
        let lines = web.lines();
        let replies = lines
            .iter()
            .filter(|line| line.contains("chat/completions"));
        assert!(replies.count() <= 2, "after {events} events: {lines:?}");
        assert_eq!(web.orders().len(), 1, "after {events} events: {lines:?}");
        if seen < events {
            // The run rests and waits for an answer, so there are no more events.
            return;
        }
    }
}
