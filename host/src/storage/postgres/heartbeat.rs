//! The heartbeats of the owners of runs in this process, which rise together over one connection.
//!
//! It has nothing else to do but to remove now and then what killed processes left behind, so that no
//! heartbeat is late because of others' work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::clean_up::{CLEAN_UP_INTERVAL, remove_leftovers};
use super::connect::{background, connect};
use super::per_database::PerDatabase;
use crate::abort_on_drop::AbortOnDrop;
use crate::storage::database_url::DatabaseUrl;
use crate::storage::error::StoreError;
use crate::storage::{Heartbeat, LeaseStatus};

/// How often heartbeats rise.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How soon that is tried again if the server cannot be reached.
const BEAT_RETRY: Duration = Duration::from_millis(500);

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
    pub(super) fn begin(url: &DatabaseUrl, owner: &str) -> Result<Self, StoreError> {
        let sent = Instant::now();
        let (beats, newest) = watch::channel(Heartbeat::Answered { sent });
        let all = Heartbeats::of_database(url)?;
        all.owners.lock().insert(owner.into(), beats);
        Ok(Self {
            all,
            owner: owner.into(),
            newest,
        })
    }

    /// Whether the owner was taken for dead.
    pub(super) fn is_refused(&self) -> bool {
        *self.newest.borrow() == Heartbeat::Refused
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.all.owners.lock().remove(&self.owner);
    }

    /// Returns the status of a lease that depends on it.
    pub(super) fn lease_status(&self, path: &Path) -> LeaseStatus {
        LeaseStatus::depending_on(self.newest.clone(), path)
    }
}

/// The heartbeats of all owners in this process.
#[derive(Debug)]
struct Heartbeats {
    owners: Owners,
    _beating: AbortOnDrop<()>,
}

impl Heartbeats {
    fn of_database(url: &DatabaseUrl) -> Result<Arc<Self>, StoreError> {
        static ALL: PerDatabase<Heartbeats> = PerDatabase::new();
        ALL.get(url, |url| {
            let owners = Owners::default();
            let background = background(&url.to_path())?;
            Ok(Self {
                _beating: AbortOnDrop::new(background.spawn(beat(url, owners.clone()))),
                owners,
            })
        })
    }
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
async fn beat(url: DatabaseUrl, owners: Owners) {
    let mut cleaned_up: Option<Instant> = None;
    let mut client: Option<Client> = None;
    let mut pause = BEAT_INTERVAL;
    loop {
        tokio::time::sleep(pause).await;
        let beaten = match &client {
            Some(client) => raise(client, &owners).await,
            None => match connect(url.clone(), None).await {
                Ok(new) => raise(client.insert(new), &owners).await,
                Err(error) => {
                    tracing::debug!("the heartbeat is late: {error}");
                    pause = BEAT_RETRY;
                    continue;
                }
            },
        };
        pause = BEAT_INTERVAL;
        if let Err(error) = beaten {
            tracing::debug!("the heartbeat is late: {error}");
            (client, pause) = (None, BEAT_RETRY);
            continue;
        }
        if let Some(client) = &client
            && cleaned_up.is_none_or(|at| at.elapsed() >= CLEAN_UP_INTERVAL)
        {
            remove_leftovers(client).await;
            cleaned_up = Some(Instant::now());
        }
    }
}

/// Lets all heartbeats rise once.
async fn raise(client: &Client, owners: &Owners) -> Result<(), tokio_postgres::Error> {
    let sql = "UPDATE strata.worker SET beat = beat + 1, beat_at = clock_timestamp() \
               WHERE id = ANY($1) RETURNING id";
    let asked: Vec<String> = owners.lock().keys().cloned().collect();
    if asked.is_empty() {
        return Ok(());
    }
    let sent = Instant::now();
    let rows = client
        .query_typed(sql, &[(&asked, Type::TEXT_ARRAY)])
        .await?;
    let alive: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    owners.note(&asked, &alive, sent);
    Ok(())
}
