//! Builds a reply from the chunks of a stream, each of which has the form of a whole reply.

use serde_json::{Map, Value, json};

use super::{SIGNATURE, first_candidate};
use crate::services::models::protocol::assembler::{ReplyBuilder, StreamProgress};
use crate::services::models::protocol::reply::{take_field, text_of};
use crate::services::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The chunks that have arrived.
#[derive(Default)]
pub(super) struct ContentBuilder {
    model: Value,
    usage: Map<String, Value>,
    feedback: Value,
    parts: Vec<StreamedPart>,
    finish_reason: Value,
    has_candidate: bool,
}

/// A part of the reply.
enum StreamedPart {
    /// Text or reasoning, which chunks continue until another part begins or a signature ends it.
    Text {
        is_thought: bool,
        text: JoinedText,
        signature: Value,
    },
    /// Any other part, which comes in one chunk.
    Whole(Value),
}

impl ReplyBuilder for ContentBuilder {
    fn push(&mut self, mut chunk: Value) -> String {
        if chunk["modelVersion"].is_string() {
            self.model = take_field(&mut chunk, "modelVersion");
            replace_marked_surrogates(&mut self.model);
        }
        if let Value::Object(usage) = take_field(&mut chunk, "usageMetadata") {
            self.usage.extend(usage);
        }
        if chunk["promptFeedback"].is_object() {
            self.feedback = take_field(&mut chunk, "promptFeedback");
        }
        let candidate = first_candidate(&chunk);
        if !candidate.is_object() {
            return String::new();
        }
        self.has_candidate = true;
        if !candidate["finishReason"].is_null() {
            self.finish_reason = candidate["finishReason"].clone();
        }
        let mut added = String::new();
        if let Value::Array(parts) = &candidate["content"]["parts"] {
            for part in parts {
                added += &self.push_part(part);
            }
        }
        added
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
        let wrote = |part: &StreamedPart| match part {
            StreamedPart::Text {
                is_thought, text, ..
            } => !is_thought && !text.is_empty(),
            StreamedPart::Whole(_) => true,
        };
        self.parts.iter().any(wrote)
    }

    fn is_counted(&self) -> bool {
        !self.usage.is_empty()
    }

    fn finish(self: Box<Self>) -> Value {
        let mut reply = json!({ "modelVersion": self.model, "promptFeedback": self.feedback });
        if self.has_candidate {
            let parts: Vec<Value> = self.parts.into_iter().map(StreamedPart::finish).collect();
            reply["candidates"] = json!([{
                "content": { "role": "model", "parts": parts },
                "finishReason": self.finish_reason,
            }]);
        }
        if !self.usage.is_empty() {
            reply["usageMetadata"] = self.usage.into();
        }
        reply
    }
}

impl ContentBuilder {
    /// Adds a part and returns the text that it adds to the reply.
    fn push_part(&mut self, part: &Value) -> String {
        if !part["text"].is_string() {
            let mut part = part.clone();
            replace_marked_surrogates(&mut part);
            self.parts.push(StreamedPart::Whole(part));
            return String::new();
        }
        let (more, thinks) = (text_of(&part["text"]), part["thought"] == true);
        if more.is_empty() && !part[SIGNATURE].is_string() {
            return String::new();
        }
        // A signature without text is a part of its own, as it is in a whole reply.
        let begins = match self.parts.last() {
            Some(StreamedPart::Text {
                is_thought,
                signature,
                ..
            }) => *is_thought != thinks || !signature.is_null() || more.is_empty(),
            _ => true,
        };
        if begins {
            self.parts.push(StreamedPart::Text {
                is_thought: thinks,
                text: JoinedText::default(),
                signature: Value::Null,
            });
        }
        let Some(StreamedPart::Text {
            text, signature, ..
        }) = self.parts.last_mut()
        else {
            return String::new();
        };
        if part[SIGNATURE].is_string() {
            *signature = part[SIGNATURE].clone();
        }
        let added = text.push(more);
        if thinks { String::new() } else { added }
    }
}

impl StreamedPart {
    fn finish(self) -> Value {
        match self {
            Self::Whole(part) => part,
            Self::Text {
                is_thought,
                text,
                signature,
            } => {
                let mut part = json!({ "text": text.finish() });
                if is_thought {
                    part["thought"] = true.into();
                }
                if !signature.is_null() {
                    part[SIGNATURE] = signature;
                }
                part
            }
        }
    }
}
