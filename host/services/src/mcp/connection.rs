//! A connection to a server: requests are sent, and their answers, progress and questions arrive, whatever
//! the transport.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use super::http::HttpConnection;
use super::message::{self, Reply, RpcError};
use super::stdio::StdioConnection;

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
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
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

impl Lost {
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

    pub(super) fn not_taken(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            reach: Reach::NotTaken,
        }
    }
}

/// The answer to a request, or why there is none.
pub(super) type ExchangeResult = Result<Reply, Lost>;

/// A request to a server.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) method: &'static str,
    pub(super) params: Value,
    /// Headers with which it is sent over HTTP.
    pub(super) headers: Vec<(String, String)>,
}

/// A connection to a server.
#[derive(Clone)]
pub(super) enum Connection {
    /// To a process.
    Stdio(Arc<StdioConnection>),
    /// To an address.
    Http(Arc<HttpConnection>),
}

impl Connection {
    /// Sends a request and waits for its answer. If the returned future is dropped, a later answer is ignored.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        signals: mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        match self {
            Self::Stdio(stdio) => stdio.exchange(request, signals).await,
            Self::Http(http) => http.exchange(request, signals).await,
        }
    }

    /// Sends a notification. It is no error if the server is gone.
    pub(super) async fn notify(&self, method: &str, params: &Value) {
        match self {
            Self::Stdio(stdio) => stdio.notify(method, params),
            Self::Http(http) => {
                http.send(method, message::notification(method, params))
                    .await
            }
        }
    }

    /// Answers a request of the server.
    pub(super) fn respond(&self, id: &Value, result: &Value) {
        match self {
            Self::Stdio(stdio) => stdio.respond(id, result),
            Self::Http(http) => {
                let (http, answer) = (http.clone(), message::answer(id, result));
                tokio::spawn(async move { http.send("", answer).await });
            }
        }
    }

    /// Tells the server that a call is given up.
    pub(super) fn cancel(&self, id: u64, reason: &str) {
        match self {
            Self::Stdio(stdio) => stdio.notify(
                "notifications/cancelled",
                &serde_json::json!({ "requestId": id, "reason": reason }),
            ),
            // The stream is closed with the call.
            Self::Http(_) => {}
        }
    }

    /// Returns whether it can still be used.
    pub(super) fn is_alive(&self) -> bool {
        match self {
            Self::Stdio(stdio) => stdio.is_alive(),
            Self::Http(_) => true,
        }
    }
}

/// Returns what a server says in answer to a request that it refuses.
pub(super) fn refused(what: &str, error: &RpcError) -> String {
    format!("it refuses {what}: {}", error.describe())
}
