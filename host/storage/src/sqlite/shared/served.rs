//! The runs of a server in a database file.

use rusqlite::{Connection, Row, params, params_from_iter};
use strata_records::error::StoreError;
use strata_records::listing::{ListedOwner, QueuedRun, RunListing};
use strata_records::served::{RunChanges, ServedFilter, ServedKey, ServedRun};

use super::super::rows::SqliteReader;
use super::database::{MissingDatabase, SharedDatabase};
use super::owner_note::OWNER_NOTE;
use super::runs::open_whole;
use super::served_query::ServedQuery;
use super::submission_row::{COLUMN_COUNT, COLUMNS, LATER, SubmissionRow};
use crate::LockHolder;
use crate::directory::names::SideFile;
use crate::lock::{held_since_ms, lock_holder};
use crate::revision::DatabaseRevisions;
use crate::schema::has_queue_tables;
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
        return read(&reader, own).map_err(|e| reader.rows.error("read", e));
    }
    let Some(reader) = open_whole(url)? else {
        return Ok(T::default());
    };
    // The lock comes first: what is noted then is of its holder, or of one that ends meanwhile.
    let process = lock_holder(&SideFile::Lock.beside(&url.file))?;
    read(&reader, process).map_err(|e| reader.rows.error("read", e))
}

/// Returns the run of a row, with its name and whether a process owns it in the columns after those of `SubmissionRow`.
fn served_run(
    url: &SqliteUrl,
    process: LockHolder,
    row: &Row<'_>,
) -> rusqlite::Result<ServedRun<SqliteUrl>> {
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
) -> ServedRun<SqliteUrl> {
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
            location: url.with_run(&name),
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
) -> Result<Vec<ServedRun<SqliteUrl>>, StoreError> {
    read_database(url, |reader, process| {
        let conn = &reader.rows.conn;
        if !has_queue_tables(conn)? {
            return Ok(Vec::new());
        }
        let tenants = match &filter.tenant {
            Some(tenant) => vec![tenant.clone()],
            None => list_tenants(conn)?,
        };
        let ServedQuery { sql, values } = ServedQuery::new(conn, filter, &tenants)?;
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
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

/// Returns the tenants that have runs. Reads one entry of the index for each.
fn list_tenants(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "WITH RECURSIVE found(tenant) AS ( \
                   SELECT min(tenant) FROM submission \
                   UNION ALL \
                   SELECT (SELECT min(s.tenant) FROM submission s WHERE s.tenant > found.tenant) FROM found \
                   WHERE found.tenant IS NOT NULL) \
               SELECT tenant FROM found WHERE tenant IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Returns a run of a server, if there is one.
pub(crate) fn find_served(
    url: &SqliteUrl,
    wanted: ServedKey<'_>,
) -> Result<Option<ServedRun<SqliteUrl>>, StoreError> {
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

/// Returns the revisions of the database, as long as this process has it open to be changed.
pub(crate) fn revisions(url: &SqliteUrl) -> Result<DatabaseRevisions, StoreError> {
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create)?;
    Ok(DatabaseRevisions::new(database.revision()))
}

/// Tells which runs change from now on. The database stays open to be changed as long as somebody listens.
pub(crate) fn watch_runs(url: &SqliteUrl) -> Result<RunChanges, StoreError> {
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create)?;
    Ok(RunChanges::new(database.watch_changes(), database))
}

#[cfg(test)]
mod tests {
    use strata_base::process::wait::wait;
    use strata_records::server_records::ServerRecords;

    use super::super::change::ChangeTerms;
    use super::super::records::FileRecords;
    use super::*;

    #[test]
    fn to_find_out_whether_anything_can_be_recorded_ends_no_revision() {
        let temp = tempfile::tempdir().unwrap();
        let url = SqliteUrl {
            file: temp.path().join("runs.db"),
            run: None,
        };
        let database = SharedDatabase::open(&url.file, MissingDatabase::Create).unwrap();
        let (records, revisions) = (FileRecords::new(url.clone()), revisions(&url).unwrap());
        // The first use creates the tables.
        records.check_recording(1).unwrap();
        let before = revisions.current();
        assert!(before.is_some());
        records.check_recording(2).unwrap();
        assert_eq!(revisions.current(), before);
        // A change that is read ends it, also in the same transaction.
        let terms = ChangeTerms::default();
        let pending = database.begin(terms, |_| Ok(()));
        records.check_recording(3).unwrap();
        wait(pending.outcome()).unwrap();
        let after = revisions.current();
        assert!(after > before, "{before:?} {after:?}");
        let found = database.change(terms, |conn| {
            let sql = "SELECT text FROM server_record WHERE kind = 'ready'";
            conn.query_row(sql, [], |row| row.get::<_, String>(0))
        });
        assert_eq!(found.unwrap().as_deref(), Some("3"));
    }

    #[test]
    fn a_revision_ends_with_the_next_change_before_that_is_acknowledged() {
        let temp = tempfile::tempdir().unwrap();
        let url = SqliteUrl {
            file: temp.path().join("runs.db"),
            run: None,
        };
        let database = SharedDatabase::open(&url.file, MissingDatabase::Create).unwrap();
        let revisions = revisions(&url).unwrap();
        let during_change = || {
            let revisions = revisions.clone();
            let look = move |_: &Connection| Ok(revisions.current());
            database.change(ChangeTerms::default(), look).unwrap()
        };
        assert_eq!(during_change(), Some(None));
        let first = revisions.current();
        assert!(first.is_some());
        assert_eq!(during_change(), Some(None));
        assert!(revisions.current() > first);
        drop(database);
        assert_eq!(revisions.current(), None);
    }
}
