//! Pruning: checkpoints are forgotten, and the events that no remaining checkpoint needs are
//! dropped.
//!
//! Remaining checkpoints can still be loaded. If saving the state of a checkpoint takes less space
//! than the events since the previous remaining checkpoint, the state is saved first. Then
//! everything that is not needed is removed in one transaction.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;
use strata_core::record::id::Digest;

use super::{MAX_SNAPSHOT_BYTES, SqliteLease};
use crate::storage::checkpoint_list::ListedCheckpoint;
use crate::storage::directory::WAL_FILE;
use crate::storage::error::StoreError;
use crate::storage::lineage::{StoredLineage, event_key};
use crate::storage::sqlite::snapshot::EncodedSnapshot;
use crate::storage::sqlite::wal_checkpoint::{WalCheckpointMode, move_log};
use crate::storage::sqlite::write::insert_gap;
use crate::storage::{BuildState, Durability, Pruned, blob};

/// A range of a lineage's own events that is to be dropped.
struct DropRange {
    lineage: i64,
    first: i64,
    last: i64,
    /// An event in the range that is kept, since it contains the final status of the previous
    /// checkpoint.
    status_event: Option<i64>,
    /// The next step after the range.
    step: u64,
}

impl SqliteLease {
    pub(super) fn prune_all(
        &mut self,
        keep: u32,
        sum_up: &mut BuildState<'_>,
    ) -> Result<Pruned, StoreError> {
        self.check_directory()?;
        let before =
            file_bytes(&self.reader.path) + file_bytes(&self.reader.path.with_file_name(WAL_FILE));
        let all = self.reader.listed_checkpoints()?.len();
        let rows = self
            .reader
            .stored_lineages()?
            .into_iter()
            .map(|row| self.with_forgotten(row, keep));
        let rows: Vec<StoredLineage> = rows.collect::<Result<_, StoreError>>()?;
        let listed = self.reader.list_checkpoints_with(rows.clone())?;
        let mut drops = Vec::new();
        for row in &rows {
            let kept = listed
                .iter()
                .filter(|listed| listed.lineage as i64 == row.number && listed.position > 0);
            self.plan_drops(row, kept, &mut drops, sum_up)?;
        }
        let needed = self.needed_blobs(&rows, &listed, &drops, sum_up)?;
        let bundles = self.needed_bundles(&drops)?;
        let (run, bundle_keys) = (self.run.id, self.bundle_keys);
        let mut events = 0;
        // A full sync, which covers the states that were saved before.
        self.transact(Durability::Full, |conn| {
            for row in &rows {
                row.update(conn)?;
            }
            for drop in &drops {
                events += drop_range(conn, drop)?;
            }
            let range = format!("n BETWEEN {} AND {}", bundle_keys.0, bundle_keys.1);
            delete_unneeded(conn, "bundle", &range, "n", &bundles)?;
            delete_unneeded(conn, "blob", &format!("run = {run}"), "digest", &needed)
        })?;
        if let Some(current) = rows.into_iter().find(|row| row.id == self.lineage.id) {
            self.continue_with(current)?;
        }
        self.shrink()?;
        // The rest of the log is removed when the database is closed.
        let bytes = before.saturating_sub(file_bytes(&self.reader.path));
        Ok(Pruned {
            checkpoints: (all - listed.len()) as u64,
            events,
            bytes,
        })
    }

    /// Returns a lineage that has forgotten all but its newest `keep` checkpoints.
    fn with_forgotten(&self, row: StoredLineage, keep: u32) -> Result<StoredLineage, StoreError> {
        let positions = self.checkpoint_positions(&row)?;
        // The newest checkpoint is always kept.
        let over = positions.len().saturating_sub(keep.max(1) as usize);
        let forgotten = over
            .checked_sub(1)
            .map_or(row.forgotten_until, |last| positions[last]);
        Ok(StoredLineage {
            forgotten_until: forgotten,
            ..row
        })
    }

