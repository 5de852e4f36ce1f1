//! Caps in a database: what runs may cost together, and the slices that processes hold of it.
//!
//! Each statement is a transaction of its own, so that a process which is suspended in the middle keeps no row
//! from others. One that changes a cap locks its row first. It is a rare one: a slice is a fiftieth of
//! what is left, and a tenth of that is drawn at once.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::record::money::Usd;
use strata_records::LEASE_TIME;
use strata_records::caps::{CapAccounts, CapDraw, CapReturn, CapScope, CapStore};
use strata_records::error::StoreError;
use tokio_postgres::types::Type;

use super::connect::{background, on_another_thread};
use super::connection::{Connection, Connections};
use super::session::Argument;

/// Draws from the slice of a process. What is drawn is not part of it any more, so nobody else gets it when the
/// process dies. Nobody draws from a slice of a cap that was lowered to less than is used.
const DRAW_FROM_SLICE: &str = "
    UPDATE strata.slice s SET held = s.held - part.wanted, drawn = s.drawn + part.wanted
    FROM (SELECT scope, generation, greatest((usd - used) / 500, $3) AS wanted
          FROM strata.cap WHERE scope = $2 AND used <= usd) part
    WHERE s.holder = $1 AND s.scope = part.scope AND s.held >= part.wanted
    RETURNING part.wanted, part.generation";

/// Takes a slice, and draws from it: a fiftieth of what is left, or more if one call needs more. However many
/// processes take one, something is left for the next.
const TAKE_SLICE: &str = "
    WITH part AS MATERIALIZED (
        SELECT scope, generation, least(usd - used, greatest((usd - used) / 50, $3)) AS size,
               greatest((usd - used) / 500, $3) AS wanted
        FROM strata.cap WHERE scope = $2 AND usd - used >= $3 FOR UPDATE),
    taken AS (
        UPDATE strata.cap c SET used = c.used + part.size FROM part WHERE c.scope = part.scope),
    kept AS (
        INSERT INTO strata.slice AS s (holder, scope, held, drawn, beat_at)
        SELECT $1, scope, size - least(size, wanted), least(size, wanted), clock_timestamp() FROM part
        ON CONFLICT (holder, scope) DO UPDATE SET held = s.held + excluded.held, drawn = s.drawn + excluded.drawn,
            beat_at = excluded.beat_at)
    SELECT least(size, wanted), generation FROM part";

/// Gives back what a process and all that have not been heard of for `$3` seconds hold of a cap.
pub(super) const COLLECT_SLICES: &str = "
    WITH whole AS MATERIALIZED (SELECT scope FROM strata.cap WHERE scope = $2 FOR UPDATE),
    own AS MATERIALIZED (
        SELECT s.held FROM strata.slice s, whole WHERE s.scope = whole.scope AND s.holder = $1 AND s.held > 0
        FOR UPDATE OF s),
    emptied AS (
        UPDATE strata.slice s SET held = 0 FROM own, whole WHERE s.scope = whole.scope AND s.holder = $1),
    gone AS (
        DELETE FROM strata.slice s USING whole WHERE s.scope = whole.scope AND s.holder <> $1
            AND s.beat_at < clock_timestamp() - make_interval(secs => $3)
        RETURNING s.held),
    collected AS (SELECT held FROM own UNION ALL SELECT held FROM gone)
    UPDATE strata.cap c SET used = greatest(c.used - rest.held, 0)
    FROM whole, (SELECT coalesce(sum(held), 0)::bigint AS held FROM collected) rest
    WHERE c.scope = whole.scope AND rest.held <> 0";

/// Returns a cap, what is left of it if what processes hold is given back, and what is left if also what others
/// have drawn is given back, as far as they have been heard of in the last `$3` seconds.
const READ_REST: &str = "
    SELECT usd, (usd - used + slices.held)::bigint, (usd - used + slices.held + slices.drawn)::bigint
    FROM strata.cap c, LATERAL (
        SELECT coalesce(sum(held), 0) AS held,
               coalesce(sum(drawn) FILTER (WHERE holder <> $1
                   AND beat_at >= clock_timestamp() - make_interval(secs => $3)), 0) AS drawn
        FROM strata.slice s WHERE s.scope = c.scope) slices
    WHERE scope = $2";

/// Gives back the slice of a process, and `$3`, which it has drawn and not spent. If somebody else gave the slice
/// back, or the cap was counted anew, what was drawn counts as spent. It may be carried out twice.
const GIVE_BACK: &str = "
    WITH whole AS MATERIALIZED (SELECT scope FROM strata.cap WHERE scope = $2 AND generation = $4 FOR UPDATE),
    own AS (
        DELETE FROM strata.slice s USING whole WHERE s.scope = whole.scope AND s.holder = $1 RETURNING s.held)
    UPDATE strata.cap c SET used = greatest(c.used - (own.held + $3), 0)
    FROM whole, own WHERE c.scope = whole.scope";

