//! The names of what events are about: of roles, actions and joins by their places in the team, and of tools of
//! MCP servers as they are called.

use std::collections::BTreeMap;

use strata_core::record::event::{
    AttemptEvent, CallFinished, Event, Forked, NestedCallMade, RunResumed, StepStarted,
};
use strata_core::record::id::{Digest, JoinId, MessageId, RoleId, Slot, SlotKind};
use strata_core::record::nested_path::NestedPath;
use strata_core::record::shape::Shape;
use strata_core::record::turn::{CallDecision, ToolRef, TurnOutcome, TurnReply};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::team::{HANDOFF_PREFIX, SUMMARY, THINK, TURN};

use crate::public_event::{ActionRef, NestedNumber, PublicEvent, RoleCaller};

/// The name of a role, an action or a join that the team does not have. Records are translated as
/// they are found, and some may not fit the state.
const UNKNOWN: &str = "?";

/// What is needed to name what an event is about.
#[derive(Clone, Debug)]
pub(crate) struct EventNames {
    pub(super) shape: Shape,
    pub(super) step: u64,
    /// The components of the attempts in progress.
    pub(super) running: BTreeMap<CallKey, Option<Digest>>,
    /// The names of the tools of servers that are called in the open step.
    server_tools: BTreeMap<CallKey, String>,
}

impl EventNames {
    /// Returns the names of a team of this shape, in this step.
    pub(super) fn new(shape: Shape, step: u64) -> Self {
        Self {
            shape,
            step,
            running: BTreeMap::new(),
            server_tools: BTreeMap::new(),
        }
    }

    pub(super) fn update_before(&mut self, event: &Event) {
        match event {
            Event::RunStarted(_) => self.step = 0,
            Event::RunResumed(RunResumed { step, .. })
            | Event::StepStarted(StepStarted { step, .. })
            | Event::Forked(Forked { step, .. }) => self.step = *step,
            Event::Attempt(call, AttemptEvent::CallStarted(started)) => {
                self.running.insert(*call, started.digest.clone());
            }
            Event::Attempt(
                call,
                AttemptEvent::CallFinished(CallFinished {
                    result: CallResult::Replied(reply),
                    ..
                }),
            ) => self.note_reply(*call, reply),
            Event::Attempt(call, AttemptEvent::NestedCallMade(nested_call)) => {
                self.note_nested_call(*call, nested_call);
            }
            _ => {}
        }
    }

    pub(super) fn update_after(&mut self, event: &Event) {
        if let Event::Attempt(
            call,
            AttemptEvent::CallFinished(_)
            | AttemptEvent::CallFailed(_)
            | AttemptEvent::CallRevised(_)
            | AttemptEvent::CallAsks(_)
            | AttemptEvent::CallSuspended(_)
            | AttemptEvent::RequestOpened(_),
        ) = event
        {
            self.running.remove(call);
        }
        if let Event::StepCommitted(_) = event {
            self.server_tools.clear();
        }
    }

    /// Notes the names of the tools of servers that a reply calls.
    pub(super) fn note_reply(&mut self, call: CallKey, reply: &TurnReply) {
        let (Work::Turn { turn }, TurnOutcome::Calls(plans)) = (call.work, &reply.outcome) else {
            return;
        };
        for (plan, index) in plans.iter().zip(0..) {
            if let CallDecision::Make(target) | CallDecision::AskFirst(target, _) = &plan.decision {
                let work = Work::ToolCall {
                    turn,
                    call: index,
                    nested: NestedPath::EMPTY,
                    tool: target.tool,
                };
                self.note_server_tool(CallKey::in_activation(call.activation(), work), &plan.tool);
            }
        }
    }

