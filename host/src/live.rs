//! Runs a team's environment within another program: starts it, sends messages to it, observes it,
//! stops it and saves it.
//!
//! The command line does the same with `launch`. This module adds a thread for the run, which is in
//! `live::thread`.

mod events;
mod handle;
pub(crate) mod thread;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::message::Message;
use strata_driver::metrics::Metrics;
use strata_driver::{AnswerError, DriverError, LineListener, ReplyError, WhenIdle};
use strata_storage::StorageLocation;
use tokio::sync::watch;

use crate::launch::{self, LaunchError, Notice, Resume, ResumeOutcome, RunHandle, Start};

pub use events::LiveEvents;
use handle::ControlHandle;
pub use handle::Handle;
pub use strata_driver::{AnsweredRequest, CommandError, HumanReply, SendReceipt};
use thread::RunThread;

/// A team's environment: its roles with their mailboxes, memories and state, saved where it was created.
///
/// Between `start` and `stop`, it runs on a thread of its own, because each step waits for the disk
/// and would block others. Everything that happens is durable before it can be observed, so a
/// program that crashes can `load` the environment and continue. An environment that is dropped
/// while it runs is stopped and saved a moment later; `stop` waits for that.
///
/// Needs a multi-threaded tokio runtime with time and I/O enabled (`enable_all`): the actions of a
/// step run there in parallel, and those that compute occupy their thread for milliseconds at a
/// time. If the runtime is shut down, the environment ends immediately, as if the program had
/// crashed.
///
/// ```no_run
/// use std::path::Path;
///
/// use strata_host::{LiveEnvironment, Overrides, Start, WhenIdle};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let overrides = Overrides::default();
/// let start = Start::new("team.toml", "workspace/storage/team", overrides);
/// let mut environment = LiveEnvironment::create(Start { idea: Some("write a snake game".into()), ..start })?;
/// let mut events = environment.events()?;
/// environment.start(WhenIdle::Stay)?;
/// environment.say("UserRequirement", "make it green").await?;
/// environment.idle().await;
/// let status = environment.stop().await?;
/// while let Some(line) = events.next_now()? {
///     println!("{}", line.to_json());
/// }
/// # Ok(())
/// # }
/// ```
pub struct LiveEnvironment {
    state: LiveState,
    storage: StorageLocation,
    /// The handles read from it how to reach the run, or `None` while it does not run.
    control: watch::Sender<Option<ControlHandle>>,
    handle: Handle,
    /// The number of the newest event line.
    newest: watch::Receiver<u64>,
}

enum LiveState {
    /// It does not run.
    Stopped(Box<RunHandle>),
    /// It runs.
    Running(RunThread),
    /// An error ended it. What was durable is saved and can be loaded again.
    Failed,
}

/// The reason why an environment did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// It runs already, or it does not run.
    #[error("the environment {0}")]
    State(&'static str),
    /// The run ended before it handled the request, or while it did.
    #[error(transparent)]
    Unserved(#[from] CommandError),
    /// It cannot continue.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An answer is not accepted. Its request stays open.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// It was started outside of a runtime. Nothing has changed.
    #[error("the environment runs within a tokio runtime: start it from there")]
    Runtime,
    /// Its thread could not be started, or ended unexpectedly.
    #[error("the environment cannot run: {0}; what was durable is saved, load it again")]
    Thread(String),
}

/// The error for an environment that cannot continue.
const FAILED: LiveError = LiveError::State("was ended by an error; load it again");

impl From<ReplyError> for LiveError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Refused(why) => Self::Answer(why),
            ReplyError::Driver(error) => Self::Driver(error),
        }
    }
}

impl LiveEnvironment {
    /// Creates an environment from a team file. Before this function returns, the idea is published
    /// and the initial state is saved.
    ///
    /// Components that are directories are built, which may take a while.
    pub fn create(start: Start) -> Result<Self, LaunchError> {
        let (tell, newest) = watch::channel(0);
        let started = launch::start(start, &mut log, report_newest_line(tell))?;
        Ok(Self::from_run(started.run, newest))
    }

    /// Loads what is saved in a directory. Fails if the team is finished, unless it is to stay.
    pub fn load(resume: Resume) -> Result<Self, LaunchError> {
        let (tell, newest) = watch::channel(0);
        match launch::resume(resume, &mut log, report_newest_line(tell))? {
            ResumeOutcome::Running(run, _) => Ok(Self::from_run(*run, newest)),
            ResumeOutcome::Finished(..) => Err(LaunchError::Finished),
        }
    }

    fn from_run(run: RunHandle, newest: watch::Receiver<u64>) -> Self {
        let (storage, run_state) = (run.location().clone(), run.run_state());
        let (control, control_receiver) = watch::channel(None);
        Self {
            state: LiveState::Stopped(Box::new(run)),
            storage,
            control,
            handle: Handle::new(control_receiver, run_state),
            newest,
        }
    }

    /// Starts the run on a thread of its own. With `WhenIdle::End`, it stops by itself when nothing
    /// is left to do. An environment that has stopped continues, as after `load`. Fails and changes
    /// nothing if called outside of a runtime.
    pub fn start(&mut self, when_idle: WhenIdle) -> Result<(), LiveError> {
        let runtime = thread::current_runtime()?;
        let mut run = match std::mem::replace(&mut self.state, LiveState::Failed) {
            LiveState::Stopped(run) => run,
            other => {
                self.state = other;
                return Err(LiveError::State("runs already, or an error ended it"));
            }
        };
        if run.stepper().env().status != Status::Running {
            run.continue_run()?;
        }
        run.set_when_idle(when_idle);
        let (orders, (stop, stopped)) = (run.orders(), watch::channel(false));
        self.state = LiveState::Running(RunThread::spawn(runtime, run, stopped)?);
        self.control
            .send_replace(Some(ControlHandle { orders, stop }));
        Ok(())
    }

