//! Open requests in the file: `strata.open_requests`. Each belongs to the open activation of its role.

use strata_core::record::id::RequestId;
use strata_core::record::json::Json;
use strata_core::record::request::HumanRequest;
use strata_core::state::activation::Activation;
use strata_core::state::environment::Environment;
use strata_core::team::{Role, Team};

use super::ImportError;
use super::layout::{self, JsonDocument};
use super::located_value::LocatedValue;
use super::messages::ImportedMessages;
use super::saved_names::action_of_work;
use crate::public_event::rfc3339;

/// Returns all open requests.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> Vec<layout::RequestJson<'a>> {
    let mut requests = Vec::new();
    for (id, request) in env.open_requests() {
        if let Some(activation) = &env.role(id).activation {
            requests.push(request_json(team.role(id), activation, request));
        }
    }
    requests
}

fn request_json<'a>(
    role: &'a Role,
    activation: &Activation,
    request: &'a HumanRequest,
) -> layout::RequestJson<'a> {
    let (index, action) = action_of_work(role, activation.current_work(role));
    layout::RequestJson {
        id: &request.id.0,
        role: &role.name,
        index,
        action,
        step: activation.opened_in_step,
        question: &request.question,
        schema: request.schema.as_ref().map(JsonDocument),
        choices: &request.choices,
        default: request.default.as_ref().map(JsonDocument),
        expires: request.expires_ms.map(rfc3339),
        call: &request.call_digest,
    }
}

/// Reads the request that a role waits for.
pub(super) fn read(
    role: &Role,
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Option<HumanRequest>, ImportError> {
    let read = |place: LocatedValue<'_>| {
        place.object()?;
        if place.get_text("role")? == role.name {
            read_request(&place).map(Some)
        } else {
            Ok(None)
        }
    };
    let found = strata
        .read_items("requests", read)?
        .into_iter()
        .flatten()
        .collect();
    let name = |_: &HumanRequest| format!("a request of role `{}`", role.name);
    Ok(messages
        .warnings
        .first_per_key(|| "/strata/requests".into(), found, |_| (), name)
        .pop())
}

fn read_request(place: &LocatedValue<'_>) -> Result<HumanRequest, ImportError> {
    let id = place.get_text("id")?;
    if id.is_empty() {
        return Err(place.invalid("has no `id`"));
    }
    let json = |name: &str| place.get(name).map(|value| value.json()).transpose();
    let expires = |place: LocatedValue<'_>| {
        let time: Result<jiff::Timestamp, _> = place.text()?.parse();
        time.map(|time| time.as_millisecond())
            .map_err(|_| place.invalid("is no time, e.g. `2030-01-31T12:00:00Z`"))
    };
    Ok(HumanRequest {
        id: RequestId(id),
        question: place.get_text("question")?,
        schema: json("schema")?,
        choices: place.get_texts("choices")?.unwrap_or_default(),
        // It may be `null`, although that usually means that a field is missing.
        default: json("default")?.or_else(|| place.value().get("default").map(|_| Json::null())),
        expires_ms: place.get("expires").map(expires).transpose()?,
        call_digest: place.get_text("call")?,
    })
}
