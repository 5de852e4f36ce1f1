//! Public events: what `--events`, the command `events` and embedders see of a run, one JSON object
//! a line.
//!
//! [`PublicEvent`] is their only description. Its serialised form is the line; its documentation is
//! the reference page `events.md` and the JSON Schema. Which public events a recorded event becomes
//! is decided in `translate`.

mod action_output;
mod action_ref;
mod model_use;
mod nested_number;
mod translate;
mod warning;
mod written_file;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Serialize, Serializer};
use serde_json::Value;
use strata_base::clock::rfc3339;
use strata_core::record::event::Status;
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::host_call::{AnswerSource, HostCallKind};

pub use action_output::{ActionOutput, ReplacedTokens};
pub use action_ref::{ActionRef, RoleCaller};
pub use model_use::{ModelUseFields, TokenCounts, UnansweredModel};
pub use nested_number::NestedNumber;
pub use translate::{EventTranslator, action_name, count_lines, is_routed};
pub use warning::may_be_warning;
pub use written_file::{WrittenContent, WrittenFile};

/// One line of a run's public events.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventLine {
    /// The number of the line. Lines are counted from 1, over all runs on a storage.
    pub n: u64,
    /// When the event was recorded, in UTC (RFC 3339, milliseconds).
    #[serde(rename = "time", serialize_with = "serialize_time")]
    #[schemars(with = "String")]
    pub time_ms: i64,
    /// What happened.
    #[serde(flatten)]
    pub event: PublicEvent,
}

