//! Builds a reply from the events of a stream. The last event contains the whole reply; the items
//! that were complete before are used if it does not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::models::protocol::parsed_reply::{items_of, take_field, text_of};
use crate::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The events that have arrived.
#[derive(Default)]
pub(super) struct ResponseBuilder {
    /// The reply as far as the newest event that contains it shows it.
    response: Value,
    /// The complete items, by their position.
    items: BTreeMap<u64, Value>,
    /// The text that has been passed on.
    text: JoinedText,
    /// Whether a part of that text is a refusal.
    is_refusal: bool,
    progress: StreamProgress,
}

impl ReplyBuilder for ResponseBuilder {
    fn push(&mut self, mut event: Value) -> String {
        let place = event["output_index"].as_u64();
        match text_of(&event["type"]) {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.response = take_field(&mut event, "response");
                self.begin();
            }
            "response.output_item.done" => {
                self.begin();
                let mut item = take_field(&mut event, "item");
                replace_marked_surrogates(&mut item);
                let place = place.unwrap_or_else(|| self.place_of(&item));
                self.items.insert(place, item);
            }
            name @ ("response.output_text.delta" | "response.refusal.delta") => {
                self.begin();
                self.is_refusal |= name == "response.refusal.delta";
                return self.text.push(text_of(&event["delta"]));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response = take_field(&mut event, "response");
                replace_marked_surrogates(&mut self.response);
                self.progress = StreamProgress::Ended;
            }
            name if name.starts_with("response.") => self.begin(),
            _ => {}
        }
        String::new()
    }

    fn progress(&self) -> StreamProgress {
        self.progress
    }

    fn has_output(&self) -> bool {
        !self.text.is_empty() || !self.items.is_empty()
    }

    fn is_counted(&self) -> bool {
        self.response["usage"].is_object()
    }

    fn finish(self: Box<Self>) -> Value {
        let mut reply = self.response;
        if !reply.is_object() {
            reply = json!({});
        }
        if items_of(&reply["output"]).is_empty() {
            let mut items: Vec<Value> = self.items.into_values().collect();
            let text = self.text.finish();
            if items.is_empty() && !text.is_empty() {
                let part = if self.is_refusal {
                    json!({ "type": "refusal", "refusal": text })
                } else {
                    json!({ "type": "output_text", "text": text })
                };
                items.push(json!({ "type": "message", "content": [part] }));
            }
            if !items.is_empty() {
                reply["output"] = items.into();
            }
        }
        reply
    }
}

impl ResponseBuilder {
    /// Returns the position of an item that comes without one: that of the same item, or the next.
    fn place_of(&self, item: &Value) -> u64 {
        let is_same = |known: &Value| known["id"].is_string() && known["id"] == item["id"];
        let same = self.items.iter().find(|(_, known)| is_same(known));
        let last = self.items.last_key_value();
        same.map(|(place, _)| *place)
            .or_else(|| last.map(|(place, _)| place.saturating_add(1)))
            .unwrap_or_default()
    }

    fn begin(&mut self) {
        self.progress = self.progress.max(StreamProgress::Open);
    }
}
