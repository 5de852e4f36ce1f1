//! What everything in this process shares that uses the same database: its connections, the heartbeats of its owners,
//! the subscriptions to notifications, what it appends, and what its leases changed lately.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::runtime::Runtime;

use super::connect::background;
use super::connection::SharedConnections;
use super::heartbeat::Heartbeats;
use super::notifications::Listener;
use super::recent::RecentChanges;
use super::writer::Writers;
use crate::database_url::DatabaseUrl;
use crate::error::StoreError;

/// The clients that somebody uses. One database has one, so that a command that opens it several times connects once.
static CLIENTS: Mutex<Vec<Weak<DatabaseClient>>> = Mutex::new(Vec::new());

/// A database as this process uses it. What needs a connection of its own or a task begins when it is first used, and
/// ends with the client.
#[derive(Debug)]
pub(super) struct DatabaseClient {
    /// The URL, without a run.
    url: DatabaseUrl,
    pub(super) path: PathBuf,
    pub(super) background: &'static Runtime,
    pub(super) connections: SharedConnections,
    pub(super) recent: Arc<RecentChanges>,
    heartbeats: OnceLock<Heartbeats>,
    listener: OnceLock<Listener>,
    writers: OnceLock<Writers>,
}

impl DatabaseClient {
    /// Returns the client of the database of a URL, whichever run that names. Nothing is connected yet.
    pub(super) fn of_database(url: &DatabaseUrl) -> Result<Arc<Self>, StoreError> {
        let url = DatabaseUrl {
            run: None,
            ..url.clone()
        };
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| client.strong_count() > 0);
        let mut used = clients.iter().filter_map(Weak::upgrade);
        if let Some(client) = used.find(|client| client.url == url) {
            return Ok(client);
        }
        let path = url.to_path();
        let client = Arc::new(Self {
            background: background(&path)?,
            connections: SharedConnections::new(url.clone(), path.clone()),
            recent: Arc::default(),
            heartbeats: OnceLock::new(),
            listener: OnceLock::new(),
            writers: OnceLock::new(),
            path,
            url,
        });
        clients.push(Arc::downgrade(&client));
        Ok(client)
    }

    pub(super) fn heartbeats(&self) -> &Heartbeats {
        let begin = || Heartbeats::begin(self.url.clone(), self.background);
        self.heartbeats.get_or_init(begin)
    }

    pub(super) fn listener(&self) -> &Listener {
        let begin = || Listener::begin(self.url.clone(), self.background);
        self.listener.get_or_init(begin)
    }

    pub(super) fn writers(&self) -> &Writers {
        let begin = || Writers::begin(&self.url, self.background);
        self.writers.get_or_init(begin)
    }
}
