//! The connections to a database that everything in this process shares that does not have one of its
//! own, and how a caller on a thread of its own carries out statements over them.
//!
//! Each statement is sent in one message, without being prepared before, so that it also works through
//! poolers that run each transaction on another connection. Only `writer` prepares its statements.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use strata_base::process::wait::wait;
use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Error, Row};

use super::connect::{CHANGE_TABLES, StatementError, background, connect, statement_error};
use super::session::{Argument, BEGIN, BEGIN_READ, MAX_REPETITIONS, Session};
use super::while_used::WhileUsed;

/// How many connections are shared. Besides, a process has those of `writer`, one for its heartbeat and
/// one for notifications.
const SHARED_CONNECTIONS: usize = 2;
/// How long connections stay open that nobody uses any more. A command that is over soon opens the
/// database several times, and connecting takes longer than everything else it does there.
const LINGER_TIME: Duration = Duration::from_secs(1);
/// How long a caller waits for a connection that others use.
const LEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Gives callers the connections to a database that they share. They are open for as long as there is a caller, and a
/// little longer.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    url: DatabaseUrl,
    shared: Arc<WhileUsed<SharedConnections>>,
}

impl Connections {
    /// Returns those to a database. Connects to nothing.
    pub(super) fn new(url: &DatabaseUrl) -> Self {
        Self {
            url: url.clone(),
            shared: Arc::default(),
        }
    }

    /// Returns a new caller, for a run if one is named. Fails if the database cannot be reached.
    pub(super) fn caller(&self, run: Option<&str>) -> Result<Connection, StoreError> {
        let shared = self.shared.get(|| Ok(SharedConnections::new(&self.url)))?;
        shared.lend()?;
        let url = DatabaseUrl {
            run: run.map(str::to_owned),
            ..self.url.clone()
        };
        Ok(Connection::over(shared, url))
    }
}

/// The connections that callers take turns in using.
#[derive(Debug)]
struct SharedConnections {
    url: DatabaseUrl,
    path: PathBuf,
    /// One permit for each connection that may be in use.
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
}

impl SharedConnections {
    fn new(url: &DatabaseUrl) -> Self {
        Self {
            path: url.to_path(),
            url: url.clone(),
            permits: Arc::new(Semaphore::new(SHARED_CONNECTIONS)),
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Returns a connection that nobody else uses. Waits until there is one.
    fn lend(self: &Arc<Self>) -> Result<LentConnection, StoreError> {
        let ended = |error| StoreError::io(&self.path, "connect to", std::io::Error::other(error));
        let permits = Arc::clone(&self.permits);
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let acquiring = async move {
                    tokio::time::timeout(LEND_TIMEOUT, permits.acquire_owned()).await
                };
                let acquired = wait(background(&self.path)?.spawn(acquiring));
                match acquired.map_err(ended)? {
                    Ok(Ok(permit)) => permit,
                    _ => return Err(self.all_in_use()),
                }
            }
        };
        let client = match self.take_idle() {
            Some(client) => client,
            None => {
                let connecting = connect(self.url.clone(), None);
                wait(background(&self.path)?.spawn(connecting)).map_err(ended)??
            }
        };
        Ok(LentConnection {
            client: Some(client),
            is_clean: Cell::new(true),
            lender: Arc::clone(self),
            _permit: permit,
        })
    }

    fn all_in_use(&self) -> StoreError {
        StoreError::Unreachable {
            path: self.path.clone(),
            what: format!(
                "all connections of this process have been in use for {} s",
                LEND_TIMEOUT.as_secs()
            ),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection that is open and not in use, if there is one.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle();
        while let Some(client) = idle.pop() {
            if !client.is_closed() {
                return Some(client);
            }
        }
        None
    }
}

/// A connection that nobody else uses until this is dropped.
#[derive(Debug)]
struct LentConnection {
    /// `None` only while this is dropped.
    client: Option<Session>,
    /// Whether it is outside of a transaction and not known to be broken.
    is_clean: Cell<bool>,
    lender: Arc<SharedConnections>,
    /// Released after the connection was given back.
    _permit: OwnedSemaphorePermit,
}

impl Drop for LentConnection {
    fn drop(&mut self) {
        if let Some(client) = self.client.take()
            && self.is_clean.get()
            && !client.is_closed()
        {
            self.lender.idle().push(client);
        }
    }
}

impl LentConnection {
    /// Waits for the result of a statement.
    fn wait_for<T>(
        &self,
        action: &'static str,
        statement: impl AsyncFnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, StatementError> {
        let Some(client) = &self.client else {
            unreachable!("it was dropped");
        };
        wait(statement(client)).map_err(|error| {
            let error = statement_error(&self.lender.path, action, &error);
            if error.is_disconnected {
                self.is_clean.set(false);
            }
            error
        })
    }
}

/// A caller that carries out statements over the shared connections: each over any of them, and those of
/// a transaction over one.
pub(super) struct Connection {
    url: DatabaseUrl,
    path: PathBuf,
    shared: Arc<SharedConnections>,
    /// The connection of the transaction that is open.
    held: RefCell<Option<LentConnection>>,
    /// Whether the server asked to repeat that transaction.
    has_conflict: Cell<bool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if Arc::strong_count(&self.shared) == 1
            && let Ok(background) = background(&self.path)
        {
            let shared = Arc::clone(&self.shared);
            background.spawn(async move {
                tokio::time::sleep(LINGER_TIME).await;
                drop(shared);
            });
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.url)
    }
}

impl Connection {
    fn over(shared: Arc<SharedConnections>, url: DatabaseUrl) -> Self {
        Self {
            path: url.to_path(),
            url,
            shared,
            held: RefCell::new(None),
            has_conflict: Cell::new(false),
        }
    }

