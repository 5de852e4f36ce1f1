//! Runs and lineages as they are stored: the keys of their rows, and the path of events from the beginning
//! of the run to a position in one of them. What a lineage means is defined in the core; events are read
//! along a path in `reader`.
//!
//! The *position* of an event on a path is its number, counted from the beginning of the run.

use strata_base::codec::CodecError;
use strata_core::record::event::Event;

use super::codec::{self, DecodeError};
use super::cost_of;

/// The key and the name of the run in the database of a storage directory.
pub const DIRECTORY_RUN: (i64, &str) = (1, "team");

/// The key of the lineage that a database begins with.
pub const FIRST_LINEAGE: i64 = 0;

/// How many bits of an event's key hold its position: a million million events along one path.
const POSITION_BITS: u32 = 40;
/// How many lineages fit into the rest of a positive key, those of all runs together: four million.
pub const MAX_LINEAGES: i64 = 1 << 22;
/// The largest position that is accepted when a row is read. It is half of what a key can hold, so
/// that a run can continue from any of them.
pub const MAX_POSITION: i64 = 1 << (POSITION_BITS - 1);

/// The largest number of a public line that is accepted.
const MAX_LINE: u64 = 1 << 62;

/// About how many events the row of a lineage may lag behind.
pub const MAX_EVENTS_BEHIND: i64 = 64;
/// About how many bytes of events the row of a lineage may lag behind.
pub const MAX_BYTES_BEHIND: i64 = 256 << 10;

/// Returns the key of the event of a lineage at a position. In the first lineage of a database the
/// keys equal the positions.
pub fn event_key(lineage: i64, at: i64) -> i64 {
    assert!(
        at >> POSITION_BITS == 0 && (0..MAX_LINEAGES).contains(&lineage),
        "no path has that many events"
    );
    lineage << POSITION_BITS | at
}

/// Returns the position that is part of a key.
pub fn position_of_key(key: i64) -> i64 {
    key & ((1 << POSITION_BITS) - 1)
}

/// A range of keys, with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest.
    pub first: i64,
    /// The highest.
    pub last: i64,
}

/// Returns the lowest and the highest key of a lineage's events.
pub fn key_range(lineage: i64) -> KeyRange {
    KeyRange {
        first: event_key(lineage, 0),
        last: event_key(lineage, (1 << POSITION_BITS) - 1),
    }
}

/// A lineage, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLineage {
    /// Its key. The lineages of all runs have different ones.
    pub id: i64,
    /// The key of its run.
    pub run: i64,
    /// Its index among the lineages of the run, in the order of their creation.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The key of the lineage that it left, and the position of the event after which it did. Only
    /// the first lineage of a run has none.
    pub origin: Option<(i64, i64)>,
    /// The position of its last event. The row in the database may lag behind; see
    /// `EventLog::with_newest_events`.
    pub events: i64,
    /// The checksum of its last event. It reveals a database that lost its end.
    pub last_checksum: u32,
    /// Checkpoints up to this position are forgotten, except those that have to be kept.
    pub forgotten_until: i64,
    /// What its own events spent, in the units of `Usd`. The first lineage includes what was spent
    /// before.
    pub spent: i64,
    /// The size of the events after the newest snapshot on its path, in bytes: what a load would
    /// have to apply.
    pub bytes_since_snapshot: i64,
}

impl StoredLineage {
    /// Returns the lineage that the database of a storage directory begins with, without events.
    pub fn first(name: &str) -> Self {
        Self {
            id: FIRST_LINEAGE,
            run: DIRECTORY_RUN.0,
            number: 0,
            name: name.into(),
            origin: None,
            events: 0,
            last_checksum: 0,
            forgotten_until: 0,
            spent: 0,
            bytes_since_snapshot: 0,
        }
    }

    /// Returns the position of the last event before its own.
    pub fn start(&self) -> i64 {
        self.origin.map_or(0, |(_, at)| at)
    }

    /// Returns the key of its newest event.
    pub fn last_key(&self) -> i64 {
        event_key(self.id, self.events)
    }

