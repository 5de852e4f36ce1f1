//! `inspect --calls`: lists the recorded host calls with requests and responses.

use serde::Deserialize;
use serde_json::Value;
use strata_core::record::money::Usd;
use strata_host::launch::for_each_call;
use strata_host::storage::StorageLocation;
use strata_host::view::{SuggestedCommand, calls_command, response_document_text};
use strata_host::wording::shell_command;

use super::table::TextTable;
use crate::fault_report::describe_response;
use crate::{CommandFailure, Printer, preview};

/// The maximum number of characters shown of a request and of a response.
const PREVIEW_CHARS: usize = 40;

/// What is shown of a recorded call, from the document in which it is printed as JSON.
#[derive(Deserialize)]
struct ShownCall {
    time: String,
    step: u64,
    role: String,
    action: String,
    call: String,
    source: String,
    cost: f64,
    finish: Option<String>,
    what: String,
    outcome: String,
    response: Value,
}

/// Shows the calls of one action, `ROLE.ACTION`, or of all.
pub(super) fn show(
    location: &StorageLocation,
    action: Option<&str>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut calls = Vec::new();
    for_each_call(location, &mut |view| {
        calls.extend(serde_json::to_value(&view).ok());
    })?;
    show_documents(
        calls,
        action,
        &calls_command(location.path(), action),
        printer,
    )
}

/// Returns whether any recorded call was made by this action: `ROLE.ACTION`.
pub(super) fn has_any_of(location: &StorageLocation, action: &str) -> Result<bool, CommandFailure> {
    let mut is_known = false;
    for_each_call(location, &mut |view| is_known |= view.is_of(action))?;
    Ok(is_known)
}

/// Shows those of these calls, as they are printed as JSON, that one action made, or all. `in_full` prints them.
pub(crate) fn show_documents(
    calls: Vec<Value>,
    action: Option<&str>,
    in_full: &SuggestedCommand,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut table = TextTable::new(
        &[
            "time", "step", "action", "call", "source", "cost", "finish", "request", "answer",
        ],
        printer,
    );
    for call in calls.into_iter().filter(|call| is_of(call, action)) {
        let call = ShownCall::deserialize(call).map_err(|error| {
            CommandFailure::internal(format!("a recorded call has another form: {error}"))
        })?;
        table.add_row(call.cells());
    }
    table.print(printer);
    if !table.is_empty() {
        printer.print_line("");
        printer.print_line(&format!("in full: {}", shell_command(in_full)));
    }
    Ok(())
}

/// Prints them as JSON, an object a line.
pub(super) fn print_calls_json(
    location: &StorageLocation,
    action: Option<&str>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut printed = Ok(());
    for_each_call(location, &mut |view| {
        if printed.is_ok() && action.is_none_or(|action| view.is_of(action)) {
            printed = printer.print_json_line(&view);
        }
    })?;
    printed
}

/// Whether a call, as it is printed as JSON, was made by this action: `ROLE.ACTION`. All are if none is named.
pub(crate) fn is_of(call: &Value, action: Option<&str>) -> bool {
    let text = |key: &str| call[key].as_str().unwrap_or_default();
    action.is_none_or(|action| action == format!("{}.{}", text("role"), text("action")))
}

impl ShownCall {
    fn cells(&self) -> [String; 9] {
        let answer = response_document_text(&self.call, &self.response);
        let answer = answer.unwrap_or_else(|| self.response.to_string());
        let answer = describe_response(&self.outcome, &answer);
        [
            self.time.clone(),
            self.step.to_string(),
            format!("{}.{}", self.role, self.action),
            self.call.clone(),
            self.source.clone(),
            Usd::from_dollars(self.cost).to_string(),
            self.finish.clone().unwrap_or_else(|| "-".to_owned()),
            preview(&self.what, PREVIEW_CHARS),
            preview(&answer, PREVIEW_CHARS),
        ]
    }
}
