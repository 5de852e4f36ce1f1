//! The runs of a server in a database file.

use rusqlite::{Row, params};

use super::super::rows::SqliteReader;
use super::database::{MissingDatabase, SharedDatabase};
use super::owner_note::OWNER_NOTE;
use super::runs::open_whole;
use super::submission_row::{COLUMN_COUNT, COLUMNS, LATER, SubmissionRow};
use crate::directory::names::SideFile;
use crate::error::StoreError;
use crate::listing::{ListedOwner, QueuedRun, RunListing};
use crate::location::StorageLocation;
use crate::lock::{LockHolder, held_since_ms};
use crate::schema::has_queue_tables;
use crate::served::{RunChanges, ServedFilter, ServedRun};
use crate::sqlite_url::SqliteUrl;

/// Passes the database of a URL to `read`, with the process that may work on its runs. Returns the default if there is no
/// database.
fn read_database<T: Default>(
    url: &SqliteUrl,
    read: impl FnOnce(&SqliteReader, LockHolder) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    if let Some(reader) = SharedDatabase::shared_reader(&url.file)? {
        let own = LockHolder::Process {
            pid: Some(std::process::id()),
        };
        return read(&reader, own).map_err(|e| reader.error("read", e));
    }
    let Some(reader) = open_whole(url)? else {
        return Ok(T::default());
    };
    // The lock comes first: what is noted then is of its holder, or of one that ends meanwhile.
    let process = LockHolder::query_file(&SideFile::Lock.beside(&url.file))?;
    read(&reader, process).map_err(|e| reader.error("read", e))
}

/// Returns the run of a row, with its name and whether a process owns it in the columns after those of `SubmissionRow`.
fn served_run(url: &SqliteUrl, process: LockHolder, row: &Row<'_>) -> rusqlite::Result<ServedRun> {
    let name: String = row.get(COLUMN_COUNT)?;
    let has_owner: bool = row.get(COLUMN_COUNT + 1)?;
    let row = SubmissionRow::from_row(row)?;
    Ok(to_served(url, process, name, has_owner, row))
}

pub(super) fn to_served(
    url: &SqliteUrl,
    process: LockHolder,
    name: String,
    has_owner: bool,
    row: SubmissionRow,
) -> ServedRun {
    let owner = match process {
        LockHolder::Process { pid } if has_owner || row.is_taken => {
            let lock = SideFile::Lock.beside(&url.file);
            let taken = row.taken_ms.filter(|_| row.is_taken);
            let since = taken.or_else(|| held_since_ms(&lock));
            Some(ListedOwner::local(pid, since))
        }
        _ => None,
    };
    let state = row.state(owner.is_some());
    ServedRun {
        due_ms: row.wake_ms.filter(|_| row.schedule == LATER),
        id: row.code,
        key: row.run,
        tenant: row.tenant,
        submitter: row.submitter,
        listing: RunListing {
            location: StorageLocation::of_shared(url.with_run(&name)),
            name,
            state,
            overview: row.overview,
            owner,
            queued: Some(QueuedRun {
                scope: row.scope,
                tags: row.tags,
                needs: row.labels,
                problem: row.problem,
            }),
            created_ms: Some(row.created_ms),
            changed_ms: Some(row.changed_ms),
            ended_ms: row.ended_ms,
        },
    }
}

/// Lists at most `limit` runs that a filter accepts, the newest first.
pub(crate) fn list_served(
    url: &SqliteUrl,
    filter: &ServedFilter,
    limit: usize,
) -> Result<Vec<ServedRun>, StoreError> {
    read_database(url, |reader, process| {
        if !has_queue_tables(&reader.rows.conn)? {
            return Ok(Vec::new());
        }
        let sql = format!(
            "SELECT {COLUMNS}, r.name, w.text IS NOT NULL \
             FROM submission s JOIN run r ON r.id = s.run \
                  LEFT JOIN note w ON w.run = s.run AND w.name = ?1 \
             WHERE (?2 IS NULL OR s.tenant = ?2) AND (?3 IS NULL OR (s.created_ms, s.code) < (?3, ?4)) \
             ORDER BY s.created_ms DESC, s.code DESC"
        );
        let mut statement = reader.rows.conn.prepare_cached(&sql)?;
        let after = filter.after.as_ref();
        let mut rows = statement.query(params![
            OWNER_NOTE,
            filter.tenant,
            after.map(|after| after.created_ms),
            after.map(|after| &after.id)
        ])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let run = served_run(url, process, row)?;
            if filter.accepts(&run) {
                found.push(run);
            }
        }
        Ok(found)
    })
}

/// How a run of a server is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServedKey<'a> {
    /// By its id.
    Id(&'a str),
    /// By the name under which it is stored.
    Name(&'a str),
    /// By its key.
    Key(i64),
}

/// Returns a run of a server, if there is one.
pub(crate) fn find_served(
    url: &SqliteUrl,
    wanted: ServedKey<'_>,
) -> Result<Option<ServedRun>, StoreError> {
    read_database(url, |reader, process| {
        if !has_queue_tables(&reader.rows.conn)? {
            return Ok(None);
        }
        let (column, text, number) = match wanted {
            ServedKey::Id(id) => ("s.code = ?2", id, 0),
            ServedKey::Name(name) => ("r.name = ?2", name, 0),
            ServedKey::Key(key) => ("s.run = ?3 AND ?2 = ''", "", key),
        };
        let sql = format!(
            "SELECT {COLUMNS}, r.name, w.text IS NOT NULL \
             FROM submission s JOIN run r ON r.id = s.run \
                  LEFT JOIN note w ON w.run = s.run AND w.name = ?1 WHERE {column} AND ?3 IS NOT NULL"
        );
        let mut statement = reader.rows.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![OWNER_NOTE, text, number])?;
        let row = rows.next()?;
        row.map(|row| served_run(url, process, row)).transpose()
    })
}

/// Tells which runs change from now on. The database stays open to be changed as long as somebody listens.
pub(crate) fn watch_runs(url: &SqliteUrl) -> Result<RunChanges, StoreError> {
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create)?;
    Ok(RunChanges::new(database.watch_changes(), database))
}
