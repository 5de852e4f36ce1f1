//! What a person sees of a run on stderr: a line per finished action, the whole story at a fault, the end.

use std::path::Path;
use std::time::Instant;

use strata_core::activation::Phase;
use strata_core::event::{Status, Work};
use strata_core::stepper::Stepper;
use strata_core::team::Role;

use crate::narrator::{self, Line};

/// How much is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Loudness {
    /// Only faults and the end of a run that is not done.
    Quiet,
    /// Every action.
    Normal,
}

/// The longest output shown in a line.
const PREVIEW: usize = 60;
/// How many frames of a guest's stack are shown.
const FRAMES: usize = 8;

/// Tells a run as it goes.
pub(super) struct Reporter {
    loudness: Loudness,
    /// When the first line was told: what came before it (builds) is not part of the run.
    began: Option<Instant>,
}

impl Reporter {
    pub(super) fn new(loudness: Loudness) -> Self {
        Self { loudness, began: None }
    }

    /// Tells one public line, where it is worth telling.
    pub(super) fn tell(&mut self, line: &Line) {
        self.began.get_or_insert_with(Instant::now);
        match line.kind {
            "dead-letter" => {
                let (id, to) = (line.text("id"), line.text("to"));
                eprintln!("warning: message {id} for `{to}` reached nobody: the team has no such role, alias or group");
            }
            "message-dropped" => {
                eprintln!("warning: message {} was dropped: {}", line.text("id"), line.text("reason"));
            }
            _ if self.loudness == Loudness::Quiet => {}
            "action-finished" => {
                let output = line.fields.get("output").and_then(|o| o.get("content")).and_then(|c| c.as_str());
                self.say(line, &format!("ok    {}", preview(output.unwrap_or_default())));
            }
            "action-failed" => self.say(line, &format!("FAILED  {}", preview(line.text("message")))),
            "component-changed" => {
                eprintln!("component of {}.{} was replaced", line.text("role"), line.text("action"));
            }
            _ => {}
        }
    }

    fn say(&self, line: &Line, what: &str) {
        let step = line.fields.get("step").and_then(serde_json::Value::as_u64).unwrap_or_default();
        let seconds = self.began.map_or(0.0, |began| began.elapsed().as_secs_f32());
        let name = format!("{}.{}", line.text("role"), line.text("action"));
        eprintln!("{seconds:7.1}s  step {step:<3} {name:<28} {what}");
    }

    /// Tells how the run ended: what failed, what is saved, how to go on.
    pub(super) fn end(&self, status: Status, stepper: &Stepper, storage: &Path) {
        let env = stepper.env();
        let resume = format!("strata-host run --recover_path {}", shell_word(&storage.to_string_lossy()));
        for (id, activation) in env.failed() {
            if let Phase::Failed(fault) = &activation.phase {
                let role = stepper.team().role(id);
                let (index, action) = place(role, activation.work(role));
                let kind = narrator::fault_kind(activation.work(role), fault).name();
                let cause = fault.message.lines().next().unwrap_or_default();
                let attempt = activation.current.attempts;
                eprintln!("fault: {} action {index} `{action}` attempt {attempt}: {kind}: {cause}", role.name);
                let rest = fault.message.lines().skip(1).map(str::to_owned);
                rest.for_each(|line| eprintln!("    {line}"));
                section("stack of the guest, innermost first", fault.backtrace.iter().take(FRAMES));
                section("what it logged last", fault.log.iter());
            }
        }
        let saved = format!("saved in `{}`", storage.display());
        match status {
            Status::Done if self.loudness == Loudness::Quiet => {}
            Status::Done => eprintln!("done after {}; {saved}", steps(env.step)),
            Status::Failed => eprintln!("failed at step {}; {saved}; mend and go on with:\n  {resume}", env.step),
            Status::Interrupted => eprintln!("interrupted at step {}; {saved}; go on with:\n  {resume}", env.step),
            Status::StepLimit => {
                let steps = steps(env.step);
                eprintln!("step limit reached after {steps}; {saved}; go on with:\n  {resume} --max-steps N");
            }
            Status::OutOfBudget => {
                let budget = env.budget.unwrap_or_default();
                eprintln!("out of budget: spent {} of {budget}; {saved}; go on with:", env.spent);
                eprintln!("  {resume} --investment USD");
            }
            other => eprintln!("{}; {saved}; go on with:\n  {resume}", other.name()),
        }
    }
}

fn place(role: &Role, work: Option<Work>) -> (i32, &str) {
    match work {
        Some(Work::Act { action, .. }) => (i32::from(action.0), &role.action(action).name),
        Some(Work::Plan) => (0, &role.actions[0].name),
        Some(Work::Think { .. }) | None => (-1, "think"),
    }
}

fn section<'a>(title: &str, lines: impl Iterator<Item = &'a String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        eprintln!("  {title}:");
        lines.for_each(|line| eprintln!("    {line}"));
    }
}

/// A text as one word of a shell's.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A number of steps, in words.
fn steps(count: u64) -> String {
    if count == 1 { "1 step".into() } else { format!("{count} steps") }
}

/// The beginning of a text on one line.
fn preview(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PREVIEW) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
