//! Connections of clients. They are limited in number and in duration, and each is used for one
//! exchange: a request and its response.

use std::cell::LazyCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(feature = "server")]
use tokio::net::{TcpListener, TcpStream};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

/// The maximum size of a request head in bytes. Collectors and this program send a few hundred.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What the clients of a server may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// The maximum number of concurrent clients. Further ones wait in the kernel's queue.
    pub clients: usize,
    /// How long a client may take to send its request.
    pub request_timeout: Duration,
    /// How long a client may take to receive the response. `None` if it may be a stream.
    pub response_timeout: Option<Duration>,
}

/// A socket that clients connect to.
pub(super) trait ClientListener: Send + 'static {
    /// A connection of a client.
    type Stream: AsyncRead + AsyncWrite + AsFd + Send + Unpin + 'static;

    /// Waits for the next client. Cancel safe.
    fn next_client(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl ClientListener for UnixListener {
    type Stream = UnixStream;

    async fn next_client(&self) -> io::Result<UnixStream> {
        let (stream, _) = self.accept().await?;
        Ok(stream)
    }
}

#[cfg(feature = "server")]
impl ClientListener for TcpListener {
    type Stream = TcpStream;

    async fn next_client(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        Ok(stream)
    }
}

/// Accepts connections and serves each in a task of its own. Once `closing` is notified, it accepts
/// no more, closes those of clients that have not sent their whole request, and returns when the other
/// ones have ended.
///
/// `routes` is called for the first client, so that a run that no client reaches does not pay for it.
pub(super) async fn serve_connections<L: ClientListener>(
    listener: L,
    routes: impl FnOnce() -> Router + Send + 'static,
    limits: ConnectionLimits,
    closing: Arc<Notify>,
) {
    let routes = LazyCell::new(routes);
    let is_closing = watch::Sender::new(false);
    let mut exchanges = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.notified() => break,
            accepted = listener.next_client(), if exchanges.len() < limits.clients => match accepted {
                Ok(stream) => {
                    let routes = Router::clone(&routes);
                    exchanges.spawn(serve_client(stream, routes, limits, is_closing.subscribe()));
                }
                // Most likely there are no free file descriptors. Some will become free.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            },
            Some(_) = exchanges.join_next() => {}
        }
    }
    is_closing.send_replace(true);
    while exchanges.join_next().await.is_some() {}
}

/// Serves one request. A head that is too large is answered with 431.
async fn serve_client<S>(
    stream: S,
    routes: Router,
    limits: ConnectionLimits,
    is_closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + AsFd + Send + Unpin + 'static,
{
    let exchange = Exchange::new(&stream);
    let for_request = exchange.clone();
    let service = tower::service_fn(move |mut request: Request<Incoming>| {
        let (routes, exchange) = (routes.clone(), for_request.clone());
        request.extensions_mut().insert(exchange.clone());
        async move {
            let response = routes.oneshot(request).await;
            exchange.enter(ExchangePhase::Responding);
            response
        }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        // The time for the whole request is limited.
        .header_read_timeout(None)
        .max_header_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // An exchange that fails or takes too long concerns only its client.
    tokio::select! {
        // What has arrived is received before it is decided whether the request is complete.
        biased;
        _ = connection => {}
        () = exchange.expired(limits) => {}
        () = exchange.cut_off(is_closing) => {}
    }
}

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangePhase {
    /// The client sends its request.
    Receiving,
    /// The request is complete and is carried out, however long that takes.
    Handling,
    /// The client receives the response.
    Responding,
}

/// An exchange with a client. Every request carries its exchange as an extension.
#[derive(Clone)]
pub(super) struct Exchange {
    phase: watch::Sender<ExchangePhase>,
    /// A duplicate of the connection; `None` if there are too many open files.
    connection: Option<Arc<OwnedFd>>,
}

impl Exchange {
    fn new(connection: &impl AsFd) -> Self {
        Self {
            phase: watch::Sender::new(ExchangePhase::Receiving),
            connection: connection.as_fd().try_clone_to_owned().ok().map(Arc::new),
        }
    }

    /// Notes that the exchange has reached a phase, which has a time limit of its own.
    pub(super) fn enter(&self, phase: ExchangePhase) {
        self.phase.send_replace(phase);
    }

    /// Returns whether the client has disconnected, for a request that was received completely. Asks
    /// the system, because tokio may learn of it only later if this process was suspended.
    pub(super) fn is_client_gone(&self) -> bool {
        // This does not block: the duplicate shares the non-blocking mode of the connection. What a
        // client sends after its request is ignored.
        self.connection
            .as_ref()
            .is_some_and(|connection| rustix::io::read(connection.as_fd(), &mut [0_u8]) == Ok(0))
    }

    /// Returns once the client has used up the time of a phase.
    async fn expired(&self, limits: ConnectionLimits) {
        let mut phase = self.phase.subscribe();
        let received = phase.wait_for(|phase| *phase != ExchangePhase::Receiving);
        if tokio::time::timeout(limits.request_timeout, received)
            .await
            .is_err()
        {
            return;
        }
        // This cannot fail: a sender is part of `self`.
        let _ = phase
            .wait_for(|phase| *phase == ExchangePhase::Responding)
            .await;
        match limits.response_timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    }

    /// Returns once the server closes, unless the request is complete by then.
    async fn cut_off(&self, mut is_closing: watch::Receiver<bool>) {
        // This fails if the server no longer exists, which ends the exchange, too.
        let _ = is_closing.wait_for(|is_closing| *is_closing).await;
        if *self.phase.borrow() != ExchangePhase::Receiving {
            std::future::pending::<()>().await;
        }
    }
}
