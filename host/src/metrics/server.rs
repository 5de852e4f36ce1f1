//! An HTTP server for `/metrics` only. Slow clients and large requests are rejected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Metrics;

/// The maximum number of concurrent clients. Further ones wait in the kernel's queue; usually there
/// are one or two collectors.
const MAX_CLIENTS: usize = 64;
/// The maximum size of a request head in bytes. Collectors send a few hundred.
const MAX_HEAD: usize = 8 << 10;
/// Terminates a head.
const HEAD_END: &str = "\r\n\r\n";
/// The maximum duration of an exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after a failed accept, for example because no file descriptor is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Starts the server, which runs until the runtime ends. Returns the address that it listens on.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MAX_CLIENTS));
        while let Ok(place) = places.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let metrics = metrics.clone();
                    tokio::spawn(async move {
                        // An exchange that fails or takes too long concerns only its client.
                        let _ = tokio::time::timeout(EXCHANGE_TIMEOUT, exchange(stream, &metrics))
                            .await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    });
    Ok(bound)
}

async fn exchange(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    let answer = loop {
        if head
            .windows(HEAD_END.len())
            .any(|end| end == HEAD_END.as_bytes())
        {
            break respond(&head, metrics);
        }
        if head.len() > MAX_HEAD {
            break text_response(
                "431 Request Header Fields Too Large",
                "the request is too large\n",
            );
        }
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            read => head.extend(&piece[..read]),
        }
    };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(head: &[u8], metrics: &Metrics) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let answer = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => response(
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            &metrics.to_text(),
        ),
        (b"GET" | b"HEAD", _) => text_response("404 Not Found", "metrics are at /metrics\n"),
        _ => text_response("405 Method Not Allowed", "metrics are read with GET\n"),
    };
    if method == b"HEAD" {
        head_only(answer)
    } else {
        answer
    }
}

/// Returns the response to a HEAD request: the head of the response to GET.
fn head_only(mut answer: String) -> String {
    answer.truncate(
        answer
            .find(HEAD_END)
            .map_or(answer.len(), |at| at + HEAD_END.len()),
    );
    answer
}

fn text_response(status: &str, text: &str) -> String {
    response(status, "text/plain; charset=utf-8", text)
}

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{body}"
    )
}
