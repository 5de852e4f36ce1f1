//! A shared log as a file: batches of entries, in two halves that are used in turn, and a link to it in each directory.
//!
//! In front of the halves lies a page that begins with `MAGIC`: what begins otherwise is somebody else's, whatever its name.
//! As long as nothing in the log is durable that may be zeros.
//!
//! A batch begins at a multiple of `PAGE_BYTES`, so that no write touches a page that has something to keep: its
//! checksum (4 bytes), its length without this head (4), its generation (8), then the entries, each with the team it
//! is of (8), its length (4) and its bytes; all numbers little-endian. A half holds the batches of one generation, from
//! its beginning; what does not check, or is of another, ends it. Generation `g` lies in half `g % 2`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::store::codec;
use crate::store::error::StoreError;

/// What the name of a link begins with; the team's number follows, in hexadecimal digits.
const LINK: &str = "team.shared-log-";

/// What a log begins with.
const MAGIC: [u8; 8] = *b"STRTLOG1";

/// How much a half holds. Each team syncs its own log once in a half.
const HALF_BYTES: u64 = 32 << 20;
/// What is larger is not worth being copied: its team syncs its own log.
pub(super) const MAX_ENTRY_BYTES: usize = 256 << 10;
/// How much is written at once, so that nobody waits for long for what others write.
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

const PAGE_BYTES: usize = 4096;
const HEAD_BYTES: usize = 16;

/// How much room is made at once; as in the log of a database, a sync is quicker within room that is there.
const AHEAD_BYTES: u64 = 512 << 10;

/// A log that is written to.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    generation: u64,
    /// Where the next batch begins, in its half.
    end: u64,
    /// How much room was made in each half.
    room: [u64; 2],
}

/// Adds an entry to a batch.
pub(super) fn add(batch: &mut Vec<u8>, team: u64, entry: &[u8]) {
    if batch.is_empty() {
        batch.extend([0; HEAD_BYTES]);
    }
    batch.extend(team.to_le_bytes());
    batch.extend((entry.len() as u32).to_le_bytes());
    batch.extend(entry);
}

impl LogFile {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        // It is durable with the first batch.
        file.write_all_at(&MAGIC, 0)?;
        Ok(Self {
            file,
            generation: 0,
            end: 0,
            room: [0; 2],
        })
    }

    /// Lets all further writing fail.
    #[cfg(test)]
    pub(super) fn forbid_writing(&mut self, path: &Path) {
        self.file = File::open(path).unwrap();
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// How many parts of its half are full.
    pub(super) fn filled(&self, parts: u64) -> u64 {
        self.end * parts / HALF_BYTES
    }

    /// Whether there is room for a batch in this half.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.end + bytes.next_multiple_of(PAGE_BYTES) as u64 <= HALF_BYTES
    }

    /// Begins the other half, of which nothing is needed any more.
    pub(super) fn turn(&mut self) {
        self.generation += 1;
        self.end = 0;
    }

    /// Writes a batch, durably.
    pub(super) fn write(&mut self, batch: &mut Vec<u8>) -> io::Result<()> {
        let bytes = (batch.len() - HEAD_BYTES) as u32;
        batch[8..HEAD_BYTES].copy_from_slice(&self.generation.to_le_bytes());
        batch[4..8].copy_from_slice(&bytes.to_le_bytes());
        let sum = codec::checksum(&[], &batch[4..]);
        batch[..4].copy_from_slice(&sum.to_le_bytes());
        batch.resize(batch.len().next_multiple_of(PAGE_BYTES), 0);
        let half = self.generation as usize & 1;
        let (start, end) = (start_of(half as u64), self.end + batch.len() as u64);
        if end > self.room[half] {
            let room = (end + AHEAD_BYTES).min(HALF_BYTES);
            self.file
                .write_all_at(&vec![0; (room - self.end) as usize], start + self.end)?;
            self.room[half] = room;
        }
        self.file.write_all_at(batch, start + self.end)?;
        self.file.sync_data()?;
        self.end = end;
        Ok(())
    }
}

/// The way to a log from the directory of a team that writes to it, or did when it was cut off.
#[derive(Debug)]
pub(in crate::store) struct Link {
    path: PathBuf,
    team: u64,
}

