//! A service on TCP whose responses may be streams that last as long as what they report on.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower::{Service, ServiceExt};

use super::connection::{ConnectionLimits, Exchange, ExchangePhase, serve_connections};
use super::response::Problem;

/// The limits of the clients. A response may be a stream, so its duration is not limited; a client that
/// does not read one takes a place until it disconnects.
const SERVICE_LIMITS: ConnectionLimits = ConnectionLimits {
    clients: 1000,
    request_timeout: Duration::from_secs(30),
    response_timeout: None,
};
/// How long `close` waits until the pending requests have ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a request is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRefusal {
    /// The status of the response.
    pub status: u16,
    /// What is wrong.
    pub detail: String,
}

/// Decides about a request by its head, before its body is read. What it puts into the extensions of the head is passed
/// on with the request.
pub type HttpGuard = Arc<dyn Fn(&mut Parts) -> Result<(), HttpRefusal> + Send + Sync>;

/// A server on TCP. It runs until it is closed or dropped.
pub struct ServiceServer {
    address: SocketAddr,
    serving: JoinSet<()>,
    closing: Arc<Notify>,
}

/// What is served, and to whom.
pub struct GuardedService<S> {
    /// The path of the service. There is nothing elsewhere.
    pub path: &'static str,
    /// The maximum size of the body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Decides about requests.
    pub guard: HttpGuard,
    /// The service.
    pub service: S,
}

impl ServiceServer {
    /// Starts to serve at an address. `serve` is called with the address that it listens on.
    ///
    /// # Errors
    /// Fails if it cannot listen on the address.
    pub async fn start<S>(
        address: SocketAddr,
        serve: impl FnOnce(SocketAddr) -> GuardedService<S>,
    ) -> io::Result<Self>
    where
        S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        S::Response: IntoResponse,
        S::Future: Send + 'static,
    {
        let listener = tokio::net::TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let served = serve(address);
        let (mut serving, closing) = (JoinSet::new(), Arc::new(Notify::new()));
        let routes = move || routes(served);
        serving.spawn(serve_connections(
            listener,
            routes,
            SERVICE_LIMITS,
            Arc::clone(&closing),
        ));
        Ok(Self {
            address,
            serving,
            closing,
        })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more requests, and returns once the pending ones have ended.
    pub async fn close(mut self) {
        self.closing.notify_one();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.serving.join_next()).await;
    }
}

fn routes<S>(served: GuardedService<S>) -> Router
where
    S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Response: IntoResponse,
    S::Future: Send + 'static,
{
    let served = Arc::new(served);
    let answer = move |request: Request| {
        let served = Arc::clone(&served);
        async move { answer(&served, request).await }
    };
    Router::new().fallback(answer)
}

/// Answers a request, if it may be passed on.
async fn answer<S>(served: &GuardedService<S>, request: Request) -> Response
where
    S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Response: IntoResponse,
    S::Future: Send + 'static,
{
    let (mut head, body) = request.into_parts();
    if let Err(refusal) = (served.guard)(&mut head) {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::FORBIDDEN);
        return Problem::of_status(status, refusal.detail).into_response();
    }
    if head.uri.path() != served.path {
        let detail = format!("there is nothing here; the service is at {}", served.path);
        return Problem::of_status(StatusCode::NOT_FOUND, detail).into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, served.max_body_bytes).await else {
        let detail = format!("a request has at most {} bytes", served.max_body_bytes);
        return Problem::of_status(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response();
    };
    if let Some(exchange) = head.extensions.get::<Exchange>() {
        exchange.enter(ExchangePhase::Handling);
    }
    let request = Request::from_parts(head, Body::from(body));
    match served.service.clone().oneshot(request).await {
        Ok(response) => response.into_response(),
        Err(never) => match never {},
    }
}
