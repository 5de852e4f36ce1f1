//! An open request to a person, as it is shown.

use serde_json::{Value, json};
use strata_host::clock::rfc3339;
use strata_host::storage::ServedRun;
use strata_host::view::RequestView;

/// Returns an open request of a run.
pub fn request_json(run: &ServedRun, view: &RequestView) -> Value {
    let value =
        |json: &Option<strata_core::record::json::Json>| json.as_ref().map(|json| json.value());
    json!({
        "id": view.id, "run": run.name(), "run_id": run.id, "role": view.role, "action": view.action,
        "question": view.question, "schema": value(&view.schema),
        "tool": view.arguments.as_ref().map(|_| view.action.clone()),
        "arguments": value(&view.arguments), "said": view.said,
        "choices": view.choices, "fields": view.fields, "default": value(&view.default),
        "expires": view.expires_ms.map(rfc3339),
    })
}
