//! Accepts connections, with or without TLS, and serves each in a task of its own.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::body::READ_TIME;
use crate::cut_off::CutOff;
use crate::routes::{MAX_HEAD_BYTES, Site, answer};
use crate::unread_body::UnreadBody;

/// How many connections are open at once. Further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4096;
/// The name of HTTP/1.1 in the handshake of TLS.
const PROTOCOL: &[u8] = b"http/1.1";
/// How long a client may take for the handshake of TLS.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why a certificate or its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or contains something else.
    #[error("cannot read `{path}`: {what}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The key does not fit the certificate.
    #[error("the certificate and the key cannot be used: {0}")]
    Mismatch(rustls::Error),
}

/// Reads a certificate with its chain, and its key.
///
/// # Errors
/// Fails if one of the files cannot be read, or they do not belong together.
pub fn read_tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let wrong = |path: &Path, what: String| TlsError::File {
        path: path.display().to_string(),
        what,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(|e| wrong(certificate, e.to_string()))?
        .collect();
    let chain = chain.map_err(|e| wrong(certificate, e.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "it has no certificate".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, e.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Mismatch)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(TlsError::Mismatch)?;
    // A client that speaks nothing else is refused by the handshake.
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until it is told to end. Then it accepts no more, and lets requests that are under way be
/// answered for a while.
pub async fn serve_connections(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    site: Site,
    mut ending: watch::Receiver<bool>,
) {
    /// How long requests that are under way may take.
    const LAST_TIME: Duration = Duration::from_secs(5);
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut clients = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => break,
            Some(_) = clients.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (tls, site) = (tls.clone(), site.clone());
        let ending = ending.clone();
        clients.spawn(async move {
            let _permit = permit;
            match tls {
                None => serve_client(stream, site, ending).await,
                Some(tls) => {
                    let handshake = tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream));
                    if let Ok(Ok(stream)) = handshake.await {
                        serve_client(stream, site, ending).await;
                    }
                }
            }
        });
    }
    let _ = tokio::time::timeout(LAST_TIME, async {
        while clients.join_next().await.is_some() {}
    })
    .await;
}

/// Serves the requests of a client. What fails concerns only that client.
async fn serve_client<S>(stream: S, site: Site, mut ending: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let cut_off = CutOff::default();
    let of_connection = cut_off.clone();
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let site = site.clone();
        request.extensions_mut().insert(of_connection.clone());
        async move {
            let request = request.map(|body| axum::body::Body::new(UnreadBody::new(body)));
            Ok::<_, std::convert::Infallible>(answer(site, request).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        _ = &mut connection => return,
        () = cut_off.wait() => return,
        _ = ending.wait_for(|ending| *ending) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = &mut connection => {}
        () = cut_off.wait() => {}
    }
}

/// Returns the address on which a listener listens, and the listener.
///
/// # Errors
/// Fails if the address cannot be used.
pub async fn bind(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}
