//! The names that are written into the file.

use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::record::work::Work;
use strata_core::state::activation::Phase;
use strata_core::team::{React, Role, THINK, TURN, Team, saved_action_name, saved_part_name};

use super::ANSWER;

/// Returns the name of a react mode, and its limit of rounds.
pub(super) fn react_mode(react: &React) -> (&'static str, u32) {
    match react {
        React::ByOrder => ("by_order", 1),
        React::Choose { max_loop, .. } => ("react", *max_loop),
        React::PlanAndAct => ("plan_and_act", 1),
        // Other programs have no such mode; `is_human` says that the role is played by a person.
        React::Human => ("by_order", 1),
        React::Tools(_) => ("tools", 1),
    }
}

/// Returns the name of a component's slot.
pub(super) fn saved_name(team: &Team, slot: Slot) -> String {
    let role = team.role(slot.role);
    match slot.kind {
        SlotKind::Action(action) => saved_action_name(&role.name, &role.action(action).name),
        SlotKind::Think | SlotKind::Turn => saved_part_name(
            &role.name,
            role.component_name(slot.kind),
            role.actions.iter().map(|action| action.name.as_str()),
        ),
    }
}

/// Returns the index and the name of the action that is called; -1 if it is no action.
pub(super) fn action_of_work(role: &Role, work: Option<Work>) -> (i64, &str) {
    match work {
        Some(Work::Act { action, .. }) => (i64::from(action.0), &role.action(action).name),
        Some(Work::Plan) => (0, &role.actions[0].name),
        Some(Work::Answer) => (-1, ANSWER),
        Some(Work::Turn { .. }) => (-1, TURN),
        Some(Work::ToolCall { tool, .. }) => {
            let index = match tool {
                ToolRef::Action(action) => i64::from(action.0),
                ToolRef::Handoff(_) | ToolRef::Role(_) => -1,
            };
            (index, role.tool_name(tool))
        }
        Some(Work::Think { .. }) | None => (-1, THINK),
    }
}

/// Returns the name of a call: `think/ROUND`, `plan`, `answer`, `act/INDEX`, `act/INDEX/TASK`,
/// `turn/TURN`, or `tool/TURN/CALL/INDEX`, where `>ROLE` in place of the index hands over and
/// `@ROLE` calls a role.
pub(super) fn work_name(work: Work) -> String {
    match work {
        Work::Think { round } => format!("think/{round}"),
        Work::Plan => "plan".into(),
        Work::Answer => ANSWER.into(),
        Work::Act {
            action: ActionId(index),
            task: None,
        } => format!("act/{index}"),
        Work::Act {
            action: ActionId(index),
            task: Some(task),
        } => format!("act/{index}/{task}"),
        Work::Turn { turn } => format!("turn/{turn}"),
        Work::ToolCall { turn, call, tool } => match tool {
            ToolRef::Action(ActionId(index)) => format!("tool/{turn}/{call}/{index}"),
            ToolRef::Handoff(RoleId(to)) => format!("tool/{turn}/{call}/>{to}"),
            ToolRef::Role(RoleId(to)) => format!("tool/{turn}/{call}/@{to}"),
        },
    }
}

/// Returns the name of a phase.
pub(super) fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Ready | Phase::ReadyAfterFault(_) => "ready",
        Phase::Running => "running",
        Phase::BackingOff => "resting",
        Phase::Failed(_) => "failed",
        Phase::Complete => "complete",
        Phase::WaitingForHuman(_) => "waiting",
        Phase::CallingTools => "calling-tools",
        Phase::CallingRole => "calling-role",
    }
}

/// Returns the name of a policy, as `--calls` takes it.
pub(super) fn policy_name(policy: CallPolicy) -> &'static str {
    match policy {
        CallPolicy::Auto => "auto",
        CallPolicy::Reuse => "reuse",
        CallPolicy::Fresh => "fresh",
    }
}
