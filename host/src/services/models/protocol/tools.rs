//! The tools and the schema of a request, as far as protocols have them in common.

use serde_json::Value;
use strata_core::record::id::to_hex;
use strata_core::record::json;

use super::json_writer;
use crate::gateway::HostError;
use crate::services::models::error_text::invalid;
use crate::services::models::{ModelRequest, ToolDefinition};
use crate::sha256::sha256;

/// The name of the schema of a reply, which some protocols require.
pub(super) const SCHEMA_NAME: &str = "reply";

/// The keywords of schemas that providers accept when they enforce a schema.
const STRICT_KEYWORDS: [&str; 9] = [
    "$schema",
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
];
/// The keywords that remain in a schema for a provider that rejects others.
const BASIC_KEYWORDS: [&str; 14] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "description",
    "enum",
    "format",
    "items",
    "properties",
    "required",
    "title",
    "type",
];
/// The keywords whose value is an object of schemas.
const SCHEMA_MAPS: [&str; 2] = ["$defs", "properties"];
/// The types of images that most providers accept.
pub(super) const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// The maximum length of the id of a tool call, in characters.
const MAX_ID_CHARS: usize = 64;
/// The number of hexadecimal digits of a mapped id. They distinguish the calls of a conversation.
const MAPPED_ID_DIGITS: usize = 24;

/// A JSON Schema that is sent.
pub(super) struct SchemaText {
    /// Its text, in its own order.
    pub(super) json: String,
    /// Whether a provider can enforce it: each object lists all its properties as required and
    /// allows no others, and nothing else is in it.
    pub(super) is_strict: bool,
}

impl SchemaText {
    /// Returns the schema of a tool's arguments. It always describes an object, which some
    /// providers require.
    fn of_tool(tool: &ToolDefinition) -> Result<Self, HostError> {
        let what = || format!("the parameters of the tool `{}`", tool.name);
        let mut value = parse(&tool.parameters, what)?;
        if let Value::Object(schema) = &mut value
            && !schema.contains_key("type")
        {
            schema.insert("type".to_owned(), "object".into());
            return Ok(Self {
                json: value.to_string(),
                is_strict: false,
            });
        }
        Self::new(&tool.parameters, &value, what)
    }

    /// Returns the schema that the reply has to match, if there is one.
    pub(super) fn of_reply(request: &ModelRequest) -> Result<Option<Self>, HostError> {
        let Some(text) = &request.output_schema else {
            return Ok(None);
        };
        let what = || "`output-schema`".to_owned();
        let value = parse(text, what)?;
        Self::new(text, &value, what).map(Some)
    }

    /// Returns the schema that the reply has to match, without what a provider rejects that enforces
    /// it: other keywords than the basic ones, and objects with further properties. The host checks
    /// the reply with the whole schema.
    pub(super) fn basic_of_reply(request: &ModelRequest) -> Result<Option<String>, HostError> {
        let Some(text) = &request.output_schema else {
            return Ok(None);
        };
        let mut value = parse(text, || "`output-schema`".to_owned())?;
        simplify(&mut value);
        Ok(Some(value.to_string()))
    }

    fn new(text: &str, value: &Value, what: impl Fn() -> String) -> Result<Self, HostError> {
        let json = json_writer::document(text).map_err(|error| schema_error(&what(), &error))?;
        Ok(Self {
            json,
            is_strict: value["type"] == "object" && is_strict(value),
        })
    }
}

fn parse(text: &str, what: impl Fn() -> String) -> Result<Value, HostError> {
    json::parse_untrusted(text).map_err(|error| schema_error(&what(), &error))
}

fn schema_error(what: &str, error: &json::JsonError) -> HostError {
    invalid(format!(
        "cannot ask a model: {what} is {error}; give a JSON Schema"
    ))
}

fn is_strict(schema: &Value) -> bool {
    let Value::Object(fields) = schema else {
        return false;
    };
    if !fields
        .keys()
        .all(|keyword| STRICT_KEYWORDS.contains(&keyword.as_str()))
        || !fields.contains_key("type")
    {
        return false;
    }
    let no_properties = Default::default();
    let properties = schema["properties"].as_object().unwrap_or(&no_properties);
    if schema["type"] == "object" {
        let required = schema["required"].as_array().map(Vec::as_slice);
        let required = required.unwrap_or_default();
        let is_required = |name: &String| required.iter().any(|item| item == name.as_str());
        if schema["additionalProperties"] != false || !properties.keys().all(is_required) {
            return false;
        }
    }
    properties.values().all(is_strict) && fields.get("items").is_none_or(is_strict)
}

/// Removes what is not basic from a schema.
fn simplify(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        return;
    };
    fields.retain(|keyword, _| BASIC_KEYWORDS.contains(&keyword.as_str()));
    for (keyword, value) in fields.iter_mut() {
        match value {
            Value::Object(schemas) if SCHEMA_MAPS.contains(&keyword.as_str()) => {
                schemas.values_mut().for_each(simplify);
            }
            Value::Array(schemas) if matches!(keyword.as_str(), "allOf" | "anyOf") => {
                schemas.iter_mut().for_each(simplify);
            }
            _ if keyword == "items" => simplify(value),
            _ => {}
        }
    }
    if fields.contains_key("properties") || fields.get("type").is_some_and(|of| of == "object") {
        fields.insert("additionalProperties".to_owned(), false.into());
    } else {
        fields.remove("additionalProperties");
    }
}

