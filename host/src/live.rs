//! A team's environment in one's own program: started, talked to, watched, stopped and saved from there.
//!
//! The command line does the same through `launch`; this is `launch` with a thread of its own for the run, which is in
//! `live::thread`.

mod events;
mod handle;
mod thread;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::event::Status;
use strata_core::message::Message;
use strata_core::stepper::Stepper;
use tokio::sync::watch;

use crate::driver::{AnswerError, DriverError, OnLine, ReplyError, WhenIdle};
use crate::launch::{self, LaunchError, Notice, Resume, Resumed, Run, Start};
use crate::metrics::Metrics;

pub use crate::driver::{Answered, Given, Sent, Unserved};
pub use events::Events;
pub use handle::Handle;
use handle::Reins;
use thread::Running;

/// A team's environment: its roles with their mailboxes, memories and state, saved in a directory.
///
/// It runs on a thread of its own between `start` and `stop`: the disk, which each step waits for, holds nobody else up.
/// Everything that happens is durable before it is seen, so a program that dies can `load` it and go on. One that is
/// dropped while it runs is told to stop, and saved a moment later; `stop` waits for that.
///
/// Needs a tokio runtime of several threads, with time and I/O (`enable_all`): actions of one step run there in parallel,
/// and those that compute hold their thread for milliseconds at a time. With the runtime it ends at once, as if the
/// program had died.
///
/// ```no_run
/// use std::path::Path;
///
/// use strata_host::{LiveEnvironment, Overrides, Start, WhenIdle};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let overrides = Overrides::default();
/// let start = Start::new(Path::new("team.toml"), Path::new("workspace/storage/team"), &overrides);
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
    state: State,
    path: PathBuf,
    /// For its handles: how it is spoken to while it runs.
    reins: watch::Sender<Option<Reins>>,
    handle: Handle,
    /// The number of the newest line.
    newest: watch::Receiver<u64>,
}

enum State {
    /// It stands still.
    Still(Box<Run>),
    /// It runs.
    Running(Running),
    /// An error ended it. What was durable is saved; load it again.
    Broken,
}

/// Why an environment did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// It runs already, or does not run.
    #[error("the environment {0}")]
    State(&'static str),
    /// The run ended, or ended before it came to the order, or at it.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// It cannot go on.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An answer is not taken. What it was for stays open.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// It was started elsewhere than within a runtime. Nothing has changed.
    #[error("the environment runs within a tokio runtime: start it from there")]
    Runtime,
    /// There is no thread for it, or none any more.
    #[error("the environment cannot run: {0}; what was durable is saved, load it again")]
    Thread(String),
}

/// What is said of one that cannot go on.
const BROKEN: LiveError = LiveError::State("was ended by an error; load it again");

impl From<ReplyError> for LiveError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Refused(why) => Self::Answer(why),
            ReplyError::Driver(error) => Self::Driver(error),
        }
    }
}

impl LiveEnvironment {
    /// A fresh one, of a team file. Its idea is published, and its entry state saved, before this returns.
    ///
    /// Components that are directories are built, which may take a while.
    pub fn create(what: Start<'_>) -> Result<Self, LaunchError> {
        let (tell, newest) = watch::channel(0);
        let started = launch::start(what, &mut log, telling(tell))?;
        Ok(Self::of(started.run, newest))
    }

    /// What is saved in a directory. A finished team is woken if it is to stay; else there is nothing to load.
    pub fn load(what: Resume<'_>) -> Result<Self, LaunchError> {
        let (tell, newest) = watch::channel(0);
        match launch::resume(what, &mut log, telling(tell))? {
            Resumed::Goes(run, _) => Ok(Self::of(*run, newest)),
            Resumed::Finished(..) => Err(LaunchError::Done),
        }
    }

    fn of(run: Run, newest: watch::Receiver<u64>) -> Self {
        let (path, motion) = (run.path().to_owned(), run.motion());
        let (reins, held) = watch::channel(None);
        Self {
            state: State::Still(Box::new(run)),
            path,
            reins,
            handle: Handle::new(held, motion),
            newest,
        }
    }

    /// Lets it run, on a thread of its own. With `WhenIdle::End` it stops by itself when nothing is left to do. One
    /// that has stopped goes on, as after `load`. It has to be called within the runtime; elsewhere it fails, and
    /// nothing has changed.
    pub fn start(&mut self, when_idle: WhenIdle) -> Result<(), LiveError> {
        let runtime = thread::runtime()?;
        let mut run = match std::mem::replace(&mut self.state, State::Broken) {
            State::Still(run) => run,
            other => {
                self.state = other;
                return Err(LiveError::State("runs already, or an error ended it"));
            }
        };
        if run.stepper().env().status != Status::Running {
            run.go_on()?;
        }
        run.prepare(when_idle);
        let (orders, (stop, stopped)) = (run.orders(), watch::channel(false));
        self.state = State::Running(Running::begin(runtime, run, stopped)?);
        self.reins.send_replace(Some(Reins { orders, stop }));
        Ok(())
    }

