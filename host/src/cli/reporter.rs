//! Reports a run on stderr while it is running: one line per finished action. The live view below
//! these lines is in `live`, the end of the run in `ending`.

use std::fmt::Display;

use strata_core::event::Work;
use strata_core::fault::FaultKind;
use strata_core::message::IDEA_LABEL;
use strata_core::team::Role;
use unicode_width::UnicodeWidthStr;

use super::live::{Live, NAME};
use super::plain::one_line;
use super::preview;
use super::terminal::{self, BAD, GOOD, ODD, note, painted};
use crate::narrator::Line;

/// How much is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loudness {
    /// Only faults, and the end of a run that is not done.
    Quiet,
    /// Every action.
    Normal,
}

/// The maximum number of characters of an output if stderr is not a terminal.
const PREVIEW: usize = 60;
/// The columns of a line before its output, except for the name of the action.
const HEAD: usize = 30;
/// The maximum number of columns of a name.
const WIDEST: usize = 60;

/// Writes one line for each public event that concerns the operator.
pub(super) struct Reporter {
    loudness: Loudness,
    live: Live,
    /// The time of the first event, from which elapsed times are counted.
    began_ms: Option<i64>,
    /// The number of columns for names: the width of the longest so far.
    width: usize,
    /// The newest message with dead letters, and how many it had so far.
    lost: (String, usize),
}

impl Reporter {
    pub(super) fn new(loudness: Loudness, live: Live) -> Self {
        Self {
            loudness,
            live,
            began_ms: None,
            width: NAME,
            lost: Default::default(),
        }
    }

    /// Reports one public event, if it concerns the operator.
    pub(super) fn tell(&mut self, line: &Line) {
        self.live.tell(line);
        self.began_ms.get_or_insert(line.time_ms);
        match line.kind {
            "dead-letter" => self.dead_letter(line),
            "message-dropped"
            | "message-not-handed-over"
            | "message-routed"
            | "writes-unclaimed"
            | "writes-forgotten" => warn_of(line),
            _ if self.loudness == Loudness::Quiet => {}
            _ => self.progress(line),
        }
    }

    /// Reports an event that is not a warning.
    fn progress(&mut self, line: &Line) {
        match line.kind {
            "action-finished" => {
                let output = line
                    .fields
                    .get("output")
                    .and_then(|o| o.get("content"))
                    .and_then(|c| c.as_str());
                self.say(
                    line,
                    &format!("{}    ", painted(GOOD, "ok")),
                    output.unwrap_or_default(),
                );
            }
            // An interruption is not a fault of the action, and one signal stops many.
            "action-failed" if line.text("fault") == FaultKind::Interrupted.name() => {
                self.say(
                    line,
                    &format!("{}  ", painted(ODD, "stopped")),
                    "before it ended",
                );
            }
            "action-failed" => {
                let again = line
                    .fields
                    .get("retry_ms")
                    .map(|pause| format!(", tried again after {pause} ms"));
                let mark = format!("{}{}  ", painted(BAD, "FAILED"), again.unwrap_or_default());
                self.say(line, &mark, line.text("message"));
            }
            "request-opened" => {
                let mark = format!("{}  {}: ", painted(ODD, "asks"), line.text("request"));
                self.say(line, &mark, line.text("question"));
            }
            "forked" => {
                let (lineage, parent) = (line.text("lineage"), line.text("parent"));
                note(format_args!(
                    "goes on from `{parent}` as lineage `{lineage}`; what came after it stays saved"
                ));
            }
            // Where no component was known before, as in a state that another program saved,
            // nothing was replaced.
            "component-changed" if !line.text("old").is_empty() => {
                note(format_args!(
                    "component of {}.{} was replaced",
                    line.text("role"),
                    line.text("action")
                ));
            }
            _ => {}
        }
    }

