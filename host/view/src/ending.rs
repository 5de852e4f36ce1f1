//! The ending of a run: its status and result, what it spent, what keeps it from going on, and the
//! commands that continue it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::{Stepper, step_of_fault};
use strata_core::record::event::{Event, Status};
use strata_core::record::host_call::HostCallKind;
use strata_core::record::id::RoleId;
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::work::Work;
use strata_core::state::activation::Activation;

use super::{
    CommandArgument, Continuation, ExhaustedBudget, FaultAdvice, FaultView, JoinView, OpenRequests,
    ResumeTarget, SuggestedCommand, index_and_name, raise_step_limit,
};
use crate::doubt::calls_in_doubt;
use crate::provenance::Provenance;

/// What the commands of a failed run are for, as comments.
pub const AFTER_CHANGE: &str = "after changing the team file";
/// The comment of a command that continues a failed run with the team file as it is.
pub const WITHOUT_CHANGE: &str = "without changing the team file";

/// An example of a response of a web server.
const RESPONSE_EXAMPLE: &str = r#"{"status":200,"body":"…"}"#;
/// An example of a result of a tool: a text.
const RESULT_EXAMPLE: &str = r#""…""#;

/// The ending of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunEnding {
    /// The status with which it ended.
    #[serde(serialize_with = "strata_driver::serialize_name::status")]
    pub status: Status,
    /// The open step or, if none is open, the next one.
    pub step: u64,
    /// The step of the first fault; `None` if no role has failed.
    pub fault_step: Option<u64>,
    /// The money that was spent, in US dollars.
    #[serde(serialize_with = "super::serialize_usd")]
    pub spent: Usd,
    /// The part of that which is an estimate, because the answers to these calls were lost.
    #[serde(serialize_with = "super::serialize_usd")]
    pub lost: Usd,
    /// The directory where it is saved, as it was given.
    #[serde(serialize_with = "super::serialize_path")]
    pub storage: PathBuf,
    /// The result; `None` if the run is not done or published nothing.
    pub output: Option<RunOutput>,
    /// The faults that stopped roles.
    pub faults: Vec<FaultView>,
    /// The actions of the open step that are finished and are not run again: `ROLE.ACTION`.
    pub finished_actions: Vec<String>,
    /// The requests that wait for a person.
    pub requests: OpenRequests,
    /// The messages that could not be handed over to the external program.
    pub undelivered: Vec<UndeliveredMessage>,
    /// The writes of which nobody knows whether they took effect.
    pub in_doubt: Vec<DoubtView>,
    /// The budget that is exhausted.
    pub exhausted_budget: Option<ExhaustedBudget>,
    /// The joins that wait for messages.
    pub waiting_joins: Vec<JoinView>,
    /// The command that sends a stalled team what is missing.
    pub send_command: Option<SuggestedCommand>,
    /// The commands that continue the run: alternatives, the simplest one last. Empty if it is done, or goes on by
    /// itself.
    pub resume_commands: Vec<SuggestedCommand>,
}

/// A message that a role published as the output of its team.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunOutput {
    /// The id of the message.
    pub id: String,
    /// The name of the role that sent it.
    pub role: String,
    /// The content.
    pub content: String,
}

impl RunOutput {
    /// Returns the newest output of a team.
    pub fn from_stepper(stepper: &Stepper) -> Option<Self> {
        let message = stepper.env().last_output(stepper.team());
        message.map(|message| Self::from_message(message))
    }

    /// Creates the view of a message.
    pub fn from_message(message: &Message) -> Self {
        Self {
            id: message.id.0.clone(),
            role: message.sent_from.clone(),
            content: message.content.clone(),
        }
    }
}

/// A message that could not be handed over to the external program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UndeliveredMessage {
    /// The id of the message.
    pub id: String,
    /// The names outside the team to which it goes.
    pub to: Vec<String>,
    /// Why it could not be handed over.
    pub reason: String,
    /// The line of the team file that configures the external program.
    pub location: Option<String>,
}

/// A write of which nobody knows whether it took effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DoubtView {
    /// The name under which `--in-doubt` decides it.
    pub id: String,
    /// The write, for example `POST https://example.com/orders`.
    pub what: String,
    /// The kind of call, on which depends what can be given as its answer.
    #[serde(serialize_with = "strata_driver::serialize_name::host_call_kind")]
    pub kind: HostCallKind,
    /// Whether a model made the call and can be told that the result is unknown.
    pub can_be_unknown: bool,
}

impl DoubtView {
    /// Returns the writes in doubt of a run.
    pub fn all(stepper: &Stepper) -> Vec<Self> {
        let mut doubts = Vec::new();
        for doubt in calls_in_doubt(stepper) {
            doubts.push(Self {
                kind: doubt.kind,
                can_be_unknown: doubt.can_be_unknown(),
                id: doubt.id,
                what: doubt.description,
            });
        }
        doubts
    }

