//! The protocol of a provider: serializes a request, assembles the chunks of a streamed reply into
//! the value that would have come in one piece, and interprets that value. Streamed and unstreamed
//! replies are thus interpreted by the same code. Sending, retries, redaction and charging are the
//! same for all protocols and are in `remote`.

use serde_json::Value;

use super::tokens::{FailedUsage, ReportedUsage};
use super::{FinishReason, ModelRequest, ToolCall, openai};
use crate::gateway::HostError;

/// How a reply is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyTransfer {
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
    /// The tool calls. An id is empty if the reply contains none.
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
    /// Its finish reason means failure. The reason may be empty.
    FailedFinish(String),
    /// It contains no message.
    NoReply,
    /// It contains more tool calls than are accepted.
    TooManyToolCalls {
        /// The maximum number.
        most: usize,
    },
}

/// A reply that cannot be used. It may have a cost nevertheless.
#[derive(Debug, PartialEq)]
pub(super) struct UnusableReply {
    pub(super) problem: ReplyProblem,
    pub(super) used: FailedUsage,
}

/// The progress of a streamed reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StreamProgress {
    /// Nothing has arrived.
    #[default]
    Empty,
    /// It is being written.
    Open,
    /// The reply is complete; the usage chunk may still follow.
    Complete,
    /// Nothing more arrives, or everything that follows is ignored.
    Ended,
}

impl Protocol {
    /// Returns the body of a request. Fails if a schema in it is not JSON.
    pub(super) fn body(
        self,
        model: &str,
        request: &ModelRequest,
        form: ReplyTransfer,
    ) -> Result<String, HostError> {
        match self {
            Self::OpenAi(dialect) => openai::body(model, request, form, dialect),
        }
    }

    /// Interprets a reply.
    pub(super) fn interpret(self, reply: &Value) -> Result<ParsedReply, UnusableReply> {
        match self {
            Self::OpenAi(_) => openai::interpret(reply),
        }
    }

    /// Returns an assembler for the chunks of a streamed reply.
    pub(super) fn assembler(self) -> openai::Assembler {
        match self {
            Self::OpenAi(_) => openai::Assembler::default(),
        }
    }
}
