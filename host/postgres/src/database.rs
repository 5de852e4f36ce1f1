//! A database, or a run in it, with what this process has open to it.
//!
//! The parts lie below: each is made with what it needs, and knows neither this module nor the other parts. A part exists
//! for as long as somebody uses it.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;

use super::connection::{Connection, Connections};
use super::heartbeat::Heartbeats;
use super::notifications::Listener;
use super::recent::RecentChanges;
use super::while_used::WhileUsed;
use super::writer::Writers;

/// A database, or a run in it. Clones use the same connections, and so do the values of other runs in it.
///
/// ```
/// use strata_postgres::Database;
/// use strata_records::database_url::DatabaseUrl;
///
/// let run = Database::at(DatabaseUrl::parse("postgres://127.0.0.1/teams?run=one")?);
/// assert_eq!(run.whole().to_string(), "postgres://127.0.0.1/teams");
/// # Ok::<(), strata_records::StoreError>(())
/// ```
#[derive(Clone)]
pub struct Database {
    url: DatabaseUrl,
    client: Arc<Client>,
}

/// What this process has open to a database, whichever of its runs that is for.
struct Client {
    /// The URL, without a run.
    url: DatabaseUrl,
    connections: Connections,
    writers: WhileUsed<Writers>,
    listener: WhileUsed<Listener>,
    heartbeats: WhileUsed<Heartbeats>,
    recent: WhileUsed<RecentChanges>,
}

impl Client {
    /// Returns that of a database, which need not be used yet.
    ///
    /// A program makes a location from a text whenever it likes, and many of the same database. However many there are,
    /// the process has six connections to it, and knows what its leases changed there. So those that are made
    /// independently of each other find the client that one of them uses.
    fn of_database(url: &DatabaseUrl) -> Arc<Self> {
        static ALL: Mutex<Vec<Weak<Client>>> = Mutex::new(Vec::new());
        let url = DatabaseUrl {
            run: None,
            ..url.clone()
        };
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|client| client.strong_count() > 0);
        let mut used = all.iter().filter_map(Weak::upgrade);
        if let Some(client) = used.find(|client| client.url == url) {
            return client;
        }
        let client = Arc::new(Self {
            connections: Connections::new(&url),
            url,
            writers: WhileUsed::default(),
            listener: WhileUsed::default(),
            heartbeats: WhileUsed::default(),
            recent: WhileUsed::default(),
        });
        all.push(Arc::downgrade(&client));
        client
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.url)
    }
}

/// Shows the URL without its password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

/// Two are equal if their URLs are.
impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for Database {}

impl Database {
    /// Refers to the database of a URL, and to the run that it names. Connects to nothing.
    pub fn at(url: DatabaseUrl) -> Self {
        Self {
            client: Client::of_database(&url),
            url,
        }
    }

    /// Returns the URL.
    pub fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Returns the name of the run, if the URL names one.
    pub fn run(&self) -> Option<&str> {
        self.url.run.as_deref()
    }

    /// Returns the URL without its password, as the path in messages.
    pub fn to_path(&self) -> PathBuf {
        self.url.to_path()
    }

    /// Refers to another run in the same database.
    pub fn with_run(&self, run: &str) -> Self {
        Self {
            url: self.url.with_run(run),
            client: Arc::clone(&self.client),
        }
    }

    /// Refers to the database, and to no run.
    pub fn whole(&self) -> Self {
        Self {
            url: self.client.url.clone(),
            client: Arc::clone(&self.client),
        }
    }

    /// Returns a caller that carries out statements. Fails if the database cannot be reached.
    pub(super) fn connect(&self) -> Result<Connection, StoreError> {
        self.client.connections.caller(self.url.run.as_deref())
    }

    /// Returns what appends the events of all runs.
    pub(super) fn writers(&self) -> Result<Arc<Writers>, StoreError> {
        let Client { url, writers, .. } = &*self.client;
        writers.get(|| Writers::start(url))
    }

    /// Returns what is notified for everybody.
    pub(super) fn listener(&self) -> Result<Arc<Listener>, StoreError> {
        let Client { url, listener, .. } = &*self.client;
        listener.get(|| Listener::start(url))
    }

    /// Returns the heartbeats of all owners.
    pub(super) fn heartbeats(&self) -> Result<Arc<Heartbeats>, StoreError> {
        let client = &*self.client;
        let start = || Heartbeats::start(&client.url, &client.connections);
        client.heartbeats.get(start)
    }

    /// Returns what all leases changed lately.
    pub(super) fn recent(&self) -> Result<Arc<RecentChanges>, StoreError> {
        self.client.recent.get(|| Ok(RecentChanges::default()))
    }
}
