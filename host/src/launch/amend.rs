//! Changes a submitted run where it is kept, so that whoever continues it, here or on another machine, continues it
//! with the change: its team file, its components, and how it is to be resumed.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::CheckpointId;
use strata_manifest::{Definition, Overrides, is_confined};
use strata_sandbox::WasmSandbox;
use strata_storage::{StateSelector, StorageLocation, StoreError, SubmissionChange};

use super::bundle::Bundle;
use super::opened_team::check_shape;
use super::saved::{load_saved, read_saved_definition};
use super::saved_team_file::{definition_from_saved, mark_as_own};
use super::{Author, Components, DoubtDecision, LaunchError, Notice, Resume, SavedTeamFile};
use crate::bundle::{WORKSPACE, is_submitted};
use crate::storage_mark::MarkedTeam;

/// The note in which it is stored how a run is to be resumed.
const NOTE: &str = "resume";

/// How a submitted run is to be resumed by whichever worker takes it.
#[derive(Clone, Debug, Default)]
pub struct QueuedResume {
    /// The team file, if not the saved one.
    pub team: Option<PathBuf>,
    /// Which saved team files may be changed if none is given.
    pub saved_team_file: SavedTeamFile,
    /// What is changed for good: components; and for this resume: the money and the steps.
    pub overrides: Overrides,
    /// The checkpoint to resume from. `None` selects the newest.
    pub checkpoint: Option<CheckpointId>,
    /// Decisions about calls in doubt, as text.
    pub in_doubt: Vec<DoubtDecision>,
    /// Which recorded host calls are served again.
    pub calls: CallPolicy,
    /// Who asks for it, as it is recorded.
    pub by: Option<Author>,
}

impl QueuedResume {
    /// Whether its team file or its components change.
    fn changes_files(&self) -> bool {
        self.team.is_some() || !self.overrides.components.is_empty()
    }
}

/// How a run is to be resumed, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredResume {
    investment: Option<f64>,
    max_steps: Option<u64>,
    checkpoint: Option<String>,
    in_doubt: Vec<String>,
    calls: CallPolicy,
    by: Option<Author>,
}

impl StoredResume {
    /// Reads how a run is to be resumed, if somebody said so.
    pub(super) fn read(location: &StorageLocation) -> Result<Self, LaunchError> {
        let note = location.read()?.note(NOTE)?;
        // Whoever wrote something else than this program did is somebody who can change the run anyway.
        Ok(note
            .and_then(|note| serde_json::from_str(&note).ok())
            .unwrap_or_default())
    }

    /// Changes what a worker changes in the team.
    pub(super) fn change(&self, overrides: &mut Overrides) {
        overrides.investment = self.investment.or(overrides.investment);
        overrides.max_steps = self.max_steps.or(overrides.max_steps);
    }

    /// Whether the run continues from another state than the newest.
    pub(super) fn names_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// Changes how the run is resumed.
    pub(super) fn apply(self, resume: &mut Resume) {
        resume.checkpoint = self.checkpoint.map(CheckpointId);
        resume.in_doubt = self.in_doubt.into_iter().map(DoubtDecision::from).collect();
        resume.calls = self.calls;
        resume.by = self.by;
    }
}

/// Returns whether a run was submitted, so that workers can take it.
pub fn is_submitted_run(location: &StorageLocation) -> Result<bool, LaunchError> {
    Ok(location.accepts_submissions() && is_submitted(&read_saved_definition(location)?))
}