    /// Stops the run. Calls in flight are cancelled and will be made again, everything that is
    /// finished is kept, and `team.json` is written.
    pub async fn stop(&mut self) -> Result<Status, LiveError> {
        self.handle.stop();
        self.ended().await
    }

    /// Waits until the run has stopped, by itself, by `stop` or because of an error, and returns
    /// its status. The future can be dropped and called for again.
    pub async fn ended(&mut self) -> Result<Status, LiveError> {
        if let LiveState::Running(running) = &mut self.state {
            let ended = running.ended().await;
            self.state = LiveState::Failed;
            self.control.send_replace(None);
            self.state = LiveState::Stopped(ended??);
        }
        match &self.state {
            LiveState::Stopped(run) => Ok(run.stepper().env().status),
            LiveState::Running(_) | LiveState::Failed => Err(FAILED),
        }
    }

    /// Returns a handle that can be used from any task or thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns whether it is idle; see `Handle::idle`.
    pub fn is_idle(&self) -> bool {
        self.handle.is_idle()
    }

    /// Waits until it is idle and returns its status; see `Handle::idle`. The future does not
    /// borrow the environment.
    pub fn idle(&self) -> BoxFuture<'static, Option<Status>> {
        self.handle.idle()
    }

    /// Publishes a message from outside; see `Handle::send`. The future does not borrow the
    /// environment, so any number can be waited for at the same time.
    pub fn send(&self, message: Message) -> BoxFuture<'static, Result<SendReceipt, LiveError>> {
        self.handle.send(message)
    }

    /// Publishes a text of a user under a label. Every role that watches the label receives it.
    /// Otherwise like `send`.
    pub fn say(
        &self,
        label: &str,
        text: impl Into<String>,
    ) -> BoxFuture<'static, Result<SendReceipt, LiveError>> {
        self.handle.say(label, text)
    }

    /// Returns the current team and state, whether the environment runs or not; see
    /// `Handle::state`.
    pub async fn state(&self) -> Result<Box<Stepper>, LiveError> {
        match &self.state {
            LiveState::Stopped(run) => Ok(Box::new(run.stepper().clone())),
            LiveState::Running(_) => self.handle.state().await,
            LiveState::Failed => Err(FAILED),
        }
    }

    /// Answers open requests: all of them, or none. The answers are durable when this function
    /// returns. If the environment runs, the roles that asked continue immediately. Open requests
    /// are announced by `request-opened` events.
    pub async fn answer(
        &mut self,
        replies: Vec<HumanReply>,
    ) -> Result<Vec<AnsweredRequest>, LiveError> {
        match &mut self.state {
            LiveState::Stopped(run) => {
                let answered = run.answer(&replies);
                if matches!(answered, Err(ReplyError::Driver(_))) {
                    // It may be answered in memory and not on disk.
                    self.state = LiveState::Failed;
                }
                Ok(answered?)
            }
            LiveState::Running(_) => self.handle.answer(replies).await,
            LiveState::Failed => Err(FAILED),
        }
    }

    /// Writes the current state to `team.json`. This is not needed for durability; the file is for
    /// people and other programs, and for moving a team.
    pub async fn save(&mut self) -> Result<(), LiveError> {
        match &mut self.state {
            LiveState::Stopped(run) => Ok(run.save()?),
            LiveState::Running(_) => self.handle.save().await,
            LiveState::Failed => Err(FAILED),
        }
    }

    /// Counts from now on what the environment does. `Metrics::text` formats the result for
    /// Prometheus. Fails while the environment runs: call it before `start` or after `stop`.
    pub fn metrics(&mut self) -> Result<Arc<Metrics>, LiveError> {
        let LiveState::Stopped(run) = &mut self.state else {
            return Err(LiveError::State(
                "is counted from before it runs; ask for its metrics before `start`",
            ));
        };
        let metrics = Arc::new(Metrics::default());
        run.record_metrics(metrics.clone());
        Ok(metrics)
    }

    /// Returns the public events, from the first that was recorded for this team; see `LiveEvents`.
    pub fn events(&self) -> Result<LiveEvents, LaunchError> {
        LiveEvents::open(&self.storage, self.newest.clone())
    }

    /// Returns where it is saved.
    pub fn storage(&self) -> &StorageLocation {
        &self.storage
    }
}

impl fmt::Debug for LiveEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveEnvironment")
            .field("storage", &self.storage)
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Drop for LiveEnvironment {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

/// Logs a notice from the preparation of a run.
fn log(notice: Notice<'_>) {
    match notice {
        Notice::Note(text) | Notice::Busy(text) => tracing::info!("{text}"),
        Notice::Warning(text) => tracing::warn!("{text}"),
        Notice::AdvisedWarning(text, advice) => tracing::warn!("{text}; {advice}"),
    }
}

fn report_newest_line(newest: watch::Sender<u64>) -> LineListener {
    LineListener::Newest(Box::new(move |line| {
        newest.send_replace(line);
    }))
}
