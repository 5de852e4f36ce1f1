//! The newest events of runs that somebody reads, read once for all readers of a run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use strata_host::launch::{EventReader, LaunchError};
use strata_host::public_event::{EventLine, PublicEvent};
use strata_host::storage::StorageLocation;
use tokio::sync::watch;

use super::hub::ChangeHub;
use crate::databases::RunKey;

/// How many lines are kept, and how many bytes they may have.
const MAX_LINES: usize = 16_384;
const MAX_BYTES: usize = 4 << 20;

/// An event, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedLine {
    /// Its number.
    pub n: u64,
    /// When it was recorded, in milliseconds since 1970.
    pub time_ms: i64,
    /// Its line.
    pub json: String,
    /// What it says about a request to a person, if it is about one.
    pub request: Option<RequestChange>,
}

/// What an event says about a request to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestChange {
    Opened,
    Answered,
}

impl FeedLine {
    /// Returns an event as it is sent.
    pub fn new(line: &EventLine) -> Self {
        Self {
            n: line.n,
            time_ms: line.time_ms,
            json: line.to_json(),
            request: match &line.event {
                PublicEvent::RequestOpened { .. } => Some(RequestChange::Opened),
                PublicEvent::RequestAnswered { .. } => Some(RequestChange::Answered),
                _ => None,
            },
        }
    }
}

/// The newest lines of a lineage.
#[derive(Debug, Default)]
struct Ring {
    lineage: String,
    lines: VecDeque<Arc<FeedLine>>,
    bytes: usize,
    /// The number of the last line that is not kept any more; 0 if all are.
    dropped: u64,
    /// Up to which change of the run everything was read.
    version: Option<u64>,
}

impl Ring {
    fn push(&mut self, line: FeedLine) {
        self.bytes += line.json.len();
        self.lines.push_back(Arc::new(line));
        while self.lines.len() > MAX_LINES || (self.bytes > MAX_BYTES && self.lines.len() > 1) {
            if let Some(dropped) = self.lines.pop_front() {
                self.bytes -= dropped.json.len();
                self.dropped = dropped.n;
            }
        }
    }
}

/// What there is after a position in a lineage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedRead {
    /// These lines, perhaps none.
    Lines(Vec<Arc<FeedLine>>),
    /// The run goes on in another lineage.
    Switched(String),
    /// Lines that are not kept any more: they have to be read from the records.
    Earlier,
}

/// The newest events of a run.
pub struct RunFeed {
    location: StorageLocation,
    /// Rises with each change of the run.
    changed: watch::Receiver<u64>,
    reader: Mutex<Option<EventReader>>,
    ring: Mutex<Ring>,
}

impl RunFeed {
    fn new(location: StorageLocation, changed: watch::Receiver<u64>) -> Self {
        Self {
            location,
            changed,
            reader: Mutex::default(),
            ring: Mutex::default(),
        }
    }

    /// Returns where the run is kept.
    pub fn location(&self) -> &StorageLocation {
        &self.location
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lineage whose lines are kept; empty if nothing was read.
    pub fn lineage(&self) -> String {
        self.ring().lineage.clone()
    }

    /// Returns what rises with each change of the run.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Whether everything was read up to the newest change.
    pub fn is_fresh(&self) -> bool {
        let version = *self.changed.borrow();
        self.ring().version == Some(version)
    }

    /// Reads what has been recorded since it was last called, unless somebody else has. Blocks.
    ///
    /// # Errors
    /// Fails if the run cannot be read.
    pub fn refresh(&self) -> Result<(), LaunchError> {
        if self.is_fresh() {
            return Ok(());
        }
        let slot = self.reader();
        // Somebody else may have read it meanwhile.
        if !self.is_fresh() {
            self.read_all(slot)?;
        }
        Ok(())
    }

    /// Reads what has been recorded since it was last read, also if no change is known yet. Blocks.
    ///
    /// # Errors
    /// Fails if the run cannot be read.
    pub fn refresh_now(&self) -> Result<(), LaunchError> {
        self.read_all(self.reader())
    }

    fn reader(&self) -> MutexGuard<'_, Option<EventReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_all(&self, mut slot: MutexGuard<'_, Option<EventReader>>) -> Result<(), LaunchError> {
        // What changes while it is read is read again.
        let version = *self.changed.borrow();
        self.read(&mut slot)?;
        self.ring().version = Some(version);
        Ok(())
    }

    fn read(&self, slot: &mut Option<EventReader>) -> Result<(), LaunchError> {
        let current = match &*slot {
            Some(reader) => reader.current_lineage()?,
            None => String::new(),
        };
        let is_current = !current.is_empty() && current == self.lineage();
        if !is_current {
            let reader = EventReader::open(&self.location)?;
            let lineage = reader.current_lineage()?;
            *slot = Some(EventReader::open_lineage(&self.location, Some(&lineage))?);
            *self.ring() = Ring {
                lineage,
                ..Ring::default()
            };
        }
        loop {
            let Some(reader) = &mut *slot else {
                return Ok(());
            };
            let lines = reader.next_lines();
            if lines.is_err() {
                // The next reader opens the run again.
                *slot = None;
                *self.ring() = Ring::default();
                return Ok(lines.map(drop)?);
            }
            let Ok(Some(lines)) = lines else {
                return Ok(());
            };
            let mut ring = self.ring();
            for line in &lines {
                ring.push(FeedLine::new(line));
            }
        }
    }

