//! The format of open activations, and of the calls that one has finished.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use strata_core::record::fault::Fault;
use strata_core::record::json::Json;
use strata_core::record::request::HumanRequest;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::server_tool::{ServerTool, ToolList};
use strata_core::record::work::Task;
use strata_core::state::activation::{ConversationMemory, Phase};

use super::super::attempts::AttemptsJson;
use super::super::field::{JsonDocument, Keyword, MessageLink, NamedValue};
use super::{FaultJson, RequestJson, RoleCallJson, TurnJson};

/// An open activation. That of a role that another one called names the calls that led to it, and
/// has its fault and its request beside it, because its role may have others.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ActivationJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<RoleCallJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<RequestJson<'a>>,
    pub step: u64,
    pub phase: Keyword<PhaseName>,
    pub news: Vec<MessageLink<'a>>,
    pub skipped: u16,
    pub choices: Cow<'a, [i32]>,
    pub tasks: Vec<TaskJson<'a>>,
    pub done: Vec<CompletedCallJson<'a>>,
    pub made: u32,
    pub tried: AttemptsJson<'a>,
    pub undone: Vec<UndoneCallJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnJson<'a>>,
    /// What of the conversation is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Cow<'a, ConversationMemory>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_tools: Option<Vec<ToolListJson<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<ActivationJson<'a>>,
}

/// The phase of a call, without its fault and its request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) enum PhaseName {
    #[default]
    Ready,
    Running,
    Resting,
    Failed,
    Complete,
    Waiting,
    CallingTools,
    CallingRole,
}

impl NamedValue for PhaseName {
    fn all() -> &'static [Self] {
        &[
            Self::Ready,
            Self::Running,
            Self::Resting,
            Self::Failed,
            Self::Complete,
            Self::Waiting,
            Self::CallingTools,
            Self::CallingRole,
        ]
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Resting => "resting",
            Self::Failed => "failed",
            Self::Complete => "complete",
            Self::Waiting => "waiting",
            Self::CallingTools => "calling-tools",
            Self::CallingRole => "calling-role",
        }
    }
}

impl PhaseName {
    /// Returns the phase of a call that has this fault or request.
    pub(in super::super) fn with(
        self,
        fault: Option<Fault>,
        request: Option<HumanRequest>,
    ) -> Phase {
        match (self, fault) {
            (Self::Ready, Some(fault)) => Phase::ReadyAfterFault(fault),
            (Self::Ready | Self::Failed, None) => Phase::Ready,
            (Self::Running, _) => Phase::Running,
            (Self::Resting, _) => Phase::BackingOff,
            (Self::Failed, Some(fault)) => Phase::Failed(fault),
            (Self::Complete, _) => Phase::Complete,
            (Self::CallingTools, _) => Phase::CallingTools,
            (Self::CallingRole, _) => Phase::CallingRole,
            (Self::Waiting, _) => request.map_or(Phase::Ready, Phase::WaitingForHuman),
        }
    }
}

impl From<&Phase> for PhaseName {
    fn from(phase: &Phase) -> Self {
        match phase {
            Phase::Ready | Phase::ReadyAfterFault(_) => Self::Ready,
            Phase::Running => Self::Running,
            Phase::BackingOff => Self::Resting,
            Phase::Failed(_) => Self::Failed,
            Phase::Complete => Self::Complete,
            Phase::WaitingForHuman(_) => Self::Waiting,
            Phase::CallingTools => Self::CallingTools,
            Phase::CallingRole => Self::CallingRole,
        }
    }
}

/// The tools of a server that the activation works with.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ToolListJson<'a> {
    server: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Cow<'a, str>>,
    tools: Vec<ServerToolJson<'a>>,
}

/// A tool of a server.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ServerToolJson<'a> {
    name: Cow<'a, str>,
    model_name: Cow<'a, str>,
    description: Cow<'a, str>,
    input_schema: Option<JsonDocument<'a>>,
}

impl<'a> From<&'a ToolList> for ToolListJson<'a> {
    fn from(list: &'a ToolList) -> Self {
        let tools = list.tools.iter().map(|tool| ServerToolJson {
            name: Cow::Borrowed(&tool.name),
            model_name: Cow::Borrowed(&tool.model_name),
            description: Cow::Borrowed(&tool.description),
            input_schema: Some(JsonDocument::of(&tool.input_schema)),
        });
        Self {
            server: Cow::Borrowed(&list.server),
            instructions: list.instructions.as_deref().map(Cow::Borrowed),
            tools: tools.collect(),
        }
    }
}

impl From<ToolListJson<'_>> for ToolList {
    fn from(list: ToolListJson<'_>) -> Self {
        let tools = list.tools.into_iter().map(|tool| ServerTool {
            name: tool.name.into_owned(),
            model_name: tool.model_name.into_owned(),
            description: tool.description.into_owned(),
            input_schema: tool
                .input_schema
                .map_or_else(Json::null, JsonDocument::into_json),
        });
        Self {
            server: list.server.into_owned(),
            instructions: list.instructions.map(Cow::into_owned),
            tools: tools.collect(),
        }
    }
}

/// A planned task.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct TaskJson<'a> {
    text: Cow<'a, str>,
    action: Option<Cow<'a, str>>,
}

impl<'a> From<&'a Task> for TaskJson<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            text: Cow::Borrowed(&task.text),
            action: task.action.as_deref().map(Cow::Borrowed),
        }
    }
}

impl From<TaskJson<'_>> for Task {
    fn from(task: TaskJson<'_>) -> Self {
        Self {
            text: task.text.into_owned(),
            action: task.action.map(Cow::into_owned),
        }
    }
}

/// A call that was undone.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct UndoneCallJson<'a> {
    pub work: Option<Cow<'a, str>>,
    pub place: u32,
    pub tried: AttemptsJson<'a>,
}

/// A call that was completed.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct CompletedCallJson<'a> {
    pub work: Option<Cow<'a, str>>,
    pub output: OutgoingJson<'a>,
    #[serde(default)]
    pub emissions: Vec<OutgoingJson<'a>>,
    #[serde(default)]
    pub writes: Vec<ScopeWriteJson<'a>>,
    #[serde(default)]
    pub tried: AttemptsJson<'a>,
}

/// A message that is to be published.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct OutgoingJson<'a> {
    pub message: MessageLink<'a>,
    #[serde(default)]
    pub addressed: bool,
}

/// A write to a scope.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct ScopeWriteJson<'a> {
    scope: Cow<'a, str>,
    key: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    delete: bool,
}

impl<'a> From<&'a Write> for ScopeWriteJson<'a> {
    fn from(write: &'a Write) -> Self {
        let (set, delete) = match &write.change {
            ScopeChange::Set(value) => (Some(JsonDocument::of(value)), false),
            ScopeChange::Delete => (None, true),
        };
        Self {
            scope: Cow::Borrowed(&write.scope),
            key: Cow::Borrowed(&write.key),
            set,
            delete,
        }
    }
}

impl From<ScopeWriteJson<'_>> for Write {
    fn from(write: ScopeWriteJson<'_>) -> Self {
        // The value may be `null`, although that usually means that a field is missing.
        let value = || write.set.map_or_else(Json::null, JsonDocument::into_json);
        Self {
            scope: write.scope.into_owned(),
            key: write.key.into_owned(),
            change: if write.delete {
                ScopeChange::Delete
            } else {
                ScopeChange::Set(value())
            },
        }
    }
}
