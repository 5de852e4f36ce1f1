//! The skills of a team in the lock file of its directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use strata_base::advice::{Advice, Hint};
use strata_core::record::id::Digest;
use strata_manifest::trust::lock::{ComponentLock, LockMismatch, LockedComponent, LockedName};
use strata_manifest::{Definition, Diagnostic, Diagnostics};
use strata_services::skills::Skill;
use strata_services::skills::files::SkillFiles;

/// Returns the entries of all skills of a team.
///
/// # Errors
/// Fails if the files of a skill cannot be read.
pub(super) fn skill_entries(
    definition: &Definition,
) -> Result<BTreeMap<LockedName, LockedComponent>, Diagnostics> {
    let mut entries = BTreeMap::new();
    for skill in definition.tool_roles.values().flat_map(|role| &role.skills) {
        let files = SkillFiles::read(&skill.directory).map_err(|error| {
            Diagnostics::from(Diagnostic::new(format!(
                "the skill `{}`: {error}",
                skill.name
            )))
        })?;
        let entry = LockedComponent {
            sha256: files.digest(),
            size: files.size(),
        };
        entries.insert(name_of(definition, skill), entry);
    }
    Ok(entries)
}

/// Returns the digest that a skill has to have, if the team's directory has a lock.
pub(super) fn locked_digest(
    definition: &Definition,
    skill: &Skill,
    lock: Option<&ComponentLock>,
) -> Option<Digest> {
    Some(lock?.get(&name_of(definition, skill))?.sha256.clone())
}

/// Fails unless the skills of a team are the locked ones.
pub(super) fn check_skills(
    definition: &Definition,
    lock: Option<&ComponentLock>,
) -> Result<(), Diagnostics> {
    let Some(lock) = lock else { return Ok(()) };
    let mut problems: Vec<Diagnostics> = Vec::new();
    for (name, entry) in skill_entries(definition)? {
        let Err(mismatch) = lock.check(&name, entry) else {
            continue;
        };
        let team_file = PathBuf::from(&definition.source.name);
        let advice = match mismatch {
            LockMismatch::Changed { .. } => Advice::RestoreOrLock { team_file },
            LockMismatch::Unlocked { .. } => Advice::LockComponent { team_file },
        };
        problems.push(
            Diagnostic::new(mismatch.to_string())
                .hint(Hint::Advice(advice))
                .into(),
        );
    }
    problems
        .into_iter()
        .reduce(Diagnostics::and)
        .map_or(Ok(()), Err)
}

fn name_of(definition: &Definition, skill: &Skill) -> LockedName {
    LockedName::for_component(&skill.directory, None, &definition.source.base)
}
