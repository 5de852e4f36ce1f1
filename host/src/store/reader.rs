//! Reading `team.db`, with and without its lock. Nothing here writes.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use strata_core::environment::Environment;

use super::codec::{self, Damage};
use super::directory::{DATABASE, Directory};
use super::error::StoreError;
use super::{At, CheckpointRow, FIRST_LINE, Record, Saved, SavedDefinition, checkpoint_of, list_checkpoints, schema};

/// The columns of an event, in the order in which `record` reads them.
const EVENT: &str = "n, line, lines, time_ms, marks, sum, body";

/// The number of the first event.
const FIRST_EVENT: i64 = 1;

/// A `team.db`, open to be read.
#[derive(Debug)]
pub struct Reader {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    sight: Sight,
}

/// What a reader sees of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Each commit, once it is complete.
    Commits,
    /// Nothing: the file as it lay there when nobody was writing it.
    Still,
}

impl Reader {
    /// Opens the database of a directory, which another process may be writing. Nothing is created or changed.
    pub fn open(directory: &Directory) -> Result<Self, StoreError> {
        let path = directory.path().join(DATABASE);
        schema::recognise(&path)?;
        // Without a log beside it the file is complete, and reading it needs neither locks nor files beside it, which
        // SQLite would otherwise create.
        let sight = if has_log(&path) { Sight::Commits } else { Sight::Still };
        Self::look(path, sight)
    }

