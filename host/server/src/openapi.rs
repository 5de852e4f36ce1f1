//! The OpenAPI document, made from the table of operations.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use strata_host::public_event::EventLine;

use crate::operations::{Content, Operation, Parameter, ParameterValue, operations};
use crate::query::{DEFAULT_LIMIT, MAX_LIMIT};

/// The statuses that every operation with a token can have, and those with a body and with variable parts of the path.
const WITH_TOKEN: [u16; 3] = [401, 403, 429];
const WITH_BODY: [u16; 5] = [400, 408, 413, 415, 422];
const ALWAYS: [u16; 3] = [421, 500, 503];
/// The media type of streams.
const EVENT_STREAM: &str = "text/event-stream";
/// What the header `Retry-After` says.
const RETRY_AFTER: &str = "after how many seconds the request may be repeated";

/// Returns the document.
pub fn document() -> Value {
    let mut generators = Generators::new();
    let mut paths = Map::new();
    for operation in operations() {
        let path = operation.path.replace("{*", "{");
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        let method = operation.method.as_str().to_ascii_lowercase();
        entry[method] = describe(&operation, &mut generators);
    }
    let mut schemas = generators.into_definitions();
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

/// What makes the schemas: of what is read, a field with a default may be left out; of what is written, it is always there.
struct Generators {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Generators {
    fn new() -> Self {
        // Generators of clients do not know `true` as a schema.
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.definitions_path = "/components/schemas".into())
            .with_transform(ReplaceBoolSchemas::default())
            .with_transform(RecursiveTransform(list_constants));
        Self {
            read: settings.clone().into_generator(),
            written: settings.for_serialize().into_generator(),
        }
    }

    /// Returns the schemas of all types.
    fn into_definitions(mut self) -> Map<String, Value> {
        let mut definitions = self.read.take_definitions(true);
        definitions.extend(self.written.take_definitions(true));
        if let Some(line) = definitions.get_mut(EventLine::schema_name().as_ref()) {
            name_events(line);
        }
        definitions
    }
}

/// Makes an alternative of described constants a list of them, which is how generators of clients know an enumeration.
/// What they mean becomes a part of its description.
fn list_constants(schema: &mut Schema) {
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    if !variants.iter().all(|variant| variant["const"].is_string()) {
        return;
    }
    let names: Vec<Value> = variants
        .iter()
        .map(|variant| variant["const"].clone())
        .collect();
    let lines = variants.iter().filter_map(|variant| {
        let (name, about) = (variant["const"].as_str()?, variant["description"].as_str()?);
        Some(format!("`{name}`: {about}"))
    });
    let own = schema.get("description").and_then(Value::as_str);
    let about: Vec<String> = own.map(str::to_owned).into_iter().chain(lines).collect();
    schema.remove("oneOf");
    schema.insert("type".into(), json!("string"));
    schema.insert("enum".into(), json!(names));
    schema.insert("description".into(), json!(about.join("\n")));
}

/// Gives each kind of event a title, by which generators of clients name its type: `RunStartedEvent` for `run-started`.
fn name_events(line: &mut Value) {
    for event in line["oneOf"].as_array_mut().into_iter().flatten() {
        let kind = event["properties"]["kind"]["const"].as_str();
        let words = kind.unwrap_or_default().split('-').map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        });
        event["title"] = json!(words.collect::<String>() + "Event");
    }
}

fn describe(operation: &Operation, generators: &mut Generators) -> Value {
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.about,
        "responses": responses(operation, &mut generators.written),
    });
    let mut parameters: Vec<Value> = operation
        .path_parameters()
        .into_iter()
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    for parameter in &operation.query {
        parameters.push(describe_parameter(parameter, "query"));
    }
    for header in &operation.headers {
        parameters.push(describe_parameter(header, "header"));
    }
    if operation.is_tagged() {
        parameters.push(json!({
            "name": "If-None-Match", "in": "header",
            "description": "the tags of what the client has: it gets 304 if one is still that of the answer",
            "schema": { "type": "string" },
        }));
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
    if let Some(content) = content(operation.body, &mut generators.read) {
        described["requestBody"] = json!({ "required": operation.needs_body, "content": content });
    }
    if !operation.needs_token {
        described["security"] = json!([]);
    }
    described
}

