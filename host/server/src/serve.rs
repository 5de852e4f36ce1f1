//! A server: a worker, with the API and the page in the same process.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use strata_host::driver::StopSignal;
use strata_host::operate::ProcessMetrics;
use strata_host::owner::ServerNames;
use strata_host::storage::{RunDatabase, StoreError, require_distinct};
use strata_host::worker::{
    ReportWork, RunObserver, TenantPolicy, WorkerReport, WorkerSettings, work_with_metrics,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::databases::Databases;
use crate::kept_answers::KeptAnswers;
use crate::listen::{TlsError, bind, read_tls, serve_connections};
use crate::mcp::McpEndpoint;
use crate::routes::{Site, router, routes_without_storage};
use crate::run_turns::RunTurns;
use crate::server::{Server, ServerPhase};
use crate::streams::hub::ChangeHub;
use crate::tokens::{TokenRegistry, list_tokens, new_token_text};

/// The file in a storage directory with all runs, and the one with its token.
const RUNS_FILE: &str = "runs.db";
const TOKEN_FILE: &str = "token";
/// How often it is looked whether a database that is away at the beginning has come back, and without a worker, whether
/// one cannot be written any more.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How often records are deleted that do not count any more.
const CLEANING_INTERVAL: Duration = Duration::from_secs(600);
/// How long calls of the Model Context Protocol may take to end once the runs have.
const LAST_CALLS_TIME: Duration = Duration::from_secs(3);
/// How long it may take another server to write the file with a token.
const TOKEN_PAUSE: Duration = Duration::from_millis(100);
/// The longest token in a file.
const MAX_TOKEN_BYTES: u64 = 4096;

/// How a server works.
pub struct ServeSettings {
    /// Where new runs are put, and what the server remembers.
    pub home: RunDatabase,
    /// Where further runs are.
    pub others: Vec<RunDatabase>,
    /// The directory with its token.
    pub directory: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate and the key, for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether a proxy in front of it has TLS.
    pub is_behind_proxy: bool,
    /// The names by which it is reached besides those of this machine.
    pub hosts: Vec<String>,
    /// How its worker works; `None` if it only serves the API. Its databases and its observer are those of the server.
    pub worker: Option<WorkerSettings>,
    /// What submitted teams may use.
    pub policy: TenantPolicy,
    /// What those of some tenants may use instead.
    pub tenants: BTreeMap<String, TenantPolicy>,
    /// Further routes, below paths of their own.
    pub routes: Router,
}

impl ServeSettings {
    /// Returns the address of the page, with the token behind `#`. A server that listens on all addresses is reached by the
    /// first of its names, at the port of the proxy if there is one in front of it.
    fn url(&self, address: SocketAddr, token: Option<&str>) -> String {
        let name = self.hosts.first().filter(|_| address.ip().is_unspecified());
        let (scheme, authority) = match name {
            Some(name) if self.is_behind_proxy => ("https", name.clone()),
            Some(name) => ("https", format!("{name}:{}", address.port())),
            None if self.tls.is_some() => ("https", address.to_string()),
            None => ("http", address.to_string()),
        };
        let fragment = token.map(|token| format!("#token={token}"));
        format!("{scheme}://{authority}/{}", fragment.unwrap_or_default())
    }

    /// Returns all databases, the home first.
    fn databases(&self) -> impl Iterator<Item = &RunDatabase> {
        std::iter::once(&self.home).chain(&self.others)
    }

    /// Returns the database that cannot be reached, according to an error.
    fn away(&self, error: &StoreError) -> &RunDatabase {
        let is_away = |database: &&RunDatabase| match error {
            StoreError::Unreachable { path, .. } => database.all_runs().path() == path,
            _ => false,
        };
        self.databases().find(is_away).unwrap_or(&self.home)
    }
}

/// Why a server cannot work.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from other machines, and nothing encrypts what is sent.
    #[error("`{0}` can be reached from other machines, so tokens would be sent to it as they are")]
    Unencrypted(SocketAddr),
    /// It cannot listen on the address.
    #[error("cannot listen on `{address}`: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file with the token cannot be used.
    #[error("cannot use `{}`: {what}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// The runs cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a server reports once it listens.
#[derive(Clone, Debug)]
pub struct ServerStarted {
    /// Where it listens.
    pub address: SocketAddr,
    /// The address of its page, with the token behind `#`, where no server and no log sees it.
    pub url: String,
    /// Whether there is a token, or it is not known because the databases are away. Without one, nobody can use the server.
    pub has_token: bool,
}

/// Returns the database of a storage directory.
pub fn database_in(storage: &Path) -> RunDatabase {
    RunDatabase::in_file(&storage.join(RUNS_FILE))
}

/// Serves until it is told to stop. Then it takes no new streams and no more runs, and ends when its runs have. While the
/// databases cannot all be reached at the beginning, it listens, says so, and waits.
///
/// # Errors
/// Fails if it cannot listen, or the storage cannot be used. Fails with `StoreError::Locked` if another process serves
/// the same file, and with `StoreError::WriteFailed` once it is not known any more what the disk has of a file.
pub async fn serve(
    settings: ServeSettings,
    mut stop: StopSignal,
    report: ReportWork,
    on_start: impl FnOnce(&ServerStarted),
) -> Result<(), ServeError> {
    let is_loopback = settings.address.ip().is_loopback();
    if !is_loopback && settings.tls.is_none() && !settings.is_behind_proxy {
        return Err(ServeError::Unencrypted(settings.address));
    }
    let tls = match &settings.tls {
        Some((certificate, key)) => Some(read_tls(certificate, key)?),
        None => None,
    };
    let prepared = unless_away(prepare(&settings).await)?;
    let token = own_token(&settings.directory, is_loopback)?;
    // Whoever reads that the server has started finds all of it, unless the database is away.
    let opened = match prepared {
        Ok(()) => unless_away(open_server(&settings, token.as_deref()))?,
        Err(away) => Err(away),
    };
    let listener = bind(settings.address).await;
    let listener = listener.map_err(|source| ServeError::Listen {
        address: settings.address,
        source,
    })?;
    let address = listener.local_addr().map_err(|source| ServeError::Listen {
        address: settings.address,
        source,
    })?;
    let names = ServerNames::new(address, tls.is_some(), settings.hosts.clone());
    let routes = watch::Sender::new(match &opened {
        Ok(opened) => opened.routes(&settings),
        Err(_) => routes_without_storage(),
    });
    let site = Site {
        names: Arc::new(names),
        routes: routes.subscribe(),
    };
    let (end, ending) = watch::channel(false);
    let connections = serve_connections(listener, tls.clone(), site, ending);
    let connections = tokio::spawn(connections);
    let has_token = match &opened {
        _ if token.is_some() => true,
        Ok(opened) => !list_tokens(opened.server.records.as_ref(), None)?.is_empty(),
        Err(_) => true,
    };
    on_start(&ServerStarted {
        address,
        url: settings.url(address, token.as_deref()),
        has_token,
    });
    let opened = match opened {
        Ok(opened) => Some(opened),
        Err(error) => {
            report(WorkerReport::Unavailable(settings.away(&error), &error));
            let opened = wait_for_server(&settings, token.as_deref(), &mut stop).await?;
            if let Some(opened) = &opened {
                let served = opened.routes(&settings);
                routes.send_modify(|routes| *routes = served);
            }
            opened
        }
    };
    let worked = match &opened {
        Some(opened) => opened.work_until_stopped(settings, stop, report).await,
        None => Ok(()),
    };
    end.send_replace(true);
    let _ = connections.await;
    Ok(worked?)
}

/// Returns the error of a database that is away as a value.
fn unless_away<T>(done: Result<T, ServeError>) -> Result<Result<T, StoreError>, ServeError> {
    match done {
        Err(ServeError::Store(error @ StoreError::Unreachable { .. })) => Ok(Err(error)),
        done => done.map(Ok),
    }
}

/// Creates the tables, unless they exist. Fails if two databases are the same one.
async fn prepare(settings: &ServeSettings) -> Result<(), ServeError> {
    let databases: Vec<RunDatabase> = settings.databases().cloned().collect();
    // It may take a while until it is known that nobody answers.
    let prepared = tokio::task::spawn_blocking(move || -> Result<(), StoreError> {
        let mut prepared = Vec::new();
        for database in &databases {
            prepared.push((database, database.prepare()?));
        }
        require_distinct(&prepared)
    });
    if let Ok(prepared) = prepared.await {
        prepared?;
    }
    Ok(())
}

/// A server whose database can be used.
struct OpenServer {
    server: Arc<Server>,
    mcp: McpEndpoint,
    /// What goes on as long as this lasts.
    _background: JoinSet<()>,
}

/// Opens what the server needs of a database that has its tables.
fn open_server(settings: &ServeSettings, token: Option<&str>) -> Result<OpenServer, ServeError> {
    let databases = Databases::open(&settings.home, &settings.others)?;
    // While these are there, the files stay open and count their revisions.
    let changes = databases.watch()?;
    let server = Arc::new(new_server(settings, token, databases)?);
    let mcp = open_mcp(&server)?;
    let mut background = JoinSet::new();
    for (n, changes) in changes.into_iter().enumerate() {
        background.spawn(server.changes.clone().pass_on(n, changes));
    }
    background.spawn(clean_records(Arc::clone(&server)));
    Ok(OpenServer {
        server,
        mcp,
        _background: background,
    })
}

/// Waits until the database can be used. Returns `None` if the server is told to stop before.
async fn wait_for_server(
    settings: &ServeSettings,
    token: Option<&str>,
    stop: &mut StopSignal,
) -> Result<Option<OpenServer>, ServeError> {
    loop {
        tokio::select! {
            Ok(_) = stop.wait_for(|stop| *stop) => return Ok(None),
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        let prepared = prepare(settings).await;
        let opened = prepared.and_then(|()| open_server(settings, token));
        if let Ok(opened) = unless_away(opened)? {
            return Ok(Some(opened));
        }
    }
}

impl OpenServer {
    /// Returns all that is served.
    fn routes(&self, settings: &ServeSettings) -> Router {
        let others = settings.routes.clone();
        router(&self.server, others.merge(self.mcp.routes(&self.server)))
    }

    /// Works until it is told to stop, and until the runs of its worker have ended.
    async fn work_until_stopped(
        &self,
        settings: ServeSettings,
        stop: StopSignal,
        report: ReportWork,
    ) -> Result<(), StoreError> {
        let server = &self.server;
        let databases = settings.databases().cloned().collect();
        let (phase, mut stopping) = (server.phase.clone(), stop.clone());
        let drained = tokio::spawn(async move {
            let _ = stopping.wait_for(|stop| *stop).await;
            phase.send_replace(ServerPhase::Draining);
        });
        let worked = match settings.worker {
            Some(worker) => {
                let texts = Arc::clone(&server.texts);
                let registered = Arc::clone(&texts);
                let report: ReportWork = Arc::new(move |one: WorkerReport<'_>| {
                    if let WorkerReport::Registered(database, id) = &one {
                        registered.set_worker(database, id);
                    }
                    report(one);
                });
                let worker = WorkerSettings {
                    databases,
                    tenants: settings.tenants,
                    observer: RunObserver::new(move |run| texts.observer(run)),
                    ..worker
                };
                work_on_a_thread(worker, stop, report, Arc::clone(&server.metrics)).await
            }
            None => wait_until_stopped(server, stop).await,
        };
        server.phase.send_replace(ServerPhase::Draining);
        // Those that wait for runs learn that these go on later.
        let _ = tokio::time::timeout(LAST_CALLS_TIME, self.mcp.close()).await;
        drained.abort();
        worked
    }
}

/// Waits until it is told to stop. Fails with `StoreError::WriteFailed` if a database cannot be written any more.
async fn wait_until_stopped(server: &Arc<Server>, mut stop: StopSignal) -> Result<(), StoreError> {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        let server = Arc::clone(server);
        let look = move || {
            server
                .databases
                .all()
                .try_for_each(RunDatabase::check_writable)
        };
        if let Ok(written) = tokio::task::spawn_blocking(look).await {
            written?;
        }
    }
}

