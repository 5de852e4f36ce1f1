//! Runs and lineages in the database: a row each, and the path of events from the beginning of the run to a
//! position in one of them. What a lineage means is defined in the core; events are read along a
//! path in `reader`.
//!
//! The *position* of an event on a path is its number, counted from the beginning of the run.

use rusqlite::{Connection, OptionalExtension, Row, params};
use strata_core::record::event::Event;

use crate::storage::codec::{self, DecodeError};
use crate::storage::cost_of;
use crate::storage::error::StoreError;
use crate::storage::reader::{Reader, line_number};

/// The key and the name of the run in the database of a storage directory.
pub(in crate::storage) const DIRECTORY_RUN: (i64, &str) = (1, "team");

/// The key of the lineage that a database begins with.
pub(in crate::storage) const FIRST_LINEAGE: i64 = 0;

/// How many bits of an event's key hold its position: a million million events along one path.
const POSITION_BITS: u32 = 40;
/// How many lineages fit into the rest of a positive key, those of all runs together: four million.
pub(in crate::storage) const MAX_LINEAGES: i64 = 1 << 22;
/// The largest position that is accepted when a row is read. It is half of what a key can hold, so
/// that a run can continue from any of them.
pub(in crate::storage) const MAX_POSITION: i64 = 1 << (POSITION_BITS - 1);

/// Returns the key of the event of a lineage at a position. In the first lineage of a database the
/// keys equal the positions.
pub(in crate::storage) fn event_key(lineage: i64, at: i64) -> i64 {
    assert!(
        at >> POSITION_BITS == 0 && (0..MAX_LINEAGES).contains(&lineage),
        "no path has that many events"
    );
    lineage << POSITION_BITS | at
}

/// Returns the position that is part of a key.
pub(in crate::storage) fn position_of_key(key: i64) -> i64 {
    key & ((1 << POSITION_BITS) - 1)
}

/// Returns the lowest and the highest key of a lineage's events.
pub(in crate::storage) fn key_range(lineage: i64) -> (i64, i64) {
    (
        event_key(lineage, 0),
        event_key(lineage, (1 << POSITION_BITS) - 1),
    )
}

