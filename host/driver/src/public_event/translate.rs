//! Which public events a recorded event becomes. The translation depends on recorded events and the
//! team's shape only, so repeating it over the records gives the same lines.

mod attempts;
mod names;

use strata_core::machine::stepper::conflict_message;
use strata_core::record::event::{
    CapReached, ComponentChanged, ConflictingWriter, ConsentWithdrawn, Event, FailedCondition,
    Forked, HandOverFailed, HandedOver, JoinRelease, JoinReleased, MessageSent, RoutingResult,
    RunEnded, RunResumed, RunStarted, ServerChanged, ServerToolOmitted, StepCommitted,
    StepConflicted, StepStarted,
};
use strata_core::record::fault::{FaultCause, FaultKind};
use strata_core::record::shape::Shape;

use strata_core::record::work::{CallKey, Work};
use strata_core::state::environment::Environment;
use strata_core::team::{Role, SUMMARY, THINK, TURN};

use super::{EventLine, PublicEvent};
use names::EventNames;

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
        let names = EventNames::new(shape, step);
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
        Event::ServerToolOmitted(omitted) => visitor(&|_| omitted_tool_event(omitted)),
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

fn omitted_tool_event(omitted: &ServerToolOmitted) -> PublicEvent {
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
mod tests;
