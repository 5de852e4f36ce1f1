//! A report: a saved run for people to look at, as one page.
//!
//! Here is what a report says. It is gathered from a state and the events that led to it (`gather`, `state`); how much
//! of a huge run it keeps is in `room`; what it looks like is in `html`. Reading the storage is `launch::report`'s.

mod fit;
mod gather;
pub mod html;
mod room;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use strata_core::money::Usd;

use crate::store::{CheckpointRow, LineageRow};

pub use gather::Gathering;
pub use room::{Kept, Text};

/// All that is said of a run.
#[derive(Debug)]
pub struct Report {
    /// The team and how its run stands.
    pub facts: Facts,
    /// The newest output that a role published.
    pub result: Option<Output>,
    /// The team as a picture in SVG, or why there is none.
    pub picture: Result<String, String>,
    /// The names of the roles, in the order of the team.
    pub roles: Vec<String>,
    /// The steps, oldest first.
    pub steps: Kept<Step>,
    /// What roles did, in the order in which they ended it.
    pub attempts: Kept<Attempt>,
    /// How all of them ended.
    pub outcomes: Outcomes,
    /// What happened to the run as a whole.
    pub marks: Kept<Mark>,
    /// The messages, in the order in which they were made.
    pub messages: Kept<Message>,
    /// What attempts asked of the world.
    pub calls: Kept<Call>,
    /// What people were asked.
    pub questions: Kept<Question>,
    /// What was spent, by role and action.
    pub spending: Vec<Spending>,
    /// What was spent on each model.
    pub models: BTreeMap<String, ModelSpending>,
    /// What went wrong.
    pub faults: Kept<Fault>,
    /// The states at checkpoints, oldest first; the last is the one that is reported.
    pub states: Kept<State>,
    /// What the storage holds beside.
    pub beside: Beside,
    /// How many texts were shortened because the page would have become too large.
    pub shortened: usize,
}

/// The team and how its run stands.
#[derive(Debug)]
pub struct Facts {
    /// The team's name.
    pub team: String,
    /// The run's name.
    pub run: String,
    /// The idea.
    pub idea: Text,
    /// The status, as in events.
    pub status: &'static str,
    /// The open or next step.
    pub step: u64,
    /// The lineage.
    pub lineage: String,
    /// The newest checkpoint.
    pub checkpoint: Option<String>,
    /// What was spent.
    pub spent: Usd,
    /// What may be spent.
    pub budget: Option<Usd>,
    /// When the first and the last of what is told were recorded.
    pub span_ms: Option<(i64, i64)>,
    /// Why it does not go on by itself, in a line for each reason.
    pub troubles: Vec<Text>,
}

/// What a role published.
#[derive(Clone, Debug)]
pub struct Output {
    /// The id of the message.
    pub id: String,
    /// The role.
    pub from: String,
    /// The label.
    pub cause: String,
    /// The text.
    pub text: Text,
    /// Structured content.
    pub data: Option<Text>,
}

/// What the storage holds beside the state and its events.
#[derive(Debug, Default)]
pub struct Beside {
    /// Its path, as the operator gave it.
    pub path: String,
    /// All checkpoints of all lineages.
    pub checkpoints: Vec<CheckpointRow>,
    /// The lineages.
    pub lineages: Vec<LineageRow>,
    /// How many of the events before the first one that is told were pruned.
    pub pruned: u64,
    /// Whether there were events at all: a `team.json` alone has none.
    pub events: bool,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number.
    pub number: u64,
    /// The event that began it, counted from the first that is told.
    pub at: u64,
    /// When it began.
    pub began_ms: i64,
    /// When it was committed, and the checkpoint afterwards.
    pub committed: Option<(i64, String)>,
    /// How many messages it sent.
    pub sent: usize,
}

impl Step {
    /// Whether the beginning of the step with this number begins another than this.
    fn is_over(&self, number: u64) -> bool {
        self.number != number || self.committed.is_some()
    }
}

/// One thing a role did: an attempt, or a person's answer.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What the page calls it.
    pub id: u64,
    /// The step.
    pub step: u64,
    /// The step in which the role took the mail that it is about: earlier than `step` after a fault.
    pub opened: u64,
    /// The role, by its place.
    pub role: usize,
    /// Its name.
    pub who: String,
    /// The action's name, `think` or `answer`.
    pub action: String,
    /// The action's index; none for what is no action.
    pub index: Option<u16>,
    /// Counts from 1.
    pub number: u32,
    /// The events that began and ended it, counted from the first that is told.
    pub events: (u64, u64),
    /// When it began and ended.
    pub span_ms: (i64, i64),
    /// How it ended.
    pub end: End,
    /// The component.
    pub digest: Option<String>,
    /// What it returned, or why it failed.
    pub said: Text,
    /// What it cost.
    pub cost: Usd,
    /// How many calls it made, and how many it was served from the journal.
    pub calls: (u32, u32),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// It succeeded.
    Finished,
    /// It failed.
    Failed,
    /// The operator stopped it.
    Interrupted,
    /// The host was killed.
    Killed,
    /// There was no money to go on.
    Suspended,
    /// It asked a person; another attempt goes on with the answer.
    Asked,
    /// It is under way.
    Open,
}