/// A lineage, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::storage) struct StoredLineage {
    /// Its key. The lineages of all runs have different ones.
    pub id: i64,
    /// The key of its run.
    pub run: i64,
    /// Its index among the lineages of the run, in the order of their creation.
    pub number: i64,
    pub name: String,
    /// The key of the lineage that it left, and the position of the event after which it did. Only
    /// the first lineage of a run has none.
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
    /// Returns the lineage that the database of a storage directory begins with, without events.
    pub(in crate::storage) fn first(name: &str) -> Self {
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
    pub(in crate::storage) fn start(&self) -> i64 {
        self.origin.map_or(0, |(_, at)| at)
    }

    /// Counts an event that was appended, with its size in bytes and its checksum.
    pub(in crate::storage) fn count_event(&mut self, event: &Event, weight: usize, sum: u32) {
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

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>> {
        let origin: (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
        let read = Self {
            id: row.get(0)?,
            run: row.get(1)?,
            number: row.get(2)?,
            name: row.get(3)?,
            origin: origin.0.zip(origin.1),
            events: row.get(6)?,
            last_checksum: row.get(7)?,
            forgotten_until: row.get(8)?,
            spent: row.get(9)?,
            bytes_since_snapshot: row.get(10)?,
        };
        let sum: u32 = row.get(11)?;
        Ok(match sum == read.checksum() {
            true if read.is_valid() => Ok(read),
            true => Err(DecodeError::OutOfRange),
            false => Err(DecodeError::Checksum),
        })
    }

    /// Inserts it into the database.
    pub(in crate::storage) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO lineage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let row = params![
            self.id,
            self.run,
            self.number,
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
    pub(in crate::storage) fn update(&self, conn: &Connection) -> rusqlite::Result<()> {
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

/// A run, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::storage) struct StoredRun {
    /// Its key.
    pub id: i64,
    pub name: String,
    /// The epoch of the newest lease under which it was changed.
    pub epoch: i64,
    /// The lineage that it continues.
    pub lineage: i64,
    /// The first unused public line when that was last changed.
    pub next_line: i64,
}

impl StoredRun {
    fn checksum(&self) -> u32 {
        let numbers = [self.id, self.epoch, self.lineage, self.next_line];
        codec::checksum(&numbers, self.name.as_bytes())
    }

    /// Inserts it into the database, or replaces it there.
    pub(in crate::storage) fn write(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO run VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let row = params![
            self.id,
            self.name,
            self.epoch,
            self.lineage,
            self.next_line,
            self.checksum()
        ];
        conn.execute(sql, row).map(drop)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Result<Self, DecodeError>> {
        let read = Self {
            id: row.get(0)?,
            name: row.get(1)?,
            epoch: row.get(2)?,
            lineage: row.get(3)?,
            next_line: row.get(4)?,
        };
        let sum: u32 = row.get(5)?;
        Ok(match sum == read.checksum() {
            true if read.epoch >= 0 => line_number(read.next_line).map(|_| read),
            true => Err(DecodeError::OutOfRange),
            false => Err(DecodeError::Checksum),
        })
    }
}

/// Returns the epoch of the newest lease under which a run was changed.
pub(in crate::storage) fn stored_epoch(conn: &Connection, run: i64) -> rusqlite::Result<i64> {
    conn.prepare_cached("SELECT epoch FROM run WHERE id = ?1")?
        .query_row([run], |row| row.get(0))
}

/// A segment of a path: consecutive events of one lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storage) struct PathSegment {
    pub lineage: i64,
    /// The position before its first event.
    pub after: i64,
    /// The position of its last event.
    pub until: i64,
}

/// The events from the beginning of the run to a position in a lineage, oldest segment first. Only
/// the first segment may be empty.
pub(in crate::storage) type EventPath = Vec<PathSegment>;

impl Reader {
    /// Returns the lineage that this reader reads: the one it was switched to, otherwise the
    /// current one.
    pub(in crate::storage) fn selected_lineage(&self) -> Result<StoredLineage, StoreError> {
        let id = match self.selected {
            Some(id) => id,
            None => self.stored_run()?.lineage,
        };
        self.lineage_by_id(id)
    }

    /// Returns the run that this reader reads.
    pub(in crate::storage) fn stored_run(&self) -> Result<StoredRun, StoreError> {
        let mut statement = self.prepare("SELECT * FROM run WHERE id = ?1")?;
        let row = statement
            .query_row([self.run], StoredRun::from_row)
            .map_err(|e| self.error("read", e))?;
        row.map_err(|e| self.decode_error("what its newest state is", e))
    }

    /// Returns the key of the first lineage of the run.
    pub(in crate::storage) fn first_lineage(&self) -> Result<i64, StoreError> {
        let sql = "SELECT id FROM lineage WHERE run = ?1 AND number = 0";
        self.prepare(sql)?
            .query_row([self.run], |row| row.get(0))
            .map_err(|e| self.error("read", e))
    }

    /// Returns the key that the next lineage of the database gets.
    pub(in crate::storage) fn next_lineage_id(&self) -> Result<i64, StoreError> {
        self.prepare("SELECT coalesce(max(id) + 1, 0) FROM lineage")?
            .query_row([], |row| row.get(0))
            .map_err(|e| self.error("read", e))
    }

    /// Returns a lineage by its key.
    pub(in crate::storage) fn lineage_by_id(&self, id: i64) -> Result<StoredLineage, StoreError> {
        self.with_newest_events(self.lineage_as_stored(id)?)
    }

    /// Returns a lineage as its row says, without the events that were appended since the row was
    /// written.
    pub(in crate::storage) fn lineage_as_stored(
        &self,
        id: i64,
    ) -> Result<StoredLineage, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE id = ?1 AND run = ?2")?;
        let row = statement
            .query_row([id, self.run], StoredLineage::from_row)
            .map_err(|e| self.error("read", e))?;
        row.map_err(|e| self.decode_error("a lineage", e))
    }

    /// Returns a lineage by its name.
    pub(in crate::storage) fn lineage_by_name(
        &self,
        name: &str,
    ) -> Result<Option<StoredLineage>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE run = ?1 AND name = ?2")?;
        let row = statement
            .query_row(params![self.run, name], StoredLineage::from_row)
            .optional()
            .map_err(|e| self.error("read", e))?;
        let row = row
            .transpose()
            .map_err(|e| self.decode_error("a lineage", e))?;
        row.map(|row| self.with_newest_events(row)).transpose()
    }

    /// Returns all lineages of the run, in the order of their creation.
    pub(in crate::storage) fn stored_lineages(&self) -> Result<Vec<StoredLineage>, StoreError> {
        self.lineages_of(self.run)
    }

    /// Returns the lineages of all other runs.
    pub(in crate::storage) fn lineages_of_others(&self) -> Result<Vec<StoredLineage>, StoreError> {
        let mut statement = self.prepare("SELECT id FROM run WHERE id <> ?1")?;
        let runs = statement
            .query_map([self.run], |row| row.get(0))
            .and_then(|runs| runs.collect::<rusqlite::Result<Vec<i64>>>())
            .map_err(|e| self.error("read", e))?;
        let mut all = Vec::new();
        for run in runs {
            all.append(&mut self.lineages_of(run)?);
        }
        Ok(all)
    }

    fn lineages_of(&self, run: i64) -> Result<Vec<StoredLineage>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE run = ?1 ORDER BY number")?;
        let rows = statement
            .query_map([run], StoredLineage::from_row)
            .map_err(|e| self.error("read", e))?;
        let rows = rows
            .collect::<rusqlite::Result<Result<Vec<StoredLineage>, DecodeError>>>()
            .map_err(|e| self.error("read", e))?;
        let rows = rows.map_err(|e| self.decode_error("a lineage", e))?;
        match rows
            .iter()
            .zip(0..)
            .all(|(row, number)| row.number == number)
        {
            true if !rows.is_empty() => rows
                .into_iter()
                .map(|row| self.with_newest_events(row))
                .collect(),
            _ => Err(self.corrupt("a lineage is missing".into())),
        }
    }

    /// Returns the path to a position in a lineage.
    pub(in crate::storage) fn path_to(
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
