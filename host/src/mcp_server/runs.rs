//! The runs of a team: each is started or continued on a thread of its own, in a storage directory of
//! its own. Any number of calls may wait for a run; when the last of them is given up, the run is
//! interrupted and saved.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_base::random_id::random_name;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::id::RunId;
use strata_driver::public_event::{EventLine, PublicEvent};
use strata_driver::{HumanReply, LineListener};
use strata_storage::{StateSelector, StorageLocation};
use strata_view::{EndedRun, RunEnding};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arguments::RunName;
use super::{OfferedTeam, ReportNotice};
use crate::launch::{
    self, AcceptedAnswers, LaunchError, Resume, ResumeOutcome, RunHandle, Start,
    load_saved_with_provenance,
};

/// The number of characters of the name of a new run.
const NAME_CHARS: usize = 12;

/// How a run is begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Launch {
    /// A new run with this idea.
    New {
        /// What the team is asked to do.
        idea: String,
    },
    /// A saved run, whatever stopped it. One that is done is not run.
    Resume,
    /// A saved run only if it was cut off, interrupted, or waits; otherwise its ending is that which
    /// is saved.
    Reattach,
    /// A saved run is not run. Its ending is that which is saved.
    Look,
}

/// How a run ended, or why it could not be run.
pub(super) type RunResult = Result<RunEnding, String>;

/// What a run does at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    /// A number that grows.
    pub(super) number: u64,
    /// The role and the action.
    pub(super) text: String,
}

/// The runs of a team.
#[derive(Clone)]
pub(super) struct TeamRuns {
    inner: Arc<RunsInner>,
}

struct RunsInner {
    offered: OfferedTeam,
    report: ReportNotice,
    closing: CancellationToken,
    active: Mutex<BTreeMap<RunName, ActiveRun>>,
    /// The number of active runs.
    count: watch::Sender<usize>,
    /// The number of the next call.
    numbers: AtomicU64,
}

/// A run that has a thread.
#[derive(Clone)]
struct ActiveRun {
    end: watch::Receiver<Option<RunResult>>,
    activity: watch::Receiver<Activity>,
    stop: watch::Sender<bool>,
    /// The calls that wait for it: each is cancelled by its client, or ends.
    callers: Vec<Caller>,
}

/// A call that waits for a run.
#[derive(Clone)]
struct Caller {
    number: u64,
    cancelled: CancellationToken,
}

impl ActiveRun {
    /// Returns whether the run is about to be interrupted, because nobody waits for it any more. A
    /// call that was cancelled counts as gone before it has noticed it, so that a call which arrives
    /// after the cancellation does not join what is to be interrupted.
    fn is_given_up(&self) -> bool {
        let is_gone = |caller: &Caller| caller.cancelled.is_cancelled();
        if self.callers.iter().all(is_gone) {
            self.stop.send_replace(true);
        }
        *self.stop.borrow()
    }
}

/// A call that waits for a run. When it is dropped, and no other call waits for the run, the run is
/// interrupted.
pub(super) struct Attendance {
    runs: TeamRuns,
    run: RunName,
    number: u64,
    end: watch::Receiver<Option<RunResult>>,
    /// What the run does.
    pub(super) activity: watch::Receiver<Activity>,
}

impl TeamRuns {
    /// Opens the directory of the runs, which is created if it is missing.
    pub(super) fn open(
        offered: OfferedTeam,
        report: ReportNotice,
        closing: CancellationToken,
    ) -> Result<Self, LaunchError> {
        let directory = &offered.storage;
        create_private_directory(directory).map_err(|error| {
            let place = directory.display();
            LaunchError::InvalidInput(format!(
                "the directory of the runs, `{place}`, cannot be used: {error}"
            ))
        })?;
        Ok(Self {
            inner: Arc::new(RunsInner {
                offered,
                report,
                closing,
                active: Mutex::default(),
                count: watch::Sender::new(0),
                numbers: AtomicU64::new(0),
            }),
        })
    }

    /// Returns the directory of the runs.
    pub(super) fn directory(&self) -> &Path {
        &self.inner.offered.storage
    }

    /// Returns a name that no run has.
    pub(super) fn new_name(&self) -> RunName {
        let name = &random_name()[..NAME_CHARS];
        RunName::parse(name).expect("hexadecimal digits can be a name")
    }

    /// Returns whether a run of this name is saved, or is about to be.
    pub(super) fn exists(&self, run: &RunName) -> bool {
        self.active().contains_key(run) || self.storage(run).is_dir()
    }

