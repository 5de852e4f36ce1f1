//! The heartbeats of the owners of runs in this process, which rise together over one connection. The same
//! statement keeps the slices of caps that this process holds, and reads which caps there are (`caps`).
//!
//! The connection is used for little else, so that no heartbeat waits for the work of others: what killed processes
//! left behind is removed now and then, between two heartbeats.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_base::random_id::random_name;
use strata_records::caps::{CapAccounts, CapScope};
use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;
use strata_records::work::RegistrationHealth;
use strata_records::{Heartbeat, LEASE_TIME, LeaseStatus};
use tokio::sync::watch;
use tokio_postgres::types::Type;

use super::caps::cap_accounts;
use super::clean_up::{CLEAN_UP_INTERVAL, remove_leftovers};
use super::connect::{background, connect};
use super::connection::Connections;
use super::session::Session;

/// How often heartbeats rise.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How soon that is tried again if the server cannot be reached.
const BEAT_RETRY: Duration = Duration::from_millis(500);
/// How long a heartbeat waits for the removal of what killed processes left behind.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Lets the heartbeat of an owner rise until it is dropped, or until the owner is taken for dead.
#[derive(Debug)]
pub(super) struct OwnerHeartbeat {
    all: Arc<Heartbeats>,
    owner: String,
    newest: watch::Receiver<Heartbeat>,
}

impl Drop for OwnerHeartbeat {
    fn drop(&mut self) {
        self.end();
    }
}

impl OwnerHeartbeat {
    /// Begins with an owner whose row was just written.
    pub(super) fn begin(all: Arc<Heartbeats>, owner: &str) -> Self {
        let sent = Instant::now();
        let (beats, newest) = watch::channel(Heartbeat::Answered { sent });
        all.beats.owners.lock().insert(owner.into(), beats);
        Self {
            all,
            owner: owner.into(),
            newest,
        }
    }

    /// Whether the owner was taken for dead.
    pub(super) fn is_refused(&self) -> bool {
        *self.newest.borrow() == Heartbeat::Refused
    }

    /// Returns a view of it.
    pub(super) fn health(&self) -> RegistrationHealth {
        let reconnections = self.all.beats.reconnections.subscribe();
        RegistrationHealth {
            server: Some((self.newest.clone(), reconnections)),
        }
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.all.beats.owners.lock().remove(&self.owner);
    }

    /// Returns the status of a lease that depends on it.
    pub(super) fn lease_status(&self, path: &Path) -> LeaseStatus {
        LeaseStatus::depending_on(self.newest.clone(), path)
            .counting(self.all.beats.reconnections.subscribe())
    }

    /// Returns what this process may spend of the caps in the database.
    pub(super) fn caps(&self) -> Arc<CapAccounts> {
        Arc::clone(&self.all.beats.caps)
    }
}

/// The heartbeats of all owners in this process.
#[derive(Debug)]
pub(super) struct Heartbeats {
    beats: Beats,
    _beating: AbortOnDrop<()>,
}

impl Heartbeats {
    /// Starts those of a database. What is drawn from caps is asked for over `connections`.
    pub(super) fn start(url: &DatabaseUrl, connections: &Connections) -> Result<Self, StoreError> {
        let holder: Arc<str> = random_name().into();
        let beats = Beats {
            owners: Owners::default(),
            caps: cap_accounts(url.to_path(), connections, &holder),
            holder,
            reconnections: watch::Sender::new(0),
        };
        let background = background(&url.to_path())?;
        Ok(Self {
            _beating: AbortOnDrop::new(background.spawn(beat(url.clone(), beats.clone()))),
            beats,
        })
    }
}

/// What heartbeats are for.
#[derive(Clone, Debug)]
struct Beats {
    owners: Owners,
    caps: Arc<CapAccounts>,
    /// The name under which this process holds slices of caps.
    holder: Arc<str>,
    /// How often the server was connected to again.
    reconnections: watch::Sender<u64>,
}

/// The owners whose heartbeats rise, by name, and who is told of that.
#[derive(Clone, Debug, Default)]
struct Owners(Arc<Mutex<BTreeMap<String, watch::Sender<Heartbeat>>>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, watch::Sender<Heartbeat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a heartbeat was answered for those of `asked` that are in `alive`. The others were
    /// taken for dead.
    fn note(&self, asked: &[String], alive: &[String], sent: Instant) {
        let mut owners = self.lock();
        for owner in asked {
            if alive.contains(owner) {
                if let Some(beats) = owners.get(owner) {
                    beats.send_replace(Heartbeat::Answered { sent });
                }
            } else if let Some(beats) = owners.remove(owner) {
                beats.send_replace(Heartbeat::Refused);
            }
        }
    }
}

