//! The format of the file: the names and the order of the fields of each record, from which records
//! are both written and read. `export` decides the values, and the readers check what they mean.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use strata_core::record::event::Status;
use strata_core::record::host_call::CallPolicy;
use strata_core::record::shape::Shape;
use strata_core::state::environment::routing::OwnMessages;

use super::budget::BudgetJson;
use super::field::{
    Dollars, Keyword, MessageLink, NotDecoded, OrderedObject, TextList, WrappedDocument,
};
use super::files::FilesJson;
use super::questions::QuestionsJson;

mod fault;
mod human_request;
mod message;
mod open;
mod part;

pub(super) use fault::{FaultJson, RoleCallJson};
pub(super) use human_request::RequestJson;
pub(super) use message::{
    ExternalMessageJson, HopJson, INSTRUCT_PREFIX, MessageJson, MessageListJson, MessagesByIdJson,
};
pub(super) use open::{CalledJson, OpenJson, RecordedCallJson};
pub(super) use part::PartJson;

/// Fields of other programs. They are written back to where they were read.
pub(super) type ForeignFields = BTreeMap<String, Value>;

/// The complete file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct TeamJson<'a> {
    pub env: NotDecoded<EnvJson<'a>>,
    pub investment: Option<Dollars>,
    pub idea: Cow<'a, str>,
    pub strata: Option<StrataJson<'a>>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

/// The part in MetaGPT's format.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EnvJson<'a> {
    pub desc: NotDecoded<&'a str>,
    pub roles: NotDecoded<OrderedObject<'a, RoleJson<'a>>>,
    pub history: NotDecoded<MemoryJson<'a>>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RoleJson<'a> {
    pub name: Cow<'a, str>,
    pub profile: NotDecoded<&'a str>,
    pub goal: NotDecoded<&'a str>,
    pub constraints: NotDecoded<&'a str>,
    pub desc: NotDecoded<&'a str>,
    // The values of other programs are kept.
    #[serde(skip_deserializing)]
    pub is_human: Value,
    #[serde(skip_deserializing)]
    pub role_id: Value,
    pub states: Option<TextList<'a>>,
    pub actions: Option<Vec<ActionJson<'a>>>,
    pub rc: RoleContextJson<'a>,
    pub addresses: NotDecoded<&'a [String]>,
    pub recovered: NotDecoded<bool>,
    pub latest_observed_msg: NotDecoded<MessageJson<'a>>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ActionJson<'a> {
    pub name: Cow<'a, str>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RoleContextJson<'a> {
    pub memory: NotDecoded<MemoryJson<'a>>,
    pub state: NotDecoded<i64>,
    pub watch: Option<TextList<'a>>,
    pub react_mode: Cow<'a, str>,
    pub max_react_loop: NotDecoded<u32>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct MemoryJson<'a> {
    pub storage: NotDecoded<MessageListJson<'a>>,
    pub index: NotDecoded<BTreeMap<&'a str, MessageListJson<'a>>>,
    pub ignore_id: NotDecoded<bool>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

/// What MetaGPT's format has no fields for.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StrataJson<'a> {
    pub schema: NotDecoded<String>,
    pub run_id: Cow<'a, str>,
    pub checkpoint: Option<Cow<'a, str>>,
    pub parent: Option<Cow<'a, str>>,
    pub lineage: Cow<'a, str>,
    pub forks: TextList<'a>,
    pub status: Option<Keyword<Status>>,
    pub step: u64,
    pub step_open: bool,
    pub checkpoints: u64,
    pub sent: u64,
    pub calls: Keyword<CallPolicy>,
    pub faults: NotDecoded<Vec<FaultJson<'a>>>,
    pub open: Option<OrderedObject<'a, OpenJson<'a>>>,
    pub buffers: Option<OrderedObject<'a, Vec<MessageLink<'a>>>>,
    pub each: OrderedObject<'a, Vec<MessageLink<'a>>>,
    /// The messages that a role works on and that have arrived again since.
    #[serde(skip_serializing_if = "OrderedObject::is_empty")]
    pub again: OrderedObject<'a, Vec<MessageLink<'a>>>,
    /// The last summaries of the conversations of roles.
    #[serde(skip_serializing_if = "OrderedObject::is_empty")]
    pub summaries: OrderedObject<'a, RoleSummaryJson<'a>>,
    pub joins: OrderedObject<'a, JoinJson<'a>>,
    pub requests: NotDecoded<Vec<RequestJson<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub questions: Option<QuestionsJson<'a>>,
    pub state: ScopesJson<'a>,
    pub components: BTreeMap<Cow<'a, str>, Option<Cow<'a, str>>>,
    pub budget: Option<BudgetJson<'a>>,
    pub dead_letters: Vec<DeadLetterJson<'a>>,
    pub outbox: Vec<OutboundJson<'a>>,
    pub files: FilesJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_messages: Option<Keyword<OwnMessages>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reply_uses: Cow<'a, BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: Cow<'a, BTreeMap<String, String>>,
    pub shape: Option<Cow<'a, Shape>>,
    pub definition: NotDecoded<DefinitionJson<'a>>,
    pub messages: NotDecoded<MessagesByIdJson<'a>>,
    #[serde(flatten, skip_deserializing)]
    pub more: ForeignFields,
}

/// The last summary of the conversations of a role.
#[derive(Serialize, Deserialize)]
pub(super) struct RoleSummaryJson<'a> {
    pub first_news: MessageLink<'a>,
    #[serde(default)]
    pub text: Cow<'a, str>,
    /// How many messages of the role's memory it stands for.
    #[serde(default)]
    pub messages: u32,
}

/// The messages that wait in a join.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct JoinJson<'a> {
    pub sources: Option<TextList<'a>>,
    pub queue: OrderedObject<'a, Vec<MessageLink<'a>>>,
}

/// The values of a scope, by their keys.
pub(super) type ScopeJson<'a> = BTreeMap<Cow<'a, str>, WrappedDocument<'a>>;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ScopesJson<'a> {
    pub env: BTreeMap<Cow<'a, str>, ScopeJson<'a>>,
    pub role: OrderedObject<'a, ScopeJson<'a>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct DeadLetterJson<'a> {
    pub message: MessageLink<'a>,
    #[serde(default)]
    pub to: Cow<'a, str>,
}

/// A message that is about to leave the team.
#[derive(Serialize, Deserialize)]
pub(super) struct OutboundJson<'a> {
    pub message: MessageLink<'a>,
    #[serde(default)]
    pub to: TextList<'a>,
    #[serde(default)]
    pub failed: Option<Cow<'a, str>>,
}

/// The team file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct DefinitionJson<'a> {
    pub name: Cow<'a, str>,
    pub base: Cow<'a, str>,
    pub text: Cow<'a, str>,
    pub components: TextList<'a>,
}
