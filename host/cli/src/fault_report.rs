//! Renders a fault for the operator: what failed, where and why, what it did last, and how it can be
//! fixed.

use strata_core::record::host_call::CallOutcome;
use strata_host::view::{FailedToolCall, FaultView, HostCallView};
use strata_host::wording::{ResumeTrigger, describe_advice};

use super::preview;
use super::printer::{FAILURE, Printer};
use super::sanitize::sanitize;

/// The maximum number of stack frames shown.
const MAX_FRAMES: usize = 8;
/// The maximum number of characters shown of a response.
const PREVIEW_CHARS: usize = 60;
/// The maximum number of characters shown of a tool call's arguments, and of the model's reply.
const ARGUMENT_CHARS: usize = 200;
/// The maximum number of finished actions that are named.
const MAX_NAMED_ACTIONS: usize = 6;

/// Writes a fault to stderr.
pub(super) fn report_fault(fault: &FaultView, trigger: ResumeTrigger, printer: &Printer) {
    let on_stderr = |line: &str| printer.note(line);
    let head = printer.styled(FAILURE, "fault:");
    printer.note(format_args!("{head} {}", sanitize(&fault.headline())));
    for line in sanitize(&fault.message).lines().skip(1) {
        printer.note(format_args!("    {line}"));
    }
    let is_by_model = |call: &FailedToolCall| !call.model.is_empty();
    write_section(
        if fault.tool_call.as_ref().is_some_and(is_by_model) {
            "what the model asked for"
        } else {
            "the arguments"
        },
        fault.tool_call.iter().flat_map(describe_tool_call),
        on_stderr,
    );
    write_section(
        "stack of the guest, innermost first",
        fault.guest_frames().iter().take(MAX_FRAMES).cloned(),
        on_stderr,
    );
    write_section("what it logged last", fault.log.iter().cloned(), on_stderr);
    write_section(
        "its last host calls and their results",
        fault.last_calls.iter().map(describe_host_call),
        on_stderr,
    );
    let advice = describe_advice(&fault.advice, trigger);
    write_section("how to fix it", advice.into_iter(), on_stderr);
}

/// Returns the tool call that failed, and the text of the reply that asked for it. `try` calls without a model.
fn describe_tool_call(call: &FailedToolCall) -> Vec<String> {
    let reply = preview(&call.reply, ARGUMENT_CHARS);
    let arguments = preview(&call.arguments, ARGUMENT_CHARS);
    if call.model.is_empty() {
        return vec![arguments];
    }
    let FailedToolCall {
        model,
        turn,
        tool_call,
        ..
    } = call;
    let description = format!("model {model}, turn {turn}, call {tool_call}: {arguments}");
    if reply.is_empty() {
        vec![description]
    } else {
        vec![description, format!("it said: {reply}")]
    }
}

/// Returns a host call and its response on one line.
pub(super) fn describe_host_call(call: &HostCallView) -> String {
    let response = describe_response(call.outcome, &call.response);
    format!(
        "{:<6} {}",
        call.kind.name(),
        preview(&response, PREVIEW_CHARS)
    )
}

/// Returns the response of a host call, marked if the call failed.
pub(super) fn describe_response(outcome: CallOutcome, response: &str) -> String {
    match outcome {
        CallOutcome::Answered => response.to_owned(),
        CallOutcome::Failed | CallOutcome::Unknown => format!("failed: {response}"),
    }
}

/// Lists the actions that are finished in the open step and will not be repeated.
pub(super) fn list_finished(names: &[String], printer: &Printer) {
    if names.is_empty() {
        return;
    }
    let more = match names.len().saturating_sub(MAX_NAMED_ACTIONS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = names[..names.len().min(MAX_NAMED_ACTIONS)].join(", ");
    printer.note(format_args!("finished, and not run again: {named}{more}"));
}

/// Writes lines below a title, if there are any.
pub(super) fn write_section(title: &str, lines: impl Iterator<Item = String>, tell: impl Fn(&str)) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        tell(&format!("  {title}:"));
        for text in lines {
            for line in sanitize(&text).split('\n') {
                tell(&format!("    {line}"));
            }
        }
    }
}