    /// Returns what `--in-doubt` takes for such writes.
    pub fn verdicts(doubts: &[Self]) -> &'static str {
        if doubts.iter().any(|doubt| doubt.can_be_unknown) {
            "redo|skip|unknown|VALUE"
        } else {
            "redo|skip|VALUE"
        }
    }

    /// Returns an example of an answer that the operator may give.
    fn example_answer(&self) -> &'static str {
        match self.kind {
            HostCallKind::Mcp => RESULT_EXAMPLE,
            _ => RESPONSE_EXAMPLE,
        }
    }
}

/// A run that has ended.
#[derive(Clone, Copy)]
pub struct EndedRun<'a> {
    /// Its team and its state.
    pub stepper: &'a Stepper,
    /// Where the team comes from.
    pub provenance: &'a Provenance,
    /// Where it is saved.
    pub storage: &'a Path,
    /// The policy that was named for it.
    pub policy: Option<&'a Path>,
    /// Who continues it.
    pub continuation: Continuation,
}

/// Returns with which status a run would end now, or `None` if something is left to do, or it has ended.
pub fn status_at_rest(stepper: &Stepper) -> Option<Status> {
    match stepper.next() {
        Effect::Record(Event::RunEnded(ended)) => Some(ended.status),
        _ => None,
    }
}

impl<'a> EndedRun<'a> {
    /// Returns how it ended. `status` may differ from the recorded one, for example if the operator
    /// stopped it while it waited for a person.
    pub fn ending(self, status: Status) -> RunEnding {
        let stepper = self.stepper;
        let (team, env) = (stepper.team(), stepper.env());
        let mut faults = Vec::new();
        let mut fault_step: Option<u64> = None;
        for (call, open) in env.failed_calls(team) {
            faults.extend(FaultView::from_call(stepper, call, self.provenance));
            let step = step_of_fault(team, env, open.activation);
            fault_step = Some(fault_step.map_or(step, |first| first.min(step)));
        }
        let mut waiting_joins = JoinView::all(stepper);
        waiting_joins.retain(|join| !join.missing.is_empty());
        let is_exhausted =
            status == Status::OutOfBudget || stepper.exhausted_budgets().next().is_some();
        let ceiling = self.provenance.max_spend.as_ref();
        let team_file = Some(self.provenance.file.as_path());
        let team_file = team_file.filter(|file| !file.as_os_str().is_empty());
        let mut ending = RunEnding {
            status,
            step: env.step,
            fault_step,
            spent: env.spent,
            lost: env.spending(|_| true).lost,
            storage: self.storage.to_owned(),
            output: (status == Status::Done)
                .then(|| RunOutput::from_stepper(stepper))
                .flatten(),
            faults,
            finished_actions: finished_actions(stepper),
            requests: OpenRequests::from_stepper(stepper, self.storage),
            undelivered: self.undelivered(),
            in_doubt: DoubtView::all(stepper),
            exhausted_budget: is_exhausted
                .then(|| ExhaustedBudget::from_stepper(stepper, ceiling, team_file)),
            waiting_joins,
            send_command: None,
            resume_commands: Vec::new(),
        };
        if status == Status::Stalled {
            ending.send_command = Some(self.send_command(&ending));
        }
        ending.resume_commands = self.resume_commands(&ending);
        ending
    }

    fn undelivered(&self) -> Vec<UndeliveredMessage> {
        let env = self.stepper.env();
        let mut undelivered = Vec::new();
        for outbound in &env.outbox {
            if let Some(reason) = &outbound.failed {
                undelivered.push(UndeliveredMessage {
                    id: env.message(outbound.message).id.0.clone(),
                    to: outbound.to.clone(),
                    reason: reason.clone(),
                    location: self.provenance.external.clone(),
                });
            }
        }
        undelivered
    }

    /// Returns the command that sends the first missing message of a join.
    fn send_command(&self, ending: &RunEnding) -> SuggestedCommand {
        let missing = ending
            .waiting_joins
            .iter()
            .find_map(|join| join.missing.first());
        let recipient = match missing {
            Some(name) => CommandArgument::word(name),
            None => CommandArgument::placeholder("ROLE"),
        };
        SuggestedCommand::from_subcommand("send", [CommandArgument::Path(self.storage.to_owned())])
            .with([
                CommandArgument::word("--to"),
                recipient,
                CommandArgument::word("--cause"),
                CommandArgument::placeholder("LABEL"),
                CommandArgument::placeholder("CONTENT"),
            ])
    }

