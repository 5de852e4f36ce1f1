//! The schemas of bodies, made from the types that are read and written.

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};

/// Returns the schema of a type.
pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Returns the schema of a page of a list.
pub fn list_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<T>();
    let name = T::schema_name();
    // Generators of clients name the type of the page by it.
    let title = format!("{}Page", name.strip_suffix("View").unwrap_or(&name));
    json_schema!({
        "title": title,
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": { "type": "array", "items": items },
            "next": {
                "type": ["string", "null"],
                "description": "The position after which the list continues, for the parameter `after`; `null` at its end.",
            },
        },
    })
}

/// Returns the schema of answers to requests: the id of each request, and its answer.
pub fn answers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "description": "The answer to each request, by the id of the request. It has to follow the schema of the request.",
        "additionalProperties": true,
    })
}

/// Returns the schema of a document whose form is described elsewhere.
pub fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}
