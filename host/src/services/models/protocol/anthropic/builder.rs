//! Builds a reply from the events of a stream.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::services::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::services::models::protocol::reply::{take_field, text_of};
use crate::services::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The events that have arrived.
#[derive(Default)]
pub(super) struct MessageBuilder {
    /// The fields of the message other than its content and usage.
    message: Map<String, Value>,
    usage: Map<String, Value>,
    blocks: BTreeMap<u64, StreamedBlock>,
    /// The block that an event without an index continues.
    newest: u64,
    progress: StreamProgress,
}

/// A block of the message.
#[derive(Default)]
struct StreamedBlock {
    /// The fields with which it began.
    start: Value,
    text: JoinedText,
    thinking: JoinedText,
    signature: JoinedText,
    input: JoinedText,
}

impl ReplyBuilder for MessageBuilder {
    fn push(&mut self, mut event: Value) -> String {
        match text_of(&event["type"]) {
            "message_start" => self.start(take_field(&mut event, "message")),
            "content_block_start" => {
                self.begin();
                let next = self
                    .blocks
                    .last_key_value()
                    .map_or(0, |(last, _)| last.saturating_add(1));
                self.newest = event["index"].as_u64().unwrap_or(next);
                let start = take_field(&mut event, "content_block");
                return self.blocks.entry(self.newest).or_default().begin(start);
            }
            "content_block_delta" => {
                self.begin();
                let index = event["index"].as_u64().unwrap_or(self.newest);
                let delta = take_field(&mut event, "delta");
                return self.blocks.entry(index).or_default().push(delta);
            }
            "message_delta" => {
                self.begin();
                self.add_usage(take_field(&mut event, "usage"));
                if let Value::Object(delta) = take_field(&mut event, "delta") {
                    self.add_fields(delta);
                }
            }
            "message_stop" => self.progress = StreamProgress::Ended,
            _ => {}
        }
        if self.progress == StreamProgress::Open && self.message.contains_key("stop_reason") {
            self.progress = StreamProgress::Complete;
        }
        String::new()
    }

    fn progress(&self) -> StreamProgress {
        self.progress
    }

    fn has_output(&self) -> bool {
        let wrote = |block: &StreamedBlock| {
            !block.text.is_empty() || !block.input.is_empty() || block.start["type"] == "tool_use"
        };
        self.blocks.values().any(wrote)
    }

    fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    fn finish(self: Box<Self>) -> Value {
        let mut reply = Value::Object(self.message);
        // A stream that ended before anything was written has no message.
        if self.progress > StreamProgress::Empty {
            reply["content"] = self
                .blocks
                .into_values()
                .map(StreamedBlock::finish)
                .collect();
        }
        if !self.usage.is_empty() {
            reply["usage"] = self.usage.into();
        }
        reply
    }
}

impl MessageBuilder {
    fn begin(&mut self) {
        self.progress = self.progress.max(StreamProgress::Open);
    }

    fn start(&mut self, mut message: Value) {
        self.begin();
        self.add_usage(take_field(&mut message, "usage"));
        // Some endpoints that speak the protocol send the whole message here.
        if let Value::Array(content) = take_field(&mut message, "content") {
            for (start, index) in content.into_iter().zip(0..) {
                self.blocks.entry(index).or_default().begin(start);
            }
        }
        if let Value::Object(fields) = message {
            self.add_fields(fields);
        }
    }

    /// Adds a report of token usage. Each count is that of the whole reply so far.
    fn add_usage(&mut self, usage: Value) {
        let Value::Object(usage) = usage else { return };
        self.usage
            .extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
    }

    fn add_fields(&mut self, fields: Map<String, Value>) {
        for (name, mut value) in fields {
            if !value.is_null() && name != "content" {
                replace_marked_surrogates(&mut value);
                self.message.insert(name, value);
            }
        }
    }
}

impl StreamedBlock {
    /// Begins with the first fields of the block. Returns the text that they add to the reply.
    fn begin(&mut self, mut start: Value) -> String {
        // A character may be split between these texts and the deltas that continue them.
        self.thinking.push(text_of(&start["thinking"]));
        self.signature.push(text_of(&start["signature"]));
        let added = self.text.push(text_of(&start["text"]));
        replace_marked_surrogates(&mut start);
        self.start = start;
        added
    }

    /// Adds a delta and returns the text that it adds to the reply.
    fn push(&mut self, delta: Value) -> String {
        match text_of(&delta["type"]) {
            "thinking_delta" => self.thinking.push(text_of(&delta["thinking"])),
            "signature_delta" => self.signature.push(text_of(&delta["signature"])),
            "input_json_delta" => self.input.push(text_of(&delta["partial_json"])),
            _ => return self.text.push(text_of(&delta["text"])),
        };
        String::new()
    }

    fn finish(self) -> Value {
        let mut block = self.start;
        if !block.is_object() {
            block = json!({ "type": "text" });
        }
        let texts = [
            ("thinking", self.thinking),
            ("signature", self.signature),
            ("text", self.text),
        ];
        for (name, text) in texts {
            if !text.is_empty() {
                block[name] = text.finish().into();
            }
        }
        if !self.input.is_empty() {
            block["input"] = parse_input(self.input.finish());
        }
        block
    }
}

/// Returns the arguments of a tool call as they would have come in one piece, or as text if they are
/// not JSON.
fn parse_input(text: String) -> Value {
    strata_core::record::json::parse_untrusted(&text).unwrap_or_else(|_| text.into())
}
