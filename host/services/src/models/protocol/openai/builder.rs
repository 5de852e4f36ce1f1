//! Builds a reply from the chunks of a stream.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::tool_calls::ToolCallBuilder;
use super::{EXTRA_CONTENT, content_text, index_of, message_of, reasoning_text, refusal_text};
use crate::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::models::protocol::parsed_reply::{items_of, stated_error, take_field};
use crate::models::protocol::usage::UsageReports;
use crate::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The chunks of a reply that have arrived.
#[derive(Default)]
pub(super) struct CompletionBuilder {
    model: Value,
    usage: UsageReports,
    choices: BTreeMap<u64, Choice>,
}

/// The chunks of a choice.
#[derive(Default)]
struct Choice {
    content: JoinedText,
    refusal: JoinedText,
    reasoning: JoinedText,
    details: ReasoningDetails,
    /// Whether the endpoint calls its reasoning `reasoning_content`.
    returns_reasoning: bool,
    calls: ToolCallBuilder,
    /// The call in its deprecated form. Some endpoints send each call in both.
    legacy_call: ToolCallBuilder,
    /// What the endpoint expects back with the message. The last chunk that has it counts.
    extra: Value,
    finish_reason: Value,
    /// Whether a chunk had an empty finish reason. It becomes the finish reason of the choice if no
    /// other follows.
    has_empty_reason: bool,
    error: Value,
    /// Whether a chunk contained a delta. A message that follows is then the complete reply.
    has_deltas: bool,
}

impl ReplyBuilder for CompletionBuilder {
    fn push(&mut self, mut chunk: Value) -> String {
        if chunk["model"].is_string() {
            self.model = take_field(&mut chunk, "model");
            replace_marked_surrogates(&mut self.model);
        }
        self.usage.add(take_field(&mut chunk, "usage"));
        let Value::Array(choices) = take_field(&mut chunk, "choices") else {
            return String::new();
        };
        let mut text = String::new();
        for (mut choice, place) in choices.into_iter().zip(0..) {
            self.usage.add(take_field(&mut choice, "usage"));
            let index = index_of(&choice, place);
            let is_first = self
                .choices
                .first_key_value()
                .is_none_or(|(first, _)| index <= *first);
            let added = self.choices.entry(index).or_default().take(choice);
            if is_first {
                text += &added;
            }
        }
        text
    }

    fn progress(&self) -> StreamProgress {
        match self.choices.first_key_value() {
            None => StreamProgress::Empty,
            Some((_, choice)) if choice.finish_reason.is_null() && choice.error.is_null() => {
                StreamProgress::Open
            }
            Some(_) => StreamProgress::Complete,
        }
    }

    fn has_output(&self) -> bool {
        !self
            .choices
            .values()
            .all(|choice| choice.content.is_empty() && choice.calls.is_empty())
    }

    fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    fn finish(self: Box<Self>) -> Value {
        let choices: Vec<Value> = self
            .choices
            .into_iter()
            .map(|(index, choice)| choice.finish(index))
            .collect();
        json!({ "model": self.model, "choices": choices, "usage": self.usage.finish() })
    }
}

impl Choice {
    fn take(&mut self, mut piece: Value) -> String {
        let is_message = piece["delta"]
            .as_object()
            .is_none_or(|delta| delta.is_empty())
            && piece["message"].is_object();
        if is_message && self.has_deltas {
            self.discard_repeated(&piece["message"]);
        }
        let message = message_of(&piece);
        self.has_deltas |= !is_message && message.is_object();
        let text = content_text(&message["content"]);
        let text = text
            .strip_prefix(self.repeated_text(is_message))
            .unwrap_or(&text);
        let added = self.content.push(text);
        self.refusal.push(&refusal_text(message));
        self.reasoning.push(&reasoning_text(message));
        self.returns_reasoning |= message["reasoning_content"].is_string();
        self.details.push(&message["reasoning_details"]);
        self.calls.push(&message["tool_calls"]);
        if message[EXTRA_CONTENT].is_object() {
            self.extra = message[EXTRA_CONTENT].clone();
            replace_marked_surrogates(&mut self.extra);
        }
        if message["function_call"].is_object() {
            self.legacy_call
                .push(&json!([{ "index": 0, "function": message["function_call"] }]));
        }
        if let Some(error) = stated_error(&piece) {
            self.error = error.clone();
            replace_marked_surrogates(&mut self.error);
        }
        // After an empty finish reason, the reply continues.
        match &piece["finish_reason"] {
            Value::String(reason) if reason.is_empty() => self.has_empty_reason = true,
            Value::String(_) => self.finish_reason = take_field(&mut piece, "finish_reason"),
            _ => {}
        }
        added
    }

