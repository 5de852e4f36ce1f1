//! Renders the ending of a run for the operator: open requests, where it is saved, and the commands
//! that continue it.

use std::path::Path;

use strata_core::record::event::Status;
use strata_core::record::money::Usd;
use strata_host::launch::RunHandle;
use strata_host::view::{
    EndedRun, ExhaustedBudget, RunEnding, SuggestedCommand, UndeliveredMessage,
};
use strata_host::wording::{ResumeTrigger, commented_arguments, commented_command, shell_command};

use super::LOST_ANSWERS;
use super::database::describe_runs;
use super::fault_report::{list_finished, report_fault, write_section};
use super::joins::{describe_held, describe_missing};
use super::pluralize;
use super::printer::{ATTENTION, FAILURE, FAINT, Printer, SUCCESS};
use super::requests::describe_requests;
use super::run_at_server::{add_server, changes_files};
use super::sanitize::sanitize_line;

/// Renders the ending of a run.
pub(super) struct EndReport {
    ending: RunEnding,
    /// What continues the run.
    trigger: ResumeTrigger,
    /// Whether the run is kept at a server.
    is_at_server: bool,
}

impl EndReport {
    /// Creates the report of a run that ended with a status. `policy` is the policy that was named
    /// for it.
    pub(super) fn from_run(run: &RunHandle, policy: Option<&Path>, status: Status) -> Self {
        Self {
            ending: run.ended(policy).ending(status),
            trigger: ResumeTrigger::ByCommand,
            is_at_server: false,
        }
    }

    /// Creates the report of a run that another process ran.
    pub(super) fn from_saved(run: EndedRun<'_>, status: Status) -> Self {
        Self {
            ending: run.ending(status),
            trigger: ResumeTrigger::ByCommand,
            is_at_server: false,
        }
    }

    /// Creates the report of a run that is kept at a server. That takes no other team files.
    pub(super) fn of_server(run: EndedRun<'_>, status: Status, server: &str) -> Self {
        let mut report = Self {
            is_at_server: true,
            ..Self::from_saved(run, status)
        };
        let ending = &mut report.ending;
        ending
            .resume_commands
            .retain(|command| !changes_files(command));
        let commands = ending.resume_commands.iter_mut();
        let commands = commands.chain(ending.send_command.iter_mut());
        for command in commands.chain(ending.requests.answer_command.iter_mut()) {
            add_server(command, server);
        }
        report
    }

    /// Creates the report of a round of `dev`, after which files are watched.
    pub(super) fn from_round(run: &RunHandle, policy: Option<&Path>, status: Status) -> Self {
        Self {
            trigger: ResumeTrigger::ByFileChange,
            ..Self::from_run(run, policy, status)
        }
    }

    /// Writes it to stderr.
    pub(super) fn write(&self, printer: &Printer) {
        let ending = &self.ending;
        for fault in &ending.faults {
            report_fault(fault, self.trigger, printer);
        }
        self.write_open_items(printer);
        self.write_exhausted_budget(printer);
        if ending.lost > Usd::ZERO && !printer.is_quiet() {
            printer.note(format_args!(
                "of the {} spent, {} is an estimate: {LOST_ANSWERS}",
                ending.spent, ending.lost
            ));
        }
        let saved = format!("saved in `{}`", ending.storage.display());
        match ending.status {
            Status::Done if printer.is_quiet() => {}
            Status::Done => {
                let spent = if ending.spent == Usd::default() {
                    String::new()
                } else {
                    format!(" for {}", ending.spent)
                };
                printer.note(format_args!(
                    "{} after {}{spent}; {saved}",
                    printer.styled(SUCCESS, "done"),
                    pluralize(ending.step, "step")
                ));
            }
            Status::Failed => self.write_failed(&saved, printer),
            Status::InDoubt => self.write_in_doubt("in doubt", &saved, printer),
            Status::Interrupted | Status::Cancelled | Status::Paused
                if !ending.in_doubt.is_empty() =>
            {
                self.write_in_doubt(ending.status.name(), &saved, printer);
            }
            Status::Stalled => self.write_stalled(&saved, printer),
            Status::Interrupted
            | Status::Cancelled
            | Status::Paused
            | Status::StepLimit
            | Status::OutOfBudget
            | Status::Waiting
            | Status::Running => self.write_stopped(&saved, printer),
        }
    }

