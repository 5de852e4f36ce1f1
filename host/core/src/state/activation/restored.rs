//! Activations that were read from a file of somebody else: what does not go together is put right,
//! so that the team can go on from it.

use super::{Activation, CallProgress, Phase, TurnCall};
use crate::record::turn::ToolRef;
use crate::state::kept_bytes::replacement_bytes;
use crate::team::Role;

impl Activation {
    /// Makes an activation consistent: the phases of its calls, and what follows from other parts of it.
    /// A call to a receiver that asked humans is made again, and asks again.
    pub fn put_right(&mut self, role: &Role) {
        let made: usize = self.done.iter().map(|done| 1 + done.emissions.len()).sum();
        self.message_count = self.message_count.max(made as u32);
        self.count_memory();
        forget_asking(&mut self.current_call);
        for done in &mut self.done {
            forget_asking(&mut done.progress);
        }
        for reverted in &mut self.reverted {
            forget_asking(&mut reverted.progress);
        }
        for call in self.turns.reopen_all().flat_map(|turn| &mut turn.calls) {
            call.progress.for_each_nested_mut(&mut TurnCall::put_right);
            call.put_right();
        }
        let is_at_work = self.current_work(role).is_some();
        if !is_at_work {
            self.phase = match self.has_open_tool_calls() {
                true => Phase::CallingTools,
                false => Phase::Complete,
            };
        } else if matches!(
            self.phase,
            Phase::Complete | Phase::CallingTools | Phase::CallingRole
        ) {
            self.phase = Phase::Ready;
        }
    }

    /// Computes what of the memory of the conversation follows from its replacements and the turns.
    fn count_memory(&mut self) {
        let kept = self.memory.replacements.iter().map(replacement_bytes);
        self.memory.kept_bytes = kept.sum();
        let cut = self.memory.range().cut.turns;
        self.memory.kept_results = self.results_kept_in(0..cut);
    }

    /// Returns whether its role has the tools that it calls, as far as they are not those of servers, and
    /// whether all calls that have not ended have arguments.
    pub fn has_possible_calls(&self, role: &Role) -> bool {
        let has_tool = |tool| match (role.tool_loop(), tool) {
            (None, _) => false,
            (Some(_), ToolRef::Server { .. }) => true,
            (Some(tools), tool) => tools.tool(tool).is_some(),
        };
        let mut all = self.all_tool_calls();
        let mut open = self.unsettled_tool_calls();
        all.all(|(_, call)| call.target.is_none_or(|target| has_tool(target.tool)))
            && open.all(|(work, _)| self.arguments(work).is_some())
    }
}

impl TurnCall {
    fn put_right(&mut self) {
        forget_asking(&mut self.progress);
        if self.outcome.is_some() {
            self.phase = Phase::Complete;
            return;
        }
        let waits_for_none = self.phase == Phase::CallingTools && self.progress.nested.is_empty();
        if self.phase == Phase::Complete || waits_for_none {
            self.phase = Phase::Ready;
        }
    }
}

fn forget_asking(progress: &mut CallProgress) {
    progress.asking = None;
}
