//! The runs of a team in this process, each in a storage directory of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;

use strata_base::random_id::random_name;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event};
use strata_core::record::id::RunId;
use strata_driver::{HumanReply, LineListener};
use strata_storage::{StateSelector, StorageLocation};
use strata_view::{Continuation, EndedRun, RunEnding};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::arguments::RunName;
use super::open_runs::{OpenRun, OpenRuns};
use super::place::{Activity, Launch, RunAttempt, RunPlace, RunResult, may_reattach};
use super::{OfferedTeam, ReportNotice};
use crate::launch::{
    self, LaunchError, Resume, ResumeOutcome, RunHandle, Start, load_saved_with_provenance,
};

/// The number of characters of the name of a new run.
const NAME_CHARS: usize = 12;

/// The runs of a team in this process.
pub(super) struct LocalRuns {
    offered: OfferedTeam,
    report: ReportNotice,
    open: Arc<OpenRuns>,
}

/// What became of a run that was to be begun or continued.
enum LaunchOutcome {
    /// It goes on.
    Open(OpenRun),
    /// It stays as it is saved.
    Saved(Box<RunEnding>),
}

impl LaunchOutcome {
    fn saved(ending: RunEnding) -> Self {
        Self::Saved(Box::new(ending))
    }
}

impl LocalRuns {
    /// Opens the directory of the runs, which is created if it is missing.
    pub(super) fn open(offered: OfferedTeam, report: ReportNotice) -> Result<Self, LaunchError> {
        let directory = &offered.storage;
        create_private_directory(directory).map_err(|error| {
            let place = directory.display();
            LaunchError::InvalidInput(format!(
                "the directory of the runs, `{place}`, cannot be used: {error}"
            ))
        })?;
        let open = Arc::new(OpenRuns::new(offered.policy.clone()));
        Ok(Self {
            offered,
            report,
            open,
        })
    }

    fn storage(&self, run: &RunName) -> PathBuf {
        self.offered.storage.join(run.as_str())
    }

    /// Begins or continues a run, unless it stays as it is.
    fn launch(&self, name: &RunName, launch: &Launch) -> Result<LaunchOutcome, LaunchError> {
        let (tell_activity, activity) = watch::channel(Activity::default());
        let run = match launch {
            Launch::New { idea } => self.start(name, idea.clone(), tell_activity)?,
            Launch::Look => return self.saved_ending(name).map(LaunchOutcome::saved),
            Launch::Reattach if !may_reattach(self.saved_ending(name)?.status) => {
                return self.saved_ending(name).map(LaunchOutcome::saved);
            }
            Launch::Resume | Launch::Reattach => match self.resume(name, tell_activity)? {
                Some(run) => run,
                None => return self.saved_ending(name).map(LaunchOutcome::saved),
            },
        };
        self.open
            .begin(name, run, activity)
            .map(LaunchOutcome::Open)
            .map_err(|error| LaunchError::InvalidInput(error.to_string()))
    }

    fn start(
        &self,
        name: &RunName,
        idea: String,
        activity: watch::Sender<Activity>,
    ) -> Result<Box<RunHandle>, LaunchError> {
        let offered = &self.offered;
        let start = Start {
            idea: Some(idea),
            run: Some(RunId::from(name.as_str())),
            telemetry: offered.telemetry.clone(),
            ..Start::new(
                offered.team.clone(),
                self.storage(name),
                offered.overrides.clone(),
            )
        };
        let report = &mut |notice: launch::Notice<'_>| (self.report)(notice);
        let started = launch::start(start, report, listener(activity))?;
        Ok(Box::new(started.run))
    }

    /// Continues the run. Returns `None` if it is done.
    fn resume(
        &self,
        name: &RunName,
        activity: watch::Sender<Activity>,
    ) -> Result<Option<Box<RunHandle>>, LaunchError> {
        let offered = &self.offered;
        let resume = Resume {
            team: Some(offered.team.clone()),
            telemetry: offered.telemetry.clone(),
            ..Resume::new(self.storage(name), offered.overrides.clone())
        };
        let report = &mut |notice: launch::Notice<'_>| (self.report)(notice);
        match launch::resume(resume, report, listener(activity))? {
            ResumeOutcome::Running(run, _) => Ok(Some(run)),
            ResumeOutcome::Finished(..) => Ok(None),
        }
    }

    /// Returns the ending that is saved.
    fn saved_ending(&self, name: &RunName) -> Result<RunEnding, LaunchError> {
        let storage = self.storage(name);
        let location = StorageLocation::new(storage.clone());
        let (saved, provenance) = load_saved_with_provenance(&location, &StateSelector::Head)?;
        let stepper: &Stepper = &saved.stepper;
        let ended = EndedRun {
            stepper,
            provenance: &provenance,
            storage: &storage,
            policy: self.offered.policy.as_deref(),
            continuation: Continuation::OwnProcess,
        };
        Ok(ended.ending(stepper.env().status))
    }
}

impl RunPlace for LocalRuns {
    fn new_name(&self) -> RunName {
        let name = &random_name()[..NAME_CHARS];
        RunName::parse(name).expect("hexadecimal digits can be a name")
    }

    fn key(&self, run: &RunName) -> String {
        run.as_str().to_owned()
    }

    fn find(&self, text: &str) -> Option<RunName> {
        RunName::parse(text).filter(|run| self.storage(run).is_dir())
    }

    fn carry_out(&self, attempt: RunAttempt, launch: &Launch) -> RunResult {
        let open = match self.open.find(&attempt.run) {
            Some(open) => open,
            None => match self.launch(&attempt.run, launch) {
                Ok(LaunchOutcome::Open(open)) => open,
                Ok(LaunchOutcome::Saved(ending)) => return Ok(*ending),
                Err(error) => return Err(error.to_string()),
            },
        };
        Handle::current().block_on(self.open.wait(open, attempt))
    }

    fn answer(&self, run: &RunName, reply: HumanReply) -> Result<(), LaunchError> {
        let location = StorageLocation::new(self.storage(run));
        // A run that is open takes answers, but does not say what is wrong with one.
        launch::check_answers(&location, slice::from_ref(&reply))?;
        launch::answer(&location, &[reply]).map(drop)
    }

    fn interrupt(&self, run: &RunName) {
        self.open.interrupt(run);
    }

    fn close(&self) {
        self.open.close();
    }
}

/// Returns a listener that notes what a run does.
fn listener(activity: watch::Sender<Activity>) -> LineListener {
    LineListener::Selected {
        select: is_activity,
        on_line: Box::new(move |line| {
            if let Some(now) = Activity::of_line(line) {
                activity.send_replace(now);
            }
        }),
    }
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

/// Creates a directory that only this user may read.
pub(super) fn create_private_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}
