//! A cache of compiled code, and of translations of scripts, in a private directory of the user. A file is used only if nobody but
//! the user can access it and its checksum matches its name; otherwise the component is compiled
//! again.
//!
//! The checksum protects against damage and against renamed files. Only the permissions of the
//! directory protect against intent: nobody else can write there.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use strata_core::record::id::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::caches::{CacheName, LOCK_PREFIX};
use crate::replace::{Replacement, replace};
use crate::user::{self, UnusableDirectory, is_private};

mod health;

pub use health::CacheHealth;

/// The last bytes of each file. The code comes first, so that it can be mapped into memory; the
/// manifest follows it.
const MAGIC: &[u8; 7] = b"strata\0";
/// The version of the file layout, which precedes the magic bytes. Files of another version are not
/// used.
const LAYOUT_VERSION: u8 = 1;
/// The size of the checksum, which precedes the version.
const CHECKSUM_BYTES: usize = 4;
/// The size of the manifest's length, which precedes the checksum.
const LENGTH_BYTES: usize = 4;
/// The size of everything after the manifest.
const TRAILER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES + 1 + MAGIC.len();
/// How much of a file is read at once.
const READ_BYTES: usize = 64 << 10;
/// The maximum size of all files. The least recently used are removed first.
const MAX_CACHE_BYTES: u64 = 2 << 30;

/// How many digits of a digest select its lock file: 256 locks, so that few components wait for the
/// lock of another.
const LOCK_DIGITS: usize = 2;

/// The cache, which may be disabled.
#[derive(Clone)]
pub(in crate::sandbox) struct CompileCache {
    dir: Option<PathBuf>,
}

/// The cached data of one component: a file whose checksum matches.
pub(in crate::sandbox) struct CacheEntry {
    path: PathBuf,
    file: File,
    code_bytes: u64,
    manifest: Vec<u8>,
}

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheDefect {
    /// Another build of the host wrote it.
    OtherLayout,
    /// It is not what was written.
    Damaged,
}

/// The exclusive right to compile a component on this machine. It is released on drop, and when the
/// process ends.
pub(in crate::sandbox) struct CompileLock {
    _locked: Option<File>,
}

impl CompileCache {
    /// Returns the cache in the user's cache directory.
    pub(in crate::sandbox) fn user_cache() -> Self {
        user::cache_dir().map_or_else(Self::disabled, |base| {
            Self::in_directory(&CacheName::Compiled.path_in(&base))
        })
    }

    /// Returns a disabled cache.
    pub(in crate::sandbox) fn disabled() -> Self {
        Self { dir: None }
    }

    /// Returns the cache in this directory, if nobody else can access it.
    pub(in crate::sandbox) fn in_directory(dir: &Path) -> Self {
        let created = user::create_private_dir(dir);
        if let Err(why @ UnusableDirectory::NotPrivate(_)) = &created {
            tracing::warn!("compiled code is not kept in `{}`: {why}", dir.display());
        }
        Self {
            dir: created.is_ok().then(|| dir.to_owned()),
        }
    }

    /// Returns the name under which a component is cached for an engine. It depends on the versions
    /// of the host and the file layout and on the engine's settings, so different builds of the
    /// host do not overwrite each other's files.
    pub(in crate::sandbox) fn key(&self, digest: &Digest, engine: &Engine) -> String {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        (env!("CARGO_PKG_VERSION"), LAYOUT_VERSION).hash(&mut hasher);
        format!("{digest}-{:016x}", hasher.finish())
    }

    /// Returns the name under which the translation of a script is cached. The digest of the script
    /// also covers its interpreter, so it depends on nothing else.
    pub(in crate::sandbox) fn translation_key(script: &Digest) -> String {
        format!("{script}-translation")
    }

    /// Returns whether there is a file with this name, damaged or not.
    pub(in crate::sandbox) fn contains(&self, key: &str) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.join(key).exists())
    }

    /// Returns the cached data with this name, if it is undamaged.
    pub(in crate::sandbox) fn get(&self, key: &str) -> Option<CacheEntry> {
        let path = self.dir.as_ref()?.join(key);
        let file = open_private(OpenOptions::new().read(true).append(true), &path).ok()?;
        // The time of last use only determines the order of removal.
        let _ = file.set_modified(SystemTime::now());
        let (code_bytes, manifest) = match verify(key, &file) {
            Ok(found) => found,
            Err(CacheDefect::OtherLayout) => return None,
            Err(CacheDefect::Damaged) => {
                tracing::warn!(
                    "compiled code in `{}` is damaged; compiling again",
                    path.display()
                );
                return None;
            }
        };
        Some(CacheEntry {
            path,
            file,
            code_bytes,
            manifest,
        })
    }

    /// Waits until nobody else compiles this component. If locking fails, it may be compiled twice.
    pub(in crate::sandbox) fn lock_for_compiling(&self, digest: &Digest) -> CompileLock {
        let lock = |dir: &PathBuf| {
            let name = format!(
                "{LOCK_PREFIX}{}",
                digest.0.get(..LOCK_DIGITS).unwrap_or_default()
            );
            let file = open_private(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false),
                &dir.join(name),
            )
            .ok()?;
            file.lock().ok().map(|()| file)
        };
        CompileLock {
            _locked: self.dir.as_ref().and_then(lock),
        }
    }

    /// Stores a component's manifest and its code as wasmtime serialises it. Failures are only
    /// logged.
    pub(in crate::sandbox) fn put(&self, key: &str, manifest: &[u8], code: &[u8]) {
        let Some(dir) = &self.dir else { return };
        if let Err(error) =
            write(dir, key, manifest, code).and_then(|()| prune(dir, MAX_CACHE_BYTES))
        {
            tracing::debug!("cannot keep compiled code in `{}`: {error}", dir.display());
        }
    }
}

