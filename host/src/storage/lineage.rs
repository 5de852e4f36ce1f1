//! Lineages in the database: a row each, and the path of events from the beginning of the run to a
//! position in one of them. What a lineage means is defined in the core; events are read along a
//! path in `reader`.
//!
//! The *position* of an event on a path is its number, counted from the beginning of the run.

use rusqlite::{Connection, OptionalExtension, Row, params};
use strata_core::record::event::Event;

use super::codec::{self, DecodeError};
use super::cost_of;
use super::error::StoreError;
use super::reader::{Reader, line_number};

/// The key of the lineage that a storage begins with.
pub(super) const FIRST_LINEAGE: i64 = 0;

/// How many bits of an event's key hold its position: a million million events along one path.
const POSITION_BITS: u32 = 40;
/// How many lineages fit into the rest of a positive key: four million.
pub(super) const MAX_LINEAGES: i64 = 1 << 22;
/// The largest position that is accepted when a row is read. It is half of what a key can hold, so
/// that a run can continue from any of them.
pub(super) const MAX_POSITION: i64 = 1 << (POSITION_BITS - 1);

/// Returns the key of the event of a lineage at a position. In the first lineage the keys equal the
/// positions.
pub(super) fn event_key(lineage: i64, at: i64) -> i64 {
    assert!(
        at >> POSITION_BITS == 0 && (0..MAX_LINEAGES).contains(&lineage),
        "no path has that many events"
    );
    lineage << POSITION_BITS | at
}

/// Returns the position that is part of a key.
pub(super) fn position_of_key(key: i64) -> i64 {
    key & ((1 << POSITION_BITS) - 1)
}

/// Returns the lowest and the highest key of a lineage's events.
pub(super) fn key_range(lineage: i64) -> (i64, i64) {
    (
        event_key(lineage, 0),
        event_key(lineage, (1 << POSITION_BITS) - 1),
    )
}

/// A lineage, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredLineage {
    pub id: i64,
    pub name: String,
    /// The lineage that it left, and the position of the event after which it did.
    pub origin: Option<(i64, i64)>,
    /// The position of its last event. The row in the database may lag behind; see
    /// `Reader::with_newest_events`.
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
    /// Returns the lineage that a storage begins with, without events.
    pub(super) fn first(name: &str) -> Self {
        Self {
            id: FIRST_LINEAGE,
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
    pub(super) fn start(&self) -> i64 {
        self.origin.map_or(0, |(_, at)| at)
    }

    /// Counts an event that was appended, with its size in bytes and its checksum.
    pub(super) fn count_event(&mut self, event: &Event, weight: usize, sum: u32) {
        let cost = i64::try_from(cost_of(event).0).unwrap_or(i64::MAX);
        self.spent = self.spent.saturating_add(cost);
        self.bytes_since_snapshot = self.bytes_since_snapshot.saturating_add(weight as i64);
        (self.events, self.last_checksum) = (self.events + 1, sum);
    }

    fn checksum(&self) -> u32 {
        let (origin, at) = self.origin.unwrap_or((-1, -1));
        let last = i64::from(self.last_checksum);
        let numbers = [
            self.id,
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
            None => true,
        };
        (FIRST_LINEAGE..MAX_LINEAGES).contains(&self.id)
            && is_origin_valid
            && [self.events, self.forgotten_until]
                .iter()
                .all(|place| (0..=MAX_POSITION).contains(place))
            && [self.spent, self.bytes_since_snapshot]
                .iter()
                .all(|sum| *sum >= 0)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>> {
        let origin: (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
        let read = Self {
            id: row.get(0)?,
            name: row.get(1)?,
            origin: origin.0.zip(origin.1),
            events: row.get(4)?,
            last_checksum: row.get(5)?,
            forgotten_until: row.get(6)?,
            spent: row.get(7)?,
            bytes_since_snapshot: row.get(8)?,
        };
        let sum: u32 = row.get(9)?;
        Ok(match sum == read.checksum() {
            true if read.is_valid() => Ok(read),
            true => Err(DecodeError::OutOfRange),
            false => Err(DecodeError::Checksum),
        })
    }

    /// Inserts it into the database.
    pub(super) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO lineage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let row = params![
            self.id,
            self.name,
            self.origin.map(|origin| origin.0),
            self.origin.map(|origin| origin.1),
            self.events,
            self.last_checksum,
            self.forgotten_until,
            self.spent,
            self.bytes_since_snapshot,
            self.checksum()
        ];
        conn.execute(sql, row).map(drop)
    }

    /// Writes the columns that change.
    pub(super) fn update(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE lineage SET events = ?2, last = ?3, forgotten = ?4, spent = ?5, since = ?6, sum = ?7 WHERE id = ?1";
        let row = params![
            self.id,
            self.events,
            self.last_checksum,
            self.forgotten_until,
            self.spent,
            self.bytes_since_snapshot,
            self.checksum()
        ];
        conn.prepare_cached(sql)?.execute(row).map(drop)
    }
}

/// The lineage that a run continues, and the first unused public line when that was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CurrentLineage {
    pub lineage: i64,
    pub next_line: i64,
}

impl CurrentLineage {
    pub(super) fn write(self, conn: &Connection) -> rusqlite::Result<()> {
        let sum = codec::checksum(&[self.lineage, self.next_line], &[]);
        let sql = "INSERT OR REPLACE INTO head VALUES (1, ?1, ?2, ?3)";
        conn.execute(sql, params![self.lineage, self.next_line, sum])
            .map(drop)
    }
}

/// A segment of a path: consecutive events of one lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathSegment {
    pub lineage: i64,
    /// The position before its first event.
    pub after: i64,
    /// The position of its last event.
    pub until: i64,
}

