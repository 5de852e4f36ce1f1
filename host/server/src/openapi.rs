//! The OpenAPI document, made from the table of operations.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::operations::{Content, Operation, Parameter, ParameterValue, operations};
use crate::query::{DEFAULT_LIMIT, MAX_LIMIT};

/// The statuses that every operation with a token can have, and those with a body and with variable parts of the path.
const WITH_TOKEN: [u16; 3] = [401, 403, 429];
const WITH_BODY: [u16; 5] = [400, 408, 413, 415, 422];
const ALWAYS: [u16; 3] = [421, 500, 503];

/// Returns the document.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for operation in operations() {
        let path = operation.path.replace("{*", "{");
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        let method = operation.method.as_str().to_ascii_lowercase();
        entry[method] = describe(&operation, &mut generator);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Problem".into(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "strata-host",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs teams of agents whose every action is a sandboxed WebAssembly component.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
        },
    })
}

fn describe(operation: &Operation, generator: &mut schemars::SchemaGenerator) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.about,
        "responses": responses(operation, generator),
    });
    let mut parameters: Vec<Value> = operation
        .path_parameters()
        .into_iter()
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    for parameter in &operation.query {
        parameters.push(describe_parameter(parameter));
    }
    if operation.is_keyed {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header",
            "description": "the same key and body give the first answer again",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$" },
        }));
    }
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    if let Some(content) = content(operation.body, generator) {
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    if !operation.needs_token {
        described["security"] = json!([]);
    }
    described
}

fn describe_parameter(parameter: &Parameter) -> Value {
    let mut schema = match &parameter.value {
        ParameterValue::Text => json!({ "type": "string" }),
        ParameterValue::Number => json!({ "type": "integer", "minimum": 0 }),
        ParameterValue::Limit => {
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT })
        }
        ParameterValue::Time => json!({ "type": "string", "format": "date-time" }),
        ParameterValue::OneOf(words) => json!({ "type": "string", "enum": words }),
    };
    if parameter.is_repeated {
        schema = json!({ "type": "array", "items": schema });
    }
    let mut described = json!({
        "name": parameter.name, "in": "query", "description": parameter.about, "schema": schema,
    });
    if parameter.is_required {
        described["required"] = json!(true);
    }
    described
}

fn content(content: Content, generator: &mut schemars::SchemaGenerator) -> Option<Value> {
    match content {
        Content::Empty => None,
        Content::Json(schema) => {
            let schema = schema(generator);
            Some(json!({ "application/json": { "schema": schema } }))
        }
        Content::Other(media_type) => Some(json!({ (media_type): {} })),
    }
}

fn responses(operation: &Operation, generator: &mut schemars::SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for success in &operation.successes {
        let mut response = json!({ "description": reason(success.status) });
        if let Some(content) = content(success.content, generator) {
            response["content"] = content;
        }
        responses.insert(success.status.to_string(), response);
    }
    if operation.id == "listEvents" {
        responses["200"]["content"]["text/event-stream"] = json!({});
    }
    let mut errors: Vec<u16> = ALWAYS.to_vec();
    errors.extend(&operation.errors);
    if operation.needs_token {
        errors.extend(WITH_TOKEN);
    } else {
        // A page elsewhere may not read it.
        errors.push(403);
    }
    if matches!(operation.body, Content::Json(_)) {
        errors.extend(WITH_BODY);
    }
    if operation.is_keyed {
        errors.push(409);
    }
    if !operation.path_parameters().is_empty() {
        errors.push(404);
    }
    // A query that is not known is refused.
    errors.push(422);
    errors.sort_unstable();
    errors.dedup();
    for status in errors {
        let problem = json!({
            "description": reason(status),
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        });
        responses.entry(status.to_string()).or_insert(problem);
    }
    json!(responses)
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "A problem (RFC 9457).",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "hint": { "type": "string" },
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["pointer", "detail"],
                    "properties": { "pointer": { "type": "string" }, "detail": { "type": "string" } },
                },
            },
            "missing": { "type": "array", "items": { "type": "string" } },
        },
    })
}

fn reason(status: u16) -> &'static str {
    let status = axum::http::StatusCode::from_u16(status).ok();
    status
        .and_then(|status| status.canonical_reason())
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The document as it is kept: what changes in it is seen by clients.
    const GOLDEN: &str = "openapi.json";

    #[test]
    fn the_document_is_as_it_was() {
        let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            text, kept,
            "write it anew with BLESS=1, and read the difference"
        );
    }

    #[test]
    fn each_operation_has_an_id_of_its_own_and_an_answer() {
        let all = operations();
        let mut ids: Vec<&str> = all.iter().map(|operation| operation.id).collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
        assert!(all.iter().all(|operation| !operation.successes.is_empty()));
    }
}
