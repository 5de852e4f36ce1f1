//! Where a lease writes the changes of its run: at once on its own connection, through the thread that writes the
//! changes of many runs, or through the connections to a server.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::StoreError;
use crate::lineage::{KeyRange, StoredLineage};
use crate::reader::RowReader;
use crate::rows::RunRows;
use crate::run_change::{RunChange, WrittenChange};
use crate::{Durability, Epoch, LeaseStatus, RunCaps};

/// A change that was begun.
pub enum Writing {
    /// It is committed, and survives the end of the process. `RunWriter::sync` makes it survive more.
    Committed(WrittenChange),
    /// It is as durable as it has to be when the future returns.
    Pending(BoxFuture<'static, Result<WrittenChange, StoreError>>),
}

/// For whom it is kept what a list shows of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownState {
    /// For nobody.
    Never,
    /// For lists that read the state of each run that has not ended.
    AtEnd,
    /// For the queue that the run is in. It also knows when workers take the run up.
    Always,
}

/// Writes the changes of one run under a lease. Dropping it gives the run up.
pub trait RunWriter: Debug + Send {
    /// The rows that are read of the run.
    type Rows: RunRows + Send + 'static;

    /// Returns what reads the run.
    fn reader(&self) -> &RowReader<Self::Rows>;

    /// Returns where the run is kept, for messages.
    fn path(&self) -> &Path;

    /// Returns the epoch of the lease.
    fn epoch(&self) -> Epoch;

    /// Returns the range in which the keys of the run's bundles are.
    fn bundle_keys(&self) -> KeyRange;

    /// Begins a change, which is refused with `StoreError::Fenced` if there is a newer lease. `line` is the current
    /// lineage before it. If this fails, nothing was changed.
    fn begin(
        &self,
        line: &StoredLineage,
        change: RunChange,
        durability: Durability,
    ) -> Result<Writing, StoreError>;

    /// Has the disk begin to make committed changes survive a loss of power. Returns whether it works on that now, so
    /// that `sync` only waits for it.
    fn begin_sync(&mut self) -> bool {
        false
    }

    /// Makes committed changes survive a loss of power.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns whether the row of the lineage should be written so that the writer can tidy up.
    fn needs_row(&self) -> bool {
        false
    }

    /// Returns for whom it is kept what a list shows of the run.
    fn shown(&self) -> ShownState;

    /// Returns how many bytes are stored of the run, or how large its files are.
    fn measure(&self) -> Result<u64, StoreError>;

    /// Gives the space of what was dropped back, and measures again.
    fn shrink(&mut self) -> Result<u64, StoreError> {
        self.measure()
    }

    /// Stores again what a server lost, if it went back to an earlier state. Returns whether it has again everything up
    /// to the newest event of `line`, so that a change can be repeated that was refused because of that.
    fn restore(&mut self, _line: &StoredLineage) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Fails as a change would that is begun now.
    fn check_stored(&mut self, _line: &StoredLineage) -> Result<(), StoreError> {
        Ok(())
    }

    /// Notes that the change is written that was begun last.
    fn note_written(&mut self, _written: &WrittenChange, _durability: Durability) {}

    /// Returns whether this is certainly still the newest lease, from now on.
    fn status(&self) -> LeaseStatus {
        LeaseStatus::permanent()
    }

    /// Says how long a change waits for a server that cannot be reached.
    fn set_patience(&mut self, _patience: Duration) {}

    /// Returns the caps above the run.
    fn caps(&self) -> RunCaps {
        RunCaps::default()
    }
}
