//! Open requests in the file: `strata.requests`. They are written for people; that a call waits for one
//! is in the machine part of its activation.

use strata_core::record::human_request::HumanRequest;
use strata_core::record::work::{CallKey, Work};
use strata_core::state::activation::Activation;
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use super::field::{JsonDocument, TimeText};
use super::layout::RequestJson;
use super::open::write_path;
use super::saved_names::action_of_call;

/// Returns all open requests.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> Vec<RequestJson<'a>> {
    let mut requests = Vec::new();
    for (call, open) in env.open_calls(team) {
        let step = open.activation.opened_in_step;
        for request in open.requests() {
            requests.push(list_entry(team, (call, open.activation), step, request));
        }
    }
    requests
}

fn list_entry<'a>(
    team: &'a Team,
    (call, activation): (CallKey, &'a Activation),
    step: u64,
    request: &'a HumanRequest,
) -> RequestJson<'a> {
    let HumanRequest {
        id,
        question,
        schema,
        choices,
        default,
        expires_ms,
        proposed,
        asked_by,
    } = request;
    let role = team.role(call.role);
    let (index, action) = action_of_call(role, activation, call.work);
    let (turn, tool_call) = match call.work {
        Work::ToolCall { turn, call, .. } => (Some(turn), Some(call)),
        _ => (None, None),
    };
    let (proposed, asked_by) = (proposed.as_ref(), asked_by.as_ref());
    let proposed_tool = proposed.map(|call| &*call.tool);
    let input_schema = proposed.and_then(|call| call.input_schema.as_ref());
    RequestJson {
        id: &id.0,
        role: &role.name,
        index,
        action,
        step,
        turn,
        tool_call,
        nested: call.work.nested().unwrap_or_default(),
        via: write_path(team, &call.via),
        tool: proposed_tool.or_else(|| Some(&*asked_by?.tool)),
        server: asked_by.map(|asking| &*asking.server),
        url: asked_by.and_then(|asking| asking.url.as_deref()),
        arguments: proposed.map(|call| JsonDocument::of(&call.arguments)),
        input_schema: input_schema.map(JsonDocument::of),
        question,
        schema: schema.as_ref().map(JsonDocument::of),
        choices: choices.as_slice().into(),
        default: default.as_ref().map(JsonDocument::of),
        expires: expires_ms.map(TimeText),
    }
}
