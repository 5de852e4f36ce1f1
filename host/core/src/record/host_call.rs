//! Host calls: their kinds, and what must be granted for them; what attempts requested from the host
//! and what was answered; and intents, which record what a call that may change something outside is
//! before it is made. The calls themselves are made by the driver.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::conversation::{AssistantPart, TokenUsage};
use crate::record::json::Json;
use crate::record::money::Usd;

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
    /// Whether it was answered, and whether it may have taken effect.
    pub outcome: CallOutcome,
    /// The models that were asked; `None` for other calls.
    pub model: Option<ModelUse>,
}

impl HostCall {
    /// Returns how many tokens of language models it used.
    pub fn tokens(&self) -> u64 {
        self.model.as_ref().map_or(0, |model| model.usage.total())
    }

    /// Returns why the reply of a model ended, if there is one.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.model.as_ref()?.finish
    }

    /// Returns the parts of the reply of a model, as it is recorded, or `None` if the response is no
    /// such reply.
    pub fn reply_parts(&self) -> Option<Vec<AssistantPart>> {
        #[derive(Deserialize)]
        struct RecordedReply {
            parts: Vec<AssistantPart>,
        }
        let reply: RecordedReply = serde_json::from_str(self.response.as_str()).ok()?;
        Some(reply.parts)
    }

    /// Returns how many tokens the request of a recorded reply had, as its provider counted them, or
    /// `None` if it did not or the response is no such reply.
    pub fn reply_input_tokens(&self) -> Option<u64> {
        #[derive(Deserialize)]
        struct RecordedUsage {
            usage: TokenUsage,
        }
        let reply: RecordedUsage = serde_json::from_str(self.response.as_str()).ok()?;
        Some(reply.usage.input).filter(|tokens| *tokens > 0)
    }
}

/// The models that a call asked, and what they used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    /// The name of the model that answered, or that was asked last.
    pub name: String,
    /// The provider's id of the model that answered, as its reply has it; `None` if there was none.
    pub answered: Option<String>,
    /// Why the reply ended; `None` if there was none.
    pub finish: Option<FinishReason>,
    /// The tokens that were used, also by requests that failed or went to other models.
    pub usage: TokenUsage,
    /// The models that were asked before and did not answer, in this order.
    pub tried: Vec<TriedModel>,
    /// The ids of the scripted replies that were used, of those that may be used a limited number
    /// of times.
    pub limited_replies: Vec<String>,
}

/// A model that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedModel {
    /// Its name.
    pub model: String,
    /// Why it did not answer.
    pub reason: String,
}

/// Why the reply of a model ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
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

impl FinishReason {
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
    pub fn defect(self) -> Option<ReplyDefect> {
        match self {
            Self::Length => Some(ReplyDefect::Truncated),
            Self::Refusal => Some(ReplyDefect::Refused),
            Self::Stop | Self::ToolCalls | Self::Other => None,
        }
    }
}

/// A defect of a reply that an endpoint sent without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplyDefect {
    /// It was truncated.
    Truncated,
    /// It was refused or filtered.
    Refused,
}

impl ReplyDefect {
    /// Returns words to follow the reply, e.g. "was truncated (finish reason `length`)".
    pub fn description(self) -> &'static str {
        match self {
            Self::Truncated => "was truncated (finish reason `length`)",
            Self::Refused => "was refused or filtered (finish reason `refusal`)",
        }
    }
}

/// The outcome of a host call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CallOutcome {
    /// It was answered. The answer is served again.
    #[default]
    Answered,
    /// It failed without effect. It can be made again.
    Failed,
    /// It failed, but may have taken effect.
    Unknown,
}

impl CallOutcome {
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
    /// A tool of the role. The call is an attempt of its own, with host calls of its own.
    Tool,
    /// A tool of an MCP server.
    Mcp,
}

