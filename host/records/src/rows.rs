//! The rows of a run, as each kind of database has them. What they mean, and whether they are
//! undamaged, is decided by those who read them (`reader`): the same for all databases.

use std::fmt::Debug;
use std::path::Path;

use strata_core::record::id::Digest;

use super::codec::{self, DecodeError};
use super::error::StoreError;
use super::lineage::{KeyRange, StoredLineage, StoredRun};

/// What reading rows returns.
pub type RowResult<T> = Result<T, StoreError>;

/// Receives the row of an event.
pub type VisitEvent<'a> = dyn FnMut(&EventRow<'_>) -> RowResult<()> + 'a;

/// Receives the row of a bundle.
pub type VisitBundle<'a> = dyn FnMut(&BundleBytes<'_>) -> RowResult<()> + 'a;

/// The rows of one run in a database. Keys are those of `lineage`.
pub trait RunRows: Debug + Sized {
    /// Returns where the run is kept, for messages.
    fn path(&self) -> &Path;

    /// Starts a read transaction, if there is none yet: until `end_read`, all reads see the same
    /// state, whatever another process commits. Returns whether it started one.
    fn begin_read(&self) -> Result<bool, StoreError>;

    /// Ends the read transaction.
    fn end_read(&self);

    /// Whether what was read since the database was opened may be a mix of two states.
    fn has_changed(&self) -> bool;

    /// Opens the same database again.
    fn reopen(&self) -> Result<Self, StoreError>;

    /// Returns the run.
    fn run(&self) -> Result<StoredRun, StoreError>;

    /// Returns the key of the first lineage of the run.
    fn first_lineage(&self) -> Result<i64, StoreError>;

    /// Returns the key that the next lineage of the run gets.
    fn next_lineage_id(&self) -> Result<i64, StoreError>;

    /// Returns the row of a lineage.
    fn lineage(&self, id: i64) -> Result<StoredLineage, StoreError>;

    /// Returns the row of the lineage with this name, if there is one.
    fn lineage_by_name(&self, name: &str) -> Result<Option<StoredLineage>, StoreError>;

    /// Returns the rows of all lineages of the run, by their numbers.
    fn lineages(&self) -> Result<Vec<StoredLineage>, StoreError>;

    /// Passes events to `visit`, in order.
    fn visit_events(&self, range: EventRange, visit: &mut VisitEvent<'_>) -> RowResult<()>;

    /// Returns how many rows of events there are in a range of keys, and the size of their bodies in
    /// bytes.
    fn measure_events(&self, keys: KeyRange) -> Result<RowsSize, StoreError>;

    /// Returns how many snapshots there are in a range of keys, and the size of their bodies in bytes.
    fn measure_snapshots(&self, keys: KeyRange) -> Result<RowsSize, StoreError>;

    /// Returns the gaps in a range of keys, in order.
    fn gaps(&self, keys: KeyRange) -> Result<Vec<GapRow>, StoreError>;

    /// Returns snapshots, without their bodies.
    fn snapshots(&self, range: SnapshotRange) -> RowResult<Vec<SnapshotRow>>;

    /// Returns the body of the snapshot with this key, if there is one.
    fn snapshot_body(&self, n: i64) -> Result<Option<StoredBlob>, StoreError>;

    /// Passes the bundles of messages with these keys, which ascend, to `visit`, in order. Passes
    /// nothing for a key without a bundle.
    fn visit_bundles(&self, keys: &[i64], visit: &mut VisitBundle<'_>) -> RowResult<()>;

    /// Returns the largest key of a bundle in a range, or the beginning of the range.
    fn last_bundle(&self, keys: KeyRange) -> Result<i64, StoreError>;

    /// Returns the row of the team file.
    fn definition(&self) -> Result<DefinitionRow, StoreError>;

    /// Returns the note with this name, if there is one.
    fn note(&self, name: &str) -> Result<Option<String>, StoreError>;

    /// Returns the bytes of a file, if they are stored.
    fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns the digests of the files whose bytes are stored.
    fn blob_digests(&self) -> Result<Vec<String>, StoreError>;

    /// Whether any bytes of files are stored.
    fn has_blobs(&self) -> Result<bool, StoreError>;

    /// Returns the error for rows that do not fit together.
    fn corrupt(&self, what: impl Into<String>) -> StoreError {
        StoreError::corrupt(self.path(), what)
    }

    /// Returns the error for a row that cannot be decoded.
    fn decode_error(&self, what: &str, damage: DecodeError) -> StoreError {
        StoreError::undecodable(self.path(), what, damage)
    }
}

/// Which events of a range are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSelection {
    /// All of them.
    All,
    /// Those that concern checkpoints.
    Checkpoints,
    /// The first of those.
    NextCheckpoint,
}

/// Which snapshots of a range are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotSelection {
    /// All of them.
    All,
    /// The one with the lowest key.
    Oldest,
    /// The one with the highest key.
    Newest,
}

