//! The bytes of files in the database, by their digest: a run has each once, however many files and
//! checkpoints have it.

use rusqlite::{Connection, params};

use strata_base::files::blob::Blobs;

/// Inserts the blobs of a run that are not stored yet.
pub(crate) fn insert_blobs(conn: &Connection, run: i64, blobs: &Blobs) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3)")?;
    for (digest, body) in blobs {
        statement.execute(params![run, digest.0, &body[..]])?;
    }
    Ok(())
}
