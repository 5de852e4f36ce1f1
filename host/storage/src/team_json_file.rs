//! The `team.json` of a storage directory: replaces it atomically, and notices when another program
//! changed it.
//!
//! The file is a projection of what is recorded, made by whoever drives a run. The storage only
//! remembers a note for it: what the file was when it was written last.

use std::cell::Cell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use strata_core::machine::stepper::Stepper;
use strata_records::error::StoreError;

use strata_team_json::{MAX_BYTES, min_bytes, write};

use crate::{Durability, Lease, TEAM_JSON, WriteContent, file};

/// The name of the note about the file.
const NOTE: &str = "team.json";

/// The `team.json` of a storage directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamJsonFile {
    directory: PathBuf,
}

/// What the note says.
#[derive(Debug, Default, PartialEq)]
struct KnownTeamJson {
    /// The checksum of the file before the last one was written.
    current: String,
    /// The checksum of the file that was written last.
    next: String,
    /// The change stamp of the file that was written last.
    stamp: String,
}

impl KnownTeamJson {
    /// Decodes a note. Without one, or with one that this program did not write, nothing is known.
    fn from_note(note: Option<String>) -> Self {
        let parts = note.and_then(|note| serde_json::from_str(&note).ok());
        let [current, next, stamp] = parts.unwrap_or_default();
        Self {
            current,
            next,
            stamp,
        }
    }

    fn to_note(&self) -> String {
        serde_json::json!([self.current, self.next, self.stamp]).to_string()
    }
}

impl TeamJsonFile {
    /// Refers to the file of a directory. It need not exist.
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            directory: directory.to_path_buf(),
        }
    }

    /// Returns its path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(TEAM_JSON)
    }

    /// Atomically replaces the file with the state of a team, as `write` does. A file that would exceed
    /// `MAX_BYTES` is not even begun, if that is certain.
    pub fn write_state(
        &self,
        lease: &mut dyn Lease,
        stepper: &Stepper,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let env = stepper.env();
        if min_bytes(env) > MAX_BYTES {
            return self.remove_too_large(MAX_BYTES);
        }
        let definition = lease.definition()?;
        let fill: &WriteContent<'_> = &|out| write(stepper.team(), env, &definition, out);
        self.write(lease, fill, durability)
    }

    /// Removes the file because the next one would be larger than this limit.
    fn remove_too_large(&self, limit: u64) -> Result<(), StoreError> {
        let limit = limit >> 20;
        tracing::warn!(
            "`team.json` would have more than {limit} MiB and is not written; `team.db` has everything"
        );
        let path = self.path();
        file::remove_if_exists(&path).map_err(|e| StoreError::io(&path, "remove", e))
    }

    /// Atomically replaces the file with what `fill` writes: a reader finds the old file or the new
    /// one. The replacement survives what `durability` says; the first full append to a new
    /// database also makes it survive everything.
    ///
    /// If the file would exceed `MAX_BYTES`, it is removed instead of written: it could not be read,
    /// and it takes many times the space of the database, which has everything.
    pub fn write(
        &self,
        lease: &mut dyn Lease,
        fill: &WriteContent<'_>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.write_limited(lease, MAX_BYTES, fill, durability)
    }

    /// Atomically replaces the file as `write` does, and removes it instead if it would exceed `limit`
    /// bytes.
    pub(crate) fn write_limited(
        &self,
        lease: &mut dyn Lease,
        limit: u64,
        fill: &WriteContent<'_>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let is_over = Cell::new(false);
        let bounded = |out: &mut dyn Write| {
            fill(&mut LimitedWriter {
                out,
                left: limit,
                is_over: &is_over,
            })
        };
        let prepared = match self.prepare(lease, &bounded, durability) {
            Err(_) if is_over.get() => return self.remove_too_large(limit),
            prepared => prepared?,
        };
        // Messages that are decoded only now may turn out to be damaged.
        if let Err(damage) = lease.recorded().check_loaded() {
            prepared.discard();
            return Err(damage);
        }
        match durability {
            Durability::Full => prepared.publish(),
            Durability::Process => prepared.rename_into_place(),
        }
    }

    /// Writes the next file under a temporary name, and notes what it is.
    pub(crate) fn prepare(
        &self,
        lease: &mut dyn Lease,
        fill: &WriteContent<'_>,
        durability: Durability,
    ) -> Result<file::PreparedFile, StoreError> {
        let known = KnownTeamJson::from_note(lease.note(NOTE)?);
        let new = file::prepare_file(&self.directory, TEAM_JSON, fill)?;
        let path = self.path();
        let is_next = file::change_stamp(&path).is_some_and(|stamp| stamp == known.stamp)
            || file::checksum_of_file(&path)?.as_ref() == Some(&known.next);
        // Both are noted before the rename, so that either is known after a crash.
        let current = if is_next { known.next } else { known.current };
        let known = KnownTeamJson {
            current,
            next: new.checksum.clone(),
            stamp: new.change_stamp().unwrap_or_default(),
        };
        match lease.set_note(NOTE, &known.to_note(), durability) {
            Ok(()) => Ok(new),
            Err(error) => {
                // The run may belong to another process, which uses the same temporary name.
                new.discard();
                Err(error)
            }
        }
    }

    /// Notes a file that lies beside the database already.
    pub(crate) fn remember(&self, lease: &mut dyn Lease, bytes: &[u8]) -> Result<(), StoreError> {
        let sum = file::checksum_of_bytes(bytes);
        // The file may have been replaced since it was read, so its change stamp is not known.
        let known = KnownTeamJson {
            current: sum.clone(),
            next: sum,
            stamp: String::new(),
        };
        lease.set_note(NOTE, &known.to_note(), Durability::Full)
    }

    /// Returns whether another program changed the file. `note` returns what the storage remembers
    /// under a name. A missing file does not count: it is written again at the next stop.
    pub(crate) fn differs(
        &self,
        note: impl FnOnce(&str) -> Result<Option<String>, StoreError>,
    ) -> Result<bool, StoreError> {
        let path = self.path();
        let known = KnownTeamJson::from_note(note(NOTE)?);
        if file::change_stamp(&path).is_some_and(|stamp| stamp == known.stamp) {
            return Ok(false);
        }
        let there = file::checksum_of_file(&path)?;
        Ok(there.is_some_and(|sum| ![known.current, known.next].contains(&sum)))
    }
}

/// Fails to write more than `left` bytes.
struct LimitedWriter<'a> {
    out: &'a mut dyn Write,
    left: u64,
    is_over: &'a Cell<bool>,
}

impl Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.is_over.set(true);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.out.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
