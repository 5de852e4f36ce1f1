//! The bytes of a component: read, or built first and then read. Nothing of them is looked at but their digest.

use std::fs;
use std::path::{Path, PathBuf};

use strata_core::id::Digest;

use crate::build;
use crate::plugin::{Limit, Limits, Plugin};
use crate::sandbox::{LoadError, digest_of};
use crate::trust::lock::Locked;
use crate::trust::signature::{Keys, Untrusted};

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
    /// Reads a component of at most `limit` bytes, which is built first where it is a directory. `report` is told what
    /// takes long.
    pub(super) fn read(
        component: &Path,
        limit: u64,
        trusted: &Keys,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, Unloadable> {
        let file = if component.is_dir() {
            build::build(component, report).map_err(|error| error.to_string())?.component
        } else {
            component.to_owned()
        };
        let unreadable = |error: std::io::Error| format!("cannot read the component `{}`: {error}", file.display());
        let length = fs::metadata(&file).map_err(unreadable)?.len();
        if length > limit {
            return Err(Unloadable::of(&file, &LoadError::TooLarge { length, limit }));
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

/// A component's file and its bytes, within the limits of an action that sets none. A directory of source is built first.
pub fn read(path: &Path, report: &mut dyn FnMut(&str)) -> Result<(PathBuf, Vec<u8>), String> {
    let limit = Limits::default().component_bytes;
    let source = Source::read(path, limit, &Keys::default(), report).map_err(|error| error.message)?;
    Ok((source.file, source.bytes))
}

/// Why a file cannot be loaded.
pub(super) struct Unloadable {
    message: String,
    /// The limit that it goes beyond.
    limit: Option<Limit>,
}

impl Unloadable {
    pub(super) fn of(file: &Path, error: &LoadError) -> Self {
        let message = format!("cannot load the component `{}`: {error}", file.display());
        Self { message, limit: error.limit() }
    }

    /// The same with what to do about it, in the place of a plugin.
    pub(super) fn told(&self, plugin: &Plugin) -> String {
        match self.limit {
            Some(limit) => format!("{}; {}", self.message, plugin.advice.on(limit)),
            None => self.message.clone(),
        }
    }
}

impl From<String> for Unloadable {
    fn from(message: String) -> Self {
        Self { message, limit: None }
    }
}
