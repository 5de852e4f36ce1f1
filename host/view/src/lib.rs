//! Views: what a person is shown about a run, as values that can be serialised. They are created
//! here from the stepper; the command line, reports and servers only render them.
//!
//! Views hold facts: names, numbers, texts as they were recorded, and commands as arguments. How
//! they are worded, shortened, coloured and quoted for a shell is decided where they are rendered.
//! Texts of guests are not sanitised here.
//!
//! ```
//! use strata_view::{CommandArgument, SuggestedCommand};
//! use strata_view::wording::shell_command;
//!
//! let command = SuggestedCommand::from_subcommand("run", [CommandArgument::placeholder("TEAM.toml")]);
//! assert_eq!(shell_command(&command), "strata-host run TEAM.toml");
//! ```
//!
//! This crate reads what it is given, and touches nothing else.

mod action;
mod activity;
mod answer_form;
mod budget;
mod checkpoint;
mod command;
mod conversation;
mod doubt;
mod ending;
mod fault;
mod files;
mod holder;
mod joins;
mod message;
mod part;
mod provenance;
mod recorded_call;
mod requests;
mod result;
mod run_row;
mod saved_team;
mod summary;
#[cfg(test)]
mod tests;
mod trial;
pub mod wording;

use std::path::Path;

use serde::{Serialize, Serializer};
use strata_core::record::host_call::CallOutcome;
use strata_core::record::host_call::Grant;
use strata_core::record::json::Json;
use strata_core::record::money::Usd;
use strata_driver::work_name::{index_and_name, index_and_name_of_call};

pub use action::{
    ActionFault, ActionLog, ActionSubject, ActionView, WorkPerformer, calls_command, last_output,
};
pub use activity::{RoleActivity, WorkKind, WorkState};
pub use answer_form::AnswerField;
pub use budget::{ExhaustedBudget, raise_budget, raise_step_limit};
pub use checkpoint::CheckpointView;
pub use command::{
    CommandArgument, Continuation, ResumeTarget, SuggestedArguments, SuggestedCommand,
    resume_arguments,
};
pub use conversation::{
    ConversationTracker, ConversationView, NestedCallView, NewsView, ReplacementView,
    ToolCallOutcome, ToolCallView, TurnView,
};
pub use doubt::{CallInDoubt, action_name_of, calls_in_doubt};
pub use ending::{
    AFTER_CHANGE, DoubtView, EndedRun, RunEnding, RunOutput, UndeliveredMessage, WITHOUT_CHANGE,
    status_at_rest,
};
pub use fault::{
    CodeSource, FailedToolCall, FaultAdvice, FaultView, HostCallView, Remedy,
    response_document_text, response_text,
};
pub use files::{FileChangeKind, FileChangeView};
pub use holder::HolderState;
pub use joins::{JoinSource, JoinView};
pub use message::{MessageView, UnknownMessage};
pub use part::{describe_media, describe_part};
pub use provenance::{ComponentOrigin, Provenance};
pub use recorded_call::RecordedCallView;
pub use requests::{OpenRequests, RequestView};
pub use result::{FaultSummary, IncompleteJoin, ResultSummary};
pub use run_row::{OwnerView, RunRow};
pub use saved_team::SavedTeam;
pub use summary::{
    ActionCost, MailView, OpenFault, OutboundMail, RoleSummary, RunCost, RunSummary,
};
pub use trial::TrialResult;

// Values are serialised under the names that the public events use for them.

fn serialize_grant<S: Serializer>(grant: &Grant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(grant.key())
}

fn serialize_outcome<S: Serializer>(
    outcome: &CallOutcome,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

/// Serialises an amount of money in US dollars.
fn serialize_usd<S: Serializer>(usd: &Usd, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(usd.to_dollars())
}

fn serialize_optional_usd<S: Serializer>(
    usd: &Option<Usd>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    usd.map(Usd::to_dollars).serialize(serializer)
}

/// Serialises a document as the value that it holds, rather than as a text.
fn serialize_json<S: Serializer>(json: &Option<Json>, serializer: S) -> Result<S::Ok, S::Error> {
    json.as_ref().map(Json::value).serialize(serializer)
}

/// Serialises a document that is always there as the value that it holds.
fn serialize_document<S: Serializer>(json: &Json, serializer: S) -> Result<S::Ok, S::Error> {
    json.value().serialize(serializer)
}

/// Serialises a path that need not be UTF-8: what is not becomes U+FFFD.
fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
