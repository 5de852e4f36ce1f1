//! Launching: from a team file, or from what is saved, to a run that is ready to go.

mod answer;
mod back;
mod calls;
mod chance;
mod compare;
mod components;
mod control;
mod develop;
mod doubt;
mod edit;
mod files;
mod foreign;
mod fork;
mod inputs;
mod lock;
mod makings;
mod named;
mod notice;
mod prune;
mod reach;
mod replay;
mod report;
mod resume;
mod saved;
mod send;
mod source;
mod start;
mod telling;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_core::event::Status;
use strata_core::stepper::Stepper;

use tokio::sync::watch;

use crate::driver::{
    AnswerError, Answered, Driver, DriverError, Given, Motion, Orders, ReplyError, Stop, WhenIdle,
};
use crate::manifest::{Definition, Diagnostics, OverrideError};
use crate::metrics::Metrics;
use crate::sandbox::{PlaceError, SandboxError};
use crate::services::http::HttpError;
use crate::services::llm::Audience;
use crate::services::llm::config::ConfigError;
use crate::store::team_json::ImportError;
use crate::store::{Durability, GroupLog, SavedDefinition, SqliteStore, StoreError};
use crate::trust::lock::LockError;

pub use answer::{Taken, Taker, answer};
pub use calls::calls;
pub use compare::{Comparison, Side, compare, place};
pub use components::Components;
use control::Control;
pub use develop::{Develop, Developed, develop, saved_in};
pub use doubt::{Doubt, doubts};
pub use files::{SavedFiles, files};
pub use foreign::{SavedTeamFile, Unrecognized};
pub use fork::{Fork, Forked, Pending, fork};
pub use inputs::{Conflict, GrantedTo, Inputs, OutputFile, WriteTime, made_from};
pub use lock::{Written, lock};
pub use makings::{Made, Makings};
pub use named::{development_storage, storage_by_name};
pub use notice::Notice;
pub use prune::{KEPT, Kept, prune};
pub use replay::{Replay, replay};
pub use report::report;
pub use resume::{Notes, Resume, Resumed, resume};
pub use saved::{
    SavedTeam, checkpoints, edited_team_file, holder, is_edited, is_saved_in, reader, saved,
};
pub use send::send;
pub use source::read as read_component;
pub use start::{Start, Started, start};
pub use telling::Telling;

/// A team that is ready to run, or ran.
pub struct Run {
    /// Lets other processes speak to it; kept over from when it stood still to when it runs.
    control: Option<Control>,
    driver: Driver,
    path: PathBuf,
    makings: Makings,
}

impl From<ReplyError> for LaunchError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Refused(why) => Self::Answer(why),
            ReplyError::Driver(error) => Self::Driver(error),
        }
    }
}

