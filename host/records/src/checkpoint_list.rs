//! Builds the list of checkpoints from the events that concern them. Reading those events is up to
//! each store.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::record::event::{
    AttemptEvent, Event, Forked, RequestAnswered, RunEnded, RunStarted, Status, StepCommitted,
};
use strata_core::record::id::CheckpointId;
use strata_core::state::environment::Environment;

use super::error::StoreError;
use super::{CheckpointOrigin, CheckpointRow, Record};

/// How many events a resume without anything to do records: that it resumed, and that it ended.
const IDLE_RESUME_EVENTS: u64 = 2;

/// What the list has to know of a lineage. Lineages are identified by their index in the order of
/// creation.
#[derive(Debug, Default)]
pub struct LineageHistory {
    /// Its name.
    pub name: String,
    /// The lineage that it left, and the position of the event after which it did.
    pub origin: Option<(usize, u64)>,
    /// Checkpoints that were made by events up to this position are forgotten, except those that
    /// have to be kept.
    pub forgotten_until: u64,
    /// Its own events that concern checkpoints, with their positions.
    pub events: Vec<(u64, Record)>,
    /// The last positions of gaps (events that were dropped), each with the next step after the
    /// gap.
    pub gaps: Vec<(u64, u64)>,
}

/// Returns the error for a checkpoint that is not listed.
pub fn unknown_checkpoint(id: &CheckpointId, listed: &[ListedCheckpoint]) -> StoreError {
    let known = listed
        .iter()
        .map(|listed| listed.row.id.0.clone())
        .collect();
    StoreError::NoCheckpoint {
        id: id.0.clone(),
        known,
    }
}

/// A checkpoint of the list, with its position.
#[derive(Clone, Debug)]
pub struct ListedCheckpoint {
    /// What users see of it.
    pub row: CheckpointRow,
    /// The index of its lineage.
    pub lineage: usize,
    /// The position of the event that made it; 0 for the state at the beginning.
    pub position: u64,
    /// The position of the last event that says with which status the run ended there, if there is
    /// one.
    pub status_event: Option<u64>,
    /// The first public line of the event that made it.
    first_line: u64,
    /// The status that is part of the state itself.
    state_status: Status,
    /// The index of its parent.
    parent_index: Option<usize>,
}

/// Returns all checkpoints that are not forgotten, oldest first.
pub fn list_checkpoints(base: &Environment, lineages: &[LineageHistory]) -> Vec<ListedCheckpoint> {
    let mut all = CheckpointListing::default();
    if let (Some(id), Some(first)) = (&base.checkpoint, lineages.first()) {
        // A state that another storage exported as a fork has its fork as parent.
        let is_fork = base.parent.is_some() && base.parent.as_ref() == base.lineage.forks.last();
        let source = if is_fork {
            CheckpointOrigin::Fork
        } else {
            CheckpointOrigin::Import
        };
        let row = CheckpointRow {
            id: id.clone(),
            lineage: first.name.clone(),
            step: base.step,
            parent: None,
            source,
            status: base.status,
            time_ms: None,
        };
        all.add(ListedCheckpoint {
            row,
            lineage: 0,
            position: 0,
            status_event: None,
            first_line: 0,
            state_status: base.status,
            parent_index: None,
        });
    }
    for (lineage, marks) in lineages.iter().enumerate() {
        all.add_lineage(lineage, marks, base.step);
    }
    all.keep(lineages)
}

#[derive(Default)]
struct CheckpointListing {
    rows: Vec<ListedCheckpoint>,
    by_id: BTreeMap<CheckpointId, usize>,
}

/// A checkpoint that an event made.
struct NewCheckpoint<'a> {
    id: &'a CheckpointId,
    step: u64,
    /// The index of its parent, if that was not dropped.
    parent: Option<usize>,
    source: CheckpointOrigin,
    status: Status,
}

impl<'a> NewCheckpoint<'a> {
    fn new(
        id: &'a CheckpointId,
        step: u64,
        parent: Option<usize>,
        source: CheckpointOrigin,
        status: Status,
    ) -> Self {
        Self {
            id,
            step,
            parent,
            source,
            status,
        }
    }
}

impl CheckpointListing {
    fn add(&mut self, listed: ListedCheckpoint) {
        self.by_id.insert(listed.row.id.clone(), self.rows.len());
        self.rows.push(listed);
    }

    /// Adds the checkpoints that the events of a lineage made.
    fn add_lineage(&mut self, lineage: usize, marks: &LineageHistory, first_step: u64) {
        let mut next_step = first_step;
        let mut gaps = marks.gaps.iter().peekable();
        // The state from which the storage started is an ancestor of all that its first lineage made.
        let mut newest = (lineage == 0 && !self.rows.is_empty()).then_some(0);
        for (at, record) in &marks.events {
            while let Some((_, step)) = gaps.next_if(|(last, _)| last < at) {
                next_step = next_step.max(*step);
            }
            let Some(checkpoint) = self.checkpoint_of_event(&record.event, *at, &mut next_step)
            else {
                continue;
            };
            // If the storage does not know the parent, the nearest ancestor takes its place.
            let parent = checkpoint.parent.or(newest);
            let row = CheckpointRow {
                id: checkpoint.id.clone(),
                lineage: marks.name.clone(),
                step: checkpoint.step,
                parent: None,
                source: checkpoint.source,
                status: checkpoint.status,
                time_ms: Some(record.time_ms),
            };
            newest = Some(self.rows.len());
            self.add(ListedCheckpoint {
                row,
                lineage,
                position: *at,
                status_event: None,
                first_line: record.line,
                state_status: checkpoint.status,
                parent_index: parent,
            });
        }
    }

