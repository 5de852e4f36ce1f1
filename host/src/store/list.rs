//! The list of checkpoints, told from the events that concern them. Where those events lie is each store's own
//! business.

use std::collections::{BTreeMap, BTreeSet};

use strata_core::environment::Environment;
use strata_core::event::{Event, Status};
use strata_core::id::CheckpointId;

use super::error::StoreError;
use super::{CheckpointRow, Origin, Record};

/// How many events a resume makes that finds nothing to do: that it resumed, and that it ended.
const RESUMED: u64 = 2;

/// What a lineage has to do with checkpoints. Lineages are told apart by their place in the order of their making.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Its name.
    pub name: String,
    /// The lineage it left, and the event after which it did.
    pub origin: Option<(usize, u64)>,
    /// Checkpoints that were made by events up to this one are forgotten, as far as they may be.
    pub forgotten: u64,
    /// Its own events that concern checkpoints, by their place on its path.
    pub events: Vec<(u64, Record)>,
    /// The last events of stretches that were dropped, with the next step after them.
    pub gaps: Vec<(u64, u64)>,
}

/// Returns the error for a checkpoint that is not among those that are listed.
pub(super) fn no_checkpoint(id: &CheckpointId, listed: &[Listed]) -> StoreError {
    let known = listed
        .iter()
        .map(|listed| listed.row.id.0.clone())
        .collect();
    StoreError::NoCheckpoint {
        id: id.0.clone(),
        known,
    }
}

/// A listed checkpoint, with where it is.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    /// What is told of it.
    pub row: CheckpointRow,
    /// Its lineage.
    pub lineage: usize,
    /// The event that made it, by its place on the path; 0 for the state at the beginning.
    pub at: u64,
    /// The last event that says how the run stood there, where there is one.
    pub told: Option<u64>,
    /// The public line that tells it.
    line: u64,
    /// How the state itself says that the run stands.
    state: Status,
    parent: Option<usize>,
}

/// All checkpoints that are not forgotten, oldest first.
pub(super) fn list(base: &Environment, lineages: &[Marks]) -> Vec<Listed> {
    let mut all = Listing::default();
    if let (Some(id), Some(first)) = (&base.checkpoint, lineages.first()) {
        // A state that another storage gave away as a fork.
        let given = base.parent.is_some() && base.parent.as_ref() == base.lineage.forks.last();
        let source = if given { Origin::Fork } else { Origin::Import };
        let row = CheckpointRow {
            id: id.clone(),
            lineage: first.name.clone(),
            step: base.step,
            parent: None,
            source,
            status: base.status,
            time_ms: None,
        };
        let told = None;
        all.add(Listed {
            row,
            lineage: 0,
            at: 0,
            told,
            line: 0,
            state: base.status,
            parent: None,
        });
    }
    for (lineage, marks) in lineages.iter().enumerate() {
        all.lineage(lineage, marks, base.step);
    }
    all.kept(lineages)
}

#[derive(Default)]
struct Listing {
    rows: Vec<Listed>,
    by_id: BTreeMap<CheckpointId, usize>,
}

impl Listing {
    fn add(&mut self, listed: Listed) {
        self.by_id.insert(listed.row.id.clone(), self.rows.len());
        self.rows.push(listed);
    }