/// Something that happened to the run as a whole.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The event, counted from the first that is told.
    pub at: u64,
    /// When.
    pub time_ms: i64,
    /// What.
    pub kind: MarkKind,
    /// What is to be said of it.
    pub text: String,
}

/// What happened to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// It was started or resumed.
    Began,
    /// It stopped in good order.
    Stopped,
    /// It stopped because of a fault, or was killed.
    Broke,
    /// Something changed between runs: a component, the lineage.
    Changed,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// Who sent it; empty for what comes from outside.
    pub from: String,
    /// Its label.
    pub cause: String,
    /// The roles and joins that it went to; none for what its sender only remembers.
    pub to: Option<Vec<String>>,
    /// Who did not get it, and why.
    pub lost: Vec<String>,
    /// When it was sent, and after which step.
    pub sent: Option<(i64, u64)>,
    /// The text.
    pub text: Text,
    /// Structured content.
    pub data: Option<Text>,
}

/// A host call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The attempt, as the page calls it.
    pub attempt: u64,
    /// Whose, for people.
    pub who: String,
    /// When.
    pub time_ms: i64,
    /// What was called.
    pub kind: &'static str,
    /// Whether the answer was recorded before.
    pub recorded: bool,
    /// What became of it.
    pub outcome: &'static str,
    /// What was asked.
    pub asked: Text,
    /// The digest of the request.
    pub request: String,
    /// The answer.
    pub answer: Text,
    /// What it cost when it was made.
    pub cost: Usd,
    /// The tokens it used when it was made.
    pub tokens: u64,
}

/// What somebody was asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its id.
    pub id: String,
    /// Who asks.
    pub role: String,
    /// What is asked.
    pub text: Text,
    /// When.
    pub time_ms: i64,
    /// Who answered, what, and when.
    pub answer: Option<(&'static str, Text, i64)>,
}

/// What an action used up.
#[derive(Clone, Debug)]
pub struct Spending {
    /// The role's name.
    pub role: String,
    /// The action's, or `think`.
    pub action: String,
    /// How much.
    pub used: strata_core::budget::Spending,
}

/// What was used up on a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSpending {
    /// Calls that were made.
    pub calls: u64,
    /// Their tokens.
    pub tokens: u64,
    /// What they cost.
    pub usd: Usd,
    /// Calls that were served from the journal.
    pub served: u64,
    /// What those had cost.
    pub saved: Usd,
}

/// A fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The attempt, as the page calls it.
    pub attempt: u64,
    /// The step.
    pub step: u64,
    /// The step in which the role took the mail that it is about.
    pub opened: u64,
    /// The role, by its place.
    pub role: usize,
    /// Its name.
    pub who: String,
    /// The action's name, or `think`.
    pub action: String,
    /// The attempt; counts from 1.
    pub number: u32,
    /// Its kind, as in events.
    pub kind: &'static str,
    /// Its cause, as in events.
    pub cause: &'static str,
    /// When.
    pub time_ms: i64,
    /// Why.
    pub message: Text,
    /// The guest's stack, innermost frame first.
    pub backtrace: Vec<Text>,
    /// What the guest said last, on its log and its standard streams.
    pub log: Vec<Text>,
    /// The component.
    pub digest: Option<String>,
    /// The attempt that succeeded later, where one did.
    pub mended: Option<u32>,
}

/// How attempts ended. Others were stopped, or wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// How many returned something.
    pub finished: usize,
    /// How many failed.
    pub failed: usize,
}

/// A saved state.
#[derive(Clone, Debug)]
pub struct State {
    /// Its checkpoint; what is newer than the newest one has none.
    pub checkpoint: Option<String>,
    /// The lineage.
    pub lineage: String,
    /// The open or next step.
    pub step: u64,
    /// How the run stood.
    pub status: &'static str,
    /// When it was made, where that is known.
    pub time_ms: Option<i64>,
    /// What was spent.
    pub spent: Usd,
    /// How many messages there were.
    pub messages: usize,
    /// The roles that have something to show.
    pub roles: Vec<RoleState>,
    /// How many others there are.
    pub others: usize,
    /// Whether those have neither mail nor work nor state.
    pub silent: bool,
    /// The shared scopes: scope, key, value.
    pub shared: Vec<(String, String, Text)>,
    /// The joins in which something waits, with what.
    pub joins: Vec<(String, Vec<String>)>,
}

/// A role in a saved state.
#[derive(Clone, Debug)]
pub struct RoleState {
    /// Its name.
    pub name: String,
    /// What it is at.
    pub at: String,
    /// What it was told and has not finished with: who sent it, the label, the text.
    pub mail: Vec<(String, String, Text)>,
    /// How much of that is not shown.
    pub more_mail: usize,
    /// How many messages it remembers.
    pub memory: usize,
    /// Its own state.
    pub scope: Vec<(String, Text)>,
}
