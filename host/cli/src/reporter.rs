//! Reports a run on stderr while it is running: one line per finished action. The live view below
//! these lines is in `live`, the end of the run in `ending`.

use std::fmt::Display;

use strata_core::record::fault::FaultKind;
use strata_core::record::message::IDEA_LABEL;
use strata_core::team::TURN;
use strata_host::public_event::{ActionRef, EventLine, PublicEvent};
use strata_host::wording::describe_denied_lookup;
use unicode_width::UnicodeWidthStr;

use super::live_view::{LiveView, MIN_NAME_COLUMNS};
use super::preview;
use super::printer::{ATTENTION, FAILURE, Printer, SUCCESS};
use super::sanitize::sanitize_line;

/// The maximum number of characters of an output if stderr is not a terminal.
const PREVIEW_CHARS: usize = 60;
/// The columns of a line before its output, except for the name of the action.
const HEAD_COLUMNS: usize = 30;
/// The maximum number of columns of a name.
const MAX_NAME_COLUMNS: usize = 60;

/// Writes one line for each public event that concerns the operator.
pub(super) struct Reporter {
    printer: Printer,
    live: LiveView,
    /// The time of the first event, from which elapsed times are counted.
    first_event_ms: Option<i64>,
    /// The number of columns for names: the width of the longest so far.
    name_columns: usize,
    /// The step that was started last.
    step: u64,
    /// The newest message with dead letters, and how many it had so far.
    dead_letters: (String, usize),
}

impl Reporter {
    pub(super) fn new(printer: &Printer, live: LiveView) -> Self {
        Self {
            printer: printer.clone(),
            live,
            first_event_ms: None,
            name_columns: MIN_NAME_COLUMNS,
            step: 0,
            dead_letters: Default::default(),
        }
    }

    /// Reports one public event, if a person needs to see it.
    pub(super) fn receive(&mut self, line: &EventLine) {
        self.live.update(&line.event);
        self.first_event_ms.get_or_insert(line.time_ms);
        self.warn_of(&line.event);
        if !self.printer.is_quiet() {
            self.report(&line.event, line.time_ms);
        }
    }

    /// Warns of an event that an operator has to know of, also if nothing else is reported.
    fn warn_of(&mut self, event: &PublicEvent) {
        match event {
            PublicEvent::DeadLetter { id, to, reason } => self.report_dead_letter(id, to, reason),
            PublicEvent::MessageDropped { id, from, reason } => self.warn(format_args!(
                "message {id} of `{from}` was dropped: {reason}"
            )),
            PublicEvent::ConditionFailed {
                id,
                from,
                condition,
                reason,
            } => self.warn(format_args!(
                "the condition `{condition}` cannot be evaluated for message {id} of `{from}`, and counts as false: \
                 {reason}"
            )),
            PublicEvent::MessageNotHandedOver { id, reason } => {
                self.warn(format_args!("message {id} did not get out: {reason}"));
            }
            PublicEvent::MessageRouted {
                from, to, cause_by, ..
            } if from.is_empty() && to.is_empty() && cause_by == IDEA_LABEL => {
                self.warn(format_args!(
                    "the idea reached nobody: no role watches `{IDEA_LABEL}`"
                ));
            }
            PublicEvent::WritesUnclaimed { action, writes } => {
                for write in writes {
                    self.warn(format_args!(
                        "{} no longer makes a write that it made before: {write}",
                        action.qualified_name()
                    ));
                }
            }
            PublicEvent::LookupsDenied { action, paths } => {
                for path in paths {
                    self.warn(format_args!(
                        "{} {}",
                        action.qualified_name(),
                        describe_denied_lookup(path)
                    ));
                }
            }
            PublicEvent::WritesForgotten { action, writes } => {
                for write in writes {
                    self.warn(format_args!(
                        "{} starts afresh and may make a write again that it made before: {write} (a \
                         resume with `--calls reuse` is served the recorded response)",
                        action.qualified_name()
                    ));
                }
            }
            _ => {}
        }
    }

