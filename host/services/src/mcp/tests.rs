//! Servers that do not behave: each limit is enforced, and nothing of a server is left.

mod hanging;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::config::{ServerConfig, ServerTransport, StdioServer};
use super::{GrantedTools, McpServers};
use crate::http::HttpClient;
use crate::http::secrets::Secrets;
use crate::variables::Variables;

/// A server that answers each request with what `reply(method, params)` returns.
const SERVER: &str = r#"
import json, os, subprocess, sys, time
def tools(names, **more):
    return {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names], **more}
def reply(method, params):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"]}
    return listed(params)
def serve():
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = reply(message["method"], message["params"])
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// Returns the servers of a team with one server, `s`, which runs a script after `SERVER`.
fn servers(script: &str, start: Duration) -> McpServers {
    let mut config = ServerConfig::new(ServerTransport::Stdio(StdioServer {
        command: vec!["python3".into(), "-c".into(), format!("{SERVER}\n{script}")],
        dir: PathBuf::from("/"),
        env: Vec::new(),
        set: Vec::new(),
        secrets: Vec::new(),
    }));
    config.start = start;
    let http = HttpClient::new(Secrets::new(BTreeMap::new())).expect("a client");
    let configs = BTreeMap::from([("s".to_owned(), config)]);
    McpServers::new(configs, Arc::new(http), Variables::default())
}

fn everything() -> Vec<GrantedTools> {
    vec![GrantedTools {
        server: "s".into(),
        tools: vec!["*".into()],
        approve: Vec::new(),
        deferral: crate::tools::Deferral::Never,
        position: 0,
    }]
}

/// Checks that a server does not start, and why.
async fn check_refused(script: &str, expected: &str) {
    let servers = servers(script, Duration::from_secs(20));
    let (lists, _) = servers.list(everything(), Vec::new()).await;
    let error = lists.expect_err("the server breaks a limit");
    assert!(error.message.contains(expected), "{}", error.message);
    servers.close().await;
}

#[tokio::test]
async fn a_message_without_an_end_stops_its_server() {
    let flood = "sys.stdout.write('x' * (17 << 20)); sys.stdout.flush(); time.sleep(60)";
    check_refused(flood, "a message of more than 16 MiB").await;
}

#[tokio::test]
async fn a_program_that_writes_without_end_and_is_no_server_is_stopped() {
    let endless = "while True: print('nothing to see')";
    let expected = "more than 16 MiB without a message, and was stopped; its standard output has no messages, but `nothing to see`";
    check_refused(endless, expected).await;
}

#[tokio::test]
async fn a_list_has_a_limit_of_tools_of_bytes_and_of_pages() {
    let many = "def listed(params): return tools(f't{n}' for n in range(1001))\nserve()";
    check_refused(many, "more than 1000 tools").await;
    let large =
        "def listed(params):\n    return {'tools': [{'name': 't', 'x': 'x' * (5 << 20)}]}\nserve()";
    check_refused(large, "more than 4 MiB").await;
    let endless = "def listed(params):\n    n = int(params.get('cursor', 0)) + 1\n    return tools([f't{n}'], nextCursor=str(n))\nserve()";
    check_refused(endless, "more than 100 pages").await;
}

#[tokio::test]
async fn a_server_that_ends_has_its_last_words() {
    let dying = "for n in range(30): print('word', n, file=sys.stderr)\nsys.exit(3)";
    check_refused(dying, "word 29").await;
}

#[tokio::test]
async fn what_a_program_prints_instead_of_messages_is_part_of_why_it_does_not_start() {
    check_refused("print('usage: server KEY')", "but `usage: server KEY`").await;
    let waiting = "print('enter \\x1b[1mthe key'); sys.stdout.flush(); time.sleep(60)";
    let servers = servers(waiting, Duration::from_secs(2));
    let (lists, _) = servers.list(everything(), Vec::new()).await;
    let error = lists.expect_err("no list");
    for part in ["`start`", "but `enter [1mthe key`"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_stopped() {
    let servers = servers("time.sleep(60)", Duration::from_millis(300));
    let (lists, _) = servers.list(everything(), Vec::new()).await;
    let error = lists.expect_err("no list");
    assert!(error.message.contains("`start`"), "{}", error.message);
}

#[tokio::test]
async fn lines_that_are_no_messages_are_skipped_and_a_repeated_page_ends_the_list() {
    let script = "print('hello\\n{}\\n[1]')\ndef listed(params): return tools(['b', 'a'], nextCursor='again')\nserve()";
    let servers = servers(script, Duration::from_secs(20));
    let (lists, notices) = servers.list(everything(), Vec::new()).await;
    let lists = lists.expect("a list");
    let names: Vec<&str> = lists[0]
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(notices.len(), 1, "{notices:?}");
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_refuses_the_newest_revision_is_asked_for_one_that_it_names() {
    let script = r#"
REFUSALS = [0]
def answer(method, params):
    if method == "initialize":
        return {"result": {"protocolVersion": "2025-06-18"}}
    if method == "tools/list":
        return {"result": tools([params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion", "older")])}
    REFUSALS[0] += 1
    if REFUSALS[0] > ALLOWED:
        return {"result": {"supportedVersions": ["2026-07-28"]}}
    return {"error": {"code": -32022, "message": "no", "data": {"supported": SUPPORTED}}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = answer(message["method"], message["params"])
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}), flush=True)
"#;
    let check = |setting: &'static str, expected: &'static str| async move {
        let servers = servers(&format!("{setting}\n{script}"), Duration::from_secs(20));
        let (lists, _) = servers.list(everything(), Vec::new()).await;
        let lists = lists.map_err(|error| error.message);
        let found = lists.map(|lists| lists[0].tools[0].name.clone());
        servers.close().await;
        match found {
            Ok(name) => assert_eq!(name, expected, "{setting}"),
            Err(why) => assert!(why.contains(expected), "{setting}: {why}"),
        }
    };
    check("ALLOWED, SUPPORTED = 1, ['2026-07-28']", "2026-07-28").await;
    check(
        "ALLOWED, SUPPORTED = 9, ['2026-07-28']",
        "it speaks 2026-07-28",
    )
    .await;
    check(
        "ALLOWED, SUPPORTED = 9, ['2030-01-01', '2025-06-18']",
        "older",
    )
    .await;
    check(
        "ALLOWED, SUPPORTED = 9, ['2030-01-01']",
        "it speaks 2030-01-01",
    )
    .await;
}
