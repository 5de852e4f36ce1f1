//! The bare operation: writing bytes to a file, durably.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The size of a page of a database, which is the minimum that a step writes.
const PAGE: usize = 4096;
/// The number of pages of a log that is overwritten repeatedly, like that of the database.
const LOG_PAGES: u64 = 2000;

/// Where a page is written in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// At the end of the file.
    End,
    /// Over an existing page, so only the page itself has to be synced.
    Again,
}

/// What a written page must survive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// A power loss.
    PowerLoss,
    /// The end of the process.
    Kill,
}

/// A minimal log: a page is written, and synced if necessary.
pub(crate) struct Log {
    file: File,
    pages: u64,
    until: Until,
    at: At,
}

impl Log {
    pub(crate) fn new(path: &Path, until: Until, at: At) -> anyhow::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path)?;
        if at == At::Again {
            file.write_all_at(&vec![0; PAGE * LOG_PAGES as usize], 0)?;
            file.sync_all()?;
        }
        Ok(Self {
            file,
            pages: 0,
            until,
            at,
        })
    }

    /// Writes a page, and returns the time in microseconds.
    pub(crate) fn write(&mut self) -> anyhow::Result<f64> {
        let page = [self.pages as u8; PAGE];
        let place = match self.at {
            At::End => self.pages,
            At::Again => self.pages % LOG_PAGES,
        };
        let start = Instant::now();
        self.file.write_all_at(&page, place * PAGE as u64)?;
        if self.until == Until::PowerLoss {
            self.file.sync_data()?;
        }
        self.pages += 1;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }
}