    /// Reports what an action did, and what became of the run.
    fn report(&mut self, event: &PublicEvent, time_ms: i64) {
        match event {
            PublicEvent::StepStarted { step } => self.step = *step,
            PublicEvent::Turn {
                role, turn, calls, ..
            } => {
                let mark = format!("{}    ", self.printer.styled(SUCCESS, "ok"));
                let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
                let what = match tools.as_slice() {
                    [] => "replies".to_owned(),
                    tools => format!("calls {}", tools.join(", ")),
                };
                let action = self.turn_of(role);
                self.write_row(&action, time_ms, &mark, &format!("turn {turn} {what}"));
            }
            PublicEvent::ToolRejected {
                role, tool, reason, ..
            } => {
                let mark = format!("{}  ", self.printer.styled(ATTENTION, "rejected"));
                let action = self.turn_of(role);
                self.write_row(&action, time_ms, &mark, &format!("{tool}: {reason}"));
            }
            PublicEvent::ActionFinished { action, output, .. } => {
                let mark = format!("{}    ", self.printer.styled(SUCCESS, "ok"));
                self.write_row(action, time_ms, &mark, &output.content);
            }
            // It is no fault of the action's, and one signal stops many.
            PublicEvent::ActionFailed {
                action,
                fault: FaultKind::Interrupted,
                ..
            } => {
                let mark = format!("{}  ", self.printer.styled(ATTENTION, "stopped"));
                self.write_row(action, time_ms, &mark, "before it ended");
            }
            PublicEvent::ActionFailed {
                action,
                message,
                retry_ms,
                ..
            } => {
                let again = retry_ms.map(|pause| format!(", tried again after {pause} ms"));
                let mark = format!(
                    "{}{}  ",
                    self.printer.styled(FAILURE, "FAILED"),
                    again.unwrap_or_default()
                );
                self.write_row(action, time_ms, &mark, message);
            }
            PublicEvent::RequestOpened {
                action,
                request,
                question,
                ..
            } => {
                let mark = format!("{}  {request}: ", self.printer.styled(ATTENTION, "asks"));
                self.write_row(action, time_ms, &mark, question);
            }
            PublicEvent::Forked {
                lineage, parent, ..
            } => self.printer.note(format_args!(
                "goes on from `{parent}` as lineage `{lineage}`; what came after it stays saved"
            )),
            // Where none was known before, as in what another program saved, nothing was replaced.
            PublicEvent::ComponentChanged {
                role,
                action,
                old: Some(_),
                ..
            } => self
                .printer
                .note(format_args!("component of {role}.{action} was replaced")),
            _ => {}
        }
    }

    /// Returns how a turn of a role's model is named.
    fn turn_of(&self, role: &str) -> ActionRef {
        ActionRef {
            step: self.step,
            role: role.to_owned(),
            index: -1,
            action: TURN.to_owned(),
            turn: None,
            tool_call: None,
            nested: None,
            via: None,
        }
    }

    /// A message may be for very many that are nobody: the first of them are named.
    fn report_dead_letter(&mut self, id: &str, to: &str, reason: &str) {
        const NAMED: usize = 8;
        if self.dead_letters.0 != id {
            self.dead_letters = (id.to_owned(), 0);
        }
        self.dead_letters.1 += 1;
        match self.dead_letters.1 {
            ..=NAMED => self.warn(format_args!(
                "message {id} for `{to}` reached nobody: {reason}"
            )),
            count if count == NAMED + 1 => {
                self.warn(format_args!(
                    "message {id} is for more that are nobody; the `dead-letter` events name them"
                ));
            }
            _ => {}
        }
    }

    /// One line about one action: a mark, and as much of a text as fits.
    fn write_row(&mut self, action: &ActionRef, time_ms: i64, mark: &str, text: &str) {
        // A clock may be set back.
        let seconds = (time_ms - self.first_event_ms.unwrap_or(time_ms)).max(0) as f64 / 1000.0;
        let name = sanitize_line(&action.qualified_name());
        self.name_columns = self.name_columns.max(name.width()).min(MAX_NAME_COLUMNS);
        let gap = " ".repeat(self.name_columns.saturating_sub(name.width()));
        let room = if self.printer.can_show_live_view() {
            usize::from(self.printer.columns())
                .saturating_sub(HEAD_COLUMNS + self.name_columns)
                .clamp(20, 200)
        } else {
            PREVIEW_CHARS
        };
        self.printer.note(format_args!(
            "{seconds:7.1}s  step {:<3} {name}{gap} {mark}{}",
            action.step,
            preview(text, room)
        ));
    }

    /// Writes a warning on one line.
    fn warn(&self, text: impl Display) {
        self.printer.warn(sanitize_line(&text.to_string()));
    }
}