/// Where the link of a team lies.
pub(super) fn link(directory: &Path, team: u64) -> PathBuf {
    directory.join(format!("{LINK}{team:x}"))
}

/// Whether a name is that of a link.
pub(in crate::store) fn is_link(name: &str) -> bool {
    team_of(name).is_some()
}

fn team_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(LINK)?;
    // What is no way to write a number of ours is of somebody else.
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|team| format!("{team:x}") == digits)
}

/// The links in a directory.
pub(in crate::store) fn links(directory: &Path) -> Result<Vec<Link>, StoreError> {
    let fail = |e| StoreError::io(directory, "open", e);
    let mut links = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Some(team) = entry.file_name().to_str().and_then(team_of) {
            let path = entry.path();
            if !entry.file_type().map_err(fail)?.is_file() {
                return Err(StoreError::Foreign {
                    path,
                    what: "it is no regular file".into(),
                });
            }
            if !is_log(&path).map_err(|e| StoreError::io(&path, "read", e))? {
                return Err(StoreError::Foreign {
                    path,
                    what: "it is no log that teams share".into(),
                });
            }
            links.push(Link { path, team });
        }
    }
    Ok(links)
}

/// Whether a file begins like a log, or has no beginning yet.
fn is_log(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?
        .take(MAGIC.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start == MAGIC || start.iter().all(|byte| *byte == 0))
}

impl Link {
    /// The error that there is something in it that cannot be.
    pub(in crate::store) fn corrupt(&self, what: String) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            what,
        }
    }

    /// Lets another directory have it, too.
    pub(in crate::store) fn put_into(&self, directory: &Path) -> Result<(), StoreError> {
        let new = link(directory, self.team);
        std::fs::hard_link(&self.path, &new).map_err(|e| StoreError::io(&new, "create", e))
    }

    /// Removes it.
    pub(in crate::store) fn remove(&self) -> Result<(), StoreError> {
        std::fs::remove_file(&self.path).map_err(|e| StoreError::io(&self.path, "remove", e))
    }

    /// What the log has of the team, oldest first.
    pub(in crate::store) fn entries(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let read = || {
            let file = File::open(&self.path)?;
            Ok([read_half(&file, 0)?, read_half(&file, 1)?])
        };
        let mut halves = read().map_err(|e| StoreError::io(&self.path, "read", e))?;
        halves.sort_by_key(|half| Batch::first(half).map(|batch| batch.generation));
        let entries = halves
            .iter()
            .flat_map(|half| batches(half))
            .flat_map(|batch| entries(batch.entries));
        Ok(entries
            .filter(|(team, _)| *team == self.team)
            .map(|(_, entry)| entry.to_vec())
            .collect())
    }
}

/// A batch that was read.
#[derive(Clone, Copy)]
struct Batch<'a> {
    generation: u64,
    entries: &'a [u8],
}

impl<'a> Batch<'a> {
    /// The one that bytes begin with, if it was written to its end.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let entries = rest.get(..u32::from_le_bytes(*length) as usize)?;
        let is_whole =
            u32::from_le_bytes(*sum) == codec::checksum(&[], &bytes[4..HEAD_BYTES + entries.len()]);
        is_whole.then(|| Self {
            generation: u64::from_le_bytes(*generation),
            entries,
        })
    }

    /// How many bytes it takes up.
    fn room(&self) -> usize {
        (HEAD_BYTES + self.entries.len()).next_multiple_of(PAGE_BYTES)
    }
}

/// Where a half begins.
fn start_of(half: u64) -> u64 {
    PAGE_BYTES as u64 + half * HALF_BYTES
}

fn read_half(mut file: &File, half: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start_of(half)))?;
    file.take(HALF_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The batches of a half: those of the generation that it begins with.
fn batches(half: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    let mut next = Batch::first(half);
    let mut left = half;
    std::iter::from_fn(move || {
        let batch = next?;
        left = left.get(batch.room()..).unwrap_or_default();
        next = Batch::first(left).filter(|after| after.generation == batch.generation);
        Some(batch)
    })
}

/// The entries of a batch, each behind the team it is of.
fn entries(mut left: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let (team, rest) = left.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        left = rest;
        Some((u64::from_le_bytes(*team), entry))
    })
}