    /// Notes the name of the tool of a server that code calls.
    pub(super) fn note_nested_call(&mut self, outer: CallKey, nested_call: &NestedCallMade) {
        let Some(plan) = &nested_call.plan else {
            return;
        };
        let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) = &plan.decision
        else {
            return;
        };
        if let Work::ToolCall {
            turn, call, nested, ..
        } = outer.work
            && let Some(nested) = nested.with(nested_call.number)
        {
            let work = Work::ToolCall {
                turn,
                call,
                nested,
                tool: target.tool,
            };
            self.note_server_tool(CallKey::in_activation(outer.activation(), work), &plan.tool);
        }
    }

    pub(super) fn note_server_tool(&mut self, call: CallKey, name: &str) {
        if call.work.calls_server() {
            self.server_tools.insert(call, name.to_owned());
        }
    }

    pub(super) fn server_tool_name(&self, call: CallKey) -> String {
        let name = self.server_tools.get(&call);
        name.map_or(UNKNOWN, String::as_str).to_owned()
    }

    pub(super) fn role_name(&self, id: RoleId) -> String {
        let role = self.shape.roles.get(id.index());
        role.map_or(UNKNOWN, |role| &role.name).to_owned()
    }

    pub(super) fn action_of_role(&self, id: RoleId, action: usize) -> String {
        let actions = self.shape.roles.get(id.index()).map(|role| &role.actions);
        let name = actions.and_then(|actions| actions.get(action));
        name.map_or(UNKNOWN, String::as_str).to_owned()
    }

    pub(super) fn join_id(&self, id: JoinId) -> String {
        let join = self.shape.joins.get(id.index());
        join.map_or(UNKNOWN, |join| &join.id).to_owned()
    }

    /// Returns the names of roles, then those of joins.
    pub(super) fn recipients(&self, roles: &[RoleId], joins: &[JoinId]) -> Vec<String> {
        let roles = roles.iter().map(|role| self.role_name(*role));
        roles
            .chain(joins.iter().map(|join| self.join_id(*join)))
            .collect()
    }

    pub(super) fn action_ref(&self, call: CallKey) -> ActionRef {
        let CallKey { role, work, .. } = call;
        let (index, action) = match work {
            Work::Think { .. } => (-1, THINK.to_owned()),
            Work::Answer => (-1, "answer".to_owned()),
            Work::Turn { .. } => (-1, TURN.to_owned()),
            Work::Summary { .. } => (-1, SUMMARY.to_owned()),
            Work::ToolCall {
                tool: ToolRef::Handoff(to),
                ..
            } => (-1, format!("{HANDOFF_PREFIX}{}", self.role_name(to))),
            Work::ToolCall {
                tool: ToolRef::Role(to),
                ..
            } => (-1, self.role_name(to)),
            Work::ToolCall {
                tool: ToolRef::Host(tool),
                ..
            } => (-1, tool.name().to_owned()),
            Work::ToolCall {
                tool: ToolRef::Server { .. },
                ..
            } => (-1, self.server_tool_name(call)),
            Work::ToolCall {
                tool: ToolRef::Action(action),
                ..
            } => (
                i32::from(action.0),
                self.action_of_role(role, action.index()),
            ),
            Work::Plan => (0, self.action_of_role(role, 0)),
            Work::Act { action, .. } => (
                i32::from(action.0),
                self.action_of_role(role, action.index()),
            ),
        };
        let (turn, tool_call, nested) = match work {
            Work::ToolCall {
                turn, call, nested, ..
            } => (Some(turn), Some(call), NestedNumber::from_path(nested)),
            _ => (None, None, None),
        };
        ActionRef {
            step: self.step,
            role: self.role_name(role),
            index,
            action,
            turn,
            tool_call,
            nested,
            via: self.caller(call),
        }
    }

    /// Returns the tool call that the role of a call works for.
    pub(super) fn caller(&self, call: CallKey) -> Option<RoleCaller> {
        let caller = call.via.last()?;
        Some(RoleCaller {
            role: self.role_name(caller.role),
            turn: caller.turn,
            tool_call: caller.call,
            nested: NestedNumber::from_path(caller.nested),
        })
    }

    pub(super) fn slot_names(&self, slot: Slot) -> (String, String) {
        let action = match slot.kind {
            SlotKind::Think => THINK.to_owned(),
            SlotKind::Turn => TURN.to_owned(),
            SlotKind::Guard(moment) => moment.name().to_owned(),
            SlotKind::SkillScript(language) => language.component_name().to_owned(),
            SlotKind::Summary => SUMMARY.to_owned(),
            SlotKind::Action(action) => self.action_of_role(slot.role, action.index()),
        };
        (self.role_name(slot.role), action)
    }

    pub(super) fn dead_letter(&self, id: &MessageId, to: &str) -> PublicEvent {
        let is_join = self.shape.joins.iter().any(|join| join.id == to);
        let reason = if is_join {
            "the join does not wait for its sender"
        } else {
            "the team has no such role, alias, group or join"
        };
        PublicEvent::DeadLetter {
            id: id.0.clone(),
            to: to.to_owned(),
            reason: reason.to_owned(),
        }
    }
}
