//! Compiled code, kept in a private directory of the user. A file is used only if it is the user's alone and its
//! checksum is right for its name; whatever is wrong with it or with the directory, the component is compiled again.
//!
//! The checksum guards against damage, and against files that were given another's name. Against intent there are only
//! the permissions: nobody else may write there.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use strata_core::id::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::user::{self, Unusable, is_private};

mod health;

pub use health::CacheHealth;

/// What each file begins with.
const MAGIC: &[u8; 7] = b"strata\0";
/// What follows: the version of the layout. A file of another is as good as none.
const LAYOUT: u8 = 3;
/// Bytes of the checksum that follows.
const SUM_BYTES: usize = 4;
/// Bytes of the number that says how long the manifest is.
const LENGTH_BYTES: usize = 4;
/// What stands before the manifest; the code follows on it.
const HEAD_BYTES: usize = MAGIC.len() + 1 + SUM_BYTES + LENGTH_BYTES;
/// All files together; what has not been used for longest goes first.
const KEPT_BYTES: u64 = 2 << 30;

/// What the files begin with whose locks are held while something is compiled. They are empty, and stay.
const LOCK: &str = "lock-";
/// How many digits of a digest say which lock is its: 256 locks, so that few components wait for another's.
const LOCK_DIGITS: usize = 2;

/// The cache, or none.
pub(in crate::sandbox) struct Cache {
    dir: Option<PathBuf>,
}

/// What is kept of one component: a file whose checksum is right.
pub(in crate::sandbox) struct Entry {
    file: Vec<u8>,
    code_at: usize,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// Another build of the host wrote it.
    Foreign,
    /// It is not what was put there.
    Damaged,
}

/// The right to compile something, which nobody else on this machine has meanwhile. Given back when it is dropped, also
/// by the end of the process.
pub(in crate::sandbox) struct Turn {
    _locked: Option<File>,
}

impl Cache {
    /// In the user's cache directory.
    pub(in crate::sandbox) fn of_user() -> Self {
        user::cache().map_or_else(Self::none, |base| Self::at(&base.join("strata-host/compiled")))
    }

    /// Nothing is kept.
    pub(in crate::sandbox) fn none() -> Self {
        Self { dir: None }
    }

    /// In this directory, if it is ours alone.
    pub(in crate::sandbox) fn at(dir: &Path) -> Self {
        let made = user::make_private(dir);
        if let Err(why @ Unusable::Shared(_)) = &made {
            tracing::warn!("compiled code is not kept in `{}`: {why}", dir.display());
        }
        Self { dir: made.is_ok().then(|| dir.to_owned()) }
    }

    /// The name under which a component is kept for an engine. Another version, setting or layout gives another name, so
    /// that builds of the host that are used in turns leave each other's files alone.
    pub(in crate::sandbox) fn key(&self, digest: &Digest, engine: &Engine) -> String {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        (env!("CARGO_PKG_VERSION"), LAYOUT).hash(&mut hasher);
        format!("{digest}-{:016x}", hasher.finish())
    }

    /// What is kept under a name, if it is undamaged.
    pub(in crate::sandbox) fn get(&self, key: &str) -> Option<Entry> {
        let path = self.dir.as_ref()?.join(key);
        let file = open(OpenOptions::new().read(true).append(true), &path).ok()?;
        let entry = Entry::check(key, read(&file).ok()?);
        if entry.as_ref().err() == Some(&Unfit::Damaged) {
            tracing::warn!("compiled code in `{}` is damaged; compiling again", path.display());
        }
        // Only for the order in which files are removed.
        let _ = file.set_modified(SystemTime::now());
        entry.ok()
    }

