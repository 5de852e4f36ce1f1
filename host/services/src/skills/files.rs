//! The files of a skill, read as a whole: what a model is given is what the digest covers, whatever
//! happens to the directory meanwhile.
//!
//! Files are opened below the directory's handle, one part of the path after another, without following
//! links. A link is resolved here, and only within the directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};
use serde_json::json;
use strata_base::files::blob::digest_of;
use strata_base::files::open;
use strata_core::record::id::Digest;

/// The maximum number of files of a skill.
pub const MAX_FILES: usize = 1000;
/// The maximum size of all files of a skill in bytes.
pub const MAX_BYTES: u64 = 16 << 20;
/// How deeply directories may be nested.
const MAX_DEPTH: usize = 16;
/// How many links may follow each other.
const MAX_LINKS: usize = 8;
/// The directory of a version control system, which is not part of a skill.
const IGNORED_DIRECTORY: &str = ".git";

/// The files of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillFiles {
    files: BTreeMap<String, SkillFile>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillFile {
    /// Its bytes.
    Content(Vec<u8>),
    /// It is a link that leads out of the directory.
    LeadsOut,
}

/// Why the files of a skill cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SkillFilesError {
    /// The directory cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Unreadable {
        /// The path in the skill.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// There are too many files.
    #[error("the skill has more than {MAX_FILES} files")]
    TooMany,
    /// The files are too large.
    #[error("the files of the skill have more than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    /// The directories are nested too deeply.
    #[error("the directories of the skill are nested more than {MAX_DEPTH} deep")]
    TooDeep,
}

/// Why a path names no file of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// It leads out of the directory.
    LeadsOut,
    /// There is no such file.
    Missing,
}

impl SkillFiles {
    /// Reads all files below a directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be read, and if it is larger than a skill may be.
    pub fn read(directory: &Path) -> Result<Self, SkillFilesError> {
        let root = File::open(directory).map_err(|source| unreadable("", source))?;
        let mut reading = Reading {
            root,
            files: BTreeMap::new(),
            bytes: 0,
        };
        reading.read_directory("", 0)?;
        Ok(Self {
            files: reading.files,
        })
    }

    /// Returns the paths of the files, in order. Links that lead out are not among them.
    pub fn paths(&self) -> impl Iterator<Item = (&str, usize)> {
        self.files.iter().filter_map(|(path, file)| match file {
            SkillFile::Content(bytes) => Some((path.as_str(), bytes.len())),
            SkillFile::LeadsOut => None,
        })
    }

    /// Returns the bytes of a file, given its path in the skill.
    pub fn get(&self, path: &str) -> Result<&[u8], PathProblem> {
        let path = inside(path)?;
        match self.files.get(&path) {
            Some(SkillFile::Content(bytes)) => Ok(bytes),
            Some(SkillFile::LeadsOut) => Err(PathProblem::LeadsOut),
            None => {
                let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
                if parents.any(|parent| self.files.get(parent) == Some(&SkillFile::LeadsOut)) {
                    Err(PathProblem::LeadsOut)
                } else {
                    Err(PathProblem::Missing)
                }
            }
        }
    }

    /// Returns the digest of all paths and contents.
    pub fn digest(&self) -> Digest {
        let mut listed = Vec::new();
        for (path, file) in &self.files {
            listed.push(match file {
                SkillFile::Content(bytes) => json!([path, digest_of(bytes).0]),
                SkillFile::LeadsOut => json!([path, null]),
            });
        }
        digest_of(json!(["skill", listed]).to_string().as_bytes())
    }

    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.paths().map(|(_, bytes)| bytes as u64).sum()
    }
}

/// Returns a path that does not lead out of the directory, in its shortest form.
fn inside(path: &str) -> Result<String, PathProblem> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(PathProblem::LeadsOut);
            }
        }
    }
    Ok(parts.join("/"))
}

fn unreadable(path: &str, source: io::Error) -> SkillFilesError {
    SkillFilesError::Unreadable {
        path: path.to_owned(),
        source,
    }
}

/// The reading of a directory.
struct Reading {
    root: File,
    files: BTreeMap<String, SkillFile>,
    bytes: u64,
}

