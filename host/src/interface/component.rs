//! The functions that a component exports, as JSON that a model can read: each as an action by `function = "…"`.

use serde_json::{Map, Value, json};
use wit_component::DecodedWasm;
use wit_parser::{Function, FunctionKind, Resolve, WorldId, WorldItem};

use super::{Schemas, TooLarge};
use crate::sandbox::{Manifest, is_of_tools};

/// Where the host's own interfaces are; a component's handler is described by itself.
const OWN: &str = "strata:action/";

/// `functions.NAME`, by the names that team files use, and the types they share under `$defs`. Nothing where there are
/// none.
pub fn document(component: &[u8]) -> Result<Value, TooLarge> {
    let Some((resolve, world)) = decode(component) else {
        return Ok(json!({}));
    };
    let mut schemas = Schemas::new(&resolve);
    let functions = functions(&resolve, world);
    let functions: Map<String, Value> = functions
        .into_iter()
        .map(|(name, f)| (name, schemas.function(f)))
        .collect();
    if functions.is_empty() {
        return Ok(json!({}));
    }
    let definitions = schemas.definitions()?;
    Ok(json!({ "functions": functions, "$defs": definitions }))
}

/// What there is to say of a function as an action: its name, and what its author wrote of it.
pub fn manifest(component: &[u8], function: &str) -> Manifest {
    let decoded = decode(component);
    let written = decoded.as_ref().and_then(|(resolve, world)| {
        let functions = functions(resolve, *world);
        functions
            .into_iter()
            .find(|(name, _)| name == function)?
            .1
            .docs
            .contents
            .clone()
    });
    Manifest {
        name: function.to_owned(),
        description: super::paragraphs(&written.unwrap_or_default()),
        ..Manifest::default()
    }
}

fn decode(component: &[u8]) -> Option<(Resolve, WorldId)> {
    match wit_component::decode(component) {
        Ok(DecodedWasm::Component(resolve, world)) => Some((resolve, world)),
        Ok(DecodedWasm::WitPackage(..)) | Err(_) => None,
    }
}

/// Those of the author's that stand by themselves: methods need a resource.
fn functions(resolve: &Resolve, world: WorldId) -> Vec<(String, &Function)> {
    let mut found = Vec::new();
    for (key, item) in &resolve.worlds[world].exports {
        let name = resolve.name_world_key(key);
        match item {
            WorldItem::Function(function) => found.push((name, function)),
            WorldItem::Interface { id, .. } if !name.starts_with(OWN) => {
                let functions = resolve.interfaces[*id].functions.iter();
                found.extend(functions.map(|(function, it)| (format!("{name}#{function}"), it)));
            }
            _ => {}
        }
    }
    found.retain(|(name, function)| {
        let first = function.params.first().map(|param| param.name.as_str());
        matches!(function.kind, FunctionKind::Freestanding) && !is_of_tools(name, first)
    });
    found
}
