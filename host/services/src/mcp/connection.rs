//! A connection to a server: requests are sent, and their answers, progress and questions arrive, whatever
//! the transport.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use super::exchange::{ExchangeResult, Request, Signal};
use super::http::HttpConnection;
use super::message::{self, RpcError};
use super::stdio::StdioConnection;

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

    /// Hears from now on what a server of an older revision sends of itself, in a session that has begun.
    pub(super) fn listen(&self) {
        match self {
            // That is on its standard output, too.
            Self::Stdio(_) => {}
            Self::Http(http) => http.listen(),
        }
    }

    /// Answers a request of the server.
    pub(super) fn respond(&self, id: &Value, result: &Value) {
        match self {
            Self::Stdio(stdio) => stdio.respond(id, result),
            Self::Http(http) => {
                let (http, id, result) = (http.clone(), id.clone(), result.clone());
                tokio::spawn(async move { http.respond(&id, &result).await });
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

    /// Describes a line that is no message, and that may have been meant as the answer to this request.
    pub(super) fn stray_line(&self, id: u64) -> Option<String> {
        match self {
            Self::Stdio(stdio) => stdio.stray_line(id),
            // An answer that is no message ends its request.
            Self::Http(_) => None,
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