/// Stores with a submitted run how it is to be resumed, and lets workers take it.
///
/// # Errors
/// Fails if the changed team cannot be run, is another team, or must not be used; and if a process works on the run.
/// Nothing is changed in these cases.
pub fn resume_in_queue(
    location: &StorageLocation,
    resume: &QueuedResume,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<(), LaunchError> {
    let mut stored = StoredResume {
        investment: resume.overrides.investment,
        max_steps: resume.overrides.max_steps,
        checkpoint: resume.checkpoint.as_ref().map(|id| id.0.clone()),
        in_doubt: resume.in_doubt.iter().map(ToString::to_string).collect(),
        calls: resume.calls,
        by: resume.by.clone(),
    };
    if let Some(id) = &resume.checkpoint {
        // Whoever takes the run would refuse it.
        load_saved(location, &StateSelector::Checkpoint(id.clone()))?;
    }
    let mut change = SubmissionChange {
        resumes: true,
        ..SubmissionChange::default()
    };
    if resume.changes_files() {
        let amended = AmendedTeam::collect(location, resume, report)?;
        if resume.team.is_some() && amended.definition.declares_budget {
            let budget = amended.definition.team.policy.budget;
            stored.investment = stored
                .investment
                .or(Some(budget.map_or(0.0, |usd| usd.to_dollars())));
        }
        amended.add_to(&mut change);
        change.note = Some((NOTE.into(), to_note(&stored)));
        location.change_submission(&change)?;
        amended.mark(location, report);
        return Ok(());
    }
    change.note = Some((NOTE.into(), to_note(&stored)));
    Ok(location.change_submission(&change)?)
}

/// Lets workers take a submitted run as it is stored how it is to be resumed, and stores who asks for it.
///
/// # Errors
/// Fails if the run cannot be read or changed.
pub fn request_resume(location: &StorageLocation, by: &Author) -> Result<(), LaunchError> {
    // What somebody else stored, and no worker has read yet, still counts.
    let stored = StoredResume {
        by: Some(by.clone()),
        ..StoredResume::read(location)?
    };
    let change = SubmissionChange {
        note: Some((NOTE.into(), to_note(&stored))),
        resumes: true,
        ..SubmissionChange::default()
    };
    match location.change_submission(&change) {
        // Whoever works on it goes on.
        Err(StoreError::Locked { .. }) => Ok(location.request_work()?),
        done => Ok(done?),
    }
}

/// Returns the note of what a run may spend that is about to be submitted, in US dollars.
pub(super) fn investment_note(investment: f64) -> (String, String) {
    let stored = StoredResume {
        investment: Some(investment),
        ..StoredResume::default()
    };
    (NOTE.into(), to_note(&stored))
}

fn to_note(stored: &StoredResume) -> String {
    serde_json::to_string(stored).unwrap_or_default()
}

/// Stores the changed team of a submitted run with it, before it is continued in this process. Workers can take it
/// afterwards.
pub(super) fn amend_before_resume(
    resume: &Resume,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<(), LaunchError> {
    let queued = QueuedResume {
        team: resume.team.clone(),
        saved_team_file: resume.saved_team_file,
        overrides: resume.overrides.clone(),
        ..QueuedResume::default()
    };
    let amended = AmendedTeam::collect(&resume.storage, &queued, report)?;
    let mut change = SubmissionChange::default();
    amended.add_to(&mut change);
    resume.storage.change_submission(&change)?;
    amended.mark(&resume.storage, report);
    Ok(())
}

/// A changed team, and its files.
struct AmendedTeam {
    definition: Definition,
    bundle: Bundle,
}

impl AmendedTeam {
    /// Collects the files of the changed team. Fails if it is another team, or cannot be run.
    fn collect(
        location: &StorageLocation,
        resume: &QueuedResume,
        report: &mut dyn FnMut(Notice<'_>),
    ) -> Result<Self, LaunchError> {
        let definition = match &resume.team {
            Some(team) => read_team(team, &resume.overrides)?,
            None => definition_from_saved(
                location,
                &read_saved_definition(location)?,
                &resume.overrides,
                resume.saved_team_file,
            )?,
        };
        let saved = load_saved(location, &StateSelector::Head)?;
        check_shape(saved.stepper.env(), &definition.team)?;
        Components::load(&definition, &WasmSandbox::new()?, report)?;
        let mut bundle = Bundle::collect(&definition, report)?;
        if let Some(submission) = location.open_submission()? {
            // What was in the granted directories at first stays as it was.
            for (path, digest) in submission.files()? {
                if Path::new(&path).starts_with(WORKSPACE) {
                    bundle.files.entry(path).or_insert(digest);
                }
            }
        }
        Ok(Self { definition, bundle })
    }

    fn add_to(&self, change: &mut SubmissionChange) {
        change.definition = Some(self.bundle.definition.clone());
        change.files.clone_from(&self.bundle.files);
        change.contents.clone_from(&self.bundle.contents);
        change.secrets = self.definition.secret_names();
    }

    fn mark(&self, location: &StorageLocation, report: &mut dyn FnMut(Notice<'_>)) {
        let submitted = MarkedTeam {
            definition: &self.bundle.definition,
            files: Some(&self.bundle.files),
        };
        mark_as_own(location, submitted, is_confined(&self.definition), report);
    }
}

fn read_team(team: &Path, overrides: &Overrides) -> Result<Definition, LaunchError> {
    let mut definition = Definition::read(team)?;
    definition.apply_overrides(overrides)?;
    Ok(definition)
}
