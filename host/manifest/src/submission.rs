//! What a team file that somebody submitted may use of the machine that runs it.

use std::path::{Component, Path, PathBuf};

use strata_base::text::display_path::absolute_path;
use strata_services::variables::variable_names;

use super::Definition;
use super::grants::{OutwardFilter, OutwardScope};
use super::operator::OperatorPolicy;
use super::outward::{OutwardUse, uses_outside};

/// What the operator of a worker lets submitted teams use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubmissionGrants {
    /// Their own files, scripted models, and public servers without secrets.
    #[default]
    None,
    /// What the operator's policies allow, in addition.
    ByPolicy,
}

/// Where the files of a submitted team are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmittedFiles {
    /// The files that were submitted. Nothing is written there.
    pub root: PathBuf,
    /// The directory in which those directories are that the team's actions may use.
    pub workspace: PathBuf,
}

impl SubmittedFiles {
    /// Whether a path is that of a submitted file.
    fn holds(&self, path: &Path) -> bool {
        is_below(path, &self.root)
    }

    /// Whether a path is neither that of a submitted file nor in the workspace.
    fn is_outside(&self, path: &Path) -> bool {
        !self.holds(path) && !is_below(path, &self.workspace)
    }
}

/// Whether a path leads to a place in a directory that contains no symbolic links.
fn is_below(path: &Path, directory: &Path) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_ok_and(|rest| {
        rest.components()
            .all(|part| matches!(part, Component::Normal(_)))
    })
}

/// Moves the directories of a submitted team that are relative to its file into its workspace. Others
/// remain where they are.
pub fn move_directories(definition: &mut Definition, workspace: &Path) {
    let base = definition.source.base.clone();
    for plugin in definition.plugins.values_mut() {
        for grant in &mut plugin.grants.dirs {
            if let Some(rest) = relative_directory(&grant.host, &base) {
                grant.host = workspace.join(rest);
            }
        }
    }
    definition.workspace = Some(workspace.to_owned());
}

/// Returns where the files of a team are, if it was submitted.
pub fn submitted_files(definition: &Definition) -> Option<SubmittedFiles> {
    Some(SubmittedFiles {
        root: definition.source.base.parent()?.to_owned(),
        workspace: definition.workspace.clone()?,
    })
}

/// Returns the path of a granted directory relative to the team file, if it does not lead out of there.
pub fn relative_directory(host: &Path, base: &Path) -> Option<PathBuf> {
    let rest: PathBuf = host.strip_prefix(base).ok()?.components().collect();
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    rest.components().all(is_plain).then(|| {
        let plain = rest.components();
        plain
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect()
    })
}

/// Returns everything that running a submitted team would use, except for its own files.
pub fn submission_uses(definition: &Definition, files: &SubmittedFiles) -> Vec<OutwardUse> {
    let is_outside = |path: &Path| files.is_outside(path);
    let filter = OutwardFilter {
        scope: OutwardScope::All,
        is_outside: &is_outside,
    };
    uses_outside(definition, &filter)
}

/// Returns everything that a submitted team, whose directories were moved, must not use. What the
/// operators' policies do not allow, they remove, except for secrets: without them, a team would fail
/// late, where nobody says what it lacks.
pub fn forbidden_uses(
    definition: &Definition,
    files: &SubmittedFiles,
    operators: &[OperatorPolicy],
    grants: SubmissionGrants,
) -> Vec<OutwardUse> {
    let is_outside = |path: &Path| files.is_outside(path);
    let filter = OutwardFilter {
        scope: OutwardScope::BeyondPublic,
        is_outside: &is_outside,
    };
    let mut uses = uses_outside(definition, &filter);
    if grants == SubmissionGrants::ByPolicy {
        // A file is not granted by any policy: it could be any that the worker can read.
        uses.retain(|used| matches!(used, OutwardUse::File { .. } | OutwardUse::Build { .. }));
        let named = definition.secret_names().into_iter();
        let forbidden = named.filter(|name| !allows_secret(operators, grants, name));
        uses.extend(forbidden.map(|name| OutwardUse::Secret { name }));
    }
    let named = definition
        .plugins
        .values()
        .filter(|plugin| plugin.needs_file());
    let foreign = named.map(|plugin| &plugin.component);
    let foreign = foreign.filter(|file| !files.holds(file));
    uses.extend(foreign.map(|file| OutwardUse::File {
        file: absolute_path(file),
    }));
    uses
}

impl SubmissionGrants {
    /// Returns what the operator allows who named a policy for submitted teams, or none. One that does
    /// not say what may be granted allows nothing.
    pub fn from_policy(policy: Option<&OperatorPolicy>) -> Self {
        if policy.is_some_and(OperatorPolicy::bounds_grants) {
            Self::ByPolicy
        } else {
            Self::None
        }
    }
}

/// Returns whether submitted teams may name a secret: all policies have to allow it, and there has to be
/// one that says what may be granted.
pub fn allows_secret(operators: &[OperatorPolicy], grants: SubmissionGrants, name: &str) -> bool {
    let mut bounding = operators.iter().filter(|operator| operator.bounds_grants());
    grants == SubmissionGrants::ByPolicy && bounding.all(|operator| operator.allows_secret(name))
}

/// Returns the names of the environment variables of this process that submitted teams may name as
/// secrets.
pub fn allowed_secrets(operators: &[OperatorPolicy], grants: SubmissionGrants) -> Vec<String> {
    let mut names = variable_names();
    names.retain(|name| allows_secret(operators, grants, name));
    names
}
