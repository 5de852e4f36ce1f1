//! The file format of a group log: batches of entries, in two halves that are used alternately,
//! and a link to the file in each directory.
//!
//! Before the halves lies a page that begins with `MAGIC`. A file that begins otherwise is not
//! ours, whatever its name is. While nothing in the log is durable, the page may hold zeros.
//!
//! A batch begins at a multiple of `PAGE_BYTES`, so that no write touches a page with data to keep.
//! It consists of its checksum (4 bytes), its length without this header (4), its generation (8),
//! and the entries. Each entry is the number of its team (8), its length (4) and its bytes. All
//! numbers are little-endian. A half holds the batches of one generation, from its beginning. A
//! batch with a wrong checksum or of another generation ends it. Generation `g` lies in half `g %
//! 2`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::storage::codec;
use crate::storage::error::StoreError;
use crate::storage::file;

/// The prefix of a link's name. The team's number follows, in hexadecimal digits.
const LINK_PREFIX: &str = "team.shared-log-";

/// The first bytes of a log.
const MAGIC: [u8; 8] = *b"STRTLOG1";

/// The size of a half. Each team syncs its own WAL once per half.
const HALF_BYTES: u64 = 32 << 20;
/// Larger entries are not worth copying: their teams sync their own WALs.
pub(super) const MAX_ENTRY_BYTES: usize = 256 << 10;
/// The maximum size of a batch, so that no team waits long for the data of others.
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

const PAGE_BYTES: usize = 4096;
const BATCH_HEADER_BYTES: usize = 16;

/// How much space is filled with zeros at once. As in the log of a database, a sync within
/// allocated space is faster.
const PREALLOCATE_BYTES: u64 = 512 << 10;

/// A log that is open for writing.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    generation: u64,
    /// The offset of the next batch in its half.
    end: u64,
    /// How many bytes have been allocated in each half.
    allocated: [u64; 2],
    /// If set, the next write waits for a message and then panics.
    #[cfg(test)]
    panic_on: Option<std::sync::mpsc::Receiver<()>>,
}

/// Adds an entry to a batch.
pub(super) fn add_entry(batch: &mut Vec<u8>, team: u64, entry: &[u8]) {
    if batch.is_empty() {
        batch.extend([0; BATCH_HEADER_BYTES]);
    }
    batch.extend(team.to_le_bytes());
    batch.extend((entry.len() as u32).to_le_bytes());
    batch.extend(entry);
}

impl LogFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        // It becomes durable with the first batch.
        file.write_all_at(&MAGIC, 0)?;
        Ok(Self {
            file,
            generation: 0,
            end: 0,
            allocated: [0; 2],
            #[cfg(test)]
            panic_on: None,
        })
    }

    /// Makes all further writes fail.
    #[cfg(test)]
    pub(super) fn forbid_writing(&mut self, path: &Path) {
        self.file = File::open(path).unwrap();
    }

    /// Makes the next write panic once a message was sent.
    #[cfg(test)]
    pub(super) fn panic_on(&mut self, message: std::sync::mpsc::Receiver<()>) {
        self.panic_on = Some(message);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns how much of the current half is used, in units of 1 / `parts`.
    pub(super) fn filled(&self, parts: u64) -> u64 {
        self.end * parts / HALF_BYTES
    }

    /// Whether a batch of this size fits into the current half.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.end + bytes.next_multiple_of(PAGE_BYTES) as u64 <= HALF_BYTES
    }

    /// Switches to the other half. Nothing in it may be needed any more.
    pub(super) fn switch_half(&mut self) {
        self.generation += 1;
        self.end = 0;
    }

    /// Writes a batch and syncs it.
    pub(super) fn write_batch(&mut self, batch: &mut Vec<u8>) -> io::Result<()> {
        #[cfg(test)]
        if let Some(message) = self.panic_on.take() {
            message.recv().unwrap();
            panic!("a write of the group log was made to panic");
        }
        let bytes = (batch.len() - BATCH_HEADER_BYTES) as u32;
        batch[8..BATCH_HEADER_BYTES].copy_from_slice(&self.generation.to_le_bytes());
        batch[4..8].copy_from_slice(&bytes.to_le_bytes());
        let sum = codec::checksum(&[], &batch[4..]);
        batch[..4].copy_from_slice(&sum.to_le_bytes());
        batch.resize(batch.len().next_multiple_of(PAGE_BYTES), 0);
        let half = self.generation as usize & 1;
        let (start, end) = (half_offset(half as u64), self.end + batch.len() as u64);
        if end > self.allocated[half] {
            let room = (end + PREALLOCATE_BYTES).min(HALF_BYTES);
            self.file
                .write_all_at(&vec![0; (room - self.end) as usize], start + self.end)?;
            self.allocated[half] = room;
        }
        self.file.write_all_at(batch, start + self.end)?;
        self.file.sync_data()?;
        self.end = end;
        Ok(())
    }
}

