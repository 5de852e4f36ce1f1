//! An open request to a person, as it is shown.

use serde_json::{Value, json};
use strata_core::machine::stepper::Stepper;
use strata_host::clock::rfc3339;
use strata_host::storage::ServedRun;
use strata_host::view::{NewsView, RequestView};

use crate::markdown::cut_texts;

/// Returns an open request of a run with this state, which was made at `opened_ms`.
pub fn request_json(
    run: &ServedRun,
    stepper: &Stepper,
    view: &RequestView,
    opened_ms: Option<i64>,
) -> Value {
    let env = stepper.env();
    let mut open = env.activations().flat_map(|(_, activation)| {
        let requests = activation.open_requests();
        requests.map(move |request| (activation, request))
    });
    let found = open.find(|(_, request)| request.id.0 == view.id);
    let input_schema = found
        .and_then(|(_, request)| request.proposed.as_ref())
        .and_then(|call| call.input_schema.clone());
    let asked_by = found.and_then(|(_, request)| request.asked_by.as_ref());
    // What the role works on is what the question is about.
    let news: Vec<NewsView> = found.map_or_else(Vec::new, |(activation, _)| {
        let messages = activation.news.iter().map(|message| env.message(*message));
        messages
            .map(|message| NewsView::from_message(message))
            .collect()
    });
    let value =
        |json: &Option<strata_core::record::json::Json>| json.as_ref().map(|json| json.value());
    let mut request = json!({
        "id": view.id, "run": run.name(), "run_id": run.id, "tenant": run.tenant, "role": view.role, "action": view.action,
        "question": view.question, "schema": value(&view.schema),
        "tool": view.arguments.as_ref().map(|_| view.action.clone()),
        "arguments": value(&view.arguments), "input_schema": value(&input_schema), "said": view.said,
        "server": asked_by.map(|by| &by.server), "url": asked_by.and_then(|by| by.url.as_ref()),
        "news": news, "choices": view.choices, "fields": view.fields, "default": value(&view.default),
        "opened": opened_ms.map(rfc3339), "expires": view.expires_ms.map(rfc3339),
    });
    if let Some(news) = request.get_mut("news") {
        cut_texts(news);
    }
    request
}
