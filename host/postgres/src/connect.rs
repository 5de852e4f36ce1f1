//! Connects to a server, and says what its errors mean. A thread in the background reads from and writes to
//! the connections of this process.

use std::error::Error as _;
use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rustls::CertificateError;
use strata_records::database_url::{DatabaseHost, DatabaseUrl, Encryption};
use strata_records::error::StoreError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Config, NoTls, Notification};

use super::session::{Session, is_conflict};
use super::tls::RustlsConnector;

/// The action of statements that create or change tables.
pub(super) const CHANGE_TABLES: &str = "change the tables of";

/// How long it may take until a connection is ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After how long without an acknowledgement from the other machine a connection counts as broken.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the other machine is asked for one after that, if nothing comes from it.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);

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

/// Carries out on another thread what waits for the server.
pub(super) async fn on_another_thread<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = background(path)?.spawn_blocking(work).await;
    ended.map_err(|error| StoreError::io(path, "write", std::io::Error::other(error)))?
}

/// Is called on the background thread when a notification arrives.
pub(super) type OnNotification = Arc<dyn Fn(&Notification) + Send + Sync>;

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
    /// Whether that is a run of the same name.
    pub is_name_taken: bool,
    /// Whether the server asks to repeat the transaction to which it belonged, because of what others
    /// did at the same time.
    pub is_conflict: bool,
}

impl From<StatementError> for StoreError {
    fn from(error: StatementError) -> Self {
        error.meaning
    }
}

/// A statement that failed for a reason that the server did not give, such as a connection that could not
/// be opened.
impl From<StoreError> for StatementError {
    fn from(meaning: StoreError) -> Self {
        Self {
            is_disconnected: matches!(meaning, StoreError::Unreachable { .. }),
            is_duplicate: false,
            is_name_taken: false,
            is_conflict: false,
            meaning,
        }
    }
}

/// Returns why a statement failed.
pub(super) fn statement_error(
    path: &Path,
    action: &'static str,
    error: &tokio_postgres::Error,
) -> StatementError {
    let constraint = error.as_db_error().and_then(|error| error.constraint());
    StatementError {
        is_name_taken: constraint == Some("run_name_key"),
        is_disconnected: is_disconnected(error),
        is_conflict: is_conflict(error),
        is_duplicate: error.code() == Some(&SqlState::UNIQUE_VIOLATION),
        meaning: explain_error(path, action, error),
    }
}

/// Connects to a database. Must be called within the background runtime. `notified` receives its
/// notifications.
pub(super) async fn connect(
    url: DatabaseUrl,
    notified: Option<OnNotification>,
) -> Result<Session, StoreError> {
    let path = url.to_path();
    let connecting = async {
        let config = config(&url);
        let fail = |e: tokio_postgres::Error| explain_error(&path, "connect to", &e);
        if url.encryption == Encryption::None {
            let (client, connection) = config.connect(NoTls).await.map_err(fail)?;
            tokio::spawn(drive(connection, notified));
            return Session::new(client, url.can_prepare).await.map_err(fail);
        }
        let connector = RustlsConnector::new(&url).map_err(|what| StoreError::InvalidUrl {
            url: url.to_string(),
            what,
        })?;
        let (client, connection) = config.connect(connector).await.map_err(fail)?;
        tokio::spawn(drive(connection, notified));
        Session::new(client, url.can_prepare).await.map_err(fail)
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
    notified: Option<OnNotification>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(notified) = &notified {
                    notified(&notification);
                }
            }
            Some(Ok(_)) => {}
            // Whoever waits for an answer learns of an error from it.
            Some(Err(_)) | None => break,
        }
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
        .keepalives_interval(KEEPALIVE_INTERVAL)
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
fn is_disconnected(error: &tokio_postgres::Error) -> bool {
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
fn explain_error(path: &Path, action: &'static str, error: &tokio_postgres::Error) -> StoreError {
    let path = path.to_path_buf();
    let Some(server) = error.as_db_error() else {
        if let Some(what) = explain_tls(error) {
            return StoreError::Refused { path, what };
        }
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
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            let what = format!("{what}; {}", missing_grant(&path, action));
            StoreError::Refused { path, what }
        }
        &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Refused {
            path,
            what: format!("{what}; name the primary server instead of a standby"),
        },
        &SqlState::DISK_FULL | &SqlState::OUT_OF_MEMORY => StoreError::Full {
            path,
            action,
            inodes: false,
            needed: 0,
        },
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::corrupt(&path, what),
        &SqlState::TOO_MANY_CONNECTIONS => StoreError::Unreachable {
            path,
            what: format!(
                "{what}; its connections are used up: raise its `max_connections`, or put a pooler in front of it"
            ),
        },
        _ if is_disconnected(error) => StoreError::Unreachable { path, what },
        code => StoreError::Io {
            path,
            action,
            source: std::io::Error::other(format!("{what} (SQLSTATE {})", code.code())),
        },
    }
}

/// Returns what to grant to the user of a URL, to whom the server denies an action.
fn missing_grant(path: &Path, action: &str) -> String {
    let url = path.to_str().and_then(|url| DatabaseUrl::parse(url).ok());
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (user, database) = match &url {
        Some(url) => (quoted(&url.user_or_default()), quoted(&url.database)),
        None => (quoted("USER"), quoted("DATABASE")),
    };
    match action {
        CHANGE_TABLES => format!(
            "grant this user the right to create the tables, with `GRANT CREATE ON DATABASE {database} TO {user}`, or let \
             the user who created them bring them to this version"
        ),
        _ => format!(
            "grant this user `GRANT USAGE ON SCHEMA strata TO {user}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA strata TO {user}`; to read, `SELECT` suffices"
        ),
    }
}

/// Returns why no encrypted connection was made, if the server's certificate is the reason.
fn explain_tls(error: &tokio_postgres::Error) -> Option<String> {
    let cause = error.source()?.downcast_ref::<std::io::Error>()?;
    let rustls::Error::InvalidCertificate(certificate) = cause.get_ref()?.downcast_ref()? else {
        return None;
    };
    Some(match certificate {
        CertificateError::UnknownIssuer => {
            "its certificate was issued by none of the authorities that are trusted here; name a file with the \
             certificate of its authority with `sslrootcert=`"
                .into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another host; connect to a host that it names".into()
        }
        other => format!("its certificate is not valid: {other}"),
    })
}
