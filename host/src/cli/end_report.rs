//! Describes to the operator how a run ended: open requests, where it is saved, and the commands
//! that continue it.

use std::path::Path;

use strata_core::budget::BudgetScope;
use strata_core::event::Status;
use strata_core::money::Usd;
use strata_core::stepper::{Stepper, step_of_fault};

use super::fault_report::{ResumeTrigger, list_finished, report_fault, write_section};
use super::joins::{describe_held, describe_missing};
use super::reporter::Verbosity;
use super::requests::describe_requests;
use super::sanitize::sanitize_line;
use super::suggested_command::shell_command;
use super::terminal::{ATTENTION, FAILURE, FAINT, SUCCESS, note, styled};
use super::{display_relative_path, pluralize, recover_args, shell_path, shell_word};
use crate::launch::{CallInDoubt, Provenance, RunHandle, calls_in_doubt};
use crate::view::{FaultAdvice, FaultView, JoinView, OpenRequests};

/// Explain when to resume with the team file named and when without.
pub(super) const WHEN_CHANGED: &str = "after changing the team file";
pub(super) const WHEN_UNCHANGED: &str = "without changing the team file";

/// The end of a run.
pub(super) struct EndReport<'a> {
    stepper: &'a Stepper,
    provenance: &'a Provenance,
    storage: &'a Path,
    /// The policy that was named for it.
    policy: Option<&'a Path>,
    /// What continues the run.
    continuation: ResumeTrigger,
}

impl<'a> EndReport<'a> {
    pub(super) fn from_run(run: &'a RunHandle, policy: Option<&'a Path>) -> Self {
        Self {
            stepper: run.stepper(),
            provenance: run.provenance(),
            storage: run.path(),
            policy,
            continuation: ResumeTrigger::ByCommand,
        }
    }

    /// Creates the end of a round of `dev`, after which files are watched.
    pub(super) fn from_round(run: &'a RunHandle, policy: Option<&'a Path>) -> Self {
        Self {
            continuation: ResumeTrigger::ByFileChange,
            ..Self::from_run(run, policy)
        }
    }

    /// Writes it to stderr.
    pub(super) fn write(&self, status: Status, loudness: Verbosity) {
        let (env, stepper) = (self.stepper.env(), self.stepper);
        let faults: Vec<FaultView> = env
            .failed_activations()
            .filter_map(|(id, _)| FaultView::from_role(stepper, id, self.provenance))
            .collect();
        for fault in &faults {
            report_fault(fault, self.continuation);
        }
        let cures: Vec<&FaultAdvice> = faults.iter().map(|fault| &fault.advice).collect();
        self.write_open_items(status);
        self.write_exhausted_budget(status);
        let saved = format!("saved in `{}`", self.storage.display());
        match status {
            Status::Done if loudness == Verbosity::Quiet => {}
            Status::Done => {
                let spent = if env.spent == Usd::default() {
                    String::new()
                } else {
                    format!(" for {}", env.spent)
                };
                note(format_args!(
                    "{} after {}{spent}; {saved}",
                    styled(SUCCESS, "done"),
                    pluralize(env.step, "step")
                ));
            }
            Status::Failed => self.write_failed(&saved, &cures),
            Status::InDoubt => self.write_in_doubt("in doubt", &saved),
            Status::Interrupted if !calls_in_doubt(stepper).is_empty() => {
                self.write_in_doubt("interrupted", &saved);
            }
            Status::Stalled => self.write_stalled(&saved),
            Status::Interrupted
            | Status::StepLimit
            | Status::OutOfBudget
            | Status::Waiting
            | Status::Running => self.write_stopped(status, &saved),
        }
    }

    /// Describes a run that a fault stopped.
    fn write_failed(&self, saved: &str, cures: &[&FaultAdvice]) {
        let (env, stepper) = (self.stepper.env(), self.stepper);
        list_finished(stepper);
        let at = |(_, activation)| step_of_fault(stepper.team(), env, activation);
        let step = env.failed_activations().map(at).min().unwrap_or(env.step);
        let what = styled(FAILURE, "failed");
        if self.continuation == ResumeTrigger::ByFileChange {
            note(format_args!(
                "{what} at step {step}; {saved}; continues by itself once it is fixed"
            ));
            return;
        }
        note(format_args!(
            "{what} at step {step}; {saved}; fix it, then resume with:"
        ));
        for way in self.resume_commands(cures) {
            note(format_args!("  {way}"));
        }
    }

