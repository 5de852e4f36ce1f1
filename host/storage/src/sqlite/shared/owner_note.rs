//! The note of who owns a run, with the path of the owner's socket. It counts only while a process holds the
//! lock of the database: that process removes what others left.

use rusqlite::{Connection, params};

use super::super::write::write_note;

/// The note that a run has while a process owns it: the path of the owner's socket, or nothing if the
/// owner does not listen.
pub(super) const OWNER_NOTE: &str = "owner";

/// Notes that this process owns a run and listens at a socket.
pub(super) fn insert_owner_note(conn: &Connection, run: i64, socket: &str) -> rusqlite::Result<()> {
    write_note(conn, run, OWNER_NOTE, socket)
}

/// Notes that nobody owns a run.
pub(super) fn remove_owner_note(conn: &Connection, run: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM note WHERE run = ?1 AND name = ?2";
    conn.execute(sql, params![run, OWNER_NOTE]).map(drop)
}

/// Notes that nobody owns any run.
pub(super) fn remove_owner_notes(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM note WHERE name = ?1", [OWNER_NOTE])
        .map(drop)
}
