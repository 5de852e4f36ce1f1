//! Submitted teams as tools for clients of the Model Context Protocol: who may call them, whose runs these are, and
//! how a question becomes the client's.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Answer, TestServer, wherever_runs_are};
use crate::mcp_client::NEWEST;

/// A team that works for a while.
const SLOW: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[env]
desc = "It takes its time"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = { steps = [{ sleep = "4s" }, { say = "heard {inputs}" }] }
"#;

/// The media types that a client has to accept.
pub const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

/// Returns a request of the newest revision, from a client that can be asked.
pub fn message(method: &str, mut params: Value) -> Value {
    let own = "io.modelcontextprotocol/";
    params["_meta"][format!("{own}protocolVersion")] = NEWEST.into();
    params["_meta"][format!("{own}clientInfo")] = json!({ "name": "tests", "version": "1" });
    params["_meta"][format!("{own}clientCapabilities")] = json!({ "elicitation": { "form": {} } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Returns a call of the team.
pub fn call(arguments: Value) -> Value {
    message("tools/call", json!({ "name": "t", "arguments": arguments }))
}

/// Returns a call of the team with an idempotency key.
pub fn call_with_key(key: &str) -> Value {
    let mut call = call(json!({ "idea": "go" }));
    call["params"]["_meta"]["strata/idempotency-key"] = key.into();
    call
}

/// Returns the head that goes with a message.
fn headers(message: &Value) -> Vec<(&str, &str)> {
    let mut headers = vec![ACCEPT, JSON, ("mcp-protocol-version", NEWEST)];
    headers.push(("mcp-method", message["method"].as_str().unwrap()));
    headers.extend(
        message["params"]["name"]
            .as_str()
            .map(|name| ("mcp-name", name)),
    );
    headers
}

fn post(server: &TestServer, token: &str, message: &Value) -> Answer {
    let body = message.to_string();
    server.request("POST", "/mcp", token, &headers(message), body.as_bytes())
}

/// Returns the messages of an answer, whether it is a document or a stream of events.
pub fn messages(answer: &Answer) -> Vec<Value> {
    let lines = answer.body.lines();
    let lines = lines.map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let messages = lines.filter_map(|line| serde_json::from_str(line).ok());
    messages.filter(Value::is_object).collect()
}

/// Sends a message and returns the response to it.
pub fn request(server: &TestServer, token: &str, message: &Value) -> Value {
    let answer = post(server, token, message);
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut found = messages(&answer).into_iter();
    let found = found.find(|one| one.get("result").or(one.get("error")).is_some());
    found.unwrap_or_else(|| panic!("{answer:?}"))
}

fn tools(server: &TestServer, token: &str) -> Vec<String> {
    let listed = request(server, token, &message("tools/list", json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// Returns the id of the question in a result, and the state that goes with it.
pub fn question(asked: &Value) -> (String, Value) {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let asked = &asked["result"];
    let ids = asked["inputRequests"].as_object().unwrap();
    (
        ids.keys().next().unwrap().clone(),
        asked["requestState"].clone(),
    )
}

/// Returns the call that brings the answer to a question.
pub fn reply((id, state): &(String, Value), content: Value) -> Value {
    let mut call = call(json!({ "idea": "go" }));
    call["params"]["inputResponses"] =
        json!({ id: { "action": "accept", "content": { "answer": content } } });
    call["params"]["requestState"] = state.clone();
    call
}

#[test]
fn a_submitted_team_is_a_tool_for_those_who_may_start_it() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let token = |name: &str, tenant: &str, rights: &[&str]| {
            server.new_token(name, Some(tenant), rights)
        };
        let ann = token("ann", "red", &["submit"]);
        let bob = token("bob", "red", &["submit"]);
        let eve = token("eve", "red", &["submit", "view"]);
        let blue = token("ann", "blue", &["submit", "view", "answer", "operate"]);
        assert!(tools(&server, &ann).is_empty());
        server.submit(&ann, json!({}));
        // A token sees the teams of the runs that it sees.
        for (who, expected) in [(&ann, 1), (&bob, 0), (&eve, 1), (&blue, 0)] {
            assert_eq!(tools(&server, who).len(), expected);
        }
        let unknown = request(&server, &blue, &call(json!({ "idea": "go" })));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

        let list = message("tools/list", json!({}));
        let (viewer, boss) = (
            token("v", "red", &["view"]),
            token("w", "red", &["answer", "operate"]),
        );
        for (who, status) in [
            ("", 401),
            ("strata_0", 401),
            (&viewer, 403),
            (&boss, 403),
            (&ann, 200),
        ] {
            assert_eq!(post(&server, who, &list).status, status, "{who}");
        }
        let own = format!("http://127.0.0.1:{}", server.port);
        for (more, status) in [
            (("host", "evil.example"), 421),
            (("origin", "http://evil.example"), 403),
            (("origin", "null"), 403),
            (("origin", own.as_str()), 200),
        ] {
            let mut headers = headers(&list);
            headers.push(more);
            let body = list.to_string();
            let answer = server.request("POST", "/mcp", &ann, &headers, body.as_bytes());
            assert_eq!(answer.status, status, "{more:?}");
            assert!(!answer.headers.contains("access-control"), "{answer:?}");
        }
    });
}

#[test]
fn a_question_of_a_team_is_put_to_a_client_that_may_answer() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let token = |name: &str, rights: &[&str]| server.new_token(name, Some("red"), rights);
        let ann = token("ann", &["submit", "answer"]);
        server.submit(&ann, json!({ "name": "first" }));
        let asked = request(&server, &ann, &call(json!({ "idea": "go" })));
        let question = question(&asked);
        let message = &asked["result"]["inputRequests"][&question.0]["params"]["message"];
        assert!(message.as_str().unwrap().contains("> how many?"), "{asked}");
        // An answer that does not fit is asked for again, with the reason.
        let again = request(&server, &ann, &reply(&question, json!("many")));
        let question = self::question(&again);
        assert!(again.to_string().contains("was not accepted"), "{again}");
        let done = request(&server, &ann, &reply(&question, json!("3")));
        let data = &done["result"]["structuredContent"];
        assert_eq!(data["status"], "done", "{done}");
        assert_eq!(done["result"]["content"][0]["text"], "answer 3");
        // It is a run like all others.
        let name = data["run"].as_str().unwrap();
        let run = server.get(&ann, &format!("/v1/runs/{name}")).json();
        let seen = (&run["tenant"], &run["by"], &run["state"], &run["output"]);
        assert_eq!(
            seen,
            (
                &json!("red"),
                &json!("ann"),
                &json!("ended"),
                &json!("answer 3")
            )
        );
        let events = server.get(&ann, &format!("/v1/runs/{name}/events")).body;
        assert!(events.contains(r#""person":"ann""#), "{events}");
        // What was asked of one token is no answer of another one.
        let bob = token("bob", &["submit", "answer", "view", "operate"]);
        let stolen = request(&server, &bob, &reply(&question, json!("3")));
        assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
    });
}

#[test]
fn a_token_that_may_not_answer_learns_who_is_asked() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let token = |name: &str, rights: &[&str]| server.new_token(name, Some("red"), rights);
        let (ann, boss) = (token("ann", &["submit"]), token("boss", &["answer"]));
        server.submit(&ann, json!({ "name": "first" }));
        server.until(&ann, "/v1/runs/first", |run| run["status"] == "waiting");
        let asked = request(&server, &ann, &call_with_key("k"));
        let result = &asked["result"];
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["status"]),
            (&json!(true), &json!("waiting"))
        );
        let said = result["content"][0]["text"].as_str().unwrap();
        assert!(
            said.contains("how many?") && said.contains("answer"),
            "{said}"
        );
        let run = result["structuredContent"]["run"].as_str().unwrap();
        let open = server.get(&boss, &format!("/v1/requests?run={run}")).json();
        let id = open["items"][0]["id"].as_str().unwrap();
        let answered = server.post(&boss, &format!("/v1/runs/{run}/answers"), &json!({ id: 5 }));
        assert_eq!(answered.status, 200, "{answered:?}");
        // The same key gets the same run, and so does its name.
        let done = request(&server, &ann, &call_with_key("k"));
        assert_eq!(done["result"]["content"][0]["text"], "answer 5", "{done}");
        let named = request(&server, &ann, &call(json!({ "idea": "go", "run": run })));
        assert_eq!(named["result"]["content"][0]["text"], "answer 5", "{named}");
        // The runs of others are unknown, even to those who may see them.
        let eve = token("eve", &["submit", "view"]);
        let blue = server.new_token("ann", Some("blue"), &["submit", "view", "operate"]);
        server.submit(&blue, json!({ "name": "theirs" }));
        for (who, name) in [
            (&eve, run),
            (&blue, run),
            (&ann, "theirs"),
            (&ann, "blue/theirs"),
            (&ann, "../first"),
        ] {
            let refused = request(&server, who, &call(json!({ "idea": "go", "run": name })));
            assert_eq!(refused["result"]["isError"], true, "{name}: {refused}");
            let said = refused["result"]["content"][0]["text"].as_str().unwrap();
            assert!(said.starts_with("there is no run"), "{said}");
        }
        // Keys belong to tokens.
        let other = request(&server, &eve, &call_with_key("k"));
        assert_ne!(other["result"]["structuredContent"]["run"], run, "{other}");
    });
}

