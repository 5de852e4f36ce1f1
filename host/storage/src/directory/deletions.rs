//! What is remembered of storage directories that somebody deleted: who, and when. It lies beside them, in a file with a line
//! for each.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use strata_records::deleted_run::DeletedRun;
use strata_records::error::StoreError;

use super::file;

/// The name of the file.
const FILE: &str = ".strata-deleted";
/// A longer file is none of ours.
const MAX_BYTES: u64 = 16 << 20;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The name of the directory.
    name: String,
    #[serde(flatten)]
    deleted: DeletedRun,
}

/// A directory, and the file beside it.
pub(super) struct Deletions {
    name: String,
    file: PathBuf,
}

impl Deletions {
    /// Returns what is remembered beside a directory, which need not exist. `None` if its path has no name that could be
    /// remembered.
    pub(super) fn beside(directory: &Path) -> Option<Self> {
        let path = std::fs::canonicalize(directory).or_else(|_| std::path::absolute(directory));
        let path = path.ok()?;
        Some(Self {
            name: path.file_name()?.to_str()?.to_owned(),
            file: path.parent()?.join(FILE),
        })
    }

    /// Notes who deletes the directory, and forgets who deleted others long ago.
    pub(super) fn note(&self, by: &str) -> io::Result<()> {
        let mut options = file::options();
        let options = options.read(true).append(true).create(true);
        let mut notes = options.open(&self.file)?;
        flock(&notes, FlockOperation::LockExclusive)?;
        let mut lines = read_lines(&mut notes)?;
        let known = lines.len();
        lines.retain(|line| line.deleted.at_ms >= DeletedRun::oldest_kept_ms());
        if lines.len() < known {
            notes.set_len(0)?;
        } else {
            lines.clear();
        }
        lines.push(Line {
            name: self.name.clone(),
            deleted: DeletedRun::now(by),
        });
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(&line)?;
            text.push('\n');
        }
        notes.write_all(text.as_bytes())
    }

    /// Returns who deleted the directory, if somebody did not long ago.
    fn find(&self) -> Option<DeletedRun> {
        let mut notes = file::options().read(true).open(&self.file).ok()?;
        let lines = read_lines(&mut notes).ok()?;
        let is_own = |line: &Line| line.name == self.name;
        Some(lines.into_iter().rfind(is_own)?.deleted)
    }
}

/// Returns the error for a path at which nothing is.
pub(super) fn absence(path: &Path) -> StoreError {
    let deletions = Deletions::beside(path);
    let found = deletions.and_then(|deletions| Some((deletions.find()?, deletions)));
    match found {
        Some((deleted, Deletions { name, .. })) => StoreError::NoRun {
            path: file::directory_of(path).into(),
            name,
            known: Vec::new(),
            deleted: Some(deleted),
        },
        None => StoreError::Absent { path: path.into() },
    }
}

fn read_lines(notes: &mut File) -> io::Result<Vec<Line>> {
    let meta = notes.metadata()?;
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(io::Error::other("it was not written by strata-host"));
    }
    let mut text = String::new();
    notes.rewind()?;
    notes.read_to_string(&mut text)?;
    let lines = text.lines();
    Ok(lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_deletion_of_a_directory_is_remembered_and_old_ones_are_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let find = |name: &str| Deletions::beside(&path(name)).unwrap().find();
        assert_eq!(find("desk"), None);
        let long_ago = r#"{"name":"attic","by":"Bert","ms":0}"#;
        std::fs::write(path(FILE), format!("{long_ago}\nno line of ours\n")).unwrap();
        assert_eq!(find("attic").unwrap().by, "Bert");
        for (name, by) in [("desk", "Anna"), ("shelf", "Bert"), ("desk", "Carla")] {
            Deletions::beside(&path(name)).unwrap().note(by).unwrap();
        }
        assert_eq!(find("attic"), None);
        assert_eq!(find("shelf").unwrap().by, "Bert");
        assert_eq!(find("desk").unwrap().by, "Carla");
        let text = absence(&path("desk")).to_string();
        assert!(text.contains(": Carla deleted it at "), "{text}");
        let absent = absence(&path("table"));
        assert!(matches!(absent, StoreError::Absent { .. }), "{absent:?}");
    }
}