fn open_mcp(server: &Server) -> Result<McpEndpoint, ServeError> {
    let open = McpEndpoint::open(Arc::clone(&server.records));
    open.map_err(|error| match error.downcast::<StoreError>() {
        // Another process may have the file open, or the server may be away.
        Ok(error) => error.into(),
        Err(source) => ServeError::Store(StoreError::Io {
            path: server.databases.home().to_string().into(),
            action: "keep what is remembered of MCP calls in",
            source,
        }),
    })
}

fn new_server(
    settings: &ServeSettings,
    token: Option<&str>,
    databases: Databases,
) -> Result<Server, StoreError> {
    let places: Vec<_> = databases.all().map(RunDatabase::all_runs).collect();
    Ok(Server {
        tokens: TokenRegistry::new(token),
        usage: Arc::default(),
        answers: KeptAnswers::new(databases.revisions()?),
        views: Default::default(),
        origins: Default::default(),
        request_times: Default::default(),
        readiness: Default::default(),
        changes: ChangeHub::default(),
        feeds: Default::default(),
        texts: Arc::default(),
        turns: RunTurns::default(),
        phase: watch::Sender::new(ServerPhase::Serving),
        policy: settings.policy.clone(),
        tenants: settings.tenants.clone(),
        metrics: Arc::new(ProcessMetrics::new(
            &places,
            settings.worker.as_ref().map_or(0, |worker| worker.room),
        )),
        records: Arc::clone(databases.records()),
        databases,
    })
}

