//! What a valid answer looks like, as far as the schema of the answer says so in a simple way: the
//! fields of an object, with their types. The schema itself is shown, too.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The maximum number of fields that are listed.
const MAX_FIELDS: usize = 50;
/// How many references are followed from one schema to another. More would be a cycle.
const MAX_REFERENCES: usize = 8;

/// A field of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerField {
    /// Its name.
    pub name: String,
    /// Its type in the words of JSON Schema, e.g. `string`, or `string or null`; `any` if it may be
    /// anything.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether an answer must have it.
    pub required: bool,
    /// The values that it may have, as JSON; empty if there are others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Returns the fields of the answers that conform to a schema, by name; none unless these are
/// objects.
pub(super) fn answer_fields(schema: &Value) -> Vec<AnswerField> {
    let whole = resolve(schema, schema);
    let Some(Value::Object(properties)) = whole.get("properties") else {
        return Vec::new();
    };
    let required = whole.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|required| required.as_str() == Some(name)))
    };
    let fields = properties.iter().take(MAX_FIELDS).map(|(name, field)| {
        let field = resolve(schema, field);
        let description = field.get("description").and_then(Value::as_str);
        AnswerField {
            name: name.clone(),
            kind: kind_of(field),
            required: is_required(name),
            choices: choices_of(field),
            description: description.map(str::to_owned),
        }
    });
    fields.collect()
}

/// Returns the schema that a schema refers to within the document, or the schema itself.
fn resolve<'a>(document: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str);
        let pointer = target.and_then(|target| target.strip_prefix('#'));
        match pointer.and_then(|pointer| document.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn kind_of(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => {
            let items = schema.get("items").map(kind_of);
            items.map_or_else(|| kind.clone(), |items| format!("array of {items}"))
        }
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join(" or ")
        }
        _ => "any".into(),
    }
}

fn choices_of(schema: &Value) -> Vec<String> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => vec![only.to_string()],
        (None, Some(Value::Array(choices))) => choices.iter().map(Value::to_string).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_of_an_answer_have_types_and_choices() {
        let schema = json!({
            "$ref": "#/$defs/answer",
            "$defs": {
                "answer": {
                    "type": "object",
                    "properties": {
                        "approved": { "type": "boolean", "description": "whether it goes out" },
                        "size": { "$ref": "#/$defs/size" },
                        "notes": { "type": "array", "items": { "type": "string" } },
                        "more": { "type": ["string", "null"] },
                        "other": true,
                    },
                    "required": ["approved"],
                },
                "size": { "enum": ["s", "l", 3] },
            },
        });
        let shown = answer_fields(&schema).into_iter().map(|field| {
            let AnswerField {
                name,
                kind,
                required,
                choices,
                description,
            } = field;
            format!(
                "{name}: {kind} {required} {choices:?} {}",
                description.unwrap_or_default()
            )
        });
        let mut shown: Vec<String> = shown.collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "approved: boolean true [] whether it goes out",
                "more: string or null false [] ",
                "notes: array of string false [] ",
                "other: any false [] ",
                r#"size: any false ["\"s\"", "\"l\"", "3"] "#,
            ]
        );
        for other in [
            json!(true),
            json!({ "type": "integer" }),
            json!({ "$ref": "#" }),
        ] {
            assert_eq!(answer_fields(&other), []);
        }
    }
}
