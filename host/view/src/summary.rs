//! The summary of a saved state: what the run is, what each role does, what was spent, what waits,
//! and how to continue.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use strata_base::text::excerpt::excerpt;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::id::CheckpointId;
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::work::{ActivationKey, Work};
use strata_core::state::messages::MessageRef;
use strata_storage::StateSelector;

use super::{
    ActionSubject, CommandArgument, Continuation, DoubtView, FileChangeView, HolderState, JoinView,
    OpenRequests, RoleActivity, RunOutput, SuggestedCommand,
};
use crate::saved_team::SavedTeam;

/// The maximum number of characters of a message. `inspect --message` shows all of it.
const MESSAGE_CHARS: usize = 400;

/// The summary of a saved state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The id of the run.
    pub run: String,
    /// The name of the team.
    pub team: String,
    /// The idea with which it was started.
    pub idea: String,
    /// The recorded status.
    #[serde(serialize_with = "strata_driver::serialize_name::status")]
    pub status: Status,
    /// Which process works on the state.
    pub holder: HolderState,
    /// Whether the run was cut off: it is saved as running, and no process works on it.
    pub is_cut_off: bool,
    /// Whether no role has mail or an activation, and no join holds a message.
    pub is_drained: bool,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// Whether the step is open.
    pub is_step_open: bool,
    /// The newest checkpoint.
    pub checkpoint: Option<String>,
    /// The name of the lineage.
    pub lineage: String,
    /// The cost of the run.
    pub cost: RunCost,
    /// How many messages were published.
    pub published_messages: usize,
    /// The command that shows a message completely.
    pub message_command: SuggestedCommand,
    /// The newest output of the team.
    pub output: Option<RunOutput>,
    /// The roles.
    pub roles: Vec<RoleSummary>,
    /// The open faults, except for interruptions.
    pub faults: Vec<OpenFault>,
    /// The command that shows the action of the first fault.
    pub fault_command: Option<SuggestedCommand>,
    /// The writes that are in doubt or, if the run was cut off, that will be when it is resumed.
    pub in_doubt: Vec<DoubtView>,
    /// The joins.
    pub joins: Vec<JoinView>,
    /// The requests that wait for a person.
    pub requests: OpenRequests,
    /// The files that actions wrote or removed.
    pub files: Vec<FileChangeView>,
    /// The messages that roles have not finished with.
    pub mail: Vec<MailView>,
    /// The messages to names that the team does not have.
    pub dead_letters: Vec<MailView>,
    /// The messages to the external program that were not handed over yet.
    pub outbox: Vec<OutboundMail>,
    /// The commands that continue the run.
    pub resume_commands: Vec<SuggestedCommand>,
}

/// What a run cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunCost {
    /// The money that was spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The part of that which is an estimate, because the answers to these calls were lost.
    #[serde(serialize_with = "super::serialize_usd")]
    pub lost: Usd,
    /// The money that may be spent; `None` if there is no limit.
    #[serde(serialize_with = "super::serialize_optional_usd")]
    pub budget: Option<Usd>,
    /// The tokens that were used.
    pub tokens: u64,
    /// The tokens that may be used; `None` if there is no limit.
    pub max_tokens: Option<u64>,
    /// What each action cost, in the order of the roles.
    pub actions: Vec<ActionCost>,
}

/// What an action cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ActionCost {
    /// The action: `ROLE.ACTION`, or `ROLE.think`.
    pub action: String,
    /// The money that was spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The part of that which is an estimate, because the answers to these calls were lost.
    #[serde(serialize_with = "super::serialize_usd")]
    pub lost: Usd,
    /// The tokens of language models.
    pub tokens: u64,
    /// The number of host calls that were made.
    pub calls: u64,
    /// The number of host calls that were served from the journal instead.
    pub served: u64,
    /// What the served calls had cost when they were made, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub saved: Usd,
    /// The number of truncated replies of language models.
    pub truncated: u64,
    /// The number of replies of language models that were refused or filtered.
    pub refused: u64,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleSummary {
    /// The name.
    pub role: String,
    /// How many messages it has not finished with.
    pub mail: usize,
    /// How many messages it remembers.
    pub memory: usize,
    /// The money that it spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// What it is doing; `None` if it is idle.
    pub activity: Option<RoleActivity>,
    /// The newest message that it sent.
    pub last_message: Option<MailView>,
}

/// A fault that is still open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpenFault {
    /// The name of the role.
    pub role: String,
    /// The call that failed, and what has become of it.
    pub activity: Option<RoleActivity>,
    /// How it failed.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_kind")]
    pub kind: FaultKind,
    /// Why it failed, as far as the host knows.
    #[serde(serialize_with = "strata_driver::serialize_name::fault_cause")]
    pub cause: FaultCause,
    /// What was attempted and why it failed.
    pub message: String,
}

/// A message in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MailView {
    /// The id.
    pub id: String,
    /// The name of the sender; empty for a message from outside.
    pub from: String,
    /// The name of the recipient in whose list it is.
    pub to: String,
    /// The label.
    pub label: String,
    /// The beginning of the content, on one line.
    pub content: String,
}

