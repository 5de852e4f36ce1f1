//! The HTTP server. It serves `/metrics`, for one process and its runs. This is the only module that
//! uses axum and hyper.
//!
//! Nothing is set up before [`serve`] is called. A client that is slow, sends a large head or opens
//! many connections does not affect runs: connections are limited in number and in duration.
//!
//! ```no_run
//! use std::sync::Arc;
//! use strata_host::{metrics::Metrics, server};
//!
//! # async fn example() -> std::io::Result<()> {
//! let metrics = Arc::new(Metrics::default());
//! let address = server::serve("127.0.0.1:9464".parse().unwrap(), metrics.clone()).await?;
//! println!("metrics are at http://{address}/metrics");
//! # Ok(())
//! # }
//! ```

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::metrics::Metrics;

/// The maximum number of concurrent clients. Further ones wait in the kernel's queue; usually there
/// are one or two collectors.
const MAX_CLIENTS: usize = 64;
/// The maximum size of a request head in bytes; it is also the least that hyper accepts. Collectors
/// send a few hundred.
const MAX_HEAD: usize = 8 << 10;
/// The maximum duration of a connection, which is used for one exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Starts the server, which runs until the runtime ends. Returns the address that it listens on.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(accept_connections(listener, routes(metrics)));
    Ok(bound)
}

/// Accepts connections and serves each in a task of its own.
async fn accept_connections(listener: TcpListener, routes: Router) {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let exchange = exchange(stream, routes.clone());
                tokio::spawn(async move {
                    // An exchange that fails or takes too long concerns only its client.
                    let _ = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Serves one request. A head that is too large is answered with 431.
async fn exchange(stream: TcpStream, routes: Router) -> hyper::Result<()> {
    http1::Builder::new()
        .keep_alive(false)
        // The time of the whole exchange is limited.
        .header_read_timeout(None)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .await
}

/// Returns what is served, by path.
fn routes(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(get_metrics).fallback(reject))
        .fallback(reject)
        .with_state(metrics)
}

async fn get_metrics(State(metrics): State<Arc<Metrics>>) -> Response {
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    respond(StatusCode::OK, content_type, metrics.to_text())
}

/// Answers what no route serves.
async fn reject(method: Method) -> Response {
    let (status, text) = match method {
        Method::GET | Method::HEAD => (StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            "metrics are read with GET\n",
        ),
    };
    respond(status, "text/plain; charset=utf-8", text.to_owned())
}

/// Returns a response that is not cached, since it is out of date soon.
fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body).into_response()
}
