//! Writes rows to PostgreSQL, each with its checksum. Transactions, and the check that the lease is the
//! newest, are up to the callers. Everything here may be repeated.

use strata_base::files::blob::Blobs;
use strata_records::SavedDefinition;
use strata_records::codec;
use strata_records::error::StoreError;
use strata_records::lineage::{KeyRange, StoredLineage, StoredRun, event_key, position_of_key};
use strata_records::prune_plan::{DropRange, PrunePlan};
use strata_records::reader::definition_checksum_input;
use strata_records::snapshot::{
    OLD_SNAPSHOTS_SHARE, SnapshotRows, SnapshotSize, unneeded_snapshots,
};
use strata_records::work::SubmissionIdentity;
use tokio_postgres::types::Type;

use super::connect::StatementError;
use super::connection::Connection;
use super::schema::RECORD_FORMAT;

/// Inserts a run, and returns its key.
pub(super) fn insert_run(
    connection: &Connection,
    run: &StoredRun,
    identity: &SubmissionIdentity,
) -> Result<i64, StatementError> {
    let sql = "INSERT INTO strata.run (name, epoch, lineage, line, format, code, tenant, submitter) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
    let arguments = [
        (&run.name as _, Type::TEXT),
        (&run.epoch as _, Type::INT8),
        (&run.lineage as _, Type::INT8),
        (&run.next_line as _, Type::INT8),
        (&RECORD_FORMAT as _, Type::INT8),
        (&identity.id as _, Type::TEXT),
        (&identity.tenant as _, Type::TEXT),
        (&identity.submitter as _, Type::TEXT),
    ];
    let row = connection.query_optional(sql, &arguments)?;
    Ok(row.map_or(0, |row| row.get(0)))
}

/// Sets the lineage that a run continues, and its first unused public line.
pub(super) fn update_run(
    connection: &Connection,
    run: i64,
    lineage: i64,
    next_line: i64,
) -> Result<(), StatementError> {
    let sql = "UPDATE strata.run SET lineage = $2, line = $3 WHERE id = $1";
    let arguments = [
        (&run as _, Type::INT8),
        (&lineage as _, Type::INT8),
        (&next_line as _, Type::INT8),
    ];
    connection.execute(sql, &arguments).map(drop)
}

pub(super) fn insert_lineage(
    connection: &Connection,
    run: i64,
    line: &StoredLineage,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.lineage (run, id, number, name, origin, leaves_at, events, last, \
                                           forgotten, spent, since, sum) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let (origin, leaves_at) = (line.origin.map(|one| one.0), line.origin.map(|one| one.1));
    let (last, sum) = (i64::from(line.last_checksum), i64::from(line.checksum()));
    let arguments = [
        (&run as _, Type::INT8),
        (&line.id as _, Type::INT8),
        (&line.number as _, Type::INT8),
        (&line.name as _, Type::TEXT),
        (&origin as _, Type::INT8),
        (&leaves_at as _, Type::INT8),
        (&line.events as _, Type::INT8),
        (&last as _, Type::INT8),
        (&line.forgotten_until as _, Type::INT8),
        (&line.spent as _, Type::INT8),
        (&line.bytes_since_snapshot as _, Type::INT8),
        (&sum as _, Type::INT8),
    ];
    connection.execute(sql, &arguments).map(drop)
}

/// Writes the columns of a lineage that change.
pub(super) fn update_lineage(
    connection: &Connection,
    run: i64,
    line: &StoredLineage,
) -> Result<(), StatementError> {
    let sql = "UPDATE strata.lineage SET events = $3, last = $4, forgotten = $5, spent = $6, \
                                         since = $7, sum = $8 WHERE run = $1 AND id = $2";
    let (last, sum) = (i64::from(line.last_checksum), i64::from(line.checksum()));
    let arguments = [
        (&run as _, Type::INT8),
        (&line.id as _, Type::INT8),
        (&line.events as _, Type::INT8),
        (&last as _, Type::INT8),
        (&line.forgotten_until as _, Type::INT8),
        (&line.spent as _, Type::INT8),
        (&line.bytes_since_snapshot as _, Type::INT8),
        (&sum as _, Type::INT8),
    ];
    connection.execute(sql, &arguments).map(drop)
}

/// Returns the key of the last bundle of a run, or the first one of the range if there is none.
pub(super) fn last_bundle(
    connection: &Connection,
    run: i64,
    keys: KeyRange,
) -> Result<i64, StatementError> {
    let sql =
        "SELECT coalesce(max(n), $2) FROM strata.bundle WHERE run = $1 AND n BETWEEN $2 AND $3";
    let arguments = [
        (&run as _, Type::INT8),
        (&keys.first as _, Type::INT8),
        (&keys.last as _, Type::INT8),
    ];
    let row = connection.query_optional(sql, &arguments)?;
    Ok(row.map_or(keys.first, |row| row.get(0)))
}

