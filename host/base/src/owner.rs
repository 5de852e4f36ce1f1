//! HTTP. This is the only module that uses axum and hyper.
//!
//! The process that owns a run serves what other processes ask of it (`run_api`) at a socket, and
//! `client` sends such requests. With the feature `server`, a process also listens on TCP and serves
//! its `/metrics`, `/health` and `/ready`. All servers accept connections in the same way (`connection`): a client that is
//! slow, sends too much or opens many connections does not affect runs, since connections are limited
//! in number, in size and in duration.
//!
//! `service` serves one service on TCP, whose responses may be streams. `server_names` says which requests are meant for
//! a server on TCP; others may come from a page of another server, in the browser of a user of this one.
//!
//! What is served is passed in. This module knows neither how requests are carried out
//! (`launch::control`) nor where the socket of a run lies (`storage::mailbox`).

mod client;
mod connection;
#[cfg(feature = "server")]
mod metrics;
mod response;
mod run_api;
#[cfg(feature = "server")]
mod server_names;
#[cfg(feature = "server")]
mod service;
#[cfg(test)]
mod tests;

use std::io;
#[cfg(feature = "server")]
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The body of a request or a response.
#[cfg(feature = "server")]
pub use axum::body::Body as HttpBody;
pub use client::{SendError, send_request};
use connection::{ConnectionLimits, serve_connections};
#[cfg(feature = "server")]
pub use metrics::Monitoring;
pub use run_api::{ReplyStatus, RunOperation, RunReply, RunRequest};
use run_api::{RunRequestHandler, run_routes};
#[cfg(feature = "server")]
pub use server_names::{NotForServer, ServerNames};
#[cfg(feature = "server")]
pub use service::{GuardedService, HttpGuard, HttpRefusal, ServiceServer};

/// The limits of the clients of a run's owner.
const OWNER_LIMITS: ConnectionLimits = ConnectionLimits {
    clients: 16,
    request_timeout: Duration::from_secs(10),
    response_timeout: Some(Duration::from_secs(30)),
};
/// The limits of the clients on TCP. Usually there are one or two collectors.
#[cfg(feature = "server")]
const TCP_LIMITS: ConnectionLimits = ConnectionLimits {
    clients: 64,
    request_timeout: Duration::from_secs(2),
    response_timeout: Some(Duration::from_secs(2)),
};
/// How long `close` waits until pending requests are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a server of metrics on TCP, which runs until the runtime ends. Returns the address that it listens on.
/// `metrics` returns what it serves at `/metrics`.
///
/// ```no_run
/// use strata_base::owner::serve_metrics;
///
/// # async fn example() -> std::io::Result<()> {
/// let address = serve_metrics("127.0.0.1:9464".parse().unwrap(), || "steps 1\n".into()).await?;
/// println!("metrics are at http://{address}/metrics");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if it cannot listen on the address.
#[cfg(feature = "server")]
pub async fn serve_metrics(
    address: SocketAddr,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let metrics = Arc::new(metrics);
    let monitoring = Monitoring {
        metrics: Arc::new(move || {
            let metrics = Arc::clone(&metrics);
            Box::pin(async move { metrics() })
        }),
        readiness: Arc::new(|| Ok(())),
    };
    serve_monitoring(address, monitoring).await
}

/// Starts a server on TCP of what there is to know about this process, which runs until the runtime ends: its metrics at
/// `/metrics`, that it is there at `/health`, and whether it takes work at `/ready`. Returns the address that it listens
/// on.
///
/// # Errors
/// Fails if it cannot listen on the address.
#[cfg(feature = "server")]
pub async fn serve_monitoring(
    address: SocketAddr,
    monitoring: Monitoring,
) -> io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let routes = move || metrics::routes(monitoring.clone());
    // It is never closed.
    let closing = Arc::new(Notify::new());
    tokio::spawn(serve_connections(listener, routes, TCP_LIMITS, closing));
    Ok(bound)
}

/// The server of a run's owner. It carries out requests until it is closed or dropped.
pub struct OwnerServer {
    serving: JoinSet<()>,
    closing: Arc<Notify>,
}

impl OwnerServer {
    /// Starts to carry out the requests for a run that arrive at a socket, which must not block. Must be
    /// called within a tokio runtime.
    pub fn start(listener: UnixListener, run: i64, handler: RunRequestHandler) -> io::Result<Self> {
        Self::start_with_limits(listener, run, handler, OWNER_LIMITS)
    }

    fn start_with_limits(
        listener: UnixListener,
        run: i64,
        handler: RunRequestHandler,
        limits: ConnectionLimits,
    ) -> io::Result<Self> {
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let (mut serving, closing) = (JoinSet::new(), Arc::new(Notify::new()));
        let routes = move || run_routes(run, &handler);
        serving.spawn(serve_connections(
            listener,
            routes,
            limits,
            Arc::clone(&closing),
        ));
        Ok(Self { serving, closing })
    }

    /// Accepts no more requests, and returns once the pending ones have been answered.
    pub async fn close(mut self) {
        self.closing.notify_one();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.serving.join_next()).await;
    }
}