/// Works on a thread of its own: a worker waits for databases on the thread that polls it.
async fn work_on_a_thread(
    settings: WorkerSettings,
    stop: StopSignal,
    report: ReportWork,
    metrics: Arc<ProcessMetrics>,
) -> Result<(), StoreError> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || {
        runtime.block_on(work_with_metrics(settings, stop, report, metrics))
    });
    match done.await {
        Ok(worked) => worked,
        Err(_) => {
            let source = io::Error::other("the worker ended unexpectedly");
            Err(StoreError::Io {
                path: RUNS_FILE.into(),
                action: "run teams of",
                source,
            })
        }
    }
}

/// Deletes records that do not count any more, from time to time.
async fn clean_records(server: Arc<Server>) {
    let mut times = tokio::time::interval(CLEANING_INTERVAL);
    loop {
        times.tick().await;
        let cleaned = server.blocking(|server| {
            let now_ms = strata_host::clock::now_ms();
            let mut all = server.databases.all_records();
            Ok(all.try_for_each(|records| records.delete_expired_records(now_ms))?)
        });
        if let Err(problem) = cleaned.await {
            tracing::debug!("old records stay: {problem:?}");
        }
    }
}

/// Returns the token in a directory. On a loopback address, it is made at the first start.
fn own_token(directory: &Path, may_make: bool) -> Result<Option<String>, ServeError> {
    let path = directory.join(TOKEN_FILE);
    let mut attempts = 0;
    loop {
        attempts += 1;
        match read_token(&path)? {
            None if may_make => {}
            found => return Ok(found),
        }
        match make_token(&path) {
            // Another server makes it at the same time.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < 3 => {
                std::thread::sleep(TOKEN_PAUSE);
            }
            made => {
                return made.map(Some).map_err(|error| ServeError::Token {
                    path,
                    what: error.to_string(),
                });
            }
        }
    }
}

