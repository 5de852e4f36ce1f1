//! Calls that leave the host on behalf of an attempt, whichever service carries them out.
//!
//! The driver serves recorded answers, reserves money, and records intents and results. What it has
//! to know about a call is defined here, and so is what the sandbox has to know about requests and
//! answers. Each service implements both beside its client, in a module `outbound`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_base::files::blob::Blobs;
use strata_base::text::excerpt::excerpt;
use strata_core::record::asking_call::{AskingCall, AskingProgress, CallQuestion};
use strata_core::record::host_call::{CallOutcome, HostCall, HostCallKind, Intent, ModelUse};
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_core::record::spending::Amount;
use strata_core::state::environment::Environment;

use super::http::HttpClient;
use super::mcp::{McpServers, ServerNotice};
use super::models::config::ModelNames;
use super::models::{Charge, DispatchState, ModelCaller, Models, StreamObserver};
use crate::gateway::{Allowance, HostError, HostErrorKind};
use crate::plugin::Plugin;
use crate::telemetry::CallTrace;

/// The maximum length of a summary in characters: enough to distinguish calls.
const SUMMARY_CHARS: usize = 200;

/// The answer to a call as it is recorded, or why there is none.
pub type CallAnswer = Result<Json, HostError>;

/// Requests of one kind that a guest makes at once.
pub trait RequestBatch: Any + fmt::Debug + Send + Sync {
    /// Returns the number of requests.
    fn count(&self) -> usize;

    /// Returns the bytes that come from the guest.
    fn bytes(&self) -> usize;

    /// Returns the images and files that the requests refer to and whose bytes they do not contain.
    fn media_to_load(&self) -> Vec<&Digest> {
        Vec::new()
    }

    /// Returns one call for each request, in order.
    fn into_calls(self: Box<Self>, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>>;
}

/// How the answers to a batch are read. Recorded and new answers are read in the same way.
pub trait ReadAnswer: RequestBatch {
    /// What the guest receives for one request.
    type Answer;

    /// Reads an answer from its record. The error describes what is wrong.
    fn read_answer(record: &Json) -> Result<Self::Answer, String>;

    /// Returns the bytes that an answer brings to the guest.
    fn answer_bytes(answer: &Self::Answer) -> usize;
}

/// The services that carry out calls.
#[derive(Clone)]
pub struct OutboundServices {
    /// Sends the requests of guests to web servers.
    pub http: Arc<HttpClient>,
    /// `None` if the team has no models, or if calls are only looked up in the record.
    pub models: Option<Arc<Models>>,
    /// The names of the team's models; `None` if it has none.
    pub model_names: Option<ModelNames>,
    /// The MCP servers; `None` if the team has none, or if calls are only looked up in the record.
    pub mcp: Option<Arc<McpServers>>,
}

/// With what calls are made, and on whose behalf.
pub struct OutboundContext<'a> {
    /// The services that carry out the calls.
    pub services: &'a OutboundServices,
    /// The attempt that makes the calls.
    pub caller: ModelCaller<'a>,
    /// Its grants limit where a request may go. Without a plugin, nothing is granted.
    pub plugin: Option<&'a Arc<Plugin>>,
    /// The bytes of `RequestBatch::media_to_load`, as far as they are stored.
    pub blobs: Blobs,
}

/// A call that leaves the host.
pub trait OutboundCall: Send + Sync {
    /// Returns the kind under which it is recorded.
    fn kind(&self) -> HostCallKind;

    /// Returns the digest that identifies this request in the journal. It is the same in every
    /// lineage.
    fn digest(&self, env: &Environment) -> String;

    /// Summarizes the request in one line for people.
    fn summary(&self) -> String;

    /// Returns the name of the span of the call, if it is not that of its kind.
    fn span_name(&self) -> Option<String> {
        None
    }

    /// Returns whether the call may change something outside the host.
    fn is_write(&self) -> bool {
        false
    }

    /// Returns what must be durable before a write is sent; `None` for other calls. The
    /// parameter is the name of the request in the record.
    fn intent(&self, _request_name: &str) -> Option<Intent> {
        None
    }

