//! Teams and components as tools of MCP clients, over standard input and output.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp_client::{McpClient, NEWEST, OLDER};
use crate::probe::build;
use crate::web::Web;
use crate::workspace::Workspace;

/// A team whose role has one action with these steps.
pub fn team(steps: &str) -> String {
    format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"press\"\n[[role]]\nname = \"Writer\"\n\
         watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"draft\"\ncomponent = \"probe.wasm\"\n\
         config = {{ steps = [{steps}] }}\n"
    )
}

/// A team that asks how many, and answers with that.
pub const ASKS: &str = r#"{ ask = "how many?", schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] } }, { say = "answer {reads}" }"#;

/// Returns a team that makes a request, of which the first is not answered.
fn waits_for(web: &Web) -> String {
    let url = format!("http://127.0.0.1:{}/v1/once/page", web.port());
    let steps = format!(r#"{{ http = "{url}" }}, {{ say = "went on" }}"#);
    let grant = format!(
        r#"{{ host = "127.0.0.1:{}", methods = ["GET"], path = "/*" }}"#,
        web.port()
    );
    team(&steps) + &format!("allow = {{ http = [{grant}] }}\n")
}

/// Returns the command that serves `team.toml`.
pub fn serve(place: &Workspace) -> Command {
    place.command(&["mcp", "team.toml", "--storage", "runs"])
}

/// Returns the status that a result has.
pub fn status(response: &Value) -> &str {
    let status = &response["result"]["structuredContent"]["status"];
    status.as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Returns the name of the run that a result has.
pub fn run_name(response: &Value) -> String {
    let run = &response["result"]["structuredContent"]["run"];
    run.as_str()
        .unwrap_or_else(|| panic!("{response}"))
        .to_owned()
}

/// Returns the text of a result.
pub fn text(response: &Value) -> &str {
    let text = &response["result"]["content"][0]["text"];
    text.as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Returns the names of the runs that are kept.
pub fn runs(place: &Workspace) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("runs")).expect("the directory of the runs");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_run = |path: &PathBuf| path.join("team.db").exists();
    paths.filter(is_run).collect()
}

pub fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[test]
fn a_team_asks_the_user_of_its_client_in_every_revision() {
    let place = Workspace::with(&team(ASKS));
    let mut client = McpClient::start(serve(&place), NEWEST);
    let arguments = json!({ "idea": "go" });
    let asked = client.call("press", arguments.clone());
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let requests = result["inputRequests"].as_object().expect("requests");
    let (id, request) = requests.iter().next().expect("one");
    assert_eq!(request["method"], "elicitation/create");
    let again = |answer: Value| {
        json!({
            "name": "press", "arguments": arguments, "inputResponses": { id: answer },
            "requestState": result["requestState"],
        })
    };
    let wrong = client.request("tools/call", again(accept(json!({ "n": "many" }))));
    assert_eq!(wrong["result"]["resultType"], "input_required", "{wrong}");
    let done = client.request("tools/call", again(accept(json!({ "n": 7 }))));
    assert_eq!(status(&done), "done");
    assert!(text(&done).contains('7'), "{done}");
    client.end().expect_orderly();

    for revision in OLDER {
        let mut client = McpClient::start(serve(&place), revision);
        client.answers = vec![accept(json!({ "n": "many" })), accept(json!({ "n": 8 }))];
        let done = client.call("press", json!({ "idea": "go" }));
        assert_eq!(status(&done), "done", "{revision}");
        assert!(text(&done).contains('8'), "{done}");
        let asked = client.received.iter();
        let asked: Vec<_> = asked
            .filter(|message| message["method"] == "elicitation/create")
            .collect();
        assert_eq!(asked.len(), 2, "{revision}");
        let message = asked[1]["params"]["message"].as_str().expect("a text");
        assert!(
            message.contains("The last answer was not accepted"),
            "{message}"
        );
        client.end().expect_orderly();
    }
}

#[test]
fn a_question_that_nobody_answers_stays_open_for_the_command_line() {
    let place = Workspace::with(&team(ASKS));
    let cannot = McpClient::start_with(serve(&place), NEWEST, json!({}));
    let declines = McpClient::start(serve(&place), OLDER[0]);
    for (mut client, replies) in [
        (cannot, vec![]),
        (declines, vec![json!({ "action": "decline" })]),
    ] {
        client.answers = replies;
        let waiting = client.call("press", json!({ "idea": "go" }));
        assert_eq!(waiting["result"]["isError"], true, "{waiting}");
        assert_eq!(status(&waiting), "waiting");
        assert!(text(&waiting).contains("how many?"), "{waiting}");
        let name = run_name(&waiting);
        // The command that the text names works as it is.
        let mut command = text(&waiting).lines().map(str::trim);
        let command = command
            .rfind(|line| line.starts_with("strata-host answer"))
            .unwrap_or_else(|| panic!("{waiting}"));
        assert!(command.contains(&name), "{command}");
        let store = format!("runs/{name}");
        let request = command.split(' ').rfind(|word| word.contains('='));
        let request = request.and_then(|word| word.trim_matches('\'').split('=').next());
        let answer = format!(r#"{}={{"n":9}}"#, request.expect("a request"));
        let answered = place.host(&["answer", &store, &answer]);
        answered.expect(0);
        let done = client.call("press", json!({ "idea": "go", "run": name }));
        assert_eq!(status(&done), "done");
        assert!(text(&done).contains('9'), "{done}");
        client.end().expect_orderly();
    }
}

#[test]
fn an_answer_in_the_arguments_is_refused() {
    let place = Workspace::with(&team(ASKS));
    let mut client = McpClient::start(serve(&place), NEWEST);
    let refused = client.call("press", json!({ "idea": "go", "answer": { "n": 1 } }));
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(text(&refused).contains("no argument `answer`"), "{refused}");
    assert_eq!(runs(&place).len(), 0);
    client.end().expect_orderly();
}

#[test]
fn a_killed_server_goes_on_with_the_run_of_a_key() {
    let web = Web::new();
    let place = Workspace::with(&waits_for(&web));
    let mut client = McpClient::start(serve(&place), NEWEST);
    let params = json!({
        "name": "press", "arguments": { "idea": "go" }, "_meta": { "strata/idempotency-key": "k" },
    });
    client.send("tools/call", params);
    web.wait(1);
    client.kill();

    let mut client = McpClient::start(serve(&place), NEWEST);
    let other = client.call_with_key("press", json!({ "idea": "stop" }), "k");
    assert_eq!(other["error"]["code"], -32602, "{other}");
    let done = client.call_with_key("press", json!({ "idea": "go" }), "k");
    assert_eq!((status(&done), text(&done)), ("done", "went on"));
    let name = run_name(&done);
    // What is done is not run again.
    let same = client.call_with_key("press", json!({ "idea": "go" }), "k");
    assert_eq!(same["result"], done["result"]);
    let named = client.call("press", json!({ "idea": "go", "run": name }));
    assert_eq!(named["result"], done["result"]);
    assert_eq!(runs(&place).len(), 1);
    assert_eq!(web.lines().len(), 2);
    client.end().expect_orderly();
}

#[test]
fn the_end_of_the_input_saves_runs_which_go_on_by_their_names() {
    let web = Web::new();
    let place = Workspace::with(&waits_for(&web));
    let mut client = McpClient::start(serve(&place), OLDER[0]);
    client.send(
        "tools/call",
        json!({ "name": "press", "arguments": { "idea": "go" } }),
    );
    web.wait(1);
    client.end().expect_orderly();
    let kept = runs(&place);
    let [run] = kept.as_slice() else {
        panic!("{kept:?}");
    };
    let name = run.file_name().expect("a name").to_string_lossy();
    let store = format!("runs/{name}");
    let saved = place.host(&["inspect", &store, "--json"]);
    saved.expect(0);
    let mut client = McpClient::start(serve(&place), NEWEST);
    let done = client.call("press", json!({ "idea": "go", "run": name }));
    assert_eq!((status(&done), text(&done)), ("done", "went on"));
    let unknown = client.call("press", json!({ "idea": "go", "run": "../press" }));
    assert_eq!(unknown["result"]["isError"], true, "{unknown}");
    client.end().expect_orderly();
}

#[test]
fn a_state_is_accepted_after_a_restart_and_only_unchanged() {
    let place = Workspace::with(&team(ASKS));
    let mut client = McpClient::start(serve(&place), NEWEST);
    let asked = client.call("press", json!({ "idea": "go" }));
    client.kill();
    let mut client = McpClient::start(serve(&place), NEWEST);
    let state = asked["result"]["requestState"].as_str().expect("a state");
    let requests = asked["result"]["inputRequests"]
        .as_object()
        .expect("requests");
    let id = requests.keys().next().expect("one");
    let again = |idea: &str, state: &str| {
        json!({
            "name": "press", "arguments": { "idea": idea },
            "inputResponses": { id: accept(json!({ "n": 7 })) }, "requestState": state,
        })
    };
    let half = &state[..state.len() / 2];
    let added = format!("{state}A");
    for (idea, state) in [("go", half), ("go", &added), ("go", ""), ("other", state)] {
        let refused = client.request("tools/call", again(idea, state));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    let done = client.request("tools/call", again("go", state));
    assert_eq!(status(&done), "done", "{done}");
    client.end().expect_orderly();
}

#[test]
fn components_are_tools_whose_faults_are_results() {
    let place = Workspace::empty();
    fs::copy(build("plugins/calculate"), place.path("calculate.wasm")).expect("copied");
    let command = || place.command(&["mcp", "probe.wasm", "calculate.wasm"]);
    for revision in [NEWEST, OLDER[2]] {
        let mut client = McpClient::start(command(), revision);
        let listed = client.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().expect("tools");
        let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["calculate", "probe"], "{revision}");
        let done = client.call("probe", json!({}));
        assert!(text(&done).ends_with("ok"), "{done}");
        let wrong = client.call("calculate", json!({ "expression": 1 }));
        assert_eq!(wrong["result"]["isError"], true, "{wrong}");
        assert!(text(&wrong).starts_with("invalid: "), "{wrong}");
        let failed = client.call("calculate", json!({ "expression": "1+" }));
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        assert!(text(&failed).starts_with("error: "), "{failed}");
        let unknown = client.call("prob", json!({}));
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        client.end().expect_orderly();
    }
    let both = place.host(&["mcp", "probe.wasm", "./probe.wasm"]);
    let said = both.expect(2).stderr;
    assert!(said.contains("would both be the tool `probe`"), "{said}");
    let mixed = place.host(&["mcp", "probe.wasm", "team.toml"]);
    mixed.expect(2);
}

#[test]
fn progress_names_the_role_and_its_action_and_grows() {
    let steps = r#"{ sleep = "300ms" }, { say = "done" }"#;
    let place = Workspace::with(&team(steps));
    let mut client = McpClient::start(serve(&place), NEWEST);
    let meta = json!({ "progressToken": 42 });
    let params = json!({ "name": "press", "arguments": { "idea": "go" }, "_meta": meta });
    let done = client.request("tools/call", params);
    assert_eq!(status(&done), "done");
    let reports = client.received.iter();
    let reports: Vec<&Value> = reports
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| &message["params"])
        .collect();
    assert!(!reports.is_empty());
    let mut before = -1.0;
    for report in reports {
        assert_eq!(report["progressToken"], 42);
        let progress = report["progress"].as_f64().expect("a number");
        assert!(progress > before, "{report}");
        before = progress;
        let message = report["message"].as_str().expect("a text");
        assert!(message.contains("Writer.draft"), "{message}");
    }
    client.end().expect_orderly();
}

#[test]
fn a_team_that_cannot_be_run_is_refused_before_the_protocol_begins() {
    let place = Workspace::with(&team("{ say = \"x\" }").replace("probe.wasm", "absent.wasm"));
    let ended = place.host(&["mcp", "team.toml"]);
    let ended = ended.expect(2);
    assert!(ended.stdout.is_empty(), "{}", ended.stdout);
    assert!(ended.stderr.contains("absent.wasm"), "{}", ended.stderr);
}
