//! Submits a team whose files somebody uploaded. They are a stranger's: nothing that the team file names is opened
//! before it is known that the team uses nothing that its operator has not allowed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_base::text::component_replacement::ComponentReplacement;
use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::submission::{SubmissionGrants, relative_directory};
use strata_manifest::{Definition, Overrides};
use strata_sandbox::WasmSandbox;
use strata_storage::{
    CapScope, Handover, NewSubmission, RunDatabase, RunNeeds, SavedDefinition, ServerRecord,
    SubmissionIdentity,
};

use super::amend::investment_note;
use super::attached_files::{AttachedFiles, NamedFile};
use super::claimed::{SubmissionTerms, submitted_definition};
use super::submitted::SubmittedTeam;
use super::{Components, LaunchError};
use crate::bundle::{COMPONENTS, TEAM, WORKSPACE, check_paths, saved_path};

/// The team file of a bundle.
pub const BUNDLE_TEAM_FILE: &str = "team.toml";
/// Where a bundle has what does not lie beside the team file: components that were built, with `components.json`, which
/// says what they replace, and what is in the workspace at first.
const ASIDE: &str = ".strata/";
/// Says which file of a bundle replaces which component: an object from slots to paths.
const REPLACEMENTS: &str = ".strata/components.json";
/// The maximum size of that file in bytes.
const MAX_REPLACEMENTS_BYTES: usize = 1 << 20;

/// A team whose files were uploaded.
pub struct FileSubmission<'a> {
    /// The database that keeps the run.
    pub database: &'a RunDatabase,
    /// The name under which the run is stored. `None` makes one of the team's name, with a prefix.
    pub name: Option<&'a str>,
    /// What stands before a name that is made.
    pub name_prefix: &'a str,
    /// The digests of the files, by path.
    pub files: &'a BTreeMap<String, Digest>,
    /// The contents of those files that the database does not have yet.
    pub contents: Blobs,
    /// The idea. Replaces the one in the team file.
    pub idea: Option<String>,
    /// Images and files that belong to the idea.
    pub attached: Vec<NamedFile>,
    /// What the run may spend, in US dollars; 0 means no limit.
    pub investment: Option<f64>,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// What is noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<CapScope>,
    /// By what clients know it, and whose it is.
    pub identity: SubmissionIdentity,
    /// Returns what a server remembers with it.
    pub records: &'a dyn Fn(&SubmittedAs<'_>) -> Vec<ServerRecord>,
    /// The policies that bind the team.
    pub operators: &'a [OperatorPolicy],
    /// What the team may use.
    pub grants: SubmissionGrants,
}

/// What a team is submitted as.
#[derive(Clone, Copy, Debug)]
pub struct SubmittedAs<'a> {
    /// The name under which the run is stored.
    pub name: &'a str,
    /// The name of the team.
    pub team: &'a str,
    /// Its idea.
    pub idea: &'a str,
    /// What the run may spend; `None` if there is no limit.
    pub budget: Option<Usd>,
}

/// Fails if a path leads out of a bundle, or the bundle has too many files.
///
/// # Errors
/// Fails with `LaunchError::Bundle`.
pub fn check_bundle_paths(files: &BTreeMap<String, Digest>) -> Result<(), LaunchError> {
    Ok(check_paths(files)?)
}

/// Fails if a bundle has no team file.
fn require_team_file(files: &BTreeMap<String, Digest>) -> Result<(), LaunchError> {
    if files.contains_key(BUNDLE_TEAM_FILE) {
        Ok(())
    } else {
        Err(LaunchError::InvalidInput(format!(
            "the bundle has no `{BUNDLE_TEAM_FILE}`"
        )))
    }
}

