//! What a server remembers in its database besides runs: tokens, which tenant uploaded which file, and answers to
//! repeated requests. What a record means is up to the server.

use strata_core::record::id::Digest;

use super::error::StoreError;

/// A record of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRecord {
    /// What it is about.
    pub kind: String,
    /// Whose it is; empty if it belongs to no tenant.
    pub tenant: String,
    /// Its name. There is one record of a kind, a tenant and a name.
    pub name: String,
    /// The id of the run with which it is deleted.
    pub run: Option<String>,
    /// What it says.
    pub text: String,
    /// When it stops counting, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

impl ServerRecord {
    /// Whether it counts at a time.
    pub fn counts_at(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}

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
}
