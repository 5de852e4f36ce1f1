//! Characters of a server's texts that models are not told, because nobody sees them: a text that looks
//! harmless could contain instructions.

use std::borrow::Cow;

use serde_json::Value;

/// The keys of a schema whose values are texts for a reader.
const TEXT_KEYS: [&str; 2] = ["description", "title"];

/// Returns whether a character is removed from texts for models: control characters other than line feeds
/// and tabs, those that change the direction of the text, and tags.
pub fn removed_for_models(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\n' | '\t');
    is_control
        || matches!(
            c,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns a text for a model.
pub(super) fn legible(text: &str) -> Cow<'_, str> {
    if text.contains(removed_for_models) {
        Cow::Owned(text.replace(removed_for_models, ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Removes those characters from the texts of a schema. Returns whether there were any.
pub(super) fn make_schema_legible(schema: &mut Value) -> bool {
    match schema {
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |found, item| make_schema_legible(item) | found),
        Value::Object(fields) => {
            let mut found = false;
            for (key, value) in fields {
                match value {
                    Value::String(text) if TEXT_KEYS.contains(&key.as_str()) => {
                        if let Cow::Owned(shown) = legible(text) {
                            *text = shown;
                            found = true;
                        }
                    }
                    other => found |= make_schema_legible(other),
                }
            }
            found
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_sees_is_removed_and_lines_stay() {
        assert_eq!(legible("a\u{202e}b\u{7}\u{e0041}\tc\n"), "ab\tc\n");
        assert!(matches!(legible("grüße 👋"), Cow::Borrowed(_)));
        let mut schema =
            json!({ "properties": { "x": { "description": "a\u{2067}b" } }, "const": "\u{7}" });
        assert!(make_schema_legible(&mut schema));
        assert_eq!(
            schema,
            json!({ "properties": { "x": { "description": "ab" } }, "const": "\u{7}" })
        );
        assert!(!make_schema_legible(&mut schema));
    }
}
