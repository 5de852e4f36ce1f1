//! The bytes of a component: read, or built first and then read. Nothing of them is looked at but their digest.

use std::fs;
use std::path::{Path, PathBuf};

use strata_core::id::Digest;

use crate::build;
use crate::sandbox::digest_of;
use crate::trust::lock::Locked;
use crate::trust::signature::{Keys, Untrusted};

/// The largest component that is loaded; the largest real ones (interpreters) have about 30 MB.
const MAX_COMPONENT_BYTES: u64 = 256 << 20;

/// What a team file names as a component.
pub(super) struct Source {
    /// The file; that of the built component, where the team file names a directory.
    pub(super) file: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    /// Whether a trusted key has signed it.
    pub(super) signed: Result<(), Box<Untrusted>>,
}

impl Source {
    /// Reads a component, which is built first where it is a directory. `report` is told what takes long.
    pub(super) fn read(component: &Path, trusted: &Keys, report: &mut dyn FnMut(&str)) -> Result<Self, String> {
        let file = if component.is_dir() {
            build::build(component, report).map_err(|error| error.to_string())?.component
        } else {
            component.to_owned()
        };
        let unreadable = |error: std::io::Error| format!("cannot read the component `{}`: {error}", file.display());
        let length = fs::metadata(&file).map_err(unreadable)?.len();
        if length > MAX_COMPONENT_BYTES {
            let file = file.display();
            return Err(format!("the component `{file}` has {length} bytes; at most {MAX_COMPONENT_BYTES} are loaded"));
        }
        let bytes = fs::read(&file).map_err(unreadable)?;
        let digest = digest_of(&bytes);
        let signed = trusted.check(&file, &bytes, &digest);
        Ok(Self { file, bytes, digest, signed })
    }

    /// As a lock has it.
    pub(super) fn locked(&self) -> Locked {
        Locked { sha256: self.digest.clone(), size: self.bytes.len() as u64 }
    }
}
