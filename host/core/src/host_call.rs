//! Host calls: what attempts requested from the host and what was answered; and intents, which
//! record what a call that may change something outside is before it is made. The calls themselves
//! are made by the driver.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::activation::{Activation, Current, Phase};
use crate::fault::{Fault, FaultKind};
use crate::json::Json;
use crate::money::Usd;

/// A host call with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCall {
    /// The kind of call.
    pub kind: HostCallKind,
    /// A digest of the request.
    pub request: String,
    /// The answer.
    pub response: Json,
    /// What it cost.
    pub cost: Usd,
    /// How many tokens of a language model it used.
    pub tokens: u64,
    /// Whether it was answered, and whether it may have taken effect.
    pub outcome: Outcome,
    /// Why the reply of a model ended; `None` if there is no such reply.
    pub finish: Option<Finish>,
}

/// Why the reply of a model ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// The model finished its reply.
    #[default]
    Stop,
    /// It was truncated at the limit of output tokens.
    Length,
    /// The model requests tool calls.
    ToolCalls,
    /// The model or a filter in front of it refused.
    Refusal,
    /// A reason particular to the provider.
    Other,
}

impl Finish {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Stop,
        Self::Length,
        Self::ToolCalls,
        Self::Refusal,
        Self::Other,
    ];

    /// The name used in events and in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool-calls",
            Self::Refusal => "refusal",
            Self::Other => "other",
        }
    }

    /// Returns the defect of the reply, or `None` if the reply is complete.
    pub fn flaw(self) -> Option<Flaw> {
        match self {
            Self::Length => Some(Flaw::Truncated),
            Self::Refusal => Some(Flaw::Refused),
            Self::Stop | Self::ToolCalls | Self::Other => None,
        }
    }
}

/// A defect of a reply that an endpoint sent without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// It was truncated.
    Truncated,
    /// It was refused or filtered.
    Refused,
}

impl Flaw {
    /// Returns words to follow the reply, e.g. "was truncated (finish reason `length`)".
    pub fn described(self) -> &'static str {
        match self {
            Self::Truncated => "was truncated (finish reason `length`)",
            Self::Refused => "was refused or filtered (finish reason `refusal`)",
        }
    }
}

/// The outcome of a host call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It was answered. The answer is served again.
    #[default]
    Answered,
    /// It failed without effect. It can be made again.
    Failed,
    /// It failed, but may have taken effect.
    Unknown,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Answered, Self::Failed, Self::Unknown];

    /// The name used in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// The kind of a recorded host call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostCallKind {
    /// A language model.
    Llm,
    /// The time.
    Clock,
    /// Random bytes.
    Random,
    /// An HTTP exchange.
    Http,
    /// A request to a human.
    Human,
}

impl HostCallKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Llm,
        Self::Clock,
        Self::Random,
        Self::Http,
        Self::Human,
    ];

    /// The name used in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Http => "http",
            Self::Human => "human",
        }
    }
}

/// Where the answer of a host call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The call was made.
    Live,
    /// The call was recorded by an earlier attempt.
    Recorded,
}

impl Source {
    /// Returns the name used in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Recorded => "recorded",
        }
    }
}

/// What a new attempt does with the host calls recorded by earlier attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Journal {
    /// It is served them before it makes new ones.
    Keep,
    /// They are forgotten.
    Fresh,
}

/// Which recorded host calls are served again after a resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPolicy {
    /// Depending on how the earlier attempt ended; see `FaultKind::keeps_calls`.
    #[default]
    Auto,
    /// All of them.
    Reuse,
    /// None of them.
    Fresh,
}

/// A host call that may change something outside. It is recorded before the call is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The kind of call.
    pub kind: HostCallKind,
    /// A digest of the request, as in the record of its answer.
    pub request: String,
    /// A description for people, e.g. `POST https://example.com/orders`.
    pub what: String,
    /// What may be done if the answer is lost.
    pub again: Again,
}

/// What may be done about a call whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Again {
    /// The call carries a key by which the receiver recognises it, so it is simply made again.
    Repeat,
    /// Only the operator can decide.
    Ask,
}

impl Again {
    /// All policies.
    pub const ALL: [Self; 2] = [Self::Repeat, Self::Ask];

    /// The name used in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Ask => "ask",
        }
    }
}

/// An external write: a host call that may change something outside and that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// What it was to do.
    pub intent: Intent,
    /// Whether its result is known.
    pub result: Known,
}

/// Whether the result of an external write is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Known {
    /// The call was started, and nothing more is known.
    No,
    /// Its answer is recorded.
    Recorded,
}

/// What the operator decides about a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The call is made again.
    Redo,
    /// The call counts as answered with this value.
    Answer(Json),
}

impl Verdict {
    /// Returns the name used in the public events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redo => "redo",
            Self::Answer(_) => "answered",
        }
    }
}

impl Begun {
    /// Returns a write that starts now.
    pub fn now(intent: Intent) -> Self {
        Self {
            intent,
            result: Known::No,
        }
    }

    /// Returns whether the result is unknown and the call must not simply be made again.
    pub fn is_doubtful(&self) -> bool {
        self.result == Known::No && self.intent.again == Again::Ask
    }

    /// Returns whether this is a call with this request and its result is unknown.
    pub fn awaits(&self, kind: HostCallKind, request: &str) -> bool {
        self.result == Known::No && self.intent.kind == kind && self.intent.request == request
    }
}

impl Activation {
    /// Returns the calls in doubt with their indices among the external writes: the result is
    /// unknown, no attempt is waiting for it, and repeating the call could do harm.
    pub fn doubts(&self) -> impl Iterator<Item = (usize, &Begun)> {
        let stands = matches!(self.phase, Phase::Failed(_));
        self.current
            .begun
            .iter()
            .enumerate()
            .filter(move |(_, begun)| stands && begun.is_doubtful())
    }

    /// Returns whether an attempt that ends now leaves calls in doubt.
    pub(crate) fn leaves_doubts(&self) -> bool {
        self.current.begun.iter().any(Begun::is_doubtful)
    }

    /// Returns the phase after an attempt that did not come to its end: ready for the next attempt,
    /// or failed if the result of a call is unknown and it must not be repeated without asking the
    /// operator.
    pub(crate) fn ready(&self) -> Phase {
        let Some(begun) = self.current.begun.iter().find(|begun| begun.is_doubtful()) else {
            return Phase::Ready;
        };
        let message = format!(
            "cut off while `{}` was under way: whether it took effect is not known",
            begun.intent.what
        );
        Phase::Failed(Fault::new(FaultKind::Interrupted, message))
    }
}

impl Current {
    /// Records that a call that may change something outside is about to be made. It replaces the
    /// unanswered call that it repeats, if there is one.
    pub(crate) fn begin(&mut self, intent: &Intent) {
        self.begun.retain(|begun| {
            intent.again == Again::Ask || !begun.awaits(intent.kind, &intent.request)
        });
        self.begun.push(Begun::now(intent.clone()));
    }

    /// Records the answer of a call.
    pub(crate) fn answered(&mut self, call: &HostCall) {
        self.journal.push(call.clone());
        let Some(at) = self
            .begun
            .iter()
            .position(|begun| begun.awaits(call.kind, &call.request))
        else {
            return;
        };
        match call.outcome {
            Outcome::Answered => self.begun[at].result = Known::Recorded,
            Outcome::Failed => {
                self.begun.remove(at);
            }
            Outcome::Unknown => {}
        }
    }
}
