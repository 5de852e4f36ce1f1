//! Renders requests to humans: who asks, the question, and how to answer. Asking at the terminal
//! is in `prompt`.

use strata_host::clock::rfc3339;
use strata_host::driver::HumanReply;
use strata_host::view::{AnswerField, RequestView};

use super::sanitize::{sanitize, sanitize_line};
use super::{CommandFailure, preview};

/// The maximum number of characters shown of a schema or a default.
const PREVIEW_CHARS: usize = 200;
/// The maximum number of characters shown of the arguments of a call. Whoever approves the call
/// approves all of them, so this is more than usual arguments have.
const ARGUMENT_CHARS: usize = 8000;
/// The maximum number of characters shown of what the model said with a call.
const SAID_CHARS: usize = 2000;
/// The answers to the question whether a tool call may be made.
const APPROVAL_ANSWERS: &str = r#"{"approve": true}, {"approve": false, "reason": "…"}, or {"approve": true, "arguments": {…}} to change them"#;

/// Parses `REQUEST=JSON` from the command line.
pub(super) fn parse_answer(text: &str) -> Result<HumanReply, CommandFailure> {
    match text.split_once('=') {
        Some((request, answer)) if !request.is_empty() => {
            Ok(HumanReply::from_user(request, answer))
        }
        _ => Err(CommandFailure::usage(format!(
            "`{text}` is not an answer; write REQUEST=JSON, e.g. `ask-0-0-0-0=42`"
        ))),
    }
}

/// Returns the role that asks and the action it is running.
pub(super) fn describe_asker(request: &RequestView) -> String {
    match request.index {
        Some(index) => format!("{} action {index} `{}`", request.role, request.action),
        None => request.role.clone(),
    }
}

/// Describes the arguments of the tool call that is to be approved.
pub(super) fn describe_arguments(request: &RequestView) -> Option<String> {
    let arguments = request.arguments.as_ref()?;
    Some(format!(
        "with {}",
        preview(&sanitize(arguments.as_str()), ARGUMENT_CHARS)
    ))
}

/// Returns what the model said in the reply with the call that is to be approved, as lines.
pub(super) fn describe_said(request: &RequestView) -> Vec<String> {
    let Some(text) = &request.said else {
        return Vec::new();
    };
    let text = preview(text.trim(), SAID_CHARS);
    let mut lines = vec!["the model said with it:".to_owned()];
    lines.extend(text.lines().map(|line| format!("  {line}")));
    lines
}

/// Describes the valid answers and the expiry, one line each.
pub(super) fn describe_terms(request: &RequestView) -> Vec<String> {
    let mut lines = Vec::new();
    if !request.choices.is_empty() {
        let choices: Vec<String> = request
            .choices
            .iter()
            .map(|choice| format!("`{}`", sanitize_line(choice)))
            .collect();
        lines.push(format!("one of {}", choices.join(", ")));
    }
    lines.extend(other_terms(request));
    lines
}

/// Describes the valid answers other than choices, and the expiry, one line each.
pub(super) fn other_terms(request: &RequestView) -> Vec<String> {
    let mut lines = Vec::new();
    if request.arguments.is_some() {
        lines.push(APPROVAL_ANSWERS.into());
    } else if let Some(schema) = &request.schema {
        lines.push(format!(
            "JSON matching {}",
            preview(&sanitize(schema.as_str()), PREVIEW_CHARS)
        ));
        lines.extend(request.fields.iter().map(describe_field));
    }
    if let Some(end) = request.expires_ms {
        let then = match &request.default {
            Some(default) => format!(
                "then {} is taken",
                preview(&sanitize(default.as_str()), PREVIEW_CHARS)
            ),
            None if request.arguments.is_some() => "then the call is not made".into(),
            None => "then the question fails".into(),
        };
        lines.push(format!("until {}; {then}", rfc3339(end)));
    }
    lines
}

/// Describes a field of the answer.
fn describe_field(field: &AnswerField) -> String {
    let required = if field.required { ", required" } else { "" };
    let mut line = format!(
        "`{}`: {}{required}",
        sanitize_line(&field.name),
        sanitize_line(&field.kind)
    );
    if !field.choices.is_empty() {
        let choices = sanitize_line(&field.choices.join(", "));
        line += &format!("; one of {}", preview(&choices, PREVIEW_CHARS));
    }
    if let Some(description) = &field.description {
        line += &format!("; {}", preview(&sanitize_line(description), PREVIEW_CHARS));
    }
    line
}

/// Describes requests, with two or more lines each.
pub(super) fn describe_requests(requests: &[RequestView]) -> Vec<String> {
    let mut lines = Vec::new();
    for request in requests {
        lines.push(format!(
            "  {}  {} asks:",
            request.id,
            describe_asker(request)
        ));
        for line in sanitize(&request.question).lines() {
            lines.push(format!("    {line}"));
        }
        if let Some(arguments) = describe_arguments(request) {
            lines.push(format!("    {arguments}"));
        }
        lines.extend(
            describe_said(request)
                .iter()
                .map(|line| format!("    {line}")),
        );
        for line in describe_terms(request) {
            lines.push(format!("    ({line})"));
        }
    }
    lines
}
