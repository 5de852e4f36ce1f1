//! `inspect --action`: shows one action: its state, spending, last output and fault.

use std::path::Path;

use serde_json::{Value, json};
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultKind;
use strata_core::record::id::Slot;
use strata_core::record::money::Usd;
use strata_core::team::TURN;
use strata_host::suggest::suggest;
use strata_host::team_json;
use strata_host::view::{
    ActionFault, ActionLog, ActionSubject, ActionView, HolderState, WorkPerformer, last_output,
};
use strata_host::wording::shell_command;

use super::{describe_activity, pluralize};
use crate::LOST_ANSWERS;
use crate::fault_report::{describe_host_call, write_section};
use crate::{CommandFailure, Printer};

/// Returns the names of existing actions, as many as fit into a message.
fn list_names(names: &[&str]) -> String {
    const LISTED: usize = 8;
    match names.len().saturating_sub(LISTED) {
        _ if names.is_empty() => "its roles have none".into(),
        0 => format!("there are {}", names.join(", ")),
        more => format!("there are {} and {more} more", names[..LISTED].join(", ")),
    }
}

/// An action of a team, or another part or tool of a role.
pub(super) struct InspectedAction<'a> {
    stepper: &'a Stepper,
    subject: ActionSubject,
}

impl<'a> InspectedAction<'a> {
    /// Returns what `ROLE.ACTION` names: an action, `ROLE.think`, `ROLE.turn`, `ROLE.summary`, or a tool without a
    /// component.
    pub(super) fn from_name(stepper: &'a Stepper, name: &str) -> Result<Self, CommandFailure> {
        let team = stepper.team();
        let mut all: Vec<(String, ActionSubject)> = ActionSubject::all(stepper)
            .into_iter()
            .map(|subject| (subject.name(team), subject))
            .collect();
        let Some(at) = all.iter().position(|(full, _)| full == name) else {
            let names: Vec<&str> = all.iter().map(|(full, _)| full.as_str()).collect();
            let hint = suggest(name, &names).unwrap_or_else(|| list_names(&names));
            return Err(CommandFailure::usage(format!(
                "the team has no action `{name}`; {hint}"
            )));
        };
        let (_, subject) = all.swap_remove(at);
        Ok(Self { stepper, subject })
    }

    /// Returns the slot to which its costs are charged. A tool without a component has none.
    pub(super) fn slot(&self) -> Option<Slot> {
        self.subject.slot()
    }

    /// Returns its view, with what it logged.
    pub(super) fn view(
        &self,
        holder: HolderState,
        path: &Path,
        log: Option<ActionLog>,
    ) -> ActionView {
        let is_cut_off = holder.is_cut_off(self.stepper);
        ActionView::from_subject(self.stepper, &self.subject, path, is_cut_off).with_log(log)
    }

    /// Prints it as JSON. The output has the form in which `team.json` holds messages.
    pub(super) fn print_json(&self, action: &ActionView, printer: &Printer) {
        let fault = action.fault.as_ref().map(|fault| {
            json!({
                "kind": fault.kind.name(), "cause": fault.cause.name(), "message": fault.message,
                "backtrace": fault.backtrace, "log": fault.log,
            })
        });
        let output: Option<Value> = last_output(self.stepper, &self.subject)
            .and_then(|message| serde_json::from_str(&team_json::message_json(message)).ok());
        let document = json!({
            "role": action.role, "action": action.action, "digest": action.digest,
            "attempts": action.attempts, "spent": action.spent.to_dollars(), "lost": action.lost.to_dollars(),
            "tokens": action.tokens, "calls": action.calls, "recorded_calls": action.recorded_calls,
            "fault": fault, "output": output, "log": action.log,
        });
        printer.print_json(&document.to_string());
    }
}

/// Shows an action as text.
pub(super) fn show_action(action: &ActionView, printer: &Printer) {
    printer.print_line(&format!("action      {}.{}", action.role, action.action));
    let component = match &action.digest {
        Some(digest) => digest.as_str(),
        None => match action.performer {
            WorkPerformer::Component => "none yet",
            WorkPerformer::Model => "none: the host asks the model",
            WorkPerformer::Tool => "none: it is a tool that the host calls",
        },
    };
    printer.print_line(&format!("component   {component}"));
    printer.print_line(&format!(
        "role is at  {}",
        describe_activity(action.activity.as_ref())
    ));
    let (calls, tokens) = (
        pluralize(action.calls, "call"),
        pluralize(action.tokens, "token"),
    );
    printer.print_line(&match action.performer {
        WorkPerformer::Tool => format!("spent       charged to {}.{TURN}", action.role),
        WorkPerformer::Component | WorkPerformer::Model => {
            format!("spent       {} for {tokens} in {calls}", action.spent)
        }
    });
    if action.lost > Usd::ZERO {
        printer.print_line(&format!(
            "lost        {} of it: {LOST_ANSWERS}",
            action.lost
        ));
    }
    if let Some(fault) = &action.fault {
        show_fault(fault, action.attempts.unwrap_or_default(), printer);
    }
    write_section(
        "calls of the host in this activation, and what came back",
        action.recorded_calls.iter().map(describe_host_call),
        |line| printer.print_line(line),
    );
    if let Some(command) = &action.calls_command {
        printer.print_line(&format!("    in full: {}", shell_command(command)));
    }
    if let Some(output) = &action.output {
        printer.print_line("");
        printer.print_line(&format!("last output ({})", output.id));
        printer.print_text(&output.content);
    }
    if let Some(log) = &action.log {
        printer.print_line("");
        printer.print_line(&match log.left_out {
            0 => "logged then".to_owned(),
            more => format!("logged then, after {}", pluralize(more, "other line")),
        });
        for line in &log.lines {
            printer.print_text(line);
        }
    }
}

fn show_fault(fault: &ActionFault, attempts: u32, printer: &Printer) {
    let message = fault.message.replace('\n', "\n    ");
    let what = if fault.kind == FaultKind::Interrupted {
        "stopped"
    } else {
        "fault"
    };
    printer.print_text(&format!(
        "{what:<11} attempt {attempts}: {}: {message}",
        fault.kind
    ));
    write_section(
        "stack of the guest, innermost first",
        fault.backtrace.iter().cloned(),
        |line| printer.print_line(line),
    );
    write_section("what it logged last", fault.log.iter().cloned(), |line| {
        printer.print_line(line);
    });
}