/// Fails if the bundles that a state shares with earlier ones are not there any more.
fn require_shared_bundles(
    connection: &Connection,
    run: i64,
    rows: &SnapshotRows,
) -> Result<(), StatementError> {
    let shared = rows.bundles.len() - rows.new_bundles.len();
    let keys: Vec<i64> = rows.bundles[..shared]
        .iter()
        .map(|bundle| bundle.key)
        .collect();
    if keys.is_empty() {
        return Ok(());
    }
    let sql = "SELECT count(*) FROM strata.bundle WHERE run = $1 AND n = ANY($2)";
    let arguments = [(&run as _, Type::INT8), (&keys as _, Type::INT8_ARRAY)];
    let row = connection.query_optional(sql, &arguments)?;
    let found: i64 = row.map_or(0, |row| row.get(0));
    if found as usize != keys.len() {
        let what = "messages of an earlier state are missing";
        return Err(StoreError::lost(connection.path(), what).into());
    }
    Ok(())
}

/// Inserts a state and its new bundles.
pub(super) fn insert_snapshot(
    connection: &Connection,
    run: i64,
    rows: &SnapshotRows,
) -> Result<(), StatementError> {
    require_shared_bundles(connection, run, rows)?;
    for bundle in &rows.new_bundles {
        let sql = "INSERT INTO strata.bundle (run, n, sum, body) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (run, n) DO UPDATE SET sum = excluded.sum, body = excluded.body";
        let sum = i64::from(bundle.sum);
        let arguments = [
            (&run as _, Type::INT8),
            (&bundle.n as _, Type::INT8),
            (&sum as _, Type::INT8),
            (&bundle.body as _, Type::BYTEA),
        ];
        connection.execute(sql, &arguments)?;
    }
    let sql = "INSERT INTO strata.snapshot (run, n, bundles_sum, bundles, sum, body) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run, n) DO UPDATE \
               SET bundles_sum = excluded.bundles_sum, bundles = excluded.bundles, \
                   sum = excluded.sum, body = excluded.body";
    let (list_sum, sum) = (i64::from(rows.list_sum), i64::from(rows.sum));
    let arguments = [
        (&run as _, Type::INT8),
        (&rows.n as _, Type::INT8),
        (&list_sum as _, Type::INT8),
        (&rows.list as _, Type::BYTEA),
        (&sum as _, Type::INT8),
        (&*rows.body as _, Type::BYTEA),
    ];
    connection.execute(sql, &arguments).map(drop)
}

/// Deletes snapshots of a lineage that are not worth their space once there is a newer one, in a run
/// with `stored_bytes` bytes.
pub(super) fn delete_old_snapshots(
    connection: &Connection,
    run: i64,
    newest: i64,
    stored_bytes: u64,
) -> Result<(), StatementError> {
    let first = newest - position_of_key(newest);
    let keys = [
        (&run as _, Type::INT8),
        (&first as _, Type::INT8),
        (&newest as _, Type::INT8),
    ];
    let sql = "SELECT n, length(body)::bigint FROM strata.snapshot \
               WHERE run = $1 AND n > $2 AND n < $3 ORDER BY n";
    let mut old = Vec::new();
    for row in connection.query(sql, &keys)? {
        let bytes: i64 = row.get(1);
        old.push(SnapshotSize {
            n: row.get(0),
            bytes: bytes as u64,
        });
    }
    let sql = "SELECT last FROM strata.gap WHERE run = $1 AND n > $2 AND n < $3 ORDER BY n";
    let gaps = connection.query(sql, &keys)?;
    let gaps: Vec<i64> = gaps.iter().map(|row| row.get(0)).collect();
    let unneeded = unneeded_snapshots(newest, old, &gaps, stored_bytes / OLD_SNAPSHOTS_SHARE);
    if unneeded.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM strata.snapshot WHERE run = $1 AND n = ANY($2)";
    let arguments = [(&run as _, Type::INT8), (&unneeded as _, Type::INT8_ARRAY)];
    connection.execute(sql, &arguments).map(drop)
}

/// Returns how many bytes of events, snapshots, bundles and files a run has.
pub(super) fn stored_bytes(connection: &Connection, run: i64) -> Result<u64, StatementError> {
    let sql = "SELECT (SELECT coalesce(sum(length(body)), 0) FROM strata.event WHERE run = $1)::bigint \
                    + (SELECT coalesce(sum(length(body)), 0) FROM strata.snapshot WHERE run = $1)::bigint \
                    + (SELECT coalesce(sum(length(body)), 0) FROM strata.bundle WHERE run = $1)::bigint \
                    + (SELECT coalesce(sum(length(body)), 0) FROM strata.blob WHERE run = $1)::bigint";
    let row = connection.query_optional(sql, &[(&run, Type::INT8)])?;
    let bytes: i64 = row.map_or(0, |row| row.get(0));
    Ok(bytes as u64)
}

