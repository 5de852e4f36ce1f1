//! Describes requests to humans: who asks, the question, and how to answer. Asking at the terminal
//! is in `prompt`.

use std::path::Path;

use strata_core::id::RoleId;
use strata_core::request::HumanRequest;
use strata_core::stepper::Stepper;

use super::reporter::index_and_name;
use super::sanitize::{sanitize, sanitize_line};
use super::{CommandFailure, preview, shell_path};
use crate::driver::HumanReply;
use crate::public_event::rfc3339;
use crate::shell::single_quoted;

/// The maximum number of characters shown of a schema or a default.
const PREVIEW_CHARS: usize = 200;

/// Parses `REQUEST=JSON` from the command line.
pub(super) fn parse_answer(text: &str) -> Result<HumanReply, CommandFailure> {
    match text.split_once('=') {
        Some((request, answer)) if !request.is_empty() => Ok(HumanReply {
            request: request.into(),
            text: answer.into(),
        }),
        _ => Err(CommandFailure::usage(format!(
            "`{text}` is not an answer; write REQUEST=JSON, e.g. `ask-0-0-0-0=42`"
        ))),
    }
}

/// Returns the role that asks and the action it is running.
pub(super) fn asker(stepper: &Stepper, id: RoleId) -> String {
    let role = stepper.team().role(id);
    let work = stepper
        .env()
        .role(id)
        .activation
        .as_ref()
        .and_then(|activation| activation.current_work(role));
    match index_and_name(role, work) {
        (-1, _) => role.name.clone(),
        (index, action) => format!("{} action {index} `{action}`", role.name),
    }
}

/// Describes the valid answers and the expiry, one line each.
pub(super) fn describe_terms(request: &HumanRequest) -> Vec<String> {
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

/// The same without the choices.
pub(super) fn other_terms(request: &HumanRequest) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(schema) = &request.schema {
        lines.push(format!(
            "JSON matching {}",
            preview(&sanitize(schema.as_str()), PREVIEW_CHARS)
        ));
    }
    if let Some(end) = request.expires_ms {
        let then = match &request.default {
            Some(default) => format!(
                "then {} is taken",
                preview(&sanitize(default.as_str()), PREVIEW_CHARS)
            ),
            None => "then the question fails".into(),
        };
        lines.push(format!("until {}; {then}", rfc3339(end)));
    }
    lines
}

/// Describes the open requests, with two or more lines each.
pub(super) fn describe_requests(stepper: &Stepper) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, request) in stepper.env().open_requests() {
        lines.push(format!("  {}  {} asks:", request.id, asker(stepper, id)));
        lines.extend(
            sanitize(&request.question)
                .lines()
                .map(|line| format!("    {line}")),
        );
        lines.extend(
            describe_terms(request)
                .into_iter()
                .map(|line| format!("    ({line})")),
        );
    }
    lines
}

/// Returns the command that answers the open requests.
pub(super) fn answer_command(stepper: &Stepper, path: &Path) -> String {
    let answers: Vec<String> = stepper
        .env()
        .open_requests()
        .map(|(_, request)| single_quoted(&format!("{}=ANSWER", request.id)))
        .collect();
    format!(
        "strata-host answer {} {}",
        shell_path(path),
        answers.join(" ")
    )
}
