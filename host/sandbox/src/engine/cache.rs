//! A cache of compiled code, and of translations of scripts, in a private directory of the user. A
//! file is used only if nobody but the user can access it and its checksum matches its name;
//! otherwise the component is compiled again.
//!
//! The checksum protects against damage and against renamed files. Only the permissions of the
//! directory protect against intent: nobody else can write there.
//!
//! A file is verified when it is first used after it was written, again after each boot of the
//! machine, and after every change that its size or its times show (`known_files`). So a file of
//! which a loss of power has left a part, and one that was edited, are found. What is not found until the
//! next boot is damage of the disk in a file that was verified before, as long as nobody writes to
//! the file: its code is mapped, and the system reads a page again after it has dropped it from
//! memory, so verifying the file at each use would not find all of that either. `doctor` verifies
//! every file.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use strata_core::record::id::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;

use strata_base::files::caches::{CacheName, INSTALLED_CODE, LOCK_PREFIX};
use strata_base::files::known_files::{FileState, KnownFiles};
use strata_base::files::process_cache;
use strata_base::files::user::{self, UnusableDirectory, is_private};
use strata_base::process::boot;

mod health;
mod layout;

pub use health::CacheHealth;
use layout::{CacheDefect, CacheFileParts, LAYOUT_VERSION, MAX_CACHE_BYTES, write};

/// The subdirectory in which verified files are remembered.
const VERIFIED: &str = "verified";
/// How old the time of last use may get. Setting it changes the file's state, so the file is verified
/// once more.
const USE_PRECISION: Duration = Duration::from_secs(24 * 60 * 60);

/// How many digits of a digest select its lock file: 256 locks, so that few components wait for the
/// lock of another.
const LOCK_DIGITS: usize = 2;

/// The cache, which may be disabled.
#[derive(Clone)]
pub(crate) struct CompileCache {
    dir: Option<PathBuf>,
    /// The files that were verified.
    verified: KnownFiles,
    naming: KeyNaming,
    /// The directory in the user's cache of compiled code that was installed with the program. It is only read.
    installed: Option<PathBuf>,
}

/// Which code has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyNaming {
    /// Code for engines with the same settings, on a processor with the same features.
    ByEngine,
    /// Code for every processor of this architecture. The engine refuses what it cannot run.
    Portable,
}

/// What is remembered of a verified file.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Verification {
    /// The name for which its checksum was right.
    key: String,
    /// The boot of the machine. What was written before another boot may have been lost.
    boot: String,
}

/// The cached data of one component: a file whose checksum matches.
pub(crate) struct CacheEntry {
    path: PathBuf,
    file: File,
    code_bytes: u64,
    manifest: Vec<u8>,
}

/// The exclusive right to compile a component on this machine. It is released on drop, and when the
/// process ends.
pub(crate) struct CompileLock {
    _locked: Option<File>,
}

impl CompileCache {
    /// Returns the cache in the user's cache directory.
    pub(crate) fn user_cache() -> Self {
        user::cache_dir().map_or_else(Self::disabled, |base| Self {
            installed: Some(installed_code_in(&base)),
            ..Self::in_directory(&CacheName::Compiled.path_in(&base))
        })
    }

    /// Returns a cache in a directory whose code is to be installed with the program.
    pub(crate) fn portable(dir: &Path) -> Self {
        Self {
            dir: Some(dir.to_owned()),
            naming: KeyNaming::Portable,
            ..Self::disabled()
        }
    }

    /// Returns a disabled cache.
    pub(crate) fn disabled() -> Self {
        Self {
            dir: None,
            verified: KnownFiles::none(),
            naming: KeyNaming::ByEngine,
            installed: None,
        }
    }

    /// Returns the cache in this directory, if nobody else can access it.
    pub(crate) fn in_directory(dir: &Path) -> Self {
        let created = user::create_private_dir(dir);
        if let Err(why @ UnusableDirectory::NotPrivate(_)) = &created {
            tracing::warn!("compiled code is not kept in `{}`: {why}", dir.display());
        }
        match created {
            Ok(()) => Self {
                dir: Some(dir.to_owned()),
                verified: KnownFiles::in_directory(&dir.join(VERIFIED)),
                ..Self::disabled()
            },
            Err(_) => Self::disabled(),
        }
    }