    /// Reports a dead letter. A message may have very many of them; only the first are named.
    fn dead_letter(&mut self, line: &Line) {
        const NAMED: usize = 8;
        let (id, to, reason) = (line.text("id"), line.text("to"), line.text("reason"));
        if self.lost.0 != id {
            self.lost = (id.to_owned(), 0);
        }
        self.lost.1 += 1;
        match self.lost.1 {
            ..=NAMED => warn(format_args!(
                "message {id} for `{to}` reached nobody: {reason}"
            )),
            count if count == NAMED + 1 => {
                warn(format_args!(
                    "message {id} is for more that are nobody; the `dead-letter` events name them"
                ));
            }
            _ => {}
        }
    }

    /// Writes a line about an action or a role: a mark, and as much of a text as fits.
    fn say(&mut self, line: &Line, mark: &str, text: &str) {
        let step = line
            .fields
            .get("step")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or_default();
        // The clock may have been set back.
        let seconds = (line.time_ms - self.began_ms.unwrap_or(line.time_ms)).max(0) as f64 / 1000.0;
        let name = one_line(&name(line));
        self.width = self.width.max(name.width()).min(WIDEST);
        let gap = " ".repeat(self.width.saturating_sub(name.width()));
        let room = match terminal::is_live() {
            true => usize::from(terminal::columns())
                .saturating_sub(HEAD + self.width)
                .clamp(20, 200),
            false => PREVIEW,
        };
        note(format_args!(
            "{seconds:7.1}s  step {step:<3} {name}{gap} {mark}{}",
            preview(text, room)
        ));
    }
}

/// Warns of a message that does not reach its recipients, or of writes that an attempt makes
/// differently than before.
fn warn_of(line: &Line) {
    match line.kind {
        "message-dropped" => {
            let (id, from, reason) = (line.text("id"), line.text("from"), line.text("reason"));
            warn(format_args!(
                "message {id} of `{from}` was dropped: {reason}"
            ));
        }
        "message-not-handed-over" => {
            warn(format_args!(
                "message {} did not get out: {}",
                line.text("id"),
                line.text("reason")
            ));
        }
        "message-routed" if is_idle_idea(line) => {
            warn(format_args!(
                "the idea reached nobody: no role watches `{IDEA_LABEL}`"
            ));
        }
        "writes-unclaimed" => {
            for write in writes(line) {
                warn(format_args!(
                    "{} no longer makes a write that it made before: {write}",
                    name(line)
                ));
            }
        }
        "writes-forgotten" => {
            for write in writes(line) {
                warn(format_args!(
                    "{} starts afresh and may make a write again that it made before: {write} (a resume with \
                     `--calls reuse` is served the recorded response)",
                    name(line)
                ));
            }
        }
        _ => {}
    }
}

/// Writes a warning on one line.
fn warn(text: impl Display) {
    terminal::warn(one_line(&text.to_string()));
}

/// Returns whether the line is the idea, and no role received it.
fn is_idle_idea(line: &Line) -> bool {
    let reached = line.fields.get("to").and_then(serde_json::Value::as_array);
    let nobody = reached.is_some_and(Vec::is_empty);
    nobody && line.text("cause_by") == IDEA_LABEL && line.text("from").is_empty()
}

/// Returns `ROLE.ACTION`, or the role if the event names no action.
fn name(line: &Line) -> String {
    let name = [line.text("role"), line.text("action")].join(".");
    name.trim_end_matches('.').to_owned()
}

/// Returns the writes that an event lists.
fn writes(line: &Line) -> impl Iterator<Item = &str> {
    let writes = line
        .fields
        .get("writes")
        .and_then(serde_json::Value::as_array);
    writes
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str)
}

/// Returns the index and the name of an action. The index is -1 for `think` and `answer`.
pub(super) fn place(role: &Role, work: Option<Work>) -> (i32, &str) {
    match work {
        Some(Work::Act { action, .. }) => (i32::from(action.0), &role.action(action).name),
        Some(Work::Plan) => (0, &role.actions[0].name),
        Some(Work::Answer) => (-1, "answer"),
        Some(Work::Think { .. }) | None => (-1, "think"),
    }
}
