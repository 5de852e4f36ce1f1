//! The tables of the database, the version of its schema, and how a file is recognised as our
//! database.

mod queue_tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};
use strata_records::error::StoreError;

use super::error::sqlite_error;
use crate::directory::names::SideFile;
use crate::file;
use queue_tables::{QUEUE_INDEXES, QUEUE_TABLES};

/// Marks our databases among all SQLite files: "STRT".
const APPLICATION_ID: i32 = 0x5354_5254;

/// The version of the schema, which the database contains as its `user_version`. It stays 1 until
/// the first release: databases with other tables are refused. After it, a change of `TABLES` needs
/// a new number, and databases of all released versions have to be migrated when they are opened.
pub(crate) const VERSION: i64 = 1;

/// The statements that create the tables.
const TABLES: &str = "
    -- Runs. The database of a storage directory holds one, the run 1. `epoch` counts the leases under which it was
    -- changed: a change under an earlier one is refused. `lineage` is the one that the run continues by default, and
    -- `line` the first public line that none of its lineages uses.
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL,
        lineage INTEGER NOT NULL,
        line INTEGER NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;

    -- Lineages: sequences of checkpoints. The first one is created with its run; each later one branched off another,
    -- its `origin`, after the event at `leaves_at`, and shares all events up to there. The lineages of a run have the
    -- numbers 0, 1, 2 and so on, in the order of their creation. Events have positions
    -- on the path from the beginning of the run to the newest state of a lineage: 1, 2, 3 and so on. `events` is the
    -- position of a lineage's newest event, and `last` its checksum, which reveals a file that lost its end. The row of
    -- a lineage may lag behind: the events after `events` belong to it, too. Then `last`, `spent` and `since` are as of
    -- that event.
    -- Checkpoints that were made by events up to `forgotten` cannot be loaded, with exceptions (see `checkpoint_list`). `spent`
    -- is what its own events cost; that of the first includes what was spent before. `since` is the size of the events
    -- after the newest snapshot on the path, in bytes.
    CREATE TABLE lineage (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL,
        number INTEGER NOT NULL,
        name TEXT NOT NULL,
        origin INTEGER,
        leaves_at INTEGER,
        events INTEGER NOT NULL,
        last INTEGER NOT NULL,
        forgotten INTEGER NOT NULL,
        spent INTEGER NOT NULL,
        since INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        UNIQUE (run, name)
    ) STRICT;

    -- The events. `n` is the position on the path, with the lineage in the bits from the 40th on; the lineage says which
    -- run they belong to. `marks` is 1 for events that concern checkpoints.
    CREATE TABLE event (
        n INTEGER PRIMARY KEY,
        line INTEGER NOT NULL,
        lines INTEGER NOT NULL,
        time_ms INTEGER NOT NULL,
        marks INTEGER NOT NULL,
        sum INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;

    -- Gaps, where events were dropped: from `n` to the position `last` of the same lineage; and the next step after.
    CREATE TABLE gap (
        n INTEGER PRIMARY KEY,
        last INTEGER NOT NULL,
        step INTEGER NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;

    -- The state after the event n: the one that the run started from (n = 0) and others that were saved. Its messages
    -- are in `bundles`, a list of rows of `bundle`, except for those that may still change.
    CREATE TABLE snapshot (
        n INTEGER PRIMARY KEY,
        bundles_sum INTEGER NOT NULL,
        bundles BLOB NOT NULL,
        sum INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;

    -- Consecutive messages, in the order in which they were created. Successive states of a run share them. The bits of
    -- `n` from the 40th on are those of the first lineage of the run.
    CREATE TABLE bundle (
        n INTEGER PRIMARY KEY,
        sum INTEGER NOT NULL,
        body BLOB NOT NULL
    ) STRICT;

    -- The team file of each run, and what replaces its components, as a JSON list.
    CREATE TABLE definition (
        run INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        base TEXT NOT NULL,
        text TEXT NOT NULL,
        components TEXT NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT;

    -- What other parts of the program remember about a run, such as which team.json they wrote.
    CREATE TABLE note (
        run INTEGER NOT NULL,
        name TEXT NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (run, name)
    ) STRICT, WITHOUT ROWID;

    -- The bytes of files that the actions of a run wrote, and of those they replaced, by their SHA-256.
    CREATE TABLE blob (
        run INTEGER NOT NULL,
        digest TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run, digest)
    ) STRICT;

    -- `expected` is 1 if there must be a log with the rest of the database; see `wal_checkpoint`. `changes` counts the changes
    -- that are no events and must not be lost.
    CREATE TABLE log (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        expected INTEGER NOT NULL,
        changes INTEGER NOT NULL
    ) STRICT;
    INSERT INTO log VALUES (1, 0, 0);
";

/// Creates all tables in an empty database.
pub(crate) fn create(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.execute_batch(TABLES)?;
    conn.pragma_update(None, "user_version", VERSION)
}

/// Creates the tables of a queue, unless the database has them. Called within a transaction.
pub(crate) fn create_queue_tables(conn: &Connection) -> rusqlite::Result<()> {
    if !has_queue_tables(conn)? {
        conn.execute_batch(QUEUE_TABLES)?;
    }
    Ok(())
}

/// Returns whether a database whose schema was checked has the tables of a queue.
pub(crate) fn has_queue_tables(conn: &Connection) -> rusqlite::Result<bool> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'submission')";
    conn.query_row(sql, [], |row| row.get(0))
}

/// Fails unless a file is one of our databases. Called before SQLite opens the file.
pub(crate) fn require_own_database(path: &Path) -> Result<(), StoreError> {
    /// The offset of the application id in the header of an SQLite file.
    const ID_OFFSET: usize = 68;
    const HEADER: usize = 100;
    let foreign = |what: &str| StoreError::Foreign {
        path: path.to_path_buf(),
        what: what.into(),
    };
    let mut header = Vec::new();
    let read = file::options()
        .read(true)
        .open(path)
        .and_then(|file| file.take(HEADER as u64).read_to_end(&mut header));
    read.map_err(|e| StoreError::io(path, "read", e))?;
    if header.is_empty() {
        return Err(StoreError::corrupt(path, "it is empty"));
    }
    if header.len() < HEADER || !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign("it is no SQLite database"));
    }
    if header[ID_OFFSET..ID_OFFSET + 4] != APPLICATION_ID.to_be_bytes() {
        return Err(foreign("it is the database of another program"));
    }
    refuse_named_file(&SideFile::RollbackJournal.beside(path))
}

