//! What a collector is sent about the Model Context Protocol: calls of servers, and calls that are served.

use std::fs;

use serde_json::json;

use crate::collector::{Received, attributes};
use crate::killed_mcp::SERVER;
use crate::mcp_client::{McpClient, NEWEST};
use crate::telemetry::{RUN, check, endpoint, looker, traced};
use crate::web::Web;
use crate::workspace::Workspace;

/// A team whose model calls two tools of a server, of which the second fails.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "reader"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[mcp.pages]
command = ["python3", "server.py", "fails=order"]
[[role]]
name = "Eye"
watch = ["UserRequirement"]
react = "tools"
[[role.tool]]
mcp = "pages"
tools = ["*"]
"#;

#[test]
fn a_call_of_a_server_is_a_span_whose_trace_the_server_is_told() {
    let (place, web) = (Workspace::with(TEAM), Web::new());
    place.write("server.py", SERVER);
    place.write(
        "replies.toml",
        "[[reply]]\nturn = 0\ntool_calls = [{ name = \"pages__read_page\", arguments = { n = 1 } }, \
         { name = \"pages__order\", arguments = { n = 2 } }]\n[[reply]]\nturn = 1\ntext = \"done\"\n",
    );
    traced(&place, &endpoint(&web), &RUN).end().expect(0);
    let received = Received::at(&web);
    let read = received.span("tools/call read_page");
    let way = [
        "tools/call read_page",
        "execute_tool pages/read_page",
        "invoke_agent Eye",
        "step",
        "invoke_workflow reader",
    ];
    assert_eq!(received.ancestors(read), way);
    // The kind of requests to others.
    assert_eq!(read.kind, 3);
    let attempt = received.span("execute_tool pages/read_page");
    for span in [read, attempt] {
        check(
            span,
            &[
                ("mcp.method.name", "tools/call"),
                ("mcp.protocol.version", NEWEST),
                ("network.transport", "pipe"),
            ],
        );
        assert!(attributes(span).contains_key("jsonrpc.request.id"));
    }
    check(read, &[("gen_ai.tool.name", "read_page")]);
    check(attempt, &[("gen_ai.tool.type", "extension")]);
    for name in ["tools/call order", "execute_tool pages/order"] {
        check(received.span(name), &[("error.type", "tool_error")]);
    }
    // The server was told the spans of its calls.
    let traces = fs::read_to_string(place.path("traces.txt")).expect("traces");
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let context = format!("00-{}-{}-01", hex(&read.trace_id), hex(&read.span_id));
    assert!(
        traces.lines().any(|line| line == context),
        "{context}: {traces}"
    );
    let calls = received.points("mcp.client.operation.duration");
    assert_eq!(calls.iter().map(|point| point.count).sum::<u64>(), 2);
    let attempts = received.points("gen_ai.execute_tool.duration");
    assert_eq!(attempts.iter().map(|point| point.count).sum::<u64>(), 2);
    // Without a collector, nothing in a request depends on a trace.
    fs::remove_file(place.path("traces.txt")).expect("removed");
    place
        .host(&["run", "team.toml", "--storage", "other"])
        .expect(0);
    assert!(!place.path("traces.txt").exists());
}

#[test]
fn a_served_call_belongs_to_the_trace_of_its_client() {
    let (place, web) = (looker(), Web::new());
    let mut command = place.command(&["mcp", "team.toml", "--storage", "runs"]);
    command
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint(&web));
    let mut client = McpClient::start(command, NEWEST);
    let meta = json!({ "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" });
    let params = json!({ "name": "looker", "arguments": { "idea": "go" }, "_meta": meta });
    let done = client.request("tools/call", params);
    client.end().expect_orderly();
    let received = Received::at(&web);
    let served = received.span("tools/call looker");
    let trace = [
        10, 247, 101, 25, 22, 205, 67, 221, 132, 72, 235, 33, 28, 128, 49, 156,
    ];
    assert_eq!((served.trace_id.as_slice(), served.kind), (&trace[..], 2));
    let run = done["result"]["structuredContent"]["run"].as_str().unwrap();
    check(
        served,
        &[
            ("mcp.method.name", "tools/call"),
            ("mcp.protocol.version", NEWEST),
            ("network.transport", "pipe"),
            ("gen_ai.conversation.id", run),
        ],
    );
    check(
        received.span("invoke_workflow looker"),
        &[("gen_ai.conversation.id", run)],
    );
    assert_eq!(received.points("mcp.server.operation.duration").len(), 1);
}
