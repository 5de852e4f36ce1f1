//! What a database file stores of caps: records beside those of a server, so that a file needs no further tables for them.
//!
//! No other process has the file open, so nothing is held by others. What was drawn counts as spent from then on, so that a
//! cap is not exceeded if the process is killed. More is drawn than the next call needs, so that few calls wait for a write.

use std::collections::BTreeMap;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use strata_core::record::money::Usd;
use strata_records::caps::{CapDraw, CapReturn, CapScope};

use crate::schema::has_queue_tables;

/// The kind of the records of caps, and of the one with the newest generation.
pub(super) const KIND: &str = "cap";
const GENERATION_KIND: &str = "cap-generation";
/// The part of what is left that is drawn at once: little of it counts as spent if the process is killed.
const DRAWN_PART: u64 = 500;

/// What is stored of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredCap {
    /// What the runs may cost together.
    pub(super) usd: Usd,
    /// What they have cost, and what was drawn.
    pub(super) used: Usd,
    pub(super) generation: i64,
    /// Whether something was drawn that was not given back.
    pub(super) is_drawn: bool,
}

pub(super) fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

pub(super) fn read(conn: &Connection, scope: &CapScope) -> rusqlite::Result<Option<StoredCap>> {
    let sql = "SELECT text FROM server_record WHERE kind = ?1 AND tenant = '' AND name = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let text: Option<String> = statement
        .query_row([KIND, scope.name()], |row| row.get(0))
        .optional()?;
    text.map(|text| serde_json::from_str(&text).map_err(unreadable))
        .transpose()
}

pub(super) fn read_all(conn: &Connection) -> rusqlite::Result<Vec<(CapScope, StoredCap)>> {
    let sql = "SELECT name, text FROM server_record WHERE kind = ?1 AND tenant = '' ORDER BY name <> 'all', name";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([KIND], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut caps = Vec::new();
    for row in rows {
        let (name, text) = row?;
        let cap = serde_json::from_str(&text).map_err(unreadable)?;
        caps.push((CapScope::from_stored(&name), cap));
    }
    Ok(caps)
}

pub(super) fn write(conn: &Connection, kind: &str, name: &str, text: &str) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR REPLACE INTO server_record (kind, tenant, name, text) VALUES (?1, '', ?2, ?3)";
    conn.execute(sql, params![kind, name, text]).map(drop)
}

pub(super) fn write_cap(
    conn: &Connection,
    scope: &CapScope,
    cap: &StoredCap,
) -> rusqlite::Result<()> {
    let text = serde_json::to_string(cap).map_err(unreadable)?;
    write(conn, KIND, scope.name(), &text)
}

/// Returns a number that no cap had before.
pub(super) fn new_generation(conn: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT CAST(text AS INTEGER) FROM server_record WHERE kind = ?1 AND tenant = '' AND name = ''";
    let last: Option<i64> = conn
        .query_row(sql, [GENERATION_KIND], |row| row.get(0))
        .optional()?;
    let next = last.unwrap_or(0) + 1;
    write(conn, GENERATION_KIND, "", &next.to_string())?;
    Ok(next)
}

/// Draws at least `needed` from a cap, in a transaction that is open.
pub(super) fn draw(conn: &Connection, scope: &CapScope, needed: Usd) -> rusqlite::Result<CapDraw> {
    // A file into which nothing was submitted has no settings.
    if !has_queue_tables(conn)? {
        return Ok(CapDraw::NoCap);
    }
    let Some(cap) = read(conn, scope)? else {
        return Ok(CapDraw::NoCap);
    };
    let rest = cap.usd.0.saturating_sub(cap.used.0);
    if rest < needed.0 {
        return Ok(CapDraw::UsedUp { cap: cap.usd });
    }
    let drawn = needed.0.max(rest / DRAWN_PART);
    let changed = StoredCap {
        used: Usd(cap.used.0 + drawn),
        is_drawn: true,
        ..cap
    };
    write_cap(conn, scope, &changed)?;
    Ok(CapDraw::Drawn {
        usd: Usd(drawn),
        generation: cap.generation,
    })
}

/// Gives back what was drawn and not spent, in a transaction that is open.
pub(super) fn give_back(
    conn: &Connection,
    scope: &CapScope,
    what: CapReturn,
) -> rusqlite::Result<()> {
    let of_generation = |cap: &StoredCap| cap.is_drawn && cap.generation == what.generation;
    let Some(cap) = read(conn, scope)?.filter(of_generation) else {
        return Ok(());
    };
    let used = (i128::from(cap.used.0) - what.unspent).max(0);
    let changed = StoredCap {
        used: Usd(u64::try_from(used).unwrap_or(u64::MAX)),
        is_drawn: false,
        ..cap
    };
    write_cap(conn, scope, &changed)
}

/// Returns the generations of the caps that there are.
pub(super) fn generations(conn: &Connection) -> rusqlite::Result<BTreeMap<CapScope, i64>> {
    if !has_queue_tables(conn)? {
        return Ok(BTreeMap::new());
    }
    let caps = read_all(conn)?.into_iter();
    Ok(caps.map(|(scope, cap)| (scope, cap.generation)).collect())
}
