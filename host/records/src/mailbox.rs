//! Requests to the process that owns a run: another process sends one, and the owner replies. What
//! the requests mean is defined in `launch::control`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use strata_base::owner::{RunReply, RunRequest};

use super::StoreError;

/// How long a process waits for the reply to its request. An owner that waits for its disk replies
/// sooner; one that is suspended never does.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Identifies a request that is kept in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailId {
    /// Its number in the database.
    pub number: i64,
    /// When it was sent, in microseconds since 1970 by the server's clock. A database that goes back to an
    /// earlier state gives the same number to another request.
    pub sent_us: i64,
}

#[cfg(any(test, feature = "test-support"))]
impl MailId {
    /// An id for tests that have no database.
    pub const EXAMPLE: Self = Self {
        number: 1,
        sent_us: 0,
    };
}

/// The reply to a request that is kept in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailReply {
    /// The request.
    pub id: MailId,
    /// The reply.
    pub reply: RunReply,
}

/// A request to the owner of a run, as the owner receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingRequest {
    /// The request.
    pub request: RunRequest,
    /// Identifies it if it is kept in a database. Until its reply is stored, it is carried out again
    /// by the next owner.
    pub id: Option<MailId>,
}

/// Carries out a request and returns the reply to it.
pub type RequestHandler =
    Arc<dyn Fn(IncomingRequest) -> BoxFuture<'static, RunReply> + Send + Sync>;

/// What became of a request to the owner of a run.
#[derive(Debug)]
pub enum RequestOutcome {
    /// There is no owner that listens.
    NoOwner,
    /// The request could not be sent, so it has certainly not been carried out.
    NotSent(StoreError),
    /// The owner ended, and has certainly not carried out the request.
    Ended,
    /// The owner replied.
    Replied(RunReply),
    /// The owner may have carried out the request, but its reply was not received.
    Unknown(io::Error),
}

/// What answers the requests of other processes in one kind of place, until it is closed or dropped.
pub trait MailReceiver: Send + Sync {
    /// Accepts no more requests, and returns once the pending ones have been answered.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Answers the requests of other processes until it is closed or dropped.
pub struct Mailbox(Box<dyn MailReceiver>);

impl Mailbox {
    /// Returns what answers them in a place.
    pub fn new(receiver: impl MailReceiver + 'static) -> Self {
        Self(Box::new(receiver))
    }

    /// Accepts no more requests, and returns once the pending ones have been answered.
    pub async fn close(self) {
        self.0.close().await;
    }
}

/// Returns the error for an owner that did not reply in time.
pub fn no_reply() -> io::Error {
    let seconds = RESPONSE_TIMEOUT.as_secs();
    io::Error::other(format!(
        "it has not answered for {seconds} s; if it is stopped, let it go on first"
    ))
}
