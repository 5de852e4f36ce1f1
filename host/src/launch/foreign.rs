//! Decides whether a saved team file may be used that the operator has not named. A team file saved
//! by somebody else is data. It must not determine what is started, contacted, read or written
//! outside the storage directory.

use std::path::{Path, PathBuf};

use super::{LaunchError, Notice, define_again};
use crate::manifest::{Definition, OutwardUse, Overrides};
use crate::store::SavedDefinition;
use crate::trust::mark;

/// Which saved team files may be used without being named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SavedTeamFile {
    /// One that this user's own host saved, and any that uses nothing outside the storage
    /// directory.
    #[default]
    OwnOrHarmless,
    /// Any. Whoever wrote the storage directory then determines what is started and contacted, with
    /// the privileges of this process.
    Trusted,
}

/// The error for a saved team file that is not used.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{}` is not known as written by your own strata-host ({}), so the team file that is saved in it is not used. \
     It would:{}\nNothing of this was done",
    path.display(), reason(why.as_deref()), lines(uses)
)]
pub struct Unrecognized {
    /// The storage directory.
    pub path: PathBuf,
    /// Everything outside the storage directory that running the team would use.
    pub uses: Vec<OutwardUse>,
    /// The reason why the directories of this user cannot be recognized at all, if so.
    pub why: Option<String>,
}

fn reason(why: Option<&str>) -> String {
    match why {
        None => "it was written by somebody else, or moved or copied since".to_owned(),
        Some(why) => format!("your own ones cannot be recognized: {why}"),
    }
}

fn lines(uses: &[OutwardUse]) -> String {
    // One line for each use. Line breaks are removed so that a value cannot imitate further lines.
    uses.iter()
        .map(|used| format!("\n  {}", used.to_string().replace('\n', " ")))
        .collect()
}

/// Reads the team file that is saved in a directory and applies the overrides of the command line.
///
/// # Errors
/// Fails with `Unrecognized` if the team file must not be used. None of the files that it names is
/// opened in that case.
pub(super) fn define_saved(
    storage: &Path,
    saved: &SavedDefinition,
    overrides: &Overrides,
    accepted: SavedTeamFile,
) -> Result<Definition, LaunchError> {
    let marked = match accepted {
        SavedTeamFile::Trusted => Ok(true),
        SavedTeamFile::OwnOrHarmless => mark::is_marked(storage, saved),
    };
    if !matches!(marked, Ok(true)) {
        let mut alone = define_again(saved, Definition::parse_alone)?;
        alone.apply(overrides)?;
        let uses = alone.outward_uses(storage);
        if !uses.is_empty() {
            let why = marked.err().map(|error| error.to_string());
            return Err(Box::new(Unrecognized {
                path: storage.to_owned(),
                uses,
                why,
            })
            .into());
        }
    }
    let mut definition = define_again(saved, Definition::parse)?;
    definition.apply(overrides)?;
    Ok(definition)
}

/// Marks a storage directory as written by this user's host, if a resume would depend on it.
pub(super) fn mark_as_own(
    storage: &Path,
    saved: &SavedDefinition,
    is_confined: bool,
    report: &mut dyn FnMut(Notice<'_>),
) {
    if is_confined {
        return;
    }
    if let Err(error) = mark::mark(storage, saved) {
        report(Notice::Note(&format!(
            "it cannot be noted that this storage is your own, so a resume has to name the team file: {error}"
        )));
    }
}
