//! Which public events a recorded event becomes. The translation depends on recorded events and the
//! team's shape only, so repeating it over the records gives the same lines.

mod attempts;

use std::collections::BTreeMap;

use strata_core::machine::stepper::conflict_message;
use strata_core::record::event::{
    AttemptEvent, CallFinished, CapReached, ComponentChanged, ConflictingWriter, ConsentWithdrawn,
    Event, FailedCondition, Forked, HandOverFailed, HandedOver, JoinRelease, JoinReleased,
    MessageSent, NestedCallMade, RoutingResult, RunEnded, RunResumed, RunStarted, ServerChanged,
    ServerToolOmitted, StepCommitted, StepConflicted, StepStarted,
};
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::id::{Digest, JoinId, MessageId, RoleId, Slot, SlotKind};
use strata_core::record::nested_path::NestedPath;
use strata_core::record::shape::Shape;
use strata_core::record::turn::{CallDecision, ToolRef, TurnOutcome, TurnReply};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::environment::Environment;
use strata_core::team::{HANDOFF_PREFIX, Role, SUMMARY, THINK, TURN};

use super::{ActionRef, EventLine, NestedNumber, PublicEvent, RoleCaller};

/// The name of a role, an action or a join that the team does not have. Records are translated as
/// they are found, and some may not fit the state.
const UNKNOWN: &str = "?";

/// Returns the name of the action that does some work of a role: `think` for a choice, `answer` for
/// a person's answer.
pub fn action_name(role: &Role, work: Work) -> &str {
    match work {
        Work::Think { .. } => THINK,
        Work::Answer => "answer",
        Work::Turn { .. } => TURN,
        Work::Summary { .. } => SUMMARY,
        Work::ToolCall { tool, .. } => role.tool_name(tool),
        Work::Plan => role.actions.first().map_or("", |action| &action.name),
        Work::Act { action, .. } => &role.action(action).name,
    }
}

/// Returns how many lines a recorded event becomes, without building them. Lines are numbered as
/// events are recorded, and built only if somebody reads them.
pub fn count_lines(event: &Event) -> u32 {
    let mut lines = 0;
    visit(event, &mut |_: &dyn Fn(&EventNames) -> PublicEvent| {
        lines += 1
    });
    lines
}

/// Returns whether a message has a line `message-routed`. It may have no recipients, unless all that
/// it had do not exist.
pub fn is_routed(routed: &RoutingResult) -> bool {
    routed.drop_reason.is_none() && has_recipients_or_needs_none(routed)
}

/// Translates the recorded events of one team.
#[derive(Clone, Debug)]
pub struct EventTranslator {
    names: EventNames,
}

impl EventTranslator {
    /// Returns a translator of the events that follow in a team of this shape, in this step.
    pub fn new(shape: Shape, step: u64) -> Self {
        let names = EventNames {
            shape,
            step,
            running: BTreeMap::new(),
            server_tools: BTreeMap::new(),
        };
        Self { names }
    }

    /// Returns the translator for events that follow in this state: it knows the calls that are open.
    pub fn with_open_calls(mut self, env: &Environment) -> Self {
        for (key, activation) in env.activations() {
            for (work, call) in activation.all_tool_calls() {
                let call_key = CallKey::in_activation(key, work);
                self.names.note_server_tool(call_key, &call.tool);
            }
        }
        self
    }

    /// Translates one recorded event. `n` is the number of its first line.
    pub fn translate(&mut self, event: &Event, n: u64, time_ms: i64) -> Vec<EventLine> {
        self.names.update_before(event);
        let mut lines = Vec::new();
        visit(event, &mut |build: &dyn Fn(&EventNames) -> PublicEvent| {
            lines.push(EventLine {
                n: n + lines.len() as u64,
                time_ms,
                event: build(&self.names),
            });
        });
        self.names.update_after(event);
        lines
    }

    /// Passes over one recorded event, whose lines nobody reads.
    pub fn skip(&mut self, event: &Event) {
        self.names.update_before(event);
        self.names.update_after(event);
    }
}

/// What is needed to name what an event is about.
#[derive(Clone, Debug)]
struct EventNames {
    shape: Shape,
    step: u64,
    /// The components of the attempts in progress.
    running: BTreeMap<CallKey, Option<Digest>>,
    /// The names of the tools of servers that are called in the open step.
    server_tools: BTreeMap<CallKey, String>,
}

