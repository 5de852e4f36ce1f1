//! The files of a submitted run on this machine, whoever runs it: its bundle, from which its team file is
//! read, and its workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strata_base::text::display_path::absolute_path;
use strata_core::machine::stepper::Stepper;
use strata_core::record::file::PathContent;
use strata_core::record::id::Digest;
use strata_core::state::environment::files::Placement;
use strata_manifest::Definition;
use strata_manifest::submission::{SubmittedFiles, move_directories, submitted_files};
use strata_sandbox::Directories;
use strata_storage::{SavedDefinition, StorageLocation};

use super::files::load_blobs;
use super::opened_team::OpenedTeam;
use super::{LaunchError, ParseDefinition, parse_saved_definition};
use crate::bundle::{
    BundleError, TEAM, copy_bundle, create_workspace, is_submitted, remove_copied_file, unpack,
    unpacked_definition,
};

/// What the directory beside a copy of a submitted run has in its name, with the files of its team. It is not in the
/// storage directory: what is there is hidden from actions.
const FILES: &str = ".files";

/// The team file of a submitted run, with its files.
pub(super) struct SubmittedTeam {
    saved: SavedDefinition,
    /// The digests of its files by path.
    pub(super) digests: BTreeMap<String, Digest>,
    pub(super) files: SubmittedFiles,
}

impl SubmittedTeam {
    /// Unpacks the files of a run. Returns `None` if it was not submitted.
    pub(super) fn unpack(
        storage: &StorageLocation,
        saved: &SavedDefinition,
        workspace: PathBuf,
    ) -> Result<Option<Self>, LaunchError> {
        if !is_submitted(saved) {
            return Ok(None);
        }
        let submission = storage.open_submission()?;
        let files = match &submission {
            Some(submission) => submission.files()?,
            None => BTreeMap::new(),
        };
        let root = unpack::<LaunchError>(&files, &mut |digest| {
            let submission = submission.as_ref();
            let submission = submission.ok_or_else(BundleError::not_submitted)?;
            Ok(submission.bytes(digest)?)
        })?;
        Ok(Some(Self {
            saved: unpacked_definition(saved, &root),
            files: SubmittedFiles { root, workspace },
            digests: files,
        }))
    }

    /// Unpacks files that are about to be submitted, with their saved team file. `fetch` returns the bytes of a file.
    pub(super) fn unpack_files(
        saved: &SavedDefinition,
        files: BTreeMap<String, Digest>,
        workspace: PathBuf,
        fetch: &mut dyn FnMut(&Digest) -> Result<Vec<u8>, LaunchError>,
    ) -> Result<Self, LaunchError> {
        let root = unpack::<LaunchError>(&files, fetch)?;
        Ok(Self {
            saved: unpacked_definition(saved, &root),
            files: SubmittedFiles { root, workspace },
            digests: files,
        })
    }

    /// Reads the team file, with the directories of its actions in the workspace.
    pub(super) fn parse(&self, parse: ParseDefinition) -> Result<Definition, LaunchError> {
        let mut definition = parse_saved_definition(&self.saved, parse)?;
        move_directories(&mut definition, &self.files.workspace);
        Ok(definition)
    }
}

/// Creates the workspace of a submitted run with the files that were in it when the run was last recorded.
/// Does nothing for another run.
pub(super) fn restore_workspace(opened: &OpenedTeam) -> Result<(), LaunchError> {
    let Some(files) = submitted_files(&opened.definition) else {
        return Ok(());
    };
    let placed = placed_files(&opened.stepper);
    let is_replaced = |path: &str| {
        let mut above = Path::new(path).ancestors().filter_map(Path::to_str);
        above.any(|path| {
            matches!(
                placed.get(path),
                Some(PathContent::File { .. } | PathContent::Absent)
            )
        })
    };
    create_workspace(&files.workspace, &files.root, &is_replaced)?;
    let blobs = load_blobs(&opened.location, &opened.stepper)?;
    let directories = Directories::single(&files.workspace);
    for (path, content) in placed {
        let bytes = content.digest().and_then(|digest| blobs.get(digest));
        // Directories that a policy grants are not part of the workspace.
        let is_elsewhere = Path::new(path).is_absolute();
        let is_missing = content.digest().is_some() && bytes.is_none();
        if is_elsewhere || is_missing || *content == PathContent::Absent {
            continue;
        }
        let placement = Placement {
            path: path.to_owned(),
            expected: PathContent::Absent,
            content: content.clone(),
        };
        directories.place(&placement, bytes.map(|bytes| &bytes[..]), |digest| {
            blobs.contains_key(digest)
        })?;
    }
    Ok(())
}

/// Unpacks the files of a submitted run beside where a copy of it is saved, and returns the team file that uses them
/// there. What is in its workspace lies beside the team file, as it did for whoever submitted it.
pub(super) fn unpack_beside(
    storage: &StorageLocation,
    saved: &SavedDefinition,
    to: &StorageLocation,
    stepper: &Stepper,
) -> Result<SavedDefinition, LaunchError> {
    let [directory] = &to.local_paths()[..] else {
        return Err(LaunchError::InvalidInput(format!(
            "`{to}` cannot hold the files of a submitted team; copy it into a directory or a database server"
        )));
    };
    let unpacked = SubmittedTeam::unpack(storage, saved, PathBuf::new())?;
    let unpacked = unpacked.ok_or_else(BundleError::not_submitted)?;
    let mut root = absolute_path(directory).into_os_string();
    root.push(FILES);
    let root = PathBuf::from(root);
    copy_bundle(&unpacked.files.root, &root)?;
    let blobs = load_blobs(storage, stepper)?;
    let directories = Directories::single(&root.join(TEAM));
    for (path, content) in placed_files(stepper) {
        let bytes = content.digest().and_then(|digest| blobs.get(digest));
        if Path::new(path).is_absolute() || bytes.is_none() {
            continue;
        }
        remove_copied_file(&root.join(TEAM).join(path));
        let placement = Placement {
            path: path.to_owned(),
            expected: PathContent::Absent,
            content: content.clone(),
        };
        directories.place(&placement, bytes.map(|bytes| &bytes[..]), |digest| {
            blobs.contains_key(digest)
        })?;
    }
    Ok(unpacked_definition(saved, &root))
}

/// Returns what the run believes to be at each path, before pending placements are carried out.
fn placed_files(stepper: &Stepper) -> BTreeMap<&str, &PathContent> {
    let files = &stepper.env().files;
    let intended = files.intended.iter();
    let mut placed: BTreeMap<&str, &PathContent> = intended
        .map(|(path, content)| (path.as_str(), content))
        .collect();
    for pending in files.pending.iter().rev() {
        placed.insert(&pending.path, &pending.expected);
    }
    placed
}
