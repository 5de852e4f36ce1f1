//! What a component says about itself, as JSON that a model can read.

use serde_json::{Value, json};
use strata_core::id::Digest;
use strata_core::json;

use crate::sandbox::Manifest;

/// A component's manifest, with its schemas as JSON rather than as the text they come in.
pub fn document(digest: &Digest, manifest: &Manifest) -> Value {
    let mut document = json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "needs": manifest.needs,
        "sha256": digest.0,
    });
    for (key, text) in [
        ("config_schema", &manifest.config_schema),
        ("output_schema", &manifest.output_schema),
    ] {
        if let Some(text) = text {
            // What is no JSON is shown as what it is.
            document[key] = json::read(text).unwrap_or_else(|_| Value::String(text.clone()));
        }
    }
    document
}