    fn look(path: PathBuf, sight: Sight) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let open = Connection::open_with_flags(uri(&path, sight), flags);
        let conn = open.map_err(|e| StoreError::sqlite(&path, "open", e))?;
        let (reader, _) = Self::ready(conn, path)?;
        reader.head()?;
        Ok(Self { sight, ..reader })
    }

    /// Reads something. A writer that started after we had looked may have changed the file under our eyes: then it
    /// does not pass the checksums, and there is a log now, so we look again.
    fn steadily<T>(&self, read: impl Fn(&Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match read(self) {
            Err(StoreError::Corrupt { .. }) if self.sight == Sight::Still && has_log(&self.path) => {
                read(&Self::look(self.path.clone(), Sight::Commits)?)
            }
            result => result,
        }
    }

    /// Makes a connection ready; tells the version of the schema as well.
    pub(super) fn ready(conn: Connection, path: PathBuf) -> Result<(Self, usize), StoreError> {
        let set = || {
            // The file may come from anywhere: nothing in its schema may run, and cells are checked as pages are read.
            conn.pragma_update(None, "trusted_schema", false)?;
            conn.pragma_update(None, "cell_size_check", true)?;
            conn.pragma_update(None, "temp_store", "memory")
        };
        set().map_err(|e| StoreError::sqlite(&path, "open", e))?;
        let version = schema::version(&conn, &path)?;
        Ok((Self { conn, path, sight: Sight::Commits }, version))
    }

    /// A saved state.
    pub fn load(&self, at: &At) -> Result<Saved, StoreError> {
        self.steadily(|reader| reader.load_now(at))
    }

    fn load_now(&self, at: &At) -> Result<Saved, StoreError> {
        let _same = self.stand_still()?;
        let (head, _) = self.head()?;
        let end = match at {
            At::Head => head,
            At::Checkpoint(id) => match self.find(&id.0)? {
                Some(n) => n,
                None => return Err(self.no_checkpoint(&id.0)),
            },
        };
        let (start, base) = self.snapshot(end)?;
        let tail = self.range(start + 1, end)?;
        let next_line = match tail.last() {
            Some(_) => super::next_line(tail.last()),
            None if end == 0 => FIRST_LINE,
            None => super::next_line(self.range(end, end)?.last()),
        };
        let newest = tail.iter().rev().find_map(|record| checkpoint_of(&record.event)).or(base.checkpoint.as_ref());
        match at {
            At::Checkpoint(id) if newest != Some(id) => {
                Err(self.corrupt(format!("event {end} is not the one that made checkpoint `{id}`")))
            }
            _ => Ok(Saved { base, tail, next_line }),
        }
    }

    /// All checkpoints, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        self.steadily(Self::checkpoints_now)
    }

    fn checkpoints_now(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        let _same = self.stand_still()?;
        let (_, base) = self.snapshot(0)?;
        let marking: Vec<_> = self.marking()?.into_iter().map(|(_, record)| record).collect();
        Ok(list_checkpoints(&base, &marking))
    }

    /// At most `limit` events, oldest first, without the first `from`.
    pub fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.steadily(|reader| reader.records_now(from, limit))
    }

    fn records_now(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        let _same = self.stand_still()?;
        let (head, _) = self.head()?;
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.range(from.saturating_add(1), head.min(from.saturating_add(limit)))
    }

    /// The team file the run goes by.
    pub fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.steadily(Self::definition_now)
    }

    fn definition_now(&self) -> Result<SavedDefinition, StoreError> {
        let read = |row: &Row<'_>| {
            let parts: [String; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
            Ok((parts, row.get::<_, u32>(4)?))
        };
        let row = self.conn.query_row("SELECT name, base, text, components, sum FROM definition", [], read);
        let (parts, sum) = row.map_err(|e| self.error("read", e))?;
        codec::verify(sum, &[], definition_bytes(parts.each_ref().map(String::as_str)).as_bytes())
            .map_err(|e| self.damaged("the team file in it", e))?;
        let [name, base, text, components] = parts;
        let components = serde_json::from_str(&components).map_err(|e| self.corrupt(e.to_string()))?;
        Ok(SavedDefinition { name, base: base.into(), text, components })
    }

    /// How many events there are, and the checksum of the last.
    pub(super) fn head(&self) -> Result<(i64, u32), StoreError> {
        let row = self.conn.query_row("SELECT events, sum FROM head", [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (events, sum): (i64, u32) = row.map_err(|e| self.error("read", e))?;
        let last = "SELECT n, sum FROM event ORDER BY n DESC LIMIT 1";
        let last = self.conn.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?))).optional();
        let last: (i64, u32) = last.map_err(|e| self.error("read", e))?.unwrap_or((0, 0));
        if last != (events, sum) {
            return Err(self.corrupt(format!("it should end with event {events}, and ends with event {}", last.0)));
        }
        Ok((events, sum))
    }

    /// The number of the newest snapshot, and how large it is.
    pub(super) fn newest_snapshot(&self) -> Result<(i64, u64), StoreError> {
        let newest = "SELECT n, length(body) FROM snapshot ORDER BY n DESC LIMIT 1";
        let row = self.conn.query_row(newest, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)));
        row.map_err(|e| self.error("read", e))
    }

    /// How much the events after the n-th weigh.
    pub(super) fn weight_after(&self, n: i64) -> Result<u64, StoreError> {
        let sum = "SELECT coalesce(sum(length(body)), 0) FROM event WHERE n > ?1";
        let weight = self.conn.query_row(sum, [n], |row| row.get::<_, i64>(0));
        weight.map(|weight| weight as u64).map_err(|e| self.error("read", e))
    }

    /// The newest snapshot that was taken after at most `n` events.
    fn snapshot(&self, n: i64) -> Result<(i64, Environment), StoreError> {
        let newest = "SELECT n, sum, body FROM snapshot WHERE n <= ?1 ORDER BY n DESC LIMIT 1";
        let mut statement = self.conn.prepare_cached(newest).map_err(|e| self.error("read", e))?;
        let decode = |row: &Row<'_>| {
            let (n, sum): (i64, u32) = (row.get(0)?, row.get(1)?);
            let body = row.get_ref(2)?.as_blob()?;
            Ok((n, codec::verify(sum, &[n], body).and_then(|()| codec::decode_snapshot(body))))
        };
        let found = statement.query_row([n], decode).map_err(|e| self.error("read", e))?;
        let env = found.1.map_err(|e| self.damaged(&format!("the snapshot after event {}", found.0), e))?;
        Ok((found.0, env))
    }

    /// The events from the first to the last of these numbers, without a gap.
    fn range(&self, first: i64, last: i64) -> Result<Vec<Record>, StoreError> {
        let found = self.select("n BETWEEN ?2 AND ?1", (last, first))?;
        let mut expected = first;
        for (n, _) in &found {
            if *n != expected {
                return Err(self.corrupt(format!("event {expected} is missing")));
            }
            expected += 1;
        }
        if expected <= last {
            return Err(self.corrupt(format!("event {expected} is missing")));
        }
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    fn select(&self, condition: &str, (last, first): (i64, i64)) -> Result<Vec<(i64, Record)>, StoreError> {
        let sql = format!("SELECT {EVENT} FROM event WHERE {condition} ORDER BY n");
        let mut statement = self.conn.prepare_cached(&sql).map_err(|e| self.error("read", e))?;
        let rows = statement.query_map(params![last, first], |row| Ok((row.get(0)?, record(row)?)));
        let mut found = Vec::new();
        for row in rows.map_err(|e| self.error("read", e))? {
            let (n, record): (i64, Result<Record, Damage>) = row.map_err(|e| self.error("read", e))?;
            found.push((n, record.map_err(|e| self.damaged(&format!("event {n}"), e))?));
        }
        Ok(found)
    }

    /// The number of events up to the one that made a checkpoint; 0 for the state at the beginning.
    fn find(&self, id: &str) -> Result<Option<i64>, StoreError> {
        let (_, base) = self.snapshot(0)?;
        if base.checkpoint.as_ref().is_some_and(|first| first.0 == id) {
            return Ok(Some(0));
        }
        let made = |record: &Record| checkpoint_of(&record.event).is_some_and(|made| made.0 == id);
        Ok(self.marking()?.into_iter().find(|(_, record)| made(record)).map(|(n, _)| n))
    }

    /// The numbers of the events that made checkpoints, without the first and the forgotten ones.
    pub(super) fn later_checkpoints(&self) -> Result<Vec<i64>, StoreError> {
        let after = self.forgotten()?.max(FIRST_EVENT);
        let marking = self.select("n > ?2 AND n <= ?1 AND marks = 1", (i64::MAX, after))?;
        Ok(marking.into_iter().filter(|(_, record)| checkpoint_of(&record.event).is_some()).map(|(n, _)| n).collect())
    }

    /// The events that concern checkpoints which are not forgotten. The first of all is never forgotten: it is that of
    /// the first event, unless the run started from a state that had one.
    fn marking(&self) -> Result<Vec<(i64, Record)>, StoreError> {
        let mut marking = self.select("n BETWEEN ?2 AND ?1 AND marks = 1", (FIRST_EVENT, FIRST_EVENT))?;
        let after = self.forgotten()?.max(FIRST_EVENT);
        marking.extend(self.select("n > ?2 AND n <= ?1 AND marks = 1", (i64::MAX, after))?);
        Ok(marking)
    }

    fn forgotten(&self) -> Result<i64, StoreError> {
        let row = self.conn.query_row("SELECT forgotten FROM head", [], |row| row.get(0));
        row.map_err(|e| self.error("read", e))
    }

    fn no_checkpoint(&self, id: &str) -> StoreError {
        let last = self.checkpoints_now().ok().and_then(|rows| rows.last().map(|row| row.id.0.clone()));
        StoreError::NoCheckpoint { id: id.into(), last }
    }

    /// Lets all reads until the drop see the same state, whatever another process commits meanwhile.
    fn stand_still(&self) -> Result<Option<rusqlite::Transaction<'_>>, StoreError> {
        if !self.conn.is_autocommit() {
            return Ok(None);
        }
        self.conn.unchecked_transaction().map(Some).map_err(|e| self.error("read", e))
    }

    pub(super) fn error(&self, action: &'static str, source: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, action, source)
    }

    fn damaged(&self, what: &str, damage: Damage) -> StoreError {
        self.corrupt(format!("{what} cannot be read: {damage}"))
    }

    fn corrupt(&self, what: String) -> StoreError {
        StoreError::corrupt(&self.path, what)
    }
}

/// An event with what is stored beside it, if its checksum holds.
fn record(row: &Row<'_>) -> rusqlite::Result<Result<Record, Damage>> {
    let (n, line, lines): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (time_ms, marks, sum): (i64, i64, u32) = (row.get(3)?, row.get(4)?, row.get(5)?);
    let body = row.get_ref(6)?.as_blob()?;
    let numbers = [n, line, lines, time_ms, marks];
    let event = codec::verify(sum, &numbers, body).and_then(|()| codec::decode_event(body));
    Ok(event.map(|event| Record { line: line as u64, lines: lines as u32, time_ms, event }))
}

/// What the checksum of a definition covers.
pub(super) fn definition_bytes(parts: [&str; 4]) -> String {
    parts.join("\0")
}

/// Whether a write-ahead log lies beside a database.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// A path as SQLite takes it with options.
fn uri(path: &Path, sight: Sight) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(char::from(*byte)),
            other => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    if sight == Sight::Still {
        uri.push_str("?immutable=1");
    }
    uri
}
