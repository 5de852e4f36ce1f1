//! The records of servers, and files that were uploaded to them. Any number of servers use them at the same time, so each
//! change is one statement, which may be carried out twice if the connection breaks.

use std::sync::{Mutex, PoisonError};

use strata_base::clock::now_ms;
use strata_base::files::blob::digest_of;
use strata_core::record::id::Digest;
use strata_records::error::StoreError;
use strata_records::record_hold::RecordHold;
use strata_records::server_record::ServerRecord;
use strata_records::server_records::ServerRecords;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::record_hold::hold_name;
use super::session::Argument;

const COLUMNS: &str = "kind, tenant, name, code, text, expires_ms";

/// Inserts a record, or replaces one that does not count any more (`$7` is the time now). Returns a row if it did.
const INSERT: &str = "
    INSERT INTO strata.server_record AS known (kind, tenant, name, code, text, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, tenant, name) DO UPDATE
        SET code = excluded.code, text = excluded.text, expires_ms = excluded.expires_ms
        WHERE known.expires_ms <= $7
    RETURNING true";

/// Inserts a record, or replaces it.
const PUT: &str = "
    INSERT INTO strata.server_record (kind, tenant, name, code, text, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, tenant, name) DO UPDATE
        SET code = excluded.code, text = excluded.text, expires_ms = excluded.expires_ms";

/// Stores a file (`$7`, `$8`) with a record about it. A file that is there is written again as it is, so that nobody deletes
/// it who has not seen the record.
const PUT_FILE: &str = "
    WITH stored AS (
        INSERT INTO strata.file (digest, body) VALUES ($7, $8)
        ON CONFLICT (digest) DO UPDATE SET digest = excluded.digest)
    INSERT INTO strata.server_record (kind, tenant, name, code, text, expires_ms)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (kind, tenant, name) DO UPDATE
        SET code = excluded.code, text = excluded.text, expires_ms = excluded.expires_ms";

fn from_row(row: &Row) -> ServerRecord {
    ServerRecord {
        kind: row.get(0),
        tenant: row.get(1),
        name: row.get(2),
        run: row.get(3),
        text: row.get(4),
        expires_ms: row.get(5),
    }
}

/// Returns the columns of a record as arguments.
fn columns(record: &ServerRecord) -> Vec<Argument<'_>> {
    vec![
        (&record.kind, Type::TEXT),
        (&record.tenant, Type::TEXT),
        (&record.name, Type::TEXT),
        (&record.run, Type::TEXT),
        (&record.text, Type::TEXT),
        (&record.expires_ms, Type::INT8),
    ]
}

/// Whether the server can have a record of this name: its texts cannot contain this character.
fn can_exist(name: &str) -> bool {
    !name.contains('\0')
}

fn find(
    connection: &Connection,
    kind: &str,
    tenant: &str,
    name: &str,
) -> Result<Option<ServerRecord>, StatementError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM strata.server_record WHERE kind = $1 AND tenant = $2 AND name = $3"
    );
    let key = [
        (&kind as _, Type::TEXT),
        (&tenant as _, Type::TEXT),
        (&name as _, Type::TEXT),
    ];
    let row = connection.query_optional(&sql, &key)?;
    let found = row.as_ref().map(from_row);
    Ok(found.filter(|record| record.counts_at(now_ms())))
}

/// Inserts a record. Returns the one that is there already, if it counts.
fn insert(
    connection: &Connection,
    record: &ServerRecord,
) -> Result<Option<ServerRecord>, StatementError> {
    loop {
        let now_ms = now_ms();
        let mut arguments = columns(record);
        arguments.push((&now_ms, Type::INT8));
        if connection.query_optional(INSERT, &arguments)?.is_some() {
            return Ok(None);
        }
        // It may be gone meanwhile.
        if let Some(present) = find(connection, &record.kind, &record.tenant, &record.name)? {
            return Ok(Some(present));
        }
    }
}

/// Inserts the records of a run that is submitted, in a transaction that is open. Fails if one of them is there already.
pub(super) fn insert_new(
    connection: &Connection,
    records: &[ServerRecord],
) -> Result<(), StatementError> {
    for record in records {
        if let Some(present) = insert(connection, record)? {
            let record = Box::new(present);
            return Err(StoreError::RecordTaken { record }.into());
        }
    }
    Ok(())
}

