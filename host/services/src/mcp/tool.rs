//! The tools of a server: what a list says of them, as far as it can be used.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use strata_base::files::sha256::sha256;
use strata_base::text::units::format_bytes;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;

use super::legible::{legible, make_schema_legible, removed_for_models};
use super::param_header::ParamHeader;
use crate::plugin::CompiledSchema;
use crate::tool_name::is_accepted_in_model_name;

/// The longest name of a tool, in characters.
const MAX_NAME_CHARS: usize = 128;
/// The largest schema of arguments, in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// The longest name that a model uses, in characters.
const MAX_MODEL_NAME_CHARS: usize = 64;
/// How many digits of a digest end a name that was shortened.
const NAME_DIGITS: usize = 6;
/// How much of a name that is no name is shown, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// The fields of a tool that are locked, as the server sent them.
const FIELDS: [&str; 5] = [
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// A tool of a server.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    /// Its name at the server.
    pub(super) name: String,
    /// What it does, for models.
    pub(super) description: String,
    /// The schema of its arguments, for models.
    pub(super) input_schema: Json,
    /// The schema of the data that it returns.
    pub(super) output_schema: Option<CompiledSchema>,
    /// What the server says about the effects of a call.
    pub(super) hints: Hints,
    /// The arguments that are sent as headers, too, over HTTP.
    pub(super) headers: Vec<ParamHeader>,
    /// The digests of its fields as the server sent them.
    pub(super) digests: BTreeMap<String, String>,
}

/// What a server says about the effects of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hints {
    /// It changes nothing.
    pub(super) is_read_only: bool,
    /// A second call with the same arguments changes nothing more.
    pub(super) is_idempotent: bool,
}

/// A tool that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OmittedTool {
    /// Its name, as far as it has one.
    pub(super) name: String,
    /// Why.
    pub(super) reason: String,
}

