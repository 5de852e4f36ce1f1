//! Writes in doubt: calls of which nobody knows whether they were carried out.

use strata_core::machine::stepper::{Stepper, component_slot};
use strata_core::record::host_call::HostCallKind;
use strata_core::record::work::CallKey;

/// A call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInDoubt {
    /// The name that the operator uses: `ROLE.ACTION`, followed by `:2` and so on if the action has
    /// several.
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

/// Returns `ROLE.ACTION` for a call.
pub fn action_name_of(stepper: &Stepper, call: CallKey) -> String {
    let role = stepper.team().role(call.role);
    let slot = component_slot(role, call.role, call.work);
    slot.map_or_else(|| role.name.clone(), |slot| stepper.team().slot_name(slot))
}
