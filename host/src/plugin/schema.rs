//! JSON Schemas, compiled: what outputs and answers are held against.

use std::sync::Arc;

use jsonschema::PatternOptions;
use serde_json::Value;

/// Parts of a guest's schema with everything that it refers to in its place. A few references to references can stand
/// for more parts than could ever be looked at.
const PARTS: usize = 4_000;
/// Steps that a pattern goes back on one text. What needs more is written to need more.
const BACKTRACKS: usize = 100_000;
/// The ways in which a schema refers to one.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// A compiled JSON Schema.
#[derive(Clone, Debug)]
pub struct Schema(Arc<jsonschema::Validator>);

impl Schema {
    /// Compiles a schema of the operator's. References to other documents are not followed.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options();
        let patterns = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS);
        let validator = options.with_pattern_options(patterns).build(schema);
        validator.map(|validator| Self(Arc::new(validator))).map_err(|error| error.to_string())
    }

    /// Compiles a schema of a guest's: one that is held against a document in reasonable time, whatever the document.
    pub fn compile_bounded(schema: &Value) -> Result<Self, String> {
        unfolds(schema)?;
        Self::compile(schema)
    }

    /// Says where and why a document breaks the schema.
    pub fn check(&self, document: &Value) -> Result<(), String> {
        match self.0.iter_errors(document).next() {
            None => Ok(()),
            Some(error) => {
                let place = error.instance_path().to_string();
                Err(if place.is_empty() { error.to_string() } else { format!("{error} (at `{place}`)") })
            }
        }
    }
}

/// Refuses a schema that refers to itself or unfolds to too many parts.
fn unfolds(schema: &Value) -> Result<(), String> {
    let mut open = vec![schema];
    let mut parts = 0;
    while let Some(part) = open.pop() {
        parts += 1;
        if parts > PARTS {
            return Err(format!("it refers to itself, or has more than {PARTS} parts with what it refers to"));
        }
        match part {
            Value::Array(list) => open.extend(list),
            Value::Object(map) => {
                open.extend(map.values());
                for to in REFERENCES.iter().filter_map(|key| map.get(*key)?.as_str()) {
                    open.push(referred(schema, to)?);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn referred<'a>(schema: &'a Value, to: &str) -> Result<&'a Value, String> {
    let found = to.strip_prefix('#').and_then(|pointer| schema.pointer(pointer));
    found.ok_or_else(|| format!("it refers to `{to}`, which is no place in it; write `#/$defs/NAME`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each definition holds the next one twice.
    fn doubling(levels: usize) -> Value {
        let twice = |level: usize| {
            let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
            (format!("d{level}"), json!({ "allOf": [next, next] }))
        };
        let mut definitions: serde_json::Map<String, Value> = (0..levels).map(twice).collect();
        definitions.insert(format!("d{levels}"), json!({ "type": "integer" }));
        json!({ "$defs": definitions, "$ref": "#/$defs/d0" })
    }

    #[test]
    fn a_guests_schema_that_would_keep_the_host_busy_is_refused() {
        let check = |schema: Value, expected: &str| {
            let got = Schema::compile_bounded(&schema).map(|_| ()).err().unwrap_or_default();
            assert!(got.contains(expected) && got.is_empty() == expected.is_empty(), "{schema}: {got}");
        };
        check(doubling(5), "");
        check(doubling(60), "more than 4000 parts");
        check(json!({ "allOf": [{ "$ref": "#" }] }), "refers to itself");
        check(json!({ "$dynamicRef": "#" }), "refers to itself");
        check(json!({ "$ref": "https://example.com/schema" }), "no place in it");
        check(json!({ "$ref": "#name", "$anchor": "name" }), "no place in it");
        let person = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        check(json!({ "$defs": { "P": person }, "items": { "$ref": "#/$defs/P" } }), "");
        check(json!({ "enum": vec![0; 5_000] }), "more than 4000 parts");
        assert!(Schema::compile(&doubling(12)).is_ok(), "an operator may");
    }

    #[test]
    fn a_pattern_that_never_ends_is_ended() {
        let schema = Schema::compile(&json!({ "pattern": "^(?=(a|a)*$)(a|a)*(?!c)b$" })).expect("a schema");
        assert!(schema.check(&json!("a".repeat(2_000))).is_err());
        assert!(schema.check(&json!("aab")).is_err() || schema.check(&json!("b")).is_ok());
    }
}
