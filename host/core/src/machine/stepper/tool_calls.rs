//! Which tool calls of a reply are made, and which of them can start.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::record::turn::{CallDecision, CallEffect, CallPlan, TurnOutcome, TurnReply};
use crate::record::work::Work;
use crate::state::activation::{Activation, Phase};
use crate::team::Role;
use crate::team::tools::ToolLoop;

/// Returns the tool calls of an activation that can be started now. A call that must run alone waits
/// until nothing else runs, and one that ends the activation waits for all others of its turn.
pub(super) fn startable_tool_calls<'a>(
    tools: &ToolLoop,
    activation: &'a Activation,
) -> impl Iterator<Item = Work> + use<'a> {
    let mut running = 0;
    let mut runs_alone = false;
    let mut open_before_the_end = 0;
    let mut ready = Vec::new();
    for (work, call) in activation.tool_calls() {
        let Some(target) = call.target.filter(|_| call.outcome.is_none()) else {
            continue;
        };
        let is_exclusive = tools.is_exclusive(target.tool);
        if matches!(call.phase, Phase::Running | Phase::BackingOff) {
            running += 1;
            runs_alone |= is_exclusive;
        }
        if target.effect == CallEffect::Continues {
            open_before_the_end += 1;
        }
        if call.is_ready() {
            ready.push((work, is_exclusive, target.effect));
        }
    }
    ready
        .into_iter()
        .filter_map(move |(work, is_exclusive, effect)| {
            let may_run = !runs_alone && (running == 0 || !is_exclusive);
            let is_due = effect == CallEffect::Continues || open_before_the_end == 0;
            (may_run && is_due).then_some(work)
        })
}

/// Rejects the calls of a reply that are beyond the limit, and those that would end the activation
/// although another one does.
pub(super) fn limit_calls(role: &Role, activation: &Activation, reply: &mut TurnReply) {
    let (Some(tools), TurnOutcome::Calls(plans)) = (role.tool_loop(), &mut reply.outcome) else {
        return;
    };
    let max = tools.max_calls;
    let mut made = activation.tool_calls().count();
    let mut ending: Option<String> = None;
    for CallPlan { tool, decision } in plans {
        let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) = decision else {
            continue;
        };
        let reason = if made >= max as usize {
            format!("no more than {max} tool calls may be made, and they were made")
        } else if let (CallEffect::Ends, Some(first)) = (target.effect, &ending) {
            format!("`{first}` is called in the same turn, and only one call can end the work")
        } else {
            made += 1;
            if target.effect == CallEffect::Ends {
                ending = Some(tool.clone());
            }
            continue;
        };
        *decision = CallDecision::Reject(reason);
    }
}