    fn target(&self) -> ResumeTarget<'a> {
        ResumeTarget {
            path: self.storage,
            policy: self.policy,
            continuation: self.continuation,
        }
    }

    /// Returns the command that resumes the run without a change.
    fn resume_command(&self) -> SuggestedCommand {
        self.target().command(None)
    }

    fn resume_commands(&self, ending: &RunEnding) -> Vec<SuggestedCommand> {
        let resume = self.resume_command();
        match ending.status {
            Status::Waiting | Status::Running | Status::Interrupted
                if self.continuation == Continuation::Itself =>
            {
                Vec::new()
            }
            Status::Done => Vec::new(),
            Status::Failed => self.commands_after_faults(ending),
            Status::InDoubt => self.commands_in_doubt(&ending.in_doubt),
            Status::Interrupted | Status::Cancelled | Status::Paused
                if !ending.in_doubt.is_empty() =>
            {
                self.commands_in_doubt(&ending.in_doubt)
            }
            Status::StepLimit => vec![resume.with_suggested(raise_step_limit(self.stepper))],
            Status::OutOfBudget => match &ending.exhausted_budget {
                Some(exhausted) => vec![resume.with_suggested(exhausted.raise.clone())],
                None => vec![resume],
            },
            Status::Interrupted
            | Status::Cancelled
            | Status::Paused
            | Status::Stalled
            | Status::Waiting
            | Status::Running => {
                vec![resume]
            }
        }
    }

    /// Returns the commands that decide writes in doubt.
    fn commands_in_doubt(&self, doubts: &[DoubtView]) -> Vec<SuggestedCommand> {
        let decide = |decision: &str, comment: &str| {
            self.resume_command()
                .with([
                    CommandArgument::word("--in-doubt"),
                    CommandArgument::word(decision),
                ])
                .commented(comment)
        };
        let mut commands = vec![
            decide("redo", "make it again"),
            decide("skip", "continue without it"),
        ];
        if !doubts.is_empty() && doubts.iter().all(|doubt| doubt.can_be_unknown) {
            commands.push(decide(
                "unknown",
                "tell the model that the result is unknown",
            ));
        }
        let kind = doubts
            .first()
            .map_or(HostCallKind::Http, |doubt| doubt.kind);
        commands.push(if doubts.iter().any(|doubt| doubt.kind != kind) {
            self.command_with_answers(doubts)
        } else if kind == HostCallKind::Mcp {
            decide(RESULT_EXAMPLE, "this was its result")
        } else {
            decide(RESPONSE_EXAMPLE, "this was its response")
        });
        commands
    }

    /// Returns the command that gives each write in doubt an answer of its own. Those of several kinds have no
    /// answer in common.
    fn command_with_answers(&self, doubts: &[DoubtView]) -> SuggestedCommand {
        let answers = doubts.iter().flat_map(|doubt| {
            let answer = format!("{}={}", doubt.id, doubt.example_answer());
            [
                CommandArgument::word("--in-doubt"),
                CommandArgument::word(&answer),
            ]
        });
        self.resume_command()
            .with(answers)
            .commented("these were their answers")
    }

    /// Returns the commands that may continue after faults.
    fn commands_after_faults(&self, ending: &RunEnding) -> Vec<SuggestedCommand> {
        let advice = || ending.faults.iter().map(|fault| &fault.advice);
        let target = self.target();
        let at = self.checkpoint_arguments();
        let mut commands = Vec::new();
        let edits_team_file = |advice: &FaultAdvice| advice.edits_team_file;
        if !ending.undelivered.is_empty() || advice().any(edits_team_file) {
            let file = CommandArgument::TeamFile(self.provenance.file.clone());
            let command = target.command(Some(file)).with(at.clone());
            commands.push(command.commented(AFTER_CHANGE));
        }
        // One component is named as an example for all.
        if let Some(name) = advice().find_map(|advice| advice.component.clone()) {
            let component = CommandArgument::Assignment {
                name,
                placeholder: "FIXED.wasm".into(),
            };
            let command = target
                .command(None)
                .with(at.clone())
                .with([CommandArgument::word("--component"), component]);
            commands.push(command.commented("with another component"));
        }
        // The command without changes comes last, where it is found first. It needs no comment if
        // it is the only one.
        let unchanged = target.command(None).with(at);
        commands.push(if commands.is_empty() {
            unchanged
        } else {
            unchanged.commented(WITHOUT_CHANGE)
        });
        commands
    }

    /// Returns the option that names the newest checkpoint, if the lineage was forked. The advised
    /// commands then continue that lineage even if another one was resumed in the meantime.
    fn checkpoint_arguments(&self) -> Vec<CommandArgument> {
        let env = self.stepper.env();
        match &env.checkpoint {
            Some(id) if !env.lineage.forks.is_empty() => vec![
                CommandArgument::word("--checkpoint"),
                CommandArgument::word(&id.0),
            ],
            _ => Vec::new(),
        }
    }
}

/// Returns the names of the actions that open activations have finished: `ROLE.ACTION`, in the order
/// of the roles.
fn finished_actions(stepper: &Stepper) -> Vec<String> {
    let mut activations: Vec<_> = stepper.env().activations().collect();
    activations.sort_by_key(|(key, _)| *key);
    let mut names = Vec::new();
    for (key, activation) in activations {
        add_finished_actions(stepper, key.role, activation, &mut names);
    }
    names
}

fn add_finished_actions(
    stepper: &Stepper,
    id: RoleId,
    activation: &Activation,
    names: &mut Vec<String>,
) {
    let role = stepper.team().role(id);
    for done in &activation.done {
        if matches!(done.work, Work::Act { .. } | Work::Plan) {
            let (_, action) = index_and_name(role, Some(done.work));
            names.push(format!("{}.{action}", role.name));
        }
    }
}

#[cfg(test)]
mod tests;