    /// Counts an event that was appended, with its size in bytes and its checksum.
    pub(crate) fn count_event(&mut self, event: &Event, weight: usize, sum: u32) {
        let cost = i64::try_from(cost_of(event).0).unwrap_or(i64::MAX);
        self.spent = self.spent.saturating_add(cost);
        self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_add(weight as i64);
        (self.events, self.last_checksum) = (self.events + 1, sum);
    }

    /// Whether it is so far ahead of its row that the row has to be written: readers have to look
    /// through the events between them.
    pub(crate) fn is_far_ahead(&self, row: &Self) -> bool {
        let bytes = self
            .bytes_since_snapshot
            .saturating_sub(row.bytes_since_snapshot);
        self.events - row.events >= MAX_EVENTS_BEHIND || bytes >= MAX_BYTES_BEHIND
    }

    /// Returns the checksum of its row.
    pub fn checksum(&self) -> u32 {
        let (origin, at) = self.origin.unwrap_or((-1, -1));
        let last = i64::from(self.last_checksum);
        let numbers = [
            self.id,
            self.run,
            self.number,
            origin,
            at,
            self.events,
            last,
            self.forgotten_until,
            self.spent,
            self.bytes_since_snapshot,
        ];
        codec::checksum(&numbers, self.name.as_bytes())
    }

    /// Whether the values are in range. A matching checksum does not prove that this program wrote
    /// them.
    fn is_valid(&self) -> bool {
        let is_origin_valid = match self.origin {
            Some((origin, at)) => (0..self.id).contains(&origin) && (0..=self.events).contains(&at),
            None => self.number == 0,
        };
        (FIRST_LINEAGE..MAX_LINEAGES).contains(&self.id)
            && (0..=self.id).contains(&self.number)
            && is_origin_valid
            && [self.events, self.forgotten_until]
                .iter()
                .all(|place| (0..=MAX_POSITION).contains(place))
            && [self.spent, self.bytes_since_snapshot]
                .iter()
                .all(|sum| *sum >= 0)
    }

    /// Returns it, as it was read with this checksum. Fails if that does not match, or if its values
    /// are out of range.
    pub fn verified(self, sum: u32) -> Result<Self, DecodeError> {
        if sum != self.checksum() {
            Err(CodecError::Checksum.into())
        } else if self.is_valid() {
            Ok(self)
        } else {
            Err(DecodeError::OutOfRange)
        }
    }
}

/// A run of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRun {
    /// Its key.
    pub key: i64,
    /// Its name.
    pub name: String,
}

/// A run, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Its key.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The epoch of the newest lease under which it was changed.
    pub epoch: i64,
    /// The lineage that it continues.
    pub lineage: i64,
    /// The first unused public line when that was last changed.
    pub next_line: i64,
}

impl StoredRun {
    /// Returns the checksum of its row.
    pub fn checksum(&self) -> u32 {
        let numbers = [self.id, self.epoch, self.lineage, self.next_line];
        codec::checksum(&numbers, self.name.as_bytes())
    }

    /// Returns it, if its values are in range.
    pub fn checked(self) -> Result<Self, DecodeError> {
        if self.epoch < 0 {
            return Err(DecodeError::OutOfRange);
        }
        line_number(self.next_line)?;
        Ok(self)
    }
}

/// Returns the number of a public line, if it is in range: the numbers of all later lines have to
/// fit as well.
pub(crate) fn line_number(line: i64) -> Result<u64, DecodeError> {
    u64::try_from(line)
        .ok()
        .filter(|line| *line <= MAX_LINE)
        .ok_or(DecodeError::OutOfRange)
}

/// A segment of a path: consecutive events of one lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathSegment {
    pub lineage: i64,
    /// The position before its first event.
    pub after: i64,
    /// The position of its last event.
    pub until: i64,
}

/// The events from the beginning of the run to a position in a lineage, oldest segment first. Only
/// the first segment may be empty.
pub(crate) type EventPath = Vec<PathSegment>;
