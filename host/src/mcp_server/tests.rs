//! The server over an in-memory transport, with teams of the built-in probe.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use strata_manifest::Overrides;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::{Offer, OfferedTeam, Principal, serve_streams};

/// A client that sends and receives lines.
struct TestClient {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
    serving: JoinHandle<std::io::Result<()>>,
    offer: Offer,
    next_id: u64,
}

impl TestClient {
    fn connect(offer: Offer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let serving = {
            let offer = offer.clone();
            tokio::spawn(
                async move { serve_streams(&offer, Principal::local(), input, output).await },
            )
        };
        let (read, output) = tokio::io::split(ours);
        let lines = BufReader::new(read).lines();
        Self {
            lines,
            output,
            serving,
            offer,
            next_id: 1,
        }
    }

    async fn send_line(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).await.expect("sent");
        self.output.write_all(b"\n").await.expect("sent");
    }

    /// Sends a request of the newest revision, and returns its id.
    async fn send(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let own = "io.modelcontextprotocol/";
        let meta = params["_meta"].take();
        params["_meta"] = json!({
            format!("{own}protocolVersion"): "2026-07-28",
            format!("{own}clientInfo"): { "name": "test", "version": "1" },
            format!("{own}clientCapabilities"): { "elicitation": { "form": {} } },
        });
        if let Value::Object(more) = meta {
            params["_meta"]
                .as_object_mut()
                .expect("an object")
                .extend(more);
        }
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(&message.to_string()).await;
        id
    }

    async fn receive(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("read").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    async fn call(&mut self, tool: &str, params: Value) -> Value {
        let mut params = params;
        params["name"] = tool.into();
        let id = self.send("tools/call", params).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Closes the input, and waits for the end of the server.
    async fn end(mut self) {
        self.output.shutdown().await.expect("closed");
        self.serving.await.expect("no panic").expect("served");
        self.offer.close().await;
    }
}

fn offer(directory: &Path, steps: &str) -> Offer {
    let team = directory.join("team.toml");
    let text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"press\"\n[[role]]\nname = \"Writer\"\n\
         watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"draft\"\ncomponent = \"builtin:probe\"\n\
         config = {{ steps = {steps} }}\n"
    );
    std::fs::write(&team, text).expect("written");
    let offered = OfferedTeam {
        team,
        storage: directory.join("runs"),
        overrides: Overrides::default(),
        policy: None,
        telemetry: Default::default(),
    };
    Offer::team(offered, Arc::new(|_| ())).expect("a team")
}

const ASKS: &str = r#"[{ ask = "how many?", schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] } }, { say = "answer {reads}" }]"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_the_team_and_a_repeated_one_gets_the_same_run() {
    let place = tempfile::tempdir().expect("a directory");
    let mut client = TestClient::connect(offer(place.path(), r#"[{ say = "told {inputs}" }]"#));
    let key = json!({ "strata/idempotency-key": "k" });
    let params = json!({ "arguments": { "idea": "one" }, "_meta": key });
    let first = client.call("press", params.clone()).await;
    assert_eq!(first["result"]["structuredContent"]["status"], "done");
    assert_eq!(first["result"]["content"][0]["text"], "told one");
    let second = client.call("press", params).await;
    assert_eq!(first["result"], second["result"]);
    let other = json!({ "arguments": { "idea": "two" }, "_meta": key });
    assert_eq!(client.call("press", other).await["error"]["code"], -32602);
    assert_eq!(
        client.call("other", json!({})).await["error"]["code"],
        -32602
    );
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_until_it_is_answered_and_stays_open_if_it_is_declined() {
    let place = tempfile::tempdir().expect("a directory");
    let mut client = TestClient::connect(offer(place.path(), ASKS));
    let arguments = json!({ "idea": "go" });
    let asked = client
        .call("press", json!({ "arguments": arguments }))
        .await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    let id = asked["result"]["inputRequests"]
        .as_object()
        .expect("requests");
    let id = id.keys().next().expect("one").clone();
    let state = asked["result"]["requestState"].clone();
    let reply = |reply: Value| json!({ "arguments": arguments, "inputResponses": { &id: reply }, "requestState": state });
    let declined = client
        .call("press", reply(json!({ "action": "decline" })))
        .await;
    assert_eq!(declined["result"]["isError"], true);
    assert_eq!(declined["result"]["structuredContent"]["status"], "waiting");
    let wrong = json!({ "action": "accept", "content": { "n": "many" } });
    let wrong = client.call("press", reply(wrong)).await;
    assert_eq!(wrong["result"]["resultType"], "input_required");
    let right = json!({ "action": "accept", "content": { "n": 7 } });
    let right = client.call("press", reply(right)).await;
    assert_eq!(right["result"]["structuredContent"]["status"], "done");
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_client_is_refused_and_served_on() {
    let place = tempfile::tempdir().expect("a directory");
    let mut client = TestClient::connect(offer(place.path(), r#"[{ sleep = "40s" }]"#));
    client.send_line("no JSON").await;
    client
        .send_line(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}"#,
        )
        .await;
    client
        .send(
            "tools/call",
            json!({ "name": "press", "arguments": { "idea": "x" } }),
        )
        .await;
    client.next_id = 1;
    client.send("tools/list", json!({})).await;
    let refused = client.receive().await;
    assert_eq!(refused["error"]["code"], -32600);
    client.next_id = 2;
    client.send_line(&"x".repeat(17 << 20)).await;
    client.send("tools/list", json!({})).await;
    let listed = client.receive().await;
    assert_eq!(listed["result"]["tools"][0]["name"], "press");
    client.end().await;
}