/// The caps of a database, for one process.
struct PostgresCaps {
    /// Where they are, for messages.
    path: PathBuf,
    connections: Connections,
    /// The name under which this process holds slices.
    holder: Arc<str>,
}

/// Returns what this process may spend of the caps in a database. `holder` is a name that no other process has,
/// under which it holds slices.
pub(super) fn cap_accounts(
    path: PathBuf,
    connections: &Connections,
    holder: &Arc<str>,
) -> Arc<CapAccounts> {
    let caps = PostgresCaps {
        path,
        connections: connections.clone(),
        holder: Arc::clone(holder),
    };
    Arc::new(CapAccounts::new(Box::new(caps)))
}

impl CapStore for PostgresCaps {
    fn draw(
        &self,
        scope: &CapScope,
        needed: Usd,
    ) -> BoxFuture<'static, Result<CapDraw, StoreError>> {
        let (holder, scope) = (Arc::clone(&self.holder), scope.clone());
        self.ask(move |connection| draw(connection, &holder, &scope, needed))
    }

    fn give_back(
        &self,
        scope: &CapScope,
        what: CapReturn,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let (holder, scope) = (Arc::clone(&self.holder), scope.clone());
        self.ask(move |connection| give_back(connection, &holder, &scope, what))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        match background(&self.path) {
            Ok(background) => drop(background.spawn(work)),
            Err(error) => tracing::debug!("the caps of the database are not asked: {error}"),
        }
    }
}

impl PostgresCaps {
    /// Asks the database on another thread.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (path, connections) = (self.path.clone(), self.connections.clone());
        Box::pin(
            async move { on_another_thread(&path, move || work(&connections.caller(None)?)).await },
        )
    }
}

/// Draws from the slice of a process, or takes a slice.
fn draw(
    connection: &Connection,
    holder: &str,
    scope: &CapScope,
    needed: Usd,
) -> Result<CapDraw, StoreError> {
    // No cap is larger.
    let needed = i64::try_from(needed.0).unwrap_or(i64::MAX);
    let scope = scope.name();
    let holder: Argument<'_> = (&holder, Type::TEXT);
    let scope: Argument<'_> = (&scope, Type::TEXT);
    let arguments = [holder.clone(), scope.clone(), (&needed as _, Type::INT8)];
    let drawn = |sql: &str| -> Result<Option<CapDraw>, StoreError> {
        let row = connection.query_optional(sql, &arguments)?;
        Ok(row.map(|row| CapDraw::Drawn {
            usd: usd(row.get(0)),
            generation: row.get(1),
        }))
    };
    if let Some(drawn) = drawn(DRAW_FROM_SLICE)? {
        return Ok(drawn);
    }
    if let Some(drawn) = drawn(TAKE_SLICE)? {
        return Ok(drawn);
    }
    let lease_time = LEASE_TIME.as_secs_f64();
    let arguments_of_all = [holder, scope, (&lease_time as _, Type::FLOAT8)];
    let Some(row) = connection.query_optional(READ_REST, &arguments_of_all)? else {
        return Ok(CapDraw::NoCap);
    };
    let (cap, rest, possible_rest): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    if possible_rest < needed {
        return Ok(CapDraw::UsedUp { cap: usd(cap) });
    }
    if rest < needed {
        return Ok(CapDraw::HeldByOthers);
    }
    connection.execute(COLLECT_SLICES, &arguments_of_all)?;
    Ok(drawn(TAKE_SLICE)?.unwrap_or(CapDraw::HeldByOthers))
}

/// Gives back the slice of a process, and what it has drawn and not spent.
fn give_back(
    connection: &Connection,
    holder: &str,
    scope: &CapScope,
    what: CapReturn,
) -> Result<(), StoreError> {
    let unspent = i64::try_from(what.unspent).unwrap_or(0);
    let scope = scope.name();
    let arguments = [
        (&holder as _, Type::TEXT),
        (&scope as _, Type::TEXT),
        (&unspent as _, Type::INT8),
        (&what.generation as _, Type::INT8),
    ];
    connection.repeat_if_broken(|connection| connection.execute(GIVE_BACK, &arguments))?;
    Ok(())
}

/// Returns an amount as it is stored.
pub(super) fn usd(units: i64) -> Usd {
    Usd(u64::try_from(units).unwrap_or(0))
}

#[cfg(test)]
mod tests;
