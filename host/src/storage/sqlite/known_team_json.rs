//! Tracks the `team.json` beside the database, to notice when another program changed it.

use std::cell::Cell;
use std::io::{self, Write};

use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use crate::storage::directory::TEAM_JSON;
use crate::storage::error::StoreError;
use crate::storage::reader::Reader;
use crate::storage::{Durability, WriteContent, file};

/// What the database knows of the `team.json` beside it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct KnownTeamJson {
    /// The checksum of the file before the last one was written.
    pub(super) current: String,
    /// The checksum of the file that was written last.
    pub(super) next: String,
    /// The change stamp of the file that was written last.
    pub(super) stamp: String,
}

impl Reader {
    /// Returns whether another program changed the `team.json` beside the database. A missing file
    /// does not count: it is written again at the next stop.
    pub fn team_json_differs(&self) -> Result<bool, StoreError> {
        let path = self.path.with_file_name(TEAM_JSON);
        let known = self.known_team_json()?;
        if file::change_stamp(&path).is_some_and(|stamp| stamp == known.stamp) {
            return Ok(false);
        }
        let there = file::checksum_of_file(&path)?;
        Ok(there.is_some_and(|sum| ![known.current, known.next].contains(&sum)))
    }

    fn known_team_json(&self) -> Result<KnownTeamJson, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(KnownTeamJson {
                current: row.get(0)?,
                next: row.get(1)?,
                stamp: row.get(2)?,
            })
        };
        let row = self
            .conn
            .query_row("SELECT current, next, stamp FROM team_json", [], read)
            .optional();
        Ok(row.map_err(|e| self.error("read", e))?.unwrap_or_default())
    }
}

impl SqliteStore {
    /// Returns whether another program changed the `team.json` beside it; see
    /// `Reader::team_json_differs`.
    pub(in crate::storage) fn team_json_differs(&self) -> Result<bool, StoreError> {
        self.reader.team_json_differs()
    }

    /// Records a `team.json` that lies beside the database already.
    pub(in crate::storage) fn remember_team_json(
        &mut self,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        let sum = file::checksum_of_bytes(bytes);
        // The file may have been replaced since it was read, so its change stamp is not known.
        let known = KnownTeamJson {
            current: sum.clone(),
            next: sum,
            stamp: String::new(),
        };
        self.transact(Durability::Full, |conn| write_known_team_json(conn, &known))
    }

    /// Writes the next `team.json`. If it would exceed `limit` bytes, it is removed instead of
    /// written: it could not be read, and it takes many times the space of the database, which has
    /// everything.
    pub(in crate::storage) fn write_team_json_limited(
        &mut self,
        limit: u64,
        fill: &WriteContent<'_>,
        durability: Durability,
    ) -> Result<(), StoreError> {
        let is_over = Cell::new(false);
        let bounded = |out: &mut dyn Write| {
            fill(&mut LimitedWriter {
                out,
                left: limit,
                is_over: &is_over,
            })
        };
        let prepared = match self.prepare_team_json(&bounded, durability) {
            Err(_) if is_over.get() => {
                let limit = limit >> 20;
                tracing::warn!(
                    "`team.json` would have more than {limit} MiB and is not written; `team.db` has everything"
                );
                let path = self.lock.path.join(TEAM_JSON);
                return file::remove_if_exists(&path)
                    .map_err(|e| StoreError::io(&path, "remove", e));
            }
            prepared => prepared?,
        };
        match durability {
            Durability::Full => prepared.publish(),
            Durability::Process => {
                // The next full append syncs the directory as well.
                self.wal_file = None;
                prepared.rename_into_place()
            }
        }
    }

    /// Writes the next `team.json` under a temporary name, and records it.
    pub(in crate::storage) fn prepare_team_json(
        &mut self,
        fill: &WriteContent<'_>,
        durability: Durability,
    ) -> Result<file::PreparedFile, StoreError> {
        let known = self.reader.known_team_json()?;
        let new = file::prepare_file(&self.lock.path, TEAM_JSON, fill)?;
        let path = self.lock.path.join(TEAM_JSON);
        let is_next = file::change_stamp(&path).is_some_and(|stamp| stamp == known.stamp)
            || file::checksum_of_file(&path)?.as_ref() == Some(&known.next);
        // Both are recorded before the rename, so that either is known after a crash.
        let current = if is_next { known.next } else { known.current };
        let stamp = new.change_stamp().unwrap_or_default();
        let known = KnownTeamJson {
            current,
            next: new.checksum.clone(),
            stamp,
        };
        match durability {
            Durability::Process => {
                self.transact(durability, |conn| write_known_team_json(conn, &known))?
            }
            Durability::Full => {
                self.commit(|conn| write_known_team_json(conn, &known))?;
                self.sync(Some(&known))?;
            }
        }
        Ok(new)
    }

    /// Restores what a group log knows of the last `team.json`, unless the database already knows
    /// a later one.
    pub(super) fn restore_known_team_json(
        &mut self,
        known: &KnownTeamJson,
    ) -> Result<(), StoreError> {
        match self.reader.known_team_json()?.next == known.current {
            true => self.commit(|conn| write_known_team_json(conn, known)),
            false => Ok(()),
        }
    }
}

/// Fails to write more than `left` bytes.
struct LimitedWriter<'a> {
    out: &'a mut dyn Write,
    left: u64,
    is_over: &'a Cell<bool>,
}

impl Write for LimitedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.is_over.set(true);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        self.out.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_known_team_json(conn: &Connection, known: &KnownTeamJson) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO team_json VALUES (1, ?1, ?2, ?3)";
    conn.execute(sql, params![known.current, known.next, known.stamp])
        .map(drop)
}
