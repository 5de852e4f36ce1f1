//! The store in a file: `team.db`, an SQLite database in WAL mode. Its rows are read in `rows`, without
//! its lock in `consistent_read`, and its tables are in `schema`.
//!
//! Here, `create` makes a database; `write_change` carries out the changes of a run, for the lease of a run in a storage
//! directory (`inline_writer`), for those of a file with many runs (`shared`) and for one in memory (`memory_writer`); `write` writes rows; `wal_file` syncs the
//! write-ahead log, and `wal_checkpoint` moves it into the database; `snapshot` saves states, and `prune` removes what is
//! not needed.

pub(super) mod blob;
mod consistent_read;
mod create;
mod error;
mod file_state;
mod inline_writer;
pub(super) mod lineage;
mod memory_writer;
mod prune;
pub(super) mod rows;
pub(super) mod schema;
pub(super) mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod wal_checkpoint;
mod wal_file;
mod write;
mod write_change;
mod write_connection;

pub(crate) use create::DatabaseImage;
pub(crate) use inline_writer::{InlineWriter, SqliteLease};
pub use memory_writer::create_in_memory;
#[cfg(feature = "test-support")]
pub use memory_writer::create_with_damage;
#[cfg(test)]
pub(crate) use memory_writer::{MemoryLease, MemoryWriter};
