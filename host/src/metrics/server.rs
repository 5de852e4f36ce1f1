//! Serves `/metrics`, and nothing else. Whoever asks slowly or too much is not waited for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Metrics;

/// Who is answered at once. Others wait with the kernel: there is one collector, perhaps two.
const MAX_CLIENTS: usize = 64;
/// The head of a request. Collectors need a few hundred bytes.
const MAX_HEAD: usize = 8 << 10;
/// What ends a head.
const END: &str = "\r\n\r\n";
/// The time for a whole exchange.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after the kernel had no connection to give, since it has no descriptors left, say.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves from now on, until the runtime ends; the address that is listened on.
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
                        // A client that goes away or is slow is its own trouble.
                        let _ = tokio::time::timeout(PATIENCE, exchange(stream, &metrics)).await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    Ok(bound)
}

async fn exchange(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    let answer = loop {
        if head.windows(END.len()).any(|end| end == END.as_bytes()) {
            break answer(&head, metrics);
        }
        if head.len() > MAX_HEAD {
            break said(
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

fn answer(head: &[u8], metrics: &Metrics) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let answer = match (method, path) {
        (b"GET" | b"HEAD", b"/metrics") => with_type(
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            &metrics.text(),
        ),
        (b"GET" | b"HEAD", _) => said("404 Not Found", "metrics are at /metrics\n"),
        _ => said("405 Method Not Allowed", "metrics are read with GET\n"),
    };
    if method == b"HEAD" {
        head_of(answer)
    } else {
        answer
    }
}

/// The answer to who wants to know what there is, and not to have it.
fn head_of(mut answer: String) -> String {
    answer.truncate(answer.find(END).map_or(answer.len(), |at| at + END.len()));
    answer
}

fn said(status: &str, text: &str) -> String {
    with_type(status, "text/plain; charset=utf-8", text)
}

fn with_type(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\ncache-control: no-store\r\n\
         connection: close\r\n\r\n{body}"
    )
}
