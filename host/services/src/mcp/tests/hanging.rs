//! Servers that hang in a call, or answer it with what is no message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use strata_core::record::event::ServerState;

use super::super::call::{CallEnd, CallLimits};
use super::super::exchange::Reach;
use super::super::server::{RunningServer, ServerNotice};
use super::super::session::ToolCall;
use super::{everything, servers};
use crate::telemetry::CallTrace;

/// A server of an older revision that carries out `call(id, tool)`, one call after another, and answers with what that
/// returns, if anything.
const OLD: &str = r#"
import threading
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()
def handle(message):
    method, id = message["method"], message["id"]
    if method == "initialize":
        return send(id=id, result={"protocolVersion": "2025-06-18"})
    if method == "tools/list":
        return send(id=id, result=tools(["echo", "hang", "slow"]))
    if method == "ping":
        return send(id=id, result={})
    if method != "tools/call":
        return send(id=id, error={"code": -32601, "message": "no"})
    text = call(id, message["params"]["name"])
    if text is not None:
        send(id=id, result={"content": [{"type": "text", "text": text}]})
def call(id, tool):
    if tool == "hang":
        time.sleep(1000)
    if tool == "slow":
        time.sleep(1)
    return f"{os.getpid()}"
def serve_old(start=lambda work: work()):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            start(lambda: handle(message))
"#;
/// Lets each request have a thread of its own.
const IN_THREADS: &str =
    "serve_old(lambda work: threading.Thread(target=work, daemon=True).start())";

/// Calls a tool, and gives it up after a silence of so many milliseconds.
async fn call(running: &RunningServer, tool: &str, silence: u64) -> CallEnd {
    let call = ToolCall {
        tool,
        arguments: &json!({}),
        idempotency_key: None,
        round: None,
        known: &Default::default(),
        headers: &[],
        trace: &CallTrace::default(),
    };
    let limits = CallLimits {
        silence: Duration::from_millis(silence),
        total: Duration::from_secs(60),
    };
    running.session.call(&call, limits).await
}

#[track_caller]
fn assert_timed_out(end: CallEnd) -> String {
    match end {
        CallEnd::TimedOut(what) => what,
        CallEnd::Result(result) => panic!("a result: {result:?}"),
        _ => panic!("another end"),
    }
}

#[track_caller]
fn assert_answered(end: CallEnd) -> Value {
    match end {
        CallEnd::Result(result) => result["content"][0]["text"].clone(),
        CallEnd::TimedOut(what) => panic!("{what}"),
        _ => panic!("another end"),
    }
}

fn states(notices: Vec<ServerNotice>) -> Vec<ServerState> {
    let state = |notice| match notice {
        ServerNotice::Changed(changed) => Some(changed.state),
        ServerNotice::ToolOmitted(_) => None,
    };
    notices.into_iter().filter_map(state).collect()
}

