//! The user's cache directory, as far as builds use it: what is made there once per machine, and where.
//!
//! Compiled code lies in the same place; that is the sandbox's own business.

use super::{BuildError, at};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Marks a directory that was made to its end.
const READY: &str = "ready";

/// Makes a directory of the cache once per machine and returns it. `name` says what is in it, by digest or version:
/// what is there under a name is not made again.
///
/// `make` is given an empty directory in its final place, since many tools write down where they were installed.
/// Where it fails or is killed, the next one begins anew; who comes meanwhile, waits.
pub fn once(name: &str, make: impl FnOnce(&Path) -> Result<(), BuildError>) -> Result<PathBuf, BuildError> {
    let dir = root()?.join(name);
    let ready = dir.join(READY);
    if ready.is_file() {
        return Ok(dir);
    }
    let _lock = lock(&dir.with_added_extension("lock"))?;
    if ready.is_file() {
        return Ok(dir);
    }
    if dir.exists() {
        at(&dir, fs::remove_dir_all(&dir))?;
    }
    at(&dir, fs::create_dir_all(&dir))?;
    make(&dir)?;
    at(&ready, fs::write(&ready, []))?;
    Ok(dir)
}

/// Writes files below a directory of the cache and returns it. Files that are there as they should be are left alone;
/// a damaged one is replaced.
pub fn unpacked(name: &str, files: &[(&str, &[u8])]) -> Result<PathBuf, BuildError> {
    let dir = root()?.join(name);
    let differs = |path: &str, content: &[u8]| fs::read(dir.join(path)).map_or(true, |found| found != content);
    if !files.iter().any(|(path, content)| differs(path, content)) {
        return Ok(dir);
    }
    let _lock = lock(&dir.with_added_extension("lock"))?;
    for (path, content) in files.iter().filter(|(path, content)| differs(path, content)) {
        let path = dir.join(path);
        let parent = path.parent().unwrap_or(&dir);
        at(parent, fs::create_dir_all(parent))?;
        // Whoever reads meanwhile sees a whole file.
        let unfinished = path.with_added_extension("unfinished");
        at(&unfinished, fs::write(&unfinished, content))?;
        at(&path, fs::rename(&unfinished, &path))?;
    }
    Ok(dir)
}

/// Holds a lock until it is dropped. The directory of its file is created.
pub fn lock(path: &Path) -> Result<File, BuildError> {
    if let Some(parent) = path.parent() {
        at(parent, fs::create_dir_all(parent))?;
    }
    let file = at(path, File::options().create(true).append(true).open(path))?;
    at(path, file.lock())?;
    Ok(file)
}

/// The directory. What is in it is run and loaded, so nobody else may write there.
fn root() -> Result<PathBuf, BuildError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let root = base.ok_or(BuildError::NoCache)?.join("strata-host");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&root);
    at(&root, made)?;
    Ok(root)
}
