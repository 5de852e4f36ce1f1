//! Open requests in the file: `strata.requests`. Each belongs to the open activation of its role.

use std::borrow::Cow;

use strata_core::record::request::HumanRequest;
use strata_core::record::work::{CallKey, Work};
use strata_core::state::environment::Environment;
use strata_core::team::{Role, Team};

use super::called;
use super::layout::RequestJson;
use super::messages::ImportedMessages;
use super::saved_names::action_of_work;

/// Returns all open requests.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> Vec<RequestJson<'a>> {
    let mut requests = Vec::new();
    for (call, open) in env.open_calls(team) {
        let step = open.activation.opened_in_step;
        for request in open.requests() {
            requests.push(list_entry(team, call, step, request));
        }
    }
    requests
}

fn list_entry<'a>(
    team: &'a Team,
    call: CallKey,
    step: u64,
    request: &'a HumanRequest,
) -> RequestJson<'a> {
    let role = team.role(call.role);
    let (index, action) = action_of_work(role, Some(call.work));
    let (turn, tool_call) = match call.work {
        Work::ToolCall { turn, call, .. } => (Some(turn), Some(call)),
        _ => (None, None),
    };
    RequestJson {
        role: Some(Cow::Borrowed(&role.name)),
        index: index.into(),
        action: action.into(),
        step: step.into(),
        turn,
        tool_call,
        nested: call.work.nested().unwrap_or_default(),
        via: called::write_path(team, &call.via),
        ..request.into()
    }
}

/// Takes the request that a role waits for from the list of all requests.
pub(super) fn take<'a>(
    role: &Role,
    requests: &mut Vec<RequestJson<'a>>,
    messages: &mut ImportedMessages<'_>,
) -> Option<RequestJson<'a>> {
    let is_of_role = |request: &RequestJson<'_>| {
        // Those of tool calls are with the calls, those of called roles with their activations.
        let is_of_mail = request.tool_call.is_none() && request.via.is_empty();
        request.role.as_deref() == Some(&*role.name) && is_of_mail
    };
    let found: Vec<RequestJson<'a>> = requests
        .extract_if(.., |request| is_of_role(request))
        .collect();
    let name = |_: &RequestJson<'_>| format!("a request of role `{}`", role.name);
    let warnings = &mut messages.warnings;
    let mut found = warnings.first_per_key(|| "/strata/requests".into(), found, |_| (), name);
    found.pop()
}