impl EventLine {
    /// Returns the line as JSON, without a newline. `n`, `time` and `kind` come first.
    pub fn to_json(&self) -> String {
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Something that happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PublicEvent {
    /// A team begins.
    RunStarted {
        /// the id of the run
        run: String,
        /// what the team is asked to do
        idea: String,
    },
    /// A saved team continues.
    RunResumed {
        /// the checkpoint from which it continues; null if there is none yet
        checkpoint: Option<String>,
        /// the step, counted from 0
        step: u64,
        /// who asked for it, if it is known
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A new lineage begins.
    Forked {
        /// the name of the lineage
        lineage: String,
        /// its first checkpoint
        checkpoint: String,
        /// the checkpoint from which it branches off
        parent: String,
    },
    /// A component was replaced by another one.
    ComponentChanged {
        /// the role
        role: String,
        /// the name of the action; `think` for the component that chooses
        action: String,
        /// the SHA-256 of the component before; null if there was none
        old: Option<String>,
        /// the SHA-256 of the component now
        new: String,
    },
    /// A step begins.
    StepStarted {
        /// the step, counted from 0
        step: u64,
    },
    /// A message is delivered to its recipients.
    MessageRouted {
        /// the id of the message
        id: String,
        /// the role that sent it; empty for a message from outside
        from: String,
        /// the recipients: roles, then joins
        to: Vec<String>,
        /// its label
        cause_by: String,
        /// names outside of the team to which it goes
        #[serde(skip_serializing_if = "Vec::is_empty")]
        outside: Vec<String>,
    },
    /// A message is delivered to nobody: no route's condition holds, or the next leg of its itinerary
    /// names nobody.
    MessageDropped {
        /// the id of the message
        id: String,
        /// the role that sent it
        from: String,
        /// why
        reason: String,
    },
    /// A condition of a route cannot be evaluated for a message, e.g. because the message lacks the
    /// field that it compares. It counts as one that does not hold.
    ConditionFailed {
        /// the id of the message
        id: String,
        /// the role that sent it
        from: String,
        /// the condition
        condition: String,
        /// why
        reason: String,
    },
    /// A message is addressed to a name that the team does not have.
    DeadLetter {
        /// the id of the message
        id: String,
        /// the name
        to: String,
        /// why
        reason: String,
    },
    /// A message was delivered outside of the team.
    MessageHandedOver {
        /// the id of the message
        id: String,
    },
    /// A message could not be delivered outside of the team.
    MessageNotHandedOver {
        /// the id of the message
        id: String,
        /// why
        reason: String,
    },
    /// A message waits in a join.
    JoinBuffered {
        /// the join
        join: String,
        /// the role that sent it
        from: String,
        /// the id of the message
        id: String,
    },
    /// A join releases the messages that it holds.
    JoinReleased {
        /// the join
        join: String,
        /// the ids of the messages
        messages: Vec<String>,
        /// the recipients: roles, then joins
        to: Vec<String>,
    },
    /// A component is instantiated for one attempt.
    PluginInstantiated {
        /// the role
        role: String,
        /// the index of the action in its role, counted from 0; -1 for a choice
        index: i32,
        /// the name of the action; `think` for a choice
        action: String,
        /// the SHA-256 of the component
        digest: String,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// A role has chosen what to do next.
    Think {
        /// the role
        role: String,
        /// the index of the chosen action; -1 ends the activation
        choice: i32,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// The model of a role has replied.
    Turn {
        /// the role
        role: String,
        /// the number of the turn, counted from 0
        turn: u32,
        /// the tools that the model calls, each with `tool_call`, `tool` and `id`
        calls: Vec<CalledTool>,
        /// the name of the model
        model: String,
        /// how the reply ended: `stop`, `length` (it was truncated), `tool-calls`, `refusal` (also if
        /// it was filtered), `other`
        finish: &'static str,
        /// the cost in USD
        cost: f64,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// Old messages of a conversation are replaced in what the model of a role is sent.
    MemorySummarised {
        /// the role
        role: String,
        /// the number of the turn that is requested next, counted from 0
        turn: u32,
        /// the positions of the first and the last message that is replaced, counted from 0 in the whole
        /// conversation; absent if none is
        #[serde(skip_serializing_if = "Option::is_none")]
        messages: Option<[u32; 2]>,
        /// the estimated size of the request `before` and `after`, in tokens
        tokens: ReplacedTokens,
        /// what replaces them: `cleared` (results of tools become a line each), `summary` (of a model),
        /// `component` (a summary of a component), `action` (a text of an action)
        how: &'static str,
        /// the name of the model that wrote the summary; absent if none did
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// the cost in USD
        cost: f64,
        /// why there is no summary although one was due; absent otherwise
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// A call that a model asked for is not made, or, after a resume with another schema, not made again.
    /// The model is told the reason.
    ToolRejected {
        /// the role
        role: String,
        /// the number of the turn, counted from 0
        turn: u32,
        /// the name of the tool, or the name that the model used if there is no such tool
        tool: String,
        /// the position of the call in the turn, counted from 0
        tool_call: u32,
        /// the number of the call within that call, counted from 0, if code made it; in deeper nesting, the
        /// numbers from the outermost to this one
        #[serde(skip_serializing_if = "Option::is_none")]
        nested: Option<NestedNumber>,
        /// why
        reason: String,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// An attempt begins.
    ActionStarted {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the number of the attempt, counted from 1 over all resumes
        attempt: u32,
        /// the SHA-256 of the component; null if the host itself does the work
        digest: Option<String>,
    },
    /// An attempt begins without the recorded calls of earlier ones, so that writes may be repeated.
    WritesForgotten {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the writes, as `METHOD URL`
        writes: Vec<String>,
    },
    /// A write over HTTP is about to be sent.
    HostCallBegun {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// what is called: `http`
        #[serde(serialize_with = "crate::serialize_name::host_call_kind")]
        #[schemars(with = "String")]
        call: HostCallKind,
        /// the request in a few words
        what: String,
    },
    /// A call of the host has returned.
    HostCall {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// what was called: `llm`, `http`, `human`, `clock`, `random`
        #[serde(serialize_with = "crate::serialize_name::host_call_kind")]
        #[schemars(with = "String")]
        call: HostCallKind,
        /// `live`, or `recorded` if the recorded answer of an earlier attempt was used
        #[serde(serialize_with = "serialize_source")]
        #[schemars(with = "String")]
        source: AnswerSource,
        /// the cost in USD; 0 for a recorded answer
        cost: f64,
        /// the request in one line
        what: String,
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        used: Option<ModelUseFields>,
    },
    /// An attempt did not repeat writes that are recorded.
    WritesUnclaimed {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the writes, as `METHOD URL`
        writes: Vec<String>,
    },
    /// The operator has decided about a write whose result is unknown.
    DoubtSettled {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the request in a few words
        what: String,
        /// `redo` or `answered`
        verdict: &'static str,
    },
    /// A person is asked.
    RequestOpened {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the id of the request
        request: String,
        /// the question
        question: String,
        /// the tool that is called if the person approves
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// the MCP server that asks before it answers a call of the tool
        #[serde(skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// the address at which the server wants a person to do something; the host never opens it
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// the arguments of that call
        #[serde(skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// the JSON Schema of the tool's arguments, which changed arguments have to follow
        #[serde(skip_serializing_if = "Option::is_none")]
        input_schema: Option<Value>,
        /// the JSON Schema of the answer
        #[serde(skip_serializing_if = "Option::is_none")]
        schema: Option<Value>,
        /// the possible answers
        #[serde(skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
        /// the answer that is taken when the time is over
        #[serde(skip_serializing_if = "Option::is_none")]
        default: Option<Value>,
        /// when that is
        #[serde(skip_serializing_if = "Option::is_none")]
        expires: Option<String>,
    },
    /// A request has its answer.
    RequestAnswered {
        /// the role that asked
        role: String,
        /// the id of the request
        request: String,
        /// who answered: `person`; `default` or `nobody` if the time is over
        by: &'static str,
        /// the name of the person, if it is known
        #[serde(skip_serializing_if = "Option::is_none")]
        person: Option<String>,
        /// the checkpoint that includes the answer
        checkpoint: String,
        /// the answer
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<Value>,
        /// the tool call that the role works for; absent if it handles mail
        #[serde(skip_serializing_if = "Option::is_none")]
        via: Option<RoleCaller>,
    },
    /// An attempt ended because no budget is left for a call. It is repeated when there is.
    ActionSuspended {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the number of the attempt, counted from 1 over all resumes
        attempt: u32,
        /// `out-of-budget`; `tool-call` for code that waits for a tool, which waits for a person or a role; `guard` for a role that has answered
        /// as a tool, whose answer a guard sees in the next attempt
        reason: &'static str,
    },
    /// An action has a result, which is durable.
    ActionFinished {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the number of the attempt, counted from 1 over all resumes
        attempt: u32,
        /// the SHA-256 of the component; null if the host itself does the work
        digest: Option<String>,
        /// the result: `content`, `data`, `to`; `tasks` of a plan
        output: ActionOutput,
    },
    /// An attempt failed.
    ActionFailed {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the number of the attempt, counted from 1 over all resumes
        attempt: u32,
        /// the kind of the fault
        #[serde(serialize_with = "crate::serialize_name::fault_kind")]
        #[schemars(with = "String")]
        fault: FaultKind,
        /// why it failed, as far as the host knows; `declared` if the action itself reported the
        /// failure
        #[serde(serialize_with = "crate::serialize_name::fault_cause")]
        #[schemars(with = "String")]
        cause: FaultCause,
        /// what was attempted, and why it failed
        message: String,
        /// the SHA-256 of the component; null if the host itself does the work
        digest: Option<String>,
        /// the guest's stack, innermost frame first
        backtrace: Vec<String>,
        /// the pause in milliseconds after which it is tried again without a resume
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_ms: Option<u32>,
    },
    /// A saved result is used instead of running the action.
    ActionReplayed {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
    },
    /// An action has written files, together with its result.
    FilesWritten {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the files, each with `path`, `change` (`written`, `made`, `removed`), `bytes` and `digest`
        files: Vec<WrittenFile>,
    },
    /// An action has logged something, or written it to its standard streams, and has a result. What
    /// became its result is not repeated.
    ActionLogged {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the last lines
        lines: Vec<String>,
        /// how many lines came before these
        left_out: u64,
    },
    /// A model was given the text of a skill.
    SkillLoaded {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the name of the skill
        skill: String,
        /// the SHA-256 of all its files
        digest: String,
    },
    /// An action looked for paths that it may not see. Functions of WASI say that nothing is there.
    LookupsDenied {
        #[serde(flatten)]
        #[allow(missing_docs, reason = "its fields are documented")]
        action: ActionRef,
        /// the paths, the first few
        paths: Vec<String>,
    },
    /// A file that somebody else put where an action wrote is kept under another name.
    FileKept {
        /// the path that the action wrote
        path: String,
        /// the path of the other file now
        kept: String,
    },
    /// The results of a step take effect.
    StepCommitted {
        /// the step, counted from 0
        step: u64,
        /// the checkpoint
        checkpoint: String,
        /// the checkpoint before it; for the first step of a lineage the one from which the lineage
        /// branches off; null if there is none
        parent: Option<String>,
    },
    /// A cap above the run is used up. The run ends as soon as what is under way has ended.
    CapReached {
        /// what the cap applies to: `all` runs of the database, or those that were submitted with this
        /// `--scope`
        scope: String,
        /// the cap in USD
        cap: f64,
    },
    /// The state was written by somebody else, so what people are said to have decided in it does not
    /// count and is asked again.
    ConsentWithdrawn {},
    /// The state of an MCP server changed.
    McpServer {
        /// its name in the team file
        server: String,
        /// `ready`: it answers, for the first time in this process of the host; `restarted`: it answers
        /// again after it had ended; `gone`: it is not started again; `omitted`: it does not start, and
        /// roles work without it
        state: &'static str,
        /// the revision of the protocol that is spoken with it
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// what it calls itself
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// the version that it names
        #[serde(skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// why it is gone or omitted
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A tool of an MCP server is not offered to anybody.
    McpToolOmitted {
        /// the name of the server in the team file
        server: String,
        /// the name of the tool at the server
        tool: String,
        /// why it cannot be used
        reason: String,
    },
    /// The run ends.
    RunEnded {
        /// how it ended
        #[serde(serialize_with = "crate::serialize_name::status")]
        #[schemars(with = "String")]
        status: Status,
        /// the checkpoint that it leaves
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<String>,
        /// who ended it, if somebody did
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

/// A tool that a model calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CalledTool {
    /// the position of the call in the turn, counted from 0
    pub tool_call: u32,
    /// the name of the tool
    pub tool: String,
    /// the id that the model's provider gave to the call
    pub id: String,
}

/// Returns the JSON Schema of an [`EventLine`].
pub fn json_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    SchemaGenerator::new(settings)
        .into_root_schema_for::<EventLine>()
        .to_value()
}

fn serialize_time<S: Serializer>(time_ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(*time_ms))
}

fn serialize_source<S: Serializer>(
    source: &AnswerSource,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(source.name())
}

#[cfg(test)]
mod tests;
