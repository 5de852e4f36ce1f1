//! Lineages in the database: a row each, and the path of events from the beginning of the run to a
//! position in one of them. What a lineage means is defined in the core; events are read along a
//! path in `reader`.
//!
//! The *position* of an event on a path is its number, counted from the beginning of the run.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use strata_core::event::Event;

use super::codec::{self, Damage};
use super::cost_of;
use super::error::StoreError;
use super::reader::{Reader, number};

/// The key of the lineage that a storage begins with.
pub(super) const FIRST: i64 = 0;

/// How many bits of an event's key hold its position: a million million events along one path.
const PLACE_BITS: u32 = 40;
/// How many lineages fit into the rest of a positive key: four million.
pub(super) const MAX_LINEAGES: i64 = 1 << 22;
/// The largest position that is accepted when a row is read. It is half of what a key can hold, so
/// that a run can continue from any of them.
pub(super) const MAX_PLACE: i64 = 1 << (PLACE_BITS - 1);

/// Returns the key of the event of a lineage at a position. In the first lineage the keys equal the
/// positions.
pub(super) fn key(lineage: i64, at: i64) -> i64 {
    assert!(
        at >> PLACE_BITS == 0 && (0..MAX_LINEAGES).contains(&lineage),
        "no path has that many events"
    );
    lineage << PLACE_BITS | at
}

/// Returns the position that is part of a key.
pub(super) fn place(key: i64) -> i64 {
    key & ((1 << PLACE_BITS) - 1)
}

/// Returns the lowest and the highest key of a lineage's events.
pub(super) fn keys(lineage: i64) -> (i64, i64) {
    (key(lineage, 0), key(lineage, (1 << PLACE_BITS) - 1))
}

/// A lineage, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub id: i64,
    pub name: String,
    /// The lineage that it left, and the position of the event after which it did.
    pub origin: Option<(i64, i64)>,
    /// The position of its last event. The row in the database may lag behind; see
    /// `Reader::with_newest`.
    pub events: i64,
    /// The checksum of its last event. It reveals a database that lost its end.
    pub last: u32,
    /// Checkpoints up to this position are forgotten, except those that have to be kept.
    pub forgotten: i64,
    /// What its own events spent, in the units of `Usd`. The first lineage includes what was spent
    /// before.
    pub spent: i64,
    /// The size of the events after the newest snapshot on its path, in bytes: what a load would
    /// have to apply.
    pub since: i64,
}

impl Row {
    /// Returns the lineage that a storage begins with, without events.
    pub(super) fn first(name: &str) -> Self {
        Self {
            id: FIRST,
            name: name.into(),
            origin: None,
            events: 0,
            last: 0,
            forgotten: 0,
            spent: 0,
            since: 0,
        }
    }

    /// Returns the position of the last event before its own.
    pub(super) fn begin(&self) -> i64 {
        self.origin.map_or(0, |(_, at)| at)
    }

    /// Counts an event that was appended, with its size in bytes and its checksum.
    pub(super) fn add(&mut self, event: &Event, weight: usize, sum: u32) {
        let cost = i64::try_from(cost_of(event).0).unwrap_or(i64::MAX);
        self.spent = self.spent.saturating_add(cost);
        self.since = self.since.saturating_add(weight as i64);
        (self.events, self.last) = (self.events + 1, sum);
    }

    fn sum(&self) -> u32 {
        let (origin, at) = self.origin.unwrap_or((-1, -1));
        let last = i64::from(self.last);
        let numbers = [
            self.id,
            origin,
            at,
            self.events,
            last,
            self.forgotten,
            self.spent,
            self.since,
        ];
        codec::checksum(&numbers, self.name.as_bytes())
    }

    /// Whether the values are in range. A matching checksum does not prove that this program wrote
    /// them.
    fn is_possible(&self) -> bool {
        let is_origin_valid = match self.origin {
            Some((origin, at)) => (0..self.id).contains(&origin) && (0..=self.events).contains(&at),
            None => true,
        };
        (FIRST..MAX_LINEAGES).contains(&self.id)
            && is_origin_valid
            && [self.events, self.forgotten]
                .iter()
                .all(|place| (0..=MAX_PLACE).contains(place))
            && [self.spent, self.since].iter().all(|sum| *sum >= 0)
    }