    /// Returns what there is after a position in a lineage.
    pub fn lines_after(&self, lineage: &str, position: u64) -> FeedRead {
        let ring = self.ring();
        if ring.lineage != lineage {
            return FeedRead::Switched(ring.lineage.clone());
        }
        if position < ring.dropped {
            return FeedRead::Earlier;
        }
        let from = ring.lines.partition_point(|line| line.n <= position);
        FeedRead::Lines(ring.lines.range(from..).cloned().collect())
    }
}

/// The feeds of runs that somebody reads.
#[derive(Default)]
pub struct RunFeeds {
    feeds: Mutex<BTreeMap<RunKey, Weak<RunFeed>>>,
}

impl RunFeeds {
    /// Returns the feed of a run. It is kept as long as somebody has it.
    pub fn of_run(
        &self,
        key: RunKey,
        location: &StorageLocation,
        changes: &ChangeHub,
    ) -> Arc<RunFeed> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&key).and_then(Weak::upgrade) {
            return feed;
        }
        feeds.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(RunFeed::new(location.clone(), changes.subscribe(key)));
        feeds.insert(key, Arc::downgrade(&feed));
        feed
    }
}

/// Returns the number of the last line that two lineages share; 0 if they share none. Blocks.
///
/// # Errors
/// Fails if one of them cannot be read.
pub fn last_common_line(
    location: &StorageLocation,
    one: &str,
    other: &str,
) -> Result<u64, LaunchError> {
    let mut readers = [one, other].map(|lineage| LineNumbers::open(location, lineage));
    let [one, other] = &mut readers;
    let (one, other) = match (one, other) {
        (Ok(one), Ok(other)) => (one, other),
        // A lineage whose name is not known shares nothing.
        _ => return Ok(0),
    };
    let mut common = 0;
    while let (Some(a), Some(b)) = (one.next()?, other.next()?) {
        if a != b {
            break;
        }
        common = a;
    }
    Ok(common)
}

/// The numbers of the lines of a lineage.
struct LineNumbers {
    reader: EventReader,
    ready: VecDeque<u64>,
}

impl LineNumbers {
    fn open(location: &StorageLocation, lineage: &str) -> Result<Self, LaunchError> {
        Ok(Self {
            reader: EventReader::open_lineage(location, Some(lineage))?,
            ready: VecDeque::new(),
        })
    }

    fn next(&mut self) -> Result<Option<u64>, LaunchError> {
        while self.ready.is_empty() {
            let Some(lines) = self.reader.next_lines()? else {
                return Ok(None);
            };
            self.ready.extend(lines.iter().map(|line| line.n));
        }
        Ok(self.ready.pop_front())
    }
}

/// Where a line is of which a client has the number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineOrigin {
    /// In this lineage.
    Lineage(String),
    /// It was pruned, or never was: the first line there is has this number.
    Unknown {
        /// The number.
        first: u64,
    },
}

/// Finds the lineage that a line belongs to, the current one first. Blocks.
///
/// # Errors
/// Fails if the run cannot be read.
pub fn find_line(location: &StorageLocation, n: u64) -> Result<LineOrigin, LaunchError> {
    let reader = EventReader::open(location)?;
    let current = reader.current_lineage()?;
    let mut first = 0;
    let others = reader
        .lineages()?
        .into_iter()
        .filter(|name| *name != current);
    for lineage in std::iter::once(current.clone()).chain(others) {
        let mut numbers = LineNumbers::open(location, &lineage)?;
        while let Some(number) = numbers.next()? {
            if first == 0 {
                first = number;
            }
            if number == n {
                return Ok(LineOrigin::Lineage(lineage));
            }
            if number > n {
                break;
            }
        }
    }
    Ok(LineOrigin::Unknown { first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64, bytes: usize) -> FeedLine {
        FeedLine {
            n,
            time_ms: 0,
            json: "x".repeat(bytes),
            request: None,
        }
    }

    #[test]
    fn lines_are_kept_up_to_a_size() {
        let changed = watch::Sender::new(0).subscribe();
        let feed = RunFeed::new(StorageLocation::new("nowhere"), changed);
        feed.ring().lineage = "main".into();
        for n in 1..=10 {
            feed.ring().push(line(n * 2, MAX_BYTES / 4));
        }
        let numbers = |read: FeedRead| match read {
            FeedRead::Lines(lines) => lines.iter().map(|line| line.n).collect(),
            other => panic!("{other:?}"),
        };
        let after: Vec<u64> = numbers(feed.lines_after("main", 17));
        assert_eq!(after, [18, 20]);
        assert_eq!(numbers(feed.lines_after("main", 20)), [0_u64; 0]);
        assert_eq!(feed.lines_after("main", 1), FeedRead::Earlier);
        let other = feed.lines_after("other", 17);
        assert_eq!(other, FeedRead::Switched("main".into()));
        // A line that is larger than all may be is kept alone.
        feed.ring().push(line(30, MAX_BYTES * 2));
        assert_eq!(numbers(feed.lines_after("main", 20)), [30]);
    }
}
