//! Hands a run over to workers: moves or copies it from a directory or a database into a database of submitted runs,
//! with all its records and everything that its team needs.

use std::collections::BTreeMap;

use strata_base::advice::Advice;
use strata_base::files::blob::Blobs;
use strata_core::record::id::Digest;
use strata_manifest::{Overrides, is_confined};
use strata_storage::{
    CapScope, Handover, NewSubmission, QueuedRun, RunCopy, RunDatabase, RunFilter, RunListing,
    RunNeeds, RunOverview, RunSchedule, SavedDefinition, SavedForm, StateSelector, StorageLocation,
    SubmissionIdentity, check_run_name, copy_records,
};

use super::bundle::Bundle;
use super::claimed::first_expiry;
use super::saved::load_saved;
use super::saved_team_file::{definition_from_saved, mark_as_own};
use super::{LaunchError, Notice, SavedTeamFile, files};
use crate::bundle::{BundleError, is_submitted};
use crate::storage_mark::{self, MarkedTeam};

/// The arguments of a hand-over.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Where the run is kept.
    pub from: StorageLocation,
    /// The database whose workers take it.
    pub to: RunDatabase,
    /// Its name there; by default that which it has.
    pub name: Option<String>,
    /// What becomes of the run where it is kept.
    pub mode: AdoptMode,
    /// Which saved team files may be used.
    pub saved_team_file: SavedTeamFile,
    /// What the operator changes in teams.
    pub overrides: Overrides,
    /// The labels that a worker needs to take it.
    pub labels: Vec<String>,
    /// What is noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<CapScope>,
}

/// What becomes of a run that is handed over, where it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdoptMode {
    /// It is deleted, once it is stored in the database.
    Move,
    /// It stays.
    Copy,
}

/// The team of a run that is handed over.
struct AdoptedTeam {
    definition: SavedDefinition,
    files: BTreeMap<String, Digest>,
    contents: Blobs,
    secrets: Vec<String>,
    /// Whether the team may use nothing of a machine; `None` if it was submitted before.
    is_confined: Option<bool>,
}

/// How a run is queued.
struct Queueing {
    needs: RunNeeds,
    tags: BTreeMap<String, String>,
    scope: Option<CapScope>,
}

impl Queueing {
    /// Returns how a run is queued that is listed like this: as it was before, with what is added.
    fn of(adoption: &Adoption, listed: Option<&RunListing>, secrets: Vec<String>) -> Self {
        let before = listed.and_then(|listed| listed.queued.clone());
        let QueuedRun {
            scope,
            mut tags,
            needs: mut labels,
            ..
        } = before.unwrap_or_default();
        labels.extend(adoption.labels.iter().cloned());
        tags.extend(adoption.tags.clone());
        let before = scope.and_then(|scope| CapScope::parse_named(&scope).ok());
        Self {
            needs: RunNeeds { labels, secrets },
            tags,
            scope: adoption.scope.clone().or(before),
        }
    }
}

/// Hands a run over to the workers of a database, and returns where it is kept now. `report` receives the slow
/// operations that begin.
///
/// # Errors
/// Fails if the run cannot be read, if a process works on it and it is to be moved, if the saved team file must not be
/// used, if one of its files is missing, and if there is a run of the name. Nothing is changed in these cases.
pub fn adopt(
    adoption: &Adoption,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<StorageLocation, LaunchError> {
    let from = &adoption.from;
    let to = adoption.to.location(&name_of(adoption)?);
    let form = from.saved_form()?;
    // Nobody changes it while it is moved.
    let held = match (adoption.mode, form) {
        (AdoptMode::Move, SavedForm::Records) => Some(from.hold()?),
        _ => None,
    };
    let saved = load_saved(from, &StateSelector::Head)?;
    let team = adopted_team(adoption, &saved.definition, report)?;
    let (stepper, env) = (&saved.stepper, saved.stepper.env());
    let known = storage_mark::known_definitions(from);
    let blobs = match form {
        // They are copied with the records.
        SavedForm::Records => Blobs::new(),
        SavedForm::TeamJson => files::load_blobs(from, stepper)?,
    };
    let listed = from.list_overviews(&RunFilter::default())?;
    let listed = listed.into_iter().next();
    let queued = Queueing::of(adoption, listed.as_ref(), team.secrets.clone());
    let submission = NewSubmission {
        name: to.run_name().unwrap_or_default(),
        team: &stepper.team().name,
        base: env,
        definition: &team.definition,
        blobs: &blobs,
        files: &team.files,
        contents: &team.contents,
        needs: &queued.needs,
        tags: &queued.tags,
        handover: Handover::Queued,
        scope: queued.scope.as_ref(),
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
    };
    match form {
        SavedForm::TeamJson => to.place_submission(&submission)?,
        SavedForm::Records => copy_records(
            from,
            &to,
            &RunCopy {
                submission: &submission,
                overview: RunOverview::of(strata_storage::AppendedState {
                    team: stepper.team(),
                    env,
                }),
                schedule: RunSchedule::after(env.status, first_expiry(env)),
                changed_ms: listed.and_then(|listed| listed.changed_ms),
            },
        )?,
    }
    match team.is_confined {
        Some(is_confined) => {
            let marked = MarkedTeam {
                definition: &team.definition,
                files: Some(&team.files),
            };
            mark_as_own(&to, marked, is_confined, report);
        }
        None => storage_mark::mark_copy(known, &to),
    }
    match (adoption.mode, held) {
        (AdoptMode::Copy, _) => {}
        (AdoptMode::Move, Some(held)) => held.delete(None)?,
        (AdoptMode::Move, None) => from.delete_run(None)?,
    }
    Ok(to)
}

/// Returns the name that the run gets.
fn name_of(adoption: &Adoption) -> Result<String, LaunchError> {
    let own = || match adoption.from.run_name() {
        Some(name) => Some(name.to_owned()),
        None => {
            let directory = strata_base::text::display_path::absolute_path(adoption.from.operand());
            Some(directory.file_name()?.to_string_lossy().into_owned())
        }
    };
    let name = adoption.name.clone().or_else(own).unwrap_or_default();
    check_run_name(&name).map_err(|message| LaunchError::Unsuitable {
        message,
        advice: Advice::ChooseRunName,
    })
}

/// Collects everything that the team of a run needs.
fn adopted_team(
    adoption: &Adoption,
    saved: &SavedDefinition,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<AdoptedTeam, LaunchError> {
    if is_submitted(saved) {
        let submission = adoption.from.open_submission()?;
        let submission = submission.ok_or_else(BundleError::not_submitted)?;
        let files = submission.files()?;
        let mut contents = Blobs::new();
        for digest in files.values() {
            contents.insert(digest.clone(), submission.bytes(digest)?.into());
        }
        let parse = strata_manifest::Definition::parse_without_files;
        return Ok(AdoptedTeam {
            secrets: super::parse_saved_definition(saved, parse)?.secret_names(),
            definition: saved.clone(),
            files,
            contents,
            is_confined: None,
        });
    }
    let definition = definition_from_saved(
        &adoption.from,
        saved,
        &adoption.overrides,
        adoption.saved_team_file,
    )?;
    let bundle = Bundle::collect(&definition, report)?;
    Ok(AdoptedTeam {
        secrets: definition.secret_names(),
        is_confined: Some(is_confined(&definition)),
        definition: bundle.definition,
        files: bundle.files,
        contents: bundle.contents,
    })
}
