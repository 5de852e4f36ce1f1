//! Assembles a streamed reply from its chunks into the value that would have come in one piece. What
//! the chunks of a protocol contain is known to its builder.

use serde_json::Value;

use super::parsed_reply::{reply_id, stated_error};
use crate::models::surrogate::replace_marked_surrogates;

/// Builds a reply from chunks. There is one for each protocol.
pub(in super::super) trait ReplyBuilder: Send {
    /// Adds a chunk and returns the text that it adds to the reply.
    fn push(&mut self, chunk: Value) -> String;

    /// Returns how far the reply has come: never `Ended`, which the assembler decides, unless the
    /// protocol has a chunk after which nothing follows.
    fn progress(&self) -> StreamProgress;

    /// Returns whether the chunks contain text or tool calls.
    fn has_output(&self) -> bool;

    /// Returns whether the endpoint has said how many tokens were used.
    fn is_counted(&self) -> bool;

    /// Returns the reply that would have come in one piece.
    fn finish(self: Box<Self>) -> Value;
}

/// The progress of a streamed reply. The order of the variants is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum StreamProgress {
    /// No part of it has arrived.
    #[default]
    Empty,
    /// It is being written.
    Open,
    /// It has a finish reason or an error; the usage may still follow.
    Complete,
    /// The stream has ended or reported an error; what follows is ignored.
    Ended,
}

/// The chunks of a reply that have arrived.
pub(in super::super) struct Assembler {
    builder: Box<dyn ReplyBuilder>,
    /// The provider's id of the reply, as the first chunk has it that names one.
    id: Option<String>,
    error: Value,
    ended: bool,
}

impl Assembler {
    pub(in super::super) fn new(builder: Box<dyn ReplyBuilder>) -> Self {
        Self {
            builder,
            id: None,
            error: Value::Null,
            ended: false,
        }
    }

    /// Adds a chunk and returns the text that it adds to the reply.
    pub(in super::super) fn push(&mut self, chunk: Value) -> String {
        if let Some(error) = stated_error(&chunk) {
            let mut error = error.clone();
            replace_marked_surrogates(&mut error);
            self.fail(error);
            return String::new();
        }
        if self.id.is_none() {
            self.id = reply_id(&chunk).map(str::to_owned);
        }
        self.builder.push(chunk)
    }

    /// Notes that the endpoint reported an error. An error after a complete reply is ignored,
    /// because that reply is paid for.
    pub(in super::super) fn fail(&mut self, error: Value) {
        if self.progress() < StreamProgress::Complete || !self.builder.has_output() {
            self.error = error;
        }
        self.ended = true;
    }

    /// Notes that the stream has ended.
    pub(in super::super) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns how far the reply has come.
    pub(in super::super) fn progress(&self) -> StreamProgress {
        if self.ended {
            StreamProgress::Ended
        } else {
            self.builder.progress()
        }
    }

    /// Returns whether the endpoint has said how many tokens were used.
    pub(in super::super) fn is_counted(&self) -> bool {
        self.builder.is_counted()
    }

    /// Returns the reply that would have come in one piece, with the error if there was one.
    pub(in super::super) fn finish(self) -> Value {
        let mut reply = self.builder.finish();
        if let Some(id) = self.id.filter(|_| reply_id(&reply).is_none()) {
            reply["id"] = id.into();
        }
        if !self.error.is_null() {
            reply["error"] = self.error;
        }
        reply
    }
}
