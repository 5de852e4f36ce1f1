//! What the database knows of the `team.json` beside it: whether it is one that this program wrote.

use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use crate::store::directory::TEAM_JSON;
use crate::store::error::StoreError;
use crate::store::{Durability, Fill, file};

/// What is known of the `team.json` beside the database.
#[derive(Debug, Default)]
struct KnownFile {
    /// The hash of the one that was there before the last was written.
    current: String,
    /// The hash of the one that was written last.
    next: String,
    /// The stamp of that.
    stamp: String,
}

impl SqliteStore {
    /// Whether the `team.json` beside the database is another than the one that was written last. A missing one is
    /// not: it is written again at the next stop.
    pub(in crate::store) fn team_json_differs(&self) -> Result<bool, StoreError> {
        let path = self.lock.path.join(TEAM_JSON);
        let known = self.known_team_json()?;
        if file::stamp(&path).is_some_and(|stamp| stamp == known.stamp) {
            return Ok(false);
        }
        let there = file::hash_of(&path)?;
        Ok(there.is_some_and(|hash| ![known.current, known.next].contains(&hash)))
    }

    /// Remembers a `team.json` that lies beside the database already.
    pub(in crate::store) fn know_team_json(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let hash = file::hash(bytes);
        // It may have been replaced since it was read: only what was read is known.
        let known = KnownFile { current: hash.clone(), next: hash, stamp: String::new() };
        self.transact(Durability::Full, |conn| put_team_json(conn, &known))
    }

    /// Writes the next `team.json` and remembers it; it is not in its place yet.
    pub(in crate::store) fn prepare_team_json(
        &mut self,
        fill: &Fill<'_>,
        durability: Durability,
    ) -> Result<file::Prepared, StoreError> {
        let known = self.known_team_json()?;
        let new = file::prepare(&self.lock.path, TEAM_JSON, fill)?;
        let path = self.lock.path.join(TEAM_JSON);
        let is_next = file::stamp(&path).is_some_and(|stamp| stamp == known.stamp)
            || file::hash_of(&path)?.as_ref() == Some(&known.next);
        // Both are remembered before one takes the other's place: whichever a crash leaves behind is known.
        let current = if is_next { known.next } else { known.current };
        let stamp = new.stamp().unwrap_or_default();
        let known = KnownFile { current, next: new.hash.clone(), stamp };
        self.transact(durability, |conn| put_team_json(conn, &known))?;
        Ok(new)
    }

    fn known_team_json(&self) -> Result<KnownFile, StoreError> {
        let read =
            |row: &rusqlite::Row<'_>| Ok(KnownFile { current: row.get(0)?, next: row.get(1)?, stamp: row.get(2)? });
        let row = self.reader.conn.query_row("SELECT current, next, stamp FROM team_json", [], read).optional();
        Ok(row.map_err(|e| self.reader.error("read", e))?.unwrap_or_default())
    }
}

fn put_team_json(conn: &Connection, known: &KnownFile) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO team_json VALUES (1, ?1, ?2, ?3)";
    conn.execute(sql, params![known.current, known.next, known.stamp]).map(drop)
}
