//! The files of a saved state: which ones actions wrote, and laying them out in a directory.

use std::path::Path;

use strata_core::file::{Content, Placement};
use strata_core::stepper::Stepper;

use super::LaunchError;
use super::compare::state_at;
use super::saved::reader;
use crate::blob::Blobs;
use crate::sandbox::Directories;
use crate::store::StoreError;

/// The files of a saved state.
pub struct SavedFiles {
    /// The team and the state.
    pub stepper: Stepper,
    /// Names of files whose bytes are not kept in this storage.
    pub missing: Vec<String>,
}

/// Reads which files actions left, in a state given as `PATH` or `PATH@ID`; lays them out in a directory if one is
/// given.
pub fn files(at: &str, to: Option<&Path>) -> Result<SavedFiles, LaunchError> {
    let (path, team) = state_at(at)?;
    let stepper = team.stepper;
    let blobs = blobs(&path, &stepper)?;
    let seen = stepper.env().files.decided.iter();
    let kept = |content: &Content| {
        content
            .digest()
            .is_none_or(|digest| blobs.contains_key(digest))
    };
    let missing = seen
        .clone()
        .filter(|(_, content)| !kept(content))
        .map(|(path, _)| path.clone())
        .collect();
    if let Some(to) = to {
        let directories = Directories::apart(to);
        for (name, content) in seen.filter(|(_, content)| kept(content)) {
            // Names of what lies outside of the team's directory begin with a `/`; here all lie in one.
            let path = name.trim_start_matches('/').to_owned();
            let placement = Placement {
                path,
                expected: Content::Absent,
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

/// The bytes of the files that a state needs, as far as they are kept. A `team.json` alone has none.
pub(super) fn blobs(path: &Path, stepper: &Stepper) -> Result<Blobs, LaunchError> {
    let needed = stepper.env().file_digests();
    let mut blobs = Blobs::new();
    let reader = match reader(path) {
        Err(LaunchError::Store(StoreError::NoRecords { .. })) => return Ok(blobs),
        reader => reader?,
    };
    for digest in needed {
        if let Some(bytes) = reader.blob(&digest)? {
            blobs.insert(digest, bytes);
        }
    }
    Ok(blobs)
}
