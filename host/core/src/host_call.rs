//! Host calls: what attempts asked of the world and what came back; and intents, which say of a call that may change
//! the world what it is before it is made. Making calls is the driver's part.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::activation::{Activation, Current, Phase};
use crate::fault::{Fault, FaultKind};
use crate::json::Json;
use crate::money::Usd;

/// One call of the host with its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCall {
    /// What was called.
    pub kind: HostCallKind,
    /// A digest of the request.
    pub request: String,
    /// The answer.
    pub response: Json,
    /// What it cost.
    pub cost: Usd,
    /// How many tokens of a language model it used.
    pub tokens: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// How the reply of a model ended; none where there is no reply.
    pub finish: Option<Finish>,
}

/// How the reply of a model ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    /// By itself.
    #[default]
    Stop,
    /// It was truncated at the limit of output tokens.
    Length,
    /// The model wants tools called.
    ToolCalls,
    /// The model or a filter in front of it refused.
    Refusal,
    /// In a way of the provider's own.
    Other,
}

impl Finish {
    /// All.
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

    /// Returns what is wrong with the reply; none for one that is complete.
    pub fn flaw(self) -> Option<Flaw> {
        match self {
            Self::Length => Some(Flaw::Truncated),
            Self::Refusal => Some(Flaw::Refused),
            Self::Stop | Self::ToolCalls | Self::Other => None,
        }
    }
}

/// What is wrong with a reply that an endpoint sent without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// It was truncated.
    Truncated,
    /// It was refused or filtered.
    Refused,
}

impl Flaw {
    /// In words that follow the reply, e.g. "was truncated (finish reason `length`)".
    pub fn described(self) -> &'static str {
        match self {
            Self::Truncated => "was truncated (finish reason `length`)",
            Self::Refused => "was refused or filtered (finish reason `refusal`)",
        }
    }
}

/// What became of a host call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It was answered: the answer is served again.
    #[default]
    Answered,
    /// It failed without effect: it can be made again.
    Failed,
    /// It failed, perhaps after it took effect.
    Unknown,
}

impl Outcome {
    /// All.
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

/// What a guest can call that is recorded.
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
    /// A person.
    Human,
}

impl HostCallKind {
    /// All.
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
    /// It was made.
    Live,
    /// It was recorded by an earlier attempt.
    Recorded,
}

impl Source {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Recorded => "recorded",
        }
    }
}

/// What happens to recorded host calls when a call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Journal {
    /// They are served first.
    Keep,
    /// They are forgotten.
    Fresh,
}

/// Which recorded host calls are served again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPolicy {
    /// It depends on how the earlier attempt ended; see `FaultKind::keeps_calls`.
    #[default]
    Auto,
    /// All.
    Reuse,
    /// None.
    Fresh,
}

/// A host call that may change the world. It is recorded before it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// What is called.
    pub kind: HostCallKind,
    /// A digest of the request, as in the record of its answer.
    pub request: String,
    /// The call for people, e.g. `POST https://example.com/orders`.
    pub what: String,
    /// What may be done when its answer is lost.
    pub again: Again,
}

/// What may be done about a call whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Again {
    /// It carries a key by which the other side knows it again: it is simply made again.
    Repeat,
    /// Only a person can know.
    Ask,
}

impl Again {
    /// All.
    pub const ALL: [Self; 2] = [Self::Repeat, Self::Ask];

    /// The name used in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::Ask => "ask",
        }
    }
}

/// A call that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// What it was to do.
    pub intent: Intent,
    /// What is known of it.
    pub result: Known,
}

/// Whether the result of a call is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Known {
    /// It was begun and nothing more is known.
    No,
    /// Its answer is recorded.
    Recorded,
}

/// What the operator says of a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is to be made again.
    Redo,
    /// It is to be taken as answered like this.
    Answer(Json),
}

impl Verdict {
    /// In the words of the public events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redo => "redo",
            Self::Answer(_) => "answered",
        }
    }
}

impl Begun {
    /// A call that begins.
    pub fn now(intent: Intent) -> Self {
        Self {
            intent,
            result: Known::No,
        }
    }

    /// Whether its result is unknown and it must not simply be made again.
    pub fn is_doubtful(&self) -> bool {
        self.result == Known::No && self.intent.again == Again::Ask
    }

    /// Whether it is a call with this request whose result is unknown.
    pub fn awaits(&self, kind: HostCallKind, request: &str) -> bool {
        self.result == Known::No && self.intent.kind == kind && self.intent.request == request
    }
}

impl Activation {
    /// The calls in doubt, with their places among those that were begun: a result is unknown, no attempt is waiting
    /// for it, and a repetition could do harm.
    pub fn doubts(&self) -> impl Iterator<Item = (usize, &Begun)> {
        let stands = matches!(self.phase, Phase::Failed(_));
        self.current
            .begun
            .iter()
            .enumerate()
            .filter(move |(_, begun)| stands && begun.is_doubtful())
    }

    /// Whether an attempt that ends now leaves calls in doubt.
    pub(crate) fn leaves_doubts(&self) -> bool {
        self.current.begun.iter().any(Begun::is_doubtful)
    }

    /// Where an attempt that did not come to its end leaves its activation: ready for the next, but for a call whose
    /// result is not known, which must not be made again without asking.
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
    /// A call that may change the world is about to be made. It takes the place of one that it repeats.
    pub(crate) fn begin(&mut self, intent: &Intent) {
        self.begun.retain(|begun| {
            intent.again == Again::Ask || !begun.awaits(intent.kind, &intent.request)
        });
        self.begun.push(Begun::now(intent.clone()));
    }

    /// A call has come back.
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
            Outcome::Failed => drop(self.begun.remove(at)),
            Outcome::Unknown => {}
        }
    }
}
