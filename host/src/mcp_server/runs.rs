//! The runs that calls wait for: each is begun or continued on a thread of its own. Any number of calls may
//! wait for a run; when the last of them is given up, the run is interrupted and saved.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_driver::HumanReply;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::arguments::RunName;
use super::place::{Activity, Launch, RunAttempt, RunPlace, RunResult};
use crate::launch::LaunchError;

/// The runs that calls wait for, of all teams that are offered.
pub(super) struct ActiveRuns {
    closing: CancellationToken,
    /// By what tells each of them apart.
    active: Mutex<BTreeMap<String, ActiveRun>>,
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
    callers: Vec<WaitingClient>,
}

/// A call that waits for a run.
#[derive(Clone)]
struct WaitingClient {
    number: u64,
    cancelled: CancellationToken,
}

impl ActiveRun {
    /// Returns whether the run is about to be interrupted, because nobody waits for it any more. A
    /// call that was cancelled counts as gone before it has noticed it, so that a call which arrives
    /// after the cancellation does not join what is to be interrupted.
    fn is_given_up(&self) -> bool {
        let is_gone = |caller: &WaitingClient| caller.cancelled.is_cancelled();
        if self.callers.iter().all(is_gone) {
            self.stop.send_replace(true);
        }
        *self.stop.borrow()
    }
}

/// A call that waits for a run. When it is dropped, and no other call waits for the run, the run is
/// interrupted.
pub(super) struct Attendance {
    active: Arc<ActiveRuns>,
    run: String,
    number: u64,
    end: watch::Receiver<Option<RunResult>>,
    /// What the run does.
    pub(super) activity: watch::Receiver<Activity>,
}

impl ActiveRuns {
    pub(super) fn new(closing: CancellationToken) -> Self {
        Self {
            closing,
            active: Mutex::default(),
            count: watch::Sender::new(0),
            numbers: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, ActiveRun>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no run is active.
    pub(super) async fn ended(&self) {
        let mut count = self.count.subscribe();
        // This cannot fail: `self` has the sender.
        let _ = count.wait_for(|count| *count == 0).await;
    }
}

/// The runs of a team, as one client sees them.
#[derive(Clone)]
pub(super) struct TeamRuns {
    active: Arc<ActiveRuns>,
    place: Arc<dyn RunPlace>,
}

impl TeamRuns {
    pub(super) fn new(active: Arc<ActiveRuns>, place: Arc<dyn RunPlace>) -> Self {
        Self { active, place }
    }

    /// Returns a name that no run has.
    pub(super) fn new_name(&self) -> RunName {
        self.place.new_name()
    }

    /// Returns the run that a client names; `None` if there is none that it may continue.
    pub(super) async fn find(&self, text: &str) -> Option<RunName> {
        let text = text.to_owned();
        self.blocking(move |place| place.find(&text)).await?
    }

    /// Returns whether a run that was begun for the client is saved, or is about to be.
    pub(super) async fn exists(&self, run: &RunName) -> bool {
        let is_active = self.active.lock().contains_key(&self.place.key(run));
        let run = run.clone();
        is_active || self.blocking(move |place| place.exists(&run)).await == Some(true)
    }

    /// Does something that blocks. Returns `None` if its thread panicked.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn RunPlace) -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.place);
        let done = tokio::task::spawn_blocking(move || work(place.as_ref()));
        done.await.ok()
    }

    /// Waits for a run, which is begun if it is not active. `cancelled` is cancelled with the call.
    pub(super) async fn attend(
        &self,
        run: &RunName,
        launch: Launch,
        cancelled: CancellationToken,
    ) -> Attendance {
        let number = self.active.numbers.fetch_add(1, Ordering::Relaxed);
        let caller = WaitingClient { number, cancelled };
        let key = self.place.key(run);
        loop {
            let stopping = {
                let mut active = self.active.lock();
                match active.get_mut(&key) {
                    Some(known) if known.is_given_up() => known.end.clone(),
                    Some(known) => {
                        known.callers.push(caller);
                        return self.attendance(key, number, known);
                    }
                    None => {
                        let active_run = self.begin(run, launch, caller);
                        let attendance = self.attendance(key.clone(), number, &active_run);
                        active.insert(key, active_run);
                        self.active.count.send_modify(|count| *count += 1);
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

    fn attendance(&self, run: String, number: u64, active: &ActiveRun) -> Attendance {
        Attendance {
            active: Arc::clone(&self.active),
            run,
            number,
            end: active.end.clone(),
            activity: active.activity.clone(),
        }
    }

    /// Records an answer to a request of a run that is not active.
    pub(super) async fn answer(&self, run: &RunName, reply: HumanReply) -> Result<(), LaunchError> {
        let run = run.clone();
        let answered = self.blocking(move |place| place.answer(&run, reply));
        answered.await.unwrap_or_else(|| {
            let text = "the answer could not be recorded: its thread ended unexpectedly";
            Err(LaunchError::InvalidInput(text.into()))
        })
    }

    /// Interrupts a run that rests, if it is kept open.
    pub(super) async fn interrupt(&self, run: &RunName) {
        let run = run.clone();
        self.blocking(move |place| place.interrupt(&run)).await;
    }

    /// Interrupts what goes on although no call waits for it. Returns when it is saved.
    pub(super) async fn close(&self) {
        self.blocking(|place| place.close()).await;
    }

    /// Starts the thread of a run.
    fn begin(&self, run: &RunName, launch: Launch, caller: WaitingClient) -> ActiveRun {
        let (stop, stopped) = watch::channel(self.active.closing.is_cancelled());
        let (tell_activity, activity) = watch::channel(Activity::default());
        let (tell_end, end) = watch::channel(None);
        let attempt = RunAttempt {
            run: run.clone(),
            stopped,
            activity: tell_activity,
        };
        let (runs, key) = (Arc::clone(&self.active), self.place.key(run));
        let place = Arc::clone(&self.place);
        let closing = self.active.closing.clone();
        let stop_when_closing = stop.clone();
        let thread = tokio::task::spawn_blocking(move || place.carry_out(attempt, &launch));
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
            runs.lock().remove(&key);
            tell_end.send_replace(Some(result));
            runs.count.send_modify(|count| *count -= 1);
        });
        ActiveRun {
            end,
            activity,
            stop,
            callers: vec![caller],
        }
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
        let mut active = self.active.lock();
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