/// Events that are read.
#[derive(Clone, Copy, Debug)]
pub struct EventRange {
    /// The keys of the range.
    pub keys: KeyRange,
    /// Which of its events are read.
    pub selection: EventSelection,
}

/// Snapshots that are read.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotRange {
    /// The keys of the range.
    pub keys: KeyRange,
    /// Which of its snapshots are read.
    pub selection: SnapshotSelection,
}

/// The row of an event.
#[derive(Clone, Copy, Debug)]
pub struct EventRow<'a> {
    /// Its key.
    pub n: i64,
    /// The number of its first public line.
    pub line: i64,
    /// How many public lines it has.
    pub lines: i64,
    /// When it was recorded, in milliseconds since 1970.
    pub time_ms: i64,
    /// What it concerns, as bits.
    pub marks: i64,
    /// The checksum of all of that and of the body.
    pub sum: u32,
    /// The event, encoded.
    pub body: &'a [u8],
}

/// How much a number of rows contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowsSize {
    /// How many they are.
    pub rows: i64,
    /// How many bytes are in them.
    pub bytes: i64,
}

/// The row of a bundle of messages.
#[derive(Clone, Copy, Debug)]
pub struct BundleBytes<'a> {
    /// Its key.
    pub n: i64,
    /// The checksum of the key, the number of messages and the body.
    pub sum: u32,
    /// The messages, encoded.
    pub body: &'a [u8],
}

/// The row of a gap: events were dropped from the key `n` to the position `last`.
#[derive(Clone, Copy, Debug)]
pub struct GapRow {
    /// The key of the first of them.
    pub n: i64,
    /// The position of the last of them.
    pub last: i64,
    /// The next step after them.
    pub step: i64,
    /// The checksum of these numbers.
    pub sum: u32,
}

/// The row of a snapshot, without its state.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// Its key.
    pub n: i64,
    /// The size of its state in bytes.
    pub bytes: i64,
    /// The list of its bundles.
    pub bundles: StoredBlob,
}

/// The row of a team file.
#[derive(Clone, Debug)]
pub struct DefinitionRow {
    /// The name of the file.
    pub name: String,
    /// The directory that its paths start from.
    pub base: String,
    /// The content of the file.
    pub text: String,
    /// What replaces its components, as a JSON list.
    pub components: String,
    /// The checksum of these texts.
    pub sum: u32,
}

/// Bytes as they were read from a row, with their checksum.
#[derive(Clone, Debug)]
pub struct StoredBlob {
    /// The checksum.
    pub sum: u32,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl StoredBlob {
    /// Returns the bytes, if the checksum of them and of these numbers matches.
    pub fn verified(&self, numbers: &[i64]) -> Result<&[u8], DecodeError> {
        codec::verify(self.sum, numbers, &self.bytes).map(|()| self.bytes.as_slice())
    }
}