    fn lineage(&mut self, lineage: usize, marks: &Marks, first_step: u64) {
        let mut next_step = first_step;
        let mut gaps = marks.gaps.iter().peekable();
        let mut newest = None;
        for (at, record) in &marks.events {
            while let Some((_, step)) = gaps.next_if(|(last, _)| last < at) {
                next_step = next_step.max(*step);
            }
            let named =
                |id: &Option<CheckpointId>| id.as_ref().and_then(|id| self.by_id.get(id)).copied();
            let (id, step, parent, source, state) = match &record.event {
                Event::RunStarted { checkpoint, .. } => {
                    (checkpoint, next_step, None, Origin::Entry, Status::Running)
                }
                Event::StepCommitted {
                    step,
                    checkpoint,
                    parent,
                    ..
                } => {
                    next_step = step + 1;
                    (
                        checkpoint,
                        *step,
                        named(parent),
                        Origin::Step,
                        Status::Running,
                    )
                }
                Event::RunEnded {
                    status,
                    checkpoint: Some(id),
                    parent,
                } => (id, next_step, named(parent), Origin::Stop(*status), *status),
                Event::RunEnded {
                    status,
                    checkpoint: None,
                    parent,
                } => {
                    // The run ended where it had been saved already.
                    if let Some(above) = named(parent) {
                        (self.rows[above].row.status, self.rows[above].told) = (*status, Some(*at));
                    }
                    continue;
                }
                // The run goes on standing as it stood; most are answered while it waits.
                Event::RequestAnswered {
                    checkpoint, parent, ..
                } => (
                    checkpoint,
                    next_step,
                    named(parent),
                    Origin::Answer,
                    Status::Waiting,
                ),
                Event::Forked {
                    from,
                    checkpoint,
                    step,
                    ..
                } => {
                    next_step = *step;
                    let from = named(&Some(from.clone()));
                    let (step, state) = from.map_or((*step, Status::Running), |from| {
                        (self.rows[from].row.step, self.rows[from].state)
                    });
                    (checkpoint, step, from, Origin::Fork, state)
                }
                _ => continue,
            };
            // Where the parent's event was dropped, the nearest ancestor stands in for it.
            let parent = parent.or(newest);
            let row = CheckpointRow {
                id: id.clone(),
                lineage: marks.name.clone(),
                step,
                parent: None,
                source,
                status: state,
                time_ms: Some(record.time_ms),
            };
            newest = Some(self.rows.len());
            self.add(Listed {
                row,
                lineage,
                at: *at,
                told: None,
                line: record.line,
                state,
                parent,
            });
        }
    }

    /// Leaves out what is forgotten: what is older than its lineage wants it, but for the first of each lineage, where
    /// lineages part, and where somebody is waited for.
    fn kept(self, lineages: &[Marks]) -> Vec<Listed> {
        let parted: BTreeSet<(usize, u64)> =
            lineages.iter().filter_map(|marks| marks.origin).collect();
        let mut begun = BTreeSet::new();
        let mut kept: Vec<bool> = Vec::with_capacity(self.rows.len());
        for listed in &self.rows {
            let first = begun.insert(listed.lineage);
            // An answer leaves off waiting, whatever else is open; and where a run was only resumed and ended again, it
            // waits as it did before.
            let again = listed.parent.is_some_and(|parent| {
                let parent = &self.rows[parent];
                let waited = parent.row.source != Origin::Answer
                    && [parent.row.status, parent.state].contains(&Status::Waiting);
                waited && parent.lineage == listed.lineage && listed.at - parent.at <= RESUMED
            });
            let waits = !(again || listed.row.source == Origin::Answer)
                && [listed.row.status, listed.state].contains(&Status::Waiting);
            let fresh = listed.at > lineages[listed.lineage].forgotten;
            kept.push(first || fresh || waits || parted.contains(&(listed.lineage, listed.at)));
        }
        // The nearest that is kept, from each on upwards. Parents stand before their children.
        let mut nearest: Vec<Option<usize>> = Vec::with_capacity(self.rows.len());
        for (place, listed) in self.rows.iter().enumerate() {
            let above = listed.parent.and_then(|parent| nearest[parent]);
            nearest.push(if kept[place] { Some(place) } else { above });
        }
        let parent = |listed: &Listed| Some(self.rows[nearest[listed.parent?]?].row.id.clone());
        let parents: Vec<_> = self.rows.iter().map(parent).collect();
        let all = self
            .rows
            .into_iter()
            .zip(parents)
            .zip(&kept)
            .filter(|(_, kept)| **kept);
        let mut rows: Vec<Listed> = all
            .map(|((mut listed, parent), _)| {
                listed.row.parent = parent;
                listed
            })
            .collect();
        rows.sort_by_key(|listed| listed.line);
        rows
    }
}
