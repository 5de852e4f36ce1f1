//! The format of the file as it is written: the names and the order of its fields. `export` decides
//! their values.

use std::collections::BTreeMap;

use serde::ser::{Serialize, Serializer};
use serde_json::Value;

use strata_core::json::Json;
use strata_core::shape::Shape;

mod message;

pub(super) use message::{ById, INSTRUCT_PREFIX, Text, Texts};

/// Fields of other programs. They are written back to where they were read.
pub(super) type More = BTreeMap<String, Value>;

/// The complete file.
#[derive(serde::Serialize)]
pub(super) struct File<'a> {
    pub env: Env<'a>,
    pub investment: f64,
    pub idea: &'a str,
    pub strata: Strata<'a>,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Env<'a> {
    pub desc: &'a str,
    pub roles: Ordered<'a, Role<'a>>,
    pub history: Memory<'a>,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Role<'a> {
    pub name: &'a str,
    pub profile: &'a str,
    pub goal: &'a str,
    pub constraints: &'a str,
    pub desc: &'a str,
    pub is_human: Value,
    pub role_id: Value,
    pub states: Vec<String>,
    pub actions: Vec<Action<'a>>,
    pub rc: Context<'a>,
    pub addresses: &'a [String],
    pub recovered: bool,
    pub latest_observed_msg: Option<Text<'a>>,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Action<'a> {
    pub name: &'a str,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Context<'a> {
    pub memory: Memory<'a>,
    pub state: i64,
    pub watch: Vec<&'a str>,
    pub react_mode: &'static str,
    pub max_react_loop: u32,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Memory<'a> {
    pub storage: Texts<'a>,
    pub index: BTreeMap<&'a str, Texts<'a>>,
    pub ignore_id: bool,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Strata<'a> {
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
    pub faults: Vec<Fault<'a>>,
    pub open: Ordered<'a, Open<'a>>,
    pub buffers: Ordered<'a, Vec<&'a str>>,
    pub each: Ordered<'a, Vec<&'a str>>,
    pub joins: Ordered<'a, Join<'a>>,
    pub requests: Vec<Request<'a>>,
    pub state: State<'a>,
    pub components: BTreeMap<String, &'a str>,
    pub budget: Budget,
    pub dead_letters: Vec<DeadLetter<'a>>,
    pub outbox: Vec<Outbound<'a>>,
    pub files: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_messages: Option<&'static str>,
    pub shape: &'a Shape,
    pub definition: Option<Definition<'a>>,
    pub messages: ById<'a>,
    #[serde(flatten)]
    pub more: More,
}

#[derive(serde::Serialize)]
pub(super) struct Fault<'a> {
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
}

/// The messages that wait in a join.
#[derive(serde::Serialize)]
pub(super) struct Join<'a> {
    pub sources: Vec<&'a str>,
    pub queue: Ordered<'a, Vec<&'a str>>,
}

/// An open request to a person.
#[derive(serde::Serialize)]
pub(super) struct Request<'a> {
    pub id: &'a str,
    pub role: &'a str,
    pub index: i64,
    pub action: &'a str,
    pub step: u64,
    pub question: &'a str,
    pub schema: Option<Document<'a>>,
    pub choices: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Document<'a>>,
    pub expires: Option<String>,
    pub call: &'a str,
}

/// An open activation.
#[derive(serde::Serialize)]
pub(super) struct Open<'a> {
    pub step: u64,
    pub phase: &'static str,
    pub news: Vec<&'a str>,
    pub skipped: u16,
    pub choices: &'a [i32],
    pub tasks: &'a [strata_core::team::Task],
    pub done: Vec<Done<'a>>,
    pub made: u32,
    pub tried: Tried<'a>,
    pub undone: Vec<Undone<'a>>,
}

/// The attempts of a call.
#[derive(serde::Serialize)]
pub(super) struct Tried<'a> {
    pub attempts: u32,
    pub failures: u32,
    pub journal: Vec<HostCall<'a>>,
    pub keep: bool,
    pub answered: bool,
    pub begun: Vec<Begun<'a>>,
    pub reserved: Vec<Reserved<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Value>,
}

/// The budget that is reserved for a call.
#[derive(serde::Serialize)]
pub(super) struct Reserved<'a> {
    pub request: &'a str,
    pub usd: f64,
    pub tokens: u64,
}

/// A call that was undone.
#[derive(serde::Serialize)]
pub(super) struct Undone<'a> {
    pub work: String,
    pub place: u32,
    pub tried: Tried<'a>,
}

/// A call that was completed.
#[derive(serde::Serialize)]
pub(super) struct Done<'a> {
    pub work: String,
    pub output: Outgoing<'a>,
    pub emissions: Vec<Outgoing<'a>>,
    pub writes: Vec<Write<'a>>,
    pub tried: Tried<'a>,
}

#[derive(serde::Serialize)]
pub(super) struct Outgoing<'a> {
    pub message: &'a str,
    pub addressed: bool,
}

#[derive(serde::Serialize)]
pub(super) struct Write<'a> {
    pub scope: &'a str,
    pub key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Document<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete: bool,
}

#[derive(serde::Serialize)]
pub(super) struct HostCall<'a> {
    pub kind: &'static str,
    pub request: &'a str,
    pub response: Document<'a>,
    pub cost: f64,
    pub tokens: u64,
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<&'static str>,
}

/// A host call that was started and may have changed something outside.
#[derive(serde::Serialize)]
pub(super) struct Begun<'a> {
    pub kind: &'static str,
    pub request: &'a str,
    pub what: &'a str,
    pub again: &'static str,
    pub known: bool,
}

#[derive(serde::Serialize)]
pub(super) struct State<'a> {
    pub env: BTreeMap<&'a str, BTreeMap<&'a str, Document<'a>>>,
    pub role: Ordered<'a, BTreeMap<&'a str, Document<'a>>>,
}

#[derive(serde::Serialize)]
pub(super) struct Budget {
    pub total: f64,
    pub max: Option<f64>,
    /// The value of `/investment`, by which a later change of that is noticed.
    pub investment: f64,
    /// The keys are `ROLE/ACTION`.
    pub by: BTreeMap<String, Spending>,
}

/// What a component has used up.
#[derive(serde::Serialize)]
pub(super) struct Spending {
    pub usd: f64,
    pub tokens: u64,
    pub calls: u64,
    pub served: u64,
    pub saved: f64,
    pub truncated: u64,
    pub refused: u64,
}

#[derive(serde::Serialize)]
pub(super) struct DeadLetter<'a> {
    pub message: &'a str,
    pub to: &'a str,
}

#[derive(serde::Serialize)]
pub(super) struct Definition<'a> {
    pub name: &'a str,
    pub base: String,
    pub text: &'a str,
    pub components: &'a [String],
}

/// An object whose fields are written in the given order.
pub(super) struct Ordered<'a, T>(pub Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Ordered<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A JSON document within the file.
pub(super) struct Document<'a>(pub &'a Json);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value().serialize(serializer)
    }
}

/// A message that is about to leave the team.
#[derive(serde::Serialize)]
pub(super) struct Outbound<'a> {
    pub message: &'a str,
    pub to: &'a [String],
    pub failed: Option<&'a str>,
}

/// A message for programs outside of the team.
#[derive(serde::Serialize)]
pub(super) struct Letter<'a> {
    #[serde(flatten)]
    pub message: Text<'a>,
    pub to: &'a [String],
}
