//! Prints the result of a run to stdout: the last output, or with `--json` a summary that contains
//! it.

use std::path::Path;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_host::view::ResultSummary;

use super::{Printer, RunArgs};

/// Prints the result of a run that ended with this status. If events go to stdout, nothing else is
/// printed between them.
pub(super) fn show_result(
    args: &RunArgs,
    status: Status,
    stepper: &Stepper,
    path: &Path,
    printer: &Printer,
) {
    let result = ResultSummary::from_stepper(stepper, status, path);
    if args.options.json {
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        let document = serde_json::to_value(&result).unwrap_or_default();
        printer.print_json(&document.to_string());
        return;
    }
    let events_on_stdout = args
        .options
        .events
        .as_deref()
        .is_some_and(|events| events == Path::new("-"));
    if let Some(output) = result.output.filter(|_| !events_on_stdout) {
        show_output(&output, printer);
    }
}

/// Writes a role's output, followed by a line feed if it has none. Control and invisible characters
/// are replaced even if stdout is a file, since files are displayed later. Programs get the exact
/// text with `--json`.
pub(super) fn show_output(output: &str, printer: &Printer) {
    let text = output.replace("\r\n", "\n");
    printer.print_text(text.strip_suffix('\n').unwrap_or(&text));
}