    /// Returns the name under which a component is cached for an engine. It depends on the versions
    /// of the host and the file layout and on the engine's settings, so different builds of the
    /// host do not overwrite each other's files.
    pub(crate) fn key(&self, digest: &Digest, engine: &Engine) -> String {
        if self.naming == KeyNaming::Portable {
            return portable_key(digest);
        }
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        (env!("CARGO_PKG_VERSION"), LAYOUT_VERSION).hash(&mut hasher);
        format!("{digest}-{:016x}", hasher.finish())
    }

    /// Returns whether code of a component is installed with the program.
    pub(crate) fn has_installed(&self, digest: &Digest) -> bool {
        self.installed_path(&portable_key(digest)).is_some()
    }

    /// Returns the code of a component that is installed with the program, if it is undamaged.
    pub(crate) fn get_installed(&self, digest: &Digest) -> Option<CacheEntry> {
        let key = portable_key(digest);
        let path = self.installed_path(&key)?;
        let file = open_private(OpenOptions::new().read(true), &path).ok()?;
        self.entry(&key, path, file)
    }

    /// Returns the path of installed code in the user's cache or, if it could not be unpacked there, in
    /// that of this process.
    fn installed_path(&self, key: &str) -> Option<PathBuf> {
        let own = || Some(installed_code_in(&process_cache::existing()?));
        let at = |dir: PathBuf| Some(dir.join(key)).filter(|path| path.exists());
        self.installed
            .clone()
            .and_then(at)
            .or_else(|| own().and_then(at))
    }

    /// Returns whether what is put is kept for later processes.
    pub(crate) fn is_enabled(&self) -> bool {
        self.dir.is_some()
    }

    /// Returns the name under which the translation of a script is cached. The digest of the script
    /// also covers its interpreter, so it depends on nothing else.
    pub(crate) fn translation_key(script: &Digest) -> String {
        format!("{script}-translation")
    }

    /// Returns the name under which the description of a script is cached.
    pub(crate) fn description_key(script: &Digest) -> String {
        format!("{script}-description")
    }