impl EventNames {
    fn update_before(&mut self, event: &Event) {
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
            Event::Attempt(call, AttemptEvent::NestedCallMade(made)) => {
                self.note_nested_call(*call, made);
            }
            _ => {}
        }
    }

    fn update_after(&mut self, event: &Event) {
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
    fn note_reply(&mut self, call: CallKey, reply: &TurnReply) {
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
    fn note_nested_call(&mut self, outer: CallKey, made: &NestedCallMade) {
        let Some(plan) = &made.plan else { return };
        let (CallDecision::Make(target) | CallDecision::AskFirst(target, _)) = &plan.decision
        else {
            return;
        };
        if let Work::ToolCall {
            turn, call, nested, ..
        } = outer.work
            && let Some(nested) = nested.with(made.number)
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

    fn note_server_tool(&mut self, call: CallKey, name: &str) {
        if let Work::ToolCall {
            tool: ToolRef::Server { .. },
            ..
        } = call.work
        {
            self.server_tools.insert(call, name.to_owned());
        }
    }

    fn server_tool_name(&self, call: CallKey) -> String {
        let name = self.server_tools.get(&call);
        name.map_or(UNKNOWN, String::as_str).to_owned()
    }

    fn role_name(&self, id: RoleId) -> String {
        let role = self.shape.roles.get(id.index());
        role.map_or(UNKNOWN, |role| &role.name).to_owned()
    }

    fn action_of_role(&self, id: RoleId, action: usize) -> String {
        let actions = self.shape.roles.get(id.index()).map(|role| &role.actions);
        let name = actions.and_then(|actions| actions.get(action));
        name.map_or(UNKNOWN, String::as_str).to_owned()
    }

    fn join_id(&self, id: JoinId) -> String {
        let join = self.shape.joins.get(id.index());
        join.map_or(UNKNOWN, |join| &join.id).to_owned()
    }

    /// Returns the names of roles, then those of joins.
    fn recipients(&self, roles: &[RoleId], joins: &[JoinId]) -> Vec<String> {
        let roles = roles.iter().map(|role| self.role_name(*role));
        roles
            .chain(joins.iter().map(|join| self.join_id(*join)))
            .collect()
    }

    fn action_ref(&self, call: CallKey) -> ActionRef {
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
    fn caller(&self, call: CallKey) -> Option<RoleCaller> {
        let caller = call.via.last()?;
        Some(RoleCaller {
            role: self.role_name(caller.role),
            turn: caller.turn,
            tool_call: caller.call,
            nested: NestedNumber::from_path(caller.nested),
        })
    }

    fn slot_names(&self, slot: Slot) -> (String, String) {
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

    fn dead_letter(&self, id: &MessageId, to: &str) -> PublicEvent {
        let is_join = self.shape.joins.iter().any(|join| join.id == to);
        let reason = match is_join {
            true => "the join does not wait for its sender",
            false => "the team has no such role, alias, group or join",
        };
        PublicEvent::DeadLetter {
            id: id.0.clone(),
            to: to.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// Receives, for each public event that a recorded event becomes, a function that builds it.
type Visitor<'a> = dyn FnMut(&dyn Fn(&EventNames) -> PublicEvent) + 'a;

/// Visits the public events that a recorded event becomes, in order. Which ones there are depends on
/// the recorded event alone, so they can be counted without being built.
fn visit(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::Forked(_)
        | Event::ComponentChanged(_)
        | Event::CapReached(_)
        | Event::ConsentWithdrawn(_)
        | Event::ServerChanged(_)
        | Event::ServerToolOmitted(_)
        | Event::RunEnded(_) => visit_run(event, visitor),
        Event::StepStarted(_) | Event::StepConflicted(_) | Event::StepCommitted(_) => {
            visit_step(event, visitor)
        }
        Event::MessageSent(_)
        | Event::JoinReleased(_)
        | Event::HandedOver(_)
        | Event::HandOverFailed(_) => visit_delivery(event, visitor),
        Event::FilesPlaced(placed) => attempts::visit_placed(placed, visitor),
        Event::Attempt(call, event) => attempts::visit_attempt(*call, event, visitor),
    }
}

fn visit_run(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::RunStarted(RunStarted {
            run, idea, routed, ..
        }) => {
            visitor(&|_| PublicEvent::RunStarted {
                run: run.0.clone(),
                idea: idea.clone(),
            });
            visit_routed(routed, visitor);
        }
        Event::RunResumed(RunResumed {
            checkpoint,
            step,
            finished,
            by,
            ..
        }) => {
            visitor(&|_| PublicEvent::RunResumed {
                checkpoint: checkpoint.as_ref().map(|id| id.0.clone()),
                step: *step,
                by: by.clone(),
            });
            for call in finished.iter().filter(|call| !has_own_event(call.work)) {
                visitor(&|names| PublicEvent::ActionReplayed {
                    action: names.action_ref(*call),
                });
            }
        }
        Event::Forked(Forked {
            lineage,
            from,
            checkpoint,
            ..
        }) => visitor(&|_| PublicEvent::Forked {
            lineage: lineage.clone(),
            checkpoint: checkpoint.0.clone(),
            parent: from.0.clone(),
        }),
        Event::ComponentChanged(ComponentChanged { slot, old, new }) => visitor(&|names| {
            let (role, action) = names.slot_names(*slot);
            PublicEvent::ComponentChanged {
                role,
                action,
                old: old.as_ref().map(|digest| digest.0.clone()),
                new: new.0.clone(),
            }
        }),
        Event::CapReached(CapReached { scope, cap }) => visitor(&|_| PublicEvent::CapReached {
            scope: scope.clone(),
            cap: cap.to_dollars(),
        }),
        Event::ConsentWithdrawn(ConsentWithdrawn {}) => {
            visitor(&|_| PublicEvent::ConsentWithdrawn {});
        }
        Event::ServerChanged(changed) => visitor(&|_| server_event(changed)),
        Event::ServerToolOmitted(omitted) => visitor(&|_| {
            let ServerToolOmitted {
                server,
                tool,
                reason,
            } = omitted.clone();
            PublicEvent::McpToolOmitted {
                server,
                tool,
                reason,
            }
        }),
        Event::RunEnded(RunEnded {
            status,
            checkpoint,
            by,
            ..
        }) => visitor(&|_| PublicEvent::RunEnded {
            status: *status,
            checkpoint: checkpoint.as_ref().map(|id| id.0.clone()),
            by: by.clone(),
        }),
        _ => {}
    }
}

fn server_event(changed: &ServerChanged) -> PublicEvent {
    let ServerChanged {
        server,
        state,
        revision,
        name,
        version,
        reason,
    } = changed.clone();
    PublicEvent::McpServer {
        server,
        state: state.name(),
        revision,
        name,
        version,
        reason,
    }
}

fn visit_step(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::StepStarted(StepStarted { step, .. }) => {
            visitor(&|_| PublicEvent::StepStarted { step: *step });
        }
        Event::StepConflicted(StepConflicted {
            scope,
            key,
            writers,
            ..
        }) => {
            for writer in writers {
                visitor(&|names| {
                    let roles: Vec<String> = writers
                        .iter()
                        .map(|other| names.role_name(other.call.role))
                        .collect();
                    let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                    conflict_event(names, writer, conflict_message(scope, key, &roles))
                });
            }
        }
        Event::StepCommitted(StepCommitted {
            step,
            checkpoint,
            parent,
            routed,
            released,
        }) => {
            for routed in routed {
                visit_routed(routed, visitor);
            }
            visit_released(released, visitor);
            visitor(&|_| PublicEvent::StepCommitted {
                step: *step,
                checkpoint: checkpoint.0.clone(),
                parent: parent.as_ref().map(|id| id.0.clone()),
            });
        }
        _ => {}
    }
}

fn visit_delivery(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::MessageSent(MessageSent { routed, .. }) => visit_routed(routed, visitor),
        Event::JoinReleased(JoinReleased { released }) => visit_released(released, visitor),
        Event::HandedOver(HandedOver { id }) => {
            visitor(&|_| PublicEvent::MessageHandedOver { id: id.0.clone() });
        }
        Event::HandOverFailed(HandOverFailed { id, why }) => {
            visitor(&|_| PublicEvent::MessageNotHandedOver {
                id: id.0.clone(),
                reason: why.clone(),
            })
        }
        _ => {}
    }
}

fn visit_routed(routed: &RoutingResult, visitor: &mut Visitor<'_>) {
    let from = |names: &EventNames| {
        routed
            .from
            .map(|role| names.role_name(role))
            .unwrap_or_default()
    };
    for FailedCondition { condition, reason } in &routed.failed_conditions {
        visitor(&|names| PublicEvent::ConditionFailed {
            id: routed.id.0.clone(),
            from: from(names),
            condition: condition.clone(),
            reason: reason.clone(),
        });
    }
    if let Some(reason) = &routed.drop_reason {
        visitor(&|names| PublicEvent::MessageDropped {
            id: routed.id.0.clone(),
            from: from(names),
            reason: reason.clone(),
        });
        return;
    }
    if has_recipients_or_needs_none(routed) {
        visitor(&|names| PublicEvent::MessageRouted {
            id: routed.id.0.clone(),
            from: from(names),
            to: names.recipients(&routed.to, &routed.joins),
            cause_by: routed.cause_by.clone(),
            outside: routed.external.clone(),
        });
    }
    for join in &routed.joins {
        visitor(&|names| PublicEvent::JoinBuffered {
            join: names.join_id(*join),
            from: from(names),
            id: routed.id.0.clone(),
        });
    }
    for to in &routed.undeliverable {
        visitor(&|names| names.dead_letter(&routed.id, to));
    }
}

fn has_recipients_or_needs_none(routed: &RoutingResult) -> bool {
    let has_recipients =
        !routed.to.is_empty() || !routed.joins.is_empty() || !routed.external.is_empty();
    has_recipients || routed.undeliverable.is_empty()
}

fn visit_released(released: &[JoinRelease], visitor: &mut Visitor<'_>) {
    for released in released {
        visitor(&|names| PublicEvent::JoinReleased {
            join: names.join_id(released.join),
            messages: released
                .messages
                .iter()
                .map(|(_, id)| id.0.clone())
                .collect(),
            to: names.recipients(&released.to, released.into.as_slice()),
        });
        let Some(next) = released.into else { continue };
        for (from, id) in &released.messages {
            visitor(&|names| PublicEvent::JoinBuffered {
                join: names.join_id(next),
                from: names.role_name(*from),
                id: id.0.clone(),
            });
        }
    }
}

/// Returns the failure of an attempt whose result was taken back.
fn conflict_event(names: &EventNames, writer: &ConflictingWriter, message: String) -> PublicEvent {
    PublicEvent::ActionFailed {
        action: names.action_ref(writer.call),
        attempt: writer.attempt,
        fault: FaultKind::StateConflict,
        cause: FaultCause::Unspecified,
        message,
        digest: writer.digest.as_ref().map(|digest| digest.0.clone()),
        backtrace: Vec::new(),
        retry_ms: None,
    }
}

/// Returns whether some work has an event of its own in place of those of actions: a choice of the
/// next action, a turn, or a summary.
fn has_own_event(work: Work) -> bool {
    matches!(
        work,
        Work::Think { .. } | Work::Turn { .. } | Work::Summary { .. }
    )
}

#[cfg(test)]
mod tests {
    use strata_core::record::event::{CallFailed, CallStarted};
    use strata_core::record::fault::{Fault, FaultHandling};
    use strata_core::record::host_call::RecordedCallUse;
    use strata_core::record::id::ActionId;
    use strata_core::record::shape::RoleShape;
    use strata_core::record::work::ActivationKey;

    use strata_core::record::nested_path::NestedPath;

    use super::*;

    /// Returns a translator of the events of a team of two roles with an action each.
    fn translator() -> EventTranslator {
        let role = |name: &str| RoleShape {
            name: name.into(),
            actions: vec!["a".into()],
            watch: Vec::new(),
            react: String::new(),
            tools: Vec::new(),
        };
        let shape = Shape {
            roles: vec![role("A"), role("B")],
            groups: BTreeMap::new(),
            routes: Vec::new(),
            joins: Vec::new(),
        };
        EventTranslator::new(shape, 3)
    }

    fn started() -> AttemptEvent {
        AttemptEvent::CallStarted(CallStarted {
            attempt: 1,
            digest: Some(Digest::from("digest")),
            call_reuse: RecordedCallUse::Reuse,
            forgotten: Vec::new(),
        })
    }

    const ACT: Work = Work::Act {
        action: ActionId(0),
        task: None,
    };

    #[test]
    fn nothing_is_kept_of_an_attempt_that_failed() {
        let call = CallKey::new(RoleId(0), ACT);
        let failed = AttemptEvent::CallFailed(CallFailed {
            attempt: 1,
            digest: None,
            fault: Fault::new(FaultKind::Trap, "unreachable"),
            retry_ms: None,
            handling: FaultHandling::Stops,
        });
        let mut translator = translator();
        translator.translate(&Event::Attempt(call, started()), 1, 0);
        assert_eq!(translator.names.running.len(), 1);
        translator.translate(&Event::Attempt(call, failed), 2, 0);
        assert!(translator.names.running.is_empty());
    }

    #[test]
    fn events_of_a_called_role_name_the_call() {
        let called = ActivationKey::of_mail(RoleId(0)).called(RoleId(1), 5, 2, NestedPath::EMPTY);
        let call = CallKey::in_activation(called.expect("a short path"), ACT);
        let lines = translator().translate(&Event::Attempt(call, started()), 1, 0);
        assert_eq!(lines.len(), 2);
        for line in lines {
            let line: serde_json::Value = serde_json::from_str(&line.to_json()).expect("JSON");
            assert_eq!(line["role"], "B");
            let via = serde_json::json!({ "role": "A", "turn": 5, "tool_call": 2 });
            assert_eq!(line["via"], via);
        }
    }
}
