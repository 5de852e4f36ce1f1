//! Plans what pruning removes: checkpoints are forgotten, and the events that no remaining checkpoint
//! needs are dropped.
//!
//! Remaining checkpoints can still be loaded. If saving the state of a checkpoint takes less space
//! than the events since the previous remaining checkpoint, the state is saved while the plan is
//! made. What the plan names is then removed in one transaction.

use std::collections::BTreeSet;

use strata_core::record::id::Digest;

use super::BuildState;
use super::checkpoint_list::ListedCheckpoint;
use super::codec::MessageBundle;
use super::error::StoreError;
use super::lineage::{KeyRange, StoredLineage, event_key};
use super::reader::RowReader;
use super::rows::RunRows;
use super::snapshot::EncodedSnapshot;

/// What pruning changes.
#[derive(Debug)]
pub struct PrunePlan {
    /// The lineages as they are afterwards.
    pub lineages: Vec<StoredLineage>,
    /// How many checkpoints are forgotten.
    pub checkpoints: u64,
    /// The events that are dropped.
    pub drops: Vec<DropRange>,
    /// The keys of the bundles that are still needed.
    pub bundles: BTreeSet<i64>,
    /// The files that are still needed.
    pub blobs: BTreeSet<Digest>,
}

/// A range of a lineage's own events that is to be dropped, by their positions.
#[derive(Debug)]
pub struct DropRange {
    /// The key of the lineage.
    pub lineage: i64,
    /// The position of the first event.
    pub first: i64,
    /// The position of the last event.
    pub last: i64,
    /// An event in the range that is kept, since it contains the final status of the previous
    /// checkpoint.
    pub status_event: Option<i64>,
    /// The next step after the range.
    pub step: u64,
}

/// Events that are dropped without one that is kept among them, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewGap {
    /// The position of the first event.
    pub first: i64,
    /// The position of the last event.
    pub last: i64,
}

impl DropRange {
    /// Returns the keys of its events, and of the snapshots and gaps among them.
    pub fn keys(&self) -> KeyRange {
        KeyRange {
            first: event_key(self.lineage, self.first),
            last: event_key(self.lineage, self.last),
        }
    }

    /// Returns the key of the event that is kept; −1 if there is none.
    pub fn kept_key(&self) -> i64 {
        self.status_event
            .map_or(-1, |event| event_key(self.lineage, event))
    }

    /// Returns the gaps that it leaves.
    pub fn gaps(&self) -> Vec<NewGap> {
        let gap = |first: i64, last: i64| NewGap { first, last };
        let mut gaps = match self.status_event {
            Some(event) => vec![gap(self.first, event - 1), gap(event + 1, self.last)],
            None => vec![gap(self.first, self.last)],
        };
        gaps.retain(|gap| gap.first <= gap.last);
        gaps
    }
}

/// Saves a state with a key, which uses the bundles of an earlier one.
pub(crate) type SaveState<'a> =
    dyn FnMut(&EncodedSnapshot<'_>, i64, Vec<MessageBundle>) -> Result<(), StoreError> + 'a;

/// What a plan is made with.
pub(crate) struct PrunePlanner<'a, R> {
    pub reader: &'a RowReader<R>,
    /// How many checkpoints each lineage keeps besides the first.
    pub keep: u32,
    /// The maximum size of a saved state, in bytes.
    pub max_state_bytes: usize,
    pub build_state: &'a mut BuildState<'a>,
    pub save_state: &'a mut SaveState<'a>,
}