/// Returns where the servers of a database keep their records.
pub fn open_records(database: &Database) -> Result<Box<dyn ServerRecords>, StoreError> {
    let connection = database.connect()?;
    super::schema::migrate(&connection)?;
    Ok(Box::new(DatabaseRecords {
        database: database.clone(),
        connection: Mutex::new(connection),
    }))
}

/// The records in a database.
struct DatabaseRecords {
    database: Database,
    /// Keeps the shared connections open, from which each caller gets its own.
    connection: Mutex<Connection>,
}

impl DatabaseRecords {
    fn connection(&self) -> Connection {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner).another()
    }

    /// Carries out statements, again if the connection was broken.
    fn carry_out<T>(
        &self,
        work: impl Fn(&Connection) -> Result<T, StatementError>,
    ) -> Result<T, StoreError> {
        self.connection().repeat_if_broken(work)
    }
}

impl ServerRecords for DatabaseRecords {
    fn read_record(
        &self,
        kind: &str,
        tenant: &str,
        name: &str,
    ) -> Result<Option<ServerRecord>, StoreError> {
        if can_exist(name) {
            self.carry_out(|connection| find(connection, kind, tenant, name))
        } else {
            Ok(None)
        }
    }

    fn list_records(
        &self,
        kind: &str,
        tenant: Option<&str>,
    ) -> Result<Vec<ServerRecord>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM strata.server_record WHERE kind = $1 AND ($2::text IS NULL OR tenant = $2) \
             ORDER BY tenant COLLATE \"C\", name COLLATE \"C\""
        );
        let arguments = [(&kind as _, Type::TEXT), (&tenant as _, Type::TEXT)];
        let rows = self.carry_out(|connection| connection.query(&sql, &arguments))?;
        let now_ms = now_ms();
        let records = rows.iter().map(from_row);
        Ok(records.filter(|record| record.counts_at(now_ms)).collect())
    }

    fn insert_record(&self, record: &ServerRecord) -> Result<Option<ServerRecord>, StoreError> {
        let present = self.carry_out(|connection| insert(connection, record))?;
        // It was inserted before the connection broke.
        Ok(present.filter(|present| present != record))
    }

    fn put_record(&self, record: &ServerRecord) -> Result<(), StoreError> {
        let columns = columns(record);
        self.carry_out(|connection| connection.execute(PUT, &columns))?;
        Ok(())
    }

    fn check_recording(&self, now_ms: i64) -> Result<(), StoreError> {
        self.put_record(&ServerRecord::of_check(now_ms))
    }

    fn delete_record(&self, kind: &str, tenant: &str, name: &str) -> Result<bool, StoreError> {
        if !can_exist(name) {
            return Ok(false);
        }
        let sql = "DELETE FROM strata.server_record WHERE kind = $1 AND tenant = $2 AND name = $3";
        let key = [
            (&kind as _, Type::TEXT),
            (&tenant as _, Type::TEXT),
            (&name as _, Type::TEXT),
        ];
        let deleted = self.carry_out(|connection| connection.execute(sql, &key))?;
        Ok(deleted > 0)
    }

    fn delete_expired_records(&self, now_ms: i64) -> Result<(), StoreError> {
        let sql = "DELETE FROM strata.server_record WHERE expires_ms <= $1";
        self.carry_out(|connection| connection.execute(sql, &[(&now_ms, Type::INT8)]))?;
        Ok(())
    }

    fn put_file(
        &self,
        digest: &Digest,
        bytes: Vec<u8>,
        record: &ServerRecord,
    ) -> Result<(), StoreError> {
        let mut arguments = columns(record);
        arguments.push((&digest.0, Type::TEXT));
        arguments.push((&bytes, Type::BYTEA));
        self.carry_out(|connection| connection.execute(PUT_FILE, &arguments))?;
        Ok(())
    }

    fn read_file(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM strata.file WHERE digest = $1";
        let arguments = [(&digest.0 as _, Type::TEXT)];
        let row = self.carry_out(|connection| connection.query_optional(sql, &arguments))?;
        let bytes: Option<Vec<u8>> = row.map(|row| row.get(0));
        Ok(bytes.filter(|bytes| digest_of(bytes) == *digest))
    }

    fn hold(&self, tenant: &str, name: &str) -> Result<Option<RecordHold>, StoreError> {
        hold_name(&self.database, &self.connection(), tenant, name)
    }
}
