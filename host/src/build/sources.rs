//! What the source of an action is, for languages whose tools do not say by themselves what is up to date: a
//! fingerprint over the files of a directory, and the place where the component lies together with the fingerprint of
//! what it was made from.

use super::{BuildError, at, cache};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use strata_core::id::hex;

/// Directories that hold what tools made and not what the action is made from. Hidden ones are left out as well.
const MADE: [&str; 6] = ["__pycache__", "build", "dist", "node_modules", "target", "venv"];
/// An action's own files. More of them means that the directory is something else, e.g. a home.
const MOST_FILES: usize = 10_000;
/// All of them together; they are read at each build. Far more than a component may hold.
const MOST_BYTES: u64 = 256 << 20;

/// A digest over the names and contents of the files in `dir`, and over `also`: whatever else the component is made
/// with.
pub fn fingerprint(dir: &Path, also: &[&str]) -> Result<String, BuildError> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    files.sort();
    let mut hasher = Sha256::new();
    let mut take = |part: &[u8]| {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    };
    also.iter().for_each(|part| take(part.as_bytes()));
    let mut bytes = 0;
    for path in files {
        let content = at(&path, fs::read(&path))?;
        bytes += content.len() as u64;
        if bytes > MOST_BYTES {
            return Err(BuildError::TooMuch { dir: dir.to_owned(), limit: "256 MiB" });
        }
        take(path.strip_prefix(dir).unwrap_or(&path).as_os_str().as_encoded_bytes());
        take(&content);
    }
    Ok(hex(&hasher.finalize()))
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in at(&next, fs::read_dir(&next))? {
            let entry = at(&next, entry)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // What a link leads to is followed for files only: a directory may lead in a circle.
            let kind = at(&entry.path(), entry.file_type())?;
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                if !MADE.contains(&name.as_ref()) {
                    open.push(entry.path());
                }
            } else if kind.is_file() || entry.path().is_file() {
                files.push(entry.path());
            }
            if files.len() > MOST_FILES {
                return Err(BuildError::TooMuch { dir: dir.to_owned(), limit: "10000 files" });
            }
        }
    }
    Ok(())
}

/// Where an action's component lies. No other build of the same action goes on while one has it.
#[derive(Debug)]
pub struct Place {
    component: PathBuf,
    _lock: File,
}

impl Place {
    /// The place of an action's component: below `target`, as in the other languages.
    pub fn of(dir: &Path, name: &str) -> Result<Self, BuildError> {
        let base = dir.join("target").join("guest");
        let lock = cache::lock(&base.join(name).with_added_extension("lock"))?;
        Ok(Self { component: base.join(name).with_added_extension("wasm"), _lock: lock })
    }

    /// The component, if it was made from this.
    pub fn made_from(&self, fingerprint: &str) -> Option<PathBuf> {
        let found = fs::read_to_string(self.record()).is_ok_and(|found| found == fingerprint);
        (found && self.component.is_file()).then(|| self.component.clone())
    }

    /// A name in the same directory for a tool to write to.
    pub fn unfinished(&self) -> PathBuf {
        self.component.with_extension("unfinished")
    }

    /// Takes the file at [`unfinished`](Self::unfinished) as the component that was made from this.
    pub fn keep(&self, fingerprint: &str) -> Result<PathBuf, BuildError> {
        let unfinished = self.unfinished();
        // The record goes first and comes last: a component never stands beside a record of something else.
        match fs::remove_file(self.record()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => at(&self.record(), Err(error))?,
            _ => {}
        }
        at(&unfinished, File::open(&unfinished).and_then(|file| file.sync_all()))?;
        at(&self.component, fs::rename(&unfinished, &self.component))?;
        at(&self.record(), fs::write(self.record(), fingerprint))?;
        Ok(self.component.clone())
    }

    fn record(&self) -> PathBuf {
        self.component.with_extension("made-from")
    }
}
