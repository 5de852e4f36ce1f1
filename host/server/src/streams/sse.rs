//! Server-sent events: how messages are written, and how a stream is kept up: with comments, until its token is revoked
//! or the server ends. A reader that is too slow is cut off, and continues by the id of its last message.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{mpsc, watch};
use tokio::time::Sleep;

use crate::cut_off::CutOff;
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
    /// Waits for the next messages. Nothing is lost if the future is dropped.
    fn next(&mut self) -> impl Future<Output = NextMessages> + Send;
}

/// What follows in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextMessages {
    /// These messages.
    Some(Vec<SseMessage>),
    /// Nothing, for good.
    End,
    /// Nothing that can be read at the moment: a client continues by the id of its last message.
    Failed,
}

/// A stream that is to be opened.
pub struct NewStream<S> {
    /// What all requests share.
    pub server: Arc<Server>,
    /// The token of whoever reads it.
    pub token: String,
    /// Counts it until it is over.
    pub _permit: UsagePermit,
    /// Breaks its connection off.
    pub cut_off: CutOff,
    /// Where its messages come from.
    pub source: S,
}

impl<S: MessageSource> NewStream<S> {
    /// Returns the answer whose body is the stream.
    pub fn open(self) -> Response {
        let (pieces, waiting) = mpsc::channel::<Bytes>(MAX_PIECES);
        tokio::spawn(self.run(Pieces::new(pieces, READ_TIME)));
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

    async fn run(mut self, mut pieces: Pieces) {
        if self.send_until_the_end(&mut pieces).await.is_err() {
            self.cut_off.cut();
        }
    }

    async fn send_until_the_end(&mut self, pieces: &mut Pieces) -> Result<(), ReaderGone> {
        pieces.send(RETRY.into()).await?;
        let mut phase = self.server.phase.subscribe();
        let mut comments = tokio::time::interval(COMMENT_INTERVAL);
        let mut checks = tokio::time::interval(TOKEN_INTERVAL);
        comments.reset();
        checks.reset();
        loop {
            tokio::select! {
                biased;
                () = end_of_service(&mut phase) => return pieces.send(RETRY.into()).await,
                () = pieces.waiting.closed() => return Ok(()),
                _ = checks.tick() => {
                    if !self.server.is_token_valid(self.token.clone()).await {
                        return Ok(());
                    }
                }
                _ = comments.tick() => pieces.send(": \n\n".into()).await?,
                messages = self.source.next() => match messages {
                    NextMessages::Some(messages) => {
                        comments.reset();
                        pieces.send_all(&messages).await?;
                    }
                    NextMessages::End => return Ok(()),
                    NextMessages::Failed => return pieces.send(RETRY.into()).await,
                },
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
#[derive(Debug)]
struct ReaderGone;

/// What waits for a reader.
struct Pieces {
    waiting: mpsc::Sender<Bytes>,
    /// Within which time a reader has to take what waits for it.
    time: Duration,
    /// How many were sent.
    sent: usize,
    /// Once as much waits as may wait: until when that has to be taken, and how many were sent by then.
    full: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Pieces {
    fn new(waiting: mpsc::Sender<Bytes>, time: Duration) -> Self {
        Self {
            waiting,
            time,
            sent: 0,
            full: None,
        }
    }

    /// Sends messages in pieces.
    async fn send_all(&mut self, messages: &[SseMessage]) -> Result<(), ReaderGone> {
        let mut piece = Vec::new();
        for message in messages {
            message.write(&mut piece);
            if piece.len() >= PIECE_BYTES {
                self.send_parts(std::mem::take(&mut piece).into()).await?;
            }
        }
        self.send_parts(piece.into()).await
    }

    /// Sends bytes in pieces, of which a long message is several.
    async fn send_parts(&mut self, mut bytes: Bytes) -> Result<(), ReaderGone> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
            self.send(piece).await?;
        }
        Ok(())
    }

    /// Sends a piece. Fails if the reader does not take in time what waited when no more could wait.
    async fn send(&mut self, piece: Bytes) -> Result<(), ReaderGone> {
        let waiting = self.waiting.max_capacity() - self.waiting.capacity();
        self.full.take_if(|(_, sent)| waiting <= self.sent - *sent);
        if self.waiting.capacity() == 0 && self.full.is_none() {
            self.full = Some((Box::pin(tokio::time::sleep(self.time)), self.sent));
        }
        let sending = self.waiting.send(piece);
        let sent = match &mut self.full {
            Some((too_late, _)) => tokio::select! {
                biased;
                sent = sending => sent,
                () = too_late => return Err(ReaderGone),
            },
            None => sending.await,
        };
        self.sent += 1;
        sent.map_err(|_| ReaderGone)
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

    const TIME: Duration = Duration::from_millis(200);

    fn pieces(most: usize) -> (Pieces, mpsc::Receiver<Bytes>) {
        let (pieces, waiting) = mpsc::channel(most);
        (Pieces::new(pieces, TIME), waiting)
    }

    #[tokio::test]
    async fn a_long_message_is_sent_in_pieces() {
        let (mut pieces, mut waiting) = pieces(4);
        let long = SseMessage::named("text", "x".repeat(PIECE_BYTES * 2));
        pieces.send_all(std::slice::from_ref(&long)).await.unwrap();
        drop(pieces);
        let mut read = Vec::new();
        while let Some(piece) = waiting.recv().await {
            assert!(piece.len() <= PIECE_BYTES);
            read.extend_from_slice(&piece);
        }
        let mut expected = Vec::new();
        long.write(&mut expected);
        assert!(read == expected);
    }

    #[tokio::test]
    async fn a_reader_that_takes_nothing_is_cut_off() {
        let (mut pieces, mut waiting) = pieces(1);
        pieces.send("one".into()).await.unwrap();
        pieces.send("two".into()).await.unwrap_err();
        assert_eq!(waiting.recv().await.unwrap(), "one");
        let (mut pieces, waiting) = self::pieces(1);
        drop(waiting);
        pieces.send("one".into()).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_reader_that_always_takes_a_little_is_cut_off() {
        let (mut pieces, mut waiting) = pieces(4);
        let reader = tokio::spawn(async move {
            while waiting.recv().await.is_some() {
                tokio::time::sleep(TIME / 2).await;
            }
        });
        let mut sent = 0;
        while pieces.send("piece".into()).await.is_ok() {
            sent += 1;
        }
        assert!(sent < 10, "{sent}");
        drop(pieces);
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_pauses_and_then_takes_all_that_waits_is_not_cut_off() {
        let (mut pieces, mut waiting) = pieces(4);
        let reader = tokio::spawn(async move {
            let mut taken = 0;
            loop {
                tokio::time::sleep(TIME / 4).await;
                for _ in 0..5 {
                    match waiting.recv().await {
                        Some(_) => taken += 1,
                        None => return taken,
                    }
                }
            }
        });
        for _ in 0..50 {
            pieces.send("piece".into()).await.unwrap();
        }
        drop(pieces);
        assert_eq!(reader.await.unwrap(), 50);
    }
}
