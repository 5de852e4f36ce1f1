//! Builds a reply from the events of a stream.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use strata_core::record::json::Json;

use crate::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::models::protocol::parsed_reply::{take_field, text_of};
use crate::models::protocol::usage::UsageReports;
use crate::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The events that have arrived.
#[derive(Default)]
pub(super) struct MessageBuilder {
    /// The fields of the message other than its content and usage.
    message: Map<String, Value>,
    usage: UsageReports,
    /// Whether the output tokens were reported after the beginning of the message.
    has_output_count: bool,
    /// In the order in which they began.
    blocks: Vec<StreamedBlock>,
    /// The positions of the last blocks with these indices.
    by_index: BTreeMap<u64, usize>,
    /// The index of the block that an event without one continues.
    newest: u64,
    progress: StreamProgress,
}

/// A block of the message.
#[derive(Default)]
struct StreamedBlock {
    index: u64,
    /// Whether it came with the beginning of the message, which may announce blocks that follow.
    is_announced: bool,
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
                    .by_index
                    .last_key_value()
                    .map_or(0, |(last, _)| last.saturating_add(1));
                self.newest = event["index"].as_u64().unwrap_or(next);
                let start = take_field(&mut event, "content_block");
                return self.begin_block(self.newest, start);
            }
            "content_block_delta" => {
                self.begin();
                let index = event["index"].as_u64().unwrap_or(self.newest);
                let delta = take_field(&mut event, "delta");
                return self.block(index).push(delta);
            }
            "message_delta" => {
                self.begin();
                let usage = take_field(&mut event, "usage");
                self.has_output_count |= !usage["output_tokens"].is_null();
                self.usage.add(usage);
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
        self.blocks.iter().any(wrote)
    }

    fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    fn finish(self: Box<Self>) -> Value {
        let mut reply = Value::Object(self.message);
        reply["usage"] = self.usage.finish();
        // At its beginning, a message that follows in blocks has hardly any output to count.
        let is_announced = self.blocks.iter().any(|block| block.is_announced);
        if let Value::Object(usage) = &mut reply["usage"]
            && !self.has_output_count
            && !is_announced
        {
            usage.remove("output_tokens");
        }
        // A stream that ended before anything was written has no message.
        if self.progress > StreamProgress::Empty {
            let mut blocks = self.blocks;
            blocks.sort_by_key(|block| block.index);
            reply["content"] = blocks.into_iter().map(StreamedBlock::finish).collect();
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
        self.usage.add(take_field(&mut message, "usage"));
        // Some endpoints that speak the protocol send the whole message here.
        if let Value::Array(content) = take_field(&mut message, "content") {
            for (start, index) in content.into_iter().zip(0..) {
                let block = self.block(index);
                block.begin(start);
                block.is_announced = true;
            }
        }
        if let Value::Object(fields) = message {
            self.add_fields(fields);
        }
    }

    /// Returns the last block with an index, after beginning one if there is none.
    fn block(&mut self, index: u64) -> &mut StreamedBlock {
        let next = self.blocks.len();
        let place = *self.by_index.entry(index).or_insert(next);
        if place == next {
            self.blocks.push(StreamedBlock {
                index,
                ..StreamedBlock::default()
            });
        }
        &mut self.blocks[place]
    }

    /// Begins a block and returns the text that it adds to the reply. Some endpoints give all blocks
    /// the same index, or begin a block twice.
    fn begin_block(&mut self, index: u64, start: Value) -> String {
        if let Some(place) = self.by_index.get(&index).copied() {
            let known = &mut self.blocks[place];
            if known.start["id"].is_string() && known.start["id"] == start["id"] {
                return String::new();
            }
            if known.is_announced {
                *known = StreamedBlock {
                    index,
                    ..StreamedBlock::default()
                };
            } else {
                self.by_index.remove(&index);
            }
        }
        self.block(index).begin(start)
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
    let Ok(document) = Json::parse(&text) else {
        return text.into();
    };
    let value = document.value();
    if Json::from(value.clone()) == document {
        return value;
    }
    // It contains integers that a value would round.
    document.as_str().into()
}
