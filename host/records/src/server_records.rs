//! Where the records of a server are kept, with the files that were uploaded to it.

use strata_core::record::id::Digest;

use super::error::StoreError;
use super::record_hold::RecordHold;
use super::server_record::ServerRecord;

/// Where a server keeps its records and the files that were uploaded.
pub trait ServerRecords: Send + Sync {
    /// Returns a record.
    fn read_record(
        &self,
        kind: &str,
        tenant: &str,
        name: &str,
    ) -> Result<Option<ServerRecord>, StoreError>;

    /// Returns all records of a kind, of one tenant or of all, by tenant and name.
    fn list_records(
        &self,
        kind: &str,
        tenant: Option<&str>,
    ) -> Result<Vec<ServerRecord>, StoreError>;

    /// Inserts a record. Returns the one that is there already, if it counts, and changes nothing then.
    fn insert_record(&self, record: &ServerRecord) -> Result<Option<ServerRecord>, StoreError>;

    /// Inserts a record, or replaces it.
    fn put_record(&self, record: &ServerRecord) -> Result<(), StoreError>;

    /// Finds out whether anything can be recorded, by recording the time in place of the one before. Nobody reads it, so
    /// what was read of the database before is not outdated by it.
    fn check_recording(&self, now_ms: i64) -> Result<(), StoreError>;

    /// Deletes a record. Returns whether there was one.
    fn delete_record(&self, kind: &str, tenant: &str, name: &str) -> Result<bool, StoreError>;

    /// Deletes the records that do not count any more.
    fn delete_expired_records(&self, now_ms: i64) -> Result<(), StoreError>;

    /// Stores the bytes of a file, with a record about it.
    fn put_file(
        &self,
        digest: &Digest,
        bytes: Vec<u8>,
        record: &ServerRecord,
    ) -> Result<(), StoreError>;

    /// Returns the bytes of a file that was uploaded or submitted.
    fn read_file(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError>;

    /// Holds a name of a tenant against everybody else who uses the same storage, until what is returned is dropped. Returns
    /// `None` if somebody holds it. A name that a killed process held is free again after 10 s at most.
    fn hold(&self, tenant: &str, name: &str) -> Result<Option<RecordHold>, StoreError>;
}
