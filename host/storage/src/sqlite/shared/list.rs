//! Lists the runs of a database file, with one query. What the state of a run was at its end is noted (`end_note`);
//! otherwise the state has to be read.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};
use strata_records::error::StoreError;
use strata_records::listing::{ListedOwner, RunListing};
use strata_records::overview::LifecycleState;

use super::end_note::{OVERVIEW_NOTE, parse_note};
use super::owner_note::OWNER_NOTE;
use super::runs::{open_named, open_whole};
use super::served::to_served;
use super::submission_row::{COLUMNS, SubmissionRow};
use crate::LockHolder;
use crate::directory::names::SideFile;
use crate::lock::{held_since_ms, lock_holder};
use crate::schema::has_queue_tables;
use crate::sqlite_url::SqliteUrl;

/// The runs with their notes, and the key and the time of the newest event. Keys are those of `lineage`.
const LIST: &str = "
    SELECT r.id, r.name, o.text, w.text IS NOT NULL, e.n, e.time_ms,
           (SELECT f.time_ms FROM lineage l JOIN event f ON f.n = (l.id << 40) + 1 WHERE l.run = r.id AND l.number = 0)
    FROM run r
         LEFT JOIN note o ON o.run = r.id AND o.name = ?1
         LEFT JOIN note w ON w.run = r.id AND w.name = ?2
         LEFT JOIN event e ON e.n = (SELECT max(n) FROM event
                                     WHERE n BETWEEN r.lineage << 40 AND ((r.lineage + 1) << 40) - 1)
    WHERE ?3 IS NULL OR r.name = ?3
    ORDER BY r.id DESC";

/// Lists the run that a URL names, or all.
pub(crate) fn list_overviews(url: &SqliteUrl) -> Result<Vec<RunListing<SqliteUrl>>, StoreError> {
    let Some(reader) = open_whole(url)? else {
        return Err(StoreError::Absent {
            path: url.to_path(),
        });
    };
    // The lock comes first: what is noted then is of its holder, or of one that ends meanwhile.
    let process = lock_holder(&SideFile::Lock.beside(&url.file))?;
    let listed = reader.read_consistently(|reader| {
        let named = &url.run;
        let parameters = rusqlite::params![OVERVIEW_NOTE, OWNER_NOTE, named];
        let submitted = submitted_rows(&reader.rows.conn, named.as_deref());
        let mut submitted = submitted.map_err(|e| reader.rows.error("read", e))?;
        reader.rows.query_all(LIST, parameters, |row| {
            let (key, has_owner): (i64, bool) = (row.get(0)?, row.get(3)?);
            match submitted.remove(&key) {
                Some(found) => {
                    let run = to_served(url, process, row.get(1)?, has_owner, found);
                    Ok(run.listing)
                }
                None => listing(url, process, row),
            }
        })
    })?;
    if listed.is_empty() && url.run.is_some() {
        // The error says what there is.
        open_named(url)?;
    }
    Ok(listed)
}

/// Returns the row of the submitted run with this name, or those of all, by their keys.
fn submitted_rows(
    conn: &Connection,
    named: Option<&str>,
) -> rusqlite::Result<BTreeMap<i64, SubmissionRow>> {
    if !has_queue_tables(conn)? {
        return Ok(BTreeMap::new());
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM submission s WHERE ?1 IS NULL OR s.run = (SELECT id FROM run WHERE name = ?1)"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([named], SubmissionRow::from_row)?;
    rows.map(|row| row.map(|row| (row.run, row))).collect()
}

fn listing(
    url: &SqliteUrl,
    process: LockHolder,
    row: &Row<'_>,
) -> rusqlite::Result<RunListing<SqliteUrl>> {
    let name: String = row.get(1)?;
    let (note, newest): (Option<String>, Option<i64>) = (row.get(2)?, row.get(4)?);
    let noted = note.and_then(|note| parse_note(&note, newest));
    let owner = match process {
        LockHolder::Process { pid } if row.get(3)? => {
            let lock = SideFile::Lock.beside(&url.file);
            Some(ListedOwner::local(pid, held_since_ms(&lock)))
        }
        _ => None,
    };
    let mut run = RunListing {
        location: url.with_run(&name),
        name,
        overview: None,
        state: match owner {
            Some(_) => LifecycleState::Running,
            None => LifecycleState::Resting,
        },
        owner,
        queued: None,
        created_ms: row.get(6)?,
        changed_ms: row.get(5)?,
        ended_ms: None,
    };
    if let Some((overview, ended)) = noted {
        run = run.with_overview(overview);
        run.ended_ms = (run.state == LifecycleState::Ended).then_some(ended);
    }
    Ok(run)
}
