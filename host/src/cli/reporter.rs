//! What a person sees of a run on stderr: a line per finished action, the whole story at a fault, the end.

use std::path::Path;

use strata_core::activation::{Activation, Phase};
use strata_core::budget::Purse;
use strata_core::event::{HostCall, Outcome, Status, Work};
use strata_core::fault::Fault;
use strata_core::message::IDEA_LABEL;
use strata_core::money::Usd;
use strata_core::stepper::Stepper;
use strata_core::team::Role;

use super::requests::{command, listing, plain};
use super::{joins, note, preview, shell_word};
use crate::launch::{Doubt, doubts};
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

/// How many of the last calls of the host are shown.
const CALLS: usize = 5;

/// Tells a run as it goes.
pub(super) struct Reporter {
    loudness: Loudness,
    /// The time of the first line, which the times shown count from.
    began_ms: Option<i64>,
}

impl Reporter {
    pub(super) fn new(loudness: Loudness) -> Self {
        Self { loudness, began_ms: None }
    }

    /// Tells one public line, where it is worth telling.
    pub(super) fn tell(&mut self, line: &Line) {
        let began_ms = *self.began_ms.get_or_insert(line.time_ms);
        match line.kind {
            "dead-letter" => {
                let (id, to, reason) = (line.text("id"), line.text("to"), line.text("reason"));
                note(format_args!("warning: message {id} for `{to}` reached nobody: {reason}"));
            }
            "message-dropped" => {
                note(format_args!("warning: message {} was dropped: {}", line.text("id"), line.text("reason")));
            }
            "message-not-handed-over" => {
                note(format_args!("warning: message {} did not get out: {}", line.text("id"), line.text("reason")));
            }
            "message-routed" if is_idle_idea(line) => {
                note(format_args!("warning: the idea reached nobody: no role watches `{IDEA_LABEL}`"));
            }
            "writes-unclaimed" => {
                for write in writes(line) {
                    note(format_args!("warning: {} no longer makes a write that it made before: {write}", name(line)));
                }
            }
            "writes-forgotten" => {
                for write in writes(line) {
                    note(format_args!(
                        "warning: {} starts afresh and may make a write again that it made before: {write} (a resume with \
                         `--calls reuse` is served the recorded response)",
                        name(line)
                    ));
                }
            }
            _ if self.loudness == Loudness::Quiet => {}
            "action-finished" => {
                let output = line.fields.get("output").and_then(|o| o.get("content")).and_then(|c| c.as_str());
                say(line, began_ms, &format!("ok    {}", preview(output.unwrap_or_default(), PREVIEW)));
            }
            "action-failed" => {
                let again = line.fields.get("retry_ms").map(|pause| format!(", tried again after {pause} ms"));
                let message = preview(line.text("message"), PREVIEW);
                say(line, began_ms, &format!("FAILED{}  {message}", again.unwrap_or_default()));
            }
            "request-opened" => {
                let question = preview(&plain(line.text("question")), PREVIEW);
                say(line, began_ms, &format!("asks  {question}"));
            }
            "forked" => {
                let (lineage, parent) = (line.text("lineage"), line.text("parent"));
                note(format_args!("goes on from `{parent}` as lineage `{lineage}`; what came after it stays saved"));
            }
            "component-changed" => {
                note(format_args!("component of {}.{} was replaced", line.text("role"), line.text("action")));
            }
            _ => {}
        }
    }

