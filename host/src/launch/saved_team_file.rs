//! Decides whether a saved team file may be used that the operator has not named. A team file saved
//! by somebody else is data. It must not determine what is started, contacted, read or written
//! outside the storage directory.

use std::path::{Path, PathBuf};

use strata_base::advice::Advice;
use strata_manifest::submission::submission_uses;
use strata_manifest::{Definition, OutwardUse, Overrides, outward_uses};
use strata_sandbox::resolve_links;
use strata_storage::{SavedDefinition, StorageLocation};

use super::submitted::SubmittedTeam;
use super::{LaunchError, Notice, ParseDefinition, parse_saved_definition};
use crate::bundle::{WORKSPACES, workspace_in};
use crate::storage_mark::{self, MarkedTeam, Recognition};

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
    "{}, so the team file that is saved in it is not used. It would:{}\nNothing of this was done",
    format_reason(path, why),
    format_uses(uses)
)]
pub struct UnrecognizedTeamFile {
    /// The storage directory.
    pub path: PathBuf,
    /// Everything outside the storage directory that running the team would use.
    pub uses: Vec<OutwardUse>,
    /// Why it is not recognized.
    pub why: UnrecognizedReason,
}

/// Why a saved team file is not recognized as this user's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnrecognizedReason {
    /// The storage directory is not known.
    Unknown,
    /// The storage directory is this user's own, but this user's host did not save this team file
    /// in it.
    OtherTeamFile,
    /// No directory can be recognized, for this reason.
    NoMarks(String),
}

fn format_reason(path: &Path, why: &UnrecognizedReason) -> String {
    let path = path.display();
    let unknown = format!("`{path}` is not known as written by your own strata-host");
    match why {
        UnrecognizedReason::Unknown => {
            format!("{unknown} (somebody else wrote it, or it was moved or copied since)")
        }
        UnrecognizedReason::OtherTeamFile => format!(
            "`{path}` was written by your own strata-host, but its saved team file was changed since, by you or by \
             somebody else"
        ),
        UnrecognizedReason::NoMarks(why) => {
            format!("{unknown} (your own directories cannot be recognized: {why})")
        }
    }
}

pub(super) fn format_uses(uses: &[OutwardUse]) -> String {
    // One line for each use. Line breaks are removed so that a value cannot imitate further lines.
    uses.iter()
        .map(|used| format!("\n  {}", used.to_string().replace('\n', " ")))
        .collect()
}

/// Reads the team file that is saved in a directory and applies the overrides of the command line.
///
/// # Errors
/// Fails with `UnrecognizedTeamFile` if the team file must not be used. None of the files that it names is
/// opened in that case.
pub(super) fn definition_from_saved(
    storage: &StorageLocation,
    saved: &SavedDefinition,
    overrides: &Overrides,
    accepted: SavedTeamFile,
) -> Result<Definition, LaunchError> {
    let workspace = workspace_in(Path::new(WORKSPACES), storage);
    let submitted = SubmittedTeam::unpack(storage, saved, workspace)?;
    let parse_saved = |parse: ParseDefinition| match &submitted {
        Some(team) => team.parse(parse),
        None => parse_saved_definition(saved, parse),
    };
    let marked = MarkedTeam {
        definition: saved,
        files: submitted.as_ref().map(|team| &team.digests),
    };
    let why = match accepted {
        SavedTeamFile::Trusted => None,
        SavedTeamFile::OwnOrHarmless => match storage_mark::recognize(storage, marked) {
            Ok(Recognition::Own) => None,
            Ok(Recognition::OtherTeamFile) => Some(UnrecognizedReason::OtherTeamFile),
            Ok(Recognition::Unknown) => Some(UnrecognizedReason::Unknown),
            Err(error) => Some(UnrecognizedReason::NoMarks(error.to_string())),
        },
    };
    if let Some(why) = why {
        let mut alone = parse_saved(Definition::parse_without_files)?;
        alone.apply_overrides(overrides)?;
        let uses = match &submitted {
            Some(team) => submission_uses(&alone, &team.files),
            None => outward_uses(&alone, storage.operand()),
        };
        if !uses.is_empty() {
            return Err(Box::new(UnrecognizedTeamFile {
                path: storage.path().to_owned(),
                uses,
                why,
            })
            .into());
        }
    }
    let mut definition = parse_saved(Definition::parse)?;
    definition.apply_overrides(overrides)?;
    Ok(definition)
}

/// Marks a storage directory as written by this user's host, with its team file if a resume would
/// depend on that.
pub(super) fn mark_as_own(
    storage: &StorageLocation,
    team: MarkedTeam<'_>,
    is_confined: bool,
    report: &mut dyn FnMut(Notice<'_>),
) {
    if is_confined {
        return mark_state_as_own(storage);
    }
    if let Err(error) = storage_mark::add_mark(storage, team) {
        report(Notice::Note(&format!(
            "it cannot be noted that this storage is your own, so a resume has to name the team file: {error}"
        )));
    }
}

/// Marks the state in a storage directory as written by this user's host: what people decided in it
/// counts from now on. Without a mark they are asked again.
pub(super) fn mark_state_as_own(storage: &StorageLocation) {
    if let Err(error) = storage_mark::add_state_mark(storage) {
        tracing::warn!("what people decide in `{storage}` will be asked again: {error}");
    }
}

/// Returns a warning if the storage is near another team file of the same name than the one it
/// uses: it was copied or moved, and the files that its team file names are still in the old place.
/// The advice is to use the other one.
pub(super) fn warn_if_moved(
    definition: &Definition,
    location: &StorageLocation,
) -> Option<(String, Advice)> {
    /// The maximum number of directory levels between the storage and a team file that belongs to
    /// it.
    const MAX_LEVELS: usize = 4;
    let (base, storage) = (
        resolve_links(&definition.source.base),
        resolve_links(&std::path::absolute(location.local_paths().first()?).ok()?),
    );
    let name = Path::new(&definition.source.name).file_name()?;
    let beside = storage
        .ancestors()
        .skip(1)
        .take(MAX_LEVELS)
        .map(|above| above.join(name))
        .find(|file| file.is_file())?;
    let own = base.join(name);
    (beside != own && !storage.starts_with(&base)).then(|| {
        let place = match location.run_name() {
            Some(_) => location.operand(),
            None => &storage,
        };
        let own = own.display();
        let warning = format!("the team goes by `{own}` and the files beside that");
        let advice = Advice::UseTeamFile {
            storage: place.to_owned(),
            team_file: beside,
        };
        (warning, advice)
    })
}
