//! A run that a worker took, on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;

use strata_driver::{DriverError, LineListener, StopSignal, WhenIdle};
use strata_storage::{ClaimedRun, RunRelease, StorageLocation, StoreError};
use tokio::runtime::Handle;

use super::{ReportWork, RunObserver, WorkerReport, WorkerSettings};
use crate::bundle::{remove_workspace, workspace_in};
use crate::launch::{ClaimedOutcome, ClaimedResume, LaunchError, Notice, resume_claimed};
use crate::operate::{ProcessMetrics, RefusalReason};

/// What the thread of a run needs.
pub(super) struct RunAttempt {
    pub(super) settings: Arc<WorkerSettings>,
    pub(super) database: usize,
    pub(super) run: ClaimedRun,
    /// The id of the worker that took it.
    pub(super) worker: String,
    pub(super) location: StorageLocation,
    pub(super) report: ReportWork,
    pub(super) metrics: Arc<ProcessMetrics>,
    pub(super) stop: StopSignal,
    pub(super) runtime: Handle,
}

impl RunAttempt {
    /// Runs the team until it ends or rests, and returns how the run is to be given up.
    pub(super) fn run_to_end(mut self) -> RunRelease {
        let _within = self.runtime.enter();
        let workspace = workspace_in(&self.settings.workspaces, &self.location);
        let ended = self.resume_and_run(workspace.clone());
        // What is in it is recorded, and created anew when the run is continued.
        if let Err(error) = remove_workspace(&workspace) {
            let text = format!("cannot remove `{}`: {error}", workspace.display());
            (self.report)(WorkerReport::Notice(&self.location, text));
        }
        match ended {
            Ok(release) => release,
            Err(LaunchError::Store(error) | LaunchError::Driver(DriverError::Store(error))) => {
                self.metrics.add_lost();
                (self.report)(WorkerReport::Lost(&self.location, &error));
                match error {
                    StoreError::Lost { .. } | StoreError::Corrupt { .. } => {
                        self.metrics.add_refusal(RefusalReason::Storage);
                        RunRelease::refused(error.to_string())
                    }
                    _ => RunRelease::failed(&error),
                }
            }
            Err(error) => {
                let problem = error.to_string();
                self.metrics.add_refusal(refusal_reason(&error));
                (self.report)(WorkerReport::Refused(&self.location, &problem));
                RunRelease::refused(problem)
            }
        }
    }

    fn resume_and_run(&mut self, workspace: PathBuf) -> Result<RunRelease, LaunchError> {
        let database = &self.settings.databases[self.database];
        // Nothing is paid for whose result could not be stored.
        if self.run.needed_bytes > 0 {
            database.try_write(&self.run, self.run.needed_bytes)?;
        }
        let (overrides, grants) = self.settings.terms_of(&self.run.name);
        let resume = ClaimedResume {
            database,
            run: &self.run,
            workspace,
            overrides,
            grants,
            worker: Some(&self.worker),
            fleet: Some(self.metrics.fleet()),
        };
        let report = &mut |notice: Notice<'_>| {
            if let Notice::Note(text) | Notice::Warning(text) | Notice::AdvisedWarning(text, _) =
                notice
            {
                (self.report)(WorkerReport::Notice(&self.location, text.to_owned()));
            }
        };
        let on_line = LineListener::none();
        let mut run = match resume_claimed(&resume, report, on_line)? {
            ClaimedOutcome::Running(run) => run,
            ClaimedOutcome::Resting(schedule) => {
                return Ok(RunRelease {
                    schedule: Some(schedule),
                    problem: None,
                    keeps_request: false,
                    failure: None,
                });
            }
        };
        run.set_patience(self.settings.patience);
        run.set_when_idle(WhenIdle::KeepCalls);
        if self.run.is_requested {
            database.acknowledge_request(&self.run)?;
        }
        if let RunObserver(Some(observe)) = &self.settings.observer {
            run.observe(observe(&self.location));
        }
        let status = self.runtime.block_on(run.run(&mut self.stop))?;
        (self.report)(WorkerReport::Ended(&self.location, status));
        // The end of the run has said when it is taken up again.
        Ok(RunRelease {
            schedule: None,
            problem: None,
            keeps_request: true,
            failure: None,
        })
    }
}

/// Returns why a run could not be run that failed with this error.
fn refusal_reason(error: &LaunchError) -> RefusalReason {
    match error {
        LaunchError::Refused(_) => RefusalReason::Grants,
        LaunchError::Store(_) | LaunchError::Driver(_) => RefusalReason::Storage,
        LaunchError::Sandbox(_) | LaunchError::Http(_) | LaunchError::Place(_) => {
            RefusalReason::Machine
        }
        _ => RefusalReason::Team,
    }
}
