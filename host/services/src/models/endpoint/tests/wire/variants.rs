//! Replies in shapes that servers send although the provider does not document them.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use super::{Call, LogicalReply, USAGE, WireReply, plain};
use crate::models::FinishReason;
use crate::models::config::ProtocolName;

/// A call that most of these replies contain.
const ADD: Call = Call {
    name: "add",
    arguments: r#"{"a":1}"#,
};
/// A call without arguments.
const NOW: Call = Call {
    name: "now",
    arguments: "{}",
};

/// Returns the replies with the protocol of a provider.
pub(super) fn replies(protocol: ProtocolName) -> Vec<(LogicalReply, WireReply)> {
    match protocol {
        ProtocolName::OpenAi => openai::replies(),
        ProtocolName::Responses => responses::replies(),
        ProtocolName::Anthropic => anthropic::replies(),
        ProtocolName::Gemini => gemini::replies(),
    }
}

/// Returns a reply that says hello.
fn hello(name: &'static str) -> LogicalReply {
    plain(name, "hello", FinishReason::Stop)
}

/// Returns a reply that calls tools.
fn calling(name: &'static str, calls: &'static [Call]) -> LogicalReply {
    LogicalReply {
        calls,
        ..plain(name, "", FinishReason::ToolCalls)
    }
}
