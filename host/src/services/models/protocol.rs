//! The protocol of a provider: serializes a request, assembles the chunks of a streamed reply into
//! the value that would have come in one piece, and interprets that value. Streamed and unstreamed
//! replies are thus interpreted by the same code. Sending, retries, redaction and charging are the
//! same for all protocols and are in `remote`.

use serde_json::Value;

use super::tokens::{ReportedUsage, UsageWithoutReply};
use super::{FinishReason, ModelRequest, ToolCall, openai};
use crate::gateway::HostError;

/// How a reply is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferMode {
    /// In one piece.
    Unstreamed,
    /// In chunks, while it is written.
    Streamed,
}

/// The protocol of a provider.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    /// OpenAI's chat completions.
    OpenAi(openai::Dialect),
}

/// The contents of a reply.
#[derive(Debug)]
pub(super) struct ParsedReply {
    /// The text as it arrived, including the model's thinking in `<think>` blocks.
    pub(super) text: String,
    /// The tool calls. The id of a tool call is empty if the reply gives it none.
    pub(super) tool_calls: Vec<ToolCall>,
    /// The reasoning that was sent separately from the text. It is used only to estimate tokens.
    pub(super) reasoning: String,
    /// The model that answered, if the reply names it.
    pub(super) model: Option<String>,
    pub(super) finish: FinishReason,
    pub(super) usage: ReportedUsage,
}

/// The reason why a reply cannot be used.
#[derive(Debug, PartialEq)]
pub(super) enum ReplyProblem {
    /// It states this error.
    StatedError(Value),
    /// Its finish reason means failure. The reason as sent, possibly an empty string.
    FailureReason(String),
    /// It contains no message.
    NoMessage,
    /// It contains more tool calls than are accepted.
    TooManyToolCalls {
        /// The maximum number.
        limit: usize,
    },
}

/// A reply that cannot be used. It may have a cost nevertheless.
#[derive(Debug, PartialEq)]
pub(super) struct UnusableReply {
    pub(super) problem: ReplyProblem,
    pub(super) usage: UsageWithoutReply,
}

/// The progress of a streamed reply. The order of the variants is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamProgress {
    /// No choice has arrived.
    #[default]
    Empty,
    /// It is being written.
    Open,
    /// The first choice has a finish reason or an error; the usage chunk may still follow.
    Complete,
    /// The stream has ended or reported an error; what follows is ignored.
    Ended,
}

impl Protocol {
    /// Returns the body of a request. Fails if a schema in it is not JSON.
    pub(super) fn request_body(
        self,
        model: &str,
        request: &ModelRequest,
        transfer: TransferMode,
    ) -> Result<String, HostError> {
        match self {
            Self::OpenAi(dialect) => openai::request_body(model, request, transfer, dialect),
        }
    }

    /// Interprets a reply.
    pub(super) fn parse_reply(self, reply: &Value) -> Result<ParsedReply, UnusableReply> {
        match self {
            Self::OpenAi(_) => openai::parse_reply(reply),
        }
    }

    /// Returns an assembler for the chunks of a streamed reply.
    pub(super) fn assembler(self) -> openai::Assembler {
        match self {
            Self::OpenAi(_) => openai::Assembler::default(),
        }
    }
}