/// Reads the file with a token; `None` if there is none.
fn read_token(path: &Path) -> Result<Option<String>, ServeError> {
    let failed = |what: String| ServeError::Token {
        path: path.to_owned(),
        what,
    };
    match OpenOptions::new().read(true).open(path) {
        Ok(file) => {
            let mode = file
                .metadata()
                .map_err(|e| failed(e.to_string()))?
                .permissions()
                .mode();
            if mode & 0o077 != 0 {
                let what = format!(
                    "its mode is {:03o}, so others may read it; `chmod 600` it, and make a new token if they did",
                    mode & 0o777
                );
                return Err(failed(what));
            }
            let mut text = String::new();
            file.take(MAX_TOKEN_BYTES)
                .read_to_string(&mut text)
                .map_err(|e| failed(e.to_string()))?;
            let text = text.trim().to_owned();
            if text.is_empty() {
                Err(failed(
                    "it is empty; remove it, so that a token is made".into(),
                ))
            } else {
                Ok(Some(text))
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Makes a token, and a file with it.
fn make_token(path: &Path) -> io::Result<String> {
    let text =
        new_token_text().map_err(|_| io::Error::other("the system has no random numbers"))?;
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_storage_stays_and_nobody_else_may_read_it() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(own_token(temp.path(), false).unwrap(), None);
        let token = own_token(temp.path(), true).unwrap().unwrap();
        assert_eq!(own_token(temp.path(), true).unwrap(), Some(token.clone()));
        assert_eq!(own_token(temp.path(), false).unwrap(), Some(token));
        let path = temp.path().join(TOKEN_FILE);
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = own_token(temp.path(), true).unwrap_err().to_string();
        assert!(refused.contains("its mode is 644"), "{refused}");
    }
}