/// Submits a team whose files were uploaded, and returns the name under which the run is stored. `fetch` returns the
/// bytes of a file.
///
/// # Errors
/// Fails if the team cannot be run or must not be used, and if there is a run of its name.
pub fn submit_files(
    submission: FileSubmission<'_>,
    fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, LaunchError>,
) -> Result<String, LaunchError> {
    check_bundle_paths(submission.files)?;
    require_team_file(submission.files)?;
    let saved = saved_definition(submission.files, fetch)?;
    let mut files = stored_files(submission.files);
    // Nothing is written into the workspace here: its path only tells which directories are in it.
    let workspace = PathBuf::from("/workspace");
    let team = SubmittedTeam::unpack_files(&saved, files.clone(), workspace.clone(), fetch)?;
    let terms = SubmissionTerms {
        operators: submission.operators,
        grants: submission.grants,
    };
    let overrides = Overrides {
        operators: submission.operators.to_vec(),
        investment: submission.investment,
        ..Overrides::default()
    };
    let definition = submitted_definition(&team, &terms, &overrides)?;
    let idea = submission.idea.or_else(|| definition.idea.clone());
    let idea = idea.ok_or_else(LaunchError::missing_idea)?;
    let attached = AttachedFiles::from_named(submission.attached)?;
    let components = Components::load(&definition, &WasmSandbox::new()?, &mut |_| {})?;
    add_workspace_files(&definition, &workspace, &mut files);
    let mut base = Environment::new(&definition.team);
    (base.idea, base.idea_parts) = (idea, attached.parts);
    base.components = components.digests();
    let name = match submission.name {
        Some(name) => name.to_owned(),
        None => format!(
            "{}{}",
            submission.name_prefix,
            super::generated_run_name(&definition.team.name)
        ),
    };
    submission.database.submit(&NewSubmission {
        name: &name,
        team: &definition.team.name,
        base: &base,
        definition: &saved,
        blobs: &attached.blobs,
        files: &files,
        contents: &submission.contents,
        needs: &RunNeeds {
            labels: submission.needs,
            secrets: definition.secret_names(),
        },
        tags: &submission.tags,
        handover: Handover::Queued,
        scope: submission.scope.as_ref(),
        identity: submission.identity,
        resume_note: submission.investment.map(investment_note),
        records: &(submission.records)(&SubmittedAs {
            name: &name,
            team: &definition.team.name,
            idea: &base.idea,
            budget: definition.team.policy.budget,
        }),
    })?;
    Ok(name)
}

/// Returns the team file of a bundle as it is saved.
fn saved_definition(
    files: &BTreeMap<String, Digest>,
    fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, LaunchError>,
) -> Result<SavedDefinition, LaunchError> {
    let mut read = |path: &str| match files.get(path) {
        Some(digest) => fetch(digest).map(Some),
        None => Ok(None),
    };
    let bytes = read(BUNDLE_TEAM_FILE)?.unwrap_or_default();
    let text = String::from_utf8(bytes)
        .map_err(|_| LaunchError::InvalidInput(format!("`{BUNDLE_TEAM_FILE}` is not UTF-8")))?;
    let components = match read(REPLACEMENTS)? {
        Some(bytes) => parse_replacements(&bytes, files)?,
        None => Vec::new(),
    };
    Ok(SavedDefinition {
        name: BUNDLE_TEAM_FILE.into(),
        base: saved_path(TEAM),
        text,
        components,
    })
}

/// Parses which file of a bundle replaces which component.
fn parse_replacements(
    bytes: &[u8],
    files: &BTreeMap<String, Digest>,
) -> Result<Vec<ComponentReplacement>, LaunchError> {
    let wrong = |what: String| LaunchError::InvalidInput(format!("`{REPLACEMENTS}`: {what}"));
    if bytes.len() > MAX_REPLACEMENTS_BYTES {
        let what = format!("it has more than {MAX_REPLACEMENTS_BYTES} bytes");
        return Err(wrong(what));
    }
    let parsed: BTreeMap<String, String> =
        serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    let mut replacements = Vec::new();
    for (slot, path) in parsed {
        // A script that runs in an interpreter may be a directory.
        let below = format!("{path}/");
        let is_there = files
            .keys()
            .any(|file| *file == path || file.starts_with(&below));
        if !is_there {
            return Err(wrong(format!("the bundle has no `{path}`")));
        }
        replacements.push(ComponentReplacement::new(
            &slot,
            saved_path(&stored_path(&path)),
        ));
    }
    Ok(replacements)
}

/// Returns the path with which a file of a bundle is stored.
fn stored_path(path: &str) -> String {
    match path.strip_prefix(ASIDE) {
        Some(rest) if Path::new(rest).starts_with(COMPONENTS) => rest.into(),
        Some(rest) if Path::new(rest).starts_with(WORKSPACE) => rest.into(),
        _ => format!("{TEAM}/{path}"),
    }
}

