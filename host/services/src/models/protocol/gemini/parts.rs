//! Joins the parts of a reply in the way in which its model wrote them: a text may come in several
//! parts, of one chunk or of many, until another part begins or a signature ends it. A reply in one
//! piece is read in the same way, so that it does not differ from a streamed one.

use serde_json::{Value, json};

use super::{SIGNATURE, has_data};
use crate::models::protocol::parsed_reply::text_of;
use crate::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The parts that have arrived.
#[derive(Default)]
pub(super) struct PartList(Vec<ReplyPart>);

/// A part of a reply.
enum ReplyPart {
    /// Text or reasoning, which may be continued.
    Text {
        is_thought: bool,
        text: JoinedText,
        signature: Value,
    },
    /// Any other part, which comes in one piece.
    Whole(Value),
}

impl PartList {
    /// Adds a part and returns the text that it adds to the reply.
    pub(super) fn push(&mut self, part: &Value) -> String {
        let text = part["text"].as_str();
        if text.is_some() && !has_data(part) {
            return self.push_text(part);
        }
        // Text beside a call is mostly empty. It precedes the call, which has the signature.
        let mut part = part.clone();
        let mut added = String::new();
        if let (Some(text), Some(fields)) = (text, part.as_object_mut()) {
            fields.remove("text");
            let thought = fields.remove("thought").unwrap_or_default();
            added = self.push_text(&json!({ "text": text, "thought": thought }));
        }
        replace_marked_surrogates(&mut part);
        self.0.push(ReplyPart::Whole(part));
        added
    }

    fn push_text(&mut self, part: &Value) -> String {
        let (more, thinks) = (text_of(&part["text"]), part["thought"] == true);
        if more.is_empty() && !part[SIGNATURE].is_string() {
            return String::new();
        }
        // A signature without text is a part of its own.
        let begins = match self.0.last() {
            Some(ReplyPart::Text {
                is_thought,
                signature,
                ..
            }) => *is_thought != thinks || !signature.is_null() || more.is_empty(),
            _ => true,
        };
        if begins {
            self.0.push(ReplyPart::Text {
                is_thought: thinks,
                text: JoinedText::default(),
                signature: Value::Null,
            });
        }
        let Some(ReplyPart::Text {
            text, signature, ..
        }) = self.0.last_mut()
        else {
            return String::new();
        };
        if part[SIGNATURE].is_string() {
            *signature = part[SIGNATURE].clone();
        }
        let added = text.push(more);
        if thinks { String::new() } else { added }
    }

    /// Returns whether there is text or data, other than reasoning.
    pub(super) fn has_output(&self) -> bool {
        let wrote = |part: &ReplyPart| match part {
            ReplyPart::Text {
                is_thought, text, ..
            } => !is_thought && !text.is_empty(),
            ReplyPart::Whole(_) => true,
        };
        self.0.iter().any(wrote)
    }

    /// Returns the parts in the form of a whole reply.
    pub(super) fn finish(self) -> Vec<Value> {
        self.0.into_iter().map(ReplyPart::finish).collect()
    }
}

impl ReplyPart {
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
