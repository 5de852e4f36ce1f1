//! The records of a server, and files that were uploaded to it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use strata_base::clock::now_ms;
use strata_base::files::blob::digest_of;
use strata_base::process::wait::wait;
use strata_core::record::id::Digest;
use strata_records::error::StoreError;
use strata_records::record_hold::RecordHold;
use strata_records::server_record::ServerRecord;
use strata_records::server_records::ServerRecords;

use super::super::rows::SqliteReader;
use super::change::{ChangeTerms, ChangeVisibility};
use super::database::SharedDatabase;
use super::runs::open_whole;
use crate::schema::has_queue_tables;
use crate::sqlite_url::SqliteUrl;

const COLUMNS: &str = "kind, tenant, name, code, text, expires_ms";

fn from_row(row: &Row<'_>) -> rusqlite::Result<ServerRecord> {
    Ok(ServerRecord {
        kind: row.get(0)?,
        tenant: row.get(1)?,
        name: row.get(2)?,
        run: row.get(3)?,
        text: row.get(4)?,
        expires_ms: row.get(5)?,
    })
}

fn find(
    conn: &Connection,
    kind: &str,
    tenant: &str,
    name: &str,
) -> rusqlite::Result<Option<ServerRecord>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM server_record WHERE kind = ?1 AND tenant = ?2 AND name = ?3"
    );
    conn.query_row(&sql, [kind, tenant, name], from_row)
        .optional()
}

/// Inserts a record in a transaction that is open. Returns the one that is there already, if it counts.
pub(super) fn insert_record(
    conn: &Connection,
    record: &ServerRecord,
) -> rusqlite::Result<Option<ServerRecord>> {
    let present = find(conn, &record.kind, &record.tenant, &record.name)?;
    match present.filter(|present| present.counts_at(now_ms())) {
        Some(present) => Ok(Some(present)),
        None => replace(conn, record).map(|()| None),
    }
}

fn replace(conn: &Connection, record: &ServerRecord) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO server_record VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let ServerRecord {
        kind,
        tenant,
        name,
        run,
        text,
        expires_ms,
    } = record;
    conn.execute(sql, params![kind, tenant, name, run, text, expires_ms])
        .map(drop)
}

/// Returns the bytes of a submitted file; `None` if they are missing or have changed.
pub(super) fn read_file(
    reader: &SqliteReader,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, StoreError> {
    let sql = "SELECT body FROM file WHERE digest = ?1";
    let row = reader
        .rows
        .conn
        .query_row(sql, [&digest.0], |row| row.get::<_, Vec<u8>>(0))
        .optional();
    let bytes = row.map_err(|e| reader.rows.error("read", e))?;
    Ok(bytes.filter(|bytes| digest_of(bytes) == *digest))
}

/// The records in a database file.
pub(crate) struct FileRecords {
    url: SqliteUrl,
}

impl FileRecords {
    pub(crate) fn new(url: SqliteUrl) -> Self {
        Self { url }
    }

    /// Returns what `read` returns for the database, or the default if it has no records.
    pub(super) fn read<T: Default>(
        &self,
        read: impl FnOnce(&SqliteReader) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read_queue = |reader: &SqliteReader| {
            let has_queue = has_queue_tables(&reader.rows.conn);
            if has_queue.map_err(|e| reader.rows.error("read", e))? {
                read(reader)
            } else {
                Ok(T::default())
            }
        };
        if let Some(reader) = SharedDatabase::shared_reader(&self.url.file)? {
            return read_queue(&reader);
        }
        match open_whole(&self.url)? {
            Some(reader) => read_queue(&reader),
            None => Ok(T::default()),
        }
    }

    /// Makes a change that must not be lost.
    pub(super) fn change<T: Send + 'static>(
        &self,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.change_with(ChangeTerms::durable(), write)
    }

    fn change_with<T: Send + 'static>(
        &self,
        terms: ChangeTerms,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        wait(SharedDatabase::open_queue(&self.url.file)?.make(terms, write))
    }
}

impl ServerRecords for FileRecords {
    fn read_record(
        &self,
        kind: &str,
        tenant: &str,
        name: &str,
    ) -> Result<Option<ServerRecord>, StoreError> {
        let found = self.read(|reader| {
            find(&reader.rows.conn, kind, tenant, name).map_err(|e| reader.rows.error("read", e))
        })?;
        Ok(found.filter(|record| record.counts_at(now_ms())))
    }

    fn list_records(
        &self,
        kind: &str,
        tenant: Option<&str>,
    ) -> Result<Vec<ServerRecord>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM server_record WHERE kind = ?1 AND (?2 IS NULL OR tenant = ?2) ORDER BY tenant, name"
        );
        let mut found =
            self.read(|reader| reader.rows.query_all(&sql, params![kind, tenant], from_row))?;
        let now_ms = now_ms();
        found.retain(|record| record.counts_at(now_ms));
        Ok(found)
    }

    fn insert_record(&self, record: &ServerRecord) -> Result<Option<ServerRecord>, StoreError> {
        let record = record.clone();
        self.change(move |conn| insert_record(conn, &record))
    }

    fn put_record(&self, record: &ServerRecord) -> Result<(), StoreError> {
        let record = record.clone();
        self.change(move |conn| replace(conn, &record))
    }

    fn check_recording(&self, now_ms: i64) -> Result<(), StoreError> {
        let terms = ChangeTerms {
            visibility: ChangeVisibility::Unseen,
            ..ChangeTerms::durable()
        };
        let record = ServerRecord::of_check(now_ms);
        self.change_with(terms, move |conn| replace(conn, &record))
    }

    fn delete_record(&self, kind: &str, tenant: &str, name: &str) -> Result<bool, StoreError> {
        let [kind, tenant, name] = [kind, tenant, name].map(str::to_owned);
        self.change(move |conn| {
            let sql = "DELETE FROM server_record WHERE kind = ?1 AND tenant = ?2 AND name = ?3";
            Ok(conn.execute(sql, [&kind, &tenant, &name])? > 0)
        })
    }

    fn delete_expired_records(&self, now_ms: i64) -> Result<(), StoreError> {
        self.change_with(ChangeTerms::default(), move |conn| {
            let sql = "DELETE FROM server_record WHERE expires_ms <= ?1";
            conn.execute(sql, [now_ms]).map(drop)
        })
    }

    fn put_file(
        &self,
        digest: &Digest,
        bytes: Vec<u8>,
        record: &ServerRecord,
    ) -> Result<(), StoreError> {
        let (digest, record) = (digest.clone(), record.clone());
        self.change(move |conn| {
            let sql = "INSERT OR IGNORE INTO file VALUES (?1, ?2)";
            conn.execute(sql, params![digest.0, bytes])?;
            replace(conn, &record)
        })
    }

    fn read_file(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(|reader| read_file(reader, digest))
    }

    fn hold(&self, tenant: &str, name: &str) -> Result<Option<RecordHold>, StoreError> {
        // No other process has the file open to change it.
        let database = SharedDatabase::open_queue(&self.url.file)?;
        let names = database.held_names().clone();
        Ok(names.hold(tenant, name, database))
    }
}
