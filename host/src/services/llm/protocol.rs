//! What the protocol of a provider consists of: it writes the body of a request, puts the pieces of a streamed reply
//! together to the value that would have come in one piece, and interprets that value. Both kinds of replies are thereby
//! read by the same code. Sending, retries, redaction and charging are the same for all protocols and in `remote`.

use serde_json::Value;

use super::tokens::{Usage, Used};
use super::{Finish, Request, ToolCall, openai};
use crate::gateway::HostError;

/// How a reply is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In one piece.
    Whole,
    /// As it is written.
    Streamed,
}

/// A protocol.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    /// Chat completions.
    OpenAi(openai::Dialect),
}

/// What a reply says.
#[derive(Debug)]
pub(super) struct Answer {
    /// The text as it came, with what the model thought aloud.
    pub(super) text: String,
    /// The tools that the model calls; an id is empty where there is none.
    pub(super) tool_calls: Vec<ToolCall>,
    /// The reasoning that was sent apart from the text. It is only counted.
    pub(super) reasoning: String,
    /// The model that answered, if the reply names it.
    pub(super) model: Option<String>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

/// Why a reply cannot be used.
#[derive(Debug, PartialEq)]
pub(super) enum Problem {
    /// It states an error, which is in here.
    StatedError(Value),
    /// The reason that it gives for its end says that it failed; empty if it is an empty text.
    FailedFinish(String),
    /// It holds no reply.
    NoReply,
}

/// A reply that cannot be used. It may have cost something all the same.
#[derive(Debug, PartialEq)]
pub(super) struct Unusable {
    pub(super) problem: Problem,
    pub(super) used: Used,
}

/// How far a streamed reply has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    /// Nothing of it is there.
    #[default]
    Empty,
    /// It is being written.
    Open,
    /// It is complete. The usage may still follow.
    Complete,
    /// Nothing more comes, or nothing more counts.
    Ended,
}

impl Protocol {
    /// Returns the body of a request. Fails if a schema in it is not JSON.
    pub(super) fn body(
        self,
        model: &str,
        request: &Request,
        form: Form,
    ) -> Result<String, HostError> {
        match self {
            Self::OpenAi(dialect) => openai::body(model, request, form, dialect),
        }
    }

    /// Returns what a reply says.
    pub(super) fn interpret(self, reply: &Value) -> Result<Answer, Unusable> {
        match self {
            Self::OpenAi(_) => openai::interpret(reply),
        }
    }

    /// Returns what puts the pieces of a streamed reply together.
    pub(super) fn assembler(self) -> openai::Assembler {
        match self {
            Self::OpenAi(_) => openai::Assembler::default(),
        }
    }
}