    /// Describes a run that a fault stopped.
    fn write_failed(&self, saved: &str, printer: &Printer) {
        let ending = &self.ending;
        list_finished(&ending.finished_actions, printer);
        let step = ending.fault_step.unwrap_or(ending.step);
        let what = printer.styled(FAILURE, "failed");
        if self.trigger == ResumeTrigger::ByFileChange {
            printer.note(format_args!(
                "{what} at step {step}; {saved}; continues by itself once it is fixed"
            ));
            return;
        }
        printer.note(format_args!(
            "{what} at step {step}; {saved}; fix it, then resume with:"
        ));
        for command in &ending.resume_commands {
            let text = shell_command(command);
            match &command.comment {
                Some(comment) => {
                    let comment = printer.styled(FAINT, &format!("# {comment}"));
                    printer.note(format_args!("  {text}   {comment}"));
                }
                None => printer.note(format_args!("  {text}")),
            }
        }
        if self.is_at_server {
            printer.note(
                "a server takes no changed files: its page has the command that resumes the run with a mended team \
                 file; or submit that as a new run",
            );
        }
    }

    /// Describes a run with writes whose result is unknown.
    fn write_in_doubt(&self, what: &str, saved: &str, printer: &Printer) {
        let step = self.ending.step;
        let what = printer.styled(ATTENTION, what);
        printer.note(format_args!(
            "{what} at step {step}; {saved}; find out, then resume with one of:"
        ));
        for command in &self.ending.resume_commands {
            let comment = command.comment.as_deref().unwrap_or_default();
            printer.note(format_args!("  {}     # {comment}", shell_command(command)));
        }
    }

    /// Describes a run that stopped without a fault.
    fn write_stopped(&self, saved: &str, printer: &Printer) {
        let (ending, step) = (&self.ending, self.ending.step);
        let resume = self.resume_command();
        let what = |text: &str| printer.styled(ATTENTION, text);
        match ending.status {
            Status::Interrupted | Status::Running if ending.resume_commands.is_empty() => {
                printer.note(format_args!(
                    "{} at step {step}; {saved}; a worker continues it",
                    what(ending.status.name())
                ));
            }
            Status::Interrupted | Status::Cancelled | Status::Paused => printer.note(format_args!(
                "{} at step {step}; {saved}; resume with:\n  {resume}",
                what(ending.status.name())
            )),
            Status::StepLimit => printer.note(format_args!(
                "{} after {}; {saved}; resume with:\n  {resume}",
                what("step limit reached"),
                pluralize(step, "step")
            )),
            Status::OutOfBudget => {
                let exhausted = ending.exhausted_budget.as_ref();
                printer.note(format_args!(
                    "{} {}; {saved}; resume with:",
                    what("out of budget:"),
                    exhausted.map(describe_exhausted_budget).unwrap_or_default()
                ));
                printer.note(format_args!("  {resume}"));
            }
            Status::Waiting => {
                printer.note(format_args!(
                    "{} at step {step}; {saved}; answer with:",
                    what("waiting for a person")
                ));
                let answer = ending.requests.answer_command.as_ref();
                let answer = answer.map(shell_command).unwrap_or_default();
                if ending.resume_commands.is_empty() {
                    printer.note(format_args!("  {answer}\nthen a worker continues it"))
                } else {
                    printer.note(format_args!("  {answer}\nthen resume with:\n  {resume}"));
                }
            }
            status => printer.note(format_args!(
                "{}; {saved}; resume with:\n  {resume}",
                status.name()
            )),
        }
    }