    /// Returns the text that a complete message repeats.
    fn repeated_text(&self, is_message: bool) -> &str {
        if is_message && self.has_deltas {
            self.content.as_str()
        } else {
            ""
        }
    }

    /// Discards what a complete message repeats that follows its own deltas.
    fn discard_repeated(&mut self, message: &Value) {
        if !refusal_text(message).is_empty() {
            self.refusal = JoinedText::default();
        }
        if !reasoning_text(message).is_empty() {
            self.reasoning = JoinedText::default();
        }
        if !items_of(&message["reasoning_details"]).is_empty() {
            self.details = ReasoningDetails::default();
        }
        if !items_of(&message["tool_calls"]).is_empty() || message["function_call"].is_object() {
            self.calls = ToolCallBuilder::default();
            self.legacy_call = ToolCallBuilder::default();
        }
    }

    fn finish(self, index: u64) -> Value {
        let finish_reason = match self.finish_reason {
            Value::Null if self.has_empty_reason => "".into(),
            reason => reason,
        };
        let reasoning = if self.returns_reasoning {
            "reasoning_content"
        } else {
            "reasoning"
        };
        let calls = match self.calls.finish() {
            Value::Array(calls) if calls.is_empty() => self.legacy_call.finish(),
            calls => calls,
        };
        let message = json!({
            "content": self.content.finish(),
            "refusal": self.refusal.finish(),
            reasoning: self.reasoning.finish(),
            "reasoning_details": self.details.finish(),
            "tool_calls": calls,
            EXTRA_CONTENT: self.extra,
        });
        json!({ "index": index, "message": message, "finish_reason": finish_reason, "error": self.error })
    }
}

/// The reasoning details of a message. Details with the same type and index are parts of one.
#[derive(Default)]
struct ReasoningDetails(Vec<ReasoningDetail>);

/// A reasoning detail, of which chunks may follow.
struct ReasoningDetail {
    /// Its fields, without the texts.
    fields: Value,
    /// The texts that chunks continue, by the names of their fields.
    texts: BTreeMap<&'static str, JoinedText>,
}

impl ReasoningDetails {
    fn push(&mut self, details: &Value) {
        for chunk in items_of(details) {
            let is_continued = |last: &ReasoningDetail| {
                last.fields.is_object()
                    && last.fields["type"] == chunk["type"]
                    && last.fields["index"] == chunk["index"]
            };
            match self.0.last_mut() {
                Some(last) if is_continued(last) => last.add(chunk),
                _ => self.0.push(ReasoningDetail::begin(chunk)),
            }
        }
    }

    fn finish(self) -> Value {
        self.0.into_iter().map(ReasoningDetail::finish).collect()
    }
}

impl ReasoningDetail {
    /// The fields that chunks continue. All others are replaced.
    const TEXTS: [&str; 3] = ["text", "summary", "data"];

    fn begin(chunk: &Value) -> Self {
        let mut detail = Self {
            fields: json!({}),
            texts: BTreeMap::new(),
        };
        if chunk.is_object() {
            detail.add(chunk);
        } else {
            detail.fields = chunk.clone();
            replace_marked_surrogates(&mut detail.fields);
        }
        detail
    }

    fn add(&mut self, chunk: &Value) {
        for (name, value) in chunk.as_object().into_iter().flatten() {
            let text = Self::TEXTS.into_iter().find(|text| text == name);
            match (text, value) {
                (_, Value::Null) => {}
                (Some(name), Value::String(more)) => {
                    self.texts.entry(name).or_default().push(more);
                }
                _ => {
                    let mut value = value.clone();
                    replace_marked_surrogates(&mut value);
                    self.fields[name] = value;
                }
            }
        }
    }

    fn finish(self) -> Value {
        let mut detail = self.fields;
        for (name, text) in self.texts {
            detail[name] = text.finish().into();
        }
        detail
    }
}
