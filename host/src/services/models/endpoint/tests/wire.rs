//! The conformance list of providers: the same logical replies, written by hand in the shape that
//! each provider documents, in one piece and as the events of a stream.

mod anthropic;
mod gemini;
mod openai;
mod responses;

use serde_json::Value;
use strata_core::record::conversation::TokenUsage;

use crate::services::models::FinishReason;
use crate::services::models::config::ProtocolName;

/// A reply as a provider sends it.
pub(super) struct WireReply {
    /// In one piece.
    pub(super) whole: Value,
    /// As the events of a stream, each with its data.
    pub(super) events: Vec<Value>,
}

/// What a reply says.
pub(super) struct LogicalReply {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
    /// The tool calls: name and arguments.
    pub(super) calls: &'static [Call],
    /// The readable reasoning.
    pub(super) reasoning: &'static str,
    pub(super) finish: FinishReason,
    pub(super) usage: TokenUsage,
}

/// A tool call.
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) arguments: &'static str,
}

/// What each reply of the list uses: 100 tokens of input, 30 of them read from a cache, and 20 of
/// output. The reply with reasoning uses 15 of these for it.
const USAGE: TokenUsage = TokenUsage {
    input: 100,
    output: 20,
    cache_read: 30,
    cache_write: 0,
    reasoning: 0,
};

/// Returns the logical replies. The list of each provider has them in this order.
pub(super) fn logical_replies() -> [LogicalReply; 5] {
    let plain = |name, text, finish| LogicalReply {
        name,
        text,
        calls: &[],
        reasoning: "",
        finish,
        usage: USAGE,
    };
    [
        plain("text", "hellö wörld", FinishReason::Stop),
        plain("truncated", "half an ans", FinishReason::Length),
        LogicalReply {
            calls: &[
                Call {
                    name: "add",
                    arguments: r#"{"a":1,"b":"ü"}"#,
                },
                Call {
                    name: "now",
                    arguments: "{}",
                },
            ],
            ..plain("tool calls", "let me see", FinishReason::ToolCalls)
        },
        LogicalReply {
            reasoning: "step by step",
            usage: TokenUsage {
                reasoning: 15,
                ..USAGE
            },
            ..plain("reasoning", "so it is 4", FinishReason::Stop)
        },
        plain("refusal", "I cannot help with that", FinishReason::Refusal),
    ]
}

/// Returns the replies of the list as a provider sends them.
pub(super) fn wire_replies(protocol: ProtocolName) -> [WireReply; 5] {
    match protocol {
        ProtocolName::OpenAi => openai::replies(),
        ProtocolName::Responses => responses::replies(),
        ProtocolName::Anthropic => anthropic::replies(),
        ProtocolName::Gemini => gemini::replies(),
    }
}

/// Returns a stream of server-sent events.
pub(super) fn stream(protocol: ProtocolName, events: &[Value], line_end: &str) -> String {
    let mut stream = String::new();
    for event in events {
        // Anthropic and Responses also name each event by its type.
        if let Some(name) = event["type"].as_str() {
            stream += &format!("event: {name}{line_end}");
        }
        stream += &format!("data: {event}{line_end}{line_end}");
    }
    if protocol == ProtocolName::OpenAi {
        stream += &format!("data: [DONE]{line_end}{line_end}");
    }
    stream
}
