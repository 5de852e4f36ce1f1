//! The names of what roles do.

use strata_core::record::turn::ToolRef;
use strata_core::record::work::Work;
use strata_core::team::{Role, SUMMARY, THINK, TURN};

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