    /// Returns another caller, for use on another thread.
    pub(super) fn another(&self) -> Self {
        Self::over(Arc::clone(&self.shared), self.url.clone())
    }

    /// Closes the connections that nobody uses, since they may be broken like another one, and opens
    /// one.
    pub(super) fn reconnect(&self) -> Result<(), StoreError> {
        self.shared.idle().clear();
        self.shared.lend().map(drop)
    }

    /// Carries out statements, and does it once more over a new connection if this one was broken. What
    /// changes something may be carried out twice, so it has to do the same then.
    pub(super) fn repeat_if_broken<T>(
        &self,
        work: impl Fn(&Self) -> Result<T, StatementError>,
    ) -> Result<T, StoreError> {
        match work(self) {
            Err(error) if error.is_disconnected => {
                self.reconnect()?;
                Ok(work(self)?)
            }
            done => Ok(done?),
        }
    }

    pub(super) fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Returns where the run is kept, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the result of a statement.
    fn wait_for<T>(
        &self,
        action: &'static str,
        statement: impl AsyncFnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, StatementError> {
        match &*self.held.borrow() {
            Some(held) => {
                let done = held.wait_for(action, statement);
                self.note_conflict(&done);
                done
            }
            None => self.lend()?.wait_for(action, statement),
        }
    }

    fn lend(&self) -> Result<LentConnection, StatementError> {
        Ok(self.shared.lend()?)
    }

    /// Returns the rows that a statement yields.
    pub(super) fn query(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        self.wait_for("read", async |client| {
            client.query_typed(sql, arguments).await
        })
    }

    /// Returns the only row that a statement yields, or `None` if there is none.
    pub(super) fn query_optional(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Option<Row>, StatementError> {
        Ok(self.query(sql, arguments)?.into_iter().next())
    }

    /// Carries out a statement, and returns how many rows it changed.
    pub(super) fn execute(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<u64, StatementError> {
        self.wait_for("write", async |client| {
            client.execute_typed(sql, arguments).await
        })
    }

    /// Carries out statements without arguments.
    pub(super) fn execute_all(&self, sql: &str) -> Result<(), StatementError> {
        self.wait_for(CHANGE_TABLES, async |client| {
            client.batch_execute(sql).await
        })
    }

    fn note_conflict<T>(&self, done: &Result<T, StatementError>) {
        if done.as_ref().is_err_and(|error| error.is_conflict) {
            self.has_conflict.set(true);
        }
    }

    /// Begins a transaction, which keeps a connection from others.
    fn begin(&self, begin: &str) -> Result<(), StatementError> {
        let lent = self.lend()?;
        lent.wait_for("write", async |session| session.begin(begin).await)?;
        lent.is_clean.set(false);
        self.held.replace(Some(lent));
        Ok(())
    }

    /// Ends a transaction with `COMMIT` or `ROLLBACK`. If this fails, the transaction ends with the
    /// connection.
    fn end(&self, end: &str) -> Result<(), StatementError> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let ended = held.wait_for("write", async |session| session.end(end).await);
        self.note_conflict(&ended);
        ended?;
        held.is_clean.set(true);
        Ok(())
    }

    /// Runs `work` in a transaction with these settings: all of it is committed, or nothing. It is run
    /// again if the server asks for it.
    pub(super) fn transact<T, E: From<StatementError>>(
        &self,
        settings: &str,
        work: impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = format!("{BEGIN}; {settings}");
        for _ in 0..MAX_REPETITIONS {
            self.has_conflict.set(false);
            match self.transact_once(&begin, &work) {
                Err(_) if self.has_conflict.get() => tracing::debug!("a transaction is repeated"),
                done => return done,
            }
        }
        self.transact_once(&begin, &work)
    }

    fn transact_once<T, E: From<StatementError>>(
        &self,
        begin: &str,
        work: &impl Fn() -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin(begin)?;
        match work() {
            Ok(result) => self.end("COMMIT").map(|()| result).map_err(E::from),
            Err(error) => {
                // If this fails, the transaction ends with the connection.
                let _ = self.end("ROLLBACK");
                Err(error)
            }
        }
    }

    /// Starts a transaction in which all reads see the same state, unless there is one. Returns
    /// whether it started one.
    pub(super) fn begin_read(&self) -> Result<bool, StoreError> {
        if self.held.borrow().is_some() {
            return Ok(false);
        }
        self.begin(BEGIN_READ)?;
        Ok(true)
    }

    pub(super) fn end_read(&self) {
        // If this fails, the transaction ends with the connection.
        let _ = self.end("COMMIT");
    }
}
