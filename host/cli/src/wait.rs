//! `wait`: waits until runs have ended or need a person, and ends with the exit code of `run`.

use strata_host::launch::{continuation, load_saved_with_provenance};
use strata_host::operate::{Patience, RestCause, RunAtRest, WaitFor, wait_for_runs};
use strata_host::storage::{StateSelector, StorageLocation};
use strata_host::view::{EndedRun, RunOutput, RunRow};

use super::args::WaitArgs;
use super::end_report::EndReport;
use super::printer::Verbosity;
use super::result::show_output;
use super::sanitize::sanitize;
use super::{CommandFailure, Printer, exit_code};

/// The exit code if the time is over first, as that of `timeout`.
const TIME_OVER: u8 = 124;
/// The exit code of a run that workers refuse.
const REFUSED: u8 = 2;
/// The exit code of a run that was deleted meanwhile: as for one that is not there.
const DELETED: u8 = 2;

pub(super) fn wait(args: &WaitArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = &printer.with_verbosity(verbosity);
    let wait_for = if args.any { WaitFor::Any } else { WaitFor::All };
    let mut failed = None;
    let waited = wait_for_runs(&args.places, wait_for, args.timeout, &mut |one| {
        if args.json {
            failed = printer.print_json_line(&row_of(one)).err();
        }
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if let ([one], false) = (&waited.rested[..], args.json) {
        return report_one(one, printer);
    }
    let mut code = 0;
    for one in &waited.rested {
        code = code.max(code_of(one));
        if !args.json {
            printer.print_text(&format!(
                "{}: {}",
                one.run.listing.name,
                sanitize(&describe(&one.rest))
            ));
        }
    }
    if waited.is_time_over {
        printer.note("the time is over");
        Ok(TIME_OVER)
    } else {
        Ok(code)
    }
}

/// Returns what is listed of a run.
fn row_of(one: &RunAtRest) -> RunRow {
    let mut row = RunRow::new(&one.run.listing, one.run.damage.clone());
    if let RestCause::Deleted(_) = &one.rest {
        row.state = "deleted";
        row.owner = None;
        row.problem = Some(describe(&one.rest));
    }
    row
}

fn code_of(one: &RunAtRest) -> u8 {
    match &one.rest {
        RestCause::Status(status) => exit_code(*status),
        RestCause::Refused(_) | RestCause::Unreadable(_) => REFUSED,
        RestCause::Deleted(_) => DELETED,
    }
}

fn describe(rest: &RestCause) -> String {
    match rest {
        RestCause::Status(status) => status.name().into(),
        RestCause::Refused(problem) => format!("refused: {problem}"),
        RestCause::Unreadable(damage) => format!("cannot be read: {damage}"),
        RestCause::Deleted(Some(deleted)) => deleted.to_string(),
        RestCause::Deleted(None) => "it is deleted".into(),
    }
}

/// Waits for one run, and reports its end like `run`.
pub(super) fn wait_for_end(
    location: &StorageLocation,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let place = std::slice::from_ref(location);
    let waited = wait_for_runs(place, WaitFor::All, None, &mut |_| {})?;
    match waited.rested.first() {
        Some(one) => report_one(one, printer),
        None => Ok(0),
    }
}

/// Waits for one run, and prints what is listed of it then as JSON.
pub(super) fn wait_for_row(
    location: &StorageLocation,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let place = std::slice::from_ref(location);
    let waited = wait_for_runs(place, WaitFor::All, None, &mut |_| {})?;
    let mut code = 0;
    for one in &waited.rested {
        code = code.max(code_of(one));
        printer.print_json_line(&row_of(one))?;
    }
    Ok(code)
}

/// Reports the end of a run that another process ran.
fn report_one(one: &RunAtRest, printer: &Printer) -> Result<u8, CommandFailure> {
    let location = &one.run.listing.location;
    let status = match &one.rest {
        RestCause::Status(status) => *status,
        RestCause::Refused(problem) => {
            return Err(CommandFailure::usage(format!(
                "`{location}` could not be run: {problem}"
            )));
        }
        RestCause::Unreadable(damage) => {
            return Err(CommandFailure::usage(format!("`{location}`: {damage}")));
        }
        RestCause::Deleted(_) => {
            let text = format!("there is no `{location}` any more: {}", describe(&one.rest));
            return Err(CommandFailure::usage(text));
        }
    };
    let mut patience = Patience::default();
    let (saved, provenance) = loop {
        let loaded = load_saved_with_provenance(location, &StateSelector::Head);
        if let Some(loaded) = patience.accept(loaded)? {
            break loaded;
        }
    };
    let ended = EndedRun {
        stepper: &saved.stepper,
        provenance: &provenance,
        storage: location.path(),
        policy: None,
        continuation: continuation(location),
    };
    EndReport::from_saved(ended, status).write(printer);
    if let Some(output) = RunOutput::from_stepper(&saved.stepper)
        && exit_code(status) == 0
    {
        show_output(&output.content, printer);
    }
    Ok(exit_code(status))
}