/// Returns the path in a bundle of a file that is stored with this path.
pub(crate) fn bundle_path(stored: &str) -> String {
    match stored
        .strip_prefix(TEAM)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some(rest) => rest.into(),
        None => format!("{ASIDE}{stored}"),
    }
}

/// Returns the files of a bundle with the paths with which they are stored.
fn stored_files(files: &BTreeMap<String, Digest>) -> BTreeMap<String, Digest> {
    let stored = files.iter();
    stored
        .map(|(path, digest)| (stored_path(path), digest.clone()))
        .collect()
}

/// Puts the files in directories that actions may use into the workspace, where they are at first.
fn add_workspace_files(
    definition: &Definition,
    workspace: &Path,
    files: &mut BTreeMap<String, Digest>,
) {
    let grants = definition
        .plugins
        .values()
        .flat_map(|plugin| &plugin.grants.dirs);
    let granted: Vec<PathBuf> = grants
        .filter_map(|grant| relative_directory(&grant.host, workspace))
        .collect();
    let mut added = BTreeMap::new();
    for (path, digest) in &*files {
        let Some(inside) = path
            .strip_prefix(TEAM)
            .and_then(|rest| rest.strip_prefix('/'))
        else {
            continue;
        };
        if granted
            .iter()
            .any(|directory| Path::new(inside).starts_with(directory))
        {
            added.insert(format!("{WORKSPACE}/{inside}"), digest.clone());
        }
    }
    for (path, digest) in added {
        files.entry(path).or_insert(digest);
    }
}

impl super::CollectedTeam {
    /// Returns the files as those of a bundle, with their bytes: its team file is `team.toml`, and a file says which
    /// others replace components.
    pub fn into_bundle(self) -> (BTreeMap<String, Digest>, Blobs) {
        let (mut files, mut contents) = (BTreeMap::new(), self.contents);
        let mut add = |path: &str, bytes: Vec<u8>, files: &mut BTreeMap<String, Digest>| {
            let digest = strata_base::files::blob::digest_of(&bytes);
            files.insert(path.to_owned(), digest.clone());
            contents.insert(digest, bytes.into());
        };
        for (path, digest) in &self.files {
            files.insert(bundle_path(path), digest.clone());
        }
        add(BUNDLE_TEAM_FILE, self.saved.text.into_bytes(), &mut files);
        let mut replaced = BTreeMap::new();
        for replacement in &self.saved.components {
            for reading in replacement.readings() {
                if let Ok(inside) = reading.file.strip_prefix(saved_path("")) {
                    let path = bundle_path(&inside.to_string_lossy());
                    replaced.insert(reading.slot.to_owned(), path);
                }
            }
        }
        if !replaced.is_empty() {
            let text = serde_json::to_string(&replaced).unwrap_or_default();
            add(REPLACEMENTS, text.into_bytes(), &mut files);
        }
        (files, contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_bundle_are_stored_beside_the_team_file_unless_they_are_aside() {
        let check = |path: &str, expected: &str| {
            assert_eq!(stored_path(path), expected);
            assert_eq!(bundle_path(expected), path);
        };
        check("team.toml", "team/team.toml");
        check("lib/a.wasm", "team/lib/a.wasm");
        check(".strata/components/1a2b/a.wasm", "components/1a2b/a.wasm");
        check(".strata/workspace/notes/a.txt", "workspace/notes/a.txt");
        check("workspace/a.txt", "team/workspace/a.txt");
    }

    #[test]
    fn a_component_that_the_bundle_lacks_replaces_nothing() {
        let files = BTreeMap::from([(".strata/components/a.wasm".into(), Digest("00".into()))]);
        let check = |text: &str, is_accepted: bool| {
            let parsed = parse_replacements(text.as_bytes(), &files);
            assert_eq!(parsed.is_ok(), is_accepted, "{text}");
        };
        check(r#"{"A.p": ".strata/components/a.wasm"}"#, true);
        check(r#"{"A.p": ".strata/components"}"#, true);
        check(r#"{"A.p": "b.wasm"}"#, false);
        check("[]", false);
    }
}
