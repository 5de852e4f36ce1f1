//! Finds processes that are dead, and takes their runs from them; makes runs available whose time has come.
//!
//! A worker has one row, whose heartbeat rises. Another worker that sees it stand still for long
//! enough, by its own clock and while it is connected, deletes the row and raises the epochs of the runs in
//! one transaction. So a worker that was only slow cannot change them any more.
//!
//! If each worker watched all others, the server's work would grow with the square of their number. So a few
//! of them, the watchers, watch all processes, and the others watch the watchers. Nobody has to appoint them:
//! they are those with the smallest ids, so that another worker succeeds one that is dead.

use std::collections::BTreeMap;
use std::time::Instant;

use strata_records::LEASE_TIME;
use strata_records::error::StoreError;
use strata_records::work::Tended;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::failures::taking_from_dead;
use super::owner::ProcessIdentity;
use super::silence::Silence;

/// How many workers watch all processes: so many that they are hardly ever all dead at once, which would take
/// the time of a lease more to notice.
const WATCHERS: i64 = 4;

/// Returns who is watched: the watchers, and by these everybody else who owns runs that workers take. Makes runs
/// available whose time has come, if a watcher asks. If any run is available, there is one more row, without an id; if the
/// worker was told to end, one with an empty id.
const LOOK: &str = "
    WITH watcher AS MATERIALIZED (
        SELECT id, beat, machine, process, started FROM strata.worker WHERE claims ORDER BY id LIMIT $2),
    woken AS (
        UPDATE strata.run SET schedule = 1, scheduled_at = clock_timestamp()
        WHERE EXISTS (SELECT FROM watcher WHERE id = $1)
          AND schedule = 2 AND wake_at <= clock_timestamp() AND owner IS NULL
        RETURNING id)
    SELECT id, beat, machine, process, started FROM watcher
    UNION ALL
    SELECT w.id, w.beat, w.machine, w.process, w.started FROM strata.worker w
    WHERE EXISTS (SELECT FROM watcher WHERE id = $1) AND w.id NOT IN (SELECT id FROM watcher)
      AND (w.claims OR EXISTS (SELECT FROM strata.run r WHERE r.owner = w.id AND r.schedule <> 0))
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL
    WHERE EXISTS (SELECT FROM woken) OR EXISTS (SELECT FROM strata.run WHERE schedule = 1 AND owner IS NULL)
    UNION ALL
    SELECT '', NULL, NULL, NULL, NULL FROM strata.worker WHERE id = $1 AND is_draining";

/// A process that is watched.
struct WatchedProcess {
    id: String,
    beat: i64,
    identity: ProcessIdentity,
}

impl WatchedProcess {
    fn from_row(id: String, row: &Row) -> Self {
        Self {
            id,
            beat: row.get(1),
            identity: ProcessIdentity {
                machine: row.get(2),
                process: row.get(3),
                started: row.get(4),
            },
        }
    }
}

/// The heartbeat of another process, as this one last saw it rise.
struct WatchedBeat {
    beat: i64,
    silence: Silence,
}

/// The heartbeats of other processes, as a worker sees them.
#[derive(Default)]
pub(super) struct ProcessWatch {
    seen: BTreeMap<String, WatchedBeat>,
    last_orphan_search: Option<Instant>,
}

impl ProcessWatch {
    /// Takes runs from dead processes. `worker` is the id of this worker. A watcher also makes runs available whose
    /// time has come or whose owner is missing.
    pub(super) fn tend(
        &mut self,
        connection: &Connection,
        worker: &str,
    ) -> Result<Tended, StoreError> {
        let rows = self.look(connection, worker)?;
        let mut processes = Vec::new();
        let (mut any_available, mut is_draining) = (false, false);
        for row in &rows {
            match row.get::<_, Option<&str>>(0) {
                Some("") => is_draining = true,
                Some(id) => processes.push(WatchedProcess::from_row(id.to_owned(), row)),
                None => any_available = true,
            }
        }
        let is_watcher = processes.iter().any(|process| process.id == worker);
        let dead = self.take_from_dead(connection, worker, &processes)?;
        let is_early = |last: Instant| last.elapsed() < LEASE_TIME;
        if is_watcher && !self.last_orphan_search.is_some_and(is_early) {
            any_available |= make_orphans_available(connection)?;
            self.last_orphan_search = Some(Instant::now());
        }
        Ok(Tended {
            dead,
            may_claim: any_available || dead > 0,
            is_draining,
        })
    }

    fn look(&mut self, connection: &Connection, worker: &str) -> Result<Vec<Row>, StoreError> {
        let arguments = [(&worker as _, Type::TEXT), (&WATCHERS as _, Type::INT8)];
        match connection.query(LOOK, &arguments) {
            Err(error) if error.is_disconnected => {
                // Nobody's heartbeat could be seen in the meantime.
                self.seen.clear();
                connection.reconnect()?;
                Ok(connection.query(LOOK, &arguments)?)
            }
            rows => Ok(rows?),
        }
    }

    fn take_from_dead(
        &mut self,
        connection: &Connection,
        worker: &str,
        processes: &[WatchedProcess],
    ) -> Result<usize, StoreError> {
        let mut seen = BTreeMap::new();
        let mut dead = 0;
        for process in processes {
            let WatchedProcess { id, beat, identity } = process;
            if id == worker {
                continue;
            }
            let now = Instant::now();
            let watched = match self.seen.remove(id) {
                Some(mut before) if before.beat == *beat => {
                    before.silence.note_still(now);
                    before
                }
                _ => WatchedBeat {
                    beat: *beat,
                    silence: Silence::begin(now),
                },
            };
            let is_dead = identity.has_ended() || watched.silence.is_death();
            if is_dead && take_from(connection, id, *beat)? {
                dead += 1;
            } else {
                seen.insert(id.clone(), watched);
            }
        }
        self.seen = seen;
        Ok(dead)
    }
}

/// Takes the runs from a process whose heartbeat stands still. Returns whether it still stood at `beat`.
fn take_from(connection: &Connection, process: &str, beat: i64) -> Result<bool, StoreError> {
    connection.transact("", || {
        let sql = "DELETE FROM strata.worker WHERE id = $1 AND beat = $2";
        let arguments = [(&process as _, Type::TEXT), (&beat as _, Type::INT8)];
        if connection.execute(sql, &arguments)? == 0 {
            return Ok(false);
        }
        let sql = taking_from_dead("r.owner = $1");
        connection.execute(&sql, &[(&process, Type::TEXT)])?;
        Ok(true)
    })
}

/// Makes runs available whose owner is missing: a worker that ended without releasing them. This reads all runs
/// that have owners. Returns whether there were any.
fn make_orphans_available(connection: &Connection) -> Result<bool, StoreError> {
    let sql = taking_from_dead(
        "r.owner IS NOT NULL AND r.schedule <> 0 \
         AND NOT EXISTS (SELECT FROM strata.worker w WHERE w.id = r.owner)",
    );
    let orphans = connection.repeat_if_broken(|connection| connection.execute(&sql, &[]))?;
    Ok(orphans > 0)
}
