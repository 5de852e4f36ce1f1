//! What keeps a run from going on: what people have to answer, what failed and how to correct it,
//! and the commands that continue the run.

use maud::{Markup, html};
use strata_core::record::event::Status;

use super::super::{Excerpt, Report, Standing};
use super::faults::open_fault;
use super::status::Appearance;
use super::text::{commands, labelled, whole_text};
use super::time::{format_time, pluralize};
use strata_view::{
    ExhaustedBudget, HolderState, JoinView, RequestView, RunEnding, SuggestedCommand,
};

/// The maximum number of faults, of requests, and of other open items shown.
const MAX_ITEMS: usize = 20;
/// The maximum number of characters of a question, of arguments and of a schema.
const TEXT_CHARS: usize = 8_000;

/// Returns whether anything keeps the run from going on.
pub(super) fn is_shown(report: &Report) -> bool {
    match &report.standing {
        None => report.overview.checkpoint.is_some() && report.storage.has_events,
        Some(standing) => {
            let ending = &standing.ending;
            ending.status != Status::Done || !ending.requests.requests.is_empty()
        }
    }
}

/// Returns the section, if anything keeps the run from going on.
pub(super) fn section(report: &Report) -> Markup {
    html! {
        @if is_shown(report) {
            section #attention aria-label="Status" {
                @match &report.standing {
                    None => (earlier_state(report)),
                    Some(standing) => (open_items(report, standing)),
                }
            }
        }
    }
}

/// Returns the panel of a state that is not the newest one.
fn earlier_state(report: &Report) -> Markup {
    html! {
        div.panel.cut {
            h2 { "An earlier state" }
            p {
                "This page shows the run as it was at checkpoint "
                code { (report.overview.checkpoint.as_deref().unwrap_or_default()) } "."
            }
        }
    }
}

fn open_items(report: &Report, standing: &Standing) -> Markup {
    let ending = &standing.ending;
    html! {
        (holder(standing))
        @if !ending.faults.is_empty() { (faults(standing)) }
        @if !ending.undelivered.is_empty() { (undelivered(standing)) }
        @if !ending.in_doubt.is_empty() { (in_doubt(standing)) }
        @if !ending.requests.requests.is_empty() { (requests(standing)) }
        @if let Some(exhausted) = &ending.exhausted_budget { (out_of_budget(standing, exhausted)) }
        @if ending.status == Status::Stalled { (stalled(standing)) }
        @if has_own_panel(ending) {
            div.panel.(Appearance::of_run(report).class) {
                h2 { (Appearance::of_run(report).tag()) " at step " (ending.step) }
                (resume(standing, "Resume with"))
            }
        }
    }
}

/// Returns whether no other panel says why the run does not go on.
fn has_own_panel(ending: &RunEnding) -> bool {
    match ending.status {
        Status::Done | Status::Stalled => false,
        Status::Failed => ending.faults.is_empty() && ending.undelivered.is_empty(),
        Status::InDoubt => ending.in_doubt.is_empty(),
        Status::Waiting => ending.requests.requests.is_empty(),
        Status::OutOfBudget => ending.exhausted_budget.is_none(),
        _ => true,
    }
}

/// Returns the commands that continue the run, unless a process works on it.
fn resume(standing: &Standing, title: &str) -> Markup {
    let is_held = matches!(standing.holder, HolderState::HeldBy(_));
    html! {
        @if !is_held && !standing.ending.resume_commands.is_empty() {
            h3 { (title) }
            (commands(&standing.ending.resume_commands))
        }
    }
}

/// Returns which process works on the run, if one does.
fn holder(standing: &Standing) -> Markup {
    html! {
        @if let HolderState::HeldBy(pid) = standing.holder {
            div.panel.live {
                p {
                    (Appearance::of_status(Status::Running).tag()) " A process"
                    @if let Some(pid) = pid { " (" (pid) ")" }
                    " works on this run. The page shows what it had recorded by then."
                }
            }
        }
    }
}

fn faults(standing: &Standing) -> Markup {
    let faults = &standing.ending.faults;
    let finished = &standing.ending.finished_actions;
    html! {
        div.panel.bad {
            h2 { (pluralize(faults.len(), "fault", "faults")) }
            @for (place, fault) in faults.iter().take(MAX_ITEMS).enumerate() {
                (open_fault(fault, place))
            }
            (more(faults.len()))
            @if !finished.is_empty() {
                p.note {
                    "Finished, and not run again: "
                    (finished.iter().take(MAX_ITEMS).cloned().collect::<Vec<_>>().join(", "))
                    (more(finished.len()))
                }
            }
            @if standing.ending.status == Status::Failed {
                (resume(standing, "Correct it, then resume with"))
            }
        }
    }
}

fn undelivered(standing: &Standing) -> Markup {
    let ending = &standing.ending;
    let is_only_reason = ending.status == Status::Failed && ending.faults.is_empty();
    html! {
        div.panel.bad {
            h2 { "Messages that could not be handed over" }
            ul {
                @for message in ending.undelivered.iter().take(MAX_ITEMS) {
                    li {
                        b { (message.id) } " for " (message.to.join(", ")) ": " (message.reason)
                        @if let Some(location) = &message.location {
                            p.advice { b { "How to fix it" } " see " code { "[env.external]" } " (" (location) ")" }
                        }
                    }
                }
            }
            (more(ending.undelivered.len()))
            @if is_only_reason { (resume(standing, "Correct it, then resume with")) }
        }
    }
}

