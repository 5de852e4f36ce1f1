//! Writes the changes of one run in PostgreSQL. Each is refused if there is a newer lease, and if the database went back to
//! an earlier state; then what it lost can be stored again.

use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_core::record::id::Digest;
use strata_records::encoded_events::KnownEvent;
use strata_records::error::StoreError;
use strata_records::lineage::{KeyRange, StoredLineage, key_range};
use strata_records::overview::{EndTime, OverviewChange};
use strata_records::rows::RunRows;
use strata_records::run_change::{NewEvents, RunChange, WrittenChange};
use strata_records::run_writer::{RunWriter, ShownState, Writing};
use strata_records::stored_lease::StoredLease;
use strata_records::{DEFAULT_PATIENCE, Durability, Epoch, LeaseStatus, RunCaps};

use super::administer::read_settings;
use super::append::{AppendRequest, AppendRight};
use super::change::{RunKeys, change, change_once, write_change};
use super::connect::on_another_thread;
use super::connection::Connection;
use super::database::Database;
use super::owner::Ownership;
use super::recent::{LeaseChanges, RecentChanges};
use super::restore::restore_changes;
use super::rows::{PostgresReader, PostgresRows};
use super::write;
use super::writer::Writers;

/// A lease of a run in a database.
pub type PostgresLease = StoredLease<ServerWriter>;

/// Writes the changes of a run in a database.
#[derive(Debug)]
pub struct ServerWriter {
    reader: PostgresReader,
    /// What is opened later under the same address shares what this lease uses.
    _database: Database,
    owner: Ownership,
    caps: RunCaps,
    writers: Arc<Writers>,
    changed: RunKeys,
    /// What this lease changed lately, and all leases of this process.
    recent: OnceCell<LeaseChanges>,
    all_recent: Arc<RecentChanges>,
    /// Which restored copy of the database this is.
    incarnation: String,
    /// The change that was begun last.
    begun: RefCell<Option<RunChange>>,
    /// What the row shows from which the run is listed, as far as this lease knows.
    shown: Option<OverviewChange>,
    /// The files that were stored since the last event.
    new_files: Vec<Digest>,
    /// The last event that was appended with full durability.
    kept: Option<KnownEvent>,
    /// About how many bytes are stored of the run. They are counted when that is first needed.
    stored_bytes: Option<u64>,
    patience: Duration,
}

impl ServerWriter {
    /// Returns a lease of the run that its owner took.
    pub(super) fn lease(
        database: &Database,
        connection: Connection,
        run: i64,
        owner: Ownership,
    ) -> Result<PostgresLease, StoreError> {
        PostgresLease::new(Self::new(database, connection, run, owner)?)
    }

    fn new(
        database: &Database,
        connection: Connection,
        run: i64,
        owner: Ownership,
    ) -> Result<Self, StoreError> {
        let reader = PostgresReader::from_rows(PostgresRows { connection, run });
        Ok(Self {
            writers: database.writers()?,
            all_recent: database.recent()?,
            _database: database.clone(),
            recent: OnceCell::new(),
            // What is read of the run later belongs to this copy of the database or to a newer one.
            incarnation: read_settings(&reader.rows.connection)?.incarnation,
            changed: RunKeys {
                run,
                bundle_keys: key_range(reader.rows.first_lineage()?),
            },
            begun: RefCell::new(None),
            shown: None,
            new_files: Vec::new(),
            reader,
            caps: owner.caps.join(owner.scope.clone()),
            owner,
            kept: None,
            stored_bytes: None,
            patience: DEFAULT_PATIENCE,
        })
    }

    fn connection(&self) -> &Connection {
        &self.reader.rows.connection
    }

    /// Returns the right under which a lineage is changed.
    fn right(&self, line: &StoredLineage) -> AppendRight {
        AppendRight {
            run: self.changed.run,
            epoch: self.owner.epoch,
            owner: Arc::clone(&self.owner.owner),
            before: KnownEvent::newest_of(line),
            patience: self.patience,
        }
    }

    /// Returns what was changed lately. `line` is the current lineage, if nothing was.
    fn recent(&self, line: &StoredLineage) -> &LeaseChanges {
        self.recent.get_or_init(|| {
            let all = Arc::clone(&self.all_recent);
            LeaseChanges::begin(all, self.changed.run, KnownEvent::newest_of(line))
        })
    }

    /// Begins to append events to the current lineage, with those of other runs.
    fn begin_append(
        &self,
        right: AppendRight,
        new: &Arc<NewEvents>,
        durability: Durability,
    ) -> Writing {
        let is_known = |shown: &OverviewChange| {
            let before = self.shown.as_ref();
            before.is_some_and(|before| shows_the_same(before, shown))
        };
        let appended = self.writers.append(AppendRequest {
            path: self.path().into(),
            right,
            is_shown: new.shown.as_ref().is_some_and(is_known),
            new: Arc::clone(new),
            files: self.new_files.clone(),
            kept: self.kept,
            durability,
        });
        Writing::Pending(Box::pin(async move {
            appended.await.map(|()| WrittenChange::default())
        }))
    }