#[test]
fn a_call_whose_connection_is_closed_pauses_its_run() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, SLOW);
        let ann = server.new_token("ann", Some("red"), &["submit"]);
        server.submit(&ann, json!({ "name": "first" }));
        let mut message = call_with_key("k");
        message["params"]["_meta"]["progressToken"] = 7.into();
        let body = message.to_string();
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {ann}\r\n",
            server.port
        );
        for (name, value) in headers(&message) {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n{body}", body.len());
        let mut connection = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        connection.write_all(head.as_bytes()).unwrap();
        let list = "/v1/runs?limit=1&state=running&state=queued";
        server.until(&ann, list, |page| {
            page["items"][0]["name"]
                .as_str()
                .is_some_and(|name| name != "first")
                && page["items"][0]["state"] == "running"
        });
        drop(connection);
        let paused = server.until(&ann, "/v1/runs?status=paused", |page| {
            !page["items"].as_array().unwrap().is_empty()
        });
        let answer = post(&server, &ann, &message);
        let messages = messages(&answer);
        let done = messages.last().unwrap();
        let result = &done["result"];
        assert_eq!(result["content"][0]["text"], "heard go", "{answer:?}");
        assert_eq!(
            result["structuredContent"]["run"],
            paused["items"][0]["name"]
        );
        let progress = messages
            .iter()
            .find(|one| one["method"] == "notifications/progress");
        let progress = &progress.unwrap()["params"];
        assert_eq!(progress["progressToken"], 7);
        assert!(
            progress["message"].as_str().unwrap().contains("A.p"),
            "{progress}"
        );
    });
}

