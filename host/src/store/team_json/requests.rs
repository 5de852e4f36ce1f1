//! Open requests in the file: `strata.requests`. Each belongs to the open activation of its role.

use strata_core::activation::Activation;
use strata_core::environment::Environment;
use strata_core::id::RequestId;
use strata_core::json::Json;
use strata_core::request::Request;
use strata_core::team::{Role, Team};

use super::ImportError;
use super::layout::{self, Document};
use super::messages::Messages;
use super::names::place_of;
use super::place::Place;
use crate::public_event::rfc3339;

/// Returns all open requests.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> Vec<layout::Request<'a>> {
    let mut requests = Vec::new();
    for (id, request) in env.requests() {
        if let Some(activation) = &env.role(id).activation {
            requests.push(layout_of(team.role(id), activation, request));
        }
    }
    requests
}

fn layout_of<'a>(
    role: &'a Role,
    activation: &Activation,
    request: &'a Request,
) -> layout::Request<'a> {
    let (index, action) = place_of(role, activation.work(role));
    layout::Request {
        id: &request.id.0,
        role: &role.name,
        index,
        action,
        step: activation.opened,
        question: &request.question,
        schema: request.schema.as_ref().map(Document),
        choices: &request.choices,
        default: request.default.as_ref().map(Document),
        expires: request.expires_ms.map(rfc3339),
        call: &request.call,
    }
}

/// Reads the request that a role waits for.
pub(super) fn read(
    role: &Role,
    strata: &Place<'_>,
    messages: &mut Messages<'_>,
) -> Result<Option<Request>, ImportError> {
    let read = |place: Place<'_>| {
        place.object()?;
        if place.get_text("role")? == role.name {
            request(&place).map(Some)
        } else {
            Ok(None)
        }
    };
    let found = strata
        .each("requests", read)?
        .into_iter()
        .flatten()
        .collect();
    let name = |_: &Request| format!("a request of role `{}`", role.name);
    Ok(messages
        .repeats
        .keep_first(|| "/strata/requests".into(), found, |_| (), name)
        .pop())
}

fn request(place: &Place<'_>) -> Result<Request, ImportError> {
    let id = place.get_text("id")?;
    if id.is_empty() {
        return Err(place.invalid("has no `id`"));
    }
    let json = |name: &str| place.get(name).map(|value| value.json()).transpose();
    let expires = |place: Place<'_>| {
        let time: Result<jiff::Timestamp, _> = place.text()?.parse();
        time.map(|time| time.as_millisecond())
            .map_err(|_| place.invalid("is no time, e.g. `2030-01-31T12:00:00Z`"))
    };
    Ok(Request {
        id: RequestId(id),
        question: place.get_text("question")?,
        schema: json("schema")?,
        choices: place.texts("choices")?.unwrap_or_default(),
        // It may be `null`, although that usually means that a field is missing.
        default: json("default")?.or_else(|| place.value().get("default").map(|_| Json::null())),
        expires_ms: place.get("expires").map(expires).transpose()?,
        call: place.get_text("call")?,
    })
}
