//! Replies of models, with the tool calls that they led to, as rows of the activity.

use maud::{Markup, html};
use strata_core::record::money::Usd;

use super::super::super::{
    FirstAndNewest, NestedCallEntry, ReplacementEntry, Report, ToolCallEntryOutcome,
};
use super::super::status::Appearance;
use super::super::text::{gap_row, labelled, text};
use super::super::time::{format_duration, format_money, format_number, pluralize};
use super::entry::{
    attempt_figures, attempt_row, host_calls, message_body, notes, outcome, recipients,
};
use super::stream::{NestedRun, ToolRun, TurnRun};

/// More calls of code are folded.
const OPEN_NESTED_CALLS: usize = 8;

/// Returns a reply of a model.
pub(super) fn turn_row(report: &Report, turn: &TurnRun<'_>) -> Markup {
    let (attempt, reply) = (turn.run.attempt, turn.turn);
    let tokens: u64 = turn.run.calls.iter().map(|call| call.tokens).sum();
    let has_text = !reply.text.shown.trim().is_empty();
    html! {
        li.entry.turn.bad[reply.misfit.is_some()] id={ "a" (attempt.id) } {
            div.head {
                span.mark { "◆" } " " b { (attempt.role_name) } " "
                span.note {
                    (reply.model) ", turn " (reply.number)
                    @if reply.finish != "stop" { ", " (reply.finish) }
                    @if tokens > 0 { ", " (format_number(tokens)) " tokens" }
                }
                " "
                @if attempt.number > 1 { span.again { "attempt " (attempt.number) } " " }
                @if turn.run.calls.iter().any(|call| call.recorded) {
                    span.tag { "served from the journal" } " "
                }
                @if let Some(message) = turn.run.message { (recipients(message)) }
                (attempt_figures(attempt))
            }
            @for replacement in &turn.replacements { (replacement_note(replacement)) }
            @if let Some(reasoning) = &reply.reasoning { div.reasoning { (labelled("reasoning", reasoning)) } }
            @if let Some(message) = turn.run.message {
                (message_body(message))
            } @else if has_text || turn.tools.is_empty() {
                (text(&reply.text))
            }
            @if let Some(misfit) = &reply.misfit { (labelled("not accepted", misfit)) }
            @if !turn.tools.is_empty() {
                ol.tools {
                    @for tool in &turn.tools { (tool_row(report, tool)) }
                    @if let Some((_, count)) = reply.calls.gap() {
                        (gap_row(count, "tool call is", "tool calls are"))
                    }
                }
            }
        }
    }
}

/// Returns which earlier messages the model was not sent any more, and what it was sent in their place.
fn replacement_note(replacement: &ReplacementEntry) -> Markup {
    let (before, after) = replacement.tokens;
    html! {
        div.replaced {
            p.note {
                @match replacement.messages {
                    Some((from, to)) => { "Before this turn, messages " (from) " to " (to) " were replaced" },
                    None => "Before this turn, no message could be replaced",
                }
                " (" (replacement.how) "): about " (format_number(after)) " tokens instead of " (format_number(before))
                @if replacement.cost > Usd::ZERO { ", " (format_money(replacement.cost)) }
                "."
            }
            @if let Some(summary) = &replacement.summary { (labelled("summary", summary)) }
            @if let Some(failure) = &replacement.failure { (labelled("no summary", failure)) }
        }
    }
}

/// Returns a tool call: what was asked for and what came of it, then its attempts.
fn tool_row(report: &Report, tool: &ToolRun<'_>) -> Markup {
    let call = tool.call;
    let look = Appearance::of_tool_call(call.outcome);
    let (last, earlier) = match tool.attempts.split_last() {
        Some((last, earlier)) => (Some(last), earlier),
        None => (None, &[][..]),
    };
    html! {
        li.tool.(look.class) id=[last.map(|run| format!("a{}", run.attempt.id))] {
            div.head {
                (look.mark()) " " b { (call.tool) } " "
                // Only tools of servers have such names.
                @if let Some((server, _)) = call.tool.split_once('/') { span.note { "of the MCP server " (server) } " " }
                @if call.attempts > 1 { span.again { (call.attempts) " attempts" } " " }
                @if let Some(person) = &call.decided_by { span.note { "decided by " (person.shown) } " " }
                (tool_figures(tool))
            }
            (labelled("with", &call.arguments))
            @if let Some(edited) = &call.edited_arguments { (labelled("changed by a person to", edited)) }
            (nested_calls(report, &tool.nested, &call.nested))
            @match call.outcome {
                ToolCallEntryOutcome::Returned => (labelled("returned", &call.text)),
                ToolCallEntryOutcome::Rejected | ToolCallEntryOutcome::Declined => (labelled("because", &call.text)),
                _ => {}
            }
            @if let Some(run) = last {
                @if call.outcome != ToolCallEntryOutcome::Returned { (outcome(report, run)) }
                (notes(run.attempt))
                (host_calls(&run.calls))
            } @else if call.outcome == ToolCallEntryOutcome::FaultReturned {
                (text(&call.text))
            }
            @if !earlier.is_empty() {
                details.calls {
                    summary.note { "earlier attempts" }
                    ol.stream { @for run in earlier { (attempt_row(report, run)) } }
                }
            }
        }
    }
}

/// Returns the calls that the code of a tool made, each with what came of it.
fn nested_calls(
    report: &Report,
    runs: &[NestedRun<'_>],
    calls: &FirstAndNewest<NestedCallEntry>,
) -> Markup {
    html! {
        @if !runs.is_empty() {
            details.calls open[runs.len() <= OPEN_NESTED_CALLS] {
                summary.note { (pluralize(calls.total(), "call of its code", "calls of its code")) }
                ol.tools {
                    @for run in runs { (nested_row(report, run)) }
                    @if let Some((_, count)) = calls.gap() { (gap_row(count, "call is", "calls are")) }
                }
            }
        }
    }
}

fn nested_row(report: &Report, run: &NestedRun<'_>) -> Markup {
    let call = run.call;
    let look = Appearance::of_tool_call(call.outcome);
    html! {
        li.tool.(look.class) {
            div.head {
                (look.mark()) " " b { (call.tool) } " "
                @if call.attempts > 1 { span.again { (call.attempts) " attempts" } " " }
                @if let Some(person) = &call.decided_by { span.note { "decided by " (person.shown) } " " }
            }
            (labelled("with", &call.arguments))
            (nested_calls(report, &run.nested, &call.nested))
            @if !call.text.shown.is_empty() { (labelled(text_label(call.outcome), &call.text)) }
            @for attempt in &run.attempts { (notes(attempt.attempt)) (host_calls(&attempt.calls)) }
        }
    }
}

fn text_label(outcome: ToolCallEntryOutcome) -> &'static str {
    match outcome {
        ToolCallEntryOutcome::Returned => "returned",
        _ => "because",
    }
}

/// Returns what the attempts of a tool call cost together, and how long they took.
fn tool_figures(tool: &ToolRun<'_>) -> Markup {
    let took: i64 = tool
        .attempts
        .iter()
        .map(|run| run.attempt.span_ms.1 - run.attempt.span_ms.0)
        .sum();
    html! {
        span.figures {
            @if tool.call.cost > Usd::ZERO { span.cost { (format_money(tool.call.cost)) } " " }
            @if !tool.attempts.is_empty() { span.took { (format_duration(took)) } }
        }
    }
}
