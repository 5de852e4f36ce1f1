//! The files that belong to a saved state: which ones actions wrote, and extracting them into a
//! directory.

use std::path::Path;

use strata_base::files::blob::Blobs;
use strata_core::machine::stepper::Stepper;
use strata_core::record::file::PathContent;
use strata_core::state::environment::files::Placement;
use strata_sandbox::Directories;
use strata_storage::{StorageLocation, StoreError};

use super::LaunchError;
use super::compare::load_state;

/// The files that belong to a saved state.
pub struct SavedFiles {
    /// The team and the state.
    pub stepper: Stepper,
    /// The names of the files whose contents are not in this storage.
    pub missing: Vec<String>,
}

/// Returns which files actions wrote up to a state that is given as `PATH` or `PATH@ID`. Extracts
/// them into the directory `to`, if one is given.
pub fn saved_files(at: &str, to: Option<&Path>) -> Result<SavedFiles, LaunchError> {
    let (location, team) = load_state(at)?;
    let stepper = team.stepper;
    let blobs = load_blobs(&location, &stepper)?;
    let seen = stepper.env().files.intended.iter();
    let is_available = |content: &PathContent| {
        content
            .digest()
            .is_none_or(|digest| blobs.contains_key(digest))
    };
    let missing = seen
        .clone()
        .filter(|(_, content)| !is_available(content))
        .map(|(path, _)| path.clone())
        .collect();
    if let Some(to) = to {
        let directories = Directories::single(to);
        for (name, content) in seen.filter(|(_, content)| is_available(content)) {
            // The names of files outside the team's directory are absolute. Here they are all
            // extracted into one directory.
            let path = name.trim_start_matches('/').to_owned();
            let placement = Placement {
                path,
                expected: PathContent::Absent,
                content: content.clone(),
            };
            let bytes = content.digest().and_then(|digest| blobs.get(digest));
            let placed = directories.place(&placement, bytes.map(|bytes| &bytes[..]), |digest| {
                blobs.contains_key(digest)
            });
            placed?;
        }
    }
    Ok(SavedFiles { stepper, missing })
}

/// Returns the contents of the files that a state refers to, as far as the storage has them. A
/// `team.json` alone has none.
pub(super) fn load_blobs(
    location: &StorageLocation,
    stepper: &Stepper,
) -> Result<Blobs, LaunchError> {
    let needed = stepper.env().file_digests();
    let mut blobs = Blobs::new();
    let reader = match location.read() {
        Err(StoreError::NoRecords { .. }) => return Ok(blobs),
        reader => reader?,
    };
    for digest in needed {
        if let Some(bytes) = reader.blob(&digest)? {
            blobs.insert(digest, bytes);
        }
    }
    Ok(blobs)
}
