//! The parts of the user's cache: their names and directories, their sizes, and their removal. All
//! contents can be recreated: components are compiled again when needed, and tools are downloaded or
//! unpacked at the next build.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::files::user;

/// The directory of this program in the user's cache directory.
pub const PROGRAM_DIRECTORY: &str = "strata-host";
/// The prefix of the names of lock files in a directory that many entries share. Lock files are
/// empty, and they are not removed, because a waiting process has them open.
pub const LOCK_PREFIX: &str = "lock-";
/// The extension of the lock file of a single entry.
pub const LOCK_EXTENSION: &str = "lock";

/// Which part of the user's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheName {
    /// Compiled components.
    Compiled,
    /// The digests of component files.
    Digests,
    /// The files of submitted teams.
    Bundles,
    /// The SDKs of this program and of earlier ones.
    Sdk,
    /// What was installed with this program and with earlier ones, unpacked.
    Installed,
    /// Tools and packages of Python actions.
    Python,
    /// Tools of JavaScript actions.
    JavaScript,
    /// The library of C actions, and its tools.
    C,
    /// What compiles Rust actions.
    Rust,
}

/// The directory of compiled code in the part `installed`.
pub const INSTALLED_CODE: &str = "code";

impl CacheName {
    const ALL: [Self; 9] = [
        Self::Compiled,
        Self::Digests,
        Self::Bundles,
        Self::Sdk,
        Self::Installed,
        Self::Python,
        Self::JavaScript,
        Self::C,
        Self::Rust,
    ];

    /// Returns the name that commands use. It is also that of the part's directory, except for
    /// `rust`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compiled => "compiled",
            Self::Digests => "digests",
            Self::Bundles => "bundles",
            Self::Sdk => "sdk",
            Self::Installed => "installed",
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::C => "c",
            Self::Rust => "rust",
        }
    }

    /// Returns its directory in the user's cache directory.
    pub fn path_in(self, user_cache: &Path) -> PathBuf {
        match self {
            // The script that installs the tools chooses this directory. It is also used without
            // this program.
            Self::Rust => user_cache.join("strata/rust-wasm"),
            _ => user_cache.join(PROGRAM_DIRECTORY).join(self.as_str()),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Compiled => "compiled components",
            Self::Digests => "the digests of component files",
            Self::Bundles => "the files of submitted teams",
            Self::Sdk => "the SDKs of this program and of earlier ones",
            Self::Installed => "interpreters that were installed with this program, unpacked",
            Self::Python => "tools and packages of Python actions",
            Self::JavaScript => "tools of JavaScript actions",
            Self::C => "the library of C actions",
            Self::Rust => "what compiles Rust actions",
        }
    }
}

/// A part of the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CachePart {
    /// The name.
    pub name: &'static str,
    /// A description of the contents.
    pub what: &'static str,
    /// Its directory.
    pub path: PathBuf,
    /// The size of all files in it; zero if it does not exist.
    pub bytes: u64,
}

/// The result of removing a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheRemoval {
    /// The total size of the removed files.
    pub bytes: u64,
    /// Entries that another process is creating at the moment. They were not removed.
    pub in_use: Vec<PathBuf>,
}

/// Returns the parts of the user's cache, whether or not they exist. Empty if the user has no cache
/// directory.
pub fn list_parts() -> Vec<CachePart> {
    let Some(cache) = user::cache_dir() else {
        return Vec::new();
    };
    let part = |name: CacheName| {
        let path = name.path_in(&cache);
        CachePart {
            name: name.as_str(),
            what: name.description(),
            bytes: if is_own_directory(&path) {
                size_on_disk(&path)
            } else {
                0
            },
            path,
        }
    };
    CacheName::ALL.into_iter().map(part).collect()
}

/// Removes the contents of a part. Symbolic links are removed but not followed. Nothing is removed
/// if the part itself is a link.
pub fn remove_part(part: &CachePart) -> io::Result<CacheRemoval> {
    let mut removed = CacheRemoval::default();
    if !is_own_directory(&part.path) {
        return Ok(removed);
    }
    for entry in fs::read_dir(&part.path)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_lock = path.extension().is_some_and(|end| end == LOCK_EXTENSION);
        if name.starts_with(LOCK_PREFIX) || is_lock {
            continue;
        }
        // The lock is held during the removal, so that no other process begins to create the entry.
        let lock = path.with_added_extension(LOCK_EXTENSION);
        let lock_file = File::open(&lock).ok();
        if lock_file
            .as_ref()
            .is_some_and(|lock| lock.try_lock().is_err())
        {
            removed.in_use.push(path);
            continue;
        }
        let is_directory = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        let bytes = size_on_disk(&path);
        let done = if is_directory {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match done {
            // Another process removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => removed.bytes += bytes,
        }
    }
    Ok(removed)
}

/// Returns whether a path is a directory that belongs to this user, and not a link.
fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && user::is_owned_by_user(&meta))
}

/// Returns the size of a file, or of all files below a directory. Links are not followed.
fn size_on_disk(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_on_disk(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_emptied_but_for_what_is_being_made_and_what_lies_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for name in ["part/done", "part/busy", "elsewhere"] {
            fs::create_dir_all(at(name)).expect("a directory");
            fs::write(at(name).join("file"), "12345").expect("a file");
        }
        fs::write(at("part/lock-00"), "").expect("a file");
        fs::write(at("part/single"), "123").expect("a file");
        std::os::unix::fs::symlink("../elsewhere", at("part/link")).expect("a link");
        let busy = File::create(at("part/busy.lock")).expect("a file");
        busy.lock().expect("a lock");
        let part = |path: PathBuf| CachePart {
            name: "part",
            what: "",
            bytes: 0,
            path,
        };
        assert_eq!(
            remove_part(&part(at("part")))
                .expect("it is emptied")
                .in_use,
            [at("part/busy")]
        );
        for (name, is_there) in [
            ("done", false),
            ("single", false),
            ("link", false),
            ("busy/file", true),
            ("lock-00", true),
        ] {
            assert_eq!(
                at("part").join(name).symlink_metadata().is_ok(),
                is_there,
                "{name}"
            );
        }
        assert!(at("elsewhere/file").exists());
        std::os::unix::fs::symlink("elsewhere", at("linked")).expect("a link");
        assert_eq!(
            remove_part(&part(at("linked"))).expect("nothing is done"),
            CacheRemoval::default()
        );
        assert!(at("elsewhere/file").exists());
        assert_eq!(
            remove_part(&part(at("absent"))).expect("nothing is there"),
            CacheRemoval::default()
        );
    }
}