    /// Describes a run with writes whose result is unknown.
    fn write_in_doubt(&self, what: &str, saved: &str) {
        let (step, resume) = (self.stepper.env().step, self.resume_command());
        let what = styled(ATTENTION, what);
        note(format_args!(
            "{what} at step {step}; {saved}; find out, then resume with one of:"
        ));
        let response = r#"'{"status":200,"body":"…"}'"#;
        note(format_args!(
            "  {resume} --in-doubt redo     # make it again"
        ));
        note(format_args!(
            "  {resume} --in-doubt skip     # continue without it"
        ));
        note(format_args!(
            "  {resume} --in-doubt {response}     # this was its response"
        ));
    }

    /// Describes a run that stopped without a fault.
    fn write_stopped(&self, status: Status, saved: &str) {
        let (step, stepper, resume) =
            (self.stepper.env().step, self.stepper, self.resume_command());
        match status {
            Status::Interrupted => {
                let what = styled(ATTENTION, "interrupted");
                note(format_args!(
                    "{what} at step {step}; {saved}; resume with:\n  {resume}"
                ));
            }
            Status::StepLimit => {
                let (what, steps) = (
                    styled(ATTENTION, "step limit reached"),
                    pluralize(step, "step"),
                );
                let limit = raise_step_limit_args(stepper);
                note(format_args!(
                    "{what} after {steps}; {saved}; resume with:\n  {resume} {limit}"
                ));
            }
            Status::OutOfBudget => {
                let what = styled(ATTENTION, "out of budget:");
                note(format_args!(
                    "{what} {}; {saved}; resume with:",
                    describe_exhausted_budget(stepper)
                ));
                note(format_args!(
                    "  {resume} {}",
                    raise_budget_args(stepper, self.provenance.max_spend.as_ref())
                ));
            }
            Status::Waiting => {
                let what = styled(ATTENTION, "waiting for a person");
                note(format_args!("{what} at step {step}; {saved}; answer with:"));
                let open = OpenRequests::from_stepper(stepper, self.storage);
                let answer = open.answer_command.as_ref().map(shell_command);
                note(format_args!(
                    "  {}\nthen resume with:\n  {resume}",
                    answer.unwrap_or_default()
                ));
            }
            _ => note(format_args!(
                "{}; {saved}; resume with:\n  {resume}",
                status.name()
            )),
        }
    }

    /// Lists open requests, messages that could not be handed over, and writes in doubt.
    fn write_open_items(&self, status: Status) {
        let env = self.stepper.env();
        let open = OpenRequests::from_stepper(self.stepper, self.storage);
        if let Some(answer) = &open.answer_command {
            note("open requests:");
            for line in describe_requests(&open.requests) {
                note(line);
            }
            // For a waiting run, the description of the status itself contains this command.
            if status != Status::Waiting {
                note(format_args!("answer with:\n  {}", shell_command(answer)));
            }
        }
        for outbound in env
            .outbox
            .iter()
            .filter(|outbound| outbound.failed.is_some())
        {
            let (id, to) = (&env.message(outbound.message).id, outbound.to.join(", "));
            let (head, why) = (
                styled(FAILURE, "fault:"),
                outbound.failed.as_deref().unwrap_or_default(),
            );
            let what = format!(
                "message {id} for {to} could not be handed over to `[env.external]`: {why}"
            );
            note(format_args!("{head} {}", sanitize_line(&what)));
            let place = self.provenance.external.as_ref();
            write_section(
                "how to fix it",
                place
                    .map(|place| format!("see `[env.external]` ({place})"))
                    .into_iter(),
                |line| note(line),
            );
        }
        for CallInDoubt { id, what, .. } in calls_in_doubt(self.stepper) {
            let head = styled(ATTENTION, "in doubt:");
            let what = sanitize_line(&what);
            note(format_args!(
                "{head} {id}: `{what}` was begun, and whether it took effect is not known"
            ));
        }
    }

    /// Reports exhausted budgets if the run ended for another reason: resolving that alone would
    /// not suffice to continue.
    fn write_exhausted_budget(&self, status: Status) {
        let stepper = self.stepper;
        if status != Status::OutOfBudget && stepper.exhausted_budgets().next().is_some() {
            let (what, more) = (
                styled(ATTENTION, "out of budget:"),
                raise_budget_args(stepper, self.provenance.max_spend.as_ref()),
            );
            note(format_args!(
                "{what} {}; to continue there, resume with:\n  {more}",
                describe_exhausted_budget(stepper)
            ));
        }
    }

    fn resume_command(&self) -> String {
        format!("strata-host run {}", self.resume_args())
    }

    fn resume_args(&self) -> String {
        recover_args(self.storage, self.policy)
    }

    /// Returns the option that names the newest checkpoint, if the lineage was forked. The advised
    /// commands then continue that lineage even if another one was resumed in the meantime.
    fn checkpoint_arg(&self) -> String {
        let env = self.stepper.env();
        match &env.checkpoint {
            Some(id) if !env.lineage.forks.is_empty() => {
                format!(" --checkpoint {}", shell_word(&id.0))
            }
            _ => String::new(),
        }
    }

