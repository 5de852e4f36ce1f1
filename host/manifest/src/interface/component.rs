//! Describes components as JSON that a model can read: their manifests, and the functions that they
//! export, each of which can be an action by `function = "…"`.

use serde_json::{Map, Value, json};
use strata_base::text::ordered_json::OrderedJson;
use strata_core::record::id::Digest;
use strata_core::record::json;
use wit_component::DecodedWasm;
use wit_parser::{Function, FunctionKind, Resolve, WorldId, WorldItem};

use super::{SchemaWriter, SchemasTooLarge};

use strata_sandbox::{ComponentManifest, is_toolchain_function};

/// The prefix of the host's own interfaces. They are excluded, because a component's handler
/// describes itself.
const HOST_PACKAGE: &str = "strata:action/";

/// Returns `functions.NAME`, with the names that team files use, and the types they share under
/// `$defs`. Returns an empty object if there are no functions.
pub fn functions_document(component: &[u8]) -> Result<Value, SchemasTooLarge> {
    let Some((resolve, world)) = decode_component(component) else {
        return Ok(json!({}));
    };
    let mut schemas = SchemaWriter::new(&resolve);
    let functions = callable_functions(&resolve, world);
    let functions: Map<String, Value> = functions
        .into_iter()
        .map(|(name, f)| (name, schemas.function_schema(f)))
        .collect();
    if functions.is_empty() {
        return Ok(json!({}));
    }
    let definitions = schemas.definitions()?;
    Ok(json!({ "functions": functions, "$defs": definitions }))
}

/// Returns the manifest of a function that is used as an action: its name, its documentation, and
/// the schema of its parameters.
pub fn function_manifest(component: &[u8], function: &str) -> ComponentManifest {
    let decoded = decode_component(component);
    let found = decoded.as_ref().and_then(|(resolve, world)| {
        let functions = callable_functions(resolve, *world);
        let (_, found) = functions.into_iter().find(|(name, _)| name == function)?;
        Some(found)
    });
    let written = found.and_then(|found| found.docs.contents.as_deref());
    ComponentManifest {
        name: function.to_owned(),
        description: super::join_lines(written.unwrap_or_default()),
        input_schema: found.and_then(|found| parameters_schema(component, function, found)),
        ..ComponentManifest::default()
    }
}

/// Returns the JSON Schema of a function's parameters, in their order, as text. Returns `None` if it
/// would be too large.
fn parameters_schema(component: &[u8], name: &str, function: &Function) -> Option<String> {
    let mut document = functions_document(component).ok()?;
    let mut schema = document["functions"][name]["parameters"].take();
    let definitions = document["$defs"].take();
    if schema.is_null() {
        return None;
    }
    if definitions.as_object().is_some_and(|all| !all.is_empty()) {
        schema["$defs"] = definitions;
    }
    let mut schema = OrderedJson::from(&schema);
    if let OrderedJson::Object(fields) = &mut schema
        && let Some(OrderedJson::Object(properties)) = fields.get_mut("properties")
    {
        properties.sort_by_cached_key(|name, _| {
            function.params.iter().position(|param| param.name == *name)
        });
    }
    Some(schema.to_string())
}

/// Returns a component's manifest as JSON, with its schemas as JSON rather than as text.
pub fn manifest_document(digest: &Digest, manifest: &ComponentManifest) -> Value {
    let mut document = json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "needs": manifest.needs,
        "sha256": digest.0,
    });
    for (key, text) in [
        ("config_schema", &manifest.config_schema),
        ("input_schema", &manifest.input_schema),
        ("output_schema", &manifest.output_schema),
    ] {
        if let Some(text) = text {
            // A text that is not valid JSON is shown as it is.
            document[key] =
                json::parse_untrusted(text).unwrap_or_else(|_| Value::String(text.clone()));
        }
    }
    document
}

fn decode_component(component: &[u8]) -> Option<(Resolve, WorldId)> {
    match wit_component::decode(component) {
        Ok(DecodedWasm::Component(resolve, world)) => Some((resolve, world)),
        Ok(DecodedWasm::WitPackage(..)) | Err(_) => None,
    }
}

/// Returns the functions of the author's own interfaces that can be called by themselves, which
/// excludes methods of resources.
fn callable_functions(resolve: &Resolve, world: WorldId) -> Vec<(String, &Function)> {
    let mut found = Vec::new();
    for (key, item) in &resolve.worlds[world].exports {
        let name = resolve.name_world_key(key);
        match item {
            WorldItem::Function(function) => found.push((name, function)),
            WorldItem::Interface { id, .. } if !name.starts_with(HOST_PACKAGE) => {
                let functions = resolve.interfaces[*id].functions.iter();
                found.extend(functions.map(|(function, it)| (format!("{name}#{function}"), it)));
            }
            _ => {}
        }
    }
    found.retain(|(name, function)| {
        let first = function.params.first().map(|param| param.name.as_str());
        matches!(function.kind, FunctionKind::Freestanding) && !is_toolchain_function(name, first)
    });
    found
}