    /// Waits until nobody else compiles this. Where that cannot be arranged, it may be compiled twice.
    pub(in crate::sandbox) fn turn(&self, digest: &Digest) -> Turn {
        let lock = |dir: &PathBuf| {
            let name = format!("{LOCK}{}", digest.0.get(..LOCK_DIGITS).unwrap_or_default());
            let file =
                open(OpenOptions::new().read(true).write(true).create(true).truncate(false), &dir.join(name)).ok()?;
            file.lock().ok().map(|()| file)
        };
        Turn { _locked: self.dir.as_ref().and_then(lock) }
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

    fn check(key: &str, file: Vec<u8>) -> Result<Self, Unfit> {
        match file.strip_prefix(MAGIC).and_then(<[u8]>::split_first) {
            Some((&LAYOUT, rest)) => {
                let code_at = HEAD_BYTES + manifest_length(key, rest).ok_or(Unfit::Damaged)?;
                Ok(Self { file, code_at })
            }
            Some(_) => Err(Unfit::Foreign),
            None => Err(Unfit::Damaged),
        }
    }
}

/// How long the manifest is, in a file whose checksum is right for its name.
fn manifest_length(key: &str, rest: &[u8]) -> Option<usize> {
    let (sum, body) = rest.split_at_checked(SUM_BYTES)?;
    if checksum(key, &[body]) != sum {
        return None;
    }
    let (length, rest) = body.split_at_checked(LENGTH_BYTES)?;
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    (length <= rest.len()).then_some(length)
}

/// All of a file, within a directory's limit, which is a file's as well.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len().min(KEPT_BYTES);
    let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Of what is kept under a name: with the name, so that no file passes for another.
fn checksum(key: &str, parts: &[&[u8]]) -> [u8; SUM_BYTES] {
    let mut sum = crc32fast::Hasher::new();
    for part in [key.as_bytes(), &[0]].iter().chain(parts) {
        sum.update(part);
    }
    sum.finalize().to_le_bytes()
}

/// Opens a file if it is one, and ours alone. Links are not followed.
fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    const NO_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = options.mode(0o600).custom_flags(NO_LINKS).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && is_private(&meta) {
        return Ok(file);
    }
    tracing::warn!("`{}` is not used: it is not a file of yours alone", path.display());
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Writes beside and renames: a reader finds all of a file or none of it.
fn write(dir: &Path, key: &str, manifest: &[u8], code: &[u8]) -> io::Result<()> {
    let length = u32::try_from(manifest.len()).map_err(io::Error::other)?.to_le_bytes();
    let body = [length.as_slice(), manifest, code];
    let sum = checksum(key, &body);
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    for part in [MAGIC.as_slice(), &[LAYOUT], &sum].into_iter().chain(body) {
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
        // Another process may be doing the same.
        let Ok(meta) = file.metadata() else { continue };
        if file.file_name().as_encoded_bytes().starts_with(LOCK.as_bytes()) {
            continue;
        }
        files.push((meta.modified()?, meta.len(), file.path()));
    }
    files.sort();
    let mut total: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if total <= limit {
            break;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => total -= length,
        }
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
    fn a_file_of_another_layout_is_not_damaged() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::at(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let path = home.path().join("own/k");
        let mut other = fs::read(&path).unwrap();
        other[MAGIC.len()] = LAYOUT - 1;
        fs::write(&path, other).unwrap();
        assert!(cache.get("k").is_none());
        let health = cache.health();
        assert_eq!((health.files, health.foreign, health.damaged), (1, 1, 0));
        cache.put("k", b"{}", b"code");
        assert_eq!(cache.health().foreign, 0);
    }

    #[test]
    fn a_file_that_is_not_the_users_own_for_that_name_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::at(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let kept = home.path().join("own/k");
        let check = |what: &str, spoil: &dyn Fn(&Path)| {
            let path = home.path().join("own/other");
            spoil(&path);
            assert!(cache.get("other").is_none(), "{what}");
            fs::remove_file(&path).unwrap();
        };
        check("another's name", &|path| assert!(fs::copy(&kept, path).unwrap() > 0));
        check("a link", &|path| std::os::unix::fs::symlink(&kept, path).unwrap());
        check("no file", &|path| rustix::fs::mknodat(rustix::fs::CWD, path, FIFO, 0o600.into(), 0).unwrap());
        assert!(cache.get("k").is_some());
        fs::set_permissions(&kept, Permissions::from_mode(0o620)).unwrap();
        assert!(cache.get("k").is_none(), "others may write it");
    }

    const FIFO: rustix::fs::FileType = rustix::fs::FileType::Fifo;

    #[test]
    fn who_has_the_turn_has_it_alone_and_gives_it_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("own");
        let digest = Digest("ab12".into());
        let turn = Cache::at(&dir).turn(&digest);
        let file = File::open(dir.join("lock-ab")).unwrap();
        assert!(file.try_lock().is_err());
        drop(Cache::at(&dir).turn(&Digest("ac12".into())));
        drop(turn);
        file.try_lock().unwrap();
        drop(Cache::none().turn(&digest));
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
        fs::write(home.path().join("lock-00"), "").unwrap();
        prune(home.path(), 20).unwrap();
        let left = |name: &str| home.path().join(name).exists();
        assert_eq!([left("old"), left("middle"), left("new"), left("lock-00")], [false, true, true, true]);
    }
}
