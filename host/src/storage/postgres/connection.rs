//! Connections to a server: opened and kept by a thread in the background, used by callers that wait.
//!
//! Each statement is sent in one message, without being prepared before, so that it also works through
//! poolers that run each transaction on another connection. Only `writer` prepares its statement.

use std::cell::{Cell, Ref, RefCell};
use std::error::Error as _;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Row};

use super::tls::RustlsConnector;
use crate::storage::database_url::{DatabaseHost, DatabaseUrl, Encryption};
use crate::storage::error::StoreError;
use crate::wait::wait;

/// How long it may take until a connection is ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without an acknowledgement from the other machine a connection counts as broken.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// The thread that reads from and writes to the servers. Callers wait for it on their own threads,
/// which may be in the middle of driving other tasks.
static BACKGROUND: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("postgres")
        .enable_all()
        .build()
});

/// Returns the background thread.
pub(super) fn background(path: &Path) -> Result<&'static Runtime, StoreError> {
    BACKGROUND.as_ref().map_err(|error| {
        let error = std::io::Error::new(error.kind(), error.to_string());
        StoreError::io(path, "connect to", error)
    })
}

/// A statement's argument, with its type.
pub(super) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct StatementError {
    /// What it means.
    pub meaning: StoreError,
    /// Whether the connection is broken, so that it is not known whether the statement was carried
    /// out.
    pub is_disconnected: bool,
    /// Whether a row with the same key exists.
    pub is_duplicate: bool,
}

impl From<StatementError> for StoreError {
    fn from(error: StatementError) -> Self {
        error.meaning
    }
}

/// A connection to a database.
pub(super) struct Connection {
    url: DatabaseUrl,
    path: PathBuf,
    client: RefCell<Client>,
    is_reading: Cell<bool>,
    is_changing: Cell<bool>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({})", self.url)
    }
}

impl Connection {
    /// Connects to a database.
    pub(super) fn open(url: &DatabaseUrl) -> Result<Self, StoreError> {
        let path = url.to_path();
        let client = wait(background(&path)?.spawn(connect(url.clone(), None)));
        let client = client
            .map_err(|error| StoreError::io(&path, "connect to", std::io::Error::other(error)))??;
        Ok(Self {
            url: url.clone(),
            path,
            client: RefCell::new(client),
            is_reading: Cell::new(false),
            is_changing: Cell::new(false),
        })
    }

    /// Replaces a broken connection by a new one.
    pub(super) fn reconnect(&self) -> Result<(), StoreError> {
        let Self { client, .. } = Self::open(&self.url)?;
        self.client.replace(client.into_inner());
        self.is_reading.set(false);
        Ok(())
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

    /// Returns the client. One that is known to be broken is replaced, unless a transaction was open on
    /// it.
    fn client(&self) -> Result<Ref<'_, Client>, StatementError> {
        let is_broken = self.client.borrow().is_closed();
        if is_broken && !self.is_reading.get() && !self.is_changing.get() {
            self.reconnect().map_err(|meaning| StatementError {
                is_disconnected: matches!(meaning, StoreError::Unreachable { .. }),
                is_duplicate: false,
                meaning,
            })?;
        }
        Ok(self.client.borrow())
    }

    pub(super) fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Returns where the run is kept, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the rows that a statement yields.
    pub(super) fn query(
        &self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let client = self.client()?;
        wait(client.query_typed(sql, arguments)).map_err(|e| self.explain("read", e))
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
        let client = self.client()?;
        wait(client.execute_typed(sql, arguments)).map_err(|e| self.explain("write", e))
    }

    /// Carries out statements without arguments.
    pub(super) fn execute_all(&self, sql: &str) -> Result<(), StatementError> {
        let client = self.client()?;
        wait(client.batch_execute(sql)).map_err(|e| self.explain("write", e))
    }

    /// Runs `work` in a transaction: all of it is committed, or nothing.
    pub(super) fn transact<T, E: From<StatementError>>(
        &self,
        begin: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.execute_all(begin)?;
        self.is_changing.set(true);
        let ended = match work() {
            Ok(result) => self.execute_all("COMMIT").map(|()| result).map_err(E::from),
            Err(error) => {
                // If this fails, the transaction ends with the connection.
                let _ = self.execute_all("ROLLBACK");
                Err(error)
            }
        };
        self.is_changing.set(false);
        ended
    }

    /// Starts a transaction in which all reads see the same state, unless there is one. Returns
    /// whether it started one.
    pub(super) fn begin_read(&self) -> Result<bool, StoreError> {
        if self.is_reading.get() {
            return Ok(false);
        }
        self.execute_all("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")?;
        self.is_reading.set(true);
        Ok(true)
    }

    pub(super) fn end_read(&self) {
        // If this fails, the transaction ends with the connection.
        let _ = self.execute_all("COMMIT");
        self.is_reading.set(false);
    }

