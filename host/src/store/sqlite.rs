//! The store in a file: `team.db`, an SQLite database in WAL mode. Reading it is in `reader`, its tables in `schema`.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use strata_core::environment::Environment;

use super::directory::{DATABASE, TEAM_JSON};
use super::error::StoreError;
use super::lock::Lock;
use super::reader::{Reader, definition_bytes};
use super::{At, CheckpointRow, Durability, Record, Saved, SavedDefinition, Store, codec, file, marks, schema};

/// The database in the making; see `create`.
pub(super) const NEW_DATABASE: &str = ".team.db.new";

/// How long the log grows before SQLite moves it into the database, in pages of 4 KiB: long enough that moving is
/// rare (each time costs two syncs), short enough that reading it after a crash takes milliseconds.
const LOG_PAGES: u32 = 2000;

/// Events that weigh less than this are never worth a snapshot: replaying them takes a few milliseconds.
const MIN_SNAPSHOT_BYTES: u64 = 256 << 10;

/// SQLite's largest blob is 10⁹ bytes; a state beyond that is loaded from the events.
const MAX_SNAPSHOT_BYTES: usize = 900_000_000;

/// Databases up to this size are checked page by page when they are opened; that takes a few milliseconds at most.
const CHECKED_BYTES: u64 = 4 << 20;

/// The store in a file. Its directory stays locked until it is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    // Dropped first: closing the database still needs the lock.
    reader: Reader,
    /// How many events there are.
    events: i64,
    /// How much the events since the newest snapshot weigh.
    since: u64,
    /// How much that snapshot weighs.
    snapshot: u64,
    /// What the connection is set to, where that is known.
    durability: Option<Durability>,
    /// An event on its way, reused.
    buffer: Vec<u8>,
    lock: LockedDirectory,
}

#[derive(Debug)]
struct LockedDirectory {
    path: std::path::PathBuf,
    _lock: Lock,
}

/// What is known of the `team.json` beside the database.
#[derive(Debug, Default)]
struct KnownFile {
    /// The hash of the one that was there before the last was written.
    current: String,
    /// The hash of the one that was written last.
    next: String,
    /// The stamp of that.
    stamp: String,
}

impl SqliteStore {
    /// Creates a database whose run starts from `base`. It appears under its name when it is complete.
    pub(super) fn create(
        lock: Lock,
        directory: &Path,
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Self, StoreError> {
        let (new, path) = (directory.join(NEW_DATABASE), directory.join(DATABASE));
        let fail = |e| StoreError::sqlite(&path, "create", e);
        file::remove(&new).map_err(|e| StoreError::io(&new, "replace", e))?;
        let conn = Connection::open(&new).map_err(fail)?;
        fill(&conn, base, definition).map_err(fail)?;
        conn.close().map_err(|(_, e)| fail(e))?;
        let publish = || {
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &path)
        };
        publish().map_err(|e| StoreError::io(&path, "create", e))?;
        file::sync_directory(directory)?;
        Self::open(lock, directory)
    }

    /// Opens the database of a directory.
    pub(super) fn open(lock: Lock, directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE);
        schema::recognise(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |e| StoreError::sqlite(&path, "open", e);
        let conn = Connection::open_with_flags(&path, flags).map_err(fail)?;
        conn.pragma_update(None, "wal_autocheckpoint", LOG_PAGES).map_err(fail)?;
        conn.pragma_update(None, "synchronous", level(Durability::Full)).map_err(fail)?;
        let (reader, version) = Reader::ready(conn, path.clone())?;
        check_pages(&reader)?;
        if (version as i64) < schema::VERSION {
            let tx = reader.conn.unchecked_transaction().map_err(fail)?;
            schema::migrate(&reader.conn, version).map_err(fail)?;
            tx.commit().map_err(fail)?;
        }
        let (events, _) = reader.head()?;
        let (at, snapshot) = reader.newest_snapshot()?;
        let since = reader.weight_after(at)?;
        let lock = LockedDirectory { path: directory.to_path_buf(), _lock: lock };
        Ok(Self { reader, events, since, snapshot, durability: Some(Durability::Full), buffer: Vec::new(), lock })
    }

