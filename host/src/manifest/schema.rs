//! The JSON Schema of team files, for editors and for whoever writes such files by program: every key with what it
//! means, its default, its words and its range.
//!
//! Reading is done in `authored`, which explains what is wrong better than any schema could. Defaults, words and ranges
//! are taken from where reading takes them. That both know the same keys and types is proven by a test, which has every
//! table of every team file read with keys and values of all kinds, and holds the schema's judgement against the
//! reader's.

mod kind;
pub(super) mod places;
mod role;
mod team;

use serde_json::{Map, Value, json};

/// The schema, whole.
pub fn document() -> Value {
    let mut schema = team::file();
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

/// A key of a table.
struct Key {
    name: &'static str,
    schema: Value,
    need: Need,
}

/// Whether a table can be without a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Optional,
    Required,
}

/// A key that may be left out.
fn key(name: &'static str, about: &str, schema: Value) -> Key {
    Key {
        name,
        schema: described(about, schema),
        need: Need::Optional,
    }
}

/// A key that has to be there.
fn needed(name: &'static str, about: &str, schema: Value) -> Key {
    Key {
        need: Need::Required,
        ..key(name, about, schema)
    }
}

fn described(about: &str, mut schema: Value) -> Value {
    schema["description"] = about.into();
    schema
}

/// A table with these keys and no others.
fn table(keys: Vec<Key>) -> Value {
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.need == Need::Required)
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

/// A table whose keys are names that the author chooses.
fn named(value: Value) -> Value {
    json!({ "type": "object", "additionalProperties": value })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// A list of tables.
fn tables(name: &str) -> Value {
    json!({ "type": "array", "items": reference(name) })
}

/// Holds for tables in which this key has this word: those keys have to be there, these cannot.
fn when(key: &str, word: &str, needed: &[&str], refused: &[&str]) -> Value {
    let mut then = without(refused);
    then["required"] = needed.into();
    json!({ "if": { "properties": { key: { "const": word } }, "required": [key] }, "then": then })
}

/// A table that has none of these keys.
fn without(refused: &[&str]) -> Value {
    let refused = refused
        .iter()
        .map(|key| ((*key).to_owned(), Value::Bool(false)));
    json!({ "properties": refused.collect::<Map<_, _>>() })
}