    /// Returns whether there is a file with this name, damaged or not.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.join(key).exists())
    }

    /// Returns the cached data with this name, if it is undamaged.
    pub(crate) fn get(&self, key: &str) -> Option<CacheEntry> {
        let path = self.dir.as_ref()?.join(key);
        let file = open_private(OpenOptions::new().read(true).append(true), &path).ok()?;
        note_use(&file);
        self.entry(key, path, file)
    }

    /// Returns the cached data in a file, if it is undamaged.
    fn entry(&self, key: &str, path: PathBuf, file: File) -> Option<CacheEntry> {
        let (code_bytes, manifest) = match self.examine(key, &file) {
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

    /// Returns the size of the code in a file, and the manifest, if the file is undamaged. Verifies its
    /// checksum unless that was done before and the file has not changed since.
    fn examine(&self, key: &str, file: &File) -> Result<(u64, Vec<u8>), CacheDefect> {
        let parts = CacheFileParts::read(file)?;
        let state = FileState::of(file).map_err(|_| CacheDefect::Damaged)?;
        let verification = boot::id().map(|boot| Verification {
            key: key.to_owned(),
            boot: boot.to_owned(),
        });
        let known: Option<Verification> = self.verified.find(&state);
        if verification.is_none() || known != verification {
            parts.verify(key, file)?;
            if FileState::of(file).is_ok_and(|after| after == state)
                && let Some(verification) = verification
            {
                self.verified.remember(&state, verification);
            }
        }
        parts.read_manifest(file)
    }

    /// Waits until nobody else compiles this component. If locking fails, it may be compiled twice.
    pub(crate) fn lock_for_compiling(&self, digest: &Digest) -> CompileLock {
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
    pub(crate) fn put(&self, key: &str, manifest: &[u8], code: &[u8]) {
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
    pub(crate) fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Loads the component, unless the engine rejects it. The code is mapped into memory: what is
    /// not called is not read, and processes share it. If files may not be executed, the code is
    /// read instead.
    #[allow(
        unsafe_code,
        reason = "compiled code is loaded in no other way; see the safety comments"
    )]
    pub(crate) fn component(&self, engine: &Engine) -> Option<Component> {
        // SAFETY: the file starts with the output of `Component::serialize`: only this module
        // writes to the directory, which belongs to this user and is closed to all others, and the
        // checksum was verified, and the file has not changed since. It does not change while it
        // is mapped, because files are written under another name and renamed, and removed, but
        // never modified. Installed code was written by this module, too, and unpacked in the same way
        // into a directory of the same kind. It comes from where the program comes from.
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

/// Returns the directory of installed code in a cache directory.
fn installed_code_in(base: &Path) -> PathBuf {
    CacheName::Installed.path_in(base).join(INSTALLED_CODE)
}

/// Returns the name of the code that runs on every processor of this architecture.
pub(crate) fn portable_key(digest: &Digest) -> String {
    format!("{digest}-portable")
}

/// Sets the time of last use, which only determines the order of removal.
fn note_use(file: &File) {
    let last = file.metadata().and_then(|meta| meta.modified());
    let is_recent = last.is_ok_and(|last| last.elapsed().is_ok_and(|age| age < USE_PRECISION));
    if !is_recent {
        let _ = file.set_modified(SystemTime::now());
    }
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

/// Removes the least recently used files until the rest is within the limit.
fn prune(dir: &Path, limit: u64) -> io::Result<()> {
    let mut files = Vec::new();
    for file in fs::read_dir(dir)? {
        let file = file?;
        // Another process may have removed it.
        let Ok(meta) = file.metadata() else { continue };
        let is_lock = file
            .file_name()
            .as_encoded_bytes()
            .starts_with(LOCK_PREFIX.as_bytes());
        if is_lock || !meta.is_file() {
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

    use strata_base::golden::golden_bytes;

    use super::layout::MAGIC;
    use super::*;

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
    fn a_verified_file_is_verified_again_after_a_change_or_a_boot() {
        let home = tempfile::tempdir().unwrap();
        let cache = CompileCache::in_directory(&home.path().join("own"));
        cache.put("k", b"{}", b"code");
        let path = home.path().join("own/k");
        let whole = fs::read(&path).unwrap();
        let damaged = [b"edoc", &whole[4..]].concat();
        let open = || File::options().append(true).open(&path).unwrap();
        let boot = boot::id().expect("Linux has it");
        let remember = |key: &str, boot: &str| {
            let state = FileState::of(&open()).unwrap();
            let (key, boot) = (key.to_owned(), boot.to_owned());
            let verification = Verification { key, boot };
            cache.verified.remember_at(i64::MAX, &state, verification);
        };
        let changes: [&dyn Fn(); 3] = [
            &|| fs::write(&path, &damaged).unwrap(),
            &|| open().set_modified(SystemTime::now()).unwrap(),
            &|| {
                open()
                    .set_permissions(Permissions::from_mode(0o600))
                    .unwrap()
            },
        ];
        fs::write(&path, &damaged).unwrap();
        for change in changes {
            assert!(cache.get("k").is_none());
            remember("k", boot);
            assert!(cache.get("k").is_some(), "its checksum is not computed");
            change();
        }
        for (key, boot) in [("other", boot), ("k", "an earlier one")] {
            remember(key, boot);
            assert!(cache.get("k").is_none(), "{key}, {boot}");
        }
        cache.put("k", b"{}", b"code");
        assert_eq!(cache.health().damaged, 0);
        assert_eq!(cache.health().files, 1);
        prune(&home.path().join("own"), 0).unwrap();
        assert_eq!(cache.health().files, 0);
    }

    #[test]
    fn the_time_of_last_use_is_set_once_a_day() {
        let home = tempfile::tempdir().unwrap();
        let cache = CompileCache::in_directory(home.path().join("own").as_path());
        cache.put("k", b"{}", b"code");
        let path = home.path().join("own/k");
        let modified = || fs::metadata(&path).unwrap().modified().unwrap();
        let used_before = |age: Duration| {
            let then = SystemTime::now() - age;
            let file = File::options().append(true).open(&path).unwrap();
            file.set_modified(then).unwrap();
            let before = modified();
            assert!(cache.get("k").is_some());
            modified() != before
        };
        assert!(!used_before(USE_PRECISION / 2));
        assert!(used_before(USE_PRECISION * 2));
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
            let then = SystemTime::now() - Duration::from_secs(age * 60);
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