impl HostCallKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Llm,
        Self::Clock,
        Self::Random,
        Self::Http,
        Self::Human,
        Self::Tool,
        Self::Mcp,
    ];

    /// The name used in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Clock => "clock",
            Self::Random => "random",
            Self::Http => "http",
            Self::Human => "human",
            Self::Tool => "tool",
            Self::Mcp => "mcp",
        }
    }

    /// Returns whether such a call is made outside the host, by a service. Its answer may not be the
    /// same again, so it must not be lost.
    pub fn leaves_host(self) -> bool {
        match self {
            Self::Llm | Self::Http | Self::Mcp => true,
            Self::Clock | Self::Random | Self::Human | Self::Tool => false,
        }
    }
}

/// What `[role.action.allow]` can grant. Without a grant, host functions refuse what they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Grant {
    /// Language models.
    Llm,
    /// Web servers.
    Http,
    /// Directories.
    Dirs,
    /// Environment variables.
    Env,
    /// Secrets.
    Secrets,
    /// Tools of the role.
    Tools,
    /// Tools of MCP servers.
    Mcp,
}

impl Grant {
    /// All grants.
    pub const ALL: [Self; 7] = [
        Self::Llm,
        Self::Http,
        Self::Dirs,
        Self::Env,
        Self::Secrets,
        Self::Tools,
        Self::Mcp,
    ];

    /// Returns its key in `allow`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Http => "http",
            Self::Dirs => "dirs",
            Self::Env => "env",
            Self::Secrets => "secrets",
            Self::Tools => "tools",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the name of the cause of a fault where it is missing.
    pub fn cause_name(self) -> &'static str {
        match self {
            Self::Llm => "llm-not-granted",
            Self::Http => "http-not-granted",
            Self::Dirs => "dirs-not-granted",
            Self::Env => "env-not-granted",
            Self::Secrets => "secrets-not-granted",
            Self::Tools => "tools-not-granted",
            Self::Mcp => "mcp-not-granted",
        }
    }
}

/// Where the answer of a host call came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerSource {
    /// The call was made.
    Live,
    /// The call was recorded by an earlier attempt.
    Recorded,
}

impl AnswerSource {
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
pub enum RecordedCallUse {
    /// It is served them before it makes new ones.
    Reuse,
    /// They are forgotten.
    Fresh,
}

/// Which recorded host calls are served again after a resume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPolicy {
    /// Depending on how the earlier attempt ended; see `FaultKind::keeps_recorded_calls`.
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
    pub description: String,
    /// What may be done if the answer is lost.
    pub if_answer_lost: LostAnswerPolicy,
}

/// What may be done about a call whose answer is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LostAnswerPolicy {
    /// The call carries a key by which the receiver recognises it, so it is simply made again.
    Repeat,
    /// Only the operator can decide.
    AskOperator,
}

impl LostAnswerPolicy {
    /// All policies.
    pub const ALL: [Self; 2] = [Self::Repeat, Self::AskOperator];

    /// The name used in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeat => "repeat",
            Self::AskOperator => "ask",
        }
    }
}

/// An external write: a host call that may change something outside and that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalWrite {
    /// What it was to do.
    pub intent: Intent,
    /// Whether its result is known.
    pub result: WriteResult,
}

/// Whether the result of an external write is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WriteResult {
    /// The call was started, and nothing more is known.
    Unknown,
    /// Its answer is recorded.
    Recorded,
}

/// What the operator decides about a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DoubtResolution {
    /// The call is made again.
    Redo,
    /// The call counts as answered with this value.
    Answer(Json),
}

impl DoubtResolution {
    /// Returns the name used in the public events.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Redo => "redo",
            Self::Answer(_) => "answered",
        }
    }
}

impl ExternalWrite {
    /// Returns a write that starts now.
    pub fn new(intent: Intent) -> Self {
        Self {
            intent,
            result: WriteResult::Unknown,
        }
    }

    /// Returns whether the result is unknown and the call must not simply be made again.
    pub fn may_be_in_doubt(&self) -> bool {
        self.result == WriteResult::Unknown
            && self.intent.if_answer_lost == LostAnswerPolicy::AskOperator
    }

    /// Returns whether this is a call with this request and its result is unknown.
    pub fn is_unanswered(&self, kind: HostCallKind, request: &str) -> bool {
        self.result == WriteResult::Unknown
            && self.intent.kind == kind
            && self.intent.request == request
    }
}
