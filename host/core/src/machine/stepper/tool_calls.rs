//! Which tools an activation can call, and which calls can start. How many calls are made at all is
//! limited in `call_limits`.

use alloc::vec::Vec;

use super::team_state::TeamState;
use crate::record::nested_path::NestedPath;
use crate::record::turn::{CallEffect, CallTarget, HostTool, ToolRef};
use crate::record::work::{ActivationKey, Work};
use crate::state::activation::{Activation, Phase, TurnCall, is_made_in};
use crate::team::tools::ToolLoop;

/// Returns whether an activation can call what a call is made to.
pub(super) fn is_known_tool(state: &TeamState, key: ActivationKey, target: &CallTarget) -> bool {
    let team = &state.team;
    match target.tool {
        ToolRef::Action(action) => action.index() < team.role(key.role).actions.len(),
        ToolRef::Handoff(to) => to.index() < team.roles.len(),
        ToolRef::Role(to) => to.index() < team.roles.len() && can_be_called(key, target.tool),
        ToolRef::Host(tool) => tool != HostTool::CallTool,
        ToolRef::Server { .. } => {
            let activation = state.env.activation(key);
            activation.is_some_and(|activation| activation.server_tool(target.tool).is_some())
        }
    }
}

/// Returns the tool calls of an activation that can be started now. A call that must run alone waits
/// until nothing else runs, one of a role waits for an earlier one of the same role, and one that
/// ends the activation waits for all others of its turn. A call that code makes is made while that
/// code waits for it, and does not count as running beside it. Code that was suspended because the calls that it made
/// have to wait is not executed again before one of them can start.
pub(super) fn startable_tool_calls<'a>(
    tools: &'a ToolLoop,
    activation: &'a Activation,
) -> impl Iterator<Item = Work> + use<'a> {
    let mut in_progress: Vec<(Work, bool)> = Vec::new();
    let mut called_roles = Vec::new();
    let mut open_before_the_end = 0;
    let mut ready = Vec::new();
    for (work, call) in activation.unsettled_tool_calls() {
        let Some(target) = call.target else {
            continue;
        };
        let is_exclusive = tools.is_exclusive(target.tool);
        if matches!(
            call.phase,
            Phase::Running | Phase::BackingOff | Phase::CallingRole
        ) {
            in_progress.push((work, is_exclusive));
        }
        if call.phase == Phase::CallingRole {
            called_roles.push(target.tool);
        }
        if target.effect == CallEffect::Continues && work.nested().is_none() {
            open_before_the_end += 1;
        }
        if call.is_ready() && activation.is_awaited(work) {
            ready.push((work, call, target.effect));
        }
    }
    let has_to_wait = move |work: Work, call: &TurnCall| {
        let Some(CallTarget { tool, .. }) = call.target else {
            return false;
        };
        let is_exclusive = tools.is_exclusive(tool);
        let mut beside = in_progress
            .iter()
            .filter(|(other, _)| !is_made_in(work, *other));
        let may_run = beside.all(|(_, runs_alone)| !runs_alone && !is_exclusive);
        // What a role answered can be reviewed while the role works on another call.
        let is_answered = call.progress.was_suspended;
        let is_role_free = is_answered || !called_roles.contains(&tool);
        !may_run || !is_role_free
    };
    ready.into_iter().filter_map(move |(work, call, effect)| {
        let is_due = effect == CallEffect::Continues || open_before_the_end == 0;
        (is_due && !is_held_up(work, call, &has_to_wait)).then_some(work)
    })
}

/// Returns whether a tool call that is ready has to wait: because of itself, or because it was suspended and all calls
/// that its last attempt waited for have to wait. Its next attempt would wait for them again.
pub(super) fn is_held_up(
    work: Work,
    call: &TurnCall,
    has_to_wait: &dyn Fn(Work, &TurnCall) -> bool,
) -> bool {
    if has_to_wait(work, call) {
        return true;
    }
    let mut awaited = call.progress.awaited().peekable();
    if !call.progress.was_suspended || awaited.peek().is_none() {
        return false;
    }
    awaited.all(|(number, nested)| {
        let nested_work = nested.call.work_within(work, number);
        nested.call.is_ready()
            && nested_work.is_some_and(|work| is_held_up(work, &nested.call, has_to_wait))
    })
}

/// Returns whether an activation can call a tool. A role cannot be called by itself, whatever other
/// roles are between.
pub(super) fn can_be_called(caller: ActivationKey, tool: ToolRef) -> bool {
    match tool {
        ToolRef::Role(to) => {
            let called = caller.called(to, 0, 0, NestedPath::EMPTY);
            !caller.involves(to) && called.is_some()
        }
        ToolRef::Action(_) | ToolRef::Handoff(_) | ToolRef::Host(_) | ToolRef::Server { .. } => {
            true
        }
    }
}
