//! A component whose digest is known. The bytes of a file are only read if somebody needs them: most
//! components have been compiled before, and reading an interpreter takes longer than all else at
//! the start of a run.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};

use strata_base::files::blob::digest_of;
use strata_base::files::known_files::{FileState, KnownFiles};
use strata_base::files::open;
use strata_base::text::display_path::display_path;
use strata_core::record::id::Digest;
use strata_sandbox::{ComponentBytes, LoadError};
use strata_services::plugin::builtin::BuiltinComponent;

use super::UnloadableComponent;

/// A component file, or a built-in component.
pub(super) struct ComponentFile {
    /// The path, or the name of a built-in component.
    path: PathBuf,
    /// The maximum size.
    limit: u64,
    /// The state of the file when its digest was found. `None` if it is a built-in component, whose bytes
    /// are always there.
    state: Option<FileState>,
    digest: Digest,
    /// The bytes that have the digest, once they have been read.
    bytes: OnceCell<Cow<'static, [u8]>>,
}

impl ComponentFile {
    /// Finds the digest of a file of at most `limit` bytes. Reads it if the digest is not among those
    /// that are known.
    pub(super) fn open(
        path: &Path,
        limit: u64,
        known: &KnownFiles,
    ) -> Result<Self, UnloadableComponent> {
        let unreadable = |error: io::Error| {
            format!(
                "cannot read the component `{}`: {error}",
                display_path(path)
            )
        };
        let file = open::regular(path).map_err(unreadable)?;
        let state = FileState::of(&file).map_err(unreadable)?;
        let too_large = |length| {
            UnloadableComponent::from_load_error(path, &LoadError::TooLarge { length, limit })
        };
        if state.bytes() > limit {
            return Err(too_large(state.bytes()));
        }
        let (digest, bytes) = match known.find(&state) {
            Some(digest) => (digest, OnceCell::new()),
            None => {
                let read = open::read_file_bounded(&file, limit).map_err(unreadable)?;
                let bytes = read.map_err(too_large)?;
                let digest = digest_of(&bytes);
                // If the file is in the same state before and after, so it was while it was read.
                if FileState::of(&file).is_ok_and(|after| after == state) {
                    known.remember(&state, &digest);
                }
                (digest, OnceCell::from(Cow::from(bytes)))
            }
        };
        Ok(Self {
            path: path.to_owned(),
            limit,
            state: Some(state),
            digest,
            bytes,
        })
    }

