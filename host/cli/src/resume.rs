//! `resume`: resumes saved teams here, or asks workers to continue runs that were submitted.

use std::path::PathBuf;

use serde_json::json;
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::CheckpointId;
use strata_host::SavedTeamFile;
use strata_host::launch::{
    Author, Notice, QueuedResume, load_saved, request_resume, resume_in_queue,
};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;
use strata_host::operate::RunDeed;
use strata_host::storage::{StateSelector, StorageLocation, SubmissionState};
use strata_host::telemetry::TelemetryExport;

use super::args::{ResumeArgs, RunArgs, RunOptions, refuse_misspelled_team};
use super::bulk::{BulkTask, Outcome};
use super::missing_worker::describe_missing_worker;
use super::printer::Verbosity;
use super::progress::ProgressDisplay;
use super::run::run;
use super::{CommandFailure, Printer, shell_path};

/// What became of a run that was to be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResumeResult {
    /// It was run here, with this exit code.
    Here(u8),
    /// Workers were asked to continue it.
    Queued,
    /// It is done, and nothing is left to continue.
    Done,
}

impl ResumeResult {
    /// Returns what the run is now.
    fn result(self) -> &'static str {
        match self {
            Self::Here(_) => "resumed",
            Self::Queued => "queued",
            Self::Done => "done",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Here(code) => code,
            Self::Queued | Self::Done => 0,
        }
    }
}

/// Resumes saved teams. With `verbose`, models' replies are shown while they are received.
pub(super) fn resume(
    args: ResumeArgs,
    verbose: u8,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    if let Some(misspelled) = args.possible_team() {
        refuse_misspelled_team(misspelled)?;
    }
    let selection = args.selection();
    let team = args.team();
    if let ([only], false, false) = (
        &selection.places[..],
        selection.is_many(),
        selection.dry_run,
    ) {
        return Ok(resume_one(
            only,
            (team, &args.telemetry),
            &args.options,
            verbose,
            printer,
        )?
        .code());
    }
    // Of a run that is resumed here, only the result is printed.
    let quiet = &printer.with_verbosity(Verbosity::Quiet);
    let options = RunOptions {
        quiet: true,
        json: false,
        ..args.options.clone()
    };
    let task = BulkTask {
        selection: &selection,
        deed: RunDeed::Resume,
        result: "resumed",
    };
    task.carry_out(printer, |location| {
        let resumed = resume_one(location, (team, &args.telemetry), &options, 0, quiet)?;
        Ok(Outcome {
            code: resumed.code(),
            result: Some(resumed.result()),
            ..Outcome::default()
        })
    })
}

/// Resumes a run here, or lets workers do it.
fn resume_one(
    location: &StorageLocation,
    (team, telemetry): (Option<&str>, &TelemetryExport),
    options: &RunOptions,
    verbose: u8,
    printer: &Printer,
) -> Result<ResumeResult, CommandFailure> {
    let submitted = location.submission_state()?;
    if let Some(state) = submitted.filter(|state| state.schedule.is_some()) {
        return resume_submitted(location, team, options.clone(), state, printer);
    }
    let resumed = RunArgs {
        words: team.into_iter().map(str::to_owned).collect(),
        recover_path: Some(location.clone()),
        storage: None,
        force: false,
        options: options.clone(),
        telemetry: telemetry.clone(),
    };
    run(resumed, verbose, printer).map(ResumeResult::Here)
}

/// Stores with a submitted run how it is to be resumed, and asks workers to do that. `before` was its state.
fn resume_submitted(
    location: &StorageLocation,
    team: Option<&str>,
    mut options: RunOptions,
    before: SubmissionState,
    printer: &Printer,
) -> Result<ResumeResult, CommandFailure> {
    let by = options.author();
    options.by = None;
    let is_json = std::mem::take(&mut options.json);
    let printer = &printer.with_verbosity(if std::mem::take(&mut options.quiet) || is_json {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    });
    let queued = QueuedResume {
        team: team.map(PathBuf::from),
        saved_team_file: if std::mem::take(&mut options.trust) {
            SavedTeamFile::Trusted
        } else {
            SavedTeamFile::default()
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
        by: Some(by.clone()),
    };
    if options != RunOptions::default() {
        return Err(has_other_options(location));
    }
    let resumed = if is_unchanged(&queued) {
        ask_workers(location, &by, before, printer)?
    } else {
        {
            let mut progress = ProgressDisplay::start(printer);
            let mut report = |notice: Notice<'_>| progress.show_notice(notice);
            resume_in_queue(location, &queued, &mut report)?;
        }
        tell_who_continues(location, &before, printer)?;
        ResumeResult::Queued
    };
    if is_json {
        printer.print_json_line(&json!({
            "place": location.operand().to_string_lossy(), "result": resumed.result(), "error": null, "dry_run": false,
        }))?;
    }
    Ok(resumed)
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
    by: &Author,
    before: SubmissionState,
    printer: &Printer,
) -> Result<ResumeResult, CommandFailure> {
    let saved = load_saved(location, &StateSelector::Head)?;
    if saved.stepper.env().is_finished() {
        if !printer.is_quiet() {
            printer.note(format_args!(
                "`{location}` is done, so there is nothing to continue; a message continues it: `strata-host send`"
            ));
        }
        return Ok(ResumeResult::Done);
    }
    request_resume(location, by)?;
    tell_who_continues(location, &before, printer)?;
    Ok(ResumeResult::Queued)
}

/// Says whether a worker continues a run whose state was `before`, and what is missing otherwise.
fn tell_who_continues(
    location: &StorageLocation,
    before: &SubmissionState,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    if printer.is_quiet() {
        return Ok(());
    }
    let now = location.submission_state()?;
    let missing = now.as_ref();
    let missing = missing.and_then(|now| describe_missing_worker(location, now));
    match (missing, &before.problem) {
        (Some(text), _) => printer.note(text),
        (None, Some(_)) => printer.note(format_args!(
            "a worker tries again whether it can run `{location}`"
        )),
        (None, None) => printer.note(format_args!("a worker continues `{location}`")),
    }
    Ok(())
}