    /// Returns what has to be done before it is known whether the call is a write; `None` if that is known
    /// from the start.
    fn prepare(self: Arc<Self>) -> Option<BoxFuture<'static, Preparation>> {
        None
    }

    /// Returns whether the call may cost something. It then waits for the budget.
    fn is_paid(&self) -> bool {
        false
    }

    /// Returns what the call is expected to cost at most. Fails if there is no service that could
    /// answer it.
    fn expected_cost(&self) -> Result<Amount, HostError> {
        Ok(Amount::ZERO)
    }

    /// Returns the state that tells whether the request is on its way while the call is made.
    fn dispatch_state(&self) -> DispatchState {
        DispatchState::dispatched()
    }

    /// Returns the result of the call if it is given up while its request waits to be sent, or to be
    /// sent again. `used` is the charge for earlier tries.
    fn unsent(&self, _used: Charge) -> OutboundResult {
        OutboundResult::unsent()
    }

    /// Makes the call.
    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult>;

    /// Returns the number of bytes that a recorded answer brings to the guest.
    fn answer_bytes(&self, response: &Json) -> usize;
}

/// The result of the preparation of a call.
#[derive(Debug, Default)]
pub struct Preparation {
    /// What is to be recorded about the servers that it concerned.
    pub notices: Vec<ServerNotice>,
    /// Why the call must not be made: the model that asks for it was told something else.
    pub rejection: Option<String>,
}

/// What accompanies a call when it is made.
pub struct SendContext {
    /// The idempotency key for a write that has none of its own. Empty for other calls.
    pub idempotency_key: String,
    /// How many bytes the answers of the batch may still have.
    pub allowance: Allowance,
    /// Receives a model's reply while it is streamed.
    pub observer: StreamObserver,
    /// What an earlier attempt at the same call asked people, with their answers.
    pub asking_call: Option<AskingCall>,
    /// What the spans of the call say about its run.
    pub trace: CallTrace,
}

/// The result of a call.
#[derive(Debug)]
pub struct OutboundResult {
    /// The answer for the guest.
    pub answer: CallAnswer,
    /// What is recorded.
    pub outcome: CallOutcome,
    /// What it cost.
    pub cost: Usd,
    /// The models that were asked; `None` for other calls.
    pub model: Option<ModelUse>,
    /// The questions of the receiver, if it asks people before it answers. Then nothing else is recorded.
    pub asks: Option<Box<AskedByReceiver>>,
}

/// The questions of the receiver of a call.
#[derive(Debug)]
pub struct AskedByReceiver {
    /// What is needed to continue the call.
    pub state: Json,
    /// Whether the receiver still works on the call.
    pub progress: AskingProgress,
    /// The questions, without their ids.
    pub questions: Vec<CallQuestion>,
}

impl OutboundResult {
    /// Returns the result of a call that was answered without cost.
    pub fn answered(answer: Json) -> Self {
        Self {
            answer: Ok(answer),
            outcome: CallOutcome::Answered,
            cost: Usd::ZERO,
            model: None,
            asks: None,
        }
    }

    /// Returns the result of a call that failed without cost and without effect.
    pub fn failed(error: HostError) -> Self {
        Self {
            answer: Err(error),
            outcome: CallOutcome::Failed,
            cost: Usd::ZERO,
            model: None,
            asks: None,
        }
    }

    /// Returns the result of a call that was given up while its request waited to be sent, or to be
    /// sent again.
    pub fn unsent() -> Self {
        Self::failed(HostError::new(
            HostErrorKind::Upstream,
            "the attempt ended before the request was sent, or sent again",
        ))
    }

    /// Returns the record of the call. An error is recorded as JSON.
    pub fn to_record(&self, kind: HostCallKind, request_name: String) -> HostCall {
        let response = match &self.answer {
            Ok(response) => response.clone(),
            Err(error) => Json::from(serde_json::to_value(error).unwrap_or_default()),
        };
        HostCall {
            kind,
            request: request_name,
            response,
            cost: self.cost,
            outcome: self.outcome,
            model: self.model.clone(),
        }
    }
}

/// Reads the answers to a batch.
pub fn read_answers<B: ReadAnswer>(answers: Vec<CallAnswer>) -> Vec<Result<B::Answer, HostError>> {
    let unreadable = |why| {
        HostError::new(
            HostErrorKind::Upstream,
            format!("cannot read the recorded answer: {why}"),
        )
    };
    let decode = |json| B::read_answer(&json).map_err(unreadable);
    answers
        .into_iter()
        .map(|answer| answer.and_then(decode))
        .collect()
}

/// Returns the beginning of a text on one line.
pub fn summarize(text: &str) -> String {
    excerpt(text, SUMMARY_CHARS)
}
