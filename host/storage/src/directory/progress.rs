//! Records how far a database got, in a file beside it. A log that was damaged, emptied or removed
//! does not reveal that it held more, so whoever opens the database compares it with this record.
//!
//! The file is written after each change but not synced, so that a change costs no more. It is
//! exact after the end of a process, however abrupt. After a loss of power it may be older than the
//! database, but then only what was synced is required. While the file is needed, the database says
//! so, too (`log.expected`): a copy without the file is refused, unless the log was copied as well
//! or was moved into the database. The file is removed with the log.

use std::cell::{Cell, OnceCell};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use strata_base::process::boot;
use strata_records::error::StoreError;

use crate::directory::names::SideFile;
use crate::file;
use crate::sqlite::rows::{SqliteReader, count_changes};

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"STRTPRG1";
/// The size of the file: the magic bytes, the boot id, two numbers, and a CRC-32 of all these.
const FILE_BYTES: usize = 64;
/// The length of the id that Linux gives to a boot.
const BOOT_ID_BYTES: usize = 36;

/// How often a reader retries if a process writes while it reads.
const MAX_READS: usize = 8;

/// The id of a boot of the machine; zeros if it has none.
type BootId = [u8; BOOT_ID_BYTES];

/// How many changes were recorded: events of all lineages, and other changes that must not be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteProgress {
    /// The boot during which this was written. While it lasts, everything that was written is
    /// present.
    boot: BootId,
    /// How many changes were written.
    pub(crate) written: u64,
    /// How many of them survive a loss of power.
    pub(crate) synced: u64,
}

impl WriteProgress {
    fn new(written: u64, synced: u64) -> Self {
        Self {
            boot: current_boot(),
            written,
            synced,
        }
    }

    /// Reads the file of a database. Returns `None` if there is none, or if it was not written
    /// completely.
    pub(crate) fn read(database: &Path) -> Result<Option<Self>, StoreError> {
        let path = SideFile::Progress.beside(database);
        let mut bytes = Vec::new();
        let read = file::options()
            .read(true)
            .open(&path)
            .and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Self::decode(&bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(&path, "read", e)),
        }
    }

    /// Fails if changes were recorded in a database, which is not there.
    pub(crate) fn require_no_loss(database: &Path) -> Result<(), StoreError> {
        match Self::read(database)?.map_or(0, |progress| progress.required()) {
            0 => Ok(()),
            changes => {
                let what = format!("it is not there, and {changes} changes were recorded in it");
                Err(StoreError::lost(database, what))
            }
        }
    }

    /// Returns how many changes a database must have.
    pub(crate) fn required(&self) -> u64 {
        let same = self.boot == current_boot() && self.boot != [0; BOOT_ID_BYTES];
        if same { self.written } else { self.synced }
    }

    fn encode(&self) -> [u8; FILE_BYTES] {
        let mut bytes = [0; FILE_BYTES];
        let parts: [&[u8]; 4] = [
            &MAGIC,
            &self.boot,
            &self.written.to_le_bytes(),
            &self.synced.to_le_bytes(),
        ];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let sum = crc32fast::hash(&bytes[..at]).to_le_bytes();
        bytes[at..].copy_from_slice(&sum);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk::<4>()?;
        let is_whole =
            bytes.len() == FILE_BYTES && crc32fast::hash(content) == u32::from_le_bytes(*sum);
        let content = content.strip_prefix(&MAGIC).filter(|_| is_whole)?;
        let (boot, content) = content.split_first_chunk()?;
        let (written, content) = content.split_first_chunk()?;
        let (synced, _) = content.split_first_chunk()?;
        Some(Self {
            boot: *boot,
            written: u64::from_le_bytes(*written),
            synced: u64::from_le_bytes(*synced),
        })
    }
}

/// Returns the id of the current boot of this machine.
fn current_boot() -> BootId {
    let id = boot::id().unwrap_or_default().as_bytes();
    id.first_chunk().copied().unwrap_or([0; BOOT_ID_BYTES])
}

/// The file, for the process that writes the database. It is dropped after the database is closed:
/// without a log there is nothing to compare.
#[derive(Debug)]
pub(crate) struct ProgressFile {
    /// The database.
    database: PathBuf,
    /// Opened at the first change.
    file: OnceCell<File>,
    current: Cell<WriteProgress>,
    /// Whether the file on the disk says less than `now`.
    is_dirty: Cell<bool>,
}

