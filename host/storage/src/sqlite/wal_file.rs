//! The write-ahead log as a file: syncs it, and allocates space for it in advance. SQLite writes
//! its content.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The maximum number of bytes to allocate at once, since that takes as long as a step. The log is
/// extended by its own size, up to this, so that the log of a short run stays short.
const MAX_PREALLOCATE_BYTES: u64 = 512 << 10;

/// About how many pages are written at most between two writes of the lineage's row. Only after
/// such a write is a long log reused from its start.
const PAGES_BETWEEN_ROWS: u64 = 128;

/// The size of a page and of the frame header before it.
const FRAME_BYTES: u64 = 4096 + 24;

/// The write-ahead log of a database that this process writes to.
#[derive(Debug)]
pub(super) struct WalFile {
    file: File,
    /// The size of the file after the last allocation.
    bytes: u64,
    /// The size that it reaches before it is reused.
    max_bytes: u64,
}

impl WalFile {
    /// Opens a log that is moved into the database once it has `pages` pages.
    pub(super) fn open(path: &Path, pages: u32) -> io::Result<Self> {
        let file = crate::file::options().write(true).open(path)?;
        let bytes = length(&file)?;
        Ok(Self {
            file,
            bytes,
            max_bytes: max_bytes(pages),
        })
    }

    /// Makes everything that was committed survive a loss of power. SQLite, as it is built here,
    /// would use `fsync`, which also writes the modification time: that takes twice as long once
    /// the log no longer grows.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.preallocate_if_grown()?;
        self.file.sync_data()
    }

    /// Has the disk begin to write what was committed. `sync` waits for it, and is needed as well: if
    /// nothing could be begun, it does all of the work, and reports why it cannot.
    pub(super) fn begin_sync(&mut self) {
        if self.preallocate_if_grown().is_ok() {
            begin_writing(&self.file);
        }
    }

    /// Allocates space if the log has grown.
    pub(super) fn preallocate_if_grown(&mut self) -> io::Result<()> {
        let bytes = length(&self.file)?;
        if bytes != self.bytes {
            // If allocation fails, for example on a full disk, what was written is still there.
            self.bytes = self.preallocate(bytes).unwrap_or(bytes);
        }
        Ok(())
    }

    /// Appends zeros. No frame begins with zeros, so readers take them for the end of the log.
    /// While a file grows, each sync writes its data and then its metadata; within allocated space,
    /// only the data. Returns the new size.
    fn preallocate(&self, bytes: u64) -> io::Result<u64> {
        const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
        let end = bytes
            + bytes
                .min(MAX_PREALLOCATE_BYTES)
                .min(self.max_bytes.saturating_sub(bytes));
        let mut at = bytes;
        while at < end {
            let piece = ZEROS.len().min((end - at) as usize);
            self.file.write_all_at(&ZEROS[..piece], at)?;
            at += piece as u64;
        }
        Ok(end)
    }
}

/// Has the disk begin to write the pages of a file that were changed. This is a head start only: if it
/// fails, for example because the file system does not have it, the sync that follows writes them, or
/// reports why it cannot.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the function is only available from C")]
fn begin_writing(file: &File) {
    // SAFETY: the function gets numbers only. A length of zero means to the end of the file.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Elsewhere, the disk begins when the file is synced.
#[cfg(not(target_os = "linux"))]
fn begin_writing(_: &File) {}

/// Returns the size that a log reaches that is moved into the database once it has `pages` pages.
pub(super) fn max_bytes(pages: u32) -> u64 {
    (u64::from(pages) + PAGES_BETWEEN_ROWS) * FRAME_BYTES
}

/// Returns the size by seeking instead of `stat`: asking for the times of a file makes Linux (6.13
/// and newer) record the exact time of the next change. On file systems without a journal each sync
/// then writes these times, too, which takes half as long as the sync itself.
fn length(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the size of a log after each sync, if `written` bytes are appended before each. The
    /// log is moved once it has `pages` pages.
    fn check(pages: u32, written: &[u64], expected: &[u64]) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        File::create(&path).unwrap().set_len(written[0]).unwrap();
        let mut log = WalFile::open(&path, pages).unwrap();
        let mut end = 0;
        let lengths = written.iter().map(|more| {
            end += more;
            let length = log.file.metadata().unwrap().len();
            log.file.set_len(length.max(end)).unwrap();
            log.sync().unwrap();
            log.file.metadata().unwrap().len()
        });
        assert_eq!(lengths.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn there_is_room_for_as_much_again_once_the_log_grows() {
        check(
            2000,
            &[100, 100, 100, 100, 100],
            &[100, 400, 400, 400, 1000],
        );
    }

    #[test]
    fn a_long_log_grows_by_pieces_until_it_is_used_again() {
        let piece = MAX_PREALLOCATE_BYTES;
        for pages in [2000, 2437] {
            let longest = u64::from(pages + 128) * FRAME_BYTES;
            check(
                pages,
                &[longest - 3 * piece, piece, piece, piece],
                &[
                    longest - 3 * piece,
                    longest - piece,
                    longest - piece,
                    longest,
                ],
            );
            check(
                pages,
                &[longest, piece, 1],
                &[longest, longest + piece, longest + piece + 1],
            );
        }
    }
}
