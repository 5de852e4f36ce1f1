//! Servers that answer a call with what is no message.

use std::time::Duration;

use serde_json::json;

use super::super::call::{CallEnd, CallLimits};
use super::super::server::RunningServer;
use super::super::session::ToolCall;
use super::servers;
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
    check(r#"b'{"id": \xff\x1b[1m"'"#, "{\"id\": \u{fffd} [1m\"`").await;
    let deep = r#"b'{"jsonrpc":"2.0","id":3,"result":' + b'{"a":' * 3000 + b'1' + b'}' * 3001"#;
    check(
        deep,
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"a\":{\"a\":",
    )
    .await;
    check("b'debug: 1'", "then this`").await;
}