impl ProgressFile {
    /// Creates the file for a database without changes that will be created next.
    pub(crate) fn create(database: &Path) -> Result<(), StoreError> {
        let path = SideFile::Progress.beside(database);
        file::options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&WriteProgress::new(0, 0).encode()))
            .map_err(|e| StoreError::io(&path, "create", e))
    }

    /// Returns the file of a database with `written` changes, without writing to it.
    pub(crate) fn for_database(database: &Path, written: u64) -> Result<Self, StoreError> {
        let synced = WriteProgress::read(database)?.map_or(0, |found| found.synced.min(written));
        let now = Cell::new(WriteProgress::new(written, synced));
        Ok(Self {
            database: database.into(),
            file: OnceCell::new(),
            current: now,
            is_dirty: Cell::new(false),
        })
    }

    /// Whether the file was created and is kept up to date.
    pub(crate) fn is_open(&self) -> bool {
        self.file.get().is_some()
    }

    /// Creates the file if it does not exist, and writes it.
    pub(crate) fn open(&self) -> Result<(), StoreError> {
        let path = SideFile::Progress.beside(&self.database);
        let open = || {
            let file = file::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            file.write_all_at(&self.current.get().encode(), 0)?;
            file.set_len(FILE_BYTES as u64)?;
            Ok(file)
        };
        let file = open().map_err(|e| StoreError::io(&path, "write", e))?;
        // If the file was opened before, that handle is kept.
        let _ = self.file.set(file);
        Ok(())
    }

    /// Counts changes that were committed.
    pub(crate) fn count_changes(&self, changes: u64) {
        let now = self.current.get();
        self.current.set(WriteProgress {
            written: now.written.saturating_add(changes),
            ..now
        });
        self.is_dirty.set(true);
    }

    /// Counts all changes as synced.
    pub(crate) fn mark_synced(&self) {
        let now = self.current.get();
        if now.synced != now.written {
            self.current.set(WriteProgress {
                synced: now.written,
                ..now
            });
            self.is_dirty.set(true);
        }
    }

    /// Writes the file, if its content has changed.
    pub(crate) fn flush(&self) {
        let Some(file) = self.file.get().filter(|_| self.is_dirty.get()) else {
            return;
        };
        match file.write_all_at(&self.current.get().encode(), 0) {
            Ok(()) => self.is_dirty.set(false),
            // The file still makes a true, though weaker, statement.
            Err(error) => tracing::debug!("how far the database got is not written: {error}"),
        }
    }

    /// Makes the file survive a loss of power.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.flush();
        self.file.get().map_or(Ok(()), File::sync_data)
    }
}

impl Drop for ProgressFile {
    fn drop(&mut self) {
        if !SideFile::Wal.beside(&self.database).exists() {
            // A file that cannot be removed does no harm: the database has what it requires.
            let _ = std::fs::remove_file(SideFile::Progress.beside(&self.database));
        }
    }
}

/// Returns how many changes the database has. Fails if more were recorded.
pub(crate) fn check_complete(reader: &SqliteReader) -> Result<u64, StoreError> {
    let database = &reader.rows.path;
    let mut found = Ok(0);
    for _ in 0..MAX_READS {
        // The order matters: a concurrent writer changes the database first, then the file.
        let progress = WriteProgress::read(database)?;
        let (changes, is_expected) = count_changes(reader)?;
        let log = || describe_log(database);
        found = match progress.map(|progress| progress.required()) {
            Some(required) if changes < required => Err(format!(
                "{required} changes were recorded in it, and it has {changes}: {}",
                log()
            )),
            None if is_expected => Err(format!(
                "it has {changes} changes, and what follows is not there: {}",
                log()
            )),
            _ => return Ok(changes),
        };
    }
    found.map_err(|what| StoreError::lost(&reader.rows.path, what))
}

/// Describes what is wrong with the log of an incomplete database.
pub(crate) fn describe_log(database: &Path) -> String {
    let log = SideFile::Wal.beside(database);
    let mut header = Vec::new();
    let read = file::options()
        .read(true)
        .open(&log)
        .and_then(|file| file.take(WAL_HEADER_BYTES as u64).read_to_end(&mut header));
    let what = match read {
        // SQLite creates an empty log when it looks for one.
        Ok(0) => "is missing or empty",
        Err(e) if e.kind() == ErrorKind::NotFound => "is missing or empty",
        Err(_) => "cannot be read",
        Ok(_) if !is_valid_wal_header(&header) => "has a damaged header",
        Ok(_) => "is damaged, or its end is missing",
    };
    let name = log.file_name().unwrap_or_default().to_string_lossy();
    format!("its log `{name}` {what}")
}

/// The length of a log's header.
const WAL_HEADER_BYTES: usize = 32;

/// Whether SQLite would accept this as the header of a log.
fn is_valid_wal_header(header: &[u8]) -> bool {
    const MAGIC: u32 = 0x377f_0682;
    const VERSION: u32 = 3_007_000;
    let words: Vec<[u8; 4]> = header
        .chunks_exact(4)
        .filter_map(|word| word.first_chunk().copied())
        .collect();
    let big: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    let [magic, version, _, _, _, _, sum1, sum2] = big[..] else {
        return false;
    };
    // The last bit of the magic number says in which byte order the checksum is computed.
    let native = |word: &[u8; 4]| {
        if magic & 1 == 1 {
            u32::from_be_bytes(*word)
        } else {
            u32::from_le_bytes(*word)
        }
    };
    let (mut s1, mut s2) = (0u32, 0u32);
    for pair in words[..6].chunks_exact(2) {
        s1 = s1.wrapping_add(native(&pair[0])).wrapping_add(s2);
        s2 = s2.wrapping_add(native(&pair[1])).wrapping_add(s1);
    }
    magic & !1 == MAGIC && version == VERSION && (s1, s2) == (sum1, sum2)
}

#[cfg(test)]
mod tests {
    use strata_base::golden::golden_bytes;

    use super::*;

    #[test]
    fn the_file_is_as_the_golden_file() {
        let progress = WriteProgress {
            boot: *b"01234567-89ab-cdef-0123-456789abcdef",
            written: 0x0102_0304_0506,
            synced: 7,
        };
        let bytes = golden_bytes("team.db-progress.hex", &progress.encode());
        assert_eq!(WriteProgress::decode(&bytes), Some(progress));
    }
}
