//! Describes the host's own interfaces (`wit/`, as embedded in this program) as one JSON document.

use serde_json::{Map, Value, json};
use strata_sandbox::host_wit::{host_interfaces, parse_host_wit};
use wit_parser::{Interface, InterfaceId};

use super::{SchemaWriter, with_description};

/// Returns all interfaces as `interfaces.NAME.functions.NAME`, and the types they share under
/// `$defs`.
///
/// The parameters of a function are the schema of one object, as in the descriptions of tools for
/// models.
pub fn document() -> Value {
    let (resolve, package) = parse_host_wit();
    let provided: Vec<InterfaceId> = host_interfaces(&resolve, package).collect();
    let package = &resolve.packages[package];
    let mut schemas = SchemaWriter::new(&resolve);
    let mut interfaces = Map::new();
    for (name, id) in &package.interfaces {
        let interface = &resolve.interfaces[*id];
        if !interface.functions.is_empty() {
            let by = if provided.contains(id) {
                "host"
            } else {
                "action"
            };
            interfaces.insert(
                name.clone(),
                describe_interface(&mut schemas, interface, by),
            );
        }
    }
    let definitions = schemas
        .definitions()
        .expect("the host's own interfaces fit in a document");
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": package.name.to_string(),
        "description": "What an action can call (provided by the host), and what the host calls of it (provided by \
                        the action). Each function has its parameters, what it returns, and how it fails.",
        "interfaces": interfaces,
        "$defs": definitions,
    })
}

/// Returns the name and version of the WIT package.
pub fn package_name() -> String {
    let (resolve, package) = parse_host_wit();
    resolve.packages[package].name.to_string()
}

fn describe_interface(schemas: &mut SchemaWriter<'_>, interface: &Interface, by: &str) -> Value {
    let functions = interface.functions.iter();
    let functions: Map<String, Value> = functions
        .map(|(name, f)| (name.clone(), schemas.function_schema(f)))
        .collect();
    with_description(
        &interface.docs,
        json!({ "provided_by": by, "functions": functions }),
    )
}
