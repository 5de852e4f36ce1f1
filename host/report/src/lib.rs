//! Reports: a saved run, rendered as one HTML page for people to read.
//!
//! This file holds the data of a report. It is gathered from a state and the events recorded after
//! it (`gather`, `state`). How much of a very large run is kept is decided in `room` and `fit`; the
//! page itself is written in `html`. A team alone is drawn by [`graph`].
//!
//! ```
//! use strata_manifest::Definition;
//! use strata_report::graph::{Graph, RenderFormat};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! schema = "strata.team/1"
//! [team]
//! name = "greeters"
//! [[role]]
//! name = "Greeter"
//! watch = ["UserRequirement"]
//! [[role.action]]
//! name = "Greet"
//! component = "greet.wasm"
//! "#;
//! let team = Definition::parse_without_files(text, "team.toml", "/teams".as_ref())?;
//! let graph = Graph::from_team(&team.team, &team.tool_roles)?;
//! assert!(graph.render(RenderFormat::Mermaid)?.contains("Greeter"));
//! # Ok(())
//! # }
//! ```
//!
//! This crate renders what it is given: whoever opened the storage hands over its states and events. A page refers to
//! no other file and no server, and everything that a guest wrote is escaped.

mod bounded;
mod conversation;
mod gather;
pub mod graph;
pub mod html;
mod images;
mod shorten;
mod standing;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use strata_core::record::event::Status;
use strata_core::record::money::Usd;
use strata_core::record::work::CallKey;
use strata_storage::{CheckpointRow, LineageRow};

use strata_view::JoinView;

pub use bounded::{Excerpt, FirstAndNewest};
pub use conversation::{
    ConversationEntry, NestedCallEntry, ReplacementEntry, ToolCallEntry, ToolCallEntryOutcome,
    TurnEntry,
};
pub use gather::ReportBuilder;
pub use images::{EmbeddedImage, MessagePart};
pub use standing::{RunContext, Standing};

/// Everything that a report says about a run.
#[derive(Debug)]
pub struct Report {
    /// The team, and the status of its run.
    pub overview: RunOverview,
    /// What keeps the run from going on, and the commands that continue it. `None` if the reported
    /// state is an earlier one.
    pub standing: Option<Standing>,
    /// The newest output that a role published.
    pub result: Option<PublishedOutput>,
    /// The team's graph as SVG, or the reason why it could not be drawn.
    pub picture: Result<String, String>,
    /// The names of the roles, in the team's order.
    pub roles: Vec<String>,
    /// The steps, oldest first.
    pub steps: FirstAndNewest<StepEntry>,
    /// The attempts, in the order in which they ended.
    pub attempts: FirstAndNewest<AttemptEntry>,
    /// How many of all attempts succeeded and failed.
    pub outcomes: Outcomes,
    /// What happened to the run as a whole: starts, resumes, stops, changed components.
    pub markers: FirstAndNewest<RunMarker>,
    /// The messages, in the order in which they were created.
    pub messages: FirstAndNewest<MessageEntry>,
    /// The host calls of the attempts.
    pub calls: FirstAndNewest<HostCallEntry>,
    /// The conversations of roles whose model works with tools, in the order in which they ended.
    pub conversations: FirstAndNewest<ConversationEntry>,
    /// The requests to humans.
    pub human_requests: FirstAndNewest<HumanRequestEntry>,
    /// Spending by role and action.
    pub spending: Vec<ActionSpending>,
    /// Spending by model.
    pub models: BTreeMap<String, ModelSpending>,
    /// The faults.
    pub faults: FirstAndNewest<FaultEntry>,
    /// The states at checkpoints, oldest first. The last one is the reported state.
    pub states: FirstAndNewest<StateEntry>,
    /// What the storage holds in addition to the state and the events.
    pub storage: StorageOverview,
    /// How many texts were shortened to keep the page below its size limit.
    pub shortened: usize,
}

impl Report {
    /// Returns the part of what was spent that is an estimate, because the answers were lost.
    fn lost(&self) -> Usd {
        self.spending.iter().map(|row| row.used.lost).sum()
    }
}

/// The team, and the status of its run.
#[derive(Debug)]
pub struct RunOverview {
    /// The team's name.
    pub team: String,
    /// The run's id.
    pub run: String,
    /// The idea that the team was started with.
    pub idea: Excerpt,
    /// The run's status.
    pub status: Status,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// The name of the lineage.
    pub lineage: String,
    /// The newest checkpoint.
    pub checkpoint: Option<String>,
    /// The money that was spent.
    pub spent: Usd,
    /// The budget; `None` if there is no limit.
    pub budget: Option<Usd>,
    /// When the first and the last of the reported events were recorded, in milliseconds since the
    /// epoch.
    pub span_ms: Option<(i64, i64)>,
}

