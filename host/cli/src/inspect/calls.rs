//! `inspect --calls`: lists the recorded host calls with requests and responses.

use strata_core::record::money::Usd;
use strata_host::clock::rfc3339;
use strata_host::launch::for_each_call;
use strata_host::public_event::PublicEvent;
use strata_host::storage::StorageLocation;
use strata_host::view::RecordedCallView;

use super::table::TextTable;
use crate::fault_report::describe_response;
use crate::{CommandFailure, Printer, preview, shell_path, shell_word};

/// The maximum number of characters shown of a request and of a response.
const PREVIEW_CHARS: usize = 40;

/// Shows the calls of one action, `ROLE.ACTION`, or of all.
pub(super) fn show(
    location: &StorageLocation,
    action: Option<&str>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut table = TextTable::new(
        &[
            "time", "step", "action", "call", "source", "cost", "finish", "request", "answer",
        ],
        printer,
    );
    for_each_selected_call(location, action, &mut |view| {
        if let Some(row) = table_row(&view) {
            table.add_row(row);
        }
    })?;
    table.print(printer);
    if !table.is_empty() {
        let action = action
            .map(|name| format!(" --action {}", shell_word(name)))
            .unwrap_or_default();
        printer.print_line("");
        printer.print_line(&format!(
            "in full: strata-host inspect {} --calls{action} --json",
            shell_path(location.path())
        ));
    }
    Ok(())
}

/// Returns the cells of a call.
fn table_row(view: &RecordedCallView) -> Option<[String; 9]> {
    let PublicEvent::HostCall {
        action,
        call,
        source,
        cost,
        what,
        used,
    } = &view.line.event
    else {
        return None;
    };
    let finish = used.as_ref().and_then(|used| used.finish);
    Some([
        rfc3339(view.line.time_ms),
        action.step.to_string(),
        action.qualified_name(),
        call.name().to_owned(),
        source.name().to_owned(),
        Usd::from_dollars(*cost).to_string(),
        finish.map_or_else(|| "-".to_owned(), |finish| finish.name().to_owned()),
        preview(what, PREVIEW_CHARS),
        preview(&describe_response(view.outcome, &view.text), PREVIEW_CHARS),
    ])
}

/// Prints them as JSON, an object a line.
pub(super) fn print_calls_json(
    location: &StorageLocation,
    action: Option<&str>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let mut printed = Ok(());
    for_each_selected_call(location, action, &mut |view| {
        if printed.is_ok() {
            printed = printer.print_json_line(&view);
        }
    })?;
    printed
}

/// Calls `visit` for the calls of one action, or of all, oldest first.
fn for_each_selected_call(
    location: &StorageLocation,
    action: Option<&str>,
    visit: &mut dyn FnMut(RecordedCallView),
) -> Result<(), CommandFailure> {
    for_each_call(location, &mut |view| {
        if action.is_none_or(|action| view.is_of(action)) {
            visit(view);
        }
    })
    .map_err(CommandFailure::from)
}
