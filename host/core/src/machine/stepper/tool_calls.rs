//! Which tool calls of a reply are made, and which of them can start.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::record::turn::{CallDecision, CallEffect, CallPlan, ToolRef, TurnOutcome, TurnReply};
use crate::record::work::{ActivationKey, Work};
use crate::state::activation::{Activation, Phase};
use crate::team::Role;
use crate::team::tools::ToolLoop;

/// Returns the tool calls of an activation that can be started now. A call that must run alone waits
/// until nothing else runs, one of a role waits for an earlier one of the same role, and one that
/// ends the activation waits for all others of its turn.
pub(super) fn startable_tool_calls<'a>(
    tools: &ToolLoop,
    activation: &'a Activation,
) -> impl Iterator<Item = Work> + use<'a> {
    let mut running = 0;
    let mut called_roles = Vec::new();
    let mut runs_alone = false;
    let mut open_before_the_end = 0;
    let mut ready = Vec::new();
    for (work, call) in activation.unsettled_tool_calls() {
        let Some(target) = call.target.filter(|_| call.outcome.is_none()) else {
            continue;
        };
        let is_exclusive = tools.is_exclusive(target.tool);
        if matches!(
            call.phase,
            Phase::Running | Phase::BackingOff | Phase::CallingRole
        ) {
            running += 1;
            runs_alone |= is_exclusive;
        }
        if call.phase == Phase::CallingRole {
            called_roles.push(target.tool);
        }
        if target.effect == CallEffect::Continues {
            open_before_the_end += 1;
        }
        if call.is_ready() {
            ready.push((work, is_exclusive, target));
        }
    }
    ready
        .into_iter()
        .filter_map(move |(work, is_exclusive, target)| {
            let may_run = !runs_alone && (running == 0 || !is_exclusive);
            let is_due = target.effect == CallEffect::Continues || open_before_the_end == 0;
            let is_role_free = !called_roles.contains(&target.tool);
            (may_run && is_due && is_role_free).then_some(work)
        })
}

/// Rejects the calls of a reply that are beyond the limit, those of roles that led to the call, and
/// those that would end the activation although another one does.
pub(super) fn limit_calls(
    role: &Role,
    key: ActivationKey,
    activation: &Activation,
    reply: &mut TurnReply,
) {
    let (Some(tools), TurnOutcome::Calls(plans)) = (role.tool_loop(), &mut reply.outcome) else {
        return;
    };
    let max = tools.max_calls;
    let mut made = activation.tool_calls().count();
    let mut ending: Option<String> = None;
    for CallPlan { tool, decision, .. } in plans {
        let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) = decision else {
            continue;
        };
        let reason = if !can_be_called(key, target.tool) {
            format!(
                "`{tool}` cannot be called here: calls of roles led here from it, or are too many"
            )
        } else if made >= max as usize {
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

/// Returns whether an activation can call a tool. A role cannot be called by itself, whatever other
/// roles are between.
pub(super) fn can_be_called(caller: ActivationKey, tool: ToolRef) -> bool {
    match tool {
        ToolRef::Role(to) => !caller.involves(to) && caller.called(to, 0, 0).is_some(),
        ToolRef::Action(_) | ToolRef::Handoff(_) => true,
    }
}