/// A message that a role published as the team's output.
#[derive(Clone, Debug)]
pub struct PublishedOutput {
    /// The id of the message.
    pub id: String,
    /// The name of the role that sent it.
    pub from: String,
    /// The message's label (`cause_by`).
    pub cause: String,
    /// The content.
    pub text: Excerpt,
    /// The structured content.
    pub data: Option<Excerpt>,
}

/// What the storage holds in addition to the state and its events.
#[derive(Debug, Default)]
pub struct StorageOverview {
    /// The path of the storage, as the operator wrote it.
    pub path: String,
    /// All checkpoints of all lineages.
    pub checkpoints: Vec<CheckpointRow>,
    /// All lineages.
    pub lineages: Vec<LineageRow>,
    /// How many events that precede the first reported one were pruned.
    pub pruned_events: u64,
    /// Whether the storage has events; a `team.json` alone has none.
    pub has_events: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub struct StepEntry {
    /// The step's number.
    pub number: u64,
    /// The event that started the step, counted from the first reported event.
    pub start_event: u64,
    /// When it started, in milliseconds since the epoch.
    pub started_ms: i64,
    /// When it was committed, in milliseconds since the epoch, and the checkpoint that the commit
    /// created.
    pub committed: Option<(i64, String)>,
    /// How many messages it sent.
    pub sent_messages: usize,
}

impl StepEntry {
    /// Returns whether a start of step `number` begins a new entry. It does not if this step was
    /// interrupted and continues under the same number.
    fn is_followed_by(&self, number: u64) -> bool {
        self.number != number || self.committed.is_some()
    }
}

/// One attempt of a role at an action, or the answer of a human who plays a role.
#[derive(Clone, Debug)]
pub struct AttemptEntry {
    /// Identifies the attempt within the page.
    pub id: u64,
    /// The call that was attempted.
    pub call: CallKey,
    /// The step in which the attempt was made.
    pub step: u64,
    /// The step in which the role took the messages that it works on. It is less than `step` if the
    /// role continues after a fault.
    pub opened_step: u64,
    /// The role's index in the team.
    pub role: usize,
    /// The role's name.
    pub role_name: String,
    /// The action's name, or `think` or `answer`.
    pub action: String,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The events that started and ended the attempt, counted from the first reported event.
    pub events: (u64, u64),
    /// When it started and ended, in milliseconds since the epoch.
    pub span_ms: (i64, i64),
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// The digest of the component.
    pub digest: Option<String>,
    /// The result, or the reason for the failure.
    pub text: Excerpt,
    /// The id of the message that its result became.
    pub message: Option<String>,
    /// The cost of its host calls.
    pub cost: Usd,
    /// The last lines that it logged, if it succeeded.
    pub log: Excerpt,
    /// How many lines it logged before these.
    pub log_left_out: u64,
    /// The paths that it looked for and may not see.
    pub denied_lookups: Vec<String>,
    /// The skill whose text it gave to the model; empty if it gave none.
    pub loaded_skill: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttemptOutcome {
    /// It succeeded.
    Finished,
    /// It failed.
    Failed,
    /// The operator stopped it.
    Interrupted,
    /// The host was killed.
    Killed,
    /// The budget was exhausted.
    Suspended,
    /// It asked a human; a later attempt continues with the answer.
    AskedHuman,
    /// It has not ended.
    Running,
}

/// Something that happened to the run as a whole.
#[derive(Clone, Debug)]
pub struct RunMarker {
    /// The event, counted from the first reported event.
    pub event: u64,
    /// When it happened, in milliseconds since the epoch.
    pub time_ms: i64,
    /// What happened.
    pub kind: RunMarkerKind,
    /// The text to show.
    pub text: String,
}

/// What happened to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMarkerKind {
    /// It was started or resumed.
    Started,
    /// It stopped regularly.
    Stopped,
    /// It failed or was killed, or a message could not be handed over.
    Failed,
    /// Something else changed: a component, the lineage, the verdict on a write in doubt.
    Changed,
}

/// A message.
#[derive(Clone, Debug)]
pub struct MessageEntry {
    /// The message's id.
    pub id: String,
    /// The name of the sender; empty for messages from outside the team.
    pub from: String,
    /// The message's label (`cause_by`).
    pub cause: String,
    /// The roles and joins that received it; `None` for a message that only its sender remembers.
    pub to: Option<Vec<String>>,
    /// Recipients that did not receive it, with reasons.
    pub undelivered: Vec<String>,
    /// The event that sent it, counted from the first reported event; `None` if that is not among
    /// the reported events.
    pub event: Option<u64>,
    /// The content.
    pub text: Excerpt,
    /// The structured content.
    pub data: Option<Excerpt>,
    /// Its images, files and further texts.
    pub parts: Vec<MessagePart>,
}

/// A host call.
#[derive(Clone, Debug)]
pub struct HostCallEntry {
    /// The `id` of the attempt that made it.
    pub attempt: u64,
    /// When it returned, in milliseconds since the epoch.
    pub time_ms: i64,
    /// The kind of call.
    pub kind: &'static str,
    /// Whether the response was served from the journal.
    pub recorded: bool,
    /// The outcome, spelled as in public events.
    pub outcome: &'static str,
    /// A summary of the request.
    pub request_summary: Excerpt,
    /// The digest of the request.
    pub request_digest: String,
    /// The response.
    pub response: Excerpt,
    /// Its cost at the time when it was made.
    pub cost: Usd,
    /// The tokens it used at the time when it was made.
    pub tokens: u64,
}

/// A request to a human.
#[derive(Clone, Debug)]
pub struct HumanRequestEntry {
    /// The request's id.
    pub id: String,
    /// The name of the role that asks.
    pub role: String,
    /// The call that asks.
    pub call: CallKey,
    /// The name of the tool, if a tool call asks or is to be approved.
    pub tool: Option<String>,
    /// The question.
    pub text: Excerpt,
    /// The event that asked, counted from the first reported event.
    pub event: u64,
    /// When it was asked, in milliseconds since the epoch.
    pub time_ms: i64,
    /// The answer, if there is one.
    pub answer: Option<HumanAnswerEntry>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct HumanAnswerEntry {
    /// Who gave it.
    pub by: String,
    /// The answer.
    pub text: Excerpt,
    /// The event, counted from the first reported event.
    pub event: u64,
    /// When it was given, in milliseconds since the epoch.
    pub time_ms: i64,
}

/// What an action spent.
#[derive(Clone, Debug)]
pub struct ActionSpending {
    /// The role's name.
    pub role: String,
    /// The action's name, or `think`.
    pub action: String,
    /// What it spent.
    pub used: strata_core::record::spending::Spending,
}

/// What was spent on a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSpending {
    /// How many calls were made.
    pub calls: u64,
    /// The tokens of these calls.
    pub tokens: u64,
    /// The cost of these calls.
    pub usd: Usd,
    /// How many calls were served from the journal.
    pub served: u64,
    /// What the served calls had cost when they were made.
    pub saved: Usd,
}

/// A fault.
#[derive(Clone, Debug)]
pub struct FaultEntry {
    /// The `id` of the attempt that failed.
    pub attempt: u64,
    /// The call that was attempted.
    pub call: CallKey,
    /// The step in which the role took the messages that it works on.
    pub opened_step: u64,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The kind of fault, spelled as in public events.
    pub kind: &'static str,
    /// The cause, spelled as in public events.
    pub cause: &'static str,
    /// The fault's message.
    pub message: Excerpt,
    /// The guest's stack, innermost frame first.
    pub backtrace: Vec<Excerpt>,
    /// The last lines that the guest wrote to its log and its standard streams.
    pub log: Vec<Excerpt>,
    /// The digest of the component.
    pub digest: Option<String>,
    /// The number of the later attempt that succeeded, if there is one.
    pub fixed_by: Option<u32>,
}

/// How many attempts ended in success and failure. Attempts that were stopped or that wait are not
/// included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// How many succeeded.
    pub finished: usize,
    /// How many failed.
    pub failed: usize,
}

