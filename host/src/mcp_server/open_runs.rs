//! The runs that this process carries out, each on a thread of its own. A run goes on as long as something is left to do
//! and, while an MCP server asks a person within a call, also while nobody waits for it: the call would be lost with the
//! server if the run ended before the answer comes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_driver::{DriverHandle, RunState, WhenIdle};
use strata_view::{Continuation, EndedRun, Provenance, RunEnding, status_at_rest};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::arguments::RunName;
use super::place::{Activity, RunAttempt, RunResult};
use crate::launch::{LaunchError, RunHandle};
use crate::live::LiveError;
use crate::live::thread::RunThread;

/// How many runs are kept open while nobody waits for them. Each has a thread, and a server with its process. Any other
/// run that rests is ended and saved.
const MAX_KEPT_RUNS: usize = 64;

/// The runs that have a thread.
pub(super) struct OpenRuns {
    /// The policy that was named, for the commands in messages.
    policy: Option<PathBuf>,
    /// By name.
    runs: Mutex<BTreeMap<String, OpenRun>>,
    /// How many there are.
    count: watch::Sender<usize>,
}

/// A run that has a thread.
#[derive(Clone)]
pub(super) struct OpenRun {
    orders: DriverHandle,
    state: watch::Receiver<RunState>,
    activity: watch::Receiver<Activity>,
    stop: watch::Sender<bool>,
    end: watch::Receiver<Option<RunResult>>,
    storage: PathBuf,
    provenance: Arc<Provenance>,
    /// Whether it rests and nobody waits for it.
    is_kept: bool,
}

impl OpenRuns {
    pub(super) fn new(policy: Option<PathBuf>) -> Self {
        Self {
            policy,
            runs: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OpenRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a run that is open, for somebody who waits for it. If it is about to end, this returns `None` when it
    /// has ended. Blocks.
    pub(super) fn find(&self, run: &RunName) -> Option<OpenRun> {
        let mut open = {
            let mut runs = self.lock();
            let open = runs.get_mut(run.as_str())?;
            open.is_kept = false;
            open.clone()
        };
        if !*open.stop.borrow() {
            return Some(open);
        }
        // If the sender is dropped, it has ended, too.
        let _ = Handle::current().block_on(open.end.wait_for(Option::is_some));
        None
    }

    /// Starts the thread of a run. `activity` receives what the run does.
    pub(super) fn begin(
        self: &Arc<Self>,
        name: &RunName,
        mut run: Box<RunHandle>,
        activity: watch::Receiver<Activity>,
    ) -> Result<OpenRun, LiveError> {
        run.set_when_idle(WhenIdle::KeepCalls);
        let (stop, stopped) = watch::channel(false);
        let (tell_end, end) = watch::channel(None);
        let open = OpenRun {
            orders: run.orders(),
            state: run.run_state(),
            activity,
            stop,
            end,
            storage: run.location().path().to_owned(),
            provenance: Arc::new(run.provenance().clone()),
            is_kept: false,
        };
        let thread = RunThread::spawn(Handle::current(), run, stopped)?;
        self.lock().insert(name.as_str().to_owned(), open.clone());
        self.count.send_modify(|count| *count += 1);
        tokio::spawn(Arc::clone(self).note_end(name.clone(), thread, tell_end));
        Ok(open)
    }

    /// Waits for the end of a run.
    async fn note_end(
        self: Arc<Self>,
        name: RunName,
        mut thread: RunThread,
        tell_end: watch::Sender<Option<RunResult>>,
    ) {
        let ended = thread.ended().await;
        let result = {
            // Whoever finds that the run is not open any more can open its storage.
            let mut runs = self.lock();
            let was_kept = runs.remove(name.as_str()).is_some_and(|open| open.is_kept);
            let result = match ended {
                Ok(Ok(run)) => {
                    let status = run.stepper().env().status;
                    Ok(run.ended(self.policy.as_deref()).ending(status))
                }
                Ok(Err(error)) => Err(LaunchError::from(error).to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let (true, Err(why)) = (was_kept, &result) {
                tracing::warn!("the run `{}` cannot go on: {why}", name.as_str());
            }
            result
        };
        tell_end.send_replace(Some(result));
        self.count.send_modify(|count| *count -= 1);
    }

    /// Waits until a run has ended, or rests while a server asks.
    pub(super) async fn wait(&self, mut open: OpenRun, attempt: RunAttempt) -> RunResult {
        let RunAttempt {
            run: name,
            mut stopped,
            activity,
        } = attempt;
        let mut is_stopping = false;
        loop {
            if let Some(result) = open.end.borrow_and_update().clone() {
                return result;
            }
            let is_idle = matches!(*open.state.borrow_and_update(), RunState::Idle(_));
            if is_idle
                && !is_stopping
                && let Some(ending) = self.rest(&open).await
            {
                if self.keep(&name) {
                    return Ok(ending);
                }
                is_stopping = true;
                open.stop.send_replace(true);
            }
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                    is_stopping = true;
                    open.stop.send_replace(true);
                }
                Ok(()) = open.end.changed() => {}
                Ok(()) = open.state.changed() => {}
                Ok(()) = open.activity.changed() => {
                    activity.send_replace(open.activity.borrow_and_update().clone());
                }
                else => return Err("the runtime of the run was shut down".into()),
            }
        }
    }

    /// Returns how a run would end that rests, or `None` if it has something to do.
    async fn rest(&self, open: &OpenRun) -> Option<RunEnding> {
        let stepper = open.orders.snapshot().await.ok()?;
        let ended = EndedRun {
            stepper: &stepper,
            provenance: &open.provenance,
            storage: &open.storage,
            policy: self.policy.as_deref(),
            continuation: Continuation::OwnProcess,
        };
        let mut ending = ended.ending(status_at_rest(&stepper)?);
        // No other process can continue it.
        ending.resume_commands.clear();
        Some(ending)
    }

    /// Keeps a run open that rests, although nobody waits for it any more. Returns false if too many are.
    fn keep(&self, name: &RunName) -> bool {
        let mut runs = self.lock();
        let has_room = runs.values().filter(|run| run.is_kept).count() < MAX_KEPT_RUNS;
        if let Some(open) = runs.get_mut(name.as_str()) {
            open.is_kept = has_room;
        }
        has_room
    }

    /// Interrupts a run, if it is kept open although nobody waits for it.
    pub(super) fn interrupt(&self, run: &RunName) {
        if let Some(open) = self.lock().get(run.as_str()).filter(|open| open.is_kept) {
            open.stop.send_replace(true);
        }
    }

    /// Interrupts all runs, and returns when they have ended. Blocks.
    pub(super) fn close(&self) {
        for open in self.lock().values() {
            open.stop.send_replace(true);
        }
        let mut count = self.count.subscribe();
        // This cannot fail: `self` has the sender.
        let _ = Handle::current().block_on(count.wait_for(|count| *count == 0));
    }
}