    /// Determines which events of a lineage can be dropped, and saves the states that replace them.
    fn plan_drops<'a>(
        &mut self,
        row: &StoredLineage,
        kept: impl Iterator<Item = &'a ListedCheckpoint>,
        drops: &mut Vec<DropRange>,
        sum_up: &mut BuildState<'_>,
    ) -> Result<(), StoreError> {
        let (mut before, mut status_event) = (row.start(), None);
        let mut kept: Vec<&ListedCheckpoint> = kept.collect();
        kept.sort_by_key(|listed| listed.position);
        for listed in kept {
            let at = listed.position as i64;
            let (first, last) = (before + 1, at - 1);
            let (events, weight) = self.reader.size_between(row.id, first, last)?;
            if events > u64::from(status_event.is_some())
                && self.ensure_snapshot(row, at, weight, sum_up)?
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
        sum_up: &mut BuildState<'_>,
    ) -> Result<bool, StoreError> {
        let path = self.reader.path_to(row, at)?;
        let n = event_key(row.id, at);
        let earlier = self.reader.newest_snapshot(&path)?;
        if earlier.key == n {
            return Ok(true);
        }
        let state =
            sum_up(self.reader.state_at(&path, at)?).map_err(|what| self.reader.corrupt(what))?;
        let new = EncodedSnapshot::encode(&state);
        let needs = new.bytes() + new.new_bundle_bytes(&earlier.bundles);
        let worth = (needs as u64) < weight && new.bytes() <= MAX_SNAPSHOT_BYTES;
        if worth {
            let bundle_keys = self.bundle_keys;
            // A snapshot that turns out not to be needed does no harm, so this may end here without
            // losing anything.
            self.transact(Durability::Process, |conn| {
                new.insert(conn, bundle_keys, n, earlier.bundles)
            })?;
        }
        Ok(worth)
    }

    /// Returns the keys of the bundles that the remaining snapshots need.
    fn needed_bundles(&self, drops: &[DropRange]) -> Result<BTreeSet<i64>, StoreError> {
        let goes = |n: i64| {
            drops.iter().any(|drop| {
                (event_key(drop.lineage, drop.first)..=event_key(drop.lineage, drop.last))
                    .contains(&n)
            })
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
        &self,
        rows: &[StoredLineage],
        listed: &[ListedCheckpoint],
        drops: &[DropRange],
        sum_up: &mut BuildState<'_>,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let mut needed = BTreeSet::new();
        if !blob::has_blobs(&self.reader.conn, self.run.id)
            .map_err(|e| self.reader.error("read", e))?
        {
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
            let state = sum_up(self.reader.state_at(&path, at)?)
                .map_err(|what| self.reader.corrupt(what))?;
            needed.extend(state.file_digests());
        }
        for row in rows {
            let goes = |drop: &DropRange, at| {
                drop.lineage == row.id && (drop.first..=drop.last).contains(&at)
            };
            needed.extend(
                self.reader
                    .file_digests(row.id, |at| drops.iter().any(|drop| goes(drop, at)))?,
            );
        }
        Ok(needed)
    }

    /// Gives free pages back to the file system.
    fn shrink(&self) -> Result<(), StoreError> {
        let conn = &self.reader.conn;
        let shrink = || {
            // The copy of the database may be large.
            conn.pragma_update(None, "temp_store", "file")?;
            conn.execute_batch("VACUUM")?;
            conn.pragma_update(None, "temp_store", "memory")?;
            move_log(conn, WalCheckpointMode::Truncate).map(drop)
        };
        shrink().map_err(|e| self.reader.error("shrink", e))
    }
}

/// Returns the size of a file; 0 if there is none.
fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Deletes the rows of a table that fulfil an SQL condition and whose keys are not in `needed`.
fn delete_unneeded<K: Serialize>(
    conn: &Connection,
    table: &str,
    condition: &str,
    key: &str,
    needed: &BTreeSet<K>,
) -> rusqlite::Result<()> {
    let needed = serde_json::json!(needed).to_string();
    let sql = format!(
        "DELETE FROM {table} WHERE {condition} AND {key} NOT IN (SELECT value FROM json_each(?1))"
    );
    conn.execute(&sql, [needed]).map(drop)
}

/// Drops the events in a range, and the snapshots among them. Returns how many events were dropped.
fn drop_range(conn: &Connection, drop: &DropRange) -> rusqlite::Result<u64> {
    let (first, last) = (
        event_key(drop.lineage, drop.first),
        event_key(drop.lineage, drop.last),
    );
    let status_key = drop
        .status_event
        .map_or(-1, |event| event_key(drop.lineage, event));
    let dropped = conn.execute(
        "DELETE FROM event WHERE n BETWEEN ?1 AND ?2 AND n <> ?3",
        [first, last, status_key],
    )?;
    for table in ["snapshot", "gap"] {
        conn.execute(
            &format!("DELETE FROM {table} WHERE n BETWEEN ?1 AND ?2"),
            [first, last],
        )?;
    }
    let pieces = match drop.status_event {
        Some(event) => vec![(drop.first, event - 1), (event + 1, drop.last)],
        None => vec![(drop.first, drop.last)],
    };
    for (first, last) in pieces.into_iter().filter(|(first, last)| first <= last) {
        insert_gap(conn, event_key(drop.lineage, first), last, drop.step as i64)?;
    }
    Ok(dropped as u64)
}