    /// Returns the checkpoint that an event at a position made, if it made one, and updates the next step. If a run
    /// ended in a state that is a checkpoint already, updates that.
    fn checkpoint_of_event<'a>(
        &mut self,
        event: &'a Event,
        at: u64,
        next_step: &mut u64,
    ) -> Option<NewCheckpoint<'a>> {
        let step = *next_step;
        let checkpoint = match event {
            Event::RunStarted(RunStarted { checkpoint, .. }) => {
                let origin = CheckpointOrigin::Entry;
                NewCheckpoint::new(checkpoint, step, None, origin, Status::Running)
            }
            Event::StepCommitted(StepCommitted {
                step,
                checkpoint,
                parent,
                ..
            }) => {
                *next_step = step + 1;
                let (parent, origin) = (self.index_of(parent.as_ref()), CheckpointOrigin::Step);
                NewCheckpoint::new(checkpoint, *step, parent, origin, Status::Running)
            }
            Event::RunEnded(RunEnded {
                status,
                checkpoint,
                parent,
                by: _,
            }) => {
                let parent = self.index_of(parent.as_ref());
                let Some(id) = checkpoint else {
                    if let Some(ended) = parent {
                        self.rows[ended].row.status = *status;
                        self.rows[ended].status_event = Some(at);
                    }
                    return None;
                };
                NewCheckpoint::new(id, step, parent, CheckpointOrigin::Stop(*status), *status)
            }
            // The status does not change; most requests are answered while the run waits.
            Event::Attempt(
                _,
                AttemptEvent::RequestAnswered(RequestAnswered {
                    checkpoint, parent, ..
                }),
            ) => {
                let (parent, origin) = (self.index_of(parent.as_ref()), CheckpointOrigin::Answer);
                NewCheckpoint::new(checkpoint, step, parent, origin, Status::Waiting)
            }
            Event::Forked(Forked {
                from,
                checkpoint,
                step,
                ..
            }) => {
                *next_step = *step;
                let parent = self.index_of(Some(from));
                let (step, status) = match parent {
                    Some(from) => (self.rows[from].row.step, self.rows[from].state_status),
                    None => (*step, Status::Running),
                };
                NewCheckpoint::new(checkpoint, step, parent, CheckpointOrigin::Fork, status)
            }
            _ => return None,
        };
        Some(checkpoint)
    }

    /// Returns the index of a checkpoint that was added.
    fn index_of(&self, id: Option<&CheckpointId>) -> Option<usize> {
        self.by_id.get(id?).copied()
    }

    /// Removes forgotten checkpoints: those that are older than their lineage keeps them. The first
    /// checkpoint of each lineage, those where another lineage left, and those where the run waits
    /// for a person are kept.
    fn keep(self, lineages: &[LineageHistory]) -> Vec<ListedCheckpoint> {
        let parted: BTreeSet<(usize, u64)> =
            lineages.iter().filter_map(|marks| marks.origin).collect();
        let mut seen_lineages = BTreeSet::new();
        let mut kept: Vec<bool> = Vec::with_capacity(self.rows.len());
        for listed in &self.rows {
            let first = seen_lineages.insert(listed.lineage);
            // A checkpoint made by an answer does not count as waiting, even if other requests are
            // open; nor does one where the run was only resumed and ended again, since its parent
            // waits already.
            let again = listed.parent_index.is_some_and(|parent| {
                let parent = &self.rows[parent];
                let waited = parent.row.source != CheckpointOrigin::Answer
                    && [parent.row.status, parent.state_status].contains(&Status::Waiting);
                waited
                    && parent.lineage == listed.lineage
                    && listed.position - parent.position <= IDLE_RESUME_EVENTS
            });
            let waits = !(again || listed.row.source == CheckpointOrigin::Answer)
                && [listed.row.status, listed.state_status].contains(&Status::Waiting);
            let fresh = listed.position > lineages[listed.lineage].forgotten_until;
            kept.push(
                first || fresh || waits || parted.contains(&(listed.lineage, listed.position)),
            );
        }
        // The nearest kept ancestor-or-self of each checkpoint. Parents come before their children.
        let mut nearest: Vec<Option<usize>> = Vec::with_capacity(self.rows.len());
        for (place, listed) in self.rows.iter().enumerate() {
            let above = listed.parent_index.and_then(|parent| nearest[parent]);
            nearest.push(if kept[place] { Some(place) } else { above });
        }
        let parent = |listed: &ListedCheckpoint| {
            Some(self.rows[nearest[listed.parent_index?]?].row.id.clone())
        };
        let parents: Vec<_> = self.rows.iter().map(parent).collect();
        let all = self
            .rows
            .into_iter()
            .zip(parents)
            .zip(&kept)
            .filter(|(_, kept)| **kept);
        let mut rows: Vec<ListedCheckpoint> = all
            .map(|((mut listed, parent), _)| {
                listed.row.parent = parent;
                listed
            })
            .collect();
        rows.sort_by_key(|listed| listed.first_line);
        rows
    }
}
