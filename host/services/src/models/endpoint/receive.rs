//! Receives a response and returns the value of its reply, whether it is streamed or not. This is
//! determined from the first bytes, because not all endpoints send what was requested or declare
//! its type.

use std::mem;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use strata_core::record::json::JsonError;
use tokio::time::{Sleep, sleep};

use super::failure::AttemptFailure;
use super::key::KeyRedactor;
use super::retry::RetryDecision;
use super::{MAX_REPLY_BYTES, ModelEndpoint};
use crate::models::StreamObserver;
use crate::models::protocol::{Assembler, Nesting, ReplyContext, StreamProgress, read_reply};
use crate::models::reply_json::parse_reply;
use crate::models::surrogate::{parse_chunk, replace_marked_surrogates};
use crate::models::think_tags::AnswerFilter;
use crate::models::tokens::UsageWithoutReply;
use crate::sse::{SseEvent, SseParser};
use crate::text_response::TextResponse;

/// The data that ends a stream.
const DONE: &str = "[DONE]";
/// The name of an event whose data is an error.
const ERROR_EVENT: &str = "error";
/// The beginnings of the lines of a stream.
const LINE_BEGINNINGS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The number of bytes needed to distinguish the forms of a response.
const SNIFFED_BYTES: usize = 6;

impl ModelEndpoint {
    /// Reads a response to its end and returns the value of the reply. The text passed to the
    /// observer meanwhile contains neither the key nor the model's thinking.
    pub(super) async fn receive(
        &self,
        response: &mut TextResponse,
        context: ReplyContext<'_>,
        observer: &mut StreamObserver,
    ) -> Result<Value, AttemptFailure> {
        let mut beginning = Vec::new();
        let mut read = 0;
        while beginning.len() < SNIFFED_BYTES {
            let Some(chunk) = response
                .chunk()
                .await
                .map_err(|e| self.connection_failure(e))?
            else {
                break;
            };
            read += chunk.len();
            if read > MAX_REPLY_BYTES {
                return Err(too_large_failure());
            }
            beginning.extend_from_slice(&chunk);
            let blank = beginning
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            beginning.drain(..blank);
        }
        if begins_stream(&beginning, is_declared_stream(response)) {
            let reader = StreamReader::new(self, context, observer);
            self.receive_stream(response, beginning, reader).await
        } else {
            self.receive_unstreamed(response, beginning).await
        }
    }

    async fn receive_unstreamed(
        &self,
        response: &mut TextResponse,
        beginning: Vec<u8>,
    ) -> Result<Value, AttemptFailure> {
        let bytes = self
            .receive_rest(response, beginning, MAX_REPLY_BYTES)
            .await?;
        self.parse_unstreamed(&bytes)
    }

    /// Reads a response of at most `max_bytes`, after its `beginning`: to its end, or until its JSON
    /// document is complete and the connection breaks or stays open.
    pub(super) async fn receive_rest(
        &self,
        response: &mut TextResponse,
        beginning: Vec<u8>,
        max_bytes: usize,
    ) -> Result<Vec<u8>, AttemptFailure> {
        let mut bytes = beginning;
        let mut nesting = Nesting::default();
        nesting.follow(&bytes);
        let mut rest = Remainder::new(self.end_timeout);
        loop {
            match rest.next_chunk(response, nesting.is_complete()).await {
                Ok(Some(chunk)) => {
                    if bytes.len() + chunk.len() > max_bytes {
                        return Err(too_large_failure());
                    }
                    nesting.follow(&chunk);
                    bytes.extend_from_slice(&chunk);
                }
                Ok(None) => return Ok(bytes),
                Err(_) if nesting.is_complete() => return Ok(bytes),
                Err(error) => return Err(self.connection_failure(error)),
            }
        }
    }