/// Lets heartbeats rise. The connection is opened for the first of them, which a process that soon ends
/// does not need.
async fn beat(url: DatabaseUrl, beats: Beats) {
    let mut cleaned_up: Option<Instant> = None;
    let mut client: Option<Session> = None;
    let mut connections = 0;
    let mut pause = BEAT_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let connected = match client.take() {
            Some(client) => client,
            None => match connect(url.clone(), None).await {
                Ok(new) => {
                    connections += 1;
                    new
                }
                Err(error) => {
                    tracing::debug!("the heartbeat is late: {error}");
                    pause = BEAT_RETRY;
                    continue;
                }
            },
        };
        // Draws wait for a heartbeat that was sent, and runs that end for draws.
        let raised = tokio::time::timeout(LEASE_TIME, raise(&connected, &beats)).await;
        let error = match raised {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the server does not answer".into()),
        };
        if let Some(error) = error {
            tracing::debug!("the heartbeat is late: {error}");
            pause = BEAT_RETRY;
            continue;
        }
        pause = BEAT_INTERVAL;
        // The first one is none that was opened again.
        beats.reconnections.send_if_modified(|count| {
            let before = std::mem::replace(count, connections - 1);
            before != *count
        });
        if cleaned_up.is_none_or(|at| at.elapsed() >= CLEAN_UP_INTERVAL) {
            cleaned_up = Some(Instant::now());
            // No heartbeat waits for rows that somebody has locked.
            let removing = tokio::time::timeout(CLEAN_UP_TIMEOUT, remove_leftovers(&connected));
            if removing.await.is_err() {
                continue;
            }
        }
        client = Some(connected);
    }
}

/// Lets all heartbeats rise once, keeps the slices of this process, and reads which caps apply to its runs. A slice
/// that somebody has locked is left for the next heartbeat: no lease waits for it. A slice that this process does not
/// know of, because the answer to a draw was lost, is left for others to collect.
async fn raise(client: &Session, beats: &Beats) -> Result<(), tokio_postgres::Error> {
    let sql = "WITH beaten AS (UPDATE strata.worker SET beat = beat + 1, beat_at = clock_timestamp() \
                               WHERE id = ANY($1) RETURNING id), \
                    own AS MATERIALIZED (SELECT scope FROM strata.slice \
                                         WHERE holder = $2 AND scope = ANY($5) FOR UPDATE SKIP LOCKED), \
                    kept AS (UPDATE strata.slice s \
                             SET beat_at = clock_timestamp(), drawn = coalesce(report.drawn, s.drawn) \
                             FROM own LEFT JOIN unnest($3, $4) AS report (scope, drawn) USING (scope) \
                             WHERE s.holder = $2 AND s.scope = own.scope) \
               SELECT id, NULL, NULL FROM beaten \
               UNION ALL SELECT NULL, scope, generation FROM strata.cap WHERE scope = ANY($3)";
    let asked: Vec<String> = beats.owners.lock().keys().cloned().collect();
    let report = beats.caps.report();
    let names: Vec<&str> = report.scopes.iter().map(CapScope::name).collect();
    let slices: Vec<&str> = report.slices.iter().map(CapScope::name).collect();
    let holder: &str = &beats.holder;
    let arguments = [
        (&asked as _, Type::TEXT_ARRAY),
        (&holder as _, Type::TEXT),
        (&names as _, Type::TEXT_ARRAY),
        (&report.drawn as _, Type::INT8_ARRAY),
        (&slices as _, Type::TEXT_ARRAY),
    ];
    let sent = Instant::now();
    let rows = client.query_typed(sql, &arguments).await?;
    let mut alive: Vec<String> = Vec::new();
    let mut generations: BTreeMap<CapScope, i64> = BTreeMap::new();
    for row in &rows {
        if let Some(id) = row.get(0) {
            alive.push(id);
        }
        if let Some(name) = row.get(1) {
            generations.insert(CapScope::from_stored(name), row.get(2));
        }
    }
    // Runs that wait for a cap look at it once their heartbeat was answered.
    beats.caps.note_heartbeat(report, &generations);
    beats.owners.note(&asked, &alive, sent);
    Ok(())
}
