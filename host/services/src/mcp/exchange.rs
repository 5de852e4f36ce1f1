//! What is exchanged with a server, whatever the transport: requests, what a server says while it works on one,
//! and why a request has no answer.

use serde_json::Value;
use strata_base::text::units::format_bytes;

use super::message::Reply;

/// How many signals of a call may wait. More of them say nothing new.
pub(super) const QUEUED_SIGNALS: usize = 64;
/// The largest message of a server, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Something that a server says while it works on a call.
#[derive(Debug)]
pub(super) enum Signal {
    /// It works.
    Progress,
    /// It asks a person.
    Question(Value),
    /// It sends a request with this method, which servers of its revision do not send.
    Unexpected(String),
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostAnswer {
    /// What happened, for people.
    pub(super) message: String,
    /// Whether the request may have taken effect.
    pub(super) reach: Reach,
}

/// Whether a request reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It certainly did not take effect.
    NotTaken,
    /// It may have taken effect.
    Unknown,
    /// It did not take effect, because the server does not know the session any more.
    SessionGone,
}

impl LostAnswer {
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reach: Reach::Unknown,
        }
    }

    pub(super) fn session_gone() -> Self {
        Self {
            message: "it does not know the session any more".into(),
            reach: Reach::SessionGone,
        }
    }

    /// The connection broke.
    pub(super) fn broken(error: reqwest::Error) -> Self {
        Self::unknown(format!("the connection broke: {}", error.without_url()))
    }

    /// A message is larger than the limit.
    pub(super) fn too_large() -> Self {
        let most = format_bytes(MAX_MESSAGE_BYTES as u64);
        Self::unknown(format!("it sent a message of more than {most}"))
    }

    pub(super) fn not_taken(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reach: Reach::NotTaken,
        }
    }
}

/// The answer to a request, or why there is none.
pub(super) type ExchangeResult = Result<Reply, LostAnswer>;

/// A request to a server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// Headers with which it is sent over HTTP.
    pub(super) headers: Vec<(String, String)>,
}
