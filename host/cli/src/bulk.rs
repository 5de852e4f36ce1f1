//! `cancel`, `pause`, `delete`, and what `prune` and `resume` share with them: does something with one run, or with each of several, with a result for each.

use serde_json::{Value, json};
use strata_host::driver::Halt;
use strata_host::launch::halt_by;
use strata_host::operate::{
    DeleteRuns, RunDeed, SelectedRun, check_deed, delete_run_by, select_runs,
};
use strata_host::storage::StorageLocation;

use super::args::{DeleteArgs, HaltArgs, SelectionArgs};
use super::{CommandFailure, Printer};

/// Ends runs for good or for a while.
pub(super) fn halt(args: &HaltArgs, halt: Halt, printer: &Printer) -> Result<u8, CommandFailure> {
    let task = BulkTask::halt(&args.selection, halt);
    let by = args.selection.author();
    task.carry_out(printer, |location| {
        halt_by(location, halt, Some(&by))?;
        Ok(Outcome::default())
    })
}

pub(super) fn delete(args: &DeleteArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let which = args.which();
    let task = BulkTask::delete(&args.selection, which);
    let by = args.selection.author();
    task.carry_out(printer, |location| {
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

/// Something that is done with each of some runs.
#[derive(Clone, Copy)]
pub(super) struct BulkTask<'a> {
    /// The runs that are meant.
    pub(super) selection: &'a SelectionArgs,
    /// What is done with them.
    pub(super) deed: RunDeed,
    /// What a run is afterwards.
    pub(super) result: &'static str,
}

impl<'a> BulkTask<'a> {
    /// Returns the task that ends runs for good or for a while.
    pub(super) fn halt(selection: &'a SelectionArgs, halt: Halt) -> Self {
        Self {
            selection,
            deed: RunDeed::Halt(halt),
            result: halt.status().name(),
        }
    }

    /// Returns the task that deletes runs.
    pub(super) fn delete(selection: &'a SelectionArgs, which: DeleteRuns) -> Self {
        Self {
            selection,
            deed: RunDeed::Delete(which),
            result: "deleted",
        }
    }

    /// Does it with each of the runs, and prints what became of each.
    pub(super) fn carry_out(
        self,
        printer: &Printer,
        mut act: impl FnMut(&StorageLocation) -> Result<Outcome, CommandFailure>,
    ) -> Result<u8, CommandFailure> {
        let selection = self.selection;
        if selection.places.is_empty() {
            let text = "name the runs: storage directories, or URLs of runs in databases";
            return Err(CommandFailure::usage(text));
        }
        let mut runs = select_runs(&selection.places, &selection.filter.to_filter())?;
        if !selection.is_plural()
            && let Some(only) = runs.pop()
        {
            only.found?;
            let done = act(&only.location)?;
            printer.note(format_args!(
                "`{}` is {}",
                only.location,
                done.result.unwrap_or(self.result)
            ));
            return Ok(done.code);
        }
        if runs.is_empty() {
            printer.note("there is no such run");
        }
        let mut code = 0;
        for SelectedRun { location, found } in runs {
            let done = match found {
                Ok(run) if selection.dry_run => {
                    let checked = check_deed(&run, self.deed);
                    checked
                        .map(|()| Outcome::default())
                        .map_err(CommandFailure::from)
                }
                Ok(_) => act(&location),
                Err(error) => Err(error.into()),
            };
            code = code.max(match &done {
                Ok(outcome) => outcome.code,
                Err(failure) => failure.code,
            });
            self.show_outcome(&location, done, printer)?;
        }
        Ok(code)
    }

    fn show_outcome(
        self,
        run: &StorageLocation,
        done: Result<Outcome, CommandFailure>,
        printer: &Printer,
    ) -> Result<(), CommandFailure> {
        let (result, is_dry) = (self.result, self.selection.dry_run);
        if self.selection.json {
            let (result, error, details) = match done {
                Ok(outcome) => (
                    Some(outcome.result.unwrap_or(result)),
                    None,
                    outcome.details,
                ),
                Err(failure) => (None, Some(failure.to_text()), serde_json::Map::new()),
            };
            let mut line = json!({
                "place": run.operand().to_string_lossy(), "result": result, "error": error, "dry_run": is_dry,
            });
            if let Value::Object(line) = &mut line {
                line.extend(details);
            }
            return printer.print_json_line(&line);
        }
        printer.print_text(&match done {
            Err(failure) => format!("{run}: {}", failure.to_text()),
            Ok(_) if is_dry => format!("{run}: would be {result}"),
            Ok(outcome) => format!("{run}: {}", outcome.result.unwrap_or(result)),
        });
        Ok(())
    }
}
