//! What the spans of a call say about its requests: those of the call, and of the attempt that makes
//! nothing but this call.

use serde_json::Value;
use tracing::Span;

use super::connection::Connection;
use super::message::RpcError;
use super::revision::Revision;
use crate::telemetry::{CallTrace, ContentCapture, content_text, names};

/// Calls a function with the span of the call, which is the current one, and with that of its attempt.
fn with_spans(trace: &CallTrace, note: impl Fn(&Span)) {
    note(&Span::current());
    if let Some(attempt) = &trace.attempt {
        note(attempt);
    }
}

/// Notes a request that is about to be sent.
pub(super) fn record_request(
    trace: &CallTrace,
    connection: &Connection,
    revision: Revision,
    id: u64,
) {
    if trace.run.is_none() {
        return;
    }
    let transport = match connection {
        Connection::Stdio(_) => "pipe",
        Connection::Http(_) => "tcp",
    };
    let id = id.to_string();
    with_spans(trace, |span| {
        span.record(names::MCP_METHOD, names::TOOLS_CALL)
            .record(names::MCP_REVISION, revision.name())
            .record(names::NETWORK_TRANSPORT, transport)
            .record(names::REQUEST_ID, id.as_str());
    });
}

/// Notes the tool, in the span of the call, and its arguments if they are to be part of spans.
pub(super) fn record_tool(trace: &CallTrace, tool: &str, arguments: &str) {
    let span = Span::current();
    span.record(names::TOOL_NAME, tool)
        .record(names::OPERATION_NAME, names::EXECUTE_TOOL);
    if trace.content == ContentCapture::Captured {
        span.record(names::TOOL_ARGUMENTS, content_text(arguments));
    }
}

/// Notes a result that says that the tool failed.
pub(super) fn record_result(trace: &CallTrace, result: &serde_json::Map<String, Value>) {
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        record_error(trace, names::TOOL_ERROR);
    }
}

/// Notes that the server answered with an error.
pub(super) fn record_refusal(trace: &CallTrace, error: &RpcError) {
    record_error(trace, &error.code.to_string());
}

fn record_error(trace: &CallTrace, kind: &str) {
    with_spans(trace, |span| {
        span.record(names::ERROR_TYPE, kind)
            .record("otel.status_code", "ERROR");
    });
}