    fn read(row: &SqlRow<'_>) -> rusqlite::Result<Result<Self, Damage>> {
        let origin: (Option<i64>, Option<i64>) = (row.get(2)?, row.get(3)?);
        let read = Self {
            id: row.get(0)?,
            name: row.get(1)?,
            origin: origin.0.zip(origin.1),
            events: row.get(4)?,
            last: row.get(5)?,
            forgotten: row.get(6)?,
            spent: row.get(7)?,
            since: row.get(8)?,
        };
        let sum: u32 = row.get(9)?;
        Ok(match sum == read.sum() {
            true if read.is_possible() => Ok(read),
            true => Err(Damage::Numbers),
            false => Err(Damage::Checksum),
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
            self.last,
            self.forgotten,
            self.spent,
            self.since,
            self.sum()
        ];
        conn.execute(sql, row).map(drop)
    }

    /// Writes the columns that change.
    pub(super) fn update(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE lineage SET events = ?2, last = ?3, forgotten = ?4, spent = ?5, since = ?6, sum = ?7 WHERE id = ?1";
        let row = params![
            self.id,
            self.events,
            self.last,
            self.forgotten,
            self.spent,
            self.since,
            self.sum()
        ];
        conn.prepare_cached(sql)?.execute(row).map(drop)
    }
}

/// The lineage that a run continues, and the first unused public line when that was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub lineage: i64,
    pub line: i64,
}

impl Head {
    pub(super) fn write(self, conn: &Connection) -> rusqlite::Result<()> {
        let sum = codec::checksum(&[self.lineage, self.line], &[]);
        let sql = "INSERT OR REPLACE INTO head VALUES (1, ?1, ?2, ?3)";
        conn.execute(sql, params![self.lineage, self.line, sum])
            .map(drop)
    }
}

/// A segment of a path: consecutive events of one lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub lineage: i64,
    /// The position before its first event.
    pub after: i64,
    /// The position of its last event.
    pub until: i64,
}

/// The events from the beginning of the run to a position in a lineage, oldest segment first. Only
/// the first segment may be empty.
pub(super) type Path = Vec<Piece>;

impl Reader {
    /// Returns the lineage that this reader reads: the one it was switched to, otherwise the
    /// current one.
    pub(super) fn line(&self) -> Result<Row, StoreError> {
        let id = match self.turned {
            Some(id) => id,
            None => self.current()?.lineage,
        };
        self.row(id)
    }

    /// Returns the current lineage.
    pub(super) fn current(&self) -> Result<Head, StoreError> {
        let read = |row: &SqlRow<'_>| {
            Ok((
                Head {
                    lineage: row.get(0)?,
                    line: row.get(1)?,
                },
                row.get::<_, u32>(2)?,
            ))
        };
        let mut statement = self.prepare("SELECT lineage, line, sum FROM head")?;
        let (head, sum) = statement
            .query_row([], read)
            .map_err(|e| self.error("read", e))?;
        let known =
            codec::verify(sum, &[head.lineage, head.line], &[]).and_then(|()| number(head.line));
        known.map_err(|e| self.damaged("what its newest state is", e))?;
        Ok(head)
    }

    /// Returns a lineage by its key.
    pub(super) fn row(&self, id: i64) -> Result<Row, StoreError> {
        self.with_newest(self.row_as_it_is(id)?)
    }

    /// Returns a lineage as its row says, without the events that were appended since the row was
    /// written.
    pub(super) fn row_as_it_is(&self, id: i64) -> Result<Row, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE id = ?1")?;
        let row = statement
            .query_row([id], Row::read)
            .map_err(|e| self.error("read", e))?;
        row.map_err(|e| self.damaged("a lineage", e))
    }

    /// Returns a lineage by its name.
    pub(super) fn row_named(&self, name: &str) -> Result<Option<Row>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE name = ?1")?;
        let row = statement
            .query_row([name], Row::read)
            .optional()
            .map_err(|e| self.error("read", e))?;
        let row = row.transpose().map_err(|e| self.damaged("a lineage", e))?;
        row.map(|row| self.with_newest(row)).transpose()
    }

    /// Returns all lineages, in the order of their creation.
    pub(super) fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage ORDER BY id")?;
        let rows = statement
            .query_map([], Row::read)
            .map_err(|e| self.error("read", e))?;
        let rows = rows
            .collect::<rusqlite::Result<Result<Vec<Row>, Damage>>>()
            .map_err(|e| self.error("read", e))?;
        let rows = rows.map_err(|e| self.damaged("a lineage", e))?;
        match rows.iter().zip(FIRST..).all(|(row, id)| row.id == id) {
            true if !rows.is_empty() => rows.into_iter().map(|row| self.with_newest(row)).collect(),
            _ => Err(self.corrupt("a lineage is missing".into())),
        }
    }

    /// Returns the path to a position in a lineage.
    pub(super) fn path(&self, line: &Row, until: i64) -> Result<Path, StoreError> {
        let mut path = vec![Piece {
            lineage: line.id,
            after: line.begin(),
            until,
        }];
        let mut line = line.clone();
        while let Some((origin, at)) = line.origin {
            // Each lineage has a higher key than the one it left, so the loop ends.
            let left = line.name;
            line = self.row(origin)?;
            if at > line.events {
                return Err(self.corrupt(format!("lineage `{left}` leaves one after its end")));
            }
            path.push(Piece {
                lineage: origin,
                after: line.begin(),
                until: at,
            });
        }
        path.reverse();
        Ok(path)
    }
}
