//! Open requests in the file: `strata.open_requests`. Each belongs to the open activation of its role.

use serde_json::{Value, json};
use strata_core::record::id::RequestId;
use strata_core::record::json::Json;
use strata_core::record::request::{HumanRequest, ProposedCall};
use strata_core::record::work::{CallKey, Work};
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;
use strata_core::team::{Role, Team};

use super::ImportError;
use super::called;
use super::layout::{self, JsonDocument};
use super::located_value::LocatedValue;
use super::messages::ImportedMessages;
use super::saved_names::action_of_work;
use crate::public_event::rfc3339;

/// Returns all open requests.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> Vec<layout::RequestJson<'a>> {
    let mut requests = Vec::new();
    for (call, open) in env.open_calls(team) {
        if let Phase::WaitingForHuman(request) = open.phase {
            let step = open.activation.opened_in_step;
            requests.push(request_json(team, call, step, request));
        }
    }
    requests
}

fn request_json<'a>(
    team: &'a Team,
    call: CallKey,
    step: u64,
    request: &'a HumanRequest,
) -> layout::RequestJson<'a> {
    let role = team.role(call.role);
    let (index, action) = action_of_work(role, Some(call.work));
    let (turn, tool_call) = match call.work {
        Work::ToolCall { turn, call, .. } => (Some(turn), Some(call)),
        _ => (None, None),
    };
    layout::RequestJson {
        id: &request.id.0,
        role: &role.name,
        index,
        action,
        step,
        turn,
        tool_call,
        via: called::via_json(team, &call.via),
        tool: request.proposed.as_ref().map(|call| &*call.tool),
        arguments: request
            .proposed
            .as_ref()
            .map(|call| JsonDocument(&call.arguments)),
        question: &request.question,
        schema: request.schema.as_ref().map(JsonDocument),
        choices: &request.choices,
        default: request.default.as_ref().map(JsonDocument),
        expires: request.expires_ms.map(rfc3339),
        call: &request.call_digest,
    }
}

/// Returns what a request asks, as JSON.
pub(super) fn to_json(request: &HumanRequest) -> Value {
    let value = |value: &Option<Json>| value.as_ref().map(|value| value.value());
    let mut fields = json!({
        "id": request.id.0, "question": request.question, "choices": request.choices,
        "call": request.call_digest,
    });
    let mut insert = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields[name] = value;
        }
    };
    insert("schema", value(&request.schema));
    insert("default", value(&request.default));
    insert(
        "expires",
        request.expires_ms.map(|time| rfc3339(time).into()),
    );
    if let Some(proposed) = &request.proposed {
        insert("tool", Some(proposed.tool.as_str().into()));
        insert("arguments", Some(proposed.arguments.value()));
    }
    fields
}

/// Reads the request that a role waits for.
pub(super) fn read(
    role: &Role,
    strata: &LocatedValue<'_>,
    messages: &mut ImportedMessages<'_>,
) -> Result<Option<HumanRequest>, ImportError> {
    let read = |place: LocatedValue<'_>| {
        place.object()?;
        // Those of tool calls are with the calls, those of called roles with their activations.
        let is_of_role = place.get("tool_call").is_none() && place.get("via").is_none();
        if place.get_text("role")? == role.name && is_of_role {
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

/// Reads a request.
pub(super) fn read_request(place: &LocatedValue<'_>) -> Result<HumanRequest, ImportError> {
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
        proposed: match place.get("tool") {
            None => None,
            Some(tool) => Some(ProposedCall {
                tool: tool.text()?.to_owned(),
                arguments: json("arguments")?.unwrap_or_else(Json::null),
            }),
        },
    })
}
