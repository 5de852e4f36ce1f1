//! A stream of public events, read from what is recorded: whoever is slow misses nothing and holds nobody up.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;

use futures_util::stream::{self, Stream};
use tokio::sync::watch;

use crate::launch::{LaunchError, Telling};
use crate::public_event::EventLine;
use crate::store::StoreError;

/// The public events of an environment, oldest first, then as they happen.
pub struct Events {
    telling: Telling,
    /// At most a piece of what is recorded.
    ready: VecDeque<EventLine>,
    newest: watch::Receiver<u64>,
    /// The number of the last line that was read.
    read: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

impl Events {
    pub(super) fn open(path: &Path, newest: watch::Receiver<u64>) -> Result<Self, LaunchError> {
        Ok(Self {
            telling: Telling::open(path)?,
            ready: VecDeque::new(),
            newest,
            read: 0,
        })
    }

    /// The next event; waits for it. None once the environment is dropped, or an error has ended it: one that has stopped
    /// may be started again.
    pub async fn next(&mut self) -> Result<Option<EventLine>, StoreError> {
        loop {
            if let Some(line) = self.next_now()? {
                // Who catches up holds nobody else up.
                tokio::task::consume_budget().await;
                return Ok(Some(line));
            }
            let read = self.read;
            if self.newest.wait_for(|newest| *newest > read).await.is_err() {
                // What was recorded last may have come between the two looks.
                return self.next_now();
            }
        }
    }

    /// The next event, if it has happened already.
    pub fn next_now(&mut self) -> Result<Option<EventLine>, StoreError> {
        while self.ready.is_empty() {
            let Some(lines) = self.telling.more()? else {
                return Ok(None);
            };
            self.ready.extend(lines);
        }
        let line = self.ready.pop_front();
        self.read = line.as_ref().map_or(self.read, |line| line.n);
        Ok(line)
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<EventLine, StoreError>> {
        stream::unfold(self, |mut events| async {
            events.next().await.transpose().map(|line| (line, events))
        })
    }
}