impl<R: RunRows> PrunePlanner<'_, R> {
    /// Returns the plan.
    pub fn plan(mut self) -> Result<PrunePlan, StoreError> {
        let before = self.reader.listed_checkpoints()?.len();
        let mut lineages = Vec::new();
        for row in self.reader.stored_lineages()? {
            lineages.push(self.with_forgotten(row)?);
        }
        let listed = self.reader.list_checkpoints_with(lineages.clone())?;
        let mut drops = Vec::new();
        for row in &lineages {
            let kept = listed
                .iter()
                .filter(|listed| listed.lineage as i64 == row.number && listed.position > 0);
            self.plan_drops(row, kept.collect(), &mut drops)?;
        }
        Ok(PrunePlan {
            checkpoints: (before - listed.len()) as u64,
            blobs: self.needed_blobs(&lineages, &listed, &drops)?,
            bundles: self.needed_bundles(&drops)?,
            lineages,
            drops,
        })
    }

    /// Returns a lineage that has forgotten all but its newest checkpoints.
    fn with_forgotten(&self, row: StoredLineage) -> Result<StoredLineage, StoreError> {
        let positions = self.reader.checkpoint_positions(&row)?;
        // The newest checkpoint is always kept.
        let over = positions.len().saturating_sub(self.keep.max(1) as usize);
        let forgotten = over
            .checked_sub(1)
            .map_or(row.forgotten_until, |last| positions[last]);
        Ok(StoredLineage {
            forgotten_until: forgotten,
            ..row
        })
    }

    /// Determines which events of a lineage can be dropped, and saves the states that replace them.
    fn plan_drops(
        &mut self,
        row: &StoredLineage,
        mut kept: Vec<&ListedCheckpoint>,
        drops: &mut Vec<DropRange>,
    ) -> Result<(), StoreError> {
        let (mut before, mut status_event) = (row.start(), None);
        kept.sort_by_key(|listed| listed.position);
        for listed in kept {
            let at = listed.position as i64;
            let (first, last) = (before + 1, at - 1);
            let (events, weight) = self.reader.event_log().size_between(row.id, first, last)?;
            if events > u64::from(status_event.is_some())
                && self.ensure_snapshot(row, at, weight)?
            {
                let step = listed.row.step;
                drops.push(DropRange {
                    lineage: row.id,
                    first,
                    last,
                    status_event,
                    step,
                });
            }
            (before, status_event) = (at, listed.status_event.map(|event| event as i64));
        }
        Ok(())
    }

    /// Saves the state after an event if that takes less than `weight` bytes. Returns whether the
    /// state is saved, now or before.
    fn ensure_snapshot(
        &mut self,
        row: &StoredLineage,
        at: i64,
        weight: u64,
    ) -> Result<bool, StoreError> {
        let path = self.reader.path_to(row, at)?;
        let n = event_key(row.id, at);
        let earlier = self.reader.states().newest(&path)?;
        if earlier.key == n {
            return Ok(true);
        }
        let state = (self.build_state)(self.reader.state_at(&path, at)?)
            .map_err(|what| self.reader.rows.corrupt(what))?;
        let new = EncodedSnapshot::encode(&state);
        let needs = new.bytes() + new.new_bundle_bytes(&earlier.bundles);
        let worth = (needs as u64) < weight && new.bytes() <= self.max_state_bytes;
        if worth {
            // A snapshot that turns out not to be needed does no harm, so this may end here without
            // losing anything.
            (self.save_state)(&new, n, earlier.bundles)?;
        }
        Ok(worth)
    }

    /// Returns the keys of the bundles that the remaining snapshots need.
    fn needed_bundles(&self, drops: &[DropRange]) -> Result<BTreeSet<i64>, StoreError> {
        let goes = |n: i64| {
            drops
                .iter()
                .map(DropRange::keys)
                .any(|keys| (keys.first..=keys.last).contains(&n))
        };
        let stay = self
            .reader
            .snapshots()?
            .into_iter()
            .filter(|snapshot| !goes(snapshot.key));
        Ok(stay
            .flat_map(|snapshot| snapshot.bundles)
            .map(|bundle| bundle.key)
            .collect())
    }

    /// Returns the digests of the files that are still needed: by the state of a kept checkpoint,
    /// by the newest state of a lineage, or by an event that stays.
    fn needed_blobs(
        &mut self,
        rows: &[StoredLineage],
        listed: &[ListedCheckpoint],
        drops: &[DropRange],
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let mut needed = BTreeSet::new();
        if !self.reader.rows.has_blobs()? {
            return Ok(needed);
        }
        let newest = rows.iter().map(|row| (row.number, row.events));
        let places: BTreeSet<(i64, i64)> = listed
            .iter()
            .map(|listed| (listed.lineage as i64, listed.position as i64))
            .chain(newest)
            .collect();
        for (number, at) in places {
            let path = self.reader.path_to(&rows[number as usize], at)?;
            let state = (self.build_state)(self.reader.state_at(&path, at)?)
                .map_err(|what| self.reader.rows.corrupt(what))?;
            needed.extend(state.file_digests());
        }
        for row in rows {
            let goes = |drop: &DropRange, at| {
                drop.lineage == row.id && (drop.first..=drop.last).contains(&at)
            };
            needed.extend(
                self.reader
                    .event_log()
                    .file_digests(row.id, |at| drops.iter().any(|drop| goes(drop, at)))?,
            );
        }
        Ok(needed)
    }
}
