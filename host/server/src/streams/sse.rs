//! Server-sent events: how messages are written, and how a stream is kept up: with comments, until its token is revoked
//! or the server ends. A reader that is too slow is cut off, and continues by the id of its last message.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{mpsc, watch};

use crate::server::{Server, ServerPhase};
use crate::usage::UsagePermit;

/// How often a comment is sent if there is nothing else.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);
/// How often it is looked whether the token still counts.
const TOKEN_INTERVAL: Duration = Duration::from_secs(2);
/// Within which time a reader has to take what waits for it.
const READ_TIME: Duration = Duration::from_secs(30);
/// How much may wait for a reader: 16 pieces of 64 KiB.
const PIECE_BYTES: usize = 64 << 10;
const MAX_PIECES: usize = 16;
/// When a client is to come back, in the form of a message.
const RETRY: &str = "retry: 1000\n\n";

/// A message of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseMessage {
    /// Its name; the default name without one.
    pub name: Option<&'static str>,
    /// Its id.
    pub id: Option<String>,
    /// Its data, on one line.
    pub data: String,
}

impl SseMessage {
    /// Returns a message with a name.
    pub fn named(name: &'static str, data: String) -> Self {
        Self {
            name: Some(name),
            id: None,
            data,
        }
    }

    /// Writes it.
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(name) = self.name {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        if let Some(id) = &self.id {
            out.extend_from_slice(b"id: ");
            out.extend_from_slice(id.as_bytes());
            out.push(b'\n');
        }
        // JSON has no line feeds; one would end the field.
        for line in self.data.split('\n') {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
    }
}

/// Where the messages of a stream come from.
pub trait MessageSource: Send + 'static {
    /// Waits for the next messages. Returns `None` once there are no more. Nothing is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Vec<SseMessage>>> + Send;
}

/// A stream that is to be opened.
pub struct NewStream<S> {
    /// What all requests share.
    pub server: Arc<Server>,
    /// The token of whoever reads it.
    pub token: String,
    /// Counts it until it is over.
    pub _permit: UsagePermit,
    /// Where its messages come from.
    pub source: S,
}

impl<S: MessageSource> NewStream<S> {
    /// Returns the answer whose body is the stream.
    pub fn open(self) -> Response {
        let (pieces, waiting) = mpsc::channel::<Bytes>(MAX_PIECES);
        tokio::spawn(self.run(pieces));
        let body = stream::unfold(waiting, |mut waiting| async move {
            let piece = waiting.recv().await?;
            Some((Ok::<_, Infallible>(piece), waiting))
        });
        let mut response = (StatusCode::OK, Body::from_stream(body)).into_response();
        let headers = response.headers_mut();
        let fixed = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    async fn run(mut self, pieces: mpsc::Sender<Bytes>) {
        if send(&pieces, RETRY.into()).await.is_err() {
            return;
        }
        let mut phase = self.server.phase.subscribe();
        let mut comments = tokio::time::interval(COMMENT_INTERVAL);
        let mut checks = tokio::time::interval(TOKEN_INTERVAL);
        comments.reset();
        checks.reset();
        loop {
            let sent = tokio::select! {
                biased;
                () = end_of_service(&mut phase) => {
                    let _ = send(&pieces, RETRY.into()).await;
                    return;
                }
                () = pieces.closed() => return,
                _ = checks.tick() => match self.server.is_token_valid(self.token.clone()).await {
                    true => Ok(()),
                    false => return,
                },
                _ = comments.tick() => send(&pieces, ": \n\n".into()).await,
                messages = self.source.next() => match messages {
                    Some(messages) => {
                        comments.reset();
                        send_all(&pieces, &messages).await
                    }
                    None => return,
                },
            };
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Waits until the server takes no more requests.
async fn end_of_service(phase: &mut watch::Receiver<ServerPhase>) {
    // This fails if the server is gone, too.
    let _ = phase.wait_for(|phase| *phase != ServerPhase::Serving).await;
}

/// The reader is gone or too slow.
struct ReaderGone;

/// Sends messages in pieces.
async fn send_all(pieces: &mpsc::Sender<Bytes>, messages: &[SseMessage]) -> Result<(), ReaderGone> {
    let mut piece = Vec::new();
    for message in messages {
        message.write(&mut piece);
        if piece.len() >= PIECE_BYTES {
            send(pieces, std::mem::take(&mut piece).into()).await?;
        }
    }
    match piece.is_empty() {
        true => Ok(()),
        false => send(pieces, piece.into()).await,
    }
}

/// Sends a piece. Fails if the reader does not make room for it in time.
async fn send(pieces: &mpsc::Sender<Bytes>, piece: Bytes) -> Result<(), ReaderGone> {
    send_within(READ_TIME, pieces, piece).await
}

async fn send_within(
    time: Duration,
    pieces: &mpsc::Sender<Bytes>,
    piece: Bytes,
) -> Result<(), ReaderGone> {
    match tokio::time::timeout(time, pieces.send(piece)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ReaderGone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_fields() {
        let check = |message: SseMessage, expected: &str| {
            let mut out = Vec::new();
            message.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        let event = SseMessage {
            name: None,
            id: Some("7".into()),
            data: r#"{"n":7}"#.into(),
        };
        check(event, "id: 7\ndata: {\"n\":7}\n\n");
        let end = SseMessage::named("end", "{}".into());
        check(end, "event: end\ndata: {}\n\n");
        let lines = SseMessage::named("text", "a\nb".into());
        check(lines, "event: text\ndata: a\ndata: b\n\n");
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_cut_off() {
        let (pieces, mut waiting) = mpsc::channel(1);
        let time = Duration::from_millis(20);
        let is_sent =
            async |piece: &'static str| send_within(time, &pieces, piece.into()).await.is_ok();
        assert!(is_sent("one").await);
        assert!(!is_sent("two").await);
        assert_eq!(waiting.recv().await.unwrap(), "one");
        assert!(is_sent("three").await);
        drop(waiting);
        assert!(!is_sent("four").await);
    }
}