/// A tool as it is sent.
pub(super) struct SentTool<'a> {
    pub(super) tool: &'a ToolDefinition,
    /// The schema of its arguments.
    pub(super) schema: SchemaText,
}

/// Returns the tools of a request.
pub(super) fn sent_tools(request: &ModelRequest) -> Result<Vec<SentTool<'_>>, HostError> {
    let tools = request.tools.iter().map(|tool| {
        let schema = SchemaText::of_tool(tool)?;
        Ok(SentTool { tool, schema })
    });
    tools.collect()
}

/// Returns the id of a tool call for a provider that limits the characters and the length of ids.
/// Another id is replaced by one that is the same for the call and its result.
pub(super) fn mapped_id(id: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !id.is_empty() && id.len() <= MAX_ID_CHARS && id.chars().all(fits) {
        return id.to_owned();
    }
    let digits = to_hex(&sha256(id));
    format!("call_{}", &digits[..MAPPED_ID_DIGITS])
}

/// Returns the arguments of a tool call as the text of an object, for protocols that send no other
/// form. Arguments that are none are put into one.
pub(super) fn arguments_object(arguments: &str) -> String {
    match json::parse_untrusted(arguments) {
        Ok(value @ Value::Object(_)) => value.to_string(),
        _ => json_writer::object(|object| object.field("arguments", arguments)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_can_be_enforced_is_recognised() {
        let check =
            |schema: Value, expected: bool| assert_eq!(is_strict(&schema), expected, "{schema}");
        let object = |properties: Value, required: Value| {
            json!({ "type": "object", "properties": properties, "required": required,
                "additionalProperties": false })
        };
        let integer = json!({ "type": "integer", "description": "a number" });
        check(object(json!({}), json!([])), true);
        check(object(json!({ "a": integer }), json!(["a"])), true);
        check(object(json!({ "a": integer }), json!([])), false);
        check(json!({ "type": "object" }), false);
        check(
            json!({ "type": "object", "additionalProperties": true }),
            false,
        );
        check(
            object(
                json!({ "a": { "type": "array", "items": integer } }),
                json!(["a"]),
            ),
            true,
        );
        check(
            object(
                json!({ "a": { "type": "array", "items": {} } }),
                json!(["a"]),
            ),
            false,
        );
        check(
            object(
                json!({ "a": { "type": "string", "minLength": 1 } }),
                json!(["a"]),
            ),
            false,
        );
        check(json!(true), false);
    }

    #[test]
    fn what_a_provider_rejects_is_removed_from_a_schema() {
        let check = |schema: Value, expected: Value| {
            let request = ModelRequest {
                output_schema: Some(schema.to_string()),
                ..ModelRequest::ask("x")
            };
            let basic = SchemaText::basic_of_reply(&request).expect("a schema");
            assert_eq!(basic, Some(expected.to_string()));
        };
        check(
            json!({ "type": "object", "required": ["a"], "minProperties": 1 }),
            json!({ "type": "object", "required": ["a"], "additionalProperties": false }),
        );
        check(
            json!({ "properties": { "minimum": { "type": "integer", "minimum": 1 } } }),
            json!({ "properties": { "minimum": { "type": "integer" } }, "additionalProperties": false }),
        );
        check(
            json!({ "type": "array", "items": { "type": "object", "additionalProperties": true } }),
            json!({ "type": "array", "items": { "type": "object", "additionalProperties": false } }),
        );
        check(
            json!({ "anyOf": [{ "type": "string", "maxLength": 3 }, { "enum": [{ "maxLength": 1 }] }] }),
            json!({ "anyOf": [{ "type": "string" }, { "enum": [{ "maxLength": 1 }] }] }),
        );
        check(json!(true), json!(true));
    }

    #[test]
    fn an_id_that_a_provider_does_not_accept_is_mapped_alike_each_time() {
        assert_eq!(mapped_id("toolu_1"), "toolu_1");
        let mapped = mapped_id("functions.add:0");
        assert_eq!(mapped, mapped_id("functions.add:0"));
        assert_ne!(mapped, mapped_id("functions.add:1"));
        assert_eq!(mapped_id(&mapped), mapped);
        assert!(mapped_id(&"x".repeat(65)).len() <= 40);
    }

    #[test]
    fn arguments_are_always_an_object() {
        let check =
            |text: &str, expected: &str| assert_eq!(arguments_object(text), expected, "{text}");
        check(r#" {"a": 1} "#, r#"{"a":1}"#);
        check("[1]", r#"{"arguments":"[1]"}"#);
        check("{\"a\":", r#"{"arguments":"{\"a\":"}"#);
        check("", r#"{"arguments":""}"#);
    }
}