    fn parse_unstreamed(&self, bytes: &[u8]) -> Result<Value, AttemptFailure> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(AttemptFailure::retryable(
                "the answer is empty",
                RetryDecision::Backoff,
            ));
        }
        parse_reply(&text).map_err(|error| self.unreadable_failure(&text, &error))
    }

    async fn receive_stream(
        &self,
        response: &mut TextResponse,
        beginning: Vec<u8>,
        mut reader: StreamReader<'_>,
    ) -> Result<Value, AttemptFailure> {
        let mut read = beginning.len();
        let mut has_ended = reader.feed(&beginning)?;
        let mut rest = Remainder::new(self.end_timeout);
        while !has_ended {
            match rest.next_chunk(response, reader.is_complete()).await {
                Ok(Some(chunk)) => {
                    read += chunk.len();
                    if read > MAX_REPLY_BYTES {
                        return Err(too_large_failure());
                    }
                    has_ended = reader.feed(&chunk)?;
                }
                Ok(None) => break,
                Err(error) => return reader.stop(self.connection_failure(error)),
            }
        }
        reader.finish()
    }

    /// Returns the failure for a chunk of a stream that is not JSON. The stream is broken, and
    /// handled like a broken connection.
    fn broken_chunk(&self, text: &str, error: &JsonError) -> AttemptFailure {
        let quoted = self.redactor().excerpt(text);
        let message = format!("the stream is {error}: `{quoted}`");
        match error {
            JsonError::TooDeep | JsonError::TooLarge => {
                AttemptFailure::beyond_limit(message).with_unknown_usage()
            }
            _ if begins_object(text) => {
                AttemptFailure::retryable(message, RetryDecision::Backoff).with_unknown_usage()
            }
            // It is no part of a reply. One that had begun before is charged nevertheless.
            _ => AttemptFailure::retryable(message, RetryDecision::Backoff),
        }
    }

    /// Returns the failure for a reply that is not JSON. One that was cut off may be complete after
    /// a retry, and was paid for.
    fn unreadable_failure(&self, text: &str, error: &JsonError) -> AttemptFailure {
        let quoted = self.redactor().excerpt(text);
        let message = format!("the answer is {error}: `{quoted}`");
        match error {
            JsonError::TooDeep | JsonError::TooLarge => {
                AttemptFailure::beyond_limit(message).with_unknown_usage()
            }
            _ if begins_object(text) => {
                AttemptFailure::retryable(message, RetryDecision::Backoff).with_unknown_usage()
            }
            _ => {
                AttemptFailure::retryable(message + "; is `base_url` right?", RetryDecision::Never)
            }
        }
    }
}

/// Reads the chunks of a response. Once the reply is complete, what may follow is waited for only so
/// long: some endpoints do not end their responses.
struct Remainder {
    timeout: Duration,
    /// Ends when reading stops, once the reply is complete.
    end: Option<Pin<Box<Sleep>>>,
}

impl Remainder {
    fn new(timeout: Duration) -> Self {
        Self { timeout, end: None }
    }

    /// Returns the next chunk, or `None` at the end. `is_complete` is whether the reply is complete.
    async fn next_chunk(
        &mut self,
        response: &mut TextResponse,
        is_complete: bool,
    ) -> Result<Option<Bytes>, reqwest::Error> {
        if is_complete && self.end.is_none() {
            self.end = Some(Box::pin(sleep(self.timeout)));
        }
        let Some(end) = &mut self.end else {
            return response.chunk().await;
        };
        tokio::select! {
            biased;
            next = response.chunk() => next,
            () = end.as_mut() => Ok(None),
        }
    }
}

/// Reads a stream into a reply.
struct StreamReader<'a> {
    remote: &'a ModelEndpoint,
    context: ReplyContext<'a>,
    events: SseParser,
    reply: Assembler,
    listener: RedactedObserver<'a>,
}

impl<'a> StreamReader<'a> {
    fn new(
        remote: &'a ModelEndpoint,
        context: ReplyContext<'a>,
        observer: &'a mut StreamObserver,
    ) -> Self {
        let listener = RedactedObserver::new(observer, remote.redactor());
        Self {
            remote,
            context,
            events: SseParser::default(),
            reply: Assembler::new(remote.protocol.builder()),
            listener,
        }
    }

    /// Adds bytes. Returns whether everything that follows is to be ignored.
    fn feed(&mut self, bytes: &[u8]) -> Result<bool, AttemptFailure> {
        for event in self.events.feed(bytes) {
            match self.handle_event(&event) {
                Ok(()) if self.reply.progress() < StreamProgress::Ended => {}
                Ok(()) => return Ok(true),
                // An error after a complete reply is no reason for a retry: the reply is paid for.
                Err(_) if self.is_complete() => return Ok(true),
                Err(failure) => return Err(self.with_usage(failure)),
            }
        }
        Ok(false)
    }

    /// Returns whether the reply is complete. Its usage may still follow.
    fn is_complete(&self) -> bool {
        self.reply.progress() >= StreamProgress::Complete
    }

    /// Ends the stream. Returns the reply in the form of an unstreamed one.
    fn finish(mut self) -> Result<Value, AttemptFailure> {
        if let Some(event) = self.events.end() {
            // The event may be cut off. Then the reply is not complete.
            let _ = self.handle_event(&event);
        }
        let failure = AttemptFailure::retryable(
            "the stream ended in the middle of the reply",
            RetryDecision::Backoff,
        );
        self.stop(failure.with_unknown_usage())
    }