    /// Returns the commands that may continue after faults.
    fn resume_commands(&self, cures: &[&FaultAdvice]) -> Vec<String> {
        let at = self.checkpoint_arg();
        let (resume, what) = (self.resume_command() + &at, self.resume_args() + &at);
        let when = |command: String, when: &str| {
            format!("{command}   {}", styled(FAINT, &format!("# {when}")))
        };
        let unsent = self
            .stepper
            .env()
            .outbox
            .iter()
            .any(|outbound| outbound.failed.is_some());
        let file = (unsent || cures.iter().any(|cure| cure.edits_team_file)).then(|| {
            let file = shell_path(Path::new(&display_relative_path(&self.provenance.file)));
            when(format!("strata-host run {file} {what}"), WHEN_CHANGED)
        });
        // One component is named as an example for all.
        let component = cures
            .iter()
            .find_map(|cure| cure.component.as_ref())
            .map(|name| {
                let given = format!("{resume} --component {}=FIXED.wasm", shell_word(name));
                when(given, "with another component")
            });
        // The command without changes comes last, where it is found first. It needs no comment if
        // it is the only one.
        let alone = file.is_none() && component.is_none();
        let plain = if alone {
            resume
        } else {
            when(resume, WHEN_UNCHANGED)
        };
        file.into_iter().chain(component).chain([plain]).collect()
    }

    /// Describes what stalled joins wait for, and how to send it.
    fn write_stalled(&self, saved: &str) {
        let after = pluralize(self.stepper.env().step, "step");
        note(format_args!(
            "{} after {after}; {saved}",
            styled(FAILURE, "stalled")
        ));
        let mut someone = None;
        for join in JoinView::all(self.stepper) {
            let Some(first) = join.missing.first() else {
                continue;
            };
            note(format_args!(
                "  join `{}` waits for {}, and no role is running; it holds {}",
                join.id,
                describe_missing(&join),
                describe_held(&join)
            ));
            someone = someone.or(Some(shell_word(first)));
        }
        let (someone, storage) = (someone.unwrap_or_default(), shell_path(self.storage));
        note("send it what is missing, then resume with:");
        note(format_args!(
            "  strata-host send {storage} --to {someone} --cause LABEL CONTENT\n  {}",
            self.resume_command()
        ));
    }
}

/// Describes whose budget is exhausted.
fn describe_exhausted_budget(stepper: &Stepper) -> String {
    let (team, env) = (stepper.team(), stepper.env());
    let of = |spent: Usd, max: Option<Usd>| max.map(|max| format!("{spent} of {max}"));
    let tokens = |used: u64, max: Option<u64>| max.map(|max| format!("{used} of {max} tokens"));
    match stepper.exhausted_budgets().next() {
        Some(BudgetScope::Role(id)) => {
            let (used, caps) = (
                env.spending(|at| at.role == id),
                team.policy.scoped_budgets.roles.get(&id),
            );
            let caps = caps.copied().unwrap_or_default();
            let parts = [of(used.usd, caps.usd), tokens(used.tokens, caps.tokens)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("role {} used {}", team.role(id).name, parts.join(" and "))
        }
        _ => {
            let used = env.spending(|_| true);
            let parts = [
                of(env.spent, env.budget),
                tokens(used.tokens, team.policy.scoped_budgets.tokens),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("spent {}", parts.join(" and "))
        }
    }
}

/// Returns the arguments that raise the exhausted budget. `most` is the highest budget that a
/// policy permits, with the policy's path.
pub(super) fn raise_budget_args(stepper: &Stepper, most: Option<&(Usd, String)>) -> String {
    let (team, env) = (stepper.team(), stepper.env());
    let broke = env.budget.is_some_and(|max| env.spent >= max);
    // With a higher budget it would stop again immediately.
    let bound = most.filter(|(most, _)| env.budget.is_some_and(|max| max >= *most));
    match (stepper.exhausted_budgets().next(), bound) {
        (Some(BudgetScope::Role(_)), _) => {
            "TEAM.toml   # with more `investment` or `tokens` for the role".into()
        }
        _ if !broke && team.policy.scoped_budgets.tokens.is_some() => {
            "TEAM.toml   # with more `tokens` for the team".into()
        }
        (_, Some((most, policy))) => {
            format!("--investment USD   # once `{policy}` allows more than {most}")
        }
        _ => match env.budget {
            Some(budget) => format!(
                "--investment USD   # more than {}, in all",
                budget.max(env.spent)
            ),
            None => "--investment USD".into(),
        },
    }
}

/// Returns the argument that raises the step limit. Steps before a resume count, too.
pub(super) fn raise_step_limit_args(stepper: &Stepper) -> String {
    format!("--max-steps N   # more than {}, in all", stepper.env().step)
}
