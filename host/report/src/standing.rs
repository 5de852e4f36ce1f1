//! What a report says about a run besides what is recorded of it: which process works on it, what
//! keeps it from going on, and the commands that continue it.

use std::collections::BTreeMap;

use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::FaultKind;
use strata_core::record::id::RoleId;
use strata_core::record::work::CallKey;
use strata_services::tools::ToolRole;

use super::{AttemptEntry, StorageOverview};
use strata_view::{HolderState, RunEnding};

/// What is known of a run besides its state and its events.
#[derive(Default)]
pub struct RunContext {
    /// What keeps the run from going on; `None` if the reported state is an earlier one.
    pub standing: Option<Standing>,
    /// What the storage holds.
    pub storage: StorageOverview,
    /// States of other lineages, with the time at which each was reached, if known.
    pub other_states: Vec<(Stepper, Option<i64>)>,
    /// How the models of roles that work with tools are asked, by role.
    pub tool_roles: BTreeMap<RoleId, ToolRole>,
}

/// What keeps a run from going on, and how to continue it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Which process works on the run.
    pub holder: HolderState,
    /// Whether it is saved as running although no process works on it.
    pub is_cut_off: bool,
    /// The open faults and requests, and the commands.
    pub ending: RunEnding,
    /// The calls of the faults of `ending` with the numbers of the attempts that failed, in the same
    /// order.
    pub failed_calls: Vec<(CallKey, u32)>,
}

impl Standing {
    /// Creates it for a state, the end of which is `ending`.
    pub fn new(stepper: &Stepper, holder: HolderState, ending: RunEnding) -> Self {
        let team = stepper.team();
        let mut failed_calls = Vec::new();
        for (call, _, fault) in stepper.env().open_faults(team) {
            // As in `ending`: what the operator interrupted is no fault.
            if fault.kind != FaultKind::Interrupted {
                let open = stepper.env().open_call(team, call);
                failed_calls.push((call, open.map_or(0, |open| open.progress.attempts)));
            }
        }
        Self {
            holder,
            is_cut_off: holder.is_cut_off(stepper),
            ending: RunEnding {
                in_doubt: holder.writes_in_doubt(stepper),
                ..ending
            },
            failed_calls,
        }
    }

    /// Returns the position of the open fault in which an attempt ended.
    pub fn fault_of(&self, attempt: &AttemptEntry) -> Option<usize> {
        let failed = (attempt.call, attempt.number);
        self.failed_calls.iter().position(|call| *call == failed)
    }
}
