//! The names of what roles do.

use strata_core::machine::stepper::Stepper;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::{CallKey, Work};
use strata_core::team::{Role, SUMMARY, THINK, TURN};

/// Returns the index and the name of what a call runs, as public events have them. A tool of an MCP
/// server is not part of the team; its name is `SERVER/TOOL`.
pub fn index_and_name_of_call(stepper: &Stepper, call: CallKey) -> (Option<u16>, &str) {
    let activation = stepper.env().activation(call.activation());
    match activation.and_then(|activation| activation.tool_call(call.work)) {
        Some(tool_call) if call.work.calls_server() => (None, &tool_call.tool),
        _ => index_and_name(stepper.team().role(call.role), Some(call.work)),
    }
}

/// Returns the index of an action in its role and its name. The choice of an action (`think`) and
/// the answer of a person (`answer`) are not actions and have no index.
pub fn index_and_name(role: &Role, work: Option<Work>) -> (Option<u16>, &str) {
    match work {
        Some(Work::Act { action, .. }) => (Some(action.0), &role.action(action).name),
        Some(Work::Plan) => (Some(0), &role.actions[0].name),
        Some(Work::Answer) => (None, "answer"),
        Some(Work::Turn { .. }) => (None, TURN),
        Some(Work::Summary { .. }) => (None, SUMMARY),
        Some(Work::ToolCall { tool, .. }) => {
            let index = match tool {
                ToolRef::Action(action) => Some(action.0),
                ToolRef::Handoff(_)
                | ToolRef::Role(_)
                | ToolRef::Host(_)
                | ToolRef::Server { .. } => None,
            };
            (index, role.tool_name(tool))
        }
        Some(Work::Think { .. }) | None => (None, THINK),
    }
}
