//! The one way from a guest to everything that is not its own instance.
//!
//! A gateway belongs to one attempt. It carries each question to the driver, which owns the environment and the
//! journal, and brings the answer back. What a guest does to its own attempt only (its emissions, its pending
//! writes, its log) never comes here: the sandbox keeps it and hands it over when the call ends.

mod allowance;
mod size;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strata_core::environment::scope::Write;
use strata_core::fault::FaultCause;
use strata_core::id::{Digest, RoleId};
use strata_core::json::Json;
use strata_core::message::Message;
use strata_core::request;
use tokio::sync::{mpsc, oneshot};

use crate::services::{http, human, llm};
pub use allowance::Allowance;
pub(crate) use size::{ITEM_BYTES, of_recorded, of_reply};

/// How many questions may wait for the driver at once. A guest waits for its answer before it asks again, so this
/// is the number of guests that can ask without being held up, not a bound on what is accepted.
pub const QUEUE: usize = 64;

/// How the moment at which WASI's clocks begin is told from other readings in the records. No guest asked for it as
/// such, so it is not told as a call.
pub const START: &str = "start";

/// Why the host did not do what a guest asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostError {
    /// What kind of refusal it is.
    pub kind: HostErrorKind,
    /// What was attempted, and a hint.
    pub message: String,
    /// Why, where the host can advise on it. It is recorded, and becomes the cause of a fault if the guest fails because
    /// of this error; guests do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FaultCause>,
}

/// The kinds of refusal, as in the WIT but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostErrorKind {
    /// Not granted.
    Denied,
    /// The request makes no sense.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// The service failed.
    Upstream,
    /// The budget does not cover it.
    OutOfBudget,
    /// Nobody answered in time.
    Expired,
    /// It is more than the guest may have. Recorded, and never told: the attempt ends.
    BeyondLimit,
}

impl HostError {
    /// An error of this kind.
    pub fn new(kind: HostErrorKind, message: impl Into<String>) -> Self {
        let cause = (kind == HostErrorKind::Upstream).then_some(FaultCause::Service);
        Self {
            kind,
            message: message.into(),
            cause,
        }
    }

    /// Returns the error with this cause.
    pub fn caused_by(self, cause: FaultCause) -> Self {
        Self {
            cause: Some(cause),
            ..self
        }
    }
}

/// What a guest asks the driver for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// A value of a scope, with this attempt's own writes to that key applied.
    Get {
        /// `role` or a shared scope.
        scope: String,
        /// The key.
        key: String,
        /// What this attempt saw there when it last looked, with its writes of before; none where it has not.
        seen: Option<Option<Json>>,
        /// The writes of this attempt to that key since.
        pending: Vec<Write>,
    },
    /// The keys of a scope, sorted, with this attempt's own writes applied.
    Keys {
        /// `role` or a shared scope.
        scope: String,
        /// The writes of this attempt to that scope so far.
        pending: Vec<Write>,
    },
    /// The role's newest messages, oldest of them first.
    Recent {
        /// How many.
        limit: u32,
        /// Only those with this label.
        label: Option<String>,
    },
    /// Milliseconds since the epoch.
    Now,
    /// The same, for the moment at which the clocks of a guest that uses WASI begin.
    Start,
    /// Random bytes.
    Random {
        /// How many.
        length: u32,
    },
    /// Replies of language models, all at once.
    Complete(Vec<llm::Request>),
    /// An answer of a person. Where there is none yet the attempt ends here: nothing is answered.
    Person(human::Question),
    /// HTTP exchanges, all at once. They were found to be granted.
    Fetch(Vec<http::Request>),
    /// The bytes of a file that is not what lies on the disk.
    File(Digest),
}

/// What the driver answers. Each question has its own kind of answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To `Get`.
    Value(Result<Option<Json>, HostError>),
    /// To `Keys`.
    Keys(Result<Vec<String>, HostError>),
    /// To `Recent`.
    Messages(Vec<Arc<Message>>),
    /// To `Now` and `Start`.
    Time(f64),
    /// To `Random`.
    Bytes(Result<Vec<u8>, HostError>),
    /// To `Complete`, in the order of the requests.
    Replies(Vec<Result<llm::Reply, HostError>>),
    /// To `Person`.
    Person(request::Answer),
    /// To `Fetch`, in the order of the requests.
    Responses(Vec<Result<http::Response, HostError>>),
    /// To `File`; none where they are not kept.
    File(Option<Arc<[u8]>>),
}

impl Answer {
    /// Returns why the host refused what was asked; of several requests, the last that was refused.
    pub(crate) fn refusal(&self) -> Option<&HostError> {
        match self {
            Self::Value(result) => result.as_ref().err(),
            Self::Keys(result) => result.as_ref().err(),
            Self::Bytes(result) => result.as_ref().err(),
            Self::Replies(results) => results
                .iter()
                .filter_map(|result| result.as_ref().err())
                .next_back(),
            Self::Responses(results) => results
                .iter()
                .filter_map(|result| result.as_ref().err())
                .next_back(),
            Self::Messages(_) | Self::Time(_) | Self::Person(_) | Self::File(_) => None,
        }
    }
}

/// An attempt of a driver, told from all others that the driver ever made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptId {
    /// Who is at work.
    pub role: RoleId,
    /// How many attempts the driver made before.
    pub serial: u64,
}

/// A question on its way.
#[derive(Debug)]
pub struct Question {
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// What it asks.
    pub ask: Ask,
    /// What may be answered, where that comes from outside of the host.
    pub allowance: Allowance,
    /// Where the answer goes. A guest that is gone no longer listens.
    pub reply: oneshot::Sender<Answer>,
}

/// A guest's end of the way.
#[derive(Clone, Debug)]
pub struct Gateway {
    attempt: AttemptId,
    questions: mpsc::Sender<Question>,
}

impl Gateway {
    /// The gateway of an attempt.
    pub fn new(attempt: AttemptId, questions: mpsc::Sender<Question>) -> Self {
        Self { attempt, questions }
    }

    /// Asks, and waits for the answer. None when the driver is gone: the attempt is about to be dropped.
    pub async fn ask(&self, ask: Ask) -> Option<Answer> {
        self.ask_within(ask, Allowance::unlimited()).await
    }

    /// The same, for an answer of a size that is bounded.
    pub async fn ask_within(&self, ask: Ask, allowance: Allowance) -> Option<Answer> {
        let (reply, answer) = oneshot::channel();
        let question = Question {
            attempt: self.attempt,
            ask,
            allowance,
            reply,
        };
        self.questions.send(question).await.ok()?;
        answer.await.ok()
    }
}
