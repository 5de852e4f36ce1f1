//! A response over HTTP that is a stream of events, each of which is a message.

use std::collections::VecDeque;

use super::exchange::{LostAnswer, MAX_MESSAGE_BYTES};
use crate::sse::{SseEvent, SseParser};

/// A response that is a stream of events.
pub(super) struct EventStream {
    response: reqwest::Response,
    parser: SseParser,
    /// Events that are complete.
    ready: VecDeque<SseEvent>,
    /// How many bytes have arrived since an event was complete.
    bytes: usize,
}

impl EventStream {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self {
            response,
            parser: SseParser::default(),
            ready: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Returns the data of the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<String>, LostAnswer> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event.data));
            }
            let Some(chunk) = self.response.chunk().await.map_err(LostAnswer::broken)? else {
                return Ok(self.parser.end().map(|event| event.data));
            };
            self.ready.extend(self.parser.feed(&chunk));
            self.bytes = if self.ready.is_empty() {
                self.bytes + chunk.len()
            } else {
                0
            };
            if self.bytes > MAX_MESSAGE_BYTES {
                return Err(LostAnswer::too_large());
            }
        }
    }
}