/// Reads the entries of a list. Returns the tools sorted by name, and those that cannot be used.
pub(super) fn read_tools(entries: Vec<Value>, uses_headers: bool) -> (Vec<Tool>, Vec<OmittedTool>) {
    let (mut tools, mut omitted) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for entry in entries {
        let name = entry
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !seen.insert(name.to_owned()) {
            continue;
        }
        match read_tool(name, &entry, uses_headers) {
            Ok(tool) => tools.push(tool),
            Err(reason) => omitted.push(OmittedTool {
                name: name.chars().take(MAX_SHOWN_CHARS).collect(),
                reason,
            }),
        }
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    omitted.sort_by(|one, other| one.name.cmp(&other.name));
    (tools, omitted)
}

/// Reads an entry. Fails with the reason why the tool cannot be used.
fn read_tool(name: &str, entry: &Value, uses_headers: bool) -> Result<Tool, String> {
    if name.is_empty() {
        return Err("it has no name".into());
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(format!(
            "its name has more than {MAX_NAME_CHARS} characters"
        ));
    }
    let schema = entry.get("inputSchema").ok_or("it has no `inputSchema`")?;
    check_input_schema(schema)?;
    let headers = if uses_headers {
        ParamHeader::read_all(schema)?
    } else {
        Vec::new()
    };
    let mut schema = schema.clone();
    let mut is_changed = make_schema_legible(&mut schema);
    let description = entry
        .get("description")
        .or_else(|| entry.get("title"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    is_changed |= description.contains(removed_for_models);
    if is_changed {
        tracing::warn!(
            "the description of the MCP tool `{}` contains characters that nobody sees; models are not told them",
            name.replace(strata_core::text::is_invisible, " ")
        );
    }
    Ok(Tool {
        name: name.to_owned(),
        description: legible(description).into_owned(),
        input_schema: Json::from(schema),
        output_schema: read_output_schema(name, entry),
        hints: read_hints(entry),
        digests: field_digests(entry),
        headers,
    })
}

impl Tool {
    /// Returns the headers with which a call is sent over HTTP.
    pub(super) fn headers_of(&self, arguments: &Value) -> Vec<(String, String)> {
        let headers = self.headers.iter();
        headers
            .filter_map(|header| header.of_arguments(arguments))
            .collect()
    }
}

fn check_input_schema(schema: &Value) -> Result<(), String> {
    let bytes = schema.to_string().len();
    if bytes > MAX_SCHEMA_BYTES {
        return Err(format!(
            "its `inputSchema` has {}, and at most {} are accepted",
            format_bytes(bytes as u64),
            format_bytes(MAX_SCHEMA_BYTES as u64)
        ));
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its `inputSchema` is not of type object".into());
    }
    compile(schema).map_err(|why| format!("its `inputSchema` cannot be used: {why}"))?;
    Ok(())
}

/// Compiles a schema of a server. Fails if it refers to another document: nothing is fetched.
fn compile(schema: &Value) -> Result<CompiledSchema, String> {
    if let Some(target) = foreign_reference(schema) {
        return Err(format!("it refers to another document, `{target}`"));
    }
    CompiledSchema::compile_bounded(schema)
}

/// Returns a reference of a schema to another document.
fn foreign_reference(schema: &Value) -> Option<String> {
    match schema {
        Value::Array(items) => items.iter().find_map(foreign_reference),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            let is_reference = matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef");
            match value {
                Value::String(target) if is_reference && !target.starts_with('#') => {
                    Some(target.chars().take(MAX_SHOWN_CHARS).collect())
                }
                other => foreign_reference(other),
            }
        }),
        _ => None,
    }
}

/// Reads the schema of what a tool returns. One that cannot be used is left out.
fn read_output_schema(name: &str, entry: &Value) -> Option<CompiledSchema> {
    let schema = entry.get("outputSchema")?;
    let compiled = if schema.to_string().len() > MAX_SCHEMA_BYTES {
        Err("it is too large".to_owned())
    } else {
        compile(schema)
    };
    compiled
        .inspect_err(|why| {
            tracing::warn!(
                "the `outputSchema` of the MCP tool `{}` cannot be used ({why}); its results are not checked",
                name.replace(strata_core::text::is_invisible, " ")
            );
        })
        .ok()
}

/// Returns the digests of the fields of an entry of a list.
fn field_digests(entry: &Value) -> BTreeMap<String, String> {
    let present = FIELDS.iter().filter_map(|field| {
        let value = Json::from(entry.get(field)?.clone());
        Some(((*field).to_owned(), to_hex(&sha256(value.as_str()))))
    });
    present.collect()
}

/// Reads hints. One that is not a boolean counts as false.
fn read_hints(entry: &Value) -> Hints {
    let annotations = entry.get("annotations").unwrap_or(&Value::Null);
    let flag = |name: &str| annotations.get(name).and_then(Value::as_bool) == Some(true);
    Hints {
        is_read_only: flag("readOnlyHint"),
        is_idempotent: flag("idempotentHint"),
    }
}

/// Returns the name by which models know a tool of a server: that of the server, two `_` and that
/// of the tool, with `_` for characters that
/// not all providers accept. A name that is too long is cut off, and ends with digits of the digest of
/// `SERVER/TOOL`.
pub fn model_tool_name(server: &str, tool: &str) -> String {
    let accepted = |c| if is_accepted_in_model_name(c) { c } else { '_' };
    let name = format!("{server}__{tool}");
    let mut name: String = name.chars().map(accepted).collect();
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        // The rule of the strictest provider, so that all know a tool by one name.
        name.insert(0, '_');
    }
    if name.len() > MAX_MODEL_NAME_CHARS {
        let digest = to_hex(&sha256(format!("{server}/{tool}")));
        name.truncate(MAX_MODEL_NAME_CHARS - NAME_DIGITS - 1);
        name = format!("{name}_{}", &digest[..NAME_DIGITS]);
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": {} })
    }

    #[track_caller]
    fn check_omitted(entry: Value, expected: &str) {
        let (tools, omitted) = read_tools(
            vec![entry, json!({ "name": "fine", "inputSchema": schema() })],
            false,
        );
        assert_eq!(tools.len(), 1, "{tools:?}");
        assert!(omitted[0].reason.contains(expected), "{omitted:?}");
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_omitted_and_the_others_stay() {
        check_omitted(json!({ "name": "", "inputSchema": schema() }), "no name");
        check_omitted(json!({ "inputSchema": schema() }), "no name");
        check_omitted(json!("text"), "no name");
        let long = "n".repeat(129);
        check_omitted(
            json!({ "name": long, "inputSchema": schema() }),
            "128 characters",
        );
        check_omitted(json!({ "name": "x" }), "no `inputSchema`");
        check_omitted(
            json!({ "name": "x", "inputSchema": "any" }),
            "not of type object",
        );
        check_omitted(
            json!({ "name": "x", "inputSchema": { "type": "array" } }),
            "not of type object",
        );
        let bad = json!({ "type": "object", "properties": { "x": { "type": "strin" } } });
        check_omitted(json!({ "name": "x", "inputSchema": bad }), "cannot be used");
        let far = json!({ "type": "object", "properties": { "x": { "$ref": "http://a/b" } } });
        check_omitted(
            json!({ "name": "x", "inputSchema": far }),
            "another document",
        );
        let large = json!({ "type": "object", "description": "x".repeat(70_000) });
        check_omitted(
            json!({ "name": "x", "inputSchema": large }),
            "at most 64 KiB",
        );
    }

    #[test]
    fn only_true_is_a_hint_and_an_output_schema_that_does_not_compile_is_left_out() {
        let hints = json!({ "readOnlyHint": "yes", "idempotentHint": true });
        let near = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/n" } }, "$defs": { "n": { "type": "integer" } } });
        let (tools, omitted) = read_tools(
            vec![
                json!({ "name": "b", "inputSchema": near, "annotations": hints }),
                json!({ "name": "a", "inputSchema": schema(), "outputSchema": { "type": "strin" }, "annotations": 5 }),
            ],
            false,
        );
        assert_eq!(omitted, []);
        assert_eq!(tools[0].name, "a");
        assert!(tools[0].output_schema.is_none());
        assert_eq!(tools[0].hints, Hints::default());
        let expected = Hints {
            is_read_only: false,
            is_idempotent: true,
        };
        assert_eq!(tools[1].hints, expected);
    }

    #[test]
    fn names_for_models_are_short_and_stay_apart() {
        assert_eq!(model_tool_name("notes", "read.all"), "notes__read_all");
        let long = "n".repeat(100);
        let (one, other) = (
            model_tool_name("s", &long),
            model_tool_name("s", &(long + "x")),
        );
        assert_eq!((one.len(), other.len()), (64, 64));
        assert_ne!(one, other);
        assert_eq!(model_tool_name("2", "x"), "_2__x");
    }
}