/// A saved state.
#[derive(Clone, Debug)]
pub struct StateEntry {
    /// The state's checkpoint; `None` for a state that is newer than the newest checkpoint.
    pub checkpoint: Option<String>,
    /// The name of the lineage.
    pub lineage: String,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// The run's status in this state, spelled as in public events.
    pub status: &'static str,
    /// When the state was reached, in milliseconds since the epoch, if that is known.
    pub time_ms: Option<i64>,
    /// The money that was spent.
    pub spent: Usd,
    /// How many messages there were.
    pub messages: usize,
    /// The roles that have messages, an activation or values.
    pub roles: Vec<RoleStateEntry>,
    /// How many roles are not in `roles`.
    pub hidden_roles: usize,
    /// Whether all of the other roles have neither messages nor an activation nor values.
    pub hidden_roles_are_empty: bool,
    /// The values of shared scopes: scope, key, value.
    pub shared_scopes: Vec<(String, String, Excerpt)>,
    /// The joins that hold messages.
    pub joins: Vec<JoinView>,
}

/// A role in a saved state.
#[derive(Clone, Debug)]
pub struct RoleStateEntry {
    /// The role's name.
    pub name: String,
    /// A description of what the role is doing.
    pub activity: String,
    /// The messages that it received and has not finished with: sender, label, content.
    pub mail: Vec<(String, String, Excerpt)>,
    /// How many further messages are not in `mail`.
    pub hidden_mail: usize,
    /// How many messages it remembers.
    pub memory: usize,
    /// The values of its own scope: key, value.
    pub scope: Vec<(String, Excerpt)>,
}