    /// Begins a change in a transaction of its own, on another thread.
    fn begin_alone(&self, right: AppendRight, new: RunChange, durability: Durability) -> Writing {
        let connection = self.connection().another();
        let (changed, known_bytes) = (self.changed, self.stored_bytes);
        let make = move || {
            let stored_bytes = match (known_bytes, &new) {
                (None, RunChange::Snapshot(_)) => {
                    Some(write::stored_bytes(&connection, changed.run)?)
                }
                (known, _) => known,
            };
            let write = |connection: &Connection| {
                write_change(connection, changed, &new, stored_bytes.unwrap_or_default())
            };
            let written = match &new {
                // If it was added although the answer was lost, it must not be added again.
                RunChange::Branch(_) => change_once(&connection, &right, durability, write)?,
                _ => change(&connection, &right, durability, write)?,
            };
            Ok(WrittenChange {
                stored_bytes,
                ..written
            })
        };
        let path = self.path().to_path_buf();
        Writing::Pending(Box::pin(
            async move { on_another_thread(&path, make).await },
        ))
    }
}

/// Whether a list shows the same of a run after two changes, the latter of which does not end it.
fn shows_the_same(before: &OverviewChange, after: &OverviewChange) -> bool {
    after.overview == before.overview && !matches!(after.ended, EndTime::At(_))
}

impl RunWriter for ServerWriter {
    type Rows = PostgresRows;

    fn reader(&self) -> &PostgresReader {
        &self.reader
    }

    fn path(&self) -> &Path {
        self.connection().path()
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.owner.epoch as u64)
    }

    fn bundle_keys(&self) -> KeyRange {
        self.changed.bundle_keys
    }

    fn begin(
        &self,
        line: &StoredLineage,
        change: RunChange,
        durability: Durability,
    ) -> Result<Writing, StoreError> {
        self.recent(line);
        *self.begun.borrow_mut() = Some(change.clone());
        let right = self.right(line);
        Ok(match &change {
            RunChange::Events(new) => self.begin_append(right, new, durability),
            _ => self.begin_alone(right, change, durability),
        })
    }

    fn shown(&self) -> ShownState {
        ShownState::Always
    }

    fn measure(&self) -> Result<u64, StoreError> {
        Ok(write::stored_bytes(self.connection(), self.changed.run)?)
    }

    fn restore(&mut self, line: &StoredLineage) -> Result<bool, StoreError> {
        let history = self.recent(line).history();
        let (connection, right) = (self.connection(), self.right(line));
        if !restore_changes(
            connection,
            &right,
            self.changed,
            &self.incarnation,
            &history,
        )? {
            return Ok(false);
        }
        self.kept = KnownEvent::newest_of(line);
        self.stored_bytes = None;
        self.shown = None;
        Ok(true)
    }

    fn check_stored(&mut self, line: &StoredLineage) -> Result<(), StoreError> {
        // If the connection breaks meanwhile, this is called again.
        let right = self.right(line);
        change_once(self.connection(), &right, Durability::Process, |_| Ok(()))
    }

    fn note_written(&mut self, written: &WrittenChange, durability: Durability) {
        let Some(change) = self.begun.take() else {
            return;
        };
        self.stored_bytes = match &change {
            RunChange::Prune(_) => None,
            change => written
                .stored_bytes
                .or(self.stored_bytes)
                .map(|bytes| bytes + change.added_bytes()),
        };
        if let Some(events) = change.events()
            && durability == Durability::Full
        {
            self.kept = events.last();
        }
        match &change {
            RunChange::Events(new) => {
                self.new_files.clear();
                self.shown.clone_from(&new.shown);
            }
            RunChange::Branch(new) if new.shown.is_some() => self.shown.clone_from(&new.shown),
            RunChange::Blobs(blobs) => self.new_files.extend(blobs.keys().cloned()),
            RunChange::Switch(_) => self.shown = None,
            // What is derived from events is not stored again.
            RunChange::Snapshot(_)
            | RunChange::EarlierState(_)
            | RunChange::Row(_)
            | RunChange::Prune(_) => return,
            RunChange::Branch(_)
            | RunChange::Definition(_)
            | RunChange::Note { .. }
            | RunChange::Schedule(_) => {}
        }
        if let Some(recent) = self.recent.get() {
            recent.note(change);
        }
    }

    fn status(&self) -> LeaseStatus {
        self.owner.lease_status.clone()
    }

    fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    fn caps(&self) -> RunCaps {
        self.caps.clone()
    }
}

impl Drop for ServerWriter {
    fn drop(&mut self) {
        self.caps.leave();
        if let Err(error) = self.owner.release(self.connection()) {
            tracing::debug!("the run is given up when its lease has expired: {error}");
        }
    }
}
