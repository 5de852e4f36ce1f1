//! The conformance list of providers: replies that are written by hand, in one piece and as the
//! events of a stream. Five logical replies are in the shape that each provider documents; the
//! others are in the shapes that servers with its protocol send as well.

mod anthropic;
mod gemini;
mod openai;
mod responses;
mod variants;

use serde_json::Value;
use strata_core::record::conversation::TokenUsage;

use crate::models::FinishReason;
use crate::models::config::ProtocolName;

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

/// Returns a reply that consists of text.
fn plain(name: &'static str, text: &'static str, finish: FinishReason) -> LogicalReply {
    LogicalReply {
        name,
        text,
        calls: &[],
        reasoning: "",
        finish,
        usage: USAGE,
    }
}

/// Returns the logical replies. The list of each provider has them in this order.
pub(super) fn logical_replies() -> [LogicalReply; 5] {
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

/// Returns all replies of the list with the protocol of a provider.
pub(super) fn all_replies(protocol: ProtocolName) -> Vec<(LogicalReply, WireReply)> {
    let documented = logical_replies().into_iter().zip(wire_replies(protocol));
    documented.chain(variants::replies(protocol)).collect()
}

/// How the events of a stream are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    pub(super) line_end: &'static str,
    /// What is between the name of a field and its value.
    pub(super) separator: &'static str,
    /// What precedes each event.
    pub(super) comment: &'static str,
    /// Whether events are named where the protocol has names.
    pub(super) has_names: bool,
    /// Whether `[DONE]` ends the stream where the protocol has it.
    pub(super) has_end: bool,
}

impl Framing {
    /// The form that providers document.
    pub(super) const DOCUMENTED: Self = Self {
        line_end: "\n",
        separator: ": ",
        comment: "",
        has_names: true,
        has_end: true,
    };

    /// The forms in which servers write streams.
    pub(super) const ALL: [Self; 6] = [
        Self::DOCUMENTED,
        Self {
            line_end: "\r\n",
            ..Self::DOCUMENTED
        },
        Self {
            line_end: "\r",
            ..Self::DOCUMENTED
        },
        Self {
            separator: ":",
            ..Self::DOCUMENTED
        },
        Self {
            comment: ": keep-alive\n\n",
            has_names: false,
            ..Self::DOCUMENTED
        },
        Self {
            comment: "id: 1\nretry: 5\n",
            has_end: false,
            ..Self::DOCUMENTED
        },
    ];
}

/// Returns a stream of server-sent events.
pub(super) fn stream(protocol: ProtocolName, events: &[Value], framing: Framing) -> String {
    let Framing {
        line_end,
        separator,
        ..
    } = framing;
    let mut stream = String::new();
    for event in events {
        stream += framing.comment;
        // Anthropic and Responses also name each event by its type.
        if let Some(name) = event["type"].as_str().filter(|_| framing.has_names) {
            stream += &format!("event{separator}{name}{line_end}");
        }
        stream += &format!("data{separator}{event}{line_end}{line_end}");
    }
    if protocol == ProtocolName::OpenAi && framing.has_end {
        stream += &format!("data{separator}[DONE]{line_end}{line_end}");
    }
    stream
}