#[tokio::test]
async fn a_server_that_hangs_in_a_call_is_started_again_before_the_next_one() {
    let modern = r#"
def reply(method, params):
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"]}
    if method == "tools/list":
        return tools(["echo", "hang"])
    return {"content": [{"type": "text", "text": call(0, params["name"])}]}
serve()"#;
    for script in ["serve_old()", modern] {
        let servers = servers(&format!("{OLD}\n{script}"), Duration::from_secs(20));
        let server = servers.get("s").expect("the server");
        let first = server.running().await.expect("it starts");
        let pid = assert_answered(call(&first, "echo", 5000).await);
        assert_timed_out(call(&first, "hang", 200).await);
        let second = server.running().await.expect("it starts again");
        let other = assert_answered(call(&second, "echo", 5000).await);
        assert_ne!(pid, other, "{script}");
        let expected = [ServerState::Ready, ServerState::Restarted];
        assert_eq!(states(server.take_notices()), expected);
        servers.close().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_again_and_again_is_started_three_times_more() {
    let servers = servers(&format!("{OLD}\nserve_old()"), Duration::from_secs(20));
    let server = servers.get("s").expect("the server");
    for _ in 0..4 {
        let running = server.running().await.expect("it starts");
        assert_timed_out(call(&running, "hang", 100).await);
    }
    let Err(error) = server.running().await else {
        panic!("it was started again");
    };
    let expected = "has ended or was stopped 4 times";
    assert!(error.message.contains(expected), "{}", error.message);
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_is_slow_in_one_call_and_answers_others_is_not_started_again() {
    // With threads it hangs in one call for ever; with one thread it reads the next request late.
    for (script, tool) in [(IN_THREADS, "hang"), ("serve_old()", "slow")] {
        let servers = servers(&format!("{OLD}\n{script}"), Duration::from_secs(20));
        let server = servers.get("s").expect("the server");
        let first = server.running().await.expect("it starts");
        assert_timed_out(call(&first, tool, 200).await);
        let second = server.running().await.expect("it runs");
        assert!(Arc::ptr_eq(&first, &second), "{script}");
        assert_answered(call(&second, "echo", 5000).await);
        servers.close().await;
    }
}

#[tokio::test]
async fn a_server_that_reports_the_progress_of_a_call_does_not_hang() {
    let script = r#"
def call(id, tool):
    while tool == "slow":
        send(method="notifications/progress", params={"progressToken": id, "progress": 1})
        time.sleep(0.1)
serve_old()"#;
    let servers = servers(&format!("{OLD}\n{script}"), Duration::from_secs(20));
    let server = servers.get("s").expect("the server");
    let running = server.running().await.expect("it starts");
    let open = {
        let running = running.clone();
        tokio::spawn(async move { call(&running, "slow", 1000).await })
    };
    assert_timed_out(call(&running, "echo", 200).await);
    let again = server.running().await.expect("it runs");
    assert!(Arc::ptr_eq(&running, &again));
    open.abort();
    servers.close().await;
}

#[tokio::test]
async fn the_open_calls_of_a_server_that_hangs_are_told_that_it_was_stopped() {
    let servers = servers(&format!("{OLD}\nserve_old()"), Duration::from_secs(20));
    let server = servers.get("s").expect("the server");
    let running = server.running().await.expect("it starts");
    assert_timed_out(call(&running, "hang", 200).await);
    let (end, again) = tokio::join!(call(&running, "echo", 60_000), server.running());
    let CallEnd::Lost(lost) = end else {
        panic!("it is lost");
    };
    assert_eq!(lost.reach, Reach::Unknown);
    let expected = "answered nothing for 5 s after a call was given up, and was stopped";
    assert!(lost.message.contains(expected), "{}", lost.message);
    assert!(!Arc::ptr_eq(&running, &again.expect("it starts again")));
    servers.close().await;
}

#[tokio::test]
async fn a_server_that_asks_a_person_within_a_call_is_not_stopped() {
    let script = r#"
def call(id, tool):
    if tool == "slow":
        send(id="q", method="elicitation/create", params={"message": "?", "requestedSchema": {"type": "object"}})
        while json.loads(sys.stdin.readline()).get("id") != "q":
            pass
    return "answered"
serve_old()"#;
    let servers = servers(&format!("{OLD}\n{script}"), Duration::from_secs(20));
    let server = servers.get("s").expect("the server");
    let running = server.running().await.expect("it starts");
    let CallEnd::Asked(asking) = call(&running, "slow", 5000).await else {
        panic!("it asks");
    };
    let number = server.park(asking);
    assert_timed_out(call(&running, "echo", 200).await);
    let begun = Instant::now();
    let again = server.running().await.expect("it runs");
    assert!(Arc::ptr_eq(&running, &again));
    assert!(begun.elapsed() < Duration::from_secs(2), "it was not asked");
    let open = server.take_parked(number).expect("the call");
    let end = open.answer(&json!({})).wait(&Default::default()).await;
    assert_eq!(assert_answered(end), "answered");
    servers.close().await;
}

#[tokio::test]
async fn a_list_of_tools_that_never_comes_is_an_error_and_the_server_is_started_again() {
    let script = r#"
LISTED = [0]
def listed(params):
    LISTED[0] += 1
    if LISTED[0] == 2:
        print('{"list": [', flush=True)
        time.sleep(1000)
    return tools(["a"])
serve()"#;
    let servers = servers(script, Duration::from_secs(2));
    let list = || async { servers.list(everything(), Vec::new()).await.0 };
    list().await.expect("a list");
    let error = list().await.expect_err("no list");
    for part in [
        "took longer than 2 s (`start`",
        "no message of the protocol: `{\"list\": [`",
    ] {
        assert!(error.message.contains(part), "{}", error.message);
    }
    list().await.expect("a list of the next process");
    servers.close().await;
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_named_when_its_call_is_given_up() {
    let check = |written: &'static str, expected: &'static str| async move {
        let script = format!(
            "def call(id, tool):\n    sys.stdout.buffer.write({written} + b'\\nthen this\\n')\n    sys.stdout.flush()\nserve_old()"
        );
        let servers = servers(&format!("{OLD}\n{script}"), Duration::from_secs(20));
        let server = servers.get("s").expect("the server");
        let running = server.running().await.expect("it starts");
        let what = assert_timed_out(call(&running, "echo", 300).await);
        assert!(what.contains("said nothing for 300 ms"), "{what}");
        let expected = format!("wrote a line that is no message of the protocol: `{expected}");
        assert!(what.contains(&expected), "{what}");
        assert!(what.chars().count() < 400, "{what}");
        servers.close().await;
    };
    check(
        r#"b'{"id": \xff\x1b[1m"'"#,
        "{\"id\": \u{fffd} [1m\"` (its bytes are not UTF-8)",
    )
    .await;
    let deep = r#"b'{"jsonrpc":"2.0","id":3,"result":' + b'{"a":' * 3000 + b'1' + b'}' * 3001"#;
    check(
        deep,
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":{\"a\":",
    )
    .await;
    check("b'debug: 1'", "then this`").await;
}

#[tokio::test]
async fn a_line_that_is_no_message_is_part_of_the_fault_of_no_other_call() {
    let script = r#"
def call(id, tool):
    if tool == "slow":
        print("stray of slow", flush=True)
        time.sleep(1000)
    if tool == "hang":
        time.sleep(1)
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
"#;
    let servers = servers(
        &format!("{OLD}\n{script}\n{IN_THREADS}"),
        Duration::from_secs(20),
    );
    let server = servers.get("s").expect("the server");
    let running = server.running().await.expect("it starts");
    let given_up = assert_timed_out(call(&running, "slow", 300).await);
    assert!(given_up.contains("`stray of slow`"), "{given_up}");
    // The second call begins after the line of the first one, and ends with the same process.
    let later = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        call(&running, "hang", 20_000).await
    };
    let (first, second) = tokio::join!(call(&running, "slow", 20_000), later);
    let [first, second] = [first, second].map(|end| match end {
        CallEnd::Lost(lost) => lost.message,
        _ => panic!("another end"),
    });
    assert!(first.contains("`stray of slow`"), "{first}");
    assert!(!second.contains("stray"), "{second}");
    assert!(second.contains("last words"), "{second}");
    servers.close().await;
}
