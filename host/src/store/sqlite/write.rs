//! How rows are written, each with its checksum. In which transaction is decided elsewhere.

use rusqlite::{Connection, params};

use strata_core::environment::Environment;

use crate::store::lineage::{FIRST, Head, Row, key, place};
use crate::store::reader::definition_bytes;
use crate::store::{Record, SavedDefinition, codec, marks, schema};

/// When SQLite syncs by itself: the log is written at each commit and synced when it is moved into the database. We sync
/// it where a commit must survive the power.
pub(super) const SYNCHRONOUS: &str = "normal";

/// Snapshots beside the newest may take up this part of the file. They make going back to an old checkpoint quick;
/// they are worth that where states are small and histories long.
const OLD_SNAPSHOTS_SHARE: u64 = 8;

/// Fills a new database, which nobody sees yet: it needs no sync before it is complete.
pub(super) fn fill(conn: &Connection, base: &Environment, definition: &SavedDefinition) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "off")?;
    let tx = conn.unchecked_transaction()?;
    schema::create(conn)?;
    let spent = i64::try_from(base.spent.0).unwrap_or(i64::MAX);
    Row { spent, ..Row::first(&base.lineage.name) }.insert(conn)?;
    Head { lineage: FIRST, line: crate::store::FIRST_LINE as i64 }.write(conn)?;
    put_snapshot(conn, key(FIRST, 0), &codec::encode_snapshot(base))?;
    put_definition(conn, definition)?;
    tx.commit()?;
    conn.pragma_update(None, "journal_mode", "wal")
}

/// Writes the first frame to the log of a database that was just filled: no `team.json` is known. Otherwise SQLite would
/// sync the log's header, and the directory, before the first frame that is to last: lest older frames behind it count,
/// of which a log that did not exist has none. From now on it syncs where it has to.
pub(super) fn begin_log(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "synchronous", "off")?;
    conn.execute("INSERT INTO team_json VALUES (1, '', '', '')", [])?;
    conn.pragma_update(None, "synchronous", SYNCHRONOUS)
}

/// Adds an event; gives its checksum.
pub(super) fn insert(conn: &Connection, n: i64, record: &Record, body: &[u8]) -> rusqlite::Result<u32> {
    let (line, lines, marks) = (record.line as i64, i64::from(record.lines), i64::from(marks(&record.event)));
    let sum = codec::checksum(&[n, line, lines, record.time_ms, marks], body);
    let sql = "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    conn.prepare_cached(sql)?.execute(params![n, line, lines, record.time_ms, marks, sum, body])?;
    Ok(sum)
}

pub(super) fn put_snapshot(conn: &Connection, n: i64, body: &[u8]) -> rusqlite::Result<()> {
    let sum = codec::checksum(&[n], body);
    conn.execute("INSERT OR REPLACE INTO snapshot VALUES (?1, ?2, ?3)", params![n, sum, body]).map(drop)
}

/// Drops snapshots of a lineage that are not worth their room once there is a newer one: what is left lies the closer
/// together the newer it is. Called before that is put, so that it takes the room that they leave.
pub(super) fn thin(conn: &Connection, newest: i64) -> rusqlite::Result<()> {
    let first = newest - place(newest);
    let mut statement =
        conn.prepare_cached("SELECT n, length(body) FROM snapshot WHERE n > ?1 AND n < ?2 ORDER BY n")?;
    let rows = statement.query_map([first, newest], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))?;
    let old: Vec<(i64, u64)> = rows.collect::<rusqlite::Result<_>>()?;
    let pages: i64 = conn.pragma_query_value(None, "page_count", |row| row.get(0))?;
    let page: i64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let mut room = (pages * page) as u64 / OLD_SNAPSHOTS_SHARE;
    let mut after = newest;
    for i in (0..old.len()).rev() {
        let (n, size) = old[i];
        let before = i.checked_sub(1).map_or(first, |i| old[i].0);
        // Without this one, its neighbours would be no further apart than they are from the newest.
        let close = after < newest && after - before <= newest - after;
        if close || size > room {
            conn.execute("DELETE FROM snapshot WHERE n = ?1", [n])?;
        } else {
            (room, after) = (room - size, n);
        }
    }
    Ok(())
}

pub(super) fn put_definition(conn: &Connection, definition: &SavedDefinition) -> rusqlite::Result<()> {
    // Paths that are not text are rare; a team file that cannot be found again can be named on the command line.
    let (name, base, text) = (&definition.name, definition.base.to_string_lossy(), &definition.text);
    let components = serde_json::json!(definition.components).to_string();
    let sum = codec::checksum(&[], definition_bytes([name, &base, text, &components]).as_bytes());
    let sql = "INSERT OR REPLACE INTO definition VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    conn.execute(sql, params![name, base, text, components, sum]).map(drop)
}

/// Remembers that events were dropped, and the next step after them.
pub(super) fn put_gap(conn: &Connection, (n, last, step): (i64, i64, i64)) -> rusqlite::Result<()> {
    let sum = codec::checksum(&[n, last, step], &[]);
    conn.execute("INSERT INTO gap VALUES (?1, ?2, ?3, ?4)", params![n, last, step, sum]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of snapshots of this size, one after every hundred events, in a file of about this size.
    fn check(count: i64, bytes: usize, file: i64, expected: impl Fn(&[i64])) {
        let conn = Connection::open_in_memory().unwrap();
        schema::create(&conn).unwrap();
        conn.execute("INSERT INTO event VALUES (1, 1, 1, 1, 0, 0, zeroblob(?1))", [file]).unwrap();
        let lineage = 3;
        put_snapshot(&conn, key(FIRST, 0), b"the base").unwrap();
        put_snapshot(&conn, key(lineage - 1, 500), b"another lineage's").unwrap();
        for i in 1..=count {
            let n = key(lineage, i * 100);
            thin(&conn, n).unwrap();
            put_snapshot(&conn, n, &vec![0; bytes]).unwrap();
        }
        let mut left = conn.prepare("SELECT n FROM snapshot ORDER BY n").unwrap();
        let left: Vec<i64> = left.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(left[..2], [0, key(lineage - 1, 500)]);
        let own: Vec<i64> = left[2..].iter().map(|n| place(*n)).collect();
        assert_eq!(own.last(), Some(&(count * 100)));
        expected(&own);
    }

    #[test]
    fn snapshots_lie_the_closer_together_the_newer_they_are() {
        check(1000, 10, 1 << 20, |left| {
            assert!((5..30).contains(&left.len()), "{left:?}");
            for (before, at) in [0].iter().chain(left).zip(left) {
                // From the snapshot before, no further than to the newest, and some more while they thin out.
                assert!(at - before <= (100_000 - before) / 2 + 200, "{left:?}");
            }
        });
    }

    #[test]
    fn old_snapshots_take_up_a_part_of_the_file_only() {
        check(100, 4000, 100_000, |left| assert!((2..6).contains(&left.len()), "{left:?}"));
        check(100, 100_000, 100_000, |left| assert_eq!(left, [10_000]));
    }
}
