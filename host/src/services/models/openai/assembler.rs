//! Assembles a streamed reply from its chunks into the value that would have come in one piece,
//! which is then interpreted by the same code.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::protocol::StreamProgress;
use super::super::surrogate::{JoinedText, replace_marked_surrogates};
use super::tool_calls::ToolCallAssembler;
use super::{content_text, index_of, message_of, reasoning_text, refusal_text, stated_error};

/// The chunks of a reply that have arrived.
#[derive(Default)]
pub(in super::super) struct Assembler {
    model: Value,
    usage: Map<String, Value>,
    choices: BTreeMap<u64, Choice>,
    error: Value,
    ended: bool,
}

/// The chunks of a choice.
#[derive(Default)]
struct Choice {
    content: JoinedText,
    refusal: JoinedText,
    reasoning: JoinedText,
    calls: ToolCallAssembler,
    finish_reason: Value,
    /// Whether a chunk had an empty finish reason. It becomes the finish reason of the choice if no
    /// other follows.
    has_empty_reason: bool,
    error: Value,
    /// Whether a chunk contained a delta. A message that follows is then the complete reply.
    has_deltas: bool,
}

impl Assembler {
    /// Adds a chunk and returns the text that it adds to the reply.
    pub(in super::super) fn push(&mut self, mut piece: Value) -> String {
        if let Some(error) = stated_error(&piece) {
            let mut error = error.clone();
            replace_marked_surrogates(&mut error);
            self.fail(error);
            return String::new();
        }
        if piece["model"].is_string() {
            self.model = take_field(&mut piece, "model");
            replace_marked_surrogates(&mut self.model);
        }
        self.add_usage(take_field(&mut piece, "usage"));
        let Value::Array(choices) = take_field(&mut piece, "choices") else {
            return String::new();
        };
        let mut text = String::new();
        for (mut choice, place) in choices.into_iter().zip(0..) {
            self.add_usage(take_field(&mut choice, "usage"));
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

    /// Notes that the endpoint reported an error. An error after a complete reply is ignored,
    /// because that reply is paid for.
    pub(in super::super) fn fail(&mut self, error: Value) {
        if self.progress() < StreamProgress::Complete || self.has_no_output() {
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
        match self.choices.first_key_value() {
            _ if self.ended => StreamProgress::Ended,
            None => StreamProgress::Empty,
            Some((_, choice)) if choice.finish_reason.is_null() && choice.error.is_null() => {
                StreamProgress::Open
            }
            Some(_) => StreamProgress::Complete,
        }
    }

    /// Returns whether the endpoint has said how many tokens were used.
    pub(in super::super) fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    /// Returns the reply that would have come in one piece.
    pub(in super::super) fn finish(self) -> Value {
        let choices: Vec<Value> = self
            .choices
            .into_iter()
            .map(|(index, choice)| choice.finish(index))
            .collect();
        let mut reply = json!({ "model": self.model, "choices": choices, "error": self.error });
        if !self.usage.is_empty() {
            reply["usage"] = self.usage.into();
        }
        reply
    }

    /// Adds a report of token usage. Some endpoints send it in parts.
    fn add_usage(&mut self, usage: Value) {
        let Value::Object(usage) = usage else { return };
        self.usage
            .extend(usage.into_iter().filter(|(_, value)| !value.is_null()));
    }

    fn has_no_output(&self) -> bool {
        self.choices
            .values()
            .all(|choice| choice.content.is_empty() && choice.calls.is_empty())
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
        self.calls.push(&message["tool_calls"]);
        if message["function_call"].is_object() {
            self.calls
                .push(&json!([{ "function": message["function_call"] }]));
        }
        if let Some(error) = stated_error(&piece) {
            self.error = error.clone();
            replace_marked_surrogates(&mut self.error);
        }
        // After an empty finish reason, the reply continues.
        if piece["finish_reason"] == "" {
            self.has_empty_reason = true;
        } else if !piece["finish_reason"].is_null() {
            self.finish_reason = take_field(&mut piece, "finish_reason");
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
        if message["tool_calls"]
            .as_array()
            .is_some_and(|calls| !calls.is_empty())
            || message["function_call"].is_object()
        {
            self.calls = ToolCallAssembler::default();
        }
    }

    fn finish(self, index: u64) -> Value {
        let finish_reason = match self.finish_reason {
            Value::Null if self.has_empty_reason => "".into(),
            reason => reason,
        };
        let message = json!({
            "content": self.content.finish(),
            "refusal": self.refusal.finish(),
            "reasoning_content": self.reasoning.finish(),
            "tool_calls": self.calls.finish(),
        });
        json!({ "index": index, "message": message, "finish_reason": finish_reason, "error": self.error })
    }
}

/// Removes a field from an object and returns it. Returns `null` if there is none.
fn take_field(value: &mut Value, field: &str) -> Value {
    value.get_mut(field).map(Value::take).unwrap_or_default()
}