    /// Waits for a run, which is begun if it is not active. `cancelled` is cancelled with the call.
    pub(super) async fn attend(
        &self,
        run: &RunName,
        launch: Launch,
        cancelled: CancellationToken,
    ) -> Attendance {
        let number = self.inner.numbers.fetch_add(1, Ordering::Relaxed);
        let caller = Caller { number, cancelled };
        loop {
            let stopping = {
                let mut active = self.active();
                match active.get_mut(run) {
                    Some(known) if known.is_given_up() => known.end.clone(),
                    Some(known) => {
                        known.callers.push(caller);
                        return self.attendance(run, number, known);
                    }
                    None => {
                        let begun = self.begin(run, launch, caller);
                        let attendance = self.attendance(run, number, &begun);
                        active.insert(run.clone(), begun);
                        self.inner.count.send_modify(|count| *count += 1);
                        return attendance;
                    }
                }
            };
            let mut stopping = stopping;
            // If the sender is dropped, the run has ended, too.
            let _ = stopping.wait_for(Option::is_some).await;
            tokio::task::yield_now().await;
        }
    }

    fn attendance(&self, run: &RunName, number: u64, active: &ActiveRun) -> Attendance {
        Attendance {
            runs: self.clone(),
            run: run.clone(),
            number,
            end: active.end.clone(),
            activity: active.activity.clone(),
        }
    }

    /// Records an answer to a request of a run that is not active.
    pub(super) async fn answer(
        &self,
        run: &RunName,
        reply: HumanReply,
    ) -> Result<AcceptedAnswers, LaunchError> {
        let location = StorageLocation::new(self.storage(run));
        let answered = move || launch::answer(&location, &[reply]);
        let answered = tokio::task::spawn_blocking(answered).await;
        answered.unwrap_or_else(|_| {
            let text = "the answer could not be recorded: its thread ended unexpectedly";
            Err(LaunchError::InvalidInput(text.into()))
        })
    }

