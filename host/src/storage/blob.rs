//! The bytes of files in the database, by their digest: each is stored once, however many files and
//! checkpoints have it. The digest is a SHA-256, so no other checksum is needed.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use strata_core::record::id::Digest;

use super::error::StoreError;
use super::reader::Reader;
use crate::blob::{Blobs, digest_of};

impl Reader {
    /// Returns the bytes with this digest, or `None` if they are not stored here.
    pub fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.read_consistently(|reader| reader.blob_now(digest))
    }

    fn blob_now(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        let mut statement = self.prepare("SELECT body FROM blob WHERE digest = ?1")?;
        let read = |row: &rusqlite::Row<'_>| row.get::<_, Vec<u8>>(0);
        let body = statement
            .query_row([&digest.0], read)
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

/// Inserts the blobs that are not stored yet.
pub(super) fn insert_blobs(conn: &Connection, blobs: &Blobs) -> rusqlite::Result<()> {
    let mut statement = conn.prepare_cached("INSERT OR IGNORE INTO blob VALUES (?1, ?2)")?;
    for (digest, body) in blobs {
        statement.execute(params![digest.0, &body[..]])?;
    }
    Ok(())
}

/// Whether any blobs are stored.
pub(super) fn has_blobs(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("SELECT EXISTS (SELECT 1 FROM blob)", [], |row| row.get(0))
}