    /// Whether the `team.json` beside the database is another than the one that was written last. A missing one is
    /// not: it is written again at the next stop.
    pub(super) fn team_json_differs(&self) -> Result<bool, StoreError> {
        let path = self.lock.path.join(TEAM_JSON);
        let known = self.known_team_json()?;
        if file::stamp(&path).is_some_and(|stamp| stamp == known.stamp) {
            return Ok(false);
        }
        let Some(bytes) = file::read(&path)? else { return Ok(false) };
        Ok(![known.current, known.next].contains(&file::hash(&bytes)))
    }

    /// Remembers a `team.json` that lies beside the database already.
    pub(super) fn know_team_json(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let hash = file::hash(bytes);
        // It may have been replaced since it was read: only what was read is known.
        let known = KnownFile { current: hash.clone(), next: hash, stamp: String::new() };
        self.transact(Durability::Full, |conn| put_team_json(conn, &known))
    }

    /// Lets the disk be full once the database has this many pages.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, max: u32) {
        self.reader.conn.pragma_update(None, "max_page_count", max).unwrap();
    }

    /// Writes the next `team.json` and remembers it; it is not in its place yet.
    pub(super) fn prepare_team_json(&mut self, text: &str) -> Result<file::Prepared, StoreError> {
        let known = self.known_team_json()?;
        let new = file::prepare(&self.lock.path, TEAM_JSON, text.as_bytes())?;
        let there = file::read(&self.lock.path.join(TEAM_JSON))?.map(|bytes| file::hash(&bytes));
        // Both are remembered before one takes the other's place: whichever a crash leaves behind is known.
        let current = if there.as_ref() == Some(&known.next) { known.next } else { known.current };
        let stamp = new.stamp().unwrap_or_default();
        let known = KnownFile { current, next: file::hash(text.as_bytes()), stamp };
        self.transact(Durability::Full, |conn| put_team_json(conn, &known))?;
        Ok(new)
    }

    fn known_team_json(&self) -> Result<KnownFile, StoreError> {
        let read =
            |row: &rusqlite::Row<'_>| Ok(KnownFile { current: row.get(0)?, next: row.get(1)?, stamp: row.get(2)? });
        let row = self.reader.conn.query_row("SELECT current, next, stamp FROM team_json", [], read).optional();
        Ok(row.map_err(|e| self.reader.error("read", e))?.unwrap_or_default())
    }

    /// One transaction: all of it or nothing.
    fn transact(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let conn = &self.reader.conn;
        let run = |sql: &str| conn.prepare_cached(sql)?.execute([]).map(drop);
        let all = || {
            if self.durability != Some(durability) {
                conn.pragma_update(None, "synchronous", level(durability))?;
            }
            run("BEGIN IMMEDIATE")?;
            work(conn)?;
            run("COMMIT")
        };
        let result = all();
        self.durability = result.is_ok().then_some(durability);
        if result.is_err() && !conn.is_autocommit() {
            // The transaction ends with the connection if it cannot be ended now: nothing of it is ever seen.
            let _ = conn.execute_batch("ROLLBACK");
        }
        result.map_err(|e| self.reader.error("write", e))
    }

    /// SQLite would go on writing to open files in a directory that is gone or no longer ours to write; but then the
    /// run could never be saved in an orderly way.
    fn check_directory(&self) -> Result<(), StoreError> {
        let path = &self.lock.path;
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|e| StoreError::io(path, "write", e.into()))
    }
}

