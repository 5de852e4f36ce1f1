//! The names that are written into the file.

use strata_core::record::id::{ActionId, GuardMoment, RoleId, SkillLanguage, Slot, SlotKind};
use strata_core::record::nested_path::NestedPath;
use strata_core::record::turn::{HostTool, ToolRef};
use strata_core::record::work::Work;
use strata_core::state::activation::Activation;
use strata_core::team::{
    React, Role, SUMMARY, THINK, TURN, Team, saved_action_name, saved_part_name,
};

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

/// Returns the state of a role's entry that stands for an action.
pub(super) fn state_of_action(index: usize, name: &str) -> String {
    format!("{index}. {name}")
}

/// Returns the name of the action that a state of a role's entry stands for.
pub(super) fn action_of_state(state: &str) -> &str {
    state.split_once(". ").map_or(state, |(_, name)| name)
}

/// Returns the name of a component's slot.
pub(super) fn saved_name(team: &Team, slot: Slot) -> String {
    let role = team.role(slot.role);
    match slot.kind {
        SlotKind::Action(action) => saved_action_name(&role.name, &role.action(action).name),
        SlotKind::Think
        | SlotKind::Turn
        | SlotKind::Guard(_)
        | SlotKind::SkillScript(_)
        | SlotKind::Summary => saved_part_name(
            &role.name,
            role.component_name(slot.kind),
            role.actions.iter().map(|action| action.name.as_str()),
        ),
    }
}

/// Returns the index and the name of what a call of an activation runs; -1 if it is no action. A tool of
/// an MCP server is not part of the team; its name is `SERVER/TOOL`.
pub(super) fn action_of_call<'a>(
    role: &'a Role,
    activation: &'a Activation,
    work: Work,
) -> (i64, &'a str) {
    match activation.tool_call(work) {
        Some(call) if work.calls_server() => (-1, &call.tool),
        _ => action_of_work(role, Some(work)),
    }
}

/// Returns the index and the name of the action that is called; -1 if it is no action.
pub(super) fn action_of_work(role: &Role, work: Option<Work>) -> (i64, &str) {
    match work {
        Some(Work::Act { action, .. }) => (i64::from(action.0), &role.action(action).name),
        Some(Work::Plan) => (0, &role.actions[0].name),
        Some(Work::Answer) => (-1, ANSWER),
        Some(Work::Turn { .. }) => (-1, TURN),
        Some(Work::Summary { .. }) => (-1, SUMMARY),
        Some(Work::ToolCall { tool, .. }) => {
            let index = match tool {
                ToolRef::Action(action) => i64::from(action.0),
                ToolRef::Handoff(_)
                | ToolRef::Role(_)
                | ToolRef::Host(_)
                | ToolRef::Server { .. } => -1,
            };
            (index, role.tool_name(tool))
        }
        Some(Work::Think { .. }) | None => (-1, THINK),
    }
}

/// Returns the name of a call: `think/ROUND`, `plan`, `answer`, `act/INDEX`, `act/INDEX/TASK`,
/// `turn/TURN`, `summary/TURN`, or `tool/TURN/CALL/INDEX`, where `>ROLE` in place of the index hands
/// over, `@ROLE` calls a role, `=LIST.TOOL` a tool of a server, and a name is that of a tool of the host. The
/// numbers of nested calls follow: `tool/TURN/CALL/INDEX/0/2`.
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
        Work::Summary { turn } => format!("summary/{turn}"),
        Work::ToolCall {
            turn,
            call,
            nested,
            tool,
        } => match tool {
            ToolRef::Action(ActionId(index)) => format!("tool/{turn}/{call}/{index}{nested}"),
            ToolRef::Handoff(RoleId(to)) => format!("tool/{turn}/{call}/>{to}{nested}"),
            ToolRef::Role(RoleId(to)) => format!("tool/{turn}/{call}/@{to}{nested}"),
            ToolRef::Host(tool) => format!("tool/{turn}/{call}/{}{nested}", tool.saved_name()),
            ToolRef::Server { list, tool } => format!("tool/{turn}/{call}/={list}.{tool}{nested}"),
        },
    }
}

/// Parses the name of a call. Returns `None` if the role has no such call.
pub(super) fn parse_work(role: &Role, tasks: usize, name: &str) -> Option<Work> {
    let mut parts = name.split('/');
    let work = match parts.next()? {
        "plan" => Work::Plan,
        "think" if matches!(role.react, React::Choose { .. }) => Work::Think {
            round: parts.next()?.parse().ok()?,
        },
        "answer" if role.react == React::Human => Work::Answer,
        "turn" if role.tool_loop().is_some() => Work::Turn {
            turn: parts.next()?.parse().ok()?,
        },
        "summary" if role.tool_loop().is_some() => Work::Summary {
            turn: parts.next()?.parse().ok()?,
        },
        "tool" => {
            let (turn, call) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let tool = parse_tool(role, parts.next()?)?;
            let mut nested = NestedPath::EMPTY;
            for number in parts.by_ref() {
                nested = nested.with(number.parse().ok()?)?;
            }
            Work::ToolCall {
                turn,
                call,
                nested,
                tool,
            }
        }
        "act" => {
            let action = parts.next()?.parse().ok().map(ActionId)?;
            let task = parts
                .next()
                .map(|task| task.parse().ok())
                .map_or(Some(None), |task: Option<u32>| task.map(Some))?;
            let known = action.index() < role.actions.len()
                && task.is_none_or(|task| (task as usize) < tasks);
            known.then_some(Work::Act { action, task })?
        }
        _ => return None,
    };
    parts.next().is_none().then_some(work)
}

/// Parses the name of a tool: the index of an action, `>` or `@` and the index of a role, `=` and the place
/// of a tool of a server, or the name of a tool of the host. Returns `None` if the role has no such tool.
fn parse_tool(role: &Role, name: &str) -> Option<ToolRef> {
    if let Some(place) = name.strip_prefix('=') {
        // Whether there is such a tool is checked with the lists of the activation.
        let (list, tool) = place.split_once('.')?;
        let (list, tool) = (list.parse().ok()?, tool.parse().ok()?);
        role.tool_loop()?;
        return Some(ToolRef::Server { list, tool });
    }
    let tool = match (name.strip_prefix('>'), name.strip_prefix('@')) {
        _ if let Some(tool) = HostTool::from_saved_name(name) => ToolRef::Host(tool),
        (Some(to), _) => ToolRef::Handoff(RoleId(to.parse().ok()?)),
        (None, Some(to)) => ToolRef::Role(RoleId(to.parse().ok()?)),
        (None, None) => ToolRef::Action(ActionId(name.parse().ok()?)),
    };
    role.tool_loop()?.tool(tool).map(|_| tool)
}

/// Returns all slots of a team that can hold components.
pub(super) fn component_slots(team: &Team) -> impl Iterator<Item = Slot> {
    team.role_ids().flat_map(|role| {
        let actions =
            (0..team.role(role).actions.len()).map(|i| SlotKind::Action(ActionId(i as u16)));
        actions
            .chain([SlotKind::Think, SlotKind::Summary])
            .chain(GuardMoment::ALL.map(SlotKind::Guard))
            .chain(SkillLanguage::ALL.map(SlotKind::SkillScript))
            .map(move |part| Slot { role, kind: part })
    })
}
