//! `dev`: runs a team repeatedly while it is edited. A round is one run until its end; each change
//! of a file starts another. `launch::develop` decides where a round continues from, `watch` which
//! files are watched.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use strata_core::record::event::Status;
use strata_core::record::fault::FaultKind;
use strata_host::clock::now_ms;
use strata_host::display_path::relative_path;
use strata_host::driver::LineListener;
use strata_host::launch::{
    DevelopOutcome, DevelopRound, LaunchError, RunHandle, TeamInputs, develop, development_storage,
};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::{OperatorPolicy, in_force, policy_files};
use strata_host::public_event::{EventLine, PublicEvent};
use strata_host::storage::StorageLocation;
use tokio::sync::watch;

use super::args::DevArgs;
use super::end_report::EndReport;
use super::events_sink::{PreviousContent, ensure_events_not_input};
use super::given_text::read_idea;
use super::live_view::LiveView;
use super::prompt::Prompt;
use super::reporter::Reporter;
use super::run::{EventListener, block_on_run, event_listener, report_notes, run_with_prompt};
use super::signals::Signals;
use super::watch::{ChangedFiles, FileWatcher, storage_written};
use super::{CommandFailure, Printer, exit_code, pluralize};

/// The maximum number of changed files that are named.
const MAX_NAMED_FILES: usize = 3;

pub(super) fn dev(mut args: DevArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    args.idea = read_idea(args.idea)?;
    block_on_run(|_| run_rounds(&args, printer))
}

/// How a round ended.
enum Round {
    /// The team cannot be run as it is.
    Refused,
    /// The run ended, or there was nothing to run.
    Ended(Status),
    /// It was stopped because files changed.
    Changed(ChangedFiles),
    /// It was stopped by a signal.
    Stopped,
}

/// Why the wait between rounds ended.
enum Wake {
    /// A signal was received.
    Stopped,
    /// Files changed.
    Files(ChangedFiles),
    /// Another process wrote to the storage.
    Storage,
}

/// What all rounds share.
struct Session {
    /// Receives public events.
    lines: Arc<Mutex<EventListener>>,
    printer: Printer,
    live: LiveView,
    watch: FileWatcher,
    /// One for all rounds, so that a line being typed goes to the round that is then active.
    prompt: Option<Prompt>,
    /// Becomes true with the first signal.
    stop_signal: watch::Receiver<bool>,
}

async fn run_rounds(args: &DevArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let signals = Signals::subscribe()?;
    let live = LiveView::at_terminal(printer);
    let reporter = Reporter::new(printer, live.clone());
    let storage = storage_location(args);
    let inputs = TeamInputs {
        team: Some(&args.team),
        storage: Some(&storage),
        policies: policy_files(args.policy.as_deref()),
        ..TeamInputs::default()
    };
    ensure_events_not_input(args.events.as_deref(), &inputs)?;
    let events = args
        .events
        .as_deref()
        .map(|path| (path, PreviousContent::Dropped));
    let lines = Arc::new(Mutex::new(event_listener(events, reporter, printer)?));
    signals.set_run_started();
    let mut session = Session {
        lines,
        printer: printer.clone(),
        live,
        watch: FileWatcher::new(&args.team, permits_builds(args)),
        prompt: Prompt::at_terminal(printer),
        stop_signal: signals.stop.clone(),
    };
    let mut change: Option<ChangedFiles> = None;
    // Changed files accumulate until a round has started with them.
    let mut changed: Vec<PathBuf> = Vec::new();
    loop {
        changed.extend(change.iter().flat_map(|change| change.files.clone()));
        let round = session.run_round(args, change.as_ref(), &changed).await?;
        session.watch.refresh(permits_builds(args));
        if !matches!(round, Round::Refused) {
            changed.clear();
        }
        let (code, seen) = match round {
            Round::Stopped => return Ok(signals.code()),
            // A signal also ends a build.
            Round::Refused if *session.stop_signal.borrow() => return Ok(signals.code()),
            Round::Refused => (2, None),
            Round::Ended(Status::Done) if args.until_done => return Ok(0),
            Round::Ended(status) => (exit_code(status), None),
            Round::Changed(change) => (0, Some(change)),
        };
        let storage = storage_location(args);
        change = match seen {
            Some(change) => Some(change),
            None => match session.wait_for_change(args, &storage).await {
                Wake::Stopped => return Ok(code),
                Wake::Files(change) => Some(change),
                Wake::Storage => None,
            },
        };
        let what = change.as_ref().map_or_else(
            || format!("`{}`", relative_path(storage.path())),
            describe_change,
        );
        printer.note(format_args!("\n{what} changed"));
    }
}

impl Session {
    /// Waits between rounds until something happens that may start another.
    async fn wait_for_change(&mut self, args: &DevArgs, storage: &StorageLocation) -> Wake {
        let what = match self.watch.count() {
            // The files of a team are not known until its team file can be read.
            _ if !args.team.exists() => {
                format!("waiting for `{}` to be there", relative_path(&args.team))
            }
            count => format!("watching {} for changes", pluralize(count as u64, "file")),
        };
        self.printer.note(format_args!("{what}; Ctrl-C ends it"));
        tokio::select! {
            biased;
            _ = self.stop_signal.wait_for(|stop| *stop) => Wake::Stopped,
            change = self.watch.changed() => Wake::Files(change),
            () = storage_written(storage) => Wake::Storage,
        }
    }

