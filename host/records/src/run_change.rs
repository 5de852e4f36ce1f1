//! The changes of a run, apart from where it is kept: a lease makes them (`stored_lease`), and whoever writes a
//! database carries them out there (`run_writer`).

use std::sync::Arc;

use strata_base::files::blob::Blobs;

use crate::encoded_events::EncodedEvents;
use crate::lineage::StoredLineage;
use crate::overview::OverviewChange;
use crate::prune_plan::PrunePlan;
use crate::snapshot::SnapshotRows;
use crate::{RunSchedule, SavedDefinition};

/// A change of a run. A clone shares what it adds.
#[derive(Clone, Debug)]
pub enum RunChange {
    /// Events are appended to the current lineage.
    Events(Arc<NewEvents>),
    /// A lineage is added, which begins with events.
    Branch(Arc<NewLineage>),
    /// The newest state is saved, and earlier ones are deleted that are not needed any more.
    Snapshot(Arc<NewestState>),
    /// An earlier state is saved, in place of events that are going to be dropped.
    EarlierState(Arc<SnapshotRows>),
    /// The row of the current lineage is written.
    Row(StoredLineage),
    /// Checkpoints are forgotten, and events dropped.
    Prune(Arc<PrunePlan>),
    /// The bytes of files are added.
    Blobs(Arc<Blobs>),
    /// The team file is replaced.
    Definition(Arc<SavedDefinition>),
    /// A note is replaced.
    Note {
        /// Its name.
        name: Arc<str>,
        /// Its text.
        text: Arc<str>,
    },
    /// The run continues with another lineage.
    Switch(Arc<LineageSwitch>),
    /// Workers take the run up at another time.
    Schedule(RunSchedule),
}

/// Events that are appended to the current lineage.
#[derive(Debug)]
pub struct NewEvents {
    /// The lineage, with them.
    pub line: StoredLineage,
    /// The rows of the events.
    pub events: EncodedEvents,
    /// Whether the row of the lineage is written with them.
    pub writes_row: bool,
    /// What becomes of what a list shows of the run, if that is kept.
    pub shown: Option<OverviewChange>,
    /// The replies to requests that became these events. A server stores them with the events.
    pub replies: Vec<crate::MailReply>,
}

/// A lineage that begins with events.
#[derive(Debug)]
pub struct NewLineage {
    /// The row of the lineage that is current before, if it lags behind.
    pub behind: Option<StoredLineage>,
    /// The lineage, with its events. A database that gives keys to lineages of several runs may give it another.
    pub line: StoredLineage,
    /// The rows of the events.
    pub events: EncodedEvents,
    /// The key of the lineage that is current before.
    pub former: i64,
    /// Whether the run continues with the new one.
    pub becomes_current: bool,
    /// The first public line after the events.
    pub next_line: i64,
    /// What becomes of what a list shows of the run, if that is kept and the run continues with the lineage.
    pub shown: Option<OverviewChange>,
}

/// The newest state of the current lineage, which is saved.
#[derive(Debug)]
pub struct NewestState {
    /// The rows of the state.
    pub rows: SnapshotRows,
    /// The row of the lineage, which is written with it.
    pub line: StoredLineage,
}

/// The run continues with another lineage.
#[derive(Debug)]
pub struct LineageSwitch {
    /// The row of the lineage that is current before, if it lags behind.
    pub behind: Option<StoredLineage>,
    /// The key of the lineage that is current afterwards.
    pub lineage: i64,
    /// The first public line that none of the lineages uses.
    pub next_line: i64,
}

/// What came of a change that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenChange {
    /// The key that a new lineage got.
    pub lineage: Option<i64>,
    /// How many events were dropped.
    pub dropped: u64,
    /// About how many bytes are stored of the run, if they were counted.
    pub stored_bytes: Option<u64>,
}

impl RunChange {
    /// Returns a note with this name and text.
    pub fn note(name: &str, text: &str) -> Self {
        Self::Note {
            name: name.into(),
            text: text.into(),
        }
    }

    /// Returns the events that it adds, if it adds any.
    pub fn events(&self) -> Option<&EncodedEvents> {
        match self {
            Self::Events(new) => Some(&new.events),
            Self::Branch(new) => Some(&new.events),
            Self::Snapshot(_)
            | Self::EarlierState(_)
            | Self::Row(_)
            | Self::Prune(_)
            | Self::Blobs(_)
            | Self::Definition(_)
            | Self::Note { .. }
            | Self::Switch(_)
            | Self::Schedule(_) => None,
        }
    }

    /// Whether it writes the row of the lineage that was current before, if that lags behind.
    pub fn writes_row(&self) -> bool {
        match self {
            Self::Events(new) => new.writes_row,
            Self::Branch(_) | Self::Snapshot(_) | Self::Row(_) | Self::Switch(_) => true,
            Self::EarlierState(_)
            | Self::Prune(_)
            | Self::Blobs(_)
            | Self::Definition(_)
            | Self::Note { .. }
            | Self::Schedule(_) => false,
        }
    }

    /// Returns about how many bytes it adds to what is stored of the run.
    pub fn added_bytes(&self) -> u64 {
        match self {
            Self::Events(new) => new.events.bytes(),
            Self::Branch(new) => new.events.bytes(),
            Self::Snapshot(new) => new.rows.bytes(),
            Self::EarlierState(rows) => rows.bytes(),
            Self::Blobs(blobs) => blobs.values().map(|body| body.len() as u64).sum(),
            Self::Row(_)
            | Self::Prune(_)
            | Self::Definition(_)
            | Self::Note { .. }
            | Self::Switch(_)
            | Self::Schedule(_) => 0,
        }
    }
}

impl NewLineage {
    /// Returns the key of the lineage that the run continues with, if the new one has this key.
    pub fn current(&self, id: i64) -> i64 {
        if self.becomes_current {
            id
        } else {
            self.former
        }
    }
}
