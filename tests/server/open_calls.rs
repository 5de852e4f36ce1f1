//! An older MCP server asks a person within a call: a worker keeps the call open until the person has answered.

use std::fs;

use serde_json::json;

use super::client::TestServer;
use super::mcp::{call, question, request};
use crate::killed_mcp::SERVER;
use crate::stream;
use crate::workspace::Workspace;

/// Starts a server that may run such a team, which calls a tool that asks.
fn server() -> TestServer {
    let place = Workspace::empty();
    place.write("pages.py", SERVER);
    let script = place.path("pages.py").display().to_string();
    let team = format!(
        r#"schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[mcp.pages]
command = ["python3", "{script}", "old"]
timeout = "500ms"
max_timeout = "1s"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = {{ steps = [{{ mcp = "pages/ask", arguments = {{ n = 1 }} }}, {{ say = "{{reads}}" }}] }}
[role.action.allow]
mcp = [{{ server = "pages", tools = ["*"] }}]
"#
    );
    place.write("team.toml", team);
    let allowed = format!("python3 {script} *");
    place.write(
        "policy.toml",
        format!("schema = \"strata.policy/1\"\n[allow]\nmcp = [{{ server = \"pages\", tools = [\"*\"], commands = [\"{allowed}\"] }}]\n"),
    );
    TestServer::start_in(place, &["--policy", "policy.toml"])
}

#[test]
fn a_call_that_asks_goes_on_after_the_answer() {
    let server = server();
    server.submit(&server.token, json!({ "name": "one" }));
    let open = server.until(&server.token, "/v1/requests", |open| {
        !open["items"].as_array().unwrap().is_empty()
    });
    let id = open["items"][0]["id"].as_str().unwrap();
    // The time in which a person is asked does not count.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let body = json!({ id: { "name": "bob" } });
    let answered = server.post(&server.token, "/v1/runs/one/answers", &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let done = server.until(&server.token, "/v1/runs/one", |run| run["state"] == "ended");
    let output = done["output"].as_str().unwrap();
    assert!(done["status"] == "done" && output.contains("bob"), "{done}");
    let events = server.get(&server.token, "/v1/runs/one/events").json();
    let events = events["items"].as_array().unwrap().clone();
    assert_eq!(stream::of_kind(&events, "host-call-begun").len(), 1);
    assert_eq!(stream::of_kind(&events, "host-call").len(), 1);

    // A client of the server is asked the same, within the call of its own.
    let ann = server.new_token("ann", Some("default"), &["submit", "view", "answer"]);
    let asked = request(&server, &ann, &call(json!({ "idea": "go" })));
    let (id, state) = question(&asked);
    let mut reply = call(json!({ "idea": "go" }));
    reply["params"]["inputResponses"] =
        json!({ id: { "action": "accept", "content": { "name": "eve" } } });
    reply["params"]["requestState"] = state;
    let done = request(&server, &ann, &reply);
    let text = done["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("eve"), "{done}");
}

#[test]
fn a_call_that_asks_is_in_doubt_after_the_server_was_killed() {
    let mut server = server();
    server.submit(&server.token, json!({ "name": "one" }));
    let open = server.until(&server.token, "/v1/requests", |open| {
        !open["items"].as_array().unwrap().is_empty()
    });
    let id = open["items"][0]["id"].as_str().unwrap().to_owned();
    server.restart();
    // The server takes the run again, finds that its call is lost, and lets it rest.
    server.until(&server.token, "/v1/runs/one", |run| {
        run["state"] == "resting"
    });
    let body = json!({ id: { "name": "bob" } });
    let answered = server.post(&server.token, "/v1/runs/one/answers", &body);
    assert_eq!(answered.status, 200, "{answered:?}");
    let run = server.until(&server.token, "/v1/runs/one", |run| run["state"] == "ended");
    assert_eq!(run["status"], "in-doubt", "{run}");
}

#[test]
fn a_run_does_not_wait_for_a_server_that_has_died() {
    let server = server();
    server.submit(&server.token, json!({ "name": "one" }));
    server.until(&server.token, "/v1/runs/one", |run| run["requests"] == 1);
    let run = server.get(&server.token, "/v1/runs/one").json();
    assert_eq!(run["state"], "running", "{run}");
    let workspaces = fs::read_dir(server.place.path("served/workspaces")).unwrap();
    let pid = workspaces
        .filter_map(|one| fs::read_to_string(one.unwrap().path().join("pids.txt")).ok())
        .next();
    let pid: i32 = pid.unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let run = server.until(&server.token, "/v1/runs/one", |run| {
        run["state"] == "resting"
    });
    assert_eq!(run["status"], "waiting", "{run}");
}
