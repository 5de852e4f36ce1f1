//! The body of a request: its fields in order, what the operator adds to or removes from them, and
//! the conversation, which comes last. A request thus begins with the previous one of the same
//! conversation, and the provider can read what they share from its cache.

use serde::Serialize;
use serde_json::{Map, Value};

use super::json_writer::{self, ListWriter};

/// A body that is being written.
#[derive(Debug, Default)]
pub(in super::super) struct RequestBody {
    /// The fields other than the conversation, each with its value as JSON text.
    fields: Vec<(String, String)>,
    /// The name of the conversation and its JSON text.
    conversation: (&'static str, String),
}

impl RequestBody {
    /// Adds a field.
    pub(super) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.raw(name, json_writer::value(value));
    }

    /// Adds a field if there is a value.
    pub(super) fn optional(&mut self, name: &str, value: Option<&(impl Serialize + ?Sized)>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    /// Adds a field whose value is JSON text.
    pub(super) fn raw(&mut self, name: &str, json: String) {
        self.fields.push((name.to_owned(), json));
    }

    /// Sets the conversation.
    pub(super) fn conversation(&mut self, name: &'static str, json: String) {
        self.conversation = (name, json);
    }

    /// Removes a field.
    pub(in super::super) fn remove(&mut self, name: &str) {
        self.fields.retain(|(field, _)| field != name);
    }

    /// Returns the value of a field, or `null` if there is none.
    pub(super) fn value(&self, name: &str) -> Value {
        let field = self.fields.iter().find(|(field, _)| field == name);
        // The text was written here, so it is JSON.
        field.map_or(Value::Null, |(_, text)| {
            serde_json::from_str(text).unwrap_or_default()
        })
    }

    /// Merges the operator's options into the fields, and removes the fields in `without`. Objects
    /// are merged, other values are replaced.
    pub(in super::super) fn customize(&mut self, options: &Map<String, Value>, without: &[String]) {
        for (name, option) in options {
            match self.fields.iter_mut().find(|(field, _)| field == name) {
                Some((_, text)) => {
                    // The text was written here, so it is JSON.
                    let mut value = serde_json::from_str(text).unwrap_or_default();
                    merge(&mut value, option);
                    *text = json_writer::value(&value);
                }
                None => self.field(name, option),
            }
        }
        self.fields.retain(|(name, _)| !without.contains(name));
    }

    /// Returns the text of the body.
    pub(in super::super) fn finish(self) -> String {
        json_writer::object(|body| {
            for (name, json) in &self.fields {
                body.raw(name, json);
            }
            body.raw(self.conversation.0, &self.conversation.1);
        })
    }
}

fn merge(value: &mut Value, option: &Value) {
    match (value, option) {
        (Value::Object(fields), Value::Object(options)) => {
            for (name, option) in options {
                merge(fields.entry(name.clone()).or_insert(Value::Null), option);
            }
        }
        (value, option) => *value = option.clone(),
    }
}

/// Returns whether a text counts as empty. Providers also count control characters as white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control())
}

/// Writes a message that consists of text.
pub(super) fn write_text_message(list: &mut ListWriter<'_>, role: &str, text: &str) {
    list.object(|message| {
        message.field("role", role);
        message.field("content", text);
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_merged_last_and_what_is_unwanted_is_removed() {
        let mut body = RequestBody::default();
        body.field("model", "m");
        body.field("max_tokens", &7);
        body.field("settings", &json!({ "a": 1, "b": { "c": 2 } }));
        body.conversation("messages", "[1]".to_owned());
        let options = json!({
            "settings": { "b": { "d": 3 }, "a": [4] },
            "top_p": 0.9,
            "max_tokens": 8,
        });
        let options = options.as_object().expect("an object");
        body.customize(options, &["model".to_owned(), "absent".to_owned()]);
        assert_eq!(
            body.finish(),
            r#"{"max_tokens":8,"settings":{"a":[4],"b":{"c":2,"d":3}},"top_p":0.9,"messages":[1]}"#
        );
    }
}
