//! The only way from a guest to everything outside its own instance.
//!
//! A gateway belongs to one attempt. It sends each request to the driver, which owns the
//! environment and the journal, and returns the answer. What a guest does within its attempt only
//! (emissions, pending writes, log) does not pass through here: the sandbox keeps it and returns it
//! when the call ends.

mod allowance;
mod outbound_request;
mod size;
mod tool_request;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strata_core::record::fault::FaultCause;
use strata_core::record::human_request;
use strata_core::record::id::{ActionId, Digest, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::Message;
use strata_core::record::scope_write::Write;
use strata_core::record::turn::ChangedTool;
use strata_core::record::work::{CallKey, Work};
use tokio::sync::{mpsc, oneshot};

use crate::human;
use crate::mcp::{GrantedTools, ListedTools, OfferedTool};
use crate::plugin::Plugin;
pub use allowance::Allowance;
pub use outbound_request::OutboundRequest;
pub use size::{
    ITEM_BYTES, embeddings_bytes, ok_bytes_or_message, part_bytes, reply_bytes, response_bytes,
};
pub use tool_request::{
    GuardDecision, GuardedCall, ToolDescription, ToolRequest, name_about, question_about,
    records_start,
};

/// How many requests may be queued for the driver. A guest waits for an answer before its next
/// request, so this is the number of guests that need not wait to send, not a limit on what is
/// accepted.
pub const GUEST_REQUEST_QUEUE: usize = 64;

/// Marks the reading of the clock at which WASI's clocks start in the record. No guest asked for
/// this reading, so it is not reported as a call.
pub const WASI_CLOCK_START: &str = "start";

/// Why the host did not do what a guest asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostError {
    /// The kind of refusal.
    pub kind: HostErrorKind,
    /// What was attempted, with a hint.
    pub message: String,
    /// The cause, if the host has advice about it. It is recorded, and becomes the cause of a fault
    /// if the guest fails because of this error. Guests do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FaultCause>,
}

/// The kinds of refusal. All but the last are in the WIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostErrorKind {
    /// The guest has no grant for this.
    Denied,
    /// The request is malformed.
    Invalid,
    /// The requested item does not exist.
    NotFound,
    /// The service failed.
    Upstream,
    /// The budget does not cover it.
    OutOfBudget,
    /// Nobody answered in time.
    Expired,
    /// A tool failed, or the call of it was rejected.
    Failed,
    /// The answer is larger than the guest may receive. It is recorded but never returned to the
    /// guest: the attempt ends.
    BeyondLimit,
}

impl HostError {
    /// Creates an error of this kind.
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

/// A request from a guest to the driver.
#[derive(Debug)]
pub enum GuestRequest {
    /// Something of the team's environment.
    Environment(EnvironmentRequest),
    /// The current time in milliseconds since 1970.
    CurrentTime,
    /// The time at which the clocks of a guest that uses WASI start.
    ClockStart,
    /// Random bytes.
    Random {
        /// The number of bytes.
        length: u32,
    },
    /// The answer of a person. If there is none yet, the attempt ends and this request is not
    /// answered.
    AskHuman(human::HumanQuestion),
    /// What a service outside the host answers.
    Outbound(OutboundRequest),
    /// Something about the tools of MCP servers.
    Servers(ServerRequest),
    /// Stored bytes: the content of a file that differs from the one on disk, or of an image or a
    /// file in a message.
    StoredFile(Digest),
    /// The tools that are granted to the guest.
    ListTools,
    /// Calls of tools, all at once. Each is an attempt of its own, and the guest waits for all of them.
    CallTools(Vec<ToolRequest>),
    /// About which of these calls of tools a guard has to decide.
    GuardedCalls(Vec<ToolRequest>),
}

/// A question of a turn about the tools of MCP servers.
#[derive(Clone, Debug)]
pub enum ServerRequest {
    /// The tools, for the first turn of an activation.
    List {
        /// The tools that the role is granted.
        grants: Vec<GrantedTools>,
        /// The names under which its model knows other tools.
        taken: Vec<String>,
    },
    /// Whether tools are still what the model was offered.
    Compare(Vec<OfferedTool>),
}

/// A request that reads the team's environment. It is not recorded, since the environment is the
/// same when the attempt is repeated.
#[derive(Clone, Debug)]
pub enum EnvironmentRequest {
    /// The value of a key in a scope, with this attempt's own writes applied.
    Get {
        /// `role` or the name of a shared scope.
        scope: String,
        /// The key.
        key: String,
        /// The value that this attempt read last, with its earlier writes applied; `None` if it has
        /// not read the key.
        last_read: Option<Option<Json>>,
        /// The writes of this attempt to that key since then.
        pending: Vec<Write>,
    },
    /// The keys of a scope, sorted, with this attempt's own writes applied.
    Keys {
        /// `role` or the name of a shared scope.
        scope: String,
        /// All writes of this attempt to that scope.
        pending: Vec<Write>,
    },
    /// The role's newest messages, oldest first.
    Recent {
        /// The maximum number of messages.
        limit: u32,
        /// The maximum number of bytes of text and structured content.
        max_bytes: u32,
        /// Return only messages with this label.
        label: Option<String>,
    },
}

/// An answer of the driver. Each kind of request has its own kind of answer.
#[derive(Clone, Debug)]
pub enum HostAnswer {
    /// To `Get`.
    Value(Result<Option<Json>, HostError>),
    /// To `Keys`.
    Keys(Result<Vec<String>, HostError>),
    /// To `Recent`.
    Messages(Vec<Arc<Message>>),
    /// To `CurrentTime` and `ClockStart`.
    Time(f64),
    /// To `Random`.
    Bytes(Result<Vec<u8>, HostError>),
    /// To `AskHuman`.
    Human(human_request::HumanAnswer),
    /// To `ListTools`.
    Tools(Vec<ToolDescription>),
    /// To `Outbound` and `CallTools`, in the order of the requests, as they are recorded.
    Outbound(Vec<Result<Json, HostError>>),
    /// To `StoredFile`; `None` if the content is not stored.
    File(Option<Arc<[u8]>>),
    /// To `ServerRequest::List`.
    ToolLists(ListedTools),
    /// To `ServerRequest::Compare`: those that are not.
    ChangedTools(Vec<ChangedTool>),
    /// To `GuardedCalls`, in the order of the requests: `None` for those that are denied or rejected
    /// whatever a guard says, and for those that an earlier attempt made.
    GuardedCalls(Vec<Option<GuardedCall>>),
}

impl HostAnswer {
    /// Returns why the host refused the request; for several requests, the error of the last that
    /// was refused.
    pub fn refusal(&self) -> Option<&HostError> {
        match self {
            Self::Value(result) => result.as_ref().err(),
            Self::Keys(result) => result.as_ref().err(),
            Self::Bytes(result) => result.as_ref().err(),
            Self::Outbound(results) => results
                .iter()
                .filter_map(|result| result.as_ref().err())
                .next_back(),
            Self::ToolLists(lists) => lists.as_ref().err(),
            Self::Messages(_)
            | Self::Time(_)
            | Self::Human(_)
            | Self::File(_)
            | Self::Tools(_)
            | Self::ChangedTools(_)
            | Self::GuardedCalls(_) => None,
        }
    }
}

/// Identifies an attempt among all that the driver has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptId {
    /// The call that is attempted.
    pub call: CallKey,
    /// How many attempts the driver made before.
    pub serial: u64,
}

