//! Compiled code, kept in a private directory of the user. A file is used only if its checksum is right; whatever is
//! wrong with it or with the directory, the component is compiled again.
//!
//! The checksum guards against damage. Against intent there is only the directory: it belongs to the user, and nobody
//! else may write there.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use strata_core::id::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

/// What each file begins with. The digit is the version of the format.
const MAGIC: &[u8; 8] = b"strata\0\x01";
/// Bytes of the checksum that follows.
const SUM_BYTES: usize = 32;
/// Bytes of the number that says how long the manifest is.
const LENGTH_BYTES: usize = 4;
/// What stands before the manifest; the code follows on it.
const HEAD_BYTES: usize = MAGIC.len() + SUM_BYTES + LENGTH_BYTES;
/// All files together; what has not been used for longest goes first.
const KEPT_BYTES: u64 = 2 << 30;

/// The cache, or none.
pub(in crate::sandbox) struct Cache {
    dir: Option<PathBuf>,
}

/// What is kept of one component: a file whose checksum is right.
pub(in crate::sandbox) struct Entry {
    file: Vec<u8>,
    code_at: usize,
}

impl Cache {
    /// In the user's cache directory.
    pub(in crate::sandbox) fn of_user() -> Self {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        base.map_or_else(Self::none, |base| Self::at(&base.join("strata-host/compiled")))
    }

    /// Nothing is kept.
    pub(in crate::sandbox) fn none() -> Self {
        Self { dir: None }
    }

    /// In this directory, if it is ours alone.
    pub(in crate::sandbox) fn at(dir: &Path) -> Self {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        let dir = (made.is_ok() && is_private(dir)).then(|| dir.to_owned());
        Self { dir }
    }

    /// The name under which a component is kept for an engine. Another version or setting gives another name.
    pub(in crate::sandbox) fn key(&self, digest: &Digest, engine: &Engine) -> String {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        format!("{digest}-{:016x}", hasher.finish())
    }

    /// What is kept under a name, if it is undamaged.
    pub(in crate::sandbox) fn get(&self, key: &str) -> Option<Entry> {
        let path = self.dir.as_ref()?.join(key);
        let entry = Entry::check(fs::read(&path).ok()?)?;
        // Only for the order in which files are removed.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(entry)
    }

    /// Keeps a component's manifest and its code, as wasmtime serialises it, if that can be done.
    pub(in crate::sandbox) fn put(&self, key: &str, manifest: &[u8], code: &[u8]) {
        let Some(dir) = &self.dir else { return };
        if let Err(error) = write(dir, key, manifest, code).and_then(|()| prune(dir, KEPT_BYTES)) {
            tracing::debug!("cannot keep compiled code in `{}`: {error}", dir.display());
        }
    }
}

impl Entry {
    /// The manifest.
    pub(in crate::sandbox) fn manifest(&self) -> &[u8] {
        &self.file[HEAD_BYTES..self.code_at]
    }

    /// The component, unless the engine cannot use it after all.
    #[allow(unsafe_code, reason = "compiled code is loaded in no other way; see the safety comment")]
    pub(in crate::sandbox) fn component(&self, engine: &Engine) -> Option<Component> {
        // SAFETY: the bytes are what `Component::serialize` gave: only this module writes to the directory, it
        // belongs to this user and is open to nobody else, and the checksum has just been found right.
        unsafe { Component::deserialize(engine, self.code()) }.ok()
    }

    fn code(&self) -> &[u8] {
        &self.file[self.code_at..]
    }

    fn check(file: Vec<u8>) -> Option<Self> {
        let (sum, body) = file.strip_prefix(MAGIC)?.split_at_checked(SUM_BYTES)?;
        if Sha256::digest(body).as_slice() != sum {
            return None;
        }
        let (length, rest) = body.split_at_checked(LENGTH_BYTES)?;
        let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
        let code_at = (length <= rest.len()).then_some(HEAD_BYTES + length)?;
        Some(Self { file, code_at })
    }
}

/// Whether a directory is ours and nobody else's.
fn is_private(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0
    })
}

/// Writes beside and renames: a reader finds all of a file or none of it.
fn write(dir: &Path, key: &str, manifest: &[u8], code: &[u8]) -> io::Result<()> {
    let length = u32::try_from(manifest.len()).map_err(io::Error::other)?.to_le_bytes();
    let body = [length.as_slice(), manifest, code];
    let sum = body.iter().fold(Sha256::new(), |sum, part| sum.chain_update(part)).finalize();
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    for part in [MAGIC.as_slice(), &sum].into_iter().chain(body) {
        file.write_all(part)?;
    }
    file.persist(dir.join(key)).map_err(|e| e.error)?;
    Ok(())
}

/// Removes the files that were not used for longest until the rest is within the limit.
fn prune(dir: &Path, limit: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        let meta = file.metadata()?;
        files.push((meta.modified()?, meta.len(), file.path()));
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if total <= limit {
            break;
        }
        fs::remove_file(path)?;
        total -= length;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_put_can_be_got_and_damage_is_absence() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::at(&home.path().join("a/b"));
        assert!(cache.get("k").is_none());
        cache.put("k", b"{}", b"code");
        let got = cache.get("k").unwrap();
        assert_eq!((got.manifest(), got.code()), (b"{}".as_slice(), b"code".as_slice()));
        let path = home.path().join("a/b/k");
        let whole = fs::read(&path).unwrap();
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).unwrap();
            assert!(cache.get("k").is_none(), "cut at {end}");
            let mut flipped = whole.clone();
            flipped[end] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(cache.get("k").is_none(), "flipped at {end}");
        }
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("open");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        let cache = Cache::at(&dir);
        cache.put("k", b"{}", b"code");
        assert!(cache.get("k").is_none());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_is_no_directory_is_no_error() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let cache = Cache::at(&home.path().join("file/dir"));
        cache.put("k", b"{}", b"code");
        assert!(cache.get("k").is_none());
    }

    #[test]
    fn the_oldest_files_go_first() {
        let home = tempfile::tempdir().unwrap();
        for (age, name) in [(3, "old"), (2, "middle"), (1, "new")] {
            let path = home.path().join(name);
            fs::write(&path, [0; 10]).unwrap();
            let then = SystemTime::now() - std::time::Duration::from_secs(age * 60);
            File::options().append(true).open(&path).unwrap().set_modified(then).unwrap();
        }
        prune(home.path(), 20).unwrap();
        let left = |name: &str| home.path().join(name).exists();
        assert_eq!([left("old"), left("middle"), left("new")], [false, true, true]);
    }
}