impl Reading {
    /// Reads the files in a directory, which is named by its path below the root.
    fn read_directory(&mut self, path: &str, depth: usize) -> Result<(), SkillFilesError> {
        if depth > MAX_DEPTH {
            return Err(SkillFilesError::TooDeep);
        }
        let directory = self
            .open(path, OFlags::DIRECTORY)
            .map_err(|source| unreadable(path, source))?;
        let entries = Dir::read_from(&directory).map_err(|error| unreadable(path, error.into()))?;
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(path, error.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if matches!(name.as_str(), "." | ".." | IGNORED_DIRECTORY) {
                continue;
            }
            let below = match path {
                "" => name,
                path => format!("{path}/{name}"),
            };
            let found = statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| unreadable(&below, error.into()))?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => self.read_directory(&below, depth + 1)?,
                FileType::RegularFile => {
                    let file = self.read_file(&below)?;
                    self.add(below, SkillFile::Content(file))?;
                }
                FileType::Symlink => {
                    let file = self.read_link(&below)?;
                    if let Some(file) = file {
                        self.add(below, file)?;
                    }
                }
                // Nothing can be read from others.
                _ => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, file: SkillFile) -> Result<(), SkillFilesError> {
        if self.files.len() >= MAX_FILES {
            return Err(SkillFilesError::TooMany);
        }
        self.files.insert(path, file);
        Ok(())
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>, SkillFilesError> {
        let file = self
            .open(path, OFlags::NONBLOCK)
            .map_err(|source| unreadable(path, source))?;
        let read = open::read_file_bounded(&file, MAX_BYTES - self.bytes);
        let bytes = read
            .map_err(|source| unreadable(path, source))?
            .map_err(|_| SkillFilesError::TooLarge)?;
        self.bytes += bytes.len() as u64;
        Ok(bytes)
    }

    /// Reads the file that a link leads to. Returns `None` if it leads to no file of the skill, but not out
    /// of it either.
    fn read_link(&mut self, path: &str) -> Result<Option<SkillFile>, SkillFilesError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let target = readlinkat(&self.root, path.as_str(), Vec::new());
            let target = target.map_err(|error| unreadable(&path, error.into()))?;
            let target = target.to_string_lossy().into_owned();
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let Some(resolved) = resolve(parent, &target) else {
                return Ok(Some(SkillFile::LeadsOut));
            };
            path = resolved;
            // A part of the path may be a link, too, which is not followed.
            let Ok(parent) = self.open(
                path.rsplit_once('/').map_or("", |(parent, _)| parent),
                OFlags::DIRECTORY,
            ) else {
                return Ok(Some(SkillFile::LeadsOut));
            };
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let Ok(found) = statat(&parent, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else {
                return Ok(None);
            };
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    return self
                        .read_file(&path)
                        .map(|bytes| Some(SkillFile::Content(bytes)));
                }
                FileType::Symlink => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(SkillFile::LeadsOut))
    }

    /// Opens what is at a path below the root. No part of the path may be a link.
    fn open(&self, path: &str, flags: OFlags) -> io::Result<File> {
        let mut at = self.root.try_clone()?;
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let Some((last, parents)) = parts.split_last() else {
            let own = openat(
                &at,
                ".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            return Ok(own.into());
        };
        let base = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for parent in parents {
            at = openat(&at, *parent, base | OFlags::DIRECTORY, Mode::empty())?.into();
        }
        Ok(openat(&at, *last, base | flags, Mode::empty())?.into())
    }
}

/// Returns the path below the root that a link in a directory leads to, or `None` if it leads out.
fn resolve(directory: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_of_the_directory_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let skill = dir.path().join("skill");
        fs::create_dir_all(skill.join("docs")).expect("a directory");
        fs::write(dir.path().join("secret"), "secret").expect("a file");
        fs::write(skill.join("docs/a.md"), "a").expect("a file");
        symlink("../secret", skill.join("out")).expect("a link");
        symlink(dir.path(), skill.join("outdir")).expect("a link");
        symlink("/etc/passwd", skill.join("docs/absolute")).expect("a link");
        symlink("docs/a.md", skill.join("in")).expect("a link");
        symlink("in", skill.join("twice")).expect("a link");
        symlink("outdir/secret", skill.join("by")).expect("a link");
        symlink("loop", skill.join("loop")).expect("a link");
        let files = SkillFiles::read(&skill).expect("files");
        let check = |path: &str, expected: Result<&str, PathProblem>| {
            let expected = expected.map(str::as_bytes);
            assert_eq!(files.get(path), expected, "{path}");
        };
        check("docs/a.md", Ok("a"));
        check("./docs//a.md", Ok("a"));
        check("in", Ok("a"));
        check("twice", Ok("a"));
        for path in [
            "out",
            "outdir",
            "outdir/secret",
            "docs/absolute",
            "by",
            "loop",
            "../secret",
            "/etc/passwd",
            "docs/../docs/a.md",
        ] {
            check(path, Err(PathProblem::LeadsOut));
        }
        check("b", Err(PathProblem::Missing));
        check("docs", Err(PathProblem::Missing));
        let paths: Vec<&str> = files.paths().map(|(path, _)| path).collect();
        assert_eq!(paths, ["docs/a.md", "in", "twice"]);
    }

    #[test]
    fn a_changed_file_changes_the_digest() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("a"), "1").expect("a file");
        let digest = || SkillFiles::read(dir.path()).expect("files").digest();
        let first = digest();
        assert_eq!(digest(), first);
        fs::write(dir.path().join("a"), "2").expect("a file");
        let second = digest();
        fs::rename(dir.path().join("a"), dir.path().join("b")).expect("a file");
        assert!(first != second && second != digest());
    }

    #[test]
    fn the_size_of_a_skill_is_limited() {
        let dir = tempfile::tempdir().expect("a directory");
        for index in 0..=MAX_FILES {
            fs::write(dir.path().join(index.to_string()), "").expect("a file");
        }
        assert!(matches!(
            SkillFiles::read(dir.path()),
            Err(SkillFilesError::TooMany)
        ));
        let dir = tempfile::tempdir().expect("a directory");
        let large = File::create(dir.path().join("large")).expect("a file");
        large.set_len(MAX_BYTES + 1).expect("a large file");
        assert!(matches!(
            SkillFiles::read(dir.path()),
            Err(SkillFilesError::TooLarge)
        ));
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("d/".repeat(MAX_DEPTH + 2))).expect("directories");
        assert!(matches!(
            SkillFiles::read(dir.path()),
            Err(SkillFilesError::TooDeep)
        ));
    }
}