impl CacheEntry {
    /// Returns the manifest.
    pub(in crate::sandbox) fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Loads the component, unless the engine rejects it. The code is mapped into memory: what is
    /// not called is not read, and processes share it. If files may not be executed, the code is
    /// read instead.
    #[allow(
        unsafe_code,
        reason = "compiled code is loaded in no other way; see the safety comments"
    )]
    pub(in crate::sandbox) fn component(&self, engine: &Engine) -> Option<Component> {
        // SAFETY: the file starts with the output of `Component::serialize`: only this module
        // writes to the directory, which belongs to this user and is closed to all others, and the
        // checksum has just been verified. The file does not change while it is mapped, because
        // files are written under another name and renamed, and removed, but never modified.
        let mapped = unsafe { Component::deserialize_file(engine, &self.path) };
        mapped.ok().or_else(|| {
            let code = self.code().ok()?;
            // SAFETY: see above.
            unsafe { Component::deserialize(engine, code) }.ok()
        })
    }

    fn code(&self) -> io::Result<Vec<u8>> {
        let mut code = vec![0; usize::try_from(self.code_bytes).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut code, 0)?;
        Ok(code)
    }
}

/// Verifies the checksum of a file for its name. Returns the size of the code, and the manifest.
fn verify(key: &str, file: &File) -> Result<(u64, Vec<u8>), CacheDefect> {
    let damaged = |_| CacheDefect::Damaged;
    let bytes = file.metadata().map_err(damaged)?.len();
    let tail = read_trailer(file, bytes)?;
    let (length, sum) = tail.split_at(LENGTH_BYTES);
    let body_bytes = bytes - TRAILER_BYTES as u64;
    if body_bytes > MAX_CACHE_BYTES
        || checksum(key, file, body_bytes, length).map_err(damaged)? != sum
    {
        return Err(CacheDefect::Damaged);
    }
    let length = u32::from_le_bytes(length.try_into().expect("it was cut to this length"));
    let code_bytes = body_bytes
        .checked_sub(length.into())
        .ok_or(CacheDefect::Damaged)?;
    let mut manifest = vec![0; length as usize];
    file.read_exact_at(&mut manifest, code_bytes)
        .map_err(damaged)?;
    Ok((code_bytes, manifest))
}

/// Reads the end of a file of the current layout: the length of the manifest, and the checksum.
fn read_trailer(
    file: &File,
    bytes: u64,
) -> Result<[u8; LENGTH_BYTES + CHECKSUM_BYTES], CacheDefect> {
    let at = bytes
        .checked_sub(TRAILER_BYTES as u64)
        .ok_or(CacheDefect::Damaged)?;
    let mut tail = [0; TRAILER_BYTES];
    file.read_exact_at(&mut tail, at)
        .map_err(|_| CacheDefect::Damaged)?;
    let (numbers, rest) = tail.split_first_chunk().ok_or(CacheDefect::Damaged)?;
    match rest.split_first() {
        Some((&LAYOUT_VERSION, magic)) if magic == MAGIC => Ok(*numbers),
        Some((_, magic)) if magic == MAGIC => Err(CacheDefect::OtherLayout),
        _ => Err(CacheDefect::Damaged),
    }
}

/// Computes the checksum of code and manifest, reading them in pieces.
fn checksum(
    key: &str,
    file: &File,
    body_bytes: u64,
    length: &[u8],
) -> io::Result<[u8; CHECKSUM_BYTES]> {
    let (mut sum, mut piece, mut at) = (start_checksum(key), vec![0; READ_BYTES], 0);
    while at < body_bytes {
        let piece = &mut piece[..READ_BYTES.min((body_bytes - at) as usize)];
        file.read_exact_at(piece, at)?;
        sum.update(piece);
        at += piece.len() as u64;
    }
    sum.update(length);
    Ok(sum.finalize().to_le_bytes())
}

/// Starts a checksum with the name, so that a renamed file does not match.
fn start_checksum(key: &str) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_bytes());
    sum.update(&[0]);
    sum
}

