//! A stream of public events, read from the records. A slow reader misses nothing and delays
//! nobody.

use std::collections::VecDeque;
use std::fmt;

use futures_util::stream::{self, Stream};
use strata_driver::public_event::EventLine;
use strata_storage::{StorageLocation, StoreError};
use tokio::sync::watch;

use crate::launch::{EventReader, LaunchError};

/// The public events of an environment, oldest first, then as they happen.
pub struct LiveEvents {
    reader: EventReader,
    /// Lines that were read from the records and not returned yet.
    ready: VecDeque<EventLine>,
    newest: watch::Receiver<u64>,
    /// The number of the last line that was read.
    read: u64,
}

impl fmt::Debug for LiveEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl LiveEvents {
    pub(super) fn open(
        storage: &StorageLocation,
        newest: watch::Receiver<u64>,
    ) -> Result<Self, LaunchError> {
        Ok(Self {
            reader: EventReader::open(storage)?,
            ready: VecDeque::new(),
            newest,
            read: 0,
        })
    }

    /// Waits for the next event. Returns `None` once the environment was dropped or an error has
    /// ended it, but not when it has stopped, since it may be started again.
    pub async fn next(&mut self) -> Result<Option<EventLine>, StoreError> {
        loop {
            if let Some(line) = self.next_now()? {
                // Yields to other tasks while many events are available.
                tokio::task::consume_budget().await;
                return Ok(Some(line));
            }
            let read = self.read;
            if self.newest.wait_for(|newest| *newest > read).await.is_err() {
                // The last records may have been written after `next_now` looked.
                return self.next_now();
            }
        }
    }

    /// Returns the next event if it has happened already.
    pub fn next_now(&mut self) -> Result<Option<EventLine>, StoreError> {
        while self.ready.is_empty() {
            let Some(lines) = self.reader.next_lines()? else {
                return Ok(None);
            };
            self.ready.extend(lines);
        }
        let line = self.ready.pop_front();
        self.read = line.as_ref().map_or(self.read, |line| line.n);
        Ok(line)
    }

    /// Converts the events to a `Stream`.
    pub fn into_stream(self) -> impl Stream<Item = Result<EventLine, StoreError>> {
        stream::unfold(self, |mut events| async {
            events.next().await.transpose().map(|line| (line, events))
        })
    }
}
