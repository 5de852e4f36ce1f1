//! The format of the file as it is written: the names and the order of its fields. `export` decides
//! their values.

use std::collections::BTreeMap;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;
use strata_core::record::json::Json;
use strata_core::record::shape::Shape;

use super::attempts::AttemptsJson;
use super::budget::BudgetJson;
use super::files::FilesJson;

mod message;
mod part;

pub(super) use message::{INSTRUCT_PREFIX, MessageJson, MessageListJson, MessagesByIdJson};
pub(super) use part::PartListJson;

/// Fields of other programs. They are written back to where they were read.
pub(super) type ForeignFields = BTreeMap<String, Value>;

/// The complete file.
#[derive(serde::Serialize)]
pub(super) struct TeamJson<'a> {
    pub env: EnvJson<'a>,
    pub investment: f64,
    pub idea: &'a str,
    pub strata: StrataJson<'a>,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct EnvJson<'a> {
    pub desc: &'a str,
    pub roles: OrderedObject<'a, RoleJson<'a>>,
    pub history: MemoryJson<'a>,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct RoleJson<'a> {
    pub name: &'a str,
    pub profile: &'a str,
    pub goal: &'a str,
    pub constraints: &'a str,
    pub desc: &'a str,
    pub is_human: Value,
    pub role_id: Value,
    pub states: Vec<String>,
    pub actions: Vec<ActionJson<'a>>,
    pub rc: RoleContextJson<'a>,
    pub addresses: &'a [String],
    pub recovered: bool,
    pub latest_observed_msg: Option<MessageJson<'a>>,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct ActionJson<'a> {
    pub name: &'a str,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct RoleContextJson<'a> {
    pub memory: MemoryJson<'a>,
    pub state: i64,
    pub watch: Vec<&'a str>,
    pub react_mode: &'static str,
    pub max_react_loop: u32,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct MemoryJson<'a> {
    pub storage: MessageListJson<'a>,
    pub index: BTreeMap<&'a str, MessageListJson<'a>>,
    pub ignore_id: bool,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct StrataJson<'a> {
    pub schema: String,
    pub run_id: &'a str,
    pub checkpoint: Option<&'a str>,
    pub parent: Option<&'a str>,
    pub lineage: &'a str,
    pub forks: Vec<&'a str>,
    pub status: &'static str,
    pub step: u64,
    pub step_open: bool,
    pub checkpoints: u64,
    pub sent: u64,
    pub calls: &'static str,
    pub faults: Vec<FaultJson<'a>>,
    pub open: OrderedObject<'a, ActivationJson<'a>>,
    pub buffers: OrderedObject<'a, Vec<&'a str>>,
    pub each: OrderedObject<'a, Vec<&'a str>>,
    pub joins: OrderedObject<'a, JoinJson<'a>>,
    pub requests: Vec<RequestJson<'a>>,
    pub state: ScopesJson<'a>,
    pub components: BTreeMap<String, &'a str>,
    pub budget: BudgetJson<'a>,
    pub dead_letters: Vec<DeadLetterJson<'a>>,
    pub outbox: Vec<OutboundJson<'a>>,
    pub files: FilesJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_messages: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reply_uses: &'a BTreeMap<String, u64>,
    pub shape: &'a Shape,
    pub definition: Option<DefinitionJson<'a>>,
    pub messages: MessagesByIdJson<'a>,
    #[serde(flatten)]
    pub more: ForeignFields,
}

#[derive(serde::Serialize)]
pub(super) struct FaultJson<'a> {
    pub role: &'a str,
    pub index: i64,
    pub action: &'a str,
    pub kind: &'static str,
    pub cause: &'static str,
    pub attempt: u32,
    pub message: &'a str,
    pub step: u64,
    pub digest: Option<&'a str>,
    pub backtrace: &'a [String],
    pub log: &'a [String],
    pub retryable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<Value>,
}

/// The messages that wait in a join.
#[derive(serde::Serialize)]
pub(super) struct JoinJson<'a> {
    pub sources: Vec<&'a str>,
    pub queue: OrderedObject<'a, Vec<&'a str>>,
}

/// An open request to a person.
#[derive(serde::Serialize)]
pub(super) struct RequestJson<'a> {
    pub id: &'a str,
    pub role: &'a str,
    pub index: i64,
    pub action: &'a str,
    pub step: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonDocument<'a>>,
    pub question: &'a str,
    pub schema: Option<JsonDocument<'a>>,
    pub choices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<JsonDocument<'a>>,
    pub expires: Option<String>,
    pub call: &'a str,
}

/// An open activation.
#[derive(serde::Serialize)]
pub(super) struct ActivationJson<'a> {
    pub step: u64,
    pub phase: &'static str,
    pub news: Vec<&'a str>,
    pub skipped: u16,
    pub choices: &'a [i32],
    pub tasks: &'a [strata_core::record::work::Task],
    pub done: Vec<CompletedCallJson<'a>>,
    pub made: u32,
    pub tried: AttemptsJson<'a>,
    pub undone: Vec<UndoneCallJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub called: Vec<CalledRoleJson<'a>>,
}

/// An activation of a role that another role called.
#[derive(serde::Serialize)]
pub(super) struct CalledRoleJson<'a> {
    pub role: &'a str,
    pub via: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    #[serde(flatten)]
    pub activation: ActivationJson<'a>,
}

/// A call that was undone.
#[derive(serde::Serialize)]
pub(super) struct UndoneCallJson<'a> {
    pub work: String,
    pub place: u32,
    pub tried: AttemptsJson<'a>,
}

/// A call that was completed.
#[derive(serde::Serialize)]
pub(super) struct CompletedCallJson<'a> {
    pub work: String,
    pub output: OutgoingJson<'a>,
    pub emissions: Vec<OutgoingJson<'a>>,
    pub writes: Vec<ScopeWriteJson<'a>>,
    pub tried: AttemptsJson<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct OutgoingJson<'a> {
    pub message: &'a str,
    pub addressed: bool,
}

#[derive(serde::Serialize)]
pub(super) struct ScopeWriteJson<'a> {
    pub scope: &'a str,
    pub key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
}

#[derive(serde::Serialize)]
pub(super) struct ScopesJson<'a> {
    pub env: BTreeMap<&'a str, BTreeMap<&'a str, JsonDocument<'a>>>,
    pub role: OrderedObject<'a, BTreeMap<&'a str, JsonDocument<'a>>>,
}

#[derive(serde::Serialize)]
pub(super) struct DeadLetterJson<'a> {
    pub message: &'a str,
    pub to: &'a str,
}

#[derive(serde::Serialize)]
pub(super) struct DefinitionJson<'a> {
    pub name: &'a str,
    pub base: String,
    pub text: &'a str,
    pub components: &'a [String],
}

/// An object whose fields are written in the given order.
pub(super) struct OrderedObject<'a, T>(pub Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for OrderedObject<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A JSON document within the file.
pub(super) struct JsonDocument<'a>(pub &'a Json);

impl Serialize for JsonDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value().serialize(serializer)
    }
}

/// A message that is about to leave the team.
#[derive(serde::Serialize)]
pub(super) struct OutboundJson<'a> {
    pub message: &'a str,
    pub to: &'a [String],
    pub failed: Option<&'a str>,
}

/// A message for programs outside of the team.
#[derive(serde::Serialize)]
pub(super) struct ExternalMessageJson<'a> {
    #[serde(flatten)]
    pub message: MessageJson<'a>,
    pub to: &'a [String],
}