/// The events from the beginning of the run to a position in a lineage, oldest segment first. Only
/// the first segment may be empty.
pub(super) type EventPath = Vec<PathSegment>;

impl Reader {
    /// Returns the lineage that this reader reads: the one it was switched to, otherwise the
    /// current one.
    pub(super) fn selected_lineage(&self) -> Result<StoredLineage, StoreError> {
        let id = match self.selected {
            Some(id) => id,
            None => self.current_lineage()?.lineage,
        };
        self.lineage_by_id(id)
    }

    /// Returns the current lineage.
    pub(super) fn current_lineage(&self) -> Result<CurrentLineage, StoreError> {
        let read = |row: &Row<'_>| {
            Ok((
                CurrentLineage {
                    lineage: row.get(0)?,
                    next_line: row.get(1)?,
                },
                row.get::<_, u32>(2)?,
            ))
        };
        let mut statement = self.prepare("SELECT lineage, line, sum FROM head")?;
        let (head, sum) = statement
            .query_row([], read)
            .map_err(|e| self.error("read", e))?;
        let known = codec::verify(sum, &[head.lineage, head.next_line], &[])
            .and_then(|()| line_number(head.next_line));
        known.map_err(|e| self.decode_error("what its newest state is", e))?;
        Ok(head)
    }

    /// Returns a lineage by its key.
    pub(super) fn lineage_by_id(&self, id: i64) -> Result<StoredLineage, StoreError> {
        self.with_newest_events(self.lineage_as_stored(id)?)
    }

    /// Returns a lineage as its row says, without the events that were appended since the row was
    /// written.
    pub(super) fn lineage_as_stored(&self, id: i64) -> Result<StoredLineage, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE id = ?1")?;
        let row = statement
            .query_row([id], StoredLineage::from_row)
            .map_err(|e| self.error("read", e))?;
        row.map_err(|e| self.decode_error("a lineage", e))
    }

    /// Returns a lineage by its name.
    pub(super) fn lineage_by_name(&self, name: &str) -> Result<Option<StoredLineage>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE name = ?1")?;
        let row = statement
            .query_row([name], StoredLineage::from_row)
            .optional()
            .map_err(|e| self.error("read", e))?;
        let row = row
            .transpose()
            .map_err(|e| self.decode_error("a lineage", e))?;
        row.map(|row| self.with_newest_events(row)).transpose()
    }

    /// Returns all lineages, in the order of their creation.
    pub(super) fn stored_lineages(&self) -> Result<Vec<StoredLineage>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage ORDER BY id")?;
        let rows = statement
            .query_map([], StoredLineage::from_row)
            .map_err(|e| self.error("read", e))?;
        let rows = rows
            .collect::<rusqlite::Result<Result<Vec<StoredLineage>, DecodeError>>>()
            .map_err(|e| self.error("read", e))?;
        let rows = rows.map_err(|e| self.decode_error("a lineage", e))?;
        match rows
            .iter()
            .zip(FIRST_LINEAGE..)
            .all(|(row, id)| row.id == id)
        {
            true if !rows.is_empty() => rows
                .into_iter()
                .map(|row| self.with_newest_events(row))
                .collect(),
            _ => Err(self.corrupt("a lineage is missing".into())),
        }
    }

    /// Returns the path to a position in a lineage.
    pub(super) fn path_to(
        &self,
        line: &StoredLineage,
        until: i64,
    ) -> Result<EventPath, StoreError> {
        let mut path = vec![PathSegment {
            lineage: line.id,
            after: line.start(),
            until,
        }];
        let mut line = line.clone();
        while let Some((origin, at)) = line.origin {
            // Each lineage has a higher key than the one it left, so the loop ends.
            let left = line.name;
            line = self.lineage_by_id(origin)?;
            if at > line.events {
                return Err(self.corrupt(format!("lineage `{left}` leaves one after its end")));
            }
            path.push(PathSegment {
                lineage: origin,
                after: line.start(),
                until: at,
            });
        }
        path.reverse();
        Ok(path)
    }
}
