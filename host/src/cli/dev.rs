//! `dev`: runs a team repeatedly while it is edited. A round is one run until its end; each change
//! of a file starts another. `launch::develop` decides where a round continues from, `watch` which
//! files are watched.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use strata_core::event::Status;
use strata_core::fault::FaultKind;
use tokio::sync::watch;

use super::args::DevArgs;
use super::ending::Ending;
use super::events_sink::{Held, spare_events};
use super::live::Live;
use super::prompt::Prompt;
use super::reporter::{Loudness, Reporter};
use super::run::{Listener, listener, play, tell_notes, to_its_end};
use super::signals::Signals;
use super::watch::{Change, Watch, written};
use super::{Failure, counted, exit_code, note, shown, tell};
use crate::driver::OnLine;
use crate::driver::clock::now_ms;
use crate::launch::{Develop, Developed, Inputs, LaunchError, Run, develop, development_storage};
use crate::manifest::Overrides;
use crate::manifest::operator::{Operator, files as policy_files, in_force};
use crate::public_event::{EventLine, PublicEvent};

/// The maximum number of changed files that are named.
const NAMED: usize = 3;

pub(super) fn dev(args: &DevArgs) -> Result<u8, Failure> {
    to_its_end(rounds(args))
}

/// How a round ended.
enum Round {
    /// The team cannot be run as it is.
    Refused,
    /// The run ended, or there was nothing to run.
    Ended(Status),
    /// It was stopped because files changed.
    Changed(Change),
    /// It was stopped by a signal.
    Stopped,
}

/// Why the wait between rounds ended.
enum Wake {
    /// A signal was received.
    Stopped,
    /// Files changed.
    Files(Change),
    /// Another process wrote to the storage.
    Storage,
}

/// What all rounds share.
struct Session {
    /// Receives public events.
    lines: Arc<Mutex<Listener>>,
    live: Live,
    watch: Watch,
    /// One for all rounds, so that a line being typed goes to the round that is then active.
    prompt: Option<Prompt>,
    /// Becomes true with the first signal.
    stop: watch::Receiver<bool>,
}

async fn rounds(args: &DevArgs) -> Result<u8, Failure> {
    let signals = Signals::heard()?;
    let live = Live::at_terminal();
    let reporter = Reporter::new(Loudness::Normal, live.clone());
    let storage = storage_of(args);
    let inputs = Inputs {
        team: Some(&args.team),
        storage: Some(&storage),
        policies: policy_files(args.policy.as_deref()),
        ..Inputs::default()
    };
    spare_events(args.events.as_deref(), &inputs)?;
    let events = args.events.as_deref().map(|path| (path, Held::Dropped));
    let lines = Arc::new(Mutex::new(listener(events, reporter)?));
    signals.begin();
    let mut session = Session {
        lines,
        live,
        watch: Watch::of(&args.team, may_build(args)),
        prompt: Prompt::at_terminal(),
        stop: signals.stop.clone(),
    };
    let mut change: Option<Change> = None;
    // Changed files accumulate until a round has started with them.
    let mut changed: Vec<PathBuf> = Vec::new();
    loop {
        changed.extend(change.iter().flat_map(|change| change.files.clone()));
        let round = session.round(args, change.as_ref(), &changed).await?;
        session.watch.follow(may_build(args));
        if !matches!(round, Round::Refused) {
            changed.clear();
        }
        let (code, seen) = match round {
            Round::Stopped => return Ok(signals.code()),
            // A signal also ends a build.
            Round::Refused if *session.stop.borrow() => return Ok(signals.code()),
            Round::Refused => (2, None),
            Round::Ended(Status::Done) if args.until_done => return Ok(0),
            Round::Ended(status) => (exit_code(status), None),
            Round::Changed(change) => (0, Some(change)),
        };
        let storage = storage_of(args);
        change = match seen {
            Some(change) => Some(change),
            None => match session.wait(args, &storage).await {
                Wake::Stopped => return Ok(code),
                Wake::Files(change) => Some(change),
                Wake::Storage => None,
            },
        };
        let what = change
            .as_ref()
            .map_or_else(|| format!("`{}`", shown(&storage)), named);
        note(format_args!("\n{what} changed"));
    }
}

