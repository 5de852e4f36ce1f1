//! What cannot be had cheaper: bytes that are written to a file, and made safe.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// What one step writes at least: its message and what goes with it fit into a page of a database.
const PAGE: usize = 4096;
/// How many pages a log has that is used again and again, as that of the database.
const LOG_PAGES: u64 = 2000;

/// Where a log is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// At its end.
    End,
    /// Over what is there already: nothing but the page itself has to be made safe.
    Again,
}

/// How a log is made to last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The power is lost.
    PowerLoss,
    /// The process is killed.
    Kill,
}

/// The simplest log there is: a page is written, and synced where it must be.
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

    /// Writes a page; gives how long that took, in microseconds.
    pub(crate) fn write(&mut self) -> anyhow::Result<f64> {
        let page = [self.pages as u8; PAGE];
        let place = match self.at {
            At::End => self.pages,
            At::Again => self.pages % LOG_PAGES,
        };
        let begun = Instant::now();
        self.file.write_all_at(&page, place * PAGE as u64)?;
        if self.until == Until::PowerLoss {
            self.file.sync_data()?;
        }
        self.pages += 1;
        Ok(begun.elapsed().as_secs_f64() * 1e6)
    }
}