fn in_doubt(standing: &Standing) -> Markup {
    let ending = &standing.ending;
    html! {
        div.panel.bad {
            h2 { (Appearance::of_status(Status::InDoubt).tag()) " Nobody knows whether this took effect" }
            ul {
                @for doubt in ending.in_doubt.iter().take(MAX_ITEMS) {
                    li { code { (doubt.what) } " " span.note { (doubt.id) } }
                }
            }
            (more(ending.in_doubt.len()))
            @if ending.status == Status::InDoubt {
                (resume(standing, "Find out, then resume with one of"))
            }
        }
    }
}

fn requests(standing: &Standing) -> Markup {
    let open = &standing.ending.requests;
    html! {
        div.panel.held {
            h2 {
                (Appearance::of_status(Status::Waiting).tag()) " "
                (pluralize(open.requests.len(), "open question", "open questions"))
            }
            @for request in open.requests.iter().take(MAX_ITEMS) { (request_card(request)) }
            (more(open.requests.len()))
            @if let Some(command) = &open.answer_command {
                h3 { "Answer with" }
                (commands([command]))
            }
            @if standing.ending.status == Status::Waiting { (resume(standing, "Then resume with")) }
        }
    }
}

/// Returns a question: what is asked, what it is about, and which answers there are.
fn request_card(request: &RequestView) -> Markup {
    html! {
        article.card {
            p.who { b { (request.role) "." (request.action) } " asks " span.note { (request.id) } }
            p.question { (request.question.trim()) }
            @if let Some(text) = &request.said {
                (labelled("what the model said with it", &Excerpt::from_text(text, TEXT_CHARS)))
            }
            @if let Some(arguments) = &request.arguments {
                (whole_text(&Excerpt::from_text(arguments.as_str(), TEXT_CHARS)))
                p.note {
                    "Answers: " code { "{\"approve\": true}" } ", "
                    code { "{\"approve\": false, \"reason\": \"…\"}" } ", or "
                    code { "{\"approve\": true, \"arguments\": {…}}" } " to change them"
                }
            } @else if !request.choices.is_empty() {
                p { "One of " @for choice in &request.choices { code { (choice) } " " } }
            } @else if let Some(schema) = &request.schema {
                (labelled("JSON that matches", &Excerpt::from_text(schema.as_str(), TEXT_CHARS)))
            }
            @if let Some(expires_ms) = request.expires_ms {
                p.note {
                    "Until " (format_time(expires_ms)) ". "
                    @match &request.default {
                        Some(default) => { "Then this is taken: " code { (default.as_str()) } },
                        None if request.arguments.is_some() => "Then the call is not made.",
                        None => "Then the question fails.",
                    }
                }
            }
        }
    }
}

fn out_of_budget(standing: &Standing, exhausted: &ExhaustedBudget) -> Markup {
    let whose = match (&exhausted.cap_scope, &exhausted.role) {
        (Some(scope), _) => format!("the cap of {scope}"),
        (None, Some(role)) => format!("the budget of role {role}"),
        (None, None) => "the budget of the team".into(),
    };
    html! {
        div.panel.held {
            h2 { (Appearance::of_status(Status::OutOfBudget).tag()) " " (whose) " is used up" }
            p {
                (exhausted.spent.to_string()) @if let Some(most) = exhausted.max_spend { " of " (most.to_string()) }
                " spent"
                @if let Some(most) = exhausted.max_tokens { ", " (exhausted.tokens) " of " (most) " tokens used" }
            }
            @if standing.ending.status == Status::OutOfBudget { (resume(standing, "Resume with")) }
        }
    }
}

fn stalled(standing: &Standing) -> Markup {
    let ending = &standing.ending;
    let join = |join: &JoinView| {
        html! {
            li {
                "Join " b { (join.id) } " waits for " (join.missing.join(", ")) ", and no role is running. It holds "
                @for (place, source) in join.sources.iter().enumerate() {
                    @if place > 0 { ", " }
                    (source.held) " from " (source.role)
                }
            }
        }
    };
    let send: Option<&SuggestedCommand> = ending.send_command.as_ref();
    html! {
        div.panel.bad {
            h2 { (Appearance::of_status(Status::Stalled).tag()) " Messages are missing" }
            ul { @for waiting in ending.waiting_joins.iter().take(MAX_ITEMS) { (join(waiting)) } }
            (more(ending.waiting_joins.len()))
            h3 { "Send what is missing with" }
            (commands(send))
            (resume(standing, "Then resume with"))
        }
    }
}

/// Returns how many items are not shown.
fn more(count: usize) -> Markup {
    html! {
        @if count > MAX_ITEMS {
            p.omitted { "and " (count - MAX_ITEMS) " more" }
        }
    }
}
