//! Lineages as the database has them: a row each, and the path of events from the beginning of the run to one of
//! them. What a lineage means is in the core; reading events along a path is in `reader`.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use strata_core::event::Event;

use super::codec::{self, Damage};
use super::cost_of;
use super::error::StoreError;
use super::reader::{Reader, number};

/// The lineage a storage begins with.
pub(super) const FIRST: i64 = 0;

/// How many bits of a key the place on the path has: a million million events, along one path.
const PLACE_BITS: u32 = 40;
/// What is left for lineages in a key that is positive: four million of them.
pub(super) const MAX_LINEAGES: i64 = 1 << 22;
/// What a row may tell of: half of what a key has room for, so that a run can go on from any place that is read.
pub(super) const MAX_PLACE: i64 = 1 << (PLACE_BITS - 1);

/// The key of the event of a lineage at a place on its path. The first lineage has plain numbers.
pub(super) fn key(lineage: i64, at: i64) -> i64 {
    assert!(
        at >> PLACE_BITS == 0 && (0..MAX_LINEAGES).contains(&lineage),
        "no path has that many events"
    );
    lineage << PLACE_BITS | at
}

/// The place on the path in a key.
pub(super) fn place(key: i64) -> i64 {
    key & ((1 << PLACE_BITS) - 1)
}

/// The keys of a lineage.
pub(super) fn keys(lineage: i64) -> (i64, i64) {
    (key(lineage, 0), key(lineage, (1 << PLACE_BITS) - 1))
}

/// A lineage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub id: i64,
    pub name: String,
    /// The lineage it left, and the place of the event after which it did.
    pub origin: Option<(i64, i64)>,
    /// The place of its last event. In the database it may be one before that; see `Reader::with_newest`.
    pub events: i64,
    /// The checksum of that event; a file that lost its end is noticed by it.
    pub last: u32,
    /// Checkpoints up to this place are forgotten, as far as they may be.
    pub forgotten: i64,
    /// What its own events spent, in the units of `Usd`; for the first, with what was spent before.
    pub spent: i64,
    /// How much its events weigh after the newest snapshot on its path, in bytes: what a load would have to apply.
    pub since: i64,
}

impl Row {
    /// The lineage a storage begins with, without an event.
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

    /// How many events were there before its own.
    pub(super) fn begin(&self) -> i64 {
        self.origin.map_or(0, |(_, at)| at)
    }

    /// An event follows on its last, of so many bytes and with this checksum.
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

    /// Whether a storage can hold it: a checksum does not say that it was us who wrote it.
    fn is_possible(&self) -> bool {
        let left = |(origin, at): (i64, i64)| {
            (0..self.id).contains(&origin) && (0..=self.events).contains(&at)
        };
        (FIRST..MAX_LINEAGES).contains(&self.id)
            && self.origin.is_none_or(left)
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

    /// Adds it to the database.
    pub(super) fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO lineage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let (origin, at) = (
            self.origin.map(|origin| origin.0),
            self.origin.map(|origin| origin.1),
        );
        let (changes, sum) = (
            (
                self.events,
                self.last,
                self.forgotten,
                self.spent,
                self.since,
            ),
            self.sum(),
        );
        let (events, last, forgotten, spent, since) = changes;
        let row = params![
            self.id, self.name, origin, at, events, last, forgotten, spent, since, sum
        ];
        conn.execute(sql, row).map(drop)
    }

    /// Writes what changes about it.
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

/// Which lineage a run goes on with, and the first public line that none used when that was last changed.
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

/// A piece of a path: events of one lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub lineage: i64,
    /// The place before its first.
    pub after: i64,
    /// The place of its last.
    pub until: i64,
}

/// The events from the beginning of the run to a place in a lineage, oldest piece first. Only the first may be empty.
pub(super) type Path = Vec<Piece>;

impl Reader {
    /// The lineage this reader reads: the one it was turned to, else the current one, with its last event.
    pub(super) fn line(&self) -> Result<Row, StoreError> {
        let id = match self.turned {
            Some(id) => id,
            None => self.current()?.lineage,
        };
        self.row(id)
    }

    /// The current lineage.
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

    /// A lineage by its number.
    pub(super) fn row(&self, id: i64) -> Result<Row, StoreError> {
        self.with_newest(self.row_as_it_is(id)?)
    }

    /// The same without the events that its row does not tell of yet.
    pub(super) fn row_as_it_is(&self, id: i64) -> Result<Row, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE id = ?1")?;
        let row = statement
            .query_row([id], Row::read)
            .map_err(|e| self.error("read", e))?;
        row.map_err(|e| self.damaged("a lineage", e))
    }

    /// A lineage by its name.
    pub(super) fn row_named(&self, name: &str) -> Result<Option<Row>, StoreError> {
        let mut statement = self.prepare("SELECT * FROM lineage WHERE name = ?1")?;
        let row = statement
            .query_row([name], Row::read)
            .optional()
            .map_err(|e| self.error("read", e))?;
        let row = row.transpose().map_err(|e| self.damaged("a lineage", e))?;
        row.map(|row| self.with_newest(row)).transpose()
    }

    /// All lineages, in the order of their making.
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

    /// The path to a place in a lineage.
    pub(super) fn path(&self, line: &Row, until: i64) -> Result<Path, StoreError> {
        let mut path = vec![Piece {
            lineage: line.id,
            after: line.begin(),
            until,
        }];
        let mut line = line.clone();
        while let Some((origin, at)) = line.origin {
            // Each lineage is younger than the one it left, so the way up ends.
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