    /// Tells how the run ended: what failed, what is saved, how to go on.
    pub(super) fn end(&self, status: Status, stepper: &Stepper, storage: &Path) {
        let env = stepper.env();
        let resume = format!("strata-host run --recover_path {}", shell_word(&storage.to_string_lossy()));
        for (id, activation) in env.failed() {
            if let Phase::Failed(fault) = &activation.phase {
                failed(stepper.team().role(id), activation, fault);
            }
        }
        if env.requests().next().is_some() {
            note("open requests:");
            listing(stepper).iter().for_each(note);
        }
        for outbound in env.outbox.iter().filter(|outbound| outbound.failed.is_some()) {
            let (id, to) = (&env.message(outbound.message).id, outbound.to.join(", "));
            let why = outbound.failed.as_deref().unwrap_or_default();
            note(format_args!("fault: message {id} for {to} could not be handed over to `[env.external]`: {why}"));
        }
        for Doubt { id, what, .. } in doubts(stepper) {
            note(format_args!("in doubt: {id}: `{what}` was begun, and whether it took effect is not known"));
        }
        let saved = format!("saved in `{}`", storage.display());
        match status {
            Status::Done if self.loudness == Loudness::Quiet => {}
            Status::Done => note(format_args!("done after {}; {saved}", steps(env.step))),
            Status::Failed => {
                note(format_args!("failed at step {}; {saved}; mend and go on with:\n  {resume}", env.step))
            }
            Status::Interrupted => {
                note(format_args!("interrupted at step {}; {saved}; go on with:\n  {resume}", env.step))
            }
            Status::StepLimit => {
                let steps = steps(env.step);
                note(format_args!("step limit reached after {steps}; {saved}; go on with:\n  {resume} --max-steps N"));
            }
            Status::OutOfBudget => {
                note(format_args!("out of budget: {}; {saved}; go on with:", exhausted(stepper)));
                note(format_args!("  {resume} {}", more(stepper)));
            }
            Status::InDoubt => {
                note(format_args!("in doubt at step {}; {saved}; find out, then go on with one of:", env.step));
                note(format_args!("  {resume} --in-doubt redo     # make it again"));
                note(format_args!("  {resume} --in-doubt skip     # go on without it"));
                note(format_args!(
                    "  {resume} --in-doubt '{{\"status\":200,\"body\":\"…\"}}'     # this was its response"
                ));
            }
            Status::Stalled => stalled(stepper, &saved, &resume, &shell_word(&storage.to_string_lossy())),
            Status::Waiting => {
                note(format_args!("waiting for a person at step {}; {saved}; answer with:", env.step));
                note(format_args!("  {}\nthen go on with:\n  {resume}", command(stepper, storage)));
            }
            other => note(format_args!("{}; {saved}; go on with:\n  {resume}", other.name())),
        }
    }
}

/// Tells what failed: where, why, and what it did last.
fn failed(role: &Role, activation: &Activation, fault: &Fault) {
    let (index, action) = place(role, activation.work(role));
    let kind = narrator::fault_kind(activation.work(role), fault).name();
    let cause = fault.message.lines().next().unwrap_or_default();
    let attempt = activation.current.attempts;
    note(format_args!("fault: {} action {index} `{action}` attempt {attempt}: {kind}: {cause}", role.name));
    let rest = fault.message.lines().skip(1).map(str::to_owned);
    rest.for_each(|line| note(format_args!("    {line}")));
    section("stack of the guest, innermost first", fault.backtrace.iter().take(FRAMES));
    section("what it logged last", fault.log.iter());
    let calls = &activation.current.journal;
    let last: Vec<String> = calls[calls.len().saturating_sub(CALLS)..].iter().map(called).collect();
    section("its last calls of the host, and what came back", last.iter());
}

/// A call of the host, and what came back.
fn called(call: &HostCall) -> String {
    let response = call.response.value();
    let told = ["text", "body", "message"].iter().find_map(|field| response[*field].as_str().map(str::to_owned));
    let told = told.unwrap_or_else(|| call.response.as_str().to_owned());
    let failed = if call.outcome == Outcome::Answered { "" } else { "failed: " };
    format!("{:<6} {failed}{}", call.kind.name(), preview(&plain(&told), PREVIEW))
}