#[test]
fn a_server_that_ends_answers_its_calls_and_their_runs_go_on_later() {
    wherever_runs_are(|runs| {
        let mut server = TestServer::start_at(runs, SLOW);
        let ann = server.new_token("ann", Some("red"), &["submit"]);
        server.submit(&ann, json!({ "name": "first" }));
        server.until(&ann, "/v1/runs/first", |run| run["state"] == "ended");
        let message = call_with_key("k");
        let begun = Instant::now();
        let answer = std::thread::scope(|scope| {
            let (port, body) = (server.port, message.to_string());
            let headers = headers(&message);
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {ann}\r\n"
            );
            let waiting = scope.spawn(move || {
                let mut head = head + "connection: close\r\n";
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                head += &format!("content-length: {}\r\n\r\n{body}", body.len());
                let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
                connection.write_all(head.as_bytes()).unwrap();
                let mut answer = String::new();
                let _ = std::io::Read::read_to_string(&mut connection, &mut answer);
                answer
            });
            server.until(&ann, "/v1/runs?state=running", |page| {
                !page["items"].as_array().unwrap().is_empty()
            });
            assert_eq!(server.terminate(), Some(0));
            waiting.join().unwrap()
        });
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(answer.contains("about to end"), "{answer}");
        server.start_again();
        let done = request(&server, &ann, &message);
        assert_eq!(done["result"]["content"][0]["text"], "heard go", "{done}");
        let runs = server.get(&ann, "/v1/runs").json();
        assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
    });
}

#[test]
fn the_commands_that_a_failed_call_names_work_through_the_server() {
    let failing = SLOW.replace(
        "{ sleep = \"4s\" }, { say = \"heard {inputs}\" }",
        "{ fail = \"trap\" }",
    );
    let server = TestServer::start(&failing);
    server.submit(&server.token, json!({ "name": "first" }));
    server.until(&server.token, "/v1/runs/first", |run| {
        run["status"] == "failed"
    });
    let called = request(&server, &server.token, &call(json!({ "idea": "go" })));
    let said = called["result"]["content"][0]["text"]
        .as_str()
        .expect("a text");
    assert_eq!(called["result"]["isError"], true, "{called}");
    let commands: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("strata-host "))
        .collect();
    assert_eq!(commands.len(), 1, "{said}");
    assert!(commands[0].contains("strata-host resume t-"), "{said}");
    assert!(commands[0].contains(" --server URL"), "{said}");
}
