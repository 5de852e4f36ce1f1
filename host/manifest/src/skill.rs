//! Reads `skill = "name@version"`, which is written instead of `component`, and finds the skill on
//! the user's shelf. The shelf itself is in `skills`.
//!
//! A missing skill is reported when the team is to run, not when its file is read, because drawing
//! a team or inspecting a saved one must work without its components.

use std::path::PathBuf;

use strata_base::advice::Advice;

use super::table::{Located, TomlItem};
use crate::skills::{Shelf, Skill, SkillError, SkillSpec};

/// The result of looking up a skill.
pub(super) struct ResolvedSkill {
    /// The path of its component; the file does not exist if the skill was not found.
    pub(super) component: Located<PathBuf>,
    /// The SHA-256 that the component must have, if the skill was found.
    pub(super) pin: Option<String>,
    /// The reference, and what it resolves to.
    pub(super) reference: SkillReference,
}

/// A reference to a skill, and the skill that it resolves to.
#[derive(Clone, Debug)]
pub(super) struct SkillReference {
    pub(super) wanted: SkillSpec,
    /// The name and version of the matching skill on the shelf; `None` if there is none.
    pub(super) found: Option<String>,
}

/// Reads a reference to a skill and looks it up on the user's shelf.
pub(super) fn resolve_skill(item: &TomlItem<'_>) -> Option<ResolvedSkill> {
    let text = item.text()?;
    let wanted: SkillSpec = match text.value.parse() {
        Ok(wanted) => wanted,
        Err(error) => {
            item.reject(error.to_string(), Advice::ListSkills);
            return None;
        }
    };
    let found = Shelf::for_user().and_then(|shelf| {
        let skill = shelf.find(&wanted)?;
        Ok((shelf.file(&skill), skill))
    });
    let (file, found) = found.map_or_else(
        |_| (PathBuf::from(&text.value), None),
        |(file, skill)| (file, Some(skill)),
    );
    let component = Located {
        value: item.base_dir().join(file),
        span: text.span,
    };
    let chosen = SkillReference {
        wanted,
        found: found.as_ref().map(Skill::name),
    };
    Some(ResolvedSkill {
        component,
        pin: found.map(|skill| skill.digest.0),
        reference: chosen,
    })
}

/// Returns why a skill cannot be used: it is missing or damaged. Returns `None` if it can be used.
pub(super) fn skill_problem(wanted: &SkillSpec) -> Option<SkillError> {
    let usable = Shelf::for_user().and_then(|shelf| shelf.component(&shelf.find(wanted)?));
    usable.err()
}
