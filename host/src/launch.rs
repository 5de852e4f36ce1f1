//! Launching: reads a team file, or what is saved, and prepares a run that is ready to start.
//!
//! One module per operation. The loop that executes a run is in `driver`; the commands that call
//! these functions are in the package `strata-cli`.

mod action_log;
mod adopt;
mod amend;
mod attached_files;
mod author;
mod beside;
mod bundle;
mod claimed;
mod compare;
mod components;
mod continuation;
mod control;
mod conversations;
mod default_storage;
mod develop;
mod edit;
mod event_reader;
mod files;
mod fork;
mod in_doubt;
mod inputs;
mod lock;
mod on_behalf;
mod opened_team;
mod provenance;
mod prune;
mod recorded_events;
mod replay;
#[cfg(feature = "report")]
mod report;
mod resume;
mod resume_plan;
mod saved;
mod saved_team_file;
mod skill_lock;
mod source;
mod start;
mod submit;
mod submit_files;
mod submitted;
mod trial;
mod via_owner;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;

use strata_base::advice::Advice;
use strata_base::process::wait::wait;
use strata_driver::metrics::Metrics;
use strata_driver::{
    AnswerError, AnsweredRequest, Driver, DriverError, DriverHandle, HumanReply, ReplyError,
    RunState, StopSignal, WhenIdle,
};
use strata_manifest::trust::lock::LockError;
use strata_manifest::{Definition, Diagnostics, OverrideError};
use strata_sandbox::{PlaceError, SandboxError};
use strata_services::http::HttpClientError;
use strata_services::models::StreamObserverFactory;
use strata_services::models::config::ConfigError;
use strata_storage::{Mailbox, RunSchedule, SavedDefinition, StorageLocation, StoreError};
use strata_team_json::ImportError;
use strata_view::{EndedRun, Provenance};
use tokio::sync::watch;

use crate::bundle::BundleError;

pub use action_log::last_log;
pub use adopt::{AdoptMode, Adoption, adopt};
pub use amend::{QueuedResume, is_submitted_run, request_resume, resume_in_queue};
pub use attached_files::{AttachedFileError, NamedFile};
pub use author::Author;
pub use claimed::{ClaimedOutcome, ClaimedResume, RefusedSubmission, resume_claimed};
pub use compare::{ComparedState, Comparison, compare, parse_saved_state};
pub use components::Components;
pub use continuation::continuation;
pub use control::MAX_MESSAGE_BYTES;
pub use conversations::for_each_conversation;
pub use default_storage::{development_storage, storage_by_name};
pub use develop::{DevelopOutcome, DevelopRound, develop};
pub use edit::{EditScope, StateEdit};
pub use event_reader::{EventReader, for_each_call};
pub use files::{SavedFiles, saved_files};
pub use fork::{CreatedFork, ForkRequest, Pending, QueuedFork, fork};
pub use in_doubt::{DoubtDecision, DoubtVerdict};
pub use inputs::{
    ActionDirectory, OutputConflict, OutputFile, TeamInputs, WriteTime, source_files,
};
pub use lock::{LockResult, lock_components};
pub use on_behalf::carry_out_for_others;
pub use prune::{DEFAULT_KEPT_CHECKPOINTS, PruneResult, prune, prune_by};
pub use replay::{ReplayRequest, replay};
#[cfg(feature = "report")]
pub use report::gather_report;
pub use resume::{Resume, ResumeNotes, ResumeOutcome, resume};
pub use saved::{
    check_answers, edited_team_file, list_checkpoints, load_saved, load_saved_with_provenance,
};
pub use saved_team_file::{SavedTeamFile, UnrecognizedReason, UnrecognizedTeamFile};
pub use source::{load_script, read_component};
pub use start::{Start, StartedRun, start};
pub use submit::{CollectedTeam, Submission, collect_team, generated_run_name, submit};
pub use submit_files::{
    BUNDLE_TEAM_FILE, FileSubmission, SubmittedAs, check_bundle_paths, submit_files,
};
pub use trial::{Trial, TrialRun, describe_trial, prepare_trial};
pub use via_owner::{
    AcceptedAnswers, AnswerRecipient, answer, halt, halt_by, send, send_with_files,
};

