//! `resume`: resumes a saved team here, or asks workers to continue a run that was submitted.

use std::path::PathBuf;

use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::CheckpointId;
use strata_host::SavedTeamFile;
use strata_host::launch::{Notice, QueuedResume, load_saved, resume_in_queue};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::storage::{StateSelector, StorageLocation, SubmissionState};

use super::args::{ResumeArgs, RunArgs, RunOptions};
use super::printer::Verbosity;
use super::progress::ProgressDisplay;
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
        return resume_submitted(args, state, printer);
    }
    let resumed = RunArgs {
        words: args.team.into_iter().collect(),
        recover_path: Some(args.recover_path),
        storage: None,
        force: false,
        options: args.options,
        telemetry: args.telemetry,
    };
    run(resumed, verbose, printer)
}

/// Stores with a submitted run how it is to be resumed, and asks workers to do that. `before` was its state.
fn resume_submitted(
    args: ResumeArgs,
    before: SubmissionState,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let (location, mut options) = (args.recover_path, args.options);
    let printer = &printer.with_verbosity(match std::mem::take(&mut options.quiet) {
        true => Verbosity::Quiet,
        false => Verbosity::Normal,
    });
    let queued = QueuedResume {
        team: args.team.map(PathBuf::from),
        saved_team_file: match std::mem::take(&mut options.trust) {
            true => SavedTeamFile::Trusted,
            false => SavedTeamFile::default(),
        },
        overrides: Overrides {
            operators: in_force(options.policy.take().as_deref())?,
            components: std::mem::take(&mut options.component),
            investment: options.investment.take(),
            max_steps: options.max_steps.take(),
            ..Overrides::default()
        },
        checkpoint: options.checkpoint.take().map(CheckpointId),
        in_doubt: std::mem::take(&mut options.in_doubt),
        calls: std::mem::take(&mut options.calls).into(),
    };
    if options != RunOptions::default() {
        return Err(has_other_options(&location));
    }
    if is_unchanged(&queued) {
        return ask_workers(&location, before, printer);
    }
    {
        let mut progress = ProgressDisplay::start(printer);
        let mut report = |notice: Notice<'_>| progress.show_notice(notice);
        resume_in_queue(&location, &queued, &mut report)?;
    }
    tell_who_continues(&location, &before, printer)?;
    Ok(0)
}

/// Whether nothing is changed but that the run goes on.
fn is_unchanged(queued: &QueuedResume) -> bool {
    let overrides = &queued.overrides;
    queued.team.is_none()
        && overrides.components.is_empty()
        && overrides.investment.is_none()
        && overrides.max_steps.is_none()
        && queued.checkpoint.is_none()
        && queued.in_doubt.is_empty()
        && queued.calls == CallPolicy::Auto
}

/// Returns the failure for options that a worker would not know of.
fn has_other_options(location: &StorageLocation) -> CommandFailure {
    let path = shell_path(location.path());
    CommandFailure::usage(format!(
        "the run was submitted, so a worker continues it, with a team file, `--component`, `--investment`, `--max-steps`, \
         `--checkpoint`, `--in-doubt` and `--calls` only; to continue it here with other options: \
         `strata-host run --recover_path {path}`"
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
    tell_who_continues(location, &before, printer)?;
    Ok(0)
}

/// Says whether a worker continues a run whose state was `before`, and what is missing otherwise.
fn tell_who_continues(
    location: &StorageLocation,
    before: &SubmissionState,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let now = location.submission_state()?;
    let missing = now.as_ref().and_then(describe_missing_worker);
    match (missing, &before.problem) {
        (Some(text), _) => printer.note(text),
        (None, Some(_)) => printer.note(format_args!(
            "a worker tries again whether it can run `{location}`"
        )),
        (None, None) => printer.note(format_args!("a worker continues `{location}`")),
    }
    Ok(())
}