/// The link to a log in the directory of a team that writes to it, or did so when it was killed.
#[derive(Debug)]
pub(in crate::storage) struct LogLink {
    path: PathBuf,
    team: u64,
}

/// Returns the path of a team's link.
pub(super) fn link_path(directory: &Path, team: u64) -> PathBuf {
    directory.join(format!("{LINK_PREFIX}{team:x}"))
}

/// Whether a name is that of a link.
pub(in crate::storage) fn is_log_link(name: &str) -> bool {
    team_of_link(name).is_some()
}

fn team_of_link(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(LINK_PREFIX)?;
    // A number that is written in another way is not ours.
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|team| format!("{team:x}") == digits)
}

/// Returns the links in a directory.
pub(in crate::storage) fn log_links(directory: &Path) -> Result<Vec<LogLink>, StoreError> {
    let fail = |e| StoreError::io(directory, "open", e);
    let mut links = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some(team) = entry.file_name().to_str().and_then(team_of_link) {
            let path = entry.path();
            if !entry.file_type().map_err(fail)?.is_file() {
                return Err(StoreError::Foreign {
                    path,
                    what: "it is no regular file".into(),
                });
            }
            if !is_group_log(&path).map_err(|e| StoreError::io(&path, "read", e))? {
                return Err(StoreError::Foreign {
                    path,
                    what: "it is no log that teams share".into(),
                });
            }
            links.push(LogLink { path, team });
        }
    }
    Ok(links)
}

/// Whether a file begins like a log, or with zeros.
fn is_group_log(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    file::options()
        .read(true)
        .open(path)?
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start == MAGIC || start.iter().all(|byte| *byte == 0))
}

impl LogLink {
    /// Returns the error that the log has invalid content.
    pub(in crate::storage) fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            what,
        }
    }

    #[cfg(test)]
    pub(in crate::storage) fn path(&self) -> &Path {
        &self.path
    }

    /// Links the log into another directory as well.
    pub(in crate::storage) fn link_into(&self, directory: &Path) -> Result<(), StoreError> {
        let new = link_path(directory, self.team);
        std::fs::hard_link(&self.path, &new).map_err(|e| StoreError::io(&new, "create", e))
    }

    /// Removes the link.
    pub(in crate::storage) fn remove(&self) -> Result<(), StoreError> {
        std::fs::remove_file(&self.path).map_err(|e| StoreError::io(&self.path, "remove", e))
    }

    /// Returns the entries of the team, oldest first.
    pub(in crate::storage) fn entries(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let read = || {
            let file = file::options().read(true).open(&self.path)?;
            Ok([read_half(&file, 0)?, read_half(&file, 1)?])
        };
        let mut halves = read().map_err(|e| StoreError::io(&self.path, "read", e))?;
        halves.sort_by_key(|half| LogBatch::first(half).map(|batch| batch.generation));
        let entries = halves
            .iter()
            .flat_map(|half| read_batches(half))
            .flat_map(|batch| read_entries(batch.entries));
        Ok(entries
            .filter(|(team, _)| *team == self.team)
            .map(|(_, entry)| entry.to_vec())
            .collect())
    }
}

/// A batch that was read.
#[derive(Clone, Copy)]
struct LogBatch<'a> {
    generation: u64,
    entries: &'a [u8],
}

impl<'a> LogBatch<'a> {
    /// Returns the batch at the start of `bytes`, if it was written completely.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let entries = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let is_whole = u32::from_le_bytes(*sum)
            == codec::checksum(&[], &bytes[4..BATCH_HEADER_BYTES + entries.len()]);
        is_whole.then(|| Self {
            generation: u64::from_le_bytes(*generation),
            entries,
        })
    }

    /// Returns its size in the file, in bytes.
    fn padded_bytes(&self) -> usize {
        (BATCH_HEADER_BYTES + self.entries.len()).next_multiple_of(PAGE_BYTES)
    }
}

/// Returns the offset of a half in the file.
fn half_offset(half: u64) -> u64 {
    PAGE_BYTES as u64 + half * HALF_BYTES
}

fn read_half(mut file: &File, half: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(half_offset(half)))?;
    file.take(HALF_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the batches of a half: those of the generation that it begins with.
fn read_batches(half: &[u8]) -> impl Iterator<Item = LogBatch<'_>> {
    let mut next = LogBatch::first(half);
    let mut left = half;
    std::iter::from_fn(move || {
        let batch = next?;
        left = left.get(batch.padded_bytes()..).unwrap_or_default();
        next = LogBatch::first(left).filter(|after| after.generation == batch.generation);
        Some(batch)
    })
}

/// Returns the entries of a batch, each with the number of its team.
fn read_entries(mut left: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (team, rest) = left.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        left = rest;
        Some((u64::from_le_bytes(*team), entry))
    })
}
