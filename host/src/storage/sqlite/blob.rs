//! The bytes of files in the database, by their digest: a run has each once, however many files and
//! checkpoints have it. The digest is a SHA-256, so no other checksum is needed.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use strata_core::record::id::Digest;

use crate::blob::{Blobs, digest_of};
use crate::storage::error::StoreError;
use crate::storage::reader::Reader;

impl Reader {
    /// Returns the bytes with this digest, or `None` if they are not stored here.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.read_consistently(|reader| reader.blob_now(digest))
    }

    fn blob_now(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        let mut statement = self.prepare("SELECT body FROM blob WHERE run = ?1 AND digest = ?2")?;
        let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
        let body = statement
            .query_row(params![self.run, digest.0], read)
            .optional()
            .map_err(|e| self.error("read", e))?;
        match body {
            Some(body) if digest_of(&body) != *digest => {
                Err(self.corrupt(format!("the file `{digest}` is damaged")))
            }
            body => Ok(body.map(Arc::from)),
        }
    }
}

/// Inserts the blobs of a run that are not stored yet.
pub(in crate::storage) fn insert_blobs(
    conn: &Connection,
    run: i64,
    blobs: &Blobs,
) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached("INSERT OR IGNORE INTO blob VALUES (?1, ?2, ?3)")?;
    for (digest, body) in blobs {
        statement.execute(params![run, digest.0, &body[..]])?;
    }
    Ok(())
}

/// Whether a run has any blobs.
pub(in crate::storage) fn has_blobs(conn: &Connection, run: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM blob WHERE run = ?1)";
    conn.query_row(sql, [run], |row| row.get(0))
}
