//! Converts TOML values, such as a plugin's `config`, to JSON.

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::Problems;

/// Converts a TOML value to JSON. Dates become strings; numbers that JSON cannot hold are reported.
///
/// The TOML parser bounds the nesting (80 levels), which is less than what readers of JSON accept.
pub(super) fn from_toml(
    value: &Spanned<DeValue<'_>>,
    recipient: &str,
    problems: &Problems,
) -> Value {
    let refuse = || {
        let text = problems.text(&value.span());
        let message = format!("the number `{text}` cannot be handed to {recipient}");
        let problem = problems.at(&value.span(), message);
        problems.add(
            problem.hint("JSON holds finite numbers and integers of 64 bits; write it as a string"),
        );
        Value::Null
    };
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(date) => Value::String(date.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => Value::from(number),
            Err(_) => refuse(),
        },
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(Number::from_f64);
            number.map_or_else(refuse, Value::Number)
        }
        DeValue::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| from_toml(item, recipient, problems))
                .collect(),
        ),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| {
                let key: &str = key.get_ref();
                (key.to_owned(), from_toml(value, recipient, problems))
            });
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}