    fn explain(&self, action: &'static str, error: tokio_postgres::Error) -> StatementError {
        statement_error(&self.path, action, &error)
    }
}

/// Returns why a statement failed.
pub(super) fn statement_error(
    path: &Path,
    action: &'static str,
    error: &tokio_postgres::Error,
) -> StatementError {
    StatementError {
        is_disconnected: is_disconnected(error),
        is_duplicate: error.code() == Some(&SqlState::UNIQUE_VIOLATION),
        meaning: explain_error(path, action, error),
    }
}

/// Connects to a database. Must be called within the background runtime. `notified` is told when
/// a notification arrives, and when the connection ends.
pub(super) async fn connect(
    url: DatabaseUrl,
    notified: Option<Arc<Notify>>,
) -> Result<Client, StoreError> {
    let path = url.to_path();
    let connecting = async {
        let config = config(&url);
        let fail = |e: tokio_postgres::Error| explain_error(&path, "connect to", &e);
        if url.encryption == Encryption::None {
            let (client, connection) = config.connect(NoTls).await.map_err(fail)?;
            tokio::spawn(drive(connection, notified));
            return Ok(client);
        }
        let connector = RustlsConnector::new(&url).map_err(|what| StoreError::InvalidUrl {
            url: url.to_string(),
            what,
        })?;
        let (client, connection) = config.connect(connector).await.map_err(fail)?;
        tokio::spawn(drive(connection, notified));
        Ok(client)
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(StoreError::Unreachable {
            path: path.clone(),
            what: format!("it has not answered for {} s", CONNECT_TIMEOUT.as_secs()),
        }),
    }
}

/// Reads and writes until the connection ends.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    notified: Option<Arc<Notify>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let message = poll_fn(|context| connection.poll_message(context)).await;
        if let (Some(notified), Some(Ok(AsyncMessage::Notification(_))) | None) =
            (&notified, &message)
        {
            notified.notify_one();
        }
        // Whoever waits for an answer learns of an error from it.
        if !matches!(message, Some(Ok(_))) {
            break;
        }
    }
    if let Some(notified) = notified {
        notified.notify_one();
    }
}

fn config(url: &DatabaseUrl) -> Config {
    let mut config = Config::new();
    match &url.host {
        DatabaseHost::Tcp(host) => config.host(host.trim_matches(['[', ']'])),
        DatabaseHost::Socket(directory) => config.host_path(directory),
    };
    config
        .port(url.port)
        .user(url.user_or_default())
        .dbname(&url.database)
        .application_name("strata-host")
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT)
        .keepalives_idle(UNACKNOWLEDGED_TIMEOUT)
        .ssl_mode(match url.encryption {
            Encryption::None => SslMode::Disable,
            Encryption::Unverified | Encryption::Verified => SslMode::Require,
        });
    if let Some(password) = &url.password {
        config.password(password);
    }
    config
}

/// Whether the connection is broken.
pub(super) fn is_disconnected(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        let is_io = |e: &(dyn std::error::Error + 'static)| e.is::<std::io::Error>();
        return error.is_closed() || error.source().is_some_and(is_io);
    };
    let ends = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    ends.contains(code) || code.code().starts_with("08")
}

/// Returns what an error of the server means.
pub(super) fn explain_error(
    path: &Path,
    action: &'static str,
    error: &tokio_postgres::Error,
) -> StoreError {
    let path = path.to_path_buf();
    let Some(server) = error.as_db_error() else {
        let what = match error.source() {
            Some(cause) if cause.to_string() == "password missing" => {
                return StoreError::Refused {
                    path,
                    what: "it asks for a password; set `PGPASSWORD`, or put it into the URL".into(),
                };
            }
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        return StoreError::Unreachable { path, what };
    };
    let what = server.message().to_owned();
    match server.code() {
        &SqlState::INVALID_PASSWORD => StoreError::Refused {
            path,
            what: format!("{what}; set `PGPASSWORD`, or put the right password into the URL"),
        },
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => StoreError::Refused {
            path,
            what: format!("{what}; name a user of the server, and look at its `pg_hba.conf`"),
        },
        &SqlState::INVALID_CATALOG_NAME => StoreError::Refused {
            path,
            what: format!("{what}; create it with `createdb`, or name another"),
        },
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused {
            path,
            what: format!("{what}; grant this user the right to create and change tables in it"),
        },
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Refused {
            path,
            what: format!("{what}; name the primary server instead of a standby"),
        },
        &SqlState::DISK_FULL | &SqlState::OUT_OF_MEMORY => StoreError::Full {
            path,
            action,
            inodes: false,
        },
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::corrupt(&path, what),
        code if is_disconnected(error) || code == &SqlState::TOO_MANY_CONNECTIONS => {
            StoreError::Unreachable { path, what }
        }
        code => StoreError::Io {
            path,
            action,
            source: std::io::Error::other(format!("{what} (SQLSTATE {})", code.code())),
        },
    }
}
