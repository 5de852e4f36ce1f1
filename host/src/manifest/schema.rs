//! The JSON Schema of team files, for editors and for programs that write such files: every key
//! with its meaning, its default, its allowed words and its range.
//!
//! Team files are not validated with this schema but by `authored`, which gives better
//! explanations. Defaults, words and ranges are taken from the code that reads them. A test proves
//! that both know the same keys and types: it reads every table of every team file with keys and
//! values of all kinds and compares the result with that of the schema.

mod kind;
mod role;
pub(super) mod table_index;
mod team;

use serde_json::{Map, Value, json};

/// Returns the complete schema.
pub fn document() -> Value {
    let mut schema = team::team_file();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "strata-host team file".into();
    schema["$defs"] = json!({
        "role": role::role(),
        "action": role::action(),
        "think": role::think(),
        "allow": role::allow(),
        "route": team::route(),
        "join": team::join(),
        "llm": team::llm(),
        "external": team::external(),
    });
    schema
}

/// A key of a table, with the schema of its value.
struct KeySchema {
    name: &'static str,
    schema: Value,
    presence: KeyPresence,
}

/// Whether a key is required.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyPresence {
    Optional,
    Required,
}

/// Creates an optional key.
fn optional_key(name: &'static str, about: &str, schema: Value) -> KeySchema {
    KeySchema {
        name,
        schema: with_description(about, schema),
        presence: KeyPresence::Optional,
    }
}

/// Creates a required key.
fn required_key(name: &'static str, about: &str, schema: Value) -> KeySchema {
    KeySchema {
        presence: KeyPresence::Required,
        ..optional_key(name, about, schema)
    }
}

fn with_description(about: &str, mut schema: Value) -> Value {
    schema["description"] = about.into();
    schema
}

/// Returns the schema of a table with these keys and no others.
fn table_schema(keys: Vec<KeySchema>) -> Value {
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.presence == KeyPresence::Required)
        .map(|key| key.name)
        .collect();
    let mut table = json!({ "type": "object", "additionalProperties": false });
    if !required.is_empty() {
        table["required"] = required.into();
    }
    let properties = keys
        .into_iter()
        .map(|key| (key.name.to_owned(), key.schema));
    table["properties"] = properties.collect::<Map<_, _>>().into();
    table
}

/// Returns the schema of a table whose keys are names that the author chooses.
fn map_schema(value: Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Returns the schema of a list of tables.
fn list_of_tables(name: &str) -> Value {
    json!({ "type": "array", "items": reference(name) })
}

/// Returns a rule for tables in which `key` has the value `word`: the `needed` keys must be
/// present, the `refused` keys absent.
fn conditional(key: &str, word: &str, needed: &[&str], refused: &[&str]) -> Value {
    let mut then = forbidding(refused);
    then["required"] = needed.into();
    json!({ "if": { "properties": { key: { "const": word } }, "required": [key] }, "then": then })
}

/// Returns the schema of a table that has none of these keys.
fn forbidding(refused: &[&str]) -> Value {
    let refused = refused
        .iter()
        .map(|key| ((*key).to_owned(), Value::Bool(false)));
    json!({ "properties": refused.collect::<Map<_, _>>() })
}