    /// Stops reading. Returns the reply if it is complete, and the failure otherwise.
    fn stop(mut self, failure: AttemptFailure) -> Result<Value, AttemptFailure> {
        if !self.is_complete() {
            return Err(self.with_usage(failure));
        }
        if !self.reply.is_counted() {
            // The endpoint may report the usage of unstreamed replies.
            self.remote.disable_streaming();
        }
        Ok(self.reply.finish())
    }

    fn handle_event(&mut self, event: &SseEvent) -> Result<(), AttemptFailure> {
        let data = event.data.trim();
        if data == DONE {
            self.reply.end();
        } else if event.name == ERROR_EVENT {
            let mut stated = parse_chunk(data).unwrap_or_else(|_| Value::from(data));
            replace_marked_surrogates(&mut stated);
            let error = stated.get_mut("error").map(Value::take);
            self.reply.fail(error.unwrap_or(stated));
        } else if !data.is_empty() {
            let piece =
                parse_chunk(data).map_err(|error| self.remote.broken_chunk(data, &error))?;
            self.listener.text(&self.reply.push(piece));
        }
        Ok(())
    }

    /// Returns the failure with the usage of the incomplete reply.
    fn with_usage(&mut self, failure: AttemptFailure) -> AttemptFailure {
        let has_begun = self.reply.progress() > StreamProgress::Empty;
        let protocol = &*self.remote.protocol;
        let reply = mem::replace(&mut self.reply, Assembler::new(protocol.builder())).finish();
        let usage = match read_reply(protocol, &reply, self.context) {
            Ok(parsed) if parsed.usage.is_known() => {
                UsageWithoutReply::Tokens(parsed.usage.or_estimate(Default::default()))
            }
            Err(unusable) if unusable.usage != UsageWithoutReply::Nothing => unusable.usage,
            _ if has_begun => UsageWithoutReply::Unknown,
            _ => failure.usage,
        };
        AttemptFailure { usage, ..failure }
    }
}

fn is_declared_stream(response: &TextResponse) -> bool {
    let kind = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("text/event-stream")
    })
}

fn begins_stream(beginning: &[u8], declared: bool) -> bool {
    let beginning = beginning
        .strip_prefix("\u{feff}".as_bytes())
        .unwrap_or(beginning);
    match beginning.first() {
        Some(b'{' | b'[') => false,
        Some(_) if declared => true,
        _ => LINE_BEGINNINGS
            .iter()
            .any(|field| beginning.starts_with(field)),
    }
}

/// Returns whether a text that is not JSON may be the beginning of a reply.
fn begins_object(text: &str) -> bool {
    text.trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('{')
}

fn too_large_failure() -> AttemptFailure {
    AttemptFailure::beyond_limit(format!(
        "the reply is larger than {} MiB",
        MAX_REPLY_BYTES >> 20
    ))
    .with_unknown_usage()
}

/// Passes the text of a reply to the observer, without the model's thinking and without the key.
/// Text that may be the beginning of a key is withheld until more arrives.
struct RedactedObserver<'a> {
    observer: &'a mut StreamObserver,
    redactor: KeyRedactor<'a>,
    filter: AnswerFilter,
    withheld: String,
}

impl<'a> RedactedObserver<'a> {
    fn new(observer: &'a mut StreamObserver, redactor: KeyRedactor<'a>) -> Self {
        Self {
            observer,
            redactor,
            filter: AnswerFilter::default(),
            withheld: String::new(),
        }
    }

    fn text(&mut self, text: &str) {
        self.withheld += &self.filter.feed(text);
        let clear = self.redactor.take_redacted_prefix(&mut self.withheld);
        self.observer.text(&clear);
    }
}

impl Drop for RedactedObserver<'_> {
    fn drop(&mut self) {
        let rest = self.redactor.text(mem::take(&mut self.withheld));
        self.observer.text(&rest);
    }
}

/// Reads the text of a response, in pieces as they arrive.
#[cfg(test)]
pub(super) fn read_pieces(
    remote: &ModelEndpoint,
    context: ReplyContext<'_>,
    pieces: &[Bytes],
) -> Result<Value, AttemptFailure> {
    let bytes = pieces.concat();
    if !begins_stream(&bytes, false) {
        return remote.parse_unstreamed(&bytes);
    }
    let mut observer = StreamObserver::default();
    let mut reader = StreamReader::new(remote, context, &mut observer);
    for piece in pieces {
        if reader.feed(piece)? {
            break;
        }
    }
    reader.finish()
}
