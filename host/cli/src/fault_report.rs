//! Renders a fault for the operator: what failed, where and why, what it did last, and how it can be
//! fixed.

use strata_core::record::host_call::CallOutcome;
use strata_host::view::{CodeSource, FailedToolCall, FaultAdvice, FaultView, HostCallView, Remedy};

use super::printer::{FAILURE, Printer};
use super::sanitize::sanitize;
use super::{display_relative_path, preview};

/// The maximum number of stack frames shown.
const MAX_FRAMES: usize = 8;
/// The maximum number of characters shown of a response.
const PREVIEW_CHARS: usize = 60;
/// The maximum number of characters shown of a tool call's arguments, and of the model's reply.
const ARGUMENT_CHARS: usize = 200;
/// The maximum number of finished actions that are named.
const MAX_NAMED_ACTIONS: usize = 6;

/// What continues the run after a fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResumeTrigger {
    /// Another command.
    ByCommand,
    /// `dev`, once a watched file has changed.
    ByFileChange,
    /// Nothing: the action was tried without a team.
    Never,
}

/// Writes a fault to stderr.
pub(super) fn report_fault(fault: &FaultView, trigger: ResumeTrigger, printer: &Printer) {
    let on_stderr = |line: &str| printer.note(line);
    let message = sanitize(&fault.message);
    let summary = message.lines().next().unwrap_or_default();
    let head = printer.styled(FAILURE, "fault:");
    let at = match fault.index {
        Some(index) => format!("{} action {index} `{}`", fault.role, fault.action),
        None => format!("{} `{}`", fault.role, fault.action),
    };
    printer.note(format_args!(
        "{head} {at} attempt {}: {}: {summary}",
        fault.attempt, fault.kind
    ));
    for line in message.lines().skip(1) {
        printer.note(format_args!("    {line}"));
    }
    write_section(
        "what the model asked for",
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

/// Returns the tool call that failed, and the text of the reply that asked for it.
fn describe_tool_call(call: &FailedToolCall) -> Vec<String> {
    let reply = preview(&call.reply, ARGUMENT_CHARS);
    let asked = format!(
        "model {}, turn {}, call {}: {}",
        call.model,
        call.turn,
        call.tool_call,
        preview(&call.arguments, ARGUMENT_CHARS)
    );
    if reply.is_empty() {
        vec![asked]
    } else {
        vec![asked, format!("it said: {reply}")]
    }
}

/// Returns the advice as text; `None` if the message of the fault says all that is known.
fn describe_advice(advice: &FaultAdvice, trigger: ResumeTrigger) -> Option<String> {
    let name = &advice.action;
    let place = location_in_parentheses(advice);
    let remedy = advice.remedy.as_ref()?;
    if trigger == ResumeTrigger::Never {
        return describe_trial_advice(remedy);
    }
    let text = match remedy {
        Remedy::RaiseLimit { may_loop: false, .. } => return None,
        Remedy::RaiseLimit { may_loop: true, .. } => {
            "if the action loops without end, a higher limit does not help: fix the action".into()
        }
        Remedy::AddGrant { grant } => format!(
            "grant it (`{}`) in `[role.action.allow]` of {name}{place}",
            grant.key()
        ),
        Remedy::WithheldGrant { reason, .. } => {
            format!("its operator does not allow it: {reason}")
        }
        Remedy::CheckService => {
            "check that the service it calls is up; recorded calls are reused, and not paid for again"
                .into()
        }
        Remedy::ConfigureModel => "say in the team file which model there is".into(),
        Remedy::AddScriptedReply => {
            "add a `[[reply]]` to the file of replies, or change the prompt".into()
        }
        Remedy::RecordAgain => {
            "record the run again (`--record`), or let its requests be what they were".into()
        }
        Remedy::RaiseActionBudget => format!("raise `investment` or `tokens` of {name}{place}"),
        Remedy::DeclareScope => "declare the scope in the team file, or name one that is there".into(),
        Remedy::RemoveSymbolicLink => "nothing is written through a link: take it away".into(),
        Remedy::SeparateDirectory => format!(
            "grant another directory to {name}{place}, or save the team elsewhere (`--storage`)"
        ),
        Remedy::ChangeDirectoryGrant => {
            format!("what {name} does in its directories is bounded: see `allow.dirs`{place}")
        }
        Remedy::FreeTemporarySpace => {
            "make room in the directory for temporary files, or set `TMPDIR` to another".into()
        }
        Remedy::Retry { retries: 0 } => format!(
            "it may succeed next time; set `limits.retries` of {name} to retry it automatically{place}"
        ),
        Remedy::Retry { retries } => format!(
            "it was tried {} times, as `limits.retries` of {name} says{place}; a resume allows as many tries again",
            retries + 1
        ),
        Remedy::ChangeCode { source } => describe_code_change(source, &place, trigger),
    };
    Some(text)
}

/// Returns the advice about an action that was tried without a team: what to add to the command.
fn describe_trial_advice(remedy: &Remedy) -> Option<String> {
    let text = match remedy {
        Remedy::AddGrant { grant } => format!("grant it: `--allow '{} = …'`", grant.key()),
        Remedy::WithheldGrant { reason, .. } => {
            format!("its operator does not allow it: {reason}")
        }
        Remedy::CheckService => "check that the service it calls is up".into(),
        Remedy::ConfigureModel => "say which model there is: `--llm 'provider = …'`".into(),
        Remedy::AddScriptedReply => {
            "add a `[[reply]]` to the file of replies, or change the prompt".into()
        }
        Remedy::RaiseLimit { may_loop: true, .. } => {
            "if the action loops without end, a higher limit does not help: fix the action".into()
        }
        _ => return None,
    };
    Some(text)
}

/// Describes what to change if the host cannot know whether the code or the configuration is wrong.
fn describe_code_change(source: &CodeSource, place: &str, trigger: ResumeTrigger) -> String {
    let config = format!("its `config` in the team file{place}");
    match (source, trigger) {
        (CodeSource::Component, ResumeTrigger::ByFileChange) => format!(
            "replace the component, or change `component` or `config` in the team file{place}"
        ),
        (CodeSource::Component, ResumeTrigger::ByCommand | ResumeTrigger::Never) => format!(
            "use another component, with `--component` or in the team file{place}, or change its `config` there"
        ),
        (CodeSource::Message, _) => {
            "its code came with a message: fix what wrote it, and resume from a checkpoint before it \
             (`--checkpoint`)"
                .into()
        }
        (CodeSource::Script(path), ResumeTrigger::ByFileChange) => {
            format!("edit `{}`, or {config}", display_relative_path(path))
        }
        (CodeSource::Script(path), ResumeTrigger::ByCommand | ResumeTrigger::Never) => {
            format!("edit `{}`, or {config}, then resume", display_relative_path(path))
        }
        (CodeSource::Directory(path), _) => format!(
            "change its source, `{}` (it is rebuilt automatically), or {config}",
            display_relative_path(path)
        ),
    }
}

/// Returns the location of the action in the team file, in parentheses after a space.
fn location_in_parentheses(advice: &FaultAdvice) -> String {
    match &advice.location {
        Some(location) => format!(" ({location})"),
        None => String::new(),
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

#[cfg(test)]
mod tests {
    use strata_core::record::host_call::Grant;

    use super::*;

    fn check(remedy: Remedy, trigger: ResumeTrigger, expected: Option<&str>) {
        let advice = FaultAdvice {
            action: "A.One".into(),
            location: Some("team.toml:9".into()),
            remedy: Some(remedy),
            edits_team_file: true,
            component: None,
        };
        assert_eq!(describe_advice(&advice, trigger).as_deref(), expected);
    }

    #[test]
    fn advice_names_what_to_change_and_where() {
        let by_command = |remedy, expected| check(remedy, ResumeTrigger::ByCommand, Some(expected));
        by_command(
            Remedy::AddGrant { grant: Grant::Http },
            "grant it (`http`) in `[role.action.allow]` of A.One (team.toml:9)",
        );
        by_command(
            Remedy::WithheldGrant {
                grant: Grant::Env,
                reason: "`allow.env` is not all allowed (policy.toml)".into(),
            },
            "its operator does not allow it: `allow.env` is not all allowed (policy.toml)",
        );
        by_command(
            Remedy::Retry { retries: 2 },
            "it was tried 3 times, as `limits.retries` of A.One says (team.toml:9); a resume allows as many tries again",
        );
        check(
            Remedy::RaiseLimit {
                limit: None,
                may_loop: false,
            },
            ResumeTrigger::ByCommand,
            None,
        );
    }

    #[test]
    fn advice_to_change_code_depends_on_where_the_code_is() {
        let check = |source, trigger, expected: &str| {
            check(Remedy::ChangeCode { source }, trigger, Some(expected));
        };
        let config = "its `config` in the team file (team.toml:9)";
        check(
            CodeSource::Directory("greet".into()),
            ResumeTrigger::ByCommand,
            &format!("change its source, `greet` (it is rebuilt automatically), or {config}"),
        );
        check(
            CodeSource::Script("x.py".into()),
            ResumeTrigger::ByCommand,
            &format!("edit `x.py`, or {config}, then resume"),
        );
        check(
            CodeSource::Script("x.py".into()),
            ResumeTrigger::ByFileChange,
            &format!("edit `x.py`, or {config}"),
        );
        check(
            CodeSource::Component,
            ResumeTrigger::ByCommand,
            "use another component, with `--component` or in the team file (team.toml:9), or change its `config` there",
        );
    }
}
