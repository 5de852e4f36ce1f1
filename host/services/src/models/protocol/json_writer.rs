//! Writes JSON text front to back. The bodies of requests are written in this way because
//! `serde_json` values with many small parts would need a hundred times the memory of their texts,
//! and because the order of the fields matters: a request begins with the previous one.

use serde::Serialize;
use serde_json::Value;
use strata_core::record::json;
use strata_core::record::json::JsonError;

/// Writes the fields of an object.
pub(super) struct ObjectWriter<'a> {
    text: &'a mut String,
    is_empty: bool,
}

/// Writes the items of a list.
pub(super) struct ListWriter<'a> {
    text: &'a mut String,
    is_empty: bool,
}

/// Returns the text of an object.
pub(super) fn object(write: impl FnOnce(&mut ObjectWriter<'_>)) -> String {
    let mut text = String::new();
    write_object(&mut text, write);
    text
}

/// Returns the text of a list.
pub(super) fn list(write: impl FnOnce(&mut ListWriter<'_>)) -> String {
    let mut text = String::new();
    write_list(&mut text, write);
    text
}

/// Returns the text of a list. Fails if writing an item does.
pub(super) fn try_list<E>(
    write: impl FnOnce(&mut ListWriter<'_>) -> Result<(), E>,
) -> Result<String, E> {
    let mut result = Ok(());
    let text = list(|list| result = write(list));
    result.map(|()| text)
}

/// Returns the text of a value. Numbers that JSON cannot represent become `null`.
pub(super) fn value(value: &(impl Serialize + ?Sized)) -> String {
    // Serializing to a string fails only for maps whose keys are not strings; none is written.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    replace_nul(text)
}

/// Returns a JSON text from outside, as it is if it can be sent so, and normalised otherwise.
pub(super) fn document(text: &str) -> Result<String, JsonError> {
    let normalised = json::parse_untrusted(text)?;
    Ok(match serde_json::from_str::<Value>(text) {
        Ok(_) => replace_nul(text.trim().to_owned()),
        Err(_) => value(&normalised),
    })
}

/// Replaces each NUL in the strings of a JSON text by U+FFFD. Many providers cannot store it and
/// refuse the request.
fn replace_nul(text: String) -> String {
    const NUL: &str = "\\u0000";
    if !text.contains(NUL) {
        return text;
    }
    let mut replaced = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        replaced.push_str(before);
        // A backslash is followed by an ASCII character, which it escapes.
        let length = if escape.starts_with(NUL) {
            NUL.len()
        } else {
            2.min(escape.len())
        };
        let (escape, after) = escape.split_at(length);
        replaced.push_str(if escape == NUL { "\\ufffd" } else { escape });
        rest = after;
    }
    replaced + rest
}

impl ObjectWriter<'_> {
    /// Writes a field.
    pub(super) fn field(&mut self, name: &str, content: &(impl Serialize + ?Sized)) {
        self.raw(name, &value(content));
    }

    /// Writes a field if there is a value.
    pub(super) fn optional(&mut self, name: &str, content: Option<&(impl Serialize + ?Sized)>) {
        if let Some(content) = content {
            self.field(name, content);
        }
    }

    /// Writes a field whose value is JSON text.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.text.push_str(json);
    }

    /// Writes a field that is an object.
    pub(super) fn object(&mut self, name: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        self.name(name);
        write_object(self.text, write);
    }

    /// Writes a field that is a list.
    pub(super) fn list(&mut self, name: &str, write: impl FnOnce(&mut ListWriter<'_>)) {
        self.name(name);
        write_list(self.text, write);
    }

    fn name(&mut self, name: &str) {
        separate(self.text, &mut self.is_empty);
        self.text.push_str(&value(name));
        self.text.push(':');
    }
}

impl ListWriter<'_> {
    /// Writes an item that is JSON text.
    pub(super) fn raw(&mut self, json: &str) {
        separate(self.text, &mut self.is_empty);
        self.text.push_str(json);
    }

    /// Writes an item that is an object.
    pub(super) fn object(&mut self, write: impl FnOnce(&mut ObjectWriter<'_>)) {
        separate(self.text, &mut self.is_empty);
        write_object(self.text, write);
    }
}

fn write_object(text: &mut String, write: impl FnOnce(&mut ObjectWriter<'_>)) {
    text.push('{');
    write(&mut ObjectWriter {
        text: &mut *text,
        is_empty: true,
    });
    text.push('}');
}

fn write_list(text: &mut String, write: impl FnOnce(&mut ListWriter<'_>)) {
    text.push('[');
    write(&mut ListWriter {
        text: &mut *text,
        is_empty: true,
    });
    text.push(']');
}

fn separate(text: &mut String, is_first: &mut bool) {
    if !std::mem::replace(is_first, false) {
        text.push(',');
    }
}

#[test]
fn a_nul_is_replaced_and_an_escaped_backslash_before_its_digits_is_not() {
    assert_eq!(value("a\0b"), r#""a\ufffdb""#);
    assert_eq!(value("\\u0000 \\\0"), r#""\\u0000 \\\ufffd""#);
    let document = document(r#"{"\u0000": "\\\u0000"}"#).expect("a document");
    assert_eq!(document, r#"{"\ufffd": "\\\ufffd"}"#);
}