/// Tells which joins wait for what, and how they may get it.
fn stalled(stepper: &Stepper, saved: &str, resume: &str, storage: &str) {
    note(format_args!("stalled after {}; {saved}", steps(stepper.env().step)));
    let mut someone = None;
    for standing in joins::standings(stepper).filter(|standing| !standing.missing.is_empty()) {
        let (id, missing) = (&standing.join.id, standing.missing_text());
        note(format_args!("  join `{id}` waits for {missing}, and nobody is at work; it holds {}", standing.held()));
        someone = someone.or(standing.missing.first().map(|name| shell_word(name)));
    }
    let someone = someone.unwrap_or_default();
    note(format_args!("give it what is missing, and go on with:"));
    note(format_args!("  strata-host send {storage} --to {someone} --cause LABEL CONTENT\n  {resume}"));
}

/// Whose budget is used up, and how far.
fn exhausted(stepper: &Stepper) -> String {
    let (team, env) = (stepper.team(), stepper.env());
    let of = |spent: Usd, max: Option<Usd>| max.map(|max| format!("{spent} of {max}"));
    let tokens = |used: u64, max: Option<u64>| max.map(|max| format!("{used} of {max} tokens"));
    match stepper.purses().next() {
        Some(Purse::Role(id)) => {
            let (used, caps) = (env.spending(|at| at.role == id), team.policy.purses.roles.get(&id));
            let caps = caps.copied().unwrap_or_default();
            let parts = [of(used.usd, caps.usd), tokens(used.tokens, caps.tokens)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("role {} used {}", team.role(id).name, parts.join(" and "))
        }
        _ => {
            let used = env.spending(|_| true);
            let parts = [of(env.spent, env.budget), tokens(used.tokens, team.policy.purses.tokens)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            format!("spent {}", parts.join(" and "))
        }
    }
}

/// What a resume needs to go on.
fn more(stepper: &Stepper) -> &'static str {
    let team = stepper.team();
    let broke = stepper.env().budget.is_some_and(|max| stepper.env().spent >= max);
    match stepper.purses().next() {
        Some(Purse::Role(_)) => "TEAM.toml   # with more `investment` or `tokens` for the role",
        _ if !broke && team.policy.purses.tokens.is_some() => "TEAM.toml   # with more `tokens` for the team",
        _ => "--investment USD",
    }
}

/// Whether this is the idea, and nobody took it up.
fn is_idle_idea(line: &Line) -> bool {
    let reached = line.fields.get("to").and_then(serde_json::Value::as_array);
    let nobody = reached.is_some_and(Vec::is_empty);
    nobody && line.text("cause_by") == IDEA_LABEL && line.text("from").is_empty()
}

/// One line about one action, or about all of a role.
fn say(line: &Line, began_ms: i64, what: &str) {
    let step = line.fields.get("step").and_then(serde_json::Value::as_u64).unwrap_or_default();
    let seconds = (line.time_ms - began_ms) as f64 / 1000.0;
    let name = name(line);
    note(format_args!("{seconds:7.1}s  step {step:<3} {name:<28} {what}"));
}

/// `ROLE.ACTION`, or the role where no action is named.
fn name(line: &Line) -> String {
    let name = [line.text("role"), line.text("action")].join(".");
    name.trim_end_matches('.').to_owned()
}

/// The writes that a line lists.
fn writes(line: &Line) -> impl Iterator<Item = &str> {
    let writes = line.fields.get("writes").and_then(serde_json::Value::as_array);
    writes.into_iter().flatten().filter_map(serde_json::Value::as_str)
}

/// The index of an action, and its name; -1 for what is no action.
pub(super) fn place(role: &Role, work: Option<Work>) -> (i32, &str) {
    match work {
        Some(Work::Act { action, .. }) => (i32::from(action.0), &role.action(action).name),
        Some(Work::Plan) => (0, &role.actions[0].name),
        Some(Work::Answer) => (-1, "answer"),
        Some(Work::Think { .. }) | None => (-1, "think"),
    }
}

fn section<'a>(title: &str, lines: impl Iterator<Item = &'a String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        note(format_args!("  {title}:"));
        lines.for_each(|line| note(format_args!("    {line}")));
    }
}

/// A number of steps, in words.
fn steps(count: u64) -> String {
    if count == 1 { "1 step".into() } else { format!("{count} steps") }
}