/// Why a run cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The team file is wrong, or a component does not fit it.
    #[error("{0}")]
    Definition(#[from] Diagnostics),
    /// A flag does not fit the team.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// What was given does not do, or something was not given.
    #[error("{0}")]
    Missing(String),
    /// The team has nothing left to do.
    #[error("the team is done; load it with `when_idle: WhenIdle::Stay` to give it more to do")]
    Done,
    /// The process that runs the team was told, and has not said whether it did it.
    #[error(
        "whether the process that runs the team took it is not known: {0}; look with `inspect` before it is given again"
    )]
    Unanswered(String),
    /// An answer is not taken.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A language model cannot be set up.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// The client for http cannot be set up.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The lock of the components cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The storage cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A `team.json` cannot be read.
    #[error("cannot go on from `{}`: {source}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ImportError,
    },
    /// The saved state is that of another team, or (`--strict`) of other components.
    #[error("the saved team does not fit:{}", lines(.0))]
    Unfit(Vec<String>),
    /// The team file that is saved is not used.
    #[error(transparent)]
    Unrecognized(#[from] Box<Unrecognized>),
    /// The sandbox cannot be set up on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A file that was asked for cannot be put where it was to be.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The run could not begin.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

fn lines(differences: &[String]) -> String {
    differences
        .iter()
        .map(|line| format!("\n  {line}"))
        .collect()
}

impl Run {
    /// Runs until the team halts or is stopped, and saves it.
    pub async fn run(&mut self, stop: &mut Stop) -> Result<Status, DriverError> {
        let control = self.control.take().or_else(|| self.listen());
        let ended = self.driver.run(stop).await;
        if let Some(control) = control {
            control.close().await;
        }
        // With a file that cannot be put in its place, the run has ended in order all the same.
        if matches!(ended, Ok(_) | Err(DriverError::Files(_))) {
            self.driver.journal_mut().save()?;
        }
        ended
    }

    /// Lets other processes answer and send while the team stands still, until one of them has. Who speaks after that is
    /// heard by what comes next, this or `run`.
    pub async fn attend(&mut self) -> Result<(), DriverError> {
        if self.control.is_none() {
            self.control = self.listen();
        }
        self.driver.attend().await
    }

    /// Ends that: who speaks now is told that nobody listens, and may do it himself.
    pub async fn dismiss(&mut self) {
        self.driver.turn_away();
        if let Some(control) = self.control.take() {
            control.close().await;
        }
    }

    /// Whoever cannot be told of this socket is told that the storage is in use; the run is none the worse.
    fn listen(&self) -> Option<Control> {
        let control = Control::listen(&self.path, self.driver.orders());
        control
            .inspect_err(|error| tracing::warn!("other processes cannot reach this run: {error}"))
            .ok()
    }

    /// Records an answer for a team that does not run, durably.
    pub fn answer(&mut self, given: &[Given]) -> Result<Vec<Answered>, ReplyError> {
        let journal = self.driver.journal_mut();
        let answered = journal.reply(given)?;
        journal.save_if_possible();
        Ok(answered)
    }

    /// Lets a team that has halted go on, like a resume with nothing changed. `run` then runs it.
    pub fn go_on(&mut self) -> Result<(), DriverError> {
        self.driver.journal_mut().go_on()
    }

    /// Writes `team.json` as the team stands.
    pub fn save(&mut self) -> Result<(), DriverError> {
        self.driver.journal_mut().save()
    }

    /// Sets what happens once nothing is left to do, which at first is to end. From now on it counts as busy: it is
    /// about to run.
    pub fn prepare(&mut self, when_idle: WhenIdle) {
        self.driver.prepare(when_idle);
    }

    /// Lets somebody be told of calls that leave, and hear models' replies while they are written. Nothing depends on it.
    pub fn let_hear(&mut self, audience: Audience) {
        self.driver.let_hear(audience);
    }

    /// Counts from now on what it does.
    pub fn count_in(&mut self, metrics: Arc<Metrics>) {
        self.driver.journal_mut().count_in(metrics);
    }

    /// Carries orders to it until its next run has ended.
    pub fn orders(&self) -> Orders {
        self.driver.orders()
    }

    /// Whether it moves, as that changes.
    pub fn motion(&self) -> watch::Receiver<Motion> {
        self.driver.motion()
    }

    /// The team and its state.
    pub fn stepper(&self) -> &Stepper {
        self.driver.journal().stepper()
    }

    /// What the team was made from.
    pub fn makings(&self) -> &Makings {
        &self.makings
    }

    /// The storage directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn saved_definition(definition: &Definition) -> SavedDefinition {
    let source = &definition.source;
    SavedDefinition {
        name: source.name.clone(),
        base: source.base.clone(),
        text: source.text.clone(),
        components: definition.given_components(),
    }
}

/// How the text of a team file is read: to be run, or alone.
type Parse = fn(&str, &str, &Path) -> Result<Definition, Diagnostics>;

/// The team as it was when it was saved, with the components that a command line put in place then.
fn define_again(saved: &SavedDefinition, parse: Parse) -> Result<Definition, LaunchError> {
    let mut definition = parse(&saved.text, &saved.name, &saved.base)?;
    definition.give_again(&saved.components)?;
    Ok(definition)
}

/// Lets a team share a log with others. One that need not survive a loss of power has nothing to share.
fn share(store: &mut SqliteStore, group: Option<&GroupLog>, durability: Durability) {
    if let (Some(group), Durability::Full) = (group, durability) {
        store.join(group);
    }
}

fn durability(definition: &Definition) -> Durability {
    match definition.run.durability {
        crate::manifest::Durability::Full => Durability::Full,
        crate::manifest::Durability::Process => Durability::Process,
    }
}
