//! Renders a fault for the operator: what failed, where and why, what it did last, and how it can be
//! fixed.

use strata_core::record::host_call::CallOutcome;
use strata_host::view::{FailedToolCall, FaultView, HostCallView};
use strata_host::wording::{ResumeTrigger, describe_advice};

use super::printer::{FAILURE, Printer};
use super::sanitize::sanitize;
use super::{pluralize, preview, shell_word};

/// The maximum number of stack frames shown.
const MAX_FRAMES: usize = 8;
/// The maximum number of characters shown of a line of a fault's message.
const LINE_CHARS: usize = 1000;
/// The maximum numbers of lines shown of the beginning and of the end of a fault's message.
const FIRST_LINES: usize = 60;
const LAST_LINES: usize = 40;
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
    // The rest of the message follows its first line.
    let (headline, message) = (sanitize(&fault.headline()), sanitize(&fault.message));
    let mut lines = vec![headline.as_str()];
    lines.extend(message.lines().skip(1));
    let shown = match trigger {
        // Nothing else shows all of it.
        ResumeTrigger::Never => lines.iter().copied().map(str::to_owned).collect(),
        ResumeTrigger::ByCommand | ResumeTrigger::ByFileChange => shorten_message(&lines),
    };
    printer.note(format_args!(
        "{head} {}",
        shown.first().map_or("", String::as_str)
    ));
    for line in shown.iter().skip(1) {
        printer.note(format_args!("    {line}"));
    }
    if shown != lines {
        let action = shell_word(&fault.advice.action);
        printer.note(format_args!(
            "    (all of it: `inspect` with `--action {action}`)"
        ));
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

/// Returns the lines of a fault's message as they are shown: of long lines the beginning, of many the first and the last.
pub(super) fn shorten_message(lines: &[&str]) -> Vec<String> {
    let left_out = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
    let mut shown: Vec<String> = lines.iter().copied().map(shorten_line).collect();
    if left_out > 0 {
        let note = format!("… ({} more)", pluralize(left_out as u64, "line"));
        shown.splice(FIRST_LINES..FIRST_LINES + left_out, [note]);
    }
    shown
}

fn shorten_line(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => {
            let more = pluralize(line[end..].chars().count() as u64, "character");
            format!("{}… ({more} more)", &line[..end])
        }
        None => line.to_owned(),
    }
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
    let response = describe_response(call.outcome.name(), &call.response);
    format!(
        "{:<6} {}",
        call.kind.name(),
        preview(&response, PREVIEW_CHARS)
    )
}

/// Returns the response of a host call with an outcome of this name, marked if the call failed.
pub(super) fn describe_response(outcome: &str, response: &str) -> String {
    if outcome == CallOutcome::Answered.name() {
        response.to_owned()
    } else {
        format!("failed: {response}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_lines_the_beginning_is_shown_and_of_many_lines_the_first_and_the_last() {
        let long = "ü".repeat(LINE_CHARS + 3);
        let shown = shorten_message(&["short", &long]);
        assert_eq!(shown[0], "short");
        assert_eq!(
            shown[1],
            format!("{}… (3 characters more)", "ü".repeat(LINE_CHARS))
        );
        let all: Vec<String> = (0..FIRST_LINES + LAST_LINES + 1)
            .map(|n| n.to_string())
            .collect();
        let lines: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(shorten_message(&lines[1..]), lines[1..]);
        let shown = shorten_message(&lines);
        assert_eq!(shown.len(), FIRST_LINES + 1 + LAST_LINES);
        assert_eq!(shown[FIRST_LINES], "… (1 line more)");
        assert_eq!(shown.last(), all.last());
    }
}