impl AttemptId {
    /// Returns the id of the first attempt of a driver if it runs a role's first action.
    pub fn first(role: RoleId) -> Self {
        let (action, task) = (ActionId(0), None);
        Self {
            call: CallKey::new(role, Work::Act { action, task }),
            serial: 0,
        }
    }
}

/// A request on its way to the driver.
#[derive(Debug)]
pub struct PendingGuestRequest {
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// What it asks for.
    pub request: GuestRequest,
    /// The plugin that asks, if it is not the one that makes the attempt.
    pub plugin: Option<Arc<Plugin>>,
    /// The call about which that plugin decides, if it is a guard and code makes the call.
    pub about: Option<Arc<GuardedCall>>,
    /// The maximum size of an answer that comes from outside the host.
    pub allowance: Allowance,
    /// Receives the answer. It is closed if the guest is gone.
    pub reply: oneshot::Sender<HostAnswer>,
}

/// The guest's end of the channel to the driver.
#[derive(Clone, Debug)]
pub struct Gateway {
    attempt: AttemptId,
    plugin: Option<Arc<Plugin>>,
    about: Option<Arc<GuardedCall>>,
    requests: mpsc::Sender<PendingGuestRequest>,
    /// Receives the calls of tools, in place of the driver.
    tool_calls: Option<mpsc::Sender<PendingGuestRequest>>,
}

impl Gateway {
    /// Creates the gateway of an attempt.
    pub fn new(attempt: AttemptId, requests: mpsc::Sender<PendingGuestRequest>) -> Self {
        Self {
            attempt,
            plugin: None,
            about: None,
            requests,
            tool_calls: None,
        }
    }

    /// Returns a gateway for another component that works for the same attempt. Its requests are
    /// recorded there, and its own grants apply to them.
    pub fn for_plugin(&self, plugin: Arc<Plugin>) -> Self {
        Self {
            plugin: Some(plugin),
            tool_calls: None,
            ..self.clone()
        }
    }

    /// Returns a gateway for deciding about a call of code. What is asked through it is recorded
    /// apart from what the attempt itself asks.
    pub fn about(&self, call: GuardedCall) -> Self {
        Self {
            about: Some(Arc::new(call)),
            ..self.clone()
        }
    }

    /// Returns a gateway whose calls of tools go to a guard, which passes them on with `forward`.
    pub fn with_tool_calls_to(&self, guard: mpsc::Sender<PendingGuestRequest>) -> Self {
        Self {
            tool_calls: Some(guard),
            ..self.clone()
        }
    }

    /// Passes a request on to the driver.
    pub async fn forward(&self, request: PendingGuestRequest) {
        // It is no error if the driver is gone: the attempt is about to be dropped.
        let _ = self.requests.send(request).await;
    }

    /// Sends a request and waits for the answer. Returns `None` if the driver is gone, which means
    /// that the attempt is about to be dropped.
    pub async fn request(&self, ask: GuestRequest) -> Option<HostAnswer> {
        self.request_within(ask, Allowance::unlimited()).await
    }

    /// Sends a request and waits for the answer, whose size is limited by `allowance`. Returns `None`
    /// if the driver is gone, which means that the attempt is about to be dropped.
    pub async fn request_within(
        &self,
        ask: GuestRequest,
        allowance: Allowance,
    ) -> Option<HostAnswer> {
        let (reply, answer) = oneshot::channel();
        let receiver = match (&ask, &self.tool_calls) {
            (GuestRequest::CallTools(_), Some(guard)) => guard,
            _ => &self.requests,
        };
        let question = PendingGuestRequest {
            attempt: self.attempt,
            request: ask,
            plugin: self.plugin.clone(),
            about: self.about.clone(),
            allowance,
            reply,
        };
        receiver.send(question).await.ok()?;
        answer.await.ok()
    }
}
