//! Receives a response and returns the value of its reply, whether it is streamed or not. This is
//! determined from the first bytes, because not all endpoints send what was requested or declare
//! its type.

use std::mem;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use strata_core::json::{self, JsonError};

use super::super::openai::Assembler;
use super::super::protocol::Progress;
use super::super::surrogate::{read_piece, replace_halves};
use super::super::thinking::AnswerFilter;
use super::super::tokens::{Tokens, Used};
use super::key::Hush;
use super::retry::Retry;
use super::sse::{Event, Events};
use super::{Failure, REPLY_BYTES, Remote};
use crate::services::llm::Hearing;

/// The data that ends a stream.
const DONE: &str = "[DONE]";
/// The name of an event whose data is an error.
const ERROR_EVENT: &str = "error";
/// The beginnings of the lines of a stream.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The number of bytes needed to distinguish the forms of a response.
const SNIFFED_BYTES: usize = 6;

impl Remote {
    /// Reads a response to its end and returns the value of the reply. The text passed to the
    /// observer meanwhile contains neither the key nor the model's thinking.
    pub(super) async fn receive(
        &self,
        response: &mut Response,
        hearing: &mut Hearing,
    ) -> Result<Value, Failure> {
        let mut beginning = Vec::new();
        let mut read = 0;
        while beginning.len() < SNIFFED_BYTES {
            let Some(chunk) = response.chunk().await.map_err(|e| self.broken(e))? else {
                break;
            };
            read += chunk.len();
            if read > REPLY_BYTES {
                return Err(too_large());
            }
            beginning.extend_from_slice(&chunk);
            let blank = beginning
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
            beginning.drain(..blank);
        }
        if begins_stream(&beginning, is_declared_stream(response)) {
            self.receive_stream(response, beginning, hearing).await
        } else {
            self.receive_whole(response, beginning).await
        }
    }

    async fn receive_whole(
        &self,
        response: &mut Response,
        beginning: Vec<u8>,
    ) -> Result<Value, Failure> {
        let mut bytes = beginning;
        while let Some(chunk) = response.chunk().await.map_err(|e| self.broken(e))? {
            if bytes.len() + chunk.len() > REPLY_BYTES {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        self.read_whole(&bytes)
    }

    fn read_whole(&self, bytes: &[u8]) -> Result<Value, Failure> {
        let text = String::from_utf8_lossy(bytes);
        if text.trim().is_empty() {
            return Err(Failure::passing("the answer is empty", Retry::Backoff));
        }
        json::read(&text).map_err(|error| self.unreadable(&text, &error))
    }

    async fn receive_stream(
        &self,
        response: &mut Response,
        beginning: Vec<u8>,
        hearing: &mut Hearing,
    ) -> Result<Value, Failure> {
        let mut reader = StreamReader::new(self, hearing);
        let mut read = beginning.len();
        let mut has_ended = reader.feed(&beginning)?;
        while !has_ended {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    read += chunk.len();
                    if read > REPLY_BYTES {
                        return Err(too_large());
                    }
                    has_ended = reader.feed(&chunk)?;
                }
                Ok(None) => break,
                Err(error) => return reader.break_off(self.broken(error)),
            }
        }
        reader.finish()
    }

    /// Returns the failure for a chunk of a stream that is not JSON. The stream is broken, and
    /// handled like a broken connection.
    fn broken_chunk(&self, text: &str, error: &JsonError) -> Failure {
        let quoted = self.hush().excerpt(text);
        let message = format!("the stream is {error}: `{quoted}`");
        match error {
            JsonError::Deep | JsonError::Large => Failure::lasting(message).charged(),
            _ if begins_object(text) => Failure::passing(message, Retry::Backoff).charged(),
            // It is no part of a reply. One that had begun before is charged nevertheless.
            _ => Failure::passing(message, Retry::Backoff),
        }
    }

    /// Returns the failure for a reply that is not JSON. One that was cut off may be complete after
    /// a retry, and was paid for.
    fn unreadable(&self, text: &str, error: &JsonError) -> Failure {
        let quoted = self.hush().excerpt(text);
        let message = format!("the answer is {error}: `{quoted}`");
        match error {
            JsonError::Deep | JsonError::Large => Failure::lasting(message).charged(),
            _ if begins_object(text) => Failure::passing(message, Retry::Backoff).charged(),
            _ => Failure::lasting(message + "; is `base_url` right?"),
        }
    }
}

/// Reads a stream into a reply.
struct StreamReader<'a> {
    remote: &'a Remote,
    events: Events,
    reply: Assembler,
    listener: Listener<'a>,
}

