//! Builds a reply from the chunks of a stream, each of which has the form of a whole reply.

use serde_json::{Value, json};

use super::first_candidate;
use super::parts::PartList;
use crate::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::models::protocol::parsed_reply::{items_of, take_field};
use crate::models::protocol::usage::UsageReports;
use crate::models::surrogate::replace_marked_surrogates;

/// The chunks that have arrived.
#[derive(Default)]
pub(super) struct ContentBuilder {
    model: Value,
    usage: UsageReports,
    feedback: Value,
    parts: PartList,
    finish_reason: Value,
    has_candidate: bool,
}

impl ReplyBuilder for ContentBuilder {
    fn push(&mut self, mut chunk: Value) -> String {
        if chunk["modelVersion"].is_string() {
            self.model = take_field(&mut chunk, "modelVersion");
            replace_marked_surrogates(&mut self.model);
        }
        self.usage.add(take_field(&mut chunk, "usageMetadata"));
        if chunk["promptFeedback"].is_object() {
            self.feedback = take_field(&mut chunk, "promptFeedback");
        }
        let candidate = first_candidate(&chunk);
        if !candidate.is_object() {
            return String::new();
        }
        self.has_candidate = true;
        if candidate["finishReason"].is_string() {
            self.finish_reason = candidate["finishReason"].clone();
        }
        items_of(&candidate["content"]["parts"])
            .iter()
            .map(|part| self.parts.push(part))
            .collect()
    }

    fn progress(&self) -> StreamProgress {
        let is_blocked = self.feedback["blockReason"].is_string();
        match (self.has_candidate, &self.finish_reason) {
            _ if is_blocked => StreamProgress::Complete,
            (false, _) => StreamProgress::Empty,
            (true, Value::Null) => StreamProgress::Open,
            (true, _) => StreamProgress::Complete,
        }
    }

    fn has_output(&self) -> bool {
        self.parts.has_output()
    }

    fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    fn finish(self: Box<Self>) -> Value {
        let mut reply = json!({
            "modelVersion": self.model,
            "promptFeedback": self.feedback,
            "usageMetadata": self.usage.finish(),
        });
        if self.has_candidate {
            let parts = self.parts.finish();
            reply["candidates"] = json!([{
                "content": { "role": "model", "parts": parts },
                "finishReason": self.finish_reason,
            }]);
        }
        reply
    }
}
