//! `resume`: resumes a saved team here, or asks workers to continue a run that was submitted.

use strata_host::launch::load_saved;
use strata_host::storage::{StateSelector, StorageLocation, SubmissionState};

use super::args::{ResumeArgs, RunArgs, RunOptions};
use super::run::run;
use super::submit::describe_missing_worker;
use super::{CommandFailure, Printer, shell_path};

/// Resumes a saved team. With `verbose`, models' replies are shown while they are received.
pub(super) fn resume(
    args: ResumeArgs,
    verbose: u8,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let submitted = args.recover_path.submission_state()?;
    if let Some(state) = submitted.filter(|state| state.schedule.is_some()) {
        let is_plain = args.team.is_none() && args.options == RunOptions::default();
        return match is_plain {
            true => ask_workers(&args.recover_path, state, printer),
            false => Err(has_no_options(&args.recover_path)),
        };
    }
    let resumed = RunArgs {
        words: args.team.into_iter().collect(),
        recover_path: Some(args.recover_path),
        storage: None,
        force: false,
        options: args.options,
    };
    run(resumed, verbose, printer)
}

/// Returns the failure for options that a worker would not know of.
fn has_no_options(location: &StorageLocation) -> CommandFailure {
    let path = shell_path(location.path());
    CommandFailure::usage(format!(
        "the run was submitted, so a worker continues it, to which a team file and options do not apply: \
         `strata-host resume {path}`; to continue it here with them: `strata-host run --recover_path {path}`"
    ))
}

/// Asks workers to continue a submitted run whose state was `before`.
fn ask_workers(
    location: &StorageLocation,
    before: SubmissionState,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let saved = load_saved(location, &StateSelector::Head)?;
    if saved.stepper.env().is_finished() {
        printer.note(format_args!(
            "`{location}` is done, so there is nothing to continue; a message continues it: `strata-host send`"
        ));
        return Ok(0);
    }
    location.request_work()?;
    let now = location.submission_state()?;
    let missing = now.as_ref().and_then(describe_missing_worker);
    match (missing, before.problem) {
        (Some(text), _) => printer.note(text),
        (None, Some(_)) => printer.note(format_args!(
            "a worker tries again whether it can run `{location}`"
        )),
        (None, None) => printer.note(format_args!("a worker continues `{location}`")),
    }
    Ok(0)
}