impl<'a> StreamReader<'a> {
    fn new(remote: &'a Remote, hearing: &'a mut Hearing) -> Self {
        let listener = Listener::new(hearing, remote.hush());
        Self {
            remote,
            events: Events::default(),
            reply: remote.protocol.assembler(),
            listener,
        }
    }

    /// Adds bytes. Returns whether everything that follows is to be ignored.
    fn feed(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        for event in self.events.feed(bytes) {
            match self.take(&event) {
                Ok(()) if self.reply.progress() < Progress::Ended => {}
                Ok(()) => return Ok(true),
                // An error after a complete reply is no reason for a retry: the reply is paid for.
                Err(_) if self.reply.progress() >= Progress::Complete => return Ok(true),
                Err(failure) => return Err(self.charge(failure)),
            }
        }
        Ok(false)
    }

    /// Ends the stream. Returns the reply in the form of an unstreamed one.
    fn finish(mut self) -> Result<Value, Failure> {
        if let Some(event) = self.events.end() {
            // The event may be cut off. Then the reply is not complete.
            let _ = self.take(&event);
        }
        let failure = Failure::passing(
            "the stream ended in the middle of the reply",
            Retry::Backoff,
        );
        self.break_off(failure.charged())
    }

    /// Stops reading. Returns the reply if it is complete, and the failure otherwise.
    fn break_off(mut self, failure: Failure) -> Result<Value, Failure> {
        if self.reply.progress() < Progress::Complete {
            return Err(self.charge(failure));
        }
        if !self.reply.is_counted() {
            // The endpoint may report the usage of unstreamed replies.
            self.remote.stop_streaming();
        }
        Ok(self.reply.finish())
    }

    fn take(&mut self, event: &Event) -> Result<(), Failure> {
        let data = event.data.trim();
        if data == DONE {
            self.reply.end();
        } else if event.name == ERROR_EVENT {
            let mut stated = read_piece(data).unwrap_or_else(|_| Value::from(data));
            replace_halves(&mut stated);
            let error = stated.get_mut("error").map(Value::take);
            self.reply.fail(error.unwrap_or(stated));
        } else if !data.is_empty() {
            let piece = read_piece(data).map_err(|error| self.remote.broken_chunk(data, &error))?;
            self.listener.text(&self.reply.take(piece));
        }
        Ok(())
    }

    /// Returns the failure with the usage of the incomplete reply.
    fn charge(&mut self, failure: Failure) -> Failure {
        let begun = self.reply.progress() > Progress::Empty;
        let used = match self
            .remote
            .protocol
            .interpret(&mem::take(&mut self.reply).finish())
        {
            Ok(answer) if answer.usage.is_known() => {
                Used::Tokens(answer.usage.tokens(Tokens::default()))
            }
            Err(unusable) if unusable.used != Used::Nothing => unusable.used,
            _ if begun => Used::Unknown,
            _ => failure.used,
        };
        Failure { used, ..failure }
    }
}

fn is_declared_stream(response: &Response) -> bool {
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
        _ => FIELDS.iter().any(|field| beginning.starts_with(field)),
    }
}

/// Returns whether a text that is not JSON may be the beginning of a reply.
fn begins_object(text: &str) -> bool {
    text.trim_start_matches('\u{feff}')
        .trim_start()
        .starts_with('{')
}

fn too_large() -> Failure {
    Failure::lasting(format!(
        "the reply is larger than {} MiB",
        REPLY_BYTES >> 20
    ))
    .charged()
}

/// Passes the text of a reply to the observer, without the model's thinking and without the key.
/// Text that may be the beginning of a key is withheld until more arrives.
struct Listener<'a> {
    hearing: &'a mut Hearing,
    hush: Hush<'a>,
    filter: AnswerFilter,
    held: String,
}

impl<'a> Listener<'a> {
    fn new(hearing: &'a mut Hearing, hush: Hush<'a>) -> Self {
        Self {
            hearing,
            hush,
            filter: AnswerFilter::default(),
            held: String::new(),
        }
    }

    fn text(&mut self, text: &str) {
        self.held += &self.filter.feed(text);
        let clear = self.hush.begun(&mut self.held);
        self.hearing.text(&clear);
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let rest = self.hush.text(mem::take(&mut self.held));
        self.hearing.text(&rest);
    }
}

/// Reads a response in chunks of `size` bytes.
#[cfg(test)]
pub(super) fn read_bytes(remote: &Remote, bytes: &[u8], size: usize) -> Result<Value, Failure> {
    if !begins_stream(bytes, false) {
        return remote.read_whole(bytes);
    }
    let mut hearing = Hearing::default();
    let mut reader = StreamReader::new(remote, &mut hearing);
    for piece in bytes.chunks(size) {
        if reader.feed(piece)? {
            break;
        }
    }
    reader.finish()
}