/// A message to the external program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutboundMail {
    /// The id.
    pub id: String,
    /// The names outside the team to which it goes.
    pub to: Vec<String>,
    /// The beginning of the content, on one line.
    pub content: String,
    /// Why it could not be handed over; `None` if that was not tried yet.
    pub failure: Option<String>,
}

impl RunSummary {
    /// Returns the summary of the state that was saved at `path` and selected by `at`.
    pub fn from_saved(
        saved: &SavedTeam,
        path: &Path,
        at: &StateSelector,
        holder: HolderState,
        continuation: Continuation,
    ) -> Self {
        let stepper = &saved.stepper;
        let env = stepper.env();
        let is_cut_off = holder.is_cut_off(stepper);
        Self {
            run: env.run.0.clone(),
            team: stepper.team().name.clone(),
            idea: env.idea.clone(),
            status: env.status,
            holder,
            is_cut_off,
            is_drained: env.is_drained(),
            step: env.step,
            is_step_open: env.is_step_open,
            checkpoint: env.checkpoint.as_ref().map(|id| id.0.clone()),
            lineage: env.lineage.name.clone(),
            cost: RunCost::from_stepper(stepper),
            published_messages: env.history.len(),
            message_command: message_command(path, at),
            output: RunOutput::from_stepper(stepper),
            roles: RoleSummary::all(stepper, is_cut_off),
            faults: OpenFault::all(stepper, is_cut_off),
            fault_command: fault_command(stepper, path, at),
            in_doubt: holder.writes_in_doubt(stepper),
            joins: JoinView::all(stepper),
            requests: OpenRequests::from_stepper(stepper, path),
            files: FileChangeView::all(stepper),
            mail: unfinished_mail(stepper),
            dead_letters: dead_letters(stepper),
            outbox: outbox(stepper),
            resume_commands: holder.resume_commands(saved, path, continuation),
        }
    }
}

impl RunCost {
    /// Returns what a run cost.
    pub fn from_stepper(stepper: &Stepper) -> Self {
        let (team, env) = (stepper.team(), stepper.env());
        let mut actions = Vec::new();
        for (slot, used) in &env.ledger {
            actions.push(ActionCost {
                action: team.slot_name(*slot),
                spent: used.usd,
                lost: used.lost,
                tokens: used.tokens,
                calls: used.calls,
                served: used.served,
                saved: used.saved,
                truncated: used.truncated,
                refused: used.refused,
            });
        }
        let used = env.spending(|_| true);
        Self {
            spent: env.spent,
            lost: used.lost,
            budget: env.budget,
            tokens: used.tokens,
            max_tokens: team.policy.scoped_budgets.tokens,
            actions,
        }
    }
}

impl RoleSummary {
    fn all(stepper: &Stepper, is_cut_off: bool) -> Vec<Self> {
        let (team, env) = (stepper.team(), stepper.env());
        let newest = newest_messages(stepper);
        let mut roles = Vec::new();
        for id in team.role_ids() {
            let name = &team.role(id).name;
            roles.push(Self {
                role: name.clone(),
                mail: env.unfinished_mail(id).count(),
                memory: env.memory(ActivationKey::of_mail(id)).count(),
                spent: env.spending(|slot| slot.role == id).usd,
                activity: RoleActivity::from_role(stepper, id, is_cut_off),
                last_message: newest
                    .get(name.as_str())
                    .map(|message| MailView::new(message, String::new())),
            });
        }
        roles
    }
}

impl OpenFault {
    fn all(stepper: &Stepper, is_cut_off: bool) -> Vec<Self> {
        let mut faults = Vec::new();
        for (call, _, fault) in stepper.env().open_faults(stepper.team()) {
            // An interruption is not a fault of the role that was working.
            if fault.kind != FaultKind::Interrupted {
                faults.push(Self {
                    role: stepper.team().role(call.role).name.clone(),
                    activity: RoleActivity::from_call(stepper, call, is_cut_off),
                    kind: fault.kind,
                    cause: fault.cause,
                    message: fault.message.clone(),
                });
            }
        }
        faults
    }
}

impl MailView {
    fn new(message: &Message, to: String) -> Self {
        Self {
            id: message.id.0.clone(),
            from: message.sent_from.clone(),
            to,
            label: message.cause_by.clone(),
            content: excerpt(&message.content, MESSAGE_CHARS),
        }
    }

    fn from_ref(stepper: &Stepper, message: MessageRef, to: &str) -> Self {
        Self::new(stepper.env().message(message), to.to_owned())
    }
}

/// Returns the command that shows this state.
fn inspect_command(path: &Path, at: &StateSelector) -> SuggestedCommand {
    let at = match at {
        StateSelector::Head => String::new(),
        StateSelector::Checkpoint(CheckpointId(id)) | StateSelector::Lineage(id) => {
            format!("@{id}")
        }
    };
    let path = PathBuf::from(format!("{}{at}", path.display()));
    SuggestedCommand::from_subcommand("inspect", [CommandArgument::Path(path)])
}