    /// Stops it: what is in flight is ended and will run again, everything finished is kept, `team.json` is written.
    pub async fn stop(&mut self) -> Result<Status, LiveError> {
        self.handle.stop();
        self.ended().await
    }

    /// Waits until it has stopped, by itself or by `stop` or by an error, and says how it stands. Who gives up waiting
    /// may wait again.
    pub async fn ended(&mut self) -> Result<Status, LiveError> {
        if let State::Running(running) = &mut self.state {
            let ended = running.ended().await;
            self.state = State::Broken;
            self.reins.send_replace(None);
            self.state = State::Still(ended??);
        }
        match &self.state {
            State::Still(run) => Ok(run.stepper().env().status),
            State::Running(_) | State::Broken => Err(BROKEN),
        }
    }

    /// Speaks to it from anywhere: see `Handle`.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether it is at rest; see `idle`.
    pub fn is_idle(&self) -> bool {
        self.handle.is_idle()
    }

    /// Waits until it is at rest, and says how: see `Handle::idle`. The environment is not borrowed.
    pub fn idle(&self) -> BoxFuture<'static, Option<Status>> {
        self.handle.idle()
    }

    /// Publishes a message from outside: see `Handle::send`. The environment is not borrowed: any number may wait at the
    /// same time.
    pub fn send(&self, message: Message) -> BoxFuture<'static, Result<Sent, LiveError>> {
        self.handle.send(message)
    }

    /// Publishes what a user says, under a label: everyone who watches that gets it. Like `send` otherwise.
    pub fn say(
        &self,
        label: &str,
        text: impl Into<String>,
    ) -> BoxFuture<'static, Result<Sent, LiveError>> {
        self.handle.say(label, text)
    }

    /// How it stands, whether it runs or not: see `Handle::state`.
    pub async fn state(&self) -> Result<Box<Stepper>, LiveError> {
        match &self.state {
            State::Still(run) => Ok(Box::new(run.stepper().clone())),
            State::Running(_) => self.handle.state().await,
            State::Broken => Err(BROKEN),
        }
    }

    /// Answers what people were asked: all of it, or nothing. It is durable when this returns, and where the
    /// environment runs, whoever asked goes on at once. What is open is told by `request-opened` events.
    pub async fn answer(&mut self, given: Vec<Given>) -> Result<Vec<Answered>, LiveError> {
        match &mut self.state {
            State::Still(run) => {
                let answered = run.answer(&given);
                if matches!(answered, Err(ReplyError::Driver(_))) {
                    // It counts as answered here, and perhaps nowhere else.
                    self.state = State::Broken;
                }
                Ok(answered?)
            }
            State::Running(_) => self.handle.answer(given).await,
            State::Broken => Err(BROKEN),
        }
    }

    /// Writes `team.json` as it stands now. Nothing depends on it for durability: that is for people, other programs,
    /// and for moving a team.
    pub async fn save(&mut self) -> Result<(), LiveError> {
        match &mut self.state {
            State::Still(run) => Ok(run.save()?),
            State::Running(_) => self.handle.save().await,
            State::Broken => Err(BROKEN),
        }
    }

    /// Counts from now on what it does; `Metrics::text` is that for Prometheus. It stands still meanwhile: before
    /// `start`, or after `stop`.
    pub fn metrics(&mut self) -> Result<Arc<Metrics>, LiveError> {
        let State::Still(run) = &mut self.state else {
            return Err(LiveError::State(
                "is counted from before it runs; ask for its metrics before `start`",
            ));
        };
        let metrics = Arc::new(Metrics::default());
        run.count_in(metrics.clone());
        Ok(metrics)
    }

    /// The public events, from the first that was ever recorded for this team; see `Events`.
    pub fn events(&self) -> Result<Events, LaunchError> {
        Events::open(&self.path, self.newest.clone())
    }

    /// The storage directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for LiveEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveEnvironment")
            .field("path", &self.path)
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

impl Drop for LiveEnvironment {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

/// What came up before a run goes where the program's log goes.
fn log(notice: Notice<'_>) {
    match notice {
        Notice::Note(text) | Notice::Busy(text) => tracing::info!("{text}"),
        Notice::Warning(text) => tracing::warn!("{text}"),
    }
}

fn telling(newest: watch::Sender<u64>) -> OnLine {
    OnLine::Newest(Box::new(move |line| {
        newest.send_replace(line);
    }))
}
