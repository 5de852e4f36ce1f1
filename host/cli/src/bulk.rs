//! `cancel`, `pause`, `delete`, and what `prune` and `resume` share with them: does something with one run, or with each of several, with a result for each.

use serde_json::{Value, json};
use strata_host::driver::Halt;
use strata_host::launch::halt_by;
use strata_host::operate::{DeleteRuns, delete_run_by, select_runs};
use strata_host::storage::StorageLocation;

use super::args::{DeleteArgs, HaltArgs, SelectionArgs};
use super::{CommandFailure, Printer};

/// Ends runs for good or for a while.
pub(super) fn halt(args: &HaltArgs, halt: Halt, printer: &Printer) -> Result<u8, CommandFailure> {
    let status = halt.status().name();
    let by = args.selection.author();
    for_each(&args.selection, status, printer, |location| {
        halt_by(location, halt, Some(&by))?;
        Ok(Outcome::default())
    })
}

pub(super) fn delete(args: &DeleteArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let which = match args.force {
        true => DeleteRuns::All,
        false => DeleteRuns::Ended,
    };
    let by = args.selection.author();
    for_each(&args.selection, "deleted", printer, |location| {
        delete_run_by(location, which, Some(&by))?;
        Ok(Outcome::default())
    })
}

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The exit code, if nothing failed.
    pub(super) code: u8,
    /// What the run is now, if it is not what was asked for.
    pub(super) result: Option<&'static str>,
    /// What is printed of it in JSON besides the result.
    pub(super) details: serde_json::Map<String, Value>,
}

/// Does something with each of the runs that are meant, and prints what became of each. `result` is what a run is
/// afterwards.
pub(super) fn for_each(
    selection: &SelectionArgs,
    result: &'static str,
    printer: &Printer,
    mut act: impl FnMut(&StorageLocation) -> Result<Outcome, CommandFailure>,
) -> Result<u8, CommandFailure> {
    let runs = select_runs(&selection.places, &selection.filter.to_filter())?;
    if let ([only], false) = (&runs[..], selection.is_plural()) {
        let done = act(only)?;
        printer.note(format_args!(
            "`{only}` is {}",
            done.result.unwrap_or(result)
        ));
        return Ok(done.code);
    }
    let mut code = 0;
    for run in &runs {
        let done = match selection.dry_run {
            true => Ok(Outcome::default()),
            false => act(run),
        };
        code = code.max(match &done {
            Ok(outcome) => outcome.code,
            Err(failure) => failure.code,
        });
        show_outcome(run, result, done, selection, printer)?;
    }
    if runs.is_empty() {
        printer.note("there is no such run");
    }
    Ok(code)
}

fn show_outcome(
    run: &StorageLocation,
    result: &'static str,
    done: Result<Outcome, CommandFailure>,
    selection: &SelectionArgs,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    if selection.json {
        let (result, error, details) = match done {
            Ok(outcome) => (
                Some(outcome.result.unwrap_or(result)),
                None,
                outcome.details,
            ),
            Err(failure) => (None, Some(failure.to_text()), serde_json::Map::new()),
        };
        let mut line = json!({
            "place": run.operand().to_string_lossy(), "result": result, "error": error, "dry_run": selection.dry_run,
        });
        if let Value::Object(line) = &mut line {
            line.extend(details);
        }
        return printer.print_json_line(&line);
    }
    printer.print_text(&match done {
        Err(failure) => format!("{run}: {}", failure.to_text()),
        Ok(_) if selection.dry_run => format!("{run}: would be {result}"),
        Ok(outcome) => format!("{run}: {}", outcome.result.unwrap_or(result)),
    });
    Ok(())
}