/// Returns the command that shows a message of this state.
fn message_command(path: &Path, at: &StateSelector) -> SuggestedCommand {
    inspect_command(path, at).with([
        CommandArgument::word("--message"),
        CommandArgument::placeholder("ID"),
    ])
}

/// Returns the command that shows the first action with a fault. A person who plays a role has no
/// action.
fn fault_command(stepper: &Stepper, path: &Path, at: &StateSelector) -> Option<SuggestedCommand> {
    for (call, _, fault) in stepper.env().open_faults(stepper.team()) {
        if call.work != Work::Answer && fault.kind != FaultKind::Interrupted {
            let name = ActionSubject::from_call(stepper, call).name(stepper.team());
            return Some(inspect_command(path, at).with([
                CommandArgument::word("--action"),
                CommandArgument::word(&name),
            ]));
        }
    }
    None
}

/// Returns the newest message of each role that has sent one. The search ends once each role has
/// one.
fn newest_messages(stepper: &Stepper) -> BTreeMap<&str, &Message> {
    let roles = &stepper.team().roles;
    let mut left: BTreeSet<&str> = roles.iter().map(|role| role.name.as_str()).collect();
    let mut messages = stepper.env().messages.iter().rev();
    let mut newest = BTreeMap::new();
    while !left.is_empty()
        && let Some(message) = messages.next()
    {
        if left.remove(message.sent_from.as_str()) {
            newest.insert(message.sent_from.as_str(), &**message);
        }
    }
    newest
}

fn unfinished_mail(stepper: &Stepper) -> Vec<MailView> {
    let (team, env) = (stepper.team(), stepper.env());
    let mut mail = Vec::new();
    for id in team.role_ids() {
        for message in env.unfinished_mail(id) {
            mail.push(MailView::from_ref(stepper, message, &team.role(id).name));
        }
    }
    mail
}

fn dead_letters(stepper: &Stepper) -> Vec<MailView> {
    let letters = stepper.env().dead_letters.iter();
    letters
        .map(|letter| MailView::from_ref(stepper, letter.message, &letter.to))
        .collect()
}

fn outbox(stepper: &Stepper) -> Vec<OutboundMail> {
    let env = stepper.env();
    let mut outbox = Vec::new();
    for outbound in &env.outbox {
        let message = env.message(outbound.message);
        outbox.push(OutboundMail {
            id: message.id.0.clone(),
            to: outbound.to.clone(),
            content: excerpt(&message.content, MESSAGE_CHARS),
            failure: outbound.failed.clone(),
        });
    }
    outbox
}

#[cfg(test)]
mod tests {
    use strata_core::record::fault::Fault;
    use strata_storage::SavedDefinition;

    use super::*;
    use crate::tests::fixture::{FixtureAttempt, RunFixture};
    use crate::{WorkKind, WorkState};

    #[test]
    fn a_summary_has_the_roles_the_cost_the_faults_and_how_to_continue() {
        let mut roles = String::new();
        for name in ["A", "B"] {
            roles += &format!(
                "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n\
                 [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n"
            );
        }
        let run = RunFixture::new(&roles, |role, _| match role {
            "A" => FixtureAttempt::Return("hello\nworld"),
            _ => FixtureAttempt::Fail(Fault::new(FaultKind::Trap, "boom")),
        });
        let saved = SavedTeam {
            stepper: run.stepper,
            definition: SavedDefinition {
                name: "team.toml".into(),
                base: "/absent".into(),
                text: "text".into(),
                components: Default::default(),
            },
        };
        let at = StateSelector::Head;
        let by = |continuation| {
            let store = Path::new("store");
            RunSummary::from_saved(&saved, store, &at, HolderState::Free, continuation)
        };
        let in_queue = serde_json::to_value(by(Continuation::Workers)).expect("JSON");
        assert_eq!(
            in_queue["resume_commands"][0]["arguments"],
            serde_json::json!([{ "kind": "word", "value": "resume" }, { "kind": "path", "value": "store" }])
        );
        assert!(by(Continuation::Itself).resume_commands.is_empty());
        let summary = by(Continuation::OwnProcess);
        assert_eq!(summary.status, Status::Failed);
        assert_eq!((summary.is_cut_off, summary.is_step_open), (false, true));
        assert_eq!(
            summary.roles[1].activity,
            Some(RoleActivity::Working {
                work: WorkKind::Action,
                index: Some(0),
                action: "One".into(),
                state: WorkState::Failed,
                attempts: 1,
            })
        );
        assert_eq!(summary.faults[0].message, "boom");
        let json = serde_json::to_value(&summary).expect("JSON");
        assert_eq!(json["cost"]["spent"], 0.0);
        assert_eq!(json["holder"]["kind"], "free");
        assert_eq!(
            json["fault_command"]["arguments"][3],
            serde_json::json!({ "kind": "word", "value": "B.One" })
        );
        assert_eq!(
            json["resume_commands"][0]["arguments"],
            serde_json::json!([
                { "kind": "word", "value": "run" }, { "kind": "word", "value": "--recover_path" },
                { "kind": "path", "value": "store" },
            ])
        );
    }
}
