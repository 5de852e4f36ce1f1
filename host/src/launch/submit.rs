//! Submits a team to a database, from which a worker takes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_base::random_id::random_id;
use strata_core::record::id::{Digest, to_hex};
use strata_core::state::environment::Environment;
use strata_manifest::{Definition, Overrides, is_confined, warnings};
use strata_sandbox::WasmSandbox;
use strata_storage::{
    CapScope, DatabaseSet, Handover, NameOrigin, NewSubmission, RunNeeds, SavedDefinition,
    StorageLocation, SubmissionIdentity, check_run_name,
};

use super::attached_files::AttachedFiles;
use super::bundle::Bundle;
use super::saved_team_file::mark_as_own;
use super::{Components, LaunchError, Notice};
use crate::storage_mark::MarkedTeam;

/// The arguments of a submission.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The team file.
    pub team: PathBuf,
    /// The idea. Replaces the one in the team file.
    pub idea: Option<String>,
    /// Images and files that belong to the idea.
    pub files: Vec<PathBuf>,
    /// The overrides of the command line.
    pub overrides: Overrides,
    /// The databases, one of which keeps the run.
    pub databases: DatabaseSet,
    /// The name of the run. By default it is that of the team with a random number.
    pub name: Option<String>,
    /// The labels that a worker needs to take it.
    pub labels: Vec<String>,
    /// What is noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<CapScope>,
}

/// A team with everything that it needs to run elsewhere.
#[derive(Debug)]
pub struct CollectedTeam {
    /// The team file.
    pub definition: Definition,
    /// The state that a run of it starts from.
    pub base: Environment,
    /// Its team file as it is saved.
    pub saved: SavedDefinition,
    /// The digests of its files, by path.
    pub files: BTreeMap<String, Digest>,
    /// The bytes of its files.
    pub contents: Blobs,
    /// The bytes of the images and files that belong to the idea.
    pub attached: Blobs,
}

/// Reads a team, and collects everything that it needs to run elsewhere. Whatever is wrong with it is reported here, and
/// not where nobody sees it. `report` receives the slow operations that begin.
///
/// # Errors
/// Fails if the team cannot be run, or one of its files cannot be submitted.
pub fn collect_team(
    team: &Path,
    idea: Option<String>,
    attached: &[PathBuf],
    overrides: &Overrides,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<CollectedTeam, LaunchError> {
    let mut definition = Definition::read(team)?;
    definition.apply_overrides(overrides)?;
    let idea = idea.or_else(|| definition.idea.clone());
    let idea = idea.ok_or_else(LaunchError::missing_idea)?;
    let attached = AttachedFiles::read(attached)?;
    let components = Components::load(&definition, &WasmSandbox::new()?, report)?;
    for doubt in warnings(&definition) {
        report(Notice::Warning(&doubt));
    }
    let bundle = Bundle::collect(&definition, report)?;
    let mut base = Environment::new(&definition.team);
    (base.idea, base.idea_parts) = (idea, attached.parts);
    // The run may begin before its components are loaded where it is run.
    base.components = components.digests();
    Ok(CollectedTeam {
        definition,
        base,
        saved: bundle.definition,
        files: bundle.files,
        contents: bundle.contents,
        attached: attached.blobs,
    })
}

/// Submits a team with everything that it needs to run elsewhere, and returns where the run is kept.
/// `report` receives the slow operations that begin.
pub fn submit(
    submission: &Submission,
    report: &mut dyn FnMut(Notice<'_>),
) -> Result<StorageLocation, LaunchError> {
    if let Some(name) = &submission.name {
        check_run_name(name).map_err(LaunchError::InvalidInput)?;
    }
    let team = collect_team(
        &submission.team,
        submission.idea.clone(),
        &submission.files,
        &submission.overrides,
        report,
    )?;
    let definition = &team.definition;
    let (name, origin) = match &submission.name {
        Some(name) => (name.clone(), NameOrigin::Given),
        None => (
            generated_run_name(&definition.team.name),
            NameOrigin::Generated,
        ),
    };
    let needs = RunNeeds {
        labels: submission.labels.clone(),
        secrets: definition.secret_names(),
    };
    let selected = submission.databases.select(&name, origin)?;
    for (database, error) in &selected.unavailable {
        let text = format!("`{database}` was left out: {error}");
        report(Notice::Warning(&text));
    }
    let database = selected.database;
    database.submit(&NewSubmission {
        name: &name,
        team: &definition.team.name,
        base: &team.base,
        definition: &team.saved,
        blobs: &team.attached,
        files: &team.files,
        contents: &team.contents,
        needs: &needs,
        tags: &submission.tags,
        handover: Handover::Queued,
        scope: submission.scope.as_ref(),
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
    })?;
    let location = database.location(&name);
    let submitted = MarkedTeam {
        definition: &team.saved,
        files: Some(&team.files),
    };
    mark_as_own(&location, submitted, is_confined(definition), report);
    Ok(location)
}

/// Returns a name for a run that no other has.
pub fn generated_run_name(team: &str) -> String {
    /// Leaves room for the rest of what a name may contain.
    const MAX_CHARACTERS: usize = 40;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let team: String = team.chars().take(MAX_CHARACTERS).map(plain).collect();
    format!("{team}-{}", to_hex(&random_id().to_le_bytes()[..4]))
}
