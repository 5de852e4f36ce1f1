//! `cancel`, `pause`, `delete`: does something with one run, or with each of several, with a result for each.

use serde_json::json;
use strata_host::driver::Halt;
use strata_host::launch::halt as end_run;
use strata_host::operate::{DeleteRuns, delete_run, select_runs};
use strata_host::storage::StorageLocation;

use super::args::{DeleteArgs, HaltArgs, SelectionArgs};
use super::{CommandFailure, Printer};

/// Ends runs for good or for a while.
pub(super) fn halt(args: &HaltArgs, halt: Halt, printer: &Printer) -> Result<u8, CommandFailure> {
    let status = halt.status().name();
    for_each(&args.selection, status, printer, |location| {
        Ok(end_run(location, halt)?)
    })
}

pub(super) fn delete(args: &DeleteArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let which = match args.force {
        true => DeleteRuns::All,
        false => DeleteRuns::Ended,
    };
    for_each(&args.selection, "deleted", printer, |location| {
        Ok(delete_run(location, which)?)
    })
}

/// Does something with each of the runs that are meant, and prints what became of each. `result` is what a run is
/// afterwards.
pub(super) fn for_each(
    selection: &SelectionArgs,
    result: &str,
    printer: &Printer,
    mut act: impl FnMut(&StorageLocation) -> Result<(), CommandFailure>,
) -> Result<u8, CommandFailure> {
    let runs = select_runs(&selection.places, &selection.filter.to_filter())?;
    if let ([only], false) = (&runs[..], selection.is_plural()) {
        act(only)?;
        printer.note(format_args!("`{only}` is {result}"));
        return Ok(0);
    }
    let mut code = 0;
    for run in &runs {
        let done = match selection.dry_run {
            true => Ok(()),
            false => act(run),
        };
        let failure = done.err();
        code = code.max(failure.as_ref().map_or(0, |failure| failure.code));
        let error = failure.map(|failure| failure.to_text());
        if selection.json {
            printer.print_json_line(&json!({
                "place": run.operand().to_string_lossy(), "result": error.is_none().then_some(result),
                "error": error, "dry_run": selection.dry_run,
            }))?;
            continue;
        }
        printer.print_text(&match error {
            Some(error) => format!("{run}: {error}"),
            None if selection.dry_run => format!("{run}: would be {result}"),
            None => format!("{run}: {result}"),
        });
    }
    if runs.is_empty() {
        printer.note("there is no such run");
    }
    Ok(code)
}