impl Store for SqliteStore {
    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        self.check_directory()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let (first, mut weight) = (self.events + 1, 0);
        let result = self.transact(durability, |conn| {
            let mut last = 0;
            for (n, record) in (first..).zip(records) {
                buffer.clear();
                buffer = codec::encode_event(&record.event, std::mem::take(&mut buffer));
                weight += buffer.len() as u64;
                last = insert(conn, n, record, &buffer)?;
            }
            let head = "UPDATE head SET events = ?1, sum = ?2";
            conn.prepare_cached(head)?.execute(params![first + records.len() as i64 - 1, last]).map(drop)
        });
        self.buffer = buffer;
        result?;
        self.events += records.len() as i64;
        self.since += weight;
        Ok(())
    }

    fn snapshot_due(&self) -> bool {
        self.since > self.snapshot.max(MIN_SNAPSHOT_BYTES)
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        let body = codec::encode_snapshot(env);
        if body.len() <= MAX_SNAPSHOT_BYTES {
            let n = self.events;
            // It may be lost with the power: the events it sums up are not.
            self.transact(Durability::Process, |conn| {
                conn.execute("DELETE FROM snapshot WHERE n > 0", [])?;
                put_snapshot(conn, n, &body)
            })?;
        }
        (self.since, self.snapshot) = (0, body.len() as u64);
        Ok(())
    }

    fn load(&self, at: &At) -> Result<Saved, StoreError> {
        self.reader.load(at)
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        self.reader.checkpoints()
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        let made = self.reader.later_checkpoints()?;
        let over = made.len().saturating_sub(keep as usize);
        let Some(last) = made[..over].last() else { return Ok(()) };
        self.transact(Durability::Process, |conn| {
            conn.prepare_cached("UPDATE head SET forgotten = ?1")?.execute([last]).map(drop)
        })
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.records(from, limit)
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.reader.definition()
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        self.transact(Durability::Full, |conn| put_definition(conn, definition))
    }

    fn write_team_json(&mut self, text: &str) -> Result<(), StoreError> {
        self.prepare_team_json(text)?.publish()
    }
}

fn level(durability: Durability) -> &'static str {
    match durability {
        // The log is written at each commit and synced when it is moved into the database.
        Durability::Process => "normal",
        // The log is synced at each commit, with all that was written to it before.
        Durability::Full => "full",
    }
}

/// Fills a new database, which nobody sees yet: it needs no sync before it is complete.
fn fill(conn: &Connection, base: &Environment, definition: &SavedDefinition) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "off")?;
    let tx = conn.unchecked_transaction()?;
    schema::create(conn)?;
    conn.execute("INSERT INTO head VALUES (1, 0, 0, 0)", [])?;
    put_snapshot(conn, 0, &codec::encode_snapshot(base))?;
    put_definition(conn, definition)?;
    tx.commit()?;
    conn.pragma_update(None, "journal_mode", "wal")
}

/// Looks through the pages of a small database. Of a large one only what is used is checked, when it is used.
fn check_pages(reader: &Reader) -> Result<(), StoreError> {
    let size = std::fs::metadata(&reader.path).map_err(|e| StoreError::io(&reader.path, "open", e))?.len();
    if size > CHECKED_BYTES {
        return Ok(());
    }
    let check = reader.conn.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match check.map_err(|e| reader.error("open", e))?.as_str() {
        "ok" => Ok(()),
        what => Err(StoreError::corrupt(&reader.path, what)),
    }
}

/// Adds an event; gives its checksum.
fn insert(conn: &Connection, n: i64, record: &Record, body: &[u8]) -> rusqlite::Result<u32> {
    let (line, lines, marks) = (record.line as i64, i64::from(record.lines), i64::from(marks(&record.event)));
    let sum = codec::checksum(&[n, line, lines, record.time_ms, marks], body);
    let sql = "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    conn.prepare_cached(sql)?.execute(params![n, line, lines, record.time_ms, marks, sum, body])?;
    Ok(sum)
}

fn put_snapshot(conn: &Connection, n: i64, body: &[u8]) -> rusqlite::Result<()> {
    let sum = codec::checksum(&[n], body);
    conn.execute("INSERT OR REPLACE INTO snapshot VALUES (?1, ?2, ?3)", params![n, sum, body]).map(drop)
}

fn put_definition(conn: &Connection, definition: &SavedDefinition) -> rusqlite::Result<()> {
    // Paths that are not text are rare; a team file that cannot be found again can be named on the command line.
    let (name, base, text) = (&definition.name, definition.base.to_string_lossy(), &definition.text);
    let components = serde_json::json!(definition.components).to_string();
    let sum = codec::checksum(&[], definition_bytes([name, &base, text, &components]).as_bytes());
    let sql = "INSERT OR REPLACE INTO definition VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    conn.execute(sql, params![name, base, text, components, sum]).map(drop)
}

fn put_team_json(conn: &Connection, known: &KnownFile) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO team_json VALUES (1, ?1, ?2, ?3)";
    conn.execute(sql, params![known.current, known.next, known.stamp]).map(drop)
}
