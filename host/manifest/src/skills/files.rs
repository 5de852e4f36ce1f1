//! The files of a shelf: `components/SHA256.wasm`, with its signature beside it if it has one, and
//! for each skill `NAME@VERSION.skill`. That file contains a checksum of the rest in the first
//! line, and then the entry as JSON. Files are replaced atomically by renaming.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use strata_base::files::open;
use strata_base::files::replace::{Replacement, replace, sync_directory};
use strata_base::files::sha256::sha256;
use strata_core::record::id::{Digest, to_hex};

use super::{Skill, SkillError};
use crate::trust::signature::signature_path;

const COMPONENTS: &str = "components";
const ENTRY_SUFFIX: &str = ".skill";
const COMPONENT_SUFFIX: &str = ".wasm";
const LOCK_FILE: &str = "lock";
/// The maximum size of an entry in bytes. It contains a manifest, whose size is limited when a
/// component returns it.
const MAX_ENTRY_BYTES: u64 = 4 << 20;
/// The maximum number of entries. Listing reads each of them.
const MAX_ENTRIES: usize = 10_000;

/// Returns the path of a component.
pub(super) fn component_path(shelf: &Path, digest: &Digest) -> PathBuf {
    shelf
        .join(COMPONENTS)
        .join(format!("{digest}{COMPONENT_SUFFIX}"))
}

fn entry_path(shelf: &Path, name: &str) -> PathBuf {
    shelf.join(format!("{name}{ENTRY_SUFFIX}"))
}

/// Returns the names of all entries. A shelf that does not exist is empty.
pub(super) fn entry_names(shelf: &Path) -> Result<Vec<String>, SkillError> {
    let entries = match fs::read_dir(shelf) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => with_path(shelf, entries)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        if names.len() == MAX_ENTRIES {
            return with_path(
                shelf,
                Err(io::Error::other(format!(
                    "it holds more than {MAX_ENTRIES} skills"
                ))),
            );
        }
        let name = with_path(shelf, entry)?.file_name();
        names.extend(
            name.to_str()
                .and_then(|name| name.strip_suffix(ENTRY_SUFFIX))
                .map(str::to_owned),
        );
    }
    names.sort();
    Ok(names)
}

/// Reads an entry. Returns `None` if there is none.
pub(super) fn read_entry(shelf: &Path, name: &str) -> Result<Option<Skill>, SkillError> {
    let path = entry_path(shelf, name);
    let damaged = || SkillError::Damaged {
        name: name.into(),
        path: path.clone(),
    };
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(meta) if meta.len() > MAX_ENTRY_BYTES => return Err(damaged()),
        meta => with_path(&path, meta)?,
    };
    let bytes = with_path(&path, open::read(&path))?;
    let skill = decode_entry(&bytes).ok_or_else(damaged)?;
    // An entry whose file was renamed is damaged.
    if skill.name() == name {
        Ok(Some(skill))
    } else {
        Err(damaged())
    }
}

fn encode_entry(skill: &Skill) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec_pretty(skill)?;
    Ok([to_hex(&sha256(&body)).as_bytes(), b"\n", &body].concat())
}

fn decode_entry(bytes: &[u8]) -> Option<Skill> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (sum, body) = (&bytes[..end], &bytes[end + 1..]);
    (sum == to_hex(&sha256(body)).as_bytes()).then_some(())?;
    serde_json::from_slice(body).ok()
}

/// The exclusive right to change a shelf.
pub(super) struct ShelfWriter<'a> {
    shelf: &'a Path,
    _lock: File,
}

impl<'a> ShelfWriter<'a> {
    /// Waits until no other process changes the shelf.
    pub(super) fn lock(shelf: &'a Path) -> Result<Self, SkillError> {
        let components = shelf.join(COMPONENTS);
        with_path(
            &components,
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&components),
        )?;
        let path = shelf.join(LOCK_FILE);
        let lock = with_path(&path, File::options().create(true).append(true).open(&path))?;
        with_path(&path, lock.lock())?;
        Ok(Self { shelf, _lock: lock })
    }

    pub(super) fn put_component(&self, digest: &Digest, bytes: &[u8]) -> Result<(), SkillError> {
        self.replace_file(&component_path(self.shelf, digest), bytes)
    }

    pub(super) fn put_signature(&self, digest: &Digest, signature: &str) -> Result<(), SkillError> {
        self.replace_file(
            &signature_path(&component_path(self.shelf, digest)),
            signature.as_bytes(),
        )
    }

    pub(super) fn put_entry(&self, skill: &Skill) -> Result<(), SkillError> {
        let path = entry_path(self.shelf, &skill.name());
        let sealed = with_path(&path, encode_entry(skill))?;
        if sealed.len() as u64 > MAX_ENTRY_BYTES {
            let why = format!(
                "its manifest takes {} bytes as JSON, more than {MAX_ENTRY_BYTES}",
                sealed.len()
            );
            return Err(SkillError::Unfit(why));
        }
        self.replace_file(&path, &sealed)
    }

    /// Removes an entry. Returns whether there was one.
    pub(super) fn remove_entry(&self, name: &str) -> Result<bool, SkillError> {
        let path = entry_path(self.shelf, name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            removed => {
                with_path(&path, removed.and_then(|()| sync_directory(self.shelf))).map(|()| true)
            }
        }
    }

    /// Removes components that no entry names, including remains of additions that were
    /// interrupted. A signature is kept as long as its component.
    pub(super) fn remove_components_except(
        &self,
        used: &BTreeSet<Digest>,
    ) -> Result<(), SkillError> {
        let dir = self.shelf.join(COMPONENTS);
        let used = used.iter().map(|digest| component_path(self.shelf, digest));
        let used: BTreeSet<PathBuf> = used
            .flat_map(|path| [signature_path(&path), path])
            .collect();
        for file in with_path(&dir, fs::read_dir(&dir))? {
            let path = with_path(&dir, file)?.path();
            if !used.contains(&path) {
                with_path(&path, fs::remove_file(&path))?;
            }
        }
        Ok(())
    }

    /// Replaces a file atomically. A reader finds the old file or the new one, even after a power
    /// failure.
    fn replace_file(&self, path: &Path, bytes: &[u8]) -> Result<(), SkillError> {
        with_path(
            path,
            replace(path, Replacement::Private, |new| new.write_all(bytes)),
        )
    }
}

/// Adds the path to an I/O error.
fn with_path<T>(path: &Path, result: io::Result<T>) -> Result<T, SkillError> {
    result.map_err(|source| SkillError::File {
        path: path.to_owned(),
        source,
    })
}
