//! Describes requests to humans: who asks, the question, and how to answer. Asking at the terminal
//! is in `prompt`.

use std::path::Path;

use strata_core::id::RoleId;
use strata_core::request::Request;
use strata_core::stepper::Stepper;

use super::plain::{one_line, plain};
use super::reporter::place;
use super::{Failure, path_word, preview};
use crate::driver::Given;
use crate::public_event::rfc3339;
use crate::shell::quoted;

/// The maximum number of characters shown of a schema or a default.
const PREVIEW: usize = 200;

/// Parses `REQUEST=JSON` from the command line.
pub(super) fn answer_of(text: &str) -> Result<Given, Failure> {
    match text.split_once('=') {
        Some((request, answer)) if !request.is_empty() => Ok(Given {
            request: request.into(),
            text: answer.into(),
        }),
        _ => Err(Failure::usage(format!(
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
        .and_then(|activation| activation.work(role));
    match place(role, work) {
        (-1, _) => role.name.clone(),
        (index, action) => format!("{} action {index} `{action}`", role.name),
    }
}

/// Describes the valid answers and the expiry, one line each.
pub(super) fn terms(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    if !request.choices.is_empty() {
        let choices: Vec<String> = request
            .choices
            .iter()
            .map(|choice| format!("`{}`", one_line(choice)))
            .collect();
        lines.push(format!("one of {}", choices.join(", ")));
    }
    lines.extend(other_terms(request));
    lines
}

/// The same without the choices.
pub(super) fn other_terms(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(schema) = &request.schema {
        lines.push(format!(
            "JSON matching {}",
            preview(&plain(schema.as_str()), PREVIEW)
        ));
    }
    if let Some(end) = request.expires_ms {
        let then = match &request.default {
            Some(default) => format!(
                "then {} is taken",
                preview(&plain(default.as_str()), PREVIEW)
            ),
            None => "then the question fails".into(),
        };
        lines.push(format!("until {}; {then}", rfc3339(end)));
    }
    lines
}

/// Describes the open requests, with two or more lines each.
pub(super) fn listing(stepper: &Stepper) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, request) in stepper.env().requests() {
        lines.push(format!("  {}  {} asks:", request.id, asker(stepper, id)));
        lines.extend(
            plain(&request.question)
                .lines()
                .map(|line| format!("    {line}")),
        );
        lines.extend(
            terms(request)
                .into_iter()
                .map(|line| format!("    ({line})")),
        );
    }
    lines
}

/// Returns the command that answers the open requests.
pub(super) fn command(stepper: &Stepper, path: &Path) -> String {
    let answers: Vec<String> = stepper
        .env()
        .requests()
        .map(|(_, request)| quoted(&format!("{}=ANSWER", request.id)))
        .collect();
    format!(
        "strata-host answer {} {}",
        path_word(path),
        answers.join(" ")
    )
}