impl Session {
    /// Waits between rounds until something happens that may start another.
    async fn wait(&mut self, args: &DevArgs, storage: &Path) -> Wake {
        let what = match self.watch.count() {
            // The files of a team are not known until its team file can be read.
            _ if !args.team.exists() => {
                format!("waiting for `{}` to be there", shown(&args.team))
            }
            count => format!("watching {} for changes", counted(count as u64, "file")),
        };
        note(format_args!("{what}; Ctrl-C ends it"));
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Wake::Stopped,
            change = self.watch.changed() => Wake::Files(change),
            () = written(storage) => Wake::Storage,
        }
    }

    /// Runs one round. `changed` are all files that changed since the last round that started;
    /// `change` is the newest change, from which the time to the first result is measured.
    async fn round(
        &mut self,
        args: &DevArgs,
        change: Option<&Change>,
        changed: &[PathBuf],
    ) -> Result<Round, Failure> {
        let overrides = Overrides {
            operators: in_force(args.policy.as_deref())?,
            ..Overrides::default()
        };
        let what = Develop {
            team: args.team.clone(),
            idea: args.idea.clone(),
            overrides,
            storage: storage_of(args),
            changed: changed.to_vec(),
        };
        let mut run = match develop(&what, &mut tell, on_line(&self.lines, change)) {
            Ok(Developed::Goes(run, notes)) => {
                tell_notes(&notes, run.path());
                run
            }
            Ok(Developed::Unchanged) => {
                note("the team is done, and nothing that it ran with has changed");
                return Ok(Round::Ended(Status::Done));
            }
            Err(error) if is_mendable(&error) => {
                Failure::from(error).tell();
                return Ok(Round::Refused);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(audience) = self.live.listening_with(None) {
            run.let_hear(audience);
        }
        self.live.begin(run.stepper());
        let ended = self.until_changed(&mut run).await;
        self.live.end();
        let (ended, change) = ended?;
        match (ended, change) {
            _ if *self.stop.borrow() => {
                Ending::of(&run, args.policy.as_deref())
                    .tell(Status::Interrupted, Loudness::Normal);
                Ok(Round::Stopped)
            }
            (_, Some(change)) => Ok(Round::Changed(change)),
            (status, None) => {
                Ending::of_round(&run, args.policy.as_deref()).tell(status, Loudness::Normal);
                Ok(Round::Ended(status))
            }
        }
    }

    /// Runs a team until it ends, or until a change or a signal stops it.
    async fn until_changed(&mut self, run: &mut Run) -> Result<(Status, Option<Change>), Failure> {
        let (halt, mut halted) = watch::channel(*self.stop.borrow());
        let mut playing = Box::pin(play(run, &mut self.prompt, &mut halted));
        let change = tokio::select! {
            biased;
            ended = &mut playing => return Ok((ended?, None)),
            _ = self.stop.wait_for(|stop| *stop) => None,
            change = self.watch.changed() => Some(change),
        };
        halt.send_replace(true);
        Ok((playing.await?, change))
    }
}

/// Returns the directory where the team is saved. It depends on the team's name.
fn storage_of(args: &DevArgs) -> PathBuf {
    args.storage
        .clone()
        .unwrap_or_else(|| development_storage(&args.team))
}

/// Returns whether every policy in force permits building sources.
fn may_build(args: &DevArgs) -> bool {
    in_force(args.policy.as_deref())
        .is_ok_and(|operators| operators.iter().all(Operator::allows_builds))
}

/// Returns whether editing the team's files may resolve an error.
fn is_mendable(error: &LaunchError) -> bool {
    use LaunchError::{Answer, Definition, Lock, Missing, Model, Override, Unfit};
    matches!(
        error,
        Definition(_) | Override(_) | Missing(_) | Answer(_) | Model(_) | Lock(_) | Unfit(_)
    )
}

/// Returns a listener that passes on every line and reports once how long it took from a change to
/// the first result of what was changed.
fn on_line(lines: &Arc<Mutex<Listener>>, change: Option<&Change>) -> OnLine {
    let lines = Arc::clone(lines);
    let mut since = change.map(|change| (change.saved_ms, named(change)));
    let mut replaced = Vec::new();
    OnLine::Each(Box::new(move |line: &EventLine| {
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
                    note(format_args!(
                        "{seconds:.1} s from saving {named} to the result of {name}"
                    ));
                }
            }
            _ => {}
        }
    }))
}

/// Returns the files of a change as text.
fn named(change: &Change) -> String {
    let mut names: Vec<String> = change
        .files
        .iter()
        .take(NAMED)
        .map(|file| format!("`{}`", shown(file)))
        .collect();
    let more = change.files.len().saturating_sub(NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    names.join(", ")
}
