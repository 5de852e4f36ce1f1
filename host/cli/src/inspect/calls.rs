//! `inspect --calls`: lists the recorded host calls with requests and responses.

use serde::Serialize;
use serde_json::Value;
use strata_core::record::host_call::HostCall;
use strata_core::record::money::Usd;
use strata_host::launch::for_each_call;
use strata_host::public_event::{EventLine, PublicEvent, rfc3339};
use strata_host::storage::StorageLocation;
use strata_host::view::response_text;

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
    for_each_selected_call(location, action, &mut |line, call| {
        let PublicEvent::HostCall {
            action,
            source,
            cost,
            what,
            ..
        } = &line.event
        else {
            return;
        };
        let row = [
            rfc3339(line.time_ms),
            action.step.to_string(),
            action.qualified_name(),
            call.kind.name().to_owned(),
            source.name().to_owned(),
            Usd::from_dollars(*cost).to_string(),
            call.finish_reason()
                .map_or_else(|| "-".to_owned(), |finish| finish.name().to_owned()),
            preview(what, PREVIEW_CHARS),
            preview(
                &describe_response(call.outcome, &response_text(call)),
                PREVIEW_CHARS,
            ),
        ];
        table.add_row(row);
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

/// A line of `inspect --calls --json`: the public event of the call, and what came back.
#[derive(Serialize)]
struct CallLine<'a> {
    #[serde(flatten)]
    line: &'a EventLine,
    response: Value,
}

/// Prints them as JSON, an object a line.
pub(super) fn print_calls_json(
    location: &StorageLocation,
    action: Option<&str>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    for_each_selected_call(location, action, &mut |line, call| {
        let response = call.response.value();
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        let json = serde_json::to_string(&CallLine { line, response }).unwrap_or_default();
        printer.print_json(&json);
    })
}

/// Calls `show` for the calls of one action, or of all, oldest first.
fn for_each_selected_call(
    location: &StorageLocation,
    action: Option<&str>,
    show: &mut dyn FnMut(&EventLine, &HostCall),
) -> Result<(), CommandFailure> {
    for_each_call(location, &mut |line, call| {
        let PublicEvent::HostCall { action: of, .. } = &line.event else {
            return;
        };
        if action.is_none_or(|action| action == of.qualified_name()) {
            show(line, call);
        }
    })
    .map_err(CommandFailure::from)
}
