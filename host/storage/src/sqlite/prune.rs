//! Removes what pruning drops, in one transaction, and shrinks the file.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::Connection;
use serde::Serialize;
use strata_records::lineage::{KeyRange, event_key};
use strata_records::prune_plan::{DropRange, PrunePlan};

use super::lineage::update_lineage;
use super::wal_checkpoint::{WalMove, WalMover};
use super::write::insert_gap;

/// Carries out a plan of pruning, and returns how many events were dropped.
pub(super) fn carry_out(
    conn: &Connection,
    run: i64,
    bundle_keys: KeyRange,
    plan: &PrunePlan,
) -> rusqlite::Result<u64> {
    for row in &plan.lineages {
        update_lineage(conn, row)?;
    }
    let mut events = 0;
    for drop in &plan.drops {
        events += drop_range(conn, drop)?;
    }
    let range = format!("n BETWEEN {} AND {}", bundle_keys.first, bundle_keys.last);
    delete_unneeded(conn, "bundle", &range, "n", &plan.bundles)?;
    delete_unneeded(conn, "blob", &format!("run = {run}"), "digest", &plan.blobs)?;
    Ok(events)
}

/// Gives free pages back to the file system.
pub(super) fn shrink(conn: &Connection, mover: &WalMover) -> rusqlite::Result<()> {
    // The copy of the database may be large.
    conn.pragma_update(None, "temp_store", "file")?;
    conn.execute_batch("VACUUM")?;
    conn.pragma_update(None, "temp_store", "memory")?;
    mover.move_log(conn, WalMove::Truncate).map(drop)
}

/// Returns the size of a file; 0 if there is none.
pub(super) fn file_bytes(path: &Path) -> u64 {
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
