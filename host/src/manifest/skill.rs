//! `skill = "name@version"` in place of `component`: which file on the shelf that is. The shelf itself is in `skills`.
//!
//! That a skill is missing is found out when the team is to run, not when its file is read: a team can be drawn, and a
//! saved one looked at, without its components.

use std::path::PathBuf;

use super::table::{At, Item};
use crate::skills::{Shelf, Skill, Wanted};

/// A skill in its place.
pub(super) struct Placed {
    /// Its component, or a file that is not there.
    pub(super) component: At<PathBuf>,
    /// The digest it must have.
    pub(super) pin: Option<String>,
    /// What was written, and what that is.
    pub(super) chosen: Chosen,
}

/// A skill that is named, and which one that is.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) wanted: Wanted,
    /// The name and version of the one on the shelf; none where there is none.
    pub(super) found: Option<String>,
}

/// Reads the name of a skill, and looks for it on the user's shelf.
pub(super) fn read(item: &Item<'_>) -> Option<Placed> {
    let text = item.text()?;
    let wanted: Wanted = match text.value.parse() {
        Ok(wanted) => wanted,
        Err(error) => {
            item.refuse(
                error.to_string(),
                "`strata-host skill list` shows what there is",
            );
            return None;
        }
    };
    let found = Shelf::of_user().and_then(|shelf| {
        let skill = shelf.find(&wanted)?;
        Ok((shelf.file(&skill), skill))
    });
    let (file, found) = found.map_or_else(
        |_| (PathBuf::from(&text.value), None),
        |(file, skill)| (file, Some(skill)),
    );
    let component = At {
        value: item.base().join(file),
        span: text.span,
    };
    let chosen = Chosen {
        wanted,
        found: found.as_ref().map(Skill::name),
    };
    Some(Placed {
        component,
        pin: found.map(|skill| skill.digest.0),
        chosen,
    })
}

/// Why a skill cannot be used, if it cannot: it is not there, or damaged.
pub(super) fn problem(wanted: &Wanted) -> Option<String> {
    let usable = Shelf::of_user().and_then(|shelf| shelf.component(&shelf.find(wanted)?));
    usable.err().map(|error| error.to_string())
}
