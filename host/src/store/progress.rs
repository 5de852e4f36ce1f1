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
use std::sync::OnceLock;

use super::directory::{PROGRESS_FILE, WAL_FILE};
use super::error::StoreError;
use super::file;
use super::reader::Reader;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"STRTPRG1";
/// The size of the file: the magic bytes, the boot id, two numbers, and a CRC-32 of all these.
const LENGTH: usize = 64;
/// The length of the id that Linux gives to a boot.
const BOOT: usize = 36;

/// How often a reader retries if a process writes while it reads.
const LOOKS: usize = 8;

/// The id of a boot of the machine; zeros if it has none.
type Boot = [u8; BOOT];

/// How many changes were recorded: events of all lineages, and other changes that must not be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// The boot during which this was written. While it lasts, everything that was written is
    /// present.
    boot: Boot,
    /// How many changes were written.
    pub(super) written: u64,
    /// How many of them survive a loss of power.
    pub(super) synced: u64,
}

impl Progress {
    fn new(written: u64, synced: u64) -> Self {
        Self {
            boot: boot(),
            written,
            synced,
        }
    }

    /// Reads the file in a directory. Returns `None` if there is none, or if it was not written
    /// completely.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, StoreError> {
        let path = directory.join(PROGRESS_FILE);
        let mut bytes = Vec::new();
        let read = file::options()
            .read(true)
            .open(&path)
            .and_then(|file| file.take(LENGTH as u64 + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Self::decode(&bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(&path, "read", e)),
        }
    }

    /// Returns how many changes a database must have.
    pub(super) fn required(&self) -> u64 {
        let same = self.boot == boot() && self.boot != [0; BOOT];
        if same { self.written } else { self.synced }
    }

    fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
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
            bytes.len() == LENGTH && crc32fast::hash(content) == u32::from_le_bytes(*sum);
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
fn boot() -> Boot {
    static BOOT_ID: OnceLock<Boot> = OnceLock::new();
    *BOOT_ID.get_or_init(|| {
        let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.first_chunk().copied().unwrap_or([0; BOOT])
    })
}

/// The file, for the process that writes the database. It is dropped after the database is closed:
/// without a log there is nothing to compare.
#[derive(Debug)]
pub(super) struct ProgressFile {
    directory: PathBuf,
    /// Opened at the first change.
    file: OnceCell<File>,
    now: Cell<Progress>,
    /// Whether the file on the disk says less than `now`.
    is_behind: Cell<bool>,
}

impl ProgressFile {
    /// Creates the file for a database without changes that will be created next.
    pub(super) fn create(directory: &Path) -> Result<(), StoreError> {
        let path = directory.join(PROGRESS_FILE);
        file::options()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&Progress::new(0, 0).encode()))
            .map_err(|e| StoreError::io(&path, "create", e))
    }

    /// Returns the file of a database with `written` changes, without writing to it.
    pub(super) fn of(directory: &Path, written: u64) -> Result<Self, StoreError> {
        let synced = Progress::read(directory)?.map_or(0, |found| found.synced.min(written));
        let now = Cell::new(Progress::new(written, synced));
        Ok(Self {
            directory: directory.into(),
            file: OnceCell::new(),
            now,
            is_behind: Cell::new(false),
        })
    }

    /// Whether the file was created and is kept up to date.
    pub(super) fn is_begun(&self) -> bool {
        self.file.get().is_some()
    }

    /// Creates the file if it does not exist, and writes it.
    pub(super) fn begin(&self) -> Result<(), StoreError> {
        let path = self.directory.join(PROGRESS_FILE);
        let open = || {
            let file = file::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            file.write_all_at(&self.now.get().encode(), 0)?;
            file.set_len(LENGTH as u64)?;
            Ok(file)
        };
        let file = open().map_err(|e| StoreError::io(&path, "write", e))?;
        // If the file was opened before, that handle is kept.
        let _ = self.file.set(file);
        Ok(())
    }

    /// Counts changes that were committed.
    pub(super) fn add(&self, changes: u64) {
        let now = self.now.get();
        self.now.set(Progress {
            written: now.written.saturating_add(changes),
            ..now
        });
        self.is_behind.set(true);
    }

    /// Counts all changes as synced.
    pub(super) fn synced(&self) {
        let now = self.now.get();
        if now.synced != now.written {
            self.now.set(Progress {
                synced: now.written,
                ..now
            });
            self.is_behind.set(true);
        }
    }

    /// Writes the file, if its content has changed.
    pub(super) fn put(&self) {
        let Some(file) = self.file.get().filter(|_| self.is_behind.get()) else {
            return;
        };
        match file.write_all_at(&self.now.get().encode(), 0) {
            Ok(()) => self.is_behind.set(false),
            // The file still makes a true, though weaker, statement.
            Err(error) => tracing::debug!("`{PROGRESS_FILE}` stays behind: {error}"),
        }
    }

    /// Makes the file survive a loss of power.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.put();
        self.file.get().map_or(Ok(()), File::sync_data)
    }
}

impl Drop for ProgressFile {
    fn drop(&mut self) {
        let path = self.directory.join(PROGRESS_FILE);
        if !self.directory.join(WAL_FILE).exists() {
            // A file that cannot be removed does no harm: the database has what it requires.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Reader {
    /// Returns how many changes the database has. Fails if more were recorded.
    pub(super) fn check_complete(&self) -> Result<u64, StoreError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let mut found = Ok(0);
        for _ in 0..LOOKS {
            // The order matters: a concurrent writer changes the database first, then the file.
            let progress = Progress::read(directory)?;
            let (changes, is_expected) = self.changes()?;
            let log = || log_state(directory);
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
        found.map_err(|what| self.corrupt(what))
    }
}

/// Describes what is wrong with the log of an incomplete database.
pub(super) fn log_state(directory: &Path) -> String {
    let mut header = Vec::new();
    let read = file::options()
        .read(true)
        .open(directory.join(WAL_FILE))
        .and_then(|file| file.take(HEADER as u64).read_to_end(&mut header));
    let what = match read {
        // SQLite creates an empty log when it looks for one.
        Ok(0) => "is missing or empty",
        Err(e) if e.kind() == ErrorKind::NotFound => "is missing or empty",
        Err(_) => "cannot be read",
        Ok(_) if !is_header(&header) => "has a damaged header",
        Ok(_) => "is damaged, or its end is missing",
    };
    format!("its log `{WAL_FILE}` {what}")
}

/// The length of a log's header.
const HEADER: usize = 32;

/// Whether SQLite would accept this as the header of a log.
fn is_header(header: &[u8]) -> bool {
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
