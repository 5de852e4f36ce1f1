//! The part of the user's cache directory that builds use: SDKs, tools and packages, which are
//! created once per machine.
//!
//! Compiled components are in the same directory, but are managed by `sandbox`.

use strata_base::files::caches::{CacheName, LOCK_EXTENSION, PROGRAM_DIRECTORY};
use strata_base::files::user::{self, UnusableDirectory};

use super::{BuildError, with_path};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The file that marks a complete directory. It contains the path of the directory, because many
/// tools record the path at which they were installed: in a cache that was moved, they are
/// installed again.
const COMPLETE_MARKER: &str = "ready";

/// What to do if the cache cannot be written.
pub const USE_ANOTHER: &str =
    "use a directory that can be written: `export XDG_CACHE_HOME=DIRECTORY`";

/// Creates a directory in a part of the cache, unless it exists, and returns it. `name` contains a
/// digest or version of its contents, because a directory that exists under a name is not created
/// again.
///
/// `make` fills the empty directory, which already has its final path. If it fails or the process
/// is killed, the next call starts over. Concurrent callers wait.
pub fn create_once(
    part: CacheName,
    name: &str,
    make: impl FnOnce(&Path) -> Result<(), BuildError>,
) -> Result<PathBuf, BuildError> {
    create_once_at(directory_of(part)?.join(name), make)
}

/// Creates the directory at a path in a cache, as [`create_once`] does.
pub fn create_once_at(
    dir: PathBuf,
    make: impl FnOnce(&Path) -> Result<(), BuildError>,
) -> Result<PathBuf, BuildError> {
    let ready = dir.join(COMPLETE_MARKER);
    let is_ready =
        || fs::read(&ready).is_ok_and(|made_at| made_at == dir.as_os_str().as_encoded_bytes());
    if is_ready() {
        return Ok(dir);
    }
    let _lock = lock(&dir.with_added_extension(LOCK_EXTENSION))?;
    if is_ready() {
        return Ok(dir);
    }
    if dir.exists() {
        with_path(&dir, fs::remove_dir_all(&dir))?;
    }
    with_path(&dir, fs::create_dir_all(&dir))?;
    if let Err(error) = make(&dir) {
        // What was made is of no use, and may fill the disk.
        let _ = fs::remove_dir_all(&dir);
        return Err(error);
    }
    with_path(
        &ready,
        fs::write(&ready, dir.as_os_str().as_encoded_bytes()),
    )?;
    Ok(dir)
}

/// Writes files below a directory in a part of the cache and returns the directory. Files with the
/// right contents are left alone; damaged ones are replaced.
pub fn unpack(part: CacheName, name: &str, files: &[(&str, &[u8])]) -> Result<PathBuf, BuildError> {
    unpack_to(directory_of(part)?.join(name), files)
}

fn unpack_to(dir: PathBuf, files: &[(&str, &[u8])]) -> Result<PathBuf, BuildError> {
    let differs = |path: &str, content: &[u8]| {
        fs::read(dir.join(path)).map_or(true, |found| found != content)
    };
    if !files.iter().any(|(path, content)| differs(path, content)) {
        return Ok(dir);
    }
    let _lock = lock(&dir.with_added_extension(LOCK_EXTENSION))?;
    for (path, content) in files
        .iter()
        .filter(|(path, content)| differs(path, content))
    {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(&dir);
        with_path(parent, fs::create_dir_all(parent))?;
        // Renamed into place, so that concurrent readers never see a partial file.
        let unfinished = path.with_added_extension("unfinished");
        with_path(&unfinished, fs::write(&unfinished, content))?;
        with_path(&path, fs::rename(&unfinished, &path))?;
    }
    Ok(dir)
}

/// Locks a file until the returned handle is dropped. The parent directory is created if necessary.
pub fn lock(path: &Path) -> Result<File, BuildError> {
    if let Some(parent) = path.parent() {
        with_path(parent, fs::create_dir_all(parent))?;
    }
    let file = with_path(path, File::options().create(true).append(true).open(path))?;
    with_path(path, file.lock())?;
    Ok(file)
}

/// Returns the directory of a part. Its contents are executed, so nobody else may be able to write
/// to the directory of this program.
pub fn directory_of(part: CacheName) -> Result<PathBuf, BuildError> {
    let user_cache = user::cache_dir().ok_or(BuildError::NoCache)?;
    let root = user_cache.join(PROGRAM_DIRECTORY);
    match user::create_private_dir(&root) {
        Ok(()) => Ok(part.path_in(&user_cache)),
        Err(why) => Err(BuildError::Cache { dir: root, why }),
    }
}

/// Returns what to do about a cache directory that cannot be used. That it is not private says so itself.
pub fn advice_for(why: &UnusableDirectory) -> String {
    match why {
        UnusableDirectory::Io(_) => format!("; {USE_ANOTHER}"),
        UnusableDirectory::NotPrivate(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_half_way_is_made_anew_and_what_is_there_is_not() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = parent.path().join("tools-1");
        let failed = create_once_at(dir.clone(), |dir| {
            fs::write(dir.join("half"), "").expect("a file");
            Err(BuildError::NoCache)
        });
        assert!(failed.is_err());
        let result = create_once_at(dir.clone(), |dir| {
            assert!(!dir.join("half").exists());
            with_path(dir, fs::write(dir.join("whole"), ""))
        });
        assert_eq!(result.expect("it is made"), dir);
        create_once_at(dir.clone(), |_| panic!("it is there")).expect("it is there");
        let moved = parent.path().join("moved");
        fs::rename(dir, &moved).expect("it is moved");
        let result = create_once_at(moved.clone(), |dir| {
            with_path(dir, fs::write(dir.join("again"), ""))
        });
        assert!(result.is_ok() && moved.join("again").exists() && !moved.join("whole").exists());
    }

    #[test]
    fn a_damaged_file_is_replaced() {
        let parent = tempfile::tempdir().expect("a directory");
        let files: [(&str, &[u8]); 2] = [("a", b"1"), ("b/c", b"2")];
        for damage in ["", "x"] {
            let dir = unpack_to(parent.path().join("sdk"), &files).expect("it is unpacked");
            assert_eq!(fs::read(dir.join("b/c")).expect("a file"), b"2");
            fs::write(dir.join("b/c"), damage).expect("a file");
        }
    }
}
