//! Writes in doubt: calls of which nobody knows whether they were carried out.

use strata_core::machine::stepper::Stepper;
use strata_core::record::host_call::HostCallKind;
use strata_core::record::work::{CallKey, Work};

use super::index_and_name_of_call;

/// A call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInDoubt {
    /// The name that the operator uses: `ROLE.ACTION`, or `ROLE.SERVER/TOOL` for a tool of an MCP server, followed by `:2`
    /// and so on if it has several.
    pub id: String,
    /// The call, for example `POST https://example.com/orders`.
    pub description: String,
    /// The call of the action.
    pub call: CallKey,
    /// The kind of call that is in doubt.
    pub kind: HostCallKind,
    /// Its number among the host calls of the action.
    pub index: usize,
}

impl CallInDoubt {
    /// Returns whether a model called a tool of an MCP server, so that it can be told that the result is unknown.
    pub fn can_be_unknown(&self) -> bool {
        self.kind == HostCallKind::Mcp && matches!(self.call.work, Work::ToolCall { .. })
    }
}

/// Returns the calls in doubt.
pub fn calls_in_doubt(stepper: &Stepper) -> Vec<CallInDoubt> {
    let mut doubts: Vec<CallInDoubt> = Vec::new();
    for (call, index, write) in stepper.env().writes_in_doubt(stepper.team()) {
        let name = action_name_of(stepper, call);
        // Calls of one action may be open in several activations, and several times in one.
        let nth = 1 + doubts
            .iter()
            .filter(|doubt| action_name_of(stepper, doubt.call) == name)
            .count();
        let id = if nth == 1 {
            name
        } else {
            format!("{name}:{nth}")
        };
        doubts.push(CallInDoubt {
            id,
            description: write.intent.description.clone(),
            call,
            kind: write.intent.kind,
            index,
        });
    }
    doubts
}

/// Returns `ROLE.ACTION` for a call, or `ROLE.SERVER/TOOL`, as public events name it.
pub fn action_name_of(stepper: &Stepper, call: CallKey) -> String {
    let (_, action) = index_and_name_of_call(stepper, call);
    format!("{}.{action}", stepper.team().role(call.role).name)
}
