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
use strata_core::id::Digest;

use super::{MAX_SNAPSHOT_BYTES, SqliteStore};
use crate::store::directory::WAL_FILE;
use crate::store::error::StoreError;
use crate::store::lineage::{Row, key};
use crate::store::list::Listed;
use crate::store::sqlite::in_use::{Move, move_log};
use crate::store::sqlite::snapshot::Snapshot;
use crate::store::sqlite::write::put_gap;
use crate::store::{Durability, Pruned, SumUp, blob};

/// A range of a lineage's own events that is to be dropped.
struct Drop {
    lineage: i64,
    first: i64,
    last: i64,
    /// An event in the range that is kept, since it contains the final status of the previous
    /// checkpoint.
    told: Option<i64>,
    /// The next step after the range.
    step: u64,
}

impl SqliteStore {
    pub(super) fn prune_all(
        &mut self,
        keep: u32,
        sum_up: &mut SumUp<'_>,
    ) -> Result<Pruned, StoreError> {
        self.check_directory()?;
        let before =
            file_bytes(&self.reader.path) + file_bytes(&self.reader.path.with_file_name(WAL_FILE));
        let all = self.reader.listed()?.len();
        let rows = self
            .reader
            .rows()?
            .into_iter()
            .map(|row| self.forgetting(row, keep));
        let rows: Vec<Row> = rows.collect::<Result<_, StoreError>>()?;
        let listed = self.reader.listed_under(rows.clone())?;
        let mut drops = Vec::new();
        for row in &rows {
            let kept = listed
                .iter()
                .filter(|listed| listed.lineage as i64 == row.id && listed.at > 0);
            self.superfluous(row, kept, &mut drops, sum_up)?;
        }
        let needed = self.needed_blobs(&rows, &listed, &drops, sum_up)?;
        let bundles = self.needed_bundles(&drops)?;
        let mut events = 0;
        // A full sync, which covers the states that were saved before.
        self.transact(Durability::Full, |conn| {
            for row in &rows {
                row.update(conn)?;
            }
            for drop in &drops {
                events += carry_out(conn, drop)?;
            }
            retain(conn, "bundle", "n", &bundles)?;
            retain(conn, "blob", "digest", &needed)
        })?;
        if let Some(current) = rows.into_iter().find(|row| row.id == self.line.id) {
            self.go_on_with(current)?;
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
    fn forgetting(&self, row: Row, keep: u32) -> Result<Row, StoreError> {
        let made = self.made(&row)?;
        // The newest checkpoint is always kept.
        let over = made.len().saturating_sub(keep.max(1) as usize);
        let forgotten = over.checked_sub(1).map_or(row.forgotten, |last| made[last]);
        Ok(Row { forgotten, ..row })
    }

    /// Determines which events of a lineage can be dropped, and saves the states that replace them.
    fn superfluous<'a>(
        &mut self,
        row: &Row,
        kept: impl Iterator<Item = &'a Listed>,
        drops: &mut Vec<Drop>,
        sum_up: &mut SumUp<'_>,
    ) -> Result<(), StoreError> {
        let (mut before, mut told) = (row.begin(), None);
        let mut kept: Vec<&Listed> = kept.collect();
        kept.sort_by_key(|listed| listed.at);
        for listed in kept {
            let at = listed.at as i64;
            let (first, last) = (before + 1, at - 1);
            let (events, weight) = self.reader.weight_between(row.id, first, last)?;
            if events > u64::from(told.is_some()) && self.stands_for(row, at, weight, sum_up)? {
                let step = listed.row.step;
                drops.push(Drop {
                    lineage: row.id,
                    first,
                    last,
                    told,
                    step,
                });
            }
            (before, told) = (at, listed.told.map(|told| told as i64));
        }
        Ok(())
    }

    /// Saves the state after an event if that takes less than `weight` bytes. Returns whether the
    /// state is saved, now or before.
    fn stands_for(
        &mut self,
        row: &Row,
        at: i64,
        weight: u64,
        sum_up: &mut SumUp<'_>,
    ) -> Result<bool, StoreError> {
        let path = self.reader.path(row, at)?;
        let n = key(row.id, at);
        let earlier = self.reader.newest_snapshot(&path)?;
        if earlier.n == n {
            return Ok(true);
        }
        let state =
            sum_up(self.reader.state_at(&path, at)?).map_err(|what| self.reader.corrupt(what))?;
        let new = Snapshot::of(&state);
        let needs = new.weight() + new.weight_after(&earlier.bundles);
        let worth = (needs as u64) < weight && new.weight() <= MAX_SNAPSHOT_BYTES;
        if worth {
            // A snapshot that turns out not to be needed does no harm, so this may end here without
            // losing anything.
            self.transact(Durability::Process, |conn| {
                new.put(conn, n, earlier.bundles)
            })?;
        }
        Ok(worth)
    }

    /// Returns the keys of the bundles that the remaining snapshots need.
    fn needed_bundles(&self, drops: &[Drop]) -> Result<BTreeSet<i64>, StoreError> {
        let goes = |n: i64| {
            drops.iter().any(|drop| {
                (key(drop.lineage, drop.first)..=key(drop.lineage, drop.last)).contains(&n)
            })
        };
        let stay = self
            .reader
            .snapshots()?
            .into_iter()
            .filter(|snapshot| !goes(snapshot.n));
        Ok(stay
            .flat_map(|snapshot| snapshot.bundles)
            .map(|bundle| bundle.n)
            .collect())
    }

    /// Returns the digests of the files that are still needed: by the state of a kept checkpoint,
    /// by the newest state of a lineage, or by an event that stays.
    fn needed_blobs(
        &self,
        rows: &[Row],
        kept: &[Listed],
        drops: &[Drop],
        sum_up: &mut SumUp<'_>,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        let mut needed = BTreeSet::new();
        if !blob::any(&self.reader.conn).map_err(|e| self.reader.error("read", e))? {
            return Ok(needed);
        }
        let newest = rows.iter().map(|row| (row.id, row.events));
        let places: BTreeSet<(i64, i64)> = kept
            .iter()
            .map(|listed| (listed.lineage as i64, listed.at as i64))
            .chain(newest)
            .collect();
        for (lineage, at) in places {
            let path = self.reader.path(&rows[lineage as usize], at)?;
            let state = sum_up(self.reader.state_at(&path, at)?)
                .map_err(|what| self.reader.corrupt(what))?;
            needed.extend(state.file_digests());
        }
        for row in rows {
            let goes =
                |drop: &Drop, at| drop.lineage == row.id && (drop.first..=drop.last).contains(&at);
            needed.extend(
                self.reader
                    .files_of(row.id, |at| drops.iter().any(|drop| goes(drop, at)))?,
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
            move_log(conn, Move::Truncate).map(drop)
        };
        shrink().map_err(|e| self.reader.error("shrink", e))
    }
}

/// Returns the size of a file; 0 if there is none.
fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Deletes the rows of a table whose keys are not in `needed`.
fn retain<K: Serialize>(
    conn: &Connection,
    table: &str,
    key: &str,
    needed: &BTreeSet<K>,
) -> rusqlite::Result<()> {
    let needed = serde_json::json!(needed).to_string();
    let sql = format!("DELETE FROM {table} WHERE {key} NOT IN (SELECT value FROM json_each(?1))");
    conn.execute(&sql, [needed]).map(drop)
}

/// Drops the events in a range, and the snapshots among them. Returns how many events were dropped.
fn carry_out(conn: &Connection, drop: &Drop) -> rusqlite::Result<u64> {
    let (first, last) = (key(drop.lineage, drop.first), key(drop.lineage, drop.last));
    let told = drop.told.map_or(-1, |told| key(drop.lineage, told));
    let dropped = conn.execute(
        "DELETE FROM event WHERE n BETWEEN ?1 AND ?2 AND n <> ?3",
        [first, last, told],
    )?;
    for table in ["snapshot", "gap"] {
        conn.execute(
            &format!("DELETE FROM {table} WHERE n BETWEEN ?1 AND ?2"),
            [first, last],
        )?;
    }
    let pieces = match drop.told {
        Some(told) => vec![(drop.first, told - 1), (told + 1, drop.last)],
        None => vec![(drop.first, drop.last)],
    };
    for (first, last) in pieces.into_iter().filter(|(first, last)| first <= last) {
        put_gap(conn, key(drop.lineage, first), last, drop.step as i64)?;
    }
    Ok(dropped as u64)
}