/// Fails if a rollback journal names a file, since SQLite would remove that file after the
/// rollback.
fn refuse_named_file(journal: &Path) -> Result<(), StoreError> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let mut end = Vec::new();
    let mut read = || {
        let mut file = file::options().read(true).open(journal)?;
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(MAGIC.len() as u64)))?;
        file.take(MAGIC.len() as u64).read_to_end(&mut end)
    };
    match read() {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io(journal, "read", e)),
        Ok(_) if end == MAGIC => Err(StoreError::Foreign {
            path: journal.to_path_buf(),
            what: "it names another file".into(),
        }),
        _ => Ok(()),
    }
}

/// How many steps SQLite may take to read the schema. Ours takes some hundreds.
const MAX_SCHEMA_STEPS: i32 = 5_000;
/// The maximum length of a statement that SQLite parses, be it ours or one in the schema.
const MAX_STATEMENT_BYTES: i32 = 64 << 10;

/// Limits the work of reading the schema, which SQLite does before it first reads anything else.
/// The limit holds until the schema was checked.
pub(crate) fn limit_schema_work(conn: &mut Connection) -> rusqlite::Result<()> {
    conn.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_STATEMENT_BYTES)?;
    conn.progress_handler(MAX_SCHEMA_STEPS, Some(|| true))
}

/// Returns the error for a schema that cannot be read, within these limits or at all.
pub(crate) fn schema_error(path: &Path, source: rusqlite::Error) -> StoreError {
    match source.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted | ErrorCode::TooBig) => StoreError::Foreign {
            path: path.to_path_buf(),
            what: "its schema is larger than any of ours".into(),
        },
        _ => sqlite_error(path, "open", source),
    }
}

/// The objects of a schema: the type and the name of each, with the table that it belongs to and
/// its statement.
type SchemaObjects = BTreeMap<(String, String), (String, Option<String>)>;

fn read_objects(conn: &Connection, limit: usize) -> rusqlite::Result<SchemaObjects> {
    let mut statement =
        conn.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema LIMIT ?1")?;
    let rows = statement.query_map([limit as i64], |row| {
        Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, row.get(3)?)))
    })?;
    rows.collect()
}

/// The indexes that SQLite creates by itself, for keys and unique columns, and their tables.
const AUTOMATIC_INDEXES: [(&str, &str); 3] = [
    ("sqlite_autoindex_run_1", "run"),
    ("sqlite_autoindex_lineage_1", "lineage"),
    ("sqlite_autoindex_blob_1", "blob"),
];