pub(super) fn write_definition(
    connection: &Connection,
    run: i64,
    definition: &SavedDefinition,
) -> Result<(), StatementError> {
    let base = definition.base.to_string_lossy();
    let components = serde_json::json!(definition.components).to_string();
    let parts = [&definition.name, &*base, &definition.text, &components];
    let sum = i64::from(codec::checksum(
        &[],
        definition_checksum_input(parts).as_bytes(),
    ));
    // As bytes, because a text of the server cannot contain a NUL.
    let [name, base, text, components] = parts.map(str::as_bytes);
    let sql = "INSERT INTO strata.definition (run, name, base, text, components, sum) \
               VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run) DO UPDATE \
               SET name = excluded.name, base = excluded.base, text = excluded.text, \
                   components = excluded.components, sum = excluded.sum";
    let arguments = [
        (&run as _, Type::INT8),
        (&name as _, Type::BYTEA),
        (&base as _, Type::BYTEA),
        (&text as _, Type::BYTEA),
        (&components as _, Type::BYTEA),
        (&sum as _, Type::INT8),
    ];
    connection.execute(sql, &arguments).map(drop)
}

pub(super) fn write_note(
    connection: &Connection,
    run: i64,
    name: &str,
    text: &str,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.note (run, name, text) VALUES ($1, $2, $3) \
               ON CONFLICT (run, name) DO UPDATE SET text = excluded.text";
    let arguments = [
        (&run as _, Type::INT8),
        (&name as _, Type::TEXT),
        (&text as _, Type::TEXT),
    ];
    connection.execute(sql, &arguments).map(drop)
}

/// Inserts the blobs of a run that are not stored yet.
pub(super) fn insert_blobs(
    connection: &Connection,
    run: i64,
    blobs: &Blobs,
) -> Result<(), StatementError> {
    let sql = "INSERT INTO strata.blob (run, digest, body) VALUES ($1, $2, $3) \
               ON CONFLICT (run, digest) DO NOTHING";
    for (digest, body) in blobs {
        let body: &[u8] = body;
        let arguments = [
            (&run as _, Type::INT8),
            (&digest.0 as _, Type::TEXT),
            (&body as _, Type::BYTEA),
        ];
        connection.execute(sql, &arguments)?;
    }
    Ok(())
}

/// Carries out a plan of pruning, and returns how many events were dropped.
pub(super) fn carry_out(
    connection: &Connection,
    run: i64,
    bundle_keys: KeyRange,
    plan: &PrunePlan,
) -> Result<u64, StatementError> {
    for line in &plan.lineages {
        update_lineage(connection, run, line)?;
    }
    let mut events = 0;
    for drop in &plan.drops {
        events += drop_range(connection, run, drop)?;
    }
    let bundles: Vec<i64> = plan.bundles.iter().copied().collect();
    let sql = "DELETE FROM strata.bundle \
               WHERE run = $1 AND n BETWEEN $2 AND $3 AND NOT (n = ANY($4))";
    let arguments = [
        (&run as _, Type::INT8),
        (&bundle_keys.first as _, Type::INT8),
        (&bundle_keys.last as _, Type::INT8),
        (&bundles as _, Type::INT8_ARRAY),
    ];
    connection.execute(sql, &arguments)?;
    let blobs: Vec<&str> = plan.blobs.iter().map(|digest| digest.0.as_str()).collect();
    let sql = "DELETE FROM strata.blob WHERE run = $1 AND NOT (digest = ANY($2))";
    let arguments = [(&run as _, Type::INT8), (&blobs as _, Type::TEXT_ARRAY)];
    connection.execute(sql, &arguments)?;
    Ok(events)
}

/// Drops the events in a range, and the snapshots among them. Returns how many events were dropped.
fn drop_range(connection: &Connection, run: i64, drop: &DropRange) -> Result<u64, StatementError> {
    let (keys, kept) = (drop.keys(), drop.kept_key());
    let range = [
        (&run as _, Type::INT8),
        (&keys.first as _, Type::INT8),
        (&keys.last as _, Type::INT8),
    ];
    let sql = "DELETE FROM strata.event \
               WHERE run = $1 AND n BETWEEN $2 AND $3 AND n <> $4";
    let [run_key, first, last] = range.clone();
    let dropped = connection.execute(sql, &[run_key, first, last, (&kept, Type::INT8)])?;
    for table in ["snapshot", "gap"] {
        let sql = format!("DELETE FROM strata.{table} WHERE run = $1 AND n BETWEEN $2 AND $3");
        connection.execute(&sql, &range)?;
    }
    for gap in drop.gaps() {
        let (n, step) = (event_key(drop.lineage, gap.first), drop.step as i64);
        let sum = i64::from(codec::checksum(&[n, gap.last, step], &[]));
        let sql = "INSERT INTO strata.gap (run, n, last, step, sum) VALUES ($1, $2, $3, $4, $5)";
        let arguments = [
            (&run as _, Type::INT8),
            (&n as _, Type::INT8),
            (&gap.last as _, Type::INT8),
            (&step as _, Type::INT8),
            (&sum as _, Type::INT8),
        ];
        connection.execute(sql, &arguments)?;
    }
    Ok(dropped)
}
