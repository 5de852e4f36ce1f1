//! The write-ahead log as a file: how what SQLite wrote to it is made safe, and room made for what comes. What is in it
//! is SQLite's business.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The log makes room for as much as it holds, so that a short run makes a short one, but for no more than this at once:
/// that takes as long as a step.
const AHEAD_BYTES: u64 = 512 << 10;

/// How many pages are written, at most about, before the next row of the lineage, behind which a log that is long enough
/// is used again from its start.
const BEFORE_ROW_PAGES: u64 = 128;

/// A page and its head.
const FRAME_BYTES: u64 = 4096 + 24;

/// The write-ahead log of a database that this process writes to.
#[derive(Debug)]
pub(super) struct Log {
    file: Arc<File>,
    /// How long it was when there was last made room.
    bytes: u64,
    /// How long it gets before it is used again.
    longest_bytes: u64,
}

impl Log {
    /// Opens one that is moved into the database once it has so many pages.
    pub(super) fn open(path: &Path, pages: u32) -> io::Result<Self> {
        let file = File::options().write(true).open(path)?;
        let bytes = length(&file)?;
        let longest_bytes = (u64::from(pages) + BEFORE_ROW_PAGES) * FRAME_BYTES;
        Ok(Self {
            file: Arc::new(file),
            bytes,
            longest_bytes,
        })
    }

    /// It, for others that sync it.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Makes everything that was committed survive a loss of power. SQLite as it is built here would use `fsync`, which
    /// also writes the time of the change: twice as long, once the log no longer grows.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.keep_room()?;
        self.file.sync_data()
    }

    /// Sees to it that there is room once it has grown.
    pub(super) fn keep_room(&mut self) -> io::Result<()> {
        let bytes = length(&self.file)?;
        if bytes != self.bytes {
            // Without room, say on a full disk, there is still what was written.
            self.bytes = self.make_room(bytes).unwrap_or(bytes);
        }
        Ok(())
    }

    /// Appends zeros, which no frame begins with: for whoever reads it the log ends there. While a file grows, each sync
    /// writes its data and then what the file system knows of it; within the room, the data only. Gives how long it is.
    fn make_room(&self, bytes: u64) -> io::Result<u64> {
        const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
        let end = bytes
            + bytes
                .min(AHEAD_BYTES)
                .min(self.longest_bytes.saturating_sub(bytes));
        let mut at = bytes;
        while at < end {
            let piece = ZEROS.len().min((end - at) as usize);
            self.file.write_all_at(&ZEROS[..piece], at)?;
            at += piece as u64;
        }
        Ok(end)
    }
}

/// By seeking, not by `stat`: whoever asks for the times of a file makes Linux (6.13 and newer) note the next change at its
/// exact time, and where the file system keeps no journal each sync then writes these times too, which takes as long as
/// half of the sync.
fn length(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a log is after each sync that is moved once it has so many pages, if so much is written to it before.
    fn check(pages: u32, written: &[u64], expected: &[u64]) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        File::create(&path).unwrap().set_len(written[0]).unwrap();
        let mut log = Log::open(&path, pages).unwrap();
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
        let piece = AHEAD_BYTES;
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