/// Returns the objects of our schema. They are read from the text of the statements, because
/// executing these takes SQLite 0.3 ms, a tenth of the time in which a team is resumed. A test
/// compares the two.
fn expected_objects() -> SchemaObjects {
    objects_of(TABLES, &AUTOMATIC_INDEXES)
}

/// Returns the objects of a queue, which a database has all of or none.
fn expected_queue_objects() -> SchemaObjects {
    objects_of(QUEUE_TABLES, &QUEUE_INDEXES)
}

/// Returns the objects that statements create, with the indexes that SQLite adds to them.
fn objects_of(statements: &str, automatic: &[(&str, &str)]) -> SchemaObjects {
    const KINDS: [(&str, &str); 2] = [("CREATE TABLE ", "table"), ("CREATE INDEX ", "index")];
    let mut objects: SchemaObjects = automatic
        .iter()
        .map(|&(name, table)| (("index".into(), name.into()), (table.into(), None)))
        .collect();
    for statement in statements.split(';') {
        let found = KINDS.iter().find_map(|(create, kind)| {
            let at = statement.find(create)?;
            Some((&statement[at..], &statement[at + create.len()..], *kind))
        });
        let Some((sql, rest, kind)) = found else {
            continue;
        };
        let mut words = rest.split(' ');
        let name = words.next().unwrap_or_default();
        let table = match kind {
            "index" => words.nth(1).unwrap_or_default(),
            _ => name,
        };
        let statement = (table.to_owned(), Some(sql.to_owned()));
        objects.insert((kind.to_owned(), name.to_owned()), statement);
    }
    objects
}

/// Fails unless the schema is exactly ours. Nothing else may be read before: views and triggers are
/// statements of whoever made the file.
pub(crate) fn check_schema(conn: &mut Connection, path: &Path) -> Result<(), StoreError> {
    check_version(conn, path)?;
    let mut known = expected_objects();
    let queue = expected_queue_objects();
    let limit = known.len() + queue.len() + 1;
    let found = read_objects(conn, limit).map_err(|e| schema_error(path, e))?;
    if found.keys().any(|object| queue.contains_key(object)) {
        known.extend(queue);
    }
    // The greatest unknown object is reported, so views and triggers come first: they are what
    // matters.
    if let Some((kind, name)) = found
        .keys()
        .filter(|object| !known.contains_key(*object))
        .max()
    {
        let what = format!(
            "it contains the {kind} `{}`, which strata-host does not create",
            name.escape_debug()
        );
        return Err(StoreError::Foreign {
            path: path.to_path_buf(),
            what,
        });
    }
    for (object @ (kind, name), expected) in &known {
        match found.get(object) {
            None => {
                return Err(StoreError::corrupt(
                    path,
                    format!("its {kind} `{name}` is missing"),
                ));
            }
            Some(found) if found != expected => {
                let what = format!("its {kind} `{name}` is not the one that strata-host creates");
                return Err(StoreError::Foreign {
                    path: path.to_path_buf(),
                    what,
                });
            }
            Some(_) => {}
        }
    }
    conn.progress_handler(0, None::<fn() -> bool>)
        .map_err(|e| sqlite_error(path, "open", e))
}

/// Sets the WAL mode. Another tool may have copied or changed the database and left it in another
/// mode.
pub(crate) fn enable_wal(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode: String = conn
        .query_row("PRAGMA journal_mode = wal", [], |row| row.get(0))
        .map_err(|e| sqlite_error(path, "use a log with", e))?;
    if mode == "wal" {
        return Ok(());
    }
    let source = std::io::Error::other(format!(
        "its journal mode stays `{mode}`; the file system may not support the mode `wal`, work on a copy elsewhere"
    ));
    Err(StoreError::Io {
        path: path.to_path_buf(),
        action: "use a log with",
        source,
    })
}

/// Makes the database file survive a loss of power.
pub(crate) fn sync_database(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|file| file.sync_data())
        .map_err(|e| StoreError::io(path, "write", e))
}

/// Fails unless the schema of an open database has the version of this program.
fn check_version(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: i64 = conn
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|e| schema_error(path, e))?;
    if found > VERSION {
        return Err(StoreError::Newer {
            path: path.to_path_buf(),
            what: "schema",
            found,
            known: VERSION,
        });
    }
    if found < VERSION {
        return Err(StoreError::corrupt(
            path,
            format!("its schema version is {found}"),
        ));
    }
    Ok(())
}