    /// Waits until no run is active.
    pub(super) async fn ended(&self) {
        let mut count = self.inner.count.subscribe();
        // This cannot fail: `self` has the sender.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    /// Starts the thread of a run.
    fn begin(&self, run: &RunName, launch: Launch, caller: Caller) -> ActiveRun {
        let (stop, stopped) = watch::channel(self.inner.closing.is_cancelled());
        let (tell_activity, activity) = watch::channel(Activity::default());
        let (tell_end, end) = watch::channel(None);
        let attempt = RunAttempt {
            runs: Arc::clone(&self.inner),
            storage: self.storage(run),
            run: run.clone(),
            stopped,
            activity: tell_activity,
        };
        let (runs, name) = (self.clone(), run.clone());
        let closing = self.inner.closing.clone();
        let stop_when_closing = stop.clone();
        let thread = tokio::task::spawn_blocking(move || attempt.run_to_end(&launch));
        tokio::spawn(async move {
            tokio::pin!(thread);
            let ended = tokio::select! {
                ended = &mut thread => ended,
                () = closing.cancelled() => {
                    stop_when_closing.send_replace(true);
                    thread.await
                }
            };
            let result = ended.unwrap_or_else(|_| {
                Err("the thread of the run ended unexpectedly; what was durable is saved".into())
            });
            // It is removed first, so that whoever learns of the end can continue the run.
            runs.active().remove(&name);
            tell_end.send_replace(Some(result));
            runs.inner.count.send_modify(|count| *count -= 1);
        });
        ActiveRun {
            end,
            activity,
            stop,
            callers: vec![caller],
        }
    }

    fn storage(&self, run: &RunName) -> PathBuf {
        self.inner.offered.storage.join(run.as_str())
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<RunName, ActiveRun>> {
        let active = self.inner.active.lock();
        active.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attendance {
    /// Waits until the run has ended or rests. The future does not borrow this.
    pub(super) fn ended(&self) -> impl Future<Output = RunResult> + use<> {
        let mut end = self.end.clone();
        async move {
            match end.wait_for(Option::is_some).await {
                Ok(end) => (*end).clone().unwrap_or_else(|| Err(LOST_END.into())),
                Err(_) => Err(LOST_END.into()),
            }
        }
    }
}

/// The error of a run whose end cannot be learned.
const LOST_END: &str = "how the run ended is not known; look with `inspect`";

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut active = self.runs.active();
        let Some(run) = active.get_mut(&self.run) else {
            return;
        };
        // Another run of the same name may have begun since this one ended.
        if !run.end.same_channel(&self.end) {
            return;
        }
        run.callers.retain(|caller| caller.number != self.number);
        if run.callers.is_empty() {
            run.stop.send_replace(true);
        }
    }
}

/// What the thread of a run needs.
struct RunAttempt {
    runs: Arc<RunsInner>,
    run: RunName,
    storage: PathBuf,
    stopped: watch::Receiver<bool>,
    activity: watch::Sender<Activity>,
}

impl RunAttempt {
    /// Launches the run, and runs it until it ends, rests or is stopped.
    fn run_to_end(mut self, launch: &Launch) -> RunResult {
        self.launch_and_run(launch)
            .map_err(|error| error.to_string())
    }

    fn launch_and_run(&mut self, launch: &Launch) -> Result<RunEnding, LaunchError> {
        let mut run = match launch {
            Launch::New { idea } => self.start(idea.clone())?,
            Launch::Look => return self.saved_ending(),
            Launch::Reattach if !may_reattach(self.saved_ending()?.status) => {
                return self.saved_ending();
            }
            Launch::Resume | Launch::Reattach => match self.resume()? {
                Some(run) => run,
                None => return self.saved_ending(),
            },
        };
        let status = Handle::current().block_on(run.run(&mut self.stopped))?;
        let policy = self.runs.offered.policy.as_deref();
        Ok(run.ended(policy).ending(status))
    }

    fn start(&self, idea: String) -> Result<Box<RunHandle>, LaunchError> {
        let offered = &self.runs.offered;
        let start = Start {
            idea: Some(idea),
            run: Some(RunId::from(self.run.as_str())),
            telemetry: offered.telemetry.clone(),
            ..Start::new(
                offered.team.clone(),
                self.storage.clone(),
                offered.overrides.clone(),
            )
        };
        let report = &mut |notice: launch::Notice<'_>| (self.runs.report)(notice);
        let started = launch::start(start, report, self.listener())?;
        Ok(Box::new(started.run))
    }

    /// Continues the run. Returns `None` if it is done.
    fn resume(&self) -> Result<Option<Box<RunHandle>>, LaunchError> {
        let offered = &self.runs.offered;
        let resume = Resume {
            team: Some(offered.team.clone()),
            telemetry: offered.telemetry.clone(),
            ..Resume::new(self.storage.clone(), offered.overrides.clone())
        };
        let report = &mut |notice: launch::Notice<'_>| (self.runs.report)(notice);
        match launch::resume(resume, report, self.listener())? {
            ResumeOutcome::Running(run, _) => Ok(Some(run)),
            ResumeOutcome::Finished(..) => Ok(None),
        }
    }

    /// Returns the ending that is saved.
    fn saved_ending(&self) -> Result<RunEnding, LaunchError> {
        let location = StorageLocation::new(self.storage.clone());
        let (saved, provenance) = load_saved_with_provenance(&location, &StateSelector::Head)?;
        let stepper: &Stepper = &saved.stepper;
        let ended = EndedRun {
            stepper,
            provenance: &provenance,
            storage: &self.storage,
            policy: self.runs.offered.policy.as_deref(),
        };
        Ok(ended.ending(stepper.env().status))
    }

    /// Returns a listener that notes what the run does.
    fn listener(&self) -> LineListener {
        let activity = self.activity.clone();
        LineListener::Selected {
            select: is_activity,
            on_line: Box::new(move |line| {
                if let Some(text) = describe_activity(line) {
                    let number = line.n;
                    activity.send_replace(Activity { number, text });
                }
            }),
        }
    }
}

/// Returns whether a run with this status is continued by a call that repeats an earlier one.
fn may_reattach(status: Status) -> bool {
    matches!(
        status,
        Status::Running | Status::Interrupted | Status::Waiting
    )
}

/// Returns whether the lines of an event describe what a run does.
fn is_activity(event: &Event) -> bool {
    matches!(
        event,
        Event::Attempt(
            _,
            AttemptEvent::CallStarted(_)
                | AttemptEvent::CallFinished(_)
                | AttemptEvent::CallFailed(_)
        )
    )
}

/// Describes what a run does by a line.
fn describe_activity(line: &EventLine) -> Option<String> {
    match &line.event {
        PublicEvent::ActionStarted { action, .. } => {
            Some(format!("{} started", action.qualified_name()))
        }
        PublicEvent::ActionFinished { action, .. } => {
            Some(format!("{} finished", action.qualified_name()))
        }
        PublicEvent::ActionFailed { action, .. } => {
            Some(format!("{} failed", action.qualified_name()))
        }
        PublicEvent::Turn { role, turn, .. } => Some(format!("{role} turn {turn}")),
        _ => None,
    }
}

/// Creates a directory that only this user may read.
fn create_private_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}