    /// Lists open requests, messages that could not be handed over, and writes in doubt.
    fn write_open_items(&self, printer: &Printer) {
        let ending = &self.ending;
        if let Some(answer) = &ending.requests.answer_command {
            printer.note("open requests:");
            for line in describe_requests(&ending.requests.requests) {
                printer.note(line);
            }
            // For a waiting run, the description of the status itself contains this command.
            if ending.status != Status::Waiting {
                printer.note(format_args!("answer with:\n  {}", shell_command(answer)));
            }
        }
        for message in &ending.undelivered {
            write_undelivered(message, printer);
        }
        for doubt in &ending.in_doubt {
            let head = printer.styled(ATTENTION, "in doubt:");
            let description = sanitize_line(&doubt.what);
            printer.note(format_args!(
                "{head} {}: `{description}` was begun, and whether it took effect is not known",
                doubt.id
            ));
        }
    }

    /// Reports exhausted budgets if the run ended for another reason: resolving that alone would
    /// not suffice to continue.
    fn write_exhausted_budget(&self, printer: &Printer) {
        if self.ending.status == Status::OutOfBudget {
            return;
        }
        if let Some(exhausted) = &self.ending.exhausted_budget {
            printer.note(format_args!(
                "{} {}; to continue there, resume with:\n  {}",
                printer.styled(ATTENTION, "out of budget:"),
                describe_exhausted_budget(exhausted),
                commented_arguments(&exhausted.raise)
            ));
        }
    }

    /// Returns the only command that resumes the run.
    fn resume_command(&self) -> String {
        let command: Option<&SuggestedCommand> = self.ending.resume_commands.first();
        command.map(commented_command).unwrap_or_default()
    }

    /// Describes what stalled joins wait for, and how to send it.
    fn write_stalled(&self, saved: &str, printer: &Printer) {
        let after = pluralize(self.ending.step, "step");
        printer.note(format_args!(
            "{} after {after}; {saved}",
            printer.styled(FAILURE, "stalled")
        ));
        for join in &self.ending.waiting_joins {
            printer.note(format_args!(
                "  join `{}` waits for {}, and no role is running; it holds {}",
                join.id,
                describe_missing(join),
                describe_held(join)
            ));
        }
        let send = self.ending.send_command.as_ref();
        printer.note("send it what is missing, then resume with:");
        printer.note(format_args!(
            "  {}\n  {}",
            send.map(shell_command).unwrap_or_default(),
            self.resume_command()
        ));
    }
}

fn write_undelivered(message: &UndeliveredMessage, printer: &Printer) {
    let what = format!(
        "message {} for {} could not be handed over to `[env.external]`: {}",
        message.id,
        message.to.join(", "),
        message.reason
    );
    printer.note(format_args!(
        "{} {}",
        printer.styled(FAILURE, "fault:"),
        sanitize_line(&what)
    ));
    let advice = message
        .location
        .as_ref()
        .map(|location| format!("see `[env.external]` ({location})"));
    write_section("how to fix it", advice.into_iter(), |line| {
        printer.note(line)
    });
}

/// Describes whose budget is exhausted.
fn describe_exhausted_budget(exhausted: &ExhaustedBudget) -> String {
    if let (Some(scope), Some(cap)) = (&exhausted.cap_scope, exhausted.max_spend) {
        return format!("the cap of {cap} for {} is used up", describe_runs(scope));
    }
    let mut parts = Vec::new();
    if let Some(max) = exhausted.max_spend {
        parts.push(format!("{} of {max}", exhausted.spent));
    }
    if let Some(max) = exhausted.max_tokens {
        parts.push(format!("{} of {max} tokens", exhausted.tokens));
    }
    if parts.is_empty() {
        parts.push(exhausted.spent.to_string());
    }
    let parts = parts.join(" and ");
    match &exhausted.role {
        Some(role) => format!("role {role} used {parts}"),
        None => format!("spent {parts}"),
    }
}
