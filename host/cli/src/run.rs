//! `run`: starts or resumes a team.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::id::CheckpointId;
use strata_core::record::message::IDEA_LABEL;
use strata_host::driver::{LineListener, RunState, StopSignal};
use strata_host::launch::{
    LaunchError, Notice, OutputFile, Resume, ResumeNotes, ResumeOutcome, RunHandle, SavedTeamFile,
    Start, TeamInputs, WriteTime, resume, start, storage_by_name,
};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::{in_force, policy_files};
use strata_host::public_event::{EventLine, may_be_warning};
use strata_host::runtime_context::in_context_of;
use strata_host::services::models::{RECORD_BEGINNING, StreamObserverFactory};
use strata_host::storage::{ReplacePolicy, StorageLocation, resolve_link};
use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::watch;

use super::args::{DEFAULT_TEAM, IdeaUse, TeamAndIdea};
use super::edit_notices::{note_edited_team_file, warn_edited};
use super::end_report::EndReport;
use super::events_sink::{EventsSink, PreviousContent, ensure_events_not_input, ensure_not_input};
use super::given_text::read_idea;
use super::in_use::with_worker;
use super::live_view::LiveView;
use super::printer::Verbosity;
use super::prompt::{Prompt, PromptOutcome};
use super::reporter::Reporter;
use super::requests::parse_answer;
use super::result::show_result;
use super::signals::Signals;
use super::{CommandFailure, Printer, RunArgs, exit_code, metrics, reply_view, shell_path};
use crate::progress::ProgressDisplay;

/// The link to the last run for which no storage was named.
const LAST_RUN_LINK: &str = "workspace/storage/team";

/// The time after which an idle thread of the blocking pool ends: practically never.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(u32::MAX as u64);