    /// Returns a built-in component of at most `limit` bytes.
    pub(super) fn builtin(
        builtin: BuiltinComponent,
        limit: u64,
    ) -> Result<Self, UnloadableComponent> {
        let path = Path::new(builtin.name());
        let bytes = builtin.bytes();
        let length = bytes.len() as u64;
        if length > limit {
            let error = LoadError::TooLarge { length, limit };
            return Err(UnloadableComponent::from_load_error(path, &error));
        }
        Ok(Self {
            path: path.to_owned(),
            limit,
            state: None,
            digest: builtin.digest().clone(),
            bytes: OnceCell::from(Cow::from(bytes)),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Returns the bytes. Fails if they cannot be read or have another digest by now.
    pub(super) fn bytes(&self) -> Result<&[u8], UnloadableComponent> {
        self.read()
            .map_err(|error| UnloadableComponent::from_load_error(&self.path, &error))
    }

    /// Reads the file again. If it is in the state that it had when its digest was found, the digest is
    /// taken to be that of the bytes.
    fn read_again(&self) -> Result<Vec<u8>, LoadError> {
        let file = open::regular(&self.path).map_err(LoadError::Unreadable)?;
        let is_unchanged = || FileState::of(&file).is_ok_and(|state| Some(state) == self.state);
        let was_unchanged = is_unchanged();
        let limit = self.limit;
        let bytes = open::read_file_bounded(&file, limit)
            .map_err(LoadError::Unreadable)?
            .map_err(|length| LoadError::TooLarge { length, limit })?;
        if was_unchanged && is_unchanged() || digest_of(&bytes) == self.digest {
            Ok(bytes)
        } else {
            Err(LoadError::ChangedMeanwhile)
        }
    }
}

impl ComponentBytes for ComponentFile {
    fn size(&self) -> u64 {
        match (self.bytes.get(), &self.state) {
            (None, Some(state)) => state.bytes(),
            (bytes, _) => bytes.map_or(0, |bytes| bytes.len() as u64),
        }
    }

    fn read(&self) -> Result<&[u8], LoadError> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let bytes = self.read_again()?;
        Ok(self.bytes.get_or_init(|| Cow::from(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns a file and what is known of it, as if it had not changed for a long time.
    fn known_file(home: &Path, bytes: &[u8], digest: &Digest) -> (PathBuf, KnownFiles) {
        let path = home.join("c.wasm");
        fs::write(&path, bytes).unwrap();
        let known = KnownFiles::in_directory(&home.join("known"));
        let state = FileState::of(&fs::File::open(&path).unwrap()).unwrap();
        known.remember_at(i64::MAX, &state, digest);
        (path, known)
    }

    fn open(path: &Path, known: &KnownFiles) -> ComponentFile {
        ComponentFile::open(path, 100, known).ok().unwrap()
    }

    #[test]
    fn a_file_with_a_known_digest_is_read_when_its_bytes_are_needed() {
        let home = tempfile::tempdir().unwrap();
        let (path, known) = known_file(home.path(), b"code", &digest_of(b"code"));
        let file = open(&path, &known);
        assert!(file.bytes.get().is_none());
        assert_eq!((file.digest(), file.size()), (&digest_of(b"code"), 4));
        assert_eq!(file.read().unwrap(), b"code");
        fs::remove_file(&path).unwrap();
        assert_eq!(file.read().unwrap(), b"code", "it is read once");
    }

    #[test]
    fn an_unknown_file_is_read_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c.wasm");
        fs::write(&path, "code").unwrap();
        let file = open(&path, &KnownFiles::none());
        fs::write(&path, "other").unwrap();
        assert_eq!((file.digest(), file.size()), (&digest_of(b"code"), 4));
        assert_eq!(file.read().unwrap(), b"code");
    }

    #[test]
    fn a_file_that_changed_after_its_digest_was_found_is_not_used() {
        let check = |change: &dyn Fn(&Path), expected: Result<&[u8], &str>| {
            let home = tempfile::tempdir().unwrap();
            let (path, known) = known_file(home.path(), b"code", &digest_of(b"code"));
            let file = open(&path, &known);
            assert!(file.bytes.get().is_none());
            change(&path);
            let got = file.read().map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned));
        };
        let changed = "its file was changed while it was being loaded; try again";
        check(&|path| fs::write(path, "edoc").unwrap(), Err(changed));
        check(&|path| fs::write(path, "code").unwrap(), Ok(b"code"));
        let gone = "its file cannot be read: No such file or directory (os error 2)";
        check(&|path| fs::remove_file(path).unwrap(), Err(gone));
        let large = "the component has 101 bytes, its limit is 100 bytes";
        check(&|path| fs::write(path, [0; 101]).unwrap(), Err(large));
    }

    #[test]
    fn a_file_that_is_too_large_or_unreadable_is_refused_without_reading_it() {
        let home = tempfile::tempdir().unwrap();
        let (path, known) = known_file(home.path(), &[0; 101], &digest_of(b"code"));
        let refusal = |path: &Path| {
            ComponentFile::open(path, 100, &known)
                .err()
                .unwrap()
                .message
        };
        let message = refusal(&path);
        assert!(
            message.ends_with("the component has 101 bytes, its limit is 100 bytes"),
            "{message}"
        );
        fs::remove_file(&path).unwrap();
        let message = refusal(&path);
        assert!(
            message.starts_with("cannot read the component"),
            "{message}"
        );
    }
}