/// Opens a regular file that nobody else can access. Symbolic links are not followed.
fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    const NO_LINKS: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = options.mode(0o600).custom_flags(NO_LINKS).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && is_private(&meta) {
        return Ok(file);
    }
    tracing::warn!(
        "`{}` is not used: it is not a file of yours alone",
        path.display()
    );
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Writes a file under a temporary name and renames it, so that readers never see a part of it.
fn write(dir: &Path, key: &str, manifest: &[u8], code: &[u8]) -> io::Result<()> {
    let length = u32::try_from(manifest.len())
        .map_err(io::Error::other)?
        .to_le_bytes();
    let body = [code, manifest, &length];
    let mut sum = start_checksum(key);
    for part in &body {
        sum.update(part);
    }
    let sum = sum.finalize().to_le_bytes();
    let mut parts = body
        .into_iter()
        .chain([&sum, [LAYOUT_VERSION].as_slice(), MAGIC]);
    replace(&dir.join(key), Replacement::Cached, |new| {
        parts.try_for_each(|part| new.write_all(part))
    })
}

/// Removes the least recently used files until the rest is within the limit.
fn prune(dir: &Path, limit: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        // Another process may have removed it.
        let Ok(meta) = file.metadata() else { continue };
        if file
            .file_name()
            .as_encoded_bytes()
            .starts_with(LOCK_PREFIX.as_bytes())
        {
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
    use crate::golden::golden_bytes;

    #[test]
    fn what_is_put_can_be_got_and_damage_is_absence() {
        let home = tempfile::tempdir().unwrap();
        let cache = CompileCache::in_directory(&home.path().join("a/b"));
        assert!(cache.get("k").is_none());
        cache.put("k", b"{}", b"code");
        let got = cache.get("k").unwrap();
        assert_eq!(
            (got.manifest(), got.code().unwrap()),
            (b"{}".as_slice(), b"code".to_vec())
        );
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
        let cache = CompileCache::in_directory(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let path = home.path().join("own/k");
        let whole = fs::read(&path).unwrap();
        let layout_at = whole.len() - MAGIC.len() - 1;
        let later = [&whole[..layout_at], &[LAYOUT_VERSION + 1], MAGIC].concat();
        fs::write(&path, later).unwrap();
        assert!(cache.get("k").is_none());
        let health = cache.health();
        assert_eq!(
            (health.files, health.other_layout, health.damaged),
            (1, 1, 0)
        );
        cache.put("k", b"{}", b"code");
        assert_eq!(cache.health().other_layout, 0);
    }

    #[test]
    fn a_file_is_as_the_golden_file() {
        let home = tempfile::tempdir().unwrap();
        let cache = CompileCache::in_directory(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let path = home.path().join("own/k");
        let bytes = golden_bytes("compiled-component.hex", &fs::read(&path).unwrap());
        fs::write(&path, bytes).unwrap();
        let got = cache.get("k").unwrap();
        assert_eq!(got.manifest(), b"{}");
        assert_eq!(got.code().unwrap(), b"code");
    }

    #[test]
    fn a_file_that_is_not_the_users_own_for_that_name_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = CompileCache::in_directory(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let kept = home.path().join("own/k");
        let check = |what: &str, spoil: &dyn Fn(&Path)| {
            let path = home.path().join("own/other");
            spoil(&path);
            assert!(cache.get("other").is_none(), "{what}");
            fs::remove_file(&path).unwrap();
        };
        check("another's name", &|path| {
            assert!(fs::copy(&kept, path).unwrap() > 0)
        });
        check("a link", &|path| {
            std::os::unix::fs::symlink(&kept, path).unwrap()
        });
        check("no file", &|path| {
            rustix::fs::mknodat(rustix::fs::CWD, path, FIFO, 0o600.into(), 0).unwrap()
        });
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
        let turn = CompileCache::in_directory(&dir).lock_for_compiling(&digest);
        let file = File::open(dir.join("lock-ab")).unwrap();
        assert!(file.try_lock().is_err());
        drop(CompileCache::in_directory(&dir).lock_for_compiling(&Digest("ac12".into())));
        drop(turn);
        file.try_lock().unwrap();
        drop(CompileCache::disabled().lock_for_compiling(&digest));
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("open");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        let cache = CompileCache::in_directory(&dir);
        cache.put("k", b"{}", b"code");
        assert!(cache.get("k").is_none());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_is_no_directory_is_no_error() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let cache = CompileCache::in_directory(&home.path().join("file/dir"));
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
            File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(then)
                .unwrap();
        }
        fs::write(home.path().join("lock-00"), "").unwrap();
        prune(home.path(), 20).unwrap();
        let left = |name: &str| home.path().join(name).exists();
        assert_eq!(
            [left("old"), left("middle"), left("new"), left("lock-00")],
            [false, true, true, true]
        );
    }
}