/// Runs a team. With `verbose`, models' replies are shown while they are received.
pub(super) fn run(args: RunArgs, verbose: u8, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.options.quiet {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = &printer.with_verbosity(verbosity);
    let observers = (verbose > 0 && !args.options.quiet && !args.options.json)
        .then(|| reply_view::reply_observers(printer.clone()));
    block_on_run(|calls| launch_and_run(args, observers, printer, calls))
}

/// Runs the future that `work` returns, which runs teams, to its end. `work` is given the runtime of
/// this thread, for calls, which are then handed to no other thread. Everything else belongs to a
/// runtime with several threads, which goes on while this thread is busy.
pub(super) fn block_on_run<F: Future<Output = Result<u8, CommandFailure>>>(
    work: impl FnOnce(Handle) -> F,
) -> Result<u8, CommandFailure> {
    let mut shared = runtime::Builder::new_multi_thread();
    // Guests yield only at epochs, so timers and signals are polled at every turn.
    let shared = start_runtime(shared.event_interval(1))?;
    let own = start_runtime(&mut runtime::Builder::new_current_thread())?;
    let work = in_context_of(shared.handle().clone(), work(own.handle().clone()));
    let code = own.block_on(work);
    // The end of the process must not wait for an action that hangs in the host, or for a name that
    // is not resolved.
    own.shutdown_background();
    shared.shutdown_background();
    code
}

fn start_runtime(builder: &mut runtime::Builder) -> Result<Runtime, CommandFailure> {
    let runtime = builder
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()
        .map_err(|error| CommandFailure::internal(format!("cannot start the runtime: {error}")))?;
    // Starts one thread of the blocking pool now. If a limit prevents further threads later, it
    // does all blocking work, one item at a time.
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

async fn launch_and_run(
    args: RunArgs,
    observers: Option<StreamObserverFactory>,
    printer: &Printer,
    calls: Handle,
) -> Result<u8, CommandFailure> {
    let signals = Signals::subscribe()?;
    let live = LiveView::at_terminal(printer);
    let storage = args.storage()?;
    // This must precede the creation of any file.
    check_outputs(&args, &storage)?;
    let events = args
        .options
        .events
        .as_deref()
        .map(|path| (path, args.previous_content()));
    let had_events = args
        .options
        .events
        .as_ref()
        .is_some_and(|path| path.exists());
    let on_line = line_listener(events, Reporter::new(printer, live.clone()), printer)?;
    // The server is started before anything is saved, so that an address in use leaves nothing
    // behind.
    let metrics = match args.options.metrics {
        Some(address) => Some(metrics::serve(address, printer).await?),
        None => None,
    };
    let mut run = match launch(&args, &storage, on_line, printer)? {
        LaunchedRun::Running(run) => run,
        LaunchedRun::Finished(stepper) => {
            show_finished(&args, had_events, &stepper, &storage, printer)?;
            return Ok(0);
        }
    };
    if let Some(factory) = live.observer_factory(observers) {
        run.observe(factory);
    }
    run.set_when_idle(args.options.when_idle());
    if let Some(patience) = args.options.patience {
        run.set_patience(patience);
    }
    run.set_alone();
    run.make_calls_in(calls);
    if let Some(metrics) = metrics {
        run.record_metrics(metrics);
    }
    if args.options.keep_alive && !args.options.quiet {
        tokio::spawn(note_when_idle(
            run.run_state(),
            run.location().path().to_owned(),
            printer.clone(),
        ));
    }
    live.show(run.stepper());
    signals.set_run_started();
    let mut stop = signals.stop.clone();
    let mut prompt = Prompt::at_terminal(printer).filter(|_| !args.options.quiet);
    let played = run_with_prompt(&mut run, &mut prompt, &mut stop).await;
    live.hide();
    let status = played?;
    EndReport::from_run(&run, args.options.policy.as_deref(), status).write(printer);
    show_result(&args, status, run.stepper(), run.location().path(), printer);
    Ok(if status == Status::Interrupted {
        signals.code()
    } else {
        exit_code(status)
    })
}

/// Reports a team that was finished before. `had_events` says whether the file of `--events`
/// existed: it may lack the last lines of a run that was killed.
fn show_finished(
    args: &RunArgs,
    had_events: bool,
    stepper: &Stepper,
    storage: &StorageLocation,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    if !args.options.quiet {
        printer.note(format_args!(
            "the team saved in `{storage}` is done; nothing is left to run"
        ));
    }
    if let (Some(events), true) = (&args.options.events, had_events) {
        let written = EventsSink::open(events, args.previous_content(), printer)?.write_missing();
        if let Err(error) = written {
            printer.warn(format_args!("`{}` lacks events: {error}", events.display()));
        }
    }
    show_result(args, Status::Done, stepper, storage.path(), printer);
    Ok(())
}

/// Fails if an output file is an input of the run.
fn check_outputs(args: &RunArgs, storage: &StorageLocation) -> Result<(), CommandFailure> {
    if args.options.record.is_none() && args.options.events.is_none() {
        return Ok(());
    }
    let team = args.words()?.team;
    let team = team.or_else(|| args.recover_path.is_none().then(|| DEFAULT_TEAM.into()));
    let inputs = TeamInputs {
        team: team.as_deref(),
        storage: Some(storage),
        components: &args.options.component,
        files: &args.options.file,
        policies: policy_files(args.options.policy.as_deref()),
    };
    if let Some(record) = &args.options.record {
        let output = OutputFile {
            path: record,
            beginning: RECORD_BEGINNING,
            time: WriteTime::DuringRun,
        };
        ensure_not_input("--record", output, &inputs)?;
    }
    ensure_events_not_input(args.options.events.as_deref(), &inputs)
}

/// Runs a team until nothing is left to do without a human. If it is stopped while a human is
/// asked, its saved state remains waiting, and `Interrupted` is returned.
pub(super) async fn run_with_prompt(
    run: &mut RunHandle,
    prompt: &mut Option<Prompt>,
    stop: &mut StopSignal,
) -> Result<Status, CommandFailure> {
    let mut status = run.run(stop).await?;
    while let (Status::Waiting, Some(prompt)) = (status, prompt.as_mut()) {
        let outcome = prompt.ask(run, stop).await?;
        if outcome != PromptOutcome::Continue {
            run.stop_listening().await;
        }
        match outcome {
            PromptOutcome::Continue => run.continue_run()?,
            PromptOutcome::LeftOpen => break,
            PromptOutcome::Stopped => return Ok(Status::Interrupted),
        }
        status = run.run(stop).await?;
    }
    Ok(status)
}

/// Reports each time that nothing is left to do, and how to change that.
async fn note_when_idle(mut motion: watch::Receiver<RunState>, path: PathBuf, printer: Printer) {
    while motion
        .wait_for(|motion| matches!(motion, RunState::Idle(_)))
        .await
        .is_ok()
    {
        let path = shell_path(&path);
        printer.note(format_args!(
            "nothing is left to do; waiting: `strata-host send {path} --cause LABEL TEXT`, `strata-host answer {path} \
             REQUEST=JSON` where somebody is asked, or Ctrl-C to end"
        ));
        if motion
            .wait_for(|motion| !matches!(motion, RunState::Idle(_)))
            .await
            .is_err()
        {
            return;
        }
    }
}

enum LaunchedRun {
    Running(Box<RunHandle>),
    Finished(Box<Stepper>),
}

fn launch(
    args: &RunArgs,
    storage: &StorageLocation,
    on_line: LineListener,
    printer: &Printer,
) -> Result<LaunchedRun, CommandFailure> {
    let words = args.words()?;
    match &args.recover_path {
        Some(path) => launch_resume(args, path, words, on_line, printer),
        None => launch_new(args, storage, words, on_line, printer),
    }
}

/// Resumes a saved team.
fn launch_resume(
    args: &RunArgs,
    saved: &StorageLocation,
    words: TeamAndIdea,
    on_line: LineListener,
    printer: &Printer,
) -> Result<LaunchedRun, CommandFailure> {
    let overrides = args.overrides()?;
    let TeamAndIdea { team, idea } = words;
    if idea.is_some() {
        printer.warn("the idea is ignored: a resume uses the saved one");
    }
    let mut progress = ProgressDisplay::start(printer);
    let report = &mut |notice: Notice<'_>| progress.show_notice(notice);
    if args
        .storage
        .as_ref()
        .is_some_and(|storage| resolve_link(storage) != saved.path())
    {
        printer.warn("`--storage` is ignored: a resume goes on where the team is saved");
    }
    let answers = args
        .options
        .answer
        .iter()
        .map(|text| parse_answer(text))
        .collect::<Result<Vec<_>, _>>()?;
    let is_given = team.is_some();
    let what = Resume {
        team,
        saved_team_file: saved_team_file(args.options.trust),
        answers,
        calls: args.options.calls.into(),
        strict: args.options.strict,
        checkpoint: args.options.checkpoint.clone().map(CheckpointId),
        in_doubt: args.options.in_doubt.clone(),
        by: Some(args.options.author()),
        files: args.options.file.clone(),
        when_idle: args.options.when_idle(),
        telemetry: args.telemetry.clone(),
        ..Resume::new(saved.clone(), overrides)
    };
    let resumed = resume(what, report, on_line);
    // This is reported even if the resume is refused, since the line that is named may be fixed
    // already.
    if !is_given && !args.options.quiet && may_be_fixed_by_edit(&resumed) {
        note_edited_team_file(saved, args.options.policy.as_deref(), printer);
    }
    let resumed = resumed.map_err(|error| with_worker(error, saved, None))?;
    match resumed {
        ResumeOutcome::Running(run, notes) => {
            report_notes(&notes, run.location(), printer);
            Ok(LaunchedRun::Running(run))
        }
        ResumeOutcome::Finished(stepper, notes) => {
            report_notes(&notes, saved, printer);
            Ok(LaunchedRun::Finished(stepper))
        }
    }
}

/// Starts a team in `storage`.
fn launch_new(
    args: &RunArgs,
    storage: &StorageLocation,
    words: TeamAndIdea,
    on_line: LineListener,
    printer: &Printer,
) -> Result<LaunchedRun, CommandFailure> {
    let overrides = args.overrides()?;
    let mut progress = ProgressDisplay::start(printer);
    let report = &mut |notice: Notice<'_>| progress.show_notice(notice);
    let doubt = words.doubt();
    let TeamAndIdea { team, idea } = words;
    let idea = read_idea(idea)?;
    let default = || {
        Path::new(DEFAULT_TEAM)
            .exists()
            .then(|| DEFAULT_TEAM.into())
    };
    let team: PathBuf = team.or_else(default).ok_or_else(missing_team)?;
    if let Some(doubt) = doubt {
        printer.warn(doubt);
    }
    let replace = if args.force {
        ReplacePolicy::Unfinished
    } else {
        ReplacePolicy::Never
    };
    let what = Start {
        idea,
        files: args.options.file.clone(),
        replace,
        calls: args.options.calls.into(),
        telemetry: args.telemetry.clone(),
        ..Start::new(team, storage.clone(), overrides)
    };
    let team = what.team.clone();
    let started = start(what, report, on_line);
    let started = started.map_err(|error| with_worker(error, storage, Some(&team)))?;
    if let Some(aside) = started.moved_to {
        report(Notice::Note(&format!(
            "the team that was saved there is now in `{}`",
            aside.display()
        )));
    }
    if args.storage.is_none()
        && let Err(error) = storage.update_latest_link()
    {
        printer.warn(format_args!(
            "`{LAST_RUN_LINK}` does not lead to this run: {error}"
        ));
    }
    Ok(LaunchedRun::Running(Box::new(started.run)))
}

/// Returns whether editing the team file may make a difference to a resume.
fn may_be_fixed_by_edit(resumed: &Result<ResumeOutcome, LaunchError>) -> bool {
    !matches!(
        resumed,
        Ok(ResumeOutcome::Finished(..)) | Err(LaunchError::Unrecognized(_))
    )
}

/// Returns which saved team files are used, according to `--trust`.
pub(super) fn saved_team_file(trust: bool) -> SavedTeamFile {
    if trust {
        SavedTeamFile::Trusted
    } else {
        SavedTeamFile::OwnOrHarmless
    }
}

/// Returns the failure for a run without a team file.
fn missing_team() -> CommandFailure {
    CommandFailure::usage(
        "which team? give a TEAM.toml, or `--recover_path PATH` to resume a saved one; `strata-host new team NAME` makes one",
    )
}

pub(super) fn report_notes(notes: &ResumeNotes, storage: &StorageLocation, printer: &Printer) {
    if notes.team_json_differs {
        warn_edited(storage, printer);
    }
    if notes.nothing_in_doubt {
        printer.warn(format_args!("`--in-doubt` is ignored: nothing is in doubt"));
    }
    if notes.unsent_idea {
        let path = shell_path(storage.path());
        printer.warn(format_args!(
            "the idea was never sent, and nobody has mail; send it: `strata-host send {path} --cause {IDEA_LABEL} IDEA`"
        ));
    }
    for write in &notes.writes {
        printer.warn(write);
    }
    if !notes.missing_media.is_empty() {
        let missing = notes.missing_media.join(", ");
        printer.warn(format_args!(
            "a `team.json` alone does not contain the bytes of images and files, so these are missing: {missing}; \
             actions and models cannot read them. Give them again with `--file PATH`, or resume the whole directory"
        ));
    }
}

/// Returns a listener that writes public events to `events` and reports them to the operator. Only
/// lines that are needed for that are built.
pub(super) fn line_listener(
    events: Option<(&Path, PreviousContent)>,
    reporter: Reporter,
    printer: &Printer,
) -> Result<LineListener, CommandFailure> {
    let needs_all = events.is_some() || !printer.is_quiet();
    let on_line = event_listener(events, reporter, printer)?;
    Ok(if needs_all {
        LineListener::Each(on_line)
    } else {
        LineListener::Selected {
            select: may_be_warning,
            on_line,
        }
    })
}

/// Receives public events.
pub(super) type EventListener = Box<dyn FnMut(&EventLine) + Send>;

/// Returns a listener that writes public events to `events` and reports them to the operator.
pub(super) fn event_listener(
    events: Option<(&Path, PreviousContent)>,
    mut reporter: Reporter,
    printer: &Printer,
) -> Result<EventListener, CommandFailure> {
    let mut sink = events
        .map(|(path, previous)| EventsSink::open(path, previous, printer))
        .transpose()?;
    let printer = printer.clone();
    Ok(Box::new(move |line: &EventLine| {
        if let Some(out) = &mut sink
            && let Err(error) = out.write(line)
        {
            printer.warn(format_args!("events are no longer written: {error}"));
            sink = None;
        }
        reporter.receive(line);
    }))
}

impl RunArgs {
    /// Returns the team file and the idea.
    fn words(&self) -> Result<TeamAndIdea, CommandFailure> {
        let idea_use = match self.recover_path {
            Some(_) => IdeaUse::Ignore,
            None => IdeaUse::Start { command: "run" },
        };
        TeamAndIdea::parse(&self.words, idea_use)
    }

    /// Returns where the run is, or will be, saved.
    fn storage(&self) -> Result<StorageLocation, CommandFailure> {
        let team = self.words()?.team;
        let by_name = || storage_by_name(team.as_deref().unwrap_or(Path::new(DEFAULT_TEAM)));
        // A resume names its own storage.
        let named = || self.storage.clone().unwrap_or_else(by_name).into();
        Ok(self.recover_path.clone().unwrap_or_else(named))
    }

    fn overrides(&self) -> Result<Overrides, CommandFailure> {
        Ok(Overrides {
            max_steps: self.options.max_steps,
            max_parallel: self.options.max_parallel,
            investment: self.options.investment,
            record: self.options.record.clone(),
            operators: in_force(self.options.policy.as_deref())?,
            components: self.options.component.clone(),
            ..Overrides::default()
        })
    }

    fn previous_content(&self) -> PreviousContent {
        self.recover_path
            .clone()
            .map_or(PreviousContent::Dropped, PreviousContent::Kept)
    }
}
