//! Removes what pruning drops, in one transaction, and shrinks the file.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;

use super::SqliteLease;
use super::snapshot::insert_snapshot;
use super::wal_checkpoint::{WalCheckpointMode, move_log};
use super::write::insert_gap;
use crate::storage::directory::WAL_FILE;
use crate::storage::error::StoreError;
use crate::storage::lineage::event_key;
use crate::storage::prune_plan::{DropRange, PrunePlanner};
use crate::storage::snapshot::MAX_SNAPSHOT_BYTES;
use crate::storage::{BuildState, Durability, Pruned};

impl SqliteLease {
    pub(super) fn prune_all(
        &mut self,
        keep: u32,
        build_state: &mut BuildState<'_>,
    ) -> Result<Pruned, StoreError> {
        self.check_directory()?;
        let path = &self.reader.rows.path;
        let before = file_bytes(path) + file_bytes(&path.with_file_name(WAL_FILE));
        let bundle_keys = self.bundle_keys;
        let planner = PrunePlanner {
            reader: &self.reader,
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| {
                self.commit(|conn| insert_snapshot(conn, state, bundle_keys, n, bundles))
                    .map(drop)
            },
        };
        let plan = planner.plan()?;
        let run = self.run.id;
        let mut events = 0;
        // A full sync, which covers the states that were saved before.
        self.transact(Durability::Full, |conn| {
            for row in &plan.lineages {
                row.update(conn)?;
            }
            for drop in &plan.drops {
                events += drop_range(conn, drop)?;
            }
            let range = format!("n BETWEEN {} AND {}", bundle_keys.first, bundle_keys.last);
            delete_unneeded(conn, "bundle", &range, "n", &plan.bundles)?;
            delete_unneeded(conn, "blob", &format!("run = {run}"), "digest", &plan.blobs)
        })?;
        let current = self.lineage.id;
        if let Some(current) = plan.lineages.into_iter().find(|row| row.id == current) {
            self.continue_with(current)?;
        }
        self.shrink()?;
        // The rest of the log is removed when the database is closed.
        let bytes = before.saturating_sub(file_bytes(&self.reader.rows.path));
        Ok(Pruned {
            checkpoints: plan.checkpoints,
            events,
            bytes,
        })
    }

    /// Gives free pages back to the file system.
    fn shrink(&self) -> Result<(), StoreError> {
        let conn = &self.reader.rows.conn;
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
    let keys = drop.keys();
    let dropped = conn.execute(
        "DELETE FROM event WHERE n BETWEEN ?1 AND ?2 AND n <> ?3",
        [keys.first, keys.last, drop.kept_key()],
    )?;
    for table in ["snapshot", "gap"] {
        conn.execute(
            &format!("DELETE FROM {table} WHERE n BETWEEN ?1 AND ?2"),
            [keys.first, keys.last],
        )?;
    }
    for gap in drop.gaps() {
        let n = event_key(drop.lineage, gap.first);
        insert_gap(conn, n, gap.last, drop.step as i64)?;
    }
    Ok(dropped as u64)
}