fn describe_parameter(parameter: &Parameter, place: &str) -> Value {
    let mut schema = match &parameter.value {
        ParameterValue::Text => json!({ "type": "string" }),
        ParameterValue::Number => json!({ "type": "integer", "minimum": 0 }),
        ParameterValue::Limit => {
            json!({ "type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT })
        }
        ParameterValue::Time => json!({ "type": "string", "format": "date-time" }),
        ParameterValue::OneOf(words) => json!({ "type": "string", "enum": words }),
        ParameterValue::Form(pattern) => json!({ "type": "string", "pattern": pattern }),
    };
    if parameter.is_repeated {
        schema = json!({ "type": "array", "items": schema });
    }
    let mut described = json!({
        "name": parameter.name, "in": place, "description": parameter.about, "schema": schema,
    });
    if parameter.is_required {
        described["required"] = json!(true);
    }
    described
}

fn content(content: Content, generator: &mut SchemaGenerator) -> Option<Value> {
    match content {
        Content::Empty => None,
        Content::Json(schema) => {
            let schema = schema(generator);
            Some(json!({ "application/json": { "schema": schema } }))
        }
        Content::Other(media_type) => {
            let described = match media_type {
                "application/octet-stream" => {
                    json!({ "schema": { "type": "string", "format": "binary" } })
                }
                // A schema would be that of each message.
                EVENT_STREAM => json!({}),
                _ => json!({ "schema": { "type": "string" } }),
            };
            Some(json!({ (media_type): described }))
        }
    }
}

fn responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    for success in &operation.successes {
        let mut response = json!({ "description": reason(success.status) });
        if let Some(content) = content(success.content, generator) {
            response["content"] = content;
        }
        let headers = headers(operation, success.status);
        if !headers.is_empty() {
            response["headers"] = json!(headers);
        }
        responses.insert(success.status.to_string(), response);
    }
    if operation.id == "listEvents" {
        responses["200"]["content"][EVENT_STREAM] = json!({});
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
        let mut problem = json!({
            "description": reason(status),
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        });
        let header = match status {
            401 => Some(("WWW-Authenticate", header(true, "`Bearer`"))),
            409 if operation.is_keyed => Some(("Retry-After", header(false, RETRY_AFTER))),
            429 | 503 => Some(("Retry-After", header(true, RETRY_AFTER))),
            _ => None,
        };
        if let Some((name, header)) = header {
            problem["headers"] = json!({ (name): header });
        }
        responses.entry(status.to_string()).or_insert(problem);
    }
    json!(responses)
}

/// Returns the headers of an answer that is no error.
fn headers(operation: &Operation, status: u16) -> Map<String, Value> {
    let mut headers = Map::new();
    if operation.is_tagged() {
        let about = "the tag of the content, for `If-None-Match`";
        headers.insert("ETag".into(), header(true, about));
    }
    if operation.is_located && status == 201 {
        let about = "the path of what was made";
        headers.insert("Location".into(), header(true, about));
    }
    if operation.is_keyed {
        let about = "`true` if it is the answer to the first request with this key";
        headers.insert("Idempotency-Replayed".into(), header(false, about));
    }
    headers
}

fn header(is_required: bool, about: &str) -> Value {
    json!({ "required": is_required, "description": about, "schema": { "type": "string" } })
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

    /// Returns the definitions that a document refers to.
    fn references(document: &Value) -> Vec<&str> {
        match document {
            Value::Array(items) => items.iter().flat_map(references).collect(),
            Value::Object(fields) => {
                let own = fields.get("$ref").and_then(Value::as_str);
                own.into_iter()
                    .chain(fields.values().flat_map(references))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn a_type_that_is_read_and_written_has_one_schema() {
        let mut generators = Generators::new();
        for operation in operations() {
            describe(&operation, &mut generators);
        }
        let read = generators.read.take_definitions(true);
        let written = generators.written.take_definitions(true);
        for (name, schema) in &read {
            assert!(
                written.get(name).is_none_or(|other| other == schema),
                "{name}"
            );
        }
    }

    #[test]
    fn every_schema_that_is_referred_to_is_in_the_document() {
        let document = document();
        let references = references(&document);
        assert!(references.contains(&"#/components/schemas/Problem"));
        for reference in references {
            let pointer = reference.strip_prefix('#').expect("it is in the document");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn only_documents_that_are_described_elsewhere_have_no_fields() {
        let document = document();
        let mut without = Vec::new();
        for operation in operations() {
            let path = operation.path.replace("{*", "{");
            let method = operation.method.as_str().to_ascii_lowercase();
            let answers = &document["paths"][path][method]["responses"];
            for (status, answer) in answers.as_object().expect("there are answers") {
                if answer["content"]["application/json"]["schema"] == json!({ "type": "object" }) {
                    without.push(format!("{} {status}", operation.id));
                }
            }
        }
        assert_eq!(
            without,
            ["getCheckpoint 200", "getTeamJson 200", "getOpenApi 200"]
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