/// A message for the operator. The receiver decides which ones are displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// General information.
    Note(&'a str),
    /// A slow operation that begins now, such as a build.
    Busy(&'a str),
    /// Something to be checked. It should be displayed even in quiet modes.
    Warning(&'a str),
    /// Something to be checked, with what can be done about it.
    AdvisedWarning(&'a str, &'a Advice),
}

/// A team that is ready to run, is running, or has run.
pub struct RunHandle {
    /// Receives the requests of other processes. It is opened while the team waits and stays open
    /// when it runs.
    control: Option<Mailbox>,
    driver: Driver,
    location: StorageLocation,
    provenance: Provenance,
}

impl From<ReplyError> for LaunchError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Refused(why) => Self::Answer(why),
            ReplyError::Driver(error) => Self::Driver(error),
        }
    }
}

/// The reason why a run cannot be launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The team file is wrong, or a component does not fit it.
    #[error("{0}")]
    Definition(#[from] Diagnostics),
    /// A command line argument does not fit the team.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// An argument is missing or not valid.
    #[error("{0}")]
    InvalidInput(String),
    /// What is there does not allow what was asked for, and there is something to do about it.
    #[error("{message}")]
    Unsuitable {
        /// What is wrong.
        message: String,
        /// What the user can do about it.
        advice: Advice,
    },
    /// A file cannot be added to the idea or to a message.
    #[error(transparent)]
    AttachedFile(#[from] AttachedFileError),
    /// The team has nothing left to do.
    #[error("the team is done; load it with `when_idle: WhenIdle::Stay` to give it more to do")]
    Finished,
    /// The process that runs the team received the request, and has not confirmed that it carried
    /// it out.
    #[error(
        "whether the process that runs the team took it is not known: {0}; look with `inspect` before it is given again"
    )]
    Unconfirmed(String),
    /// An answer to an open request is not accepted.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A language model cannot be set up.
    #[error(transparent)]
    Model(#[from] ConfigError),
    /// The HTTP client cannot be set up.
    #[error(transparent)]
    Http(#[from] HttpClientError),
    /// The lock file of the components cannot be read or written.
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
    /// The saved state belongs to another team or, with `--strict`, to other components.
    #[error("the saved team does not fit:{}", format_differences(.0))]
    Mismatch(Vec<String>),
    /// The saved team file is not used, because its author is not known.
    #[error(transparent)]
    Unrecognized(#[from] Box<UnrecognizedTeamFile>),
    /// A submitted team would use something that its operator has not allowed.
    #[error(transparent)]
    Refused(#[from] Box<RefusedSubmission>),
    /// The files of a submitted team cannot be used.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The sandbox cannot be set up on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A requested file cannot be written to its destination.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The driver could not start the run.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl LaunchError {
    /// Returns what the user can do about it, if a command of the program helps. The advice for a
    /// problem of a team file is among the hints of its diagnostics.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::Unsuitable { advice, .. } => Some(advice.clone()),
            Self::Lock(error) => error.advice(),
            Self::Store(error) => error.advice(),
            _ => None,
        }
    }

    fn missing_idea() -> Self {
        let what = "no idea given; add one after the team file or set `[team] idea = \"…\"`";
        Self::InvalidInput(what.into())
    }
}

fn format_differences(differences: &[String]) -> String {
    differences
        .iter()
        .map(|line| format!("\n  {line}"))
        .collect()
}

impl RunHandle {
    /// Returns what is shown about the run when it has ended. `policy` is the one that was named for it.
    pub fn ended<'a>(&'a self, policy: Option<&'a Path>) -> EndedRun<'a> {
        EndedRun {
            stepper: self.stepper(),
            provenance: self.provenance(),
            storage: self.location().path(),
            policy,
            continuation: continuation(self.location()),
        }
    }

    /// Runs until the team halts or is stopped, and saves it.
    pub async fn run(&mut self, stop: &mut StopSignal) -> Result<Status, DriverError> {
        let control = self.control.take().or_else(|| self.open_control());
        let ended = self.driver.run(stop).await;
        if let Some(control) = control {
            control.close().await;
        }
        // If a file could not be placed, the run has still ended in an orderly way.
        if matches!(ended, Ok(_) | Err(DriverError::Files(_))) {
            self.driver.journal_mut().save()?;
        }
        if let Ok(status) = ended {
            let journal = self.driver.journal_mut();
            let due_ms = claimed::first_expiry(journal.env());
            journal
                .store()
                .set_schedule(RunSchedule::after(status, due_ms))?;
        }
        ended
    }

    /// Lets other processes answer and send messages while the team waits, until one of them has
    /// done so. Requests that arrive later are handled by the next call of this function or of
    /// `run`.
    pub async fn wait_for_input(&mut self) -> Result<(), DriverError> {
        if self.control.is_none() {
            self.control = self.open_control();
        }
        self.driver.handle_commands_until_change().await
    }

    /// Ends what `wait_for_input` began: processes that connect now learn that nobody listens, and can access the
    /// storage themselves.
    pub async fn stop_listening(&mut self) {
        self.driver.reject_queued_commands();
        if let Some(control) = self.control.take() {
            control.close().await;
        }
    }

    /// Starts to receive requests. Without this, other processes only learn that the storage is in
    /// use; the run itself is not affected.
    fn open_control(&self) -> Option<Mailbox> {
        let epoch = self.driver.journal().store_ref().epoch();
        let control = control::listen(&self.location, epoch, self.driver.handle());
        control
            .inspect_err(|error| tracing::warn!("other processes cannot reach this run: {error}"))
            .ok()
    }

    /// Durably records answers for a team that is not running.
    pub fn answer(&mut self, replies: &[HumanReply]) -> Result<Vec<AnsweredRequest>, ReplyError> {
        let journal = self.driver.journal_mut();
        let answered = wait(journal.record_replies(replies))?;
        journal.save_if_possible();
        Ok(answered)
    }

    /// Continues a team that has halted, like a resume that changes nothing. `run` then runs it.
    pub fn continue_run(&mut self) -> Result<(), DriverError> {
        self.driver.journal_mut().resume()
    }

    /// Writes the current state to `team.json`.
    pub fn save(&mut self) -> Result<(), DriverError> {
        self.driver.journal_mut().save()
    }

    /// Sets what happens once nothing is left to do; at first, the run ends. From now on the run
    /// counts as busy, because it is about to start.
    pub fn set_when_idle(&mut self, when_idle: WhenIdle) {
        self.driver.prepare_to_run(when_idle);
    }

    /// Tells the run that it is the only one of this process. Its steps then take less time, and more
    /// processor time, which other runs would lack.
    pub fn set_alone(&mut self) {
        self.driver.set_alone();
    }

    /// Says how long the run waits for a database that is away. At first, it is
    /// [`DEFAULT_PATIENCE`](strata_storage::DEFAULT_PATIENCE).
    pub fn set_patience(&mut self, patience: Duration) {
        self.driver.journal_mut().store().set_patience(patience);
    }

    /// Makes the run's calls in the context of `runtime`. They take less time if that is the runtime
    /// whose thread polls the run.
    pub fn make_calls_in(&mut self, runtime: tokio::runtime::Handle) {
        self.driver.make_calls_in(runtime);
    }

    /// Registers an observer of outbound calls and of the replies of models while they are written.
    /// The run does not depend on it.
    pub fn observe(&mut self, factory: StreamObserverFactory) {
        self.driver.set_observer_factory(factory);
    }

    /// Counts from now on in `metrics` what the run does.
    pub fn record_metrics(&mut self, metrics: Arc<Metrics>) {
        self.driver.journal_mut().attach_metrics(metrics);
    }

    /// Returns a handle that delivers orders to the run until its next `run` has ended.
    pub fn orders(&self) -> DriverHandle {
        self.driver.handle()
    }

    /// Returns a receiver for the changes of the run's state.
    pub fn run_state(&self) -> watch::Receiver<RunState> {
        self.driver.run_state()
    }

    /// Returns the team and its state.
    pub fn stepper(&self) -> &Stepper {
        self.driver.journal().stepper()
    }

    /// Returns where the team and its components come from.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// Returns where the run is kept.
    pub fn location(&self) -> &StorageLocation {
        &self.location
    }
}

fn saved_definition(definition: &Definition) -> SavedDefinition {
    let source = &definition.source;
    SavedDefinition {
        name: source.name.clone(),
        base: source.base.clone(),
        text: source.text.clone(),
        components: definition.overridden_components(),
    }
}

/// A function that reads the text of a team file, with or without the files that it names.
type ParseDefinition = fn(&str, &str, &Path) -> Result<Definition, Diagnostics>;

/// Reads a saved team file again, and applies the components that the command line had replaced
/// then.
fn parse_saved_definition(
    saved: &SavedDefinition,
    parse: ParseDefinition,
) -> Result<Definition, LaunchError> {
    let mut definition = parse(&saved.text, &saved.name, &saved.base)?;
    definition.restore_overridden_components(&saved.components)?;
    Ok(definition)
}