    /// Runs one round. `changed` are all files that changed since the last round that started;
    /// `change` is the newest change, from which the time to the first result is measured.
    async fn run_round(
        &mut self,
        args: &DevArgs,
        change: Option<&ChangedFiles>,
        changed: &[PathBuf],
    ) -> Result<Round, CommandFailure> {
        let overrides = Overrides {
            operators: in_force(args.policy.as_deref())?,
            ..Overrides::default()
        };
        let what = DevelopRound {
            team: args.team.clone(),
            idea: args.idea.clone(),
            overrides,
            storage: storage_location(args),
            changed: changed.to_vec(),
        };
        let mut run = match develop(
            &what,
            &mut |notice| self.printer.notice(notice),
            round_listener(&self.lines, change, &self.printer),
        ) {
            Ok(DevelopOutcome::Running(run, notes)) => {
                report_notes(&notes, run.location(), &self.printer);
                run
            }
            Ok(DevelopOutcome::Unchanged) => {
                self.printer
                    .note("the team is done, and nothing that it ran with has changed");
                return Ok(Round::Ended(Status::Done));
            }
            Err(error) if may_be_fixed_by_edit(&error) => {
                CommandFailure::from(error).print(&self.printer);
                return Ok(Round::Refused);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(factory) = self.live.observer_factory(None) {
            run.observe(factory);
        }
        self.live.show(run.stepper());
        let ended = self.run_until_change(&mut run).await;
        self.live.hide();
        let (ended, change) = ended?;
        match (ended, change) {
            _ if *self.stop_signal.borrow() => {
                EndReport::from_run(&run, args.policy.as_deref(), Status::Interrupted)
                    .write(&self.printer);
                Ok(Round::Stopped)
            }
            (_, Some(change)) => Ok(Round::Changed(change)),
            (status, None) => {
                EndReport::from_round(&run, args.policy.as_deref(), status).write(&self.printer);
                Ok(Round::Ended(status))
            }
        }
    }

    /// Runs a team until it ends, or until a change or a signal stops it.
    async fn run_until_change(
        &mut self,
        run: &mut RunHandle,
    ) -> Result<(Status, Option<ChangedFiles>), CommandFailure> {
        let (halt, mut halted) = watch::channel(*self.stop_signal.borrow());
        let mut playing = Box::pin(run_with_prompt(run, &mut self.prompt, &mut halted));
        let change = tokio::select! {
            biased;
            ended = &mut playing => return Ok((ended?, None)),
            _ = self.stop_signal.wait_for(|stop| *stop) => None,
            change = self.watch.changed() => Some(change),
        };
        halt.send_replace(true);
        Ok((playing.await?, change))
    }
}

/// Returns where the team is saved. It depends on the team's name.
fn storage_location(args: &DevArgs) -> StorageLocation {
    let named = args.storage.clone();
    named
        .unwrap_or_else(|| development_storage(&args.team))
        .into()
}

/// Returns whether every policy in force permits building sources.
fn permits_builds(args: &DevArgs) -> bool {
    in_force(args.policy.as_deref())
        .is_ok_and(|operators| operators.iter().all(OperatorPolicy::allows_builds))
}

/// Returns whether editing the team's files may resolve an error.
fn may_be_fixed_by_edit(error: &LaunchError) -> bool {
    use LaunchError::{
        Answer, Definition, InvalidInput, Lock, Mismatch, Model, Override, Unsuitable,
    };
    matches!(
        error,
        Definition(_)
            | Override(_)
            | InvalidInput(_)
            | Unsuitable { .. }
            | Answer(_)
            | Model(_)
            | Lock(_)
            | Mismatch(_)
    )
}

/// Returns a listener that passes on every line and reports once how long it took from a change to
/// the first result of what was changed.
fn round_listener(
    lines: &Arc<Mutex<EventListener>>,
    change: Option<&ChangedFiles>,
    printer: &Printer,
) -> LineListener {
    let lines = Arc::clone(lines);
    let printer = printer.clone();
    let mut since = change.map(|change| (change.saved_ms, describe_change(change)));
    let mut replaced = Vec::new();
    LineListener::Each(Box::new(move |line: &EventLine| {
        lines.lock().unwrap_or_else(PoisonError::into_inner)(line);
        match &line.event {
            PublicEvent::ComponentChanged { role, action, .. } => {
                replaced.push(format!("{role}.{action}"));
            }
            // The next change came before there was a result.
            PublicEvent::ActionFailed {
                fault: FaultKind::Interrupted,
                ..
            } => {}
            PublicEvent::ActionFinished { action, .. }
            | PublicEvent::ActionFailed { action, .. } => {
                let name = action.qualified_name();
                if (replaced.is_empty() || replaced.contains(&name))
                    && let Some((saved_ms, named)) = since.take()
                {
                    let seconds = (now_ms() - saved_ms).max(0) as f64 / 1000.0;
                    printer.note(format_args!(
                        "{seconds:.1} s from saving {named} to the result of {name}"
                    ));
                }
            }
            _ => {}
        }
    }))
}

/// Returns the files of a change as text.
fn describe_change(change: &ChangedFiles) -> String {
    let mut names: Vec<String> = change
        .files
        .iter()
        .take(MAX_NAMED_FILES)
        .map(|file| format!("`{}`", relative_path(file)))
        .collect();
    let more = change.files.len().saturating_sub(MAX_NAMED_FILES);
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}
