//! Tells which runs of a database change. What this process appends is told at once. What others do is found by asking
//! several times a second while a run is at work, and once otherwise: which runs were moved (submitted, taken, given up,
//! deleted, …) by transactions that had not ended the last time, and what the newest events of those are that somebody owns.
//! So an append costs nothing more, and nothing is missed if a connection breaks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_records::error::StoreError;
use strata_records::served::{ChangedRun, RunChanges};
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::connect::background;
use super::database::Database;
use super::notifications::{Subject, Subscription};
use super::writer::AppendedEvents;

/// How often it is asked what others have changed, while a run has an owner or was moved.
const INTERVAL: Duration = Duration::from_millis(250);
/// How often otherwise: what is submitted or becomes due is notified, and little else can change.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// How many changes are remembered for somebody who is slow.
const MAX_CHANGES: usize = 4096;

/// The first transaction that may not have ended yet.
const POSITION: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint";

/// Returns that transaction, with the runs that are owned or were moved by transactions from `$1` on: their keys, the
/// transactions, and their newest events. The keys of events are those of `lineage`.
const LOOK: &str = "
    WITH position AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS next),
    moved AS (
        SELECT id, moved FROM strata.run WHERE moved >= $1
        UNION
        SELECT id, moved FROM strata.run WHERE owner IS NOT NULL)
    SELECT position.next, found.id, found.moved, found.newest
    FROM position LEFT JOIN (
        SELECT moved.id, moved.moved,
               (SELECT max(n) FROM strata.event e
                WHERE e.run = r.id AND e.n BETWEEN r.lineage << 40 AND ((r.lineage + 1) << 40) - 1) AS newest
        FROM moved JOIN strata.run r ON r.id = moved.id
        UNION ALL
        SELECT run, moved, NULL FROM strata.deletion WHERE moved >= $1) found ON true";

/// Tells which runs change from now on.
pub fn watch_runs(database: &Database) -> Result<RunChanges, StoreError> {
    let connection = database.connect()?;
    let row = connection.repeat_if_broken(|connection| connection.query_optional(POSITION, &[]))?;
    let due = Arc::new(Notify::new());
    let writers = database.writers()?;
    let (changed, changes) = broadcast::channel(MAX_CHANGES);
    let feed = ChangeFeed {
        // A run that becomes due was changed.
        subscription: Subscription::begin(database.listener()?, Subject::Work, Arc::clone(&due)),
        known: BTreeMap::new(),
        position: row.map_or(0, |row| row.get(0)),
        changed,
    };
    let telling = feed.tell(due, writers.watch_appends());
    let telling = AbortOnDrop::new(background(&database.to_path())?.spawn(telling));
    // The connections stay open meanwhile.
    Ok(RunChanges::new(changes, (telling, writers)))
}

/// Up to which transaction a run was moved, and the key of its newest event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KnownRun {
    moved: i64,
    newest: Option<i64>,
}

struct ChangeFeed {
    subscription: Subscription,
    /// The runs that the last look found.
    known: BTreeMap<i64, KnownRun>,
    /// The first transaction that may not have been seen.
    position: i64,
    changed: broadcast::Sender<ChangedRun>,
}

impl ChangeFeed {
    async fn tell(mut self, due: Arc<Notify>, mut appends: broadcast::Receiver<AppendedEvents>) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                appended = appends.recv() => match appended {
                    Ok(appended) => {
                        self.note_appended(appended);
                        continue;
                    }
                    // What was missed is found by a look.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                () = due.notified() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            if let Err(error) = self.look().await {
                tracing::debug!("it is not known which runs change: {error}");
            }
            let interval = if self.known.is_empty() {
                IDLE_INTERVAL
            } else {
                INTERVAL
            };
            next = Instant::now() + interval;
        }
    }

    fn send(&self, changed: ChangedRun) {
        // Nobody may be watching.
        let _ = self.changed.send(changed);
    }

    fn note_appended(&mut self, AppendedEvents { run, newest }: AppendedEvents) {
        let known = self.known.entry(run).or_default();
        known.newest = known.newest.max(Some(newest));
        self.send(ChangedRun::Key(run));
    }

    /// Looks which runs have changed.
    async fn look(&mut self) -> Result<(), Error> {
        let client = self.subscription.client().await;
        let rows = client
            .query_typed(LOOK, &[(&self.position, Type::INT8)])
            .await?;
        let mut found = BTreeMap::new();
        let mut position = self.position;
        for row in &rows {
            position = row.get(0);
            if let Some(run) = row.get::<_, Option<i64>>(1) {
                let (moved, newest) = (row.get(2), row.get(3));
                found.insert(run, KnownRun { moved, newest });
            }
        }
        if position < self.position {
            // The database went back to an earlier state, or to that of a server that counts anew.
            self.send(ChangedRun::Unknown);
        }
        for (run, now) in &found {
            if self.known.get(run) != Some(now) {
                self.send(ChangedRun::Key(*run));
            }
        }
        (self.known, self.position) = (found, position);
        Ok(())
    }
}
