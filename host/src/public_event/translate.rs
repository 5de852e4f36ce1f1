//! Which public events a recorded event becomes. The translation depends on recorded events and the
//! team's shape only, so repeating it over the records gives the same lines.

use std::collections::BTreeMap;

use strata_core::event::{
    AnswerSource, CallResult, ConflictingWriter, Event, HostCallKind, JoinRelease, RoutingResult,
    Work,
};
use strata_core::fault::{Fault, FaultCause, FaultKind};
use strata_core::file::{FileChange, PathContent};
use strata_core::host_call::HostCall;
use strata_core::id::{Digest, JoinId, MessageId, RoleId, Slot, SlotKind};
use strata_core::message::Draft;
use strata_core::request::HumanRequest;
use strata_core::shape::Shape;
use strata_core::stepper::conflict_message;
use strata_core::team::Role;

use super::{
    ActionOutput, ActionRef, EventLine, PublicEvent, WrittenContent, WrittenFile, rfc3339,
};
use crate::gateway::WASI_CLOCK_START;

/// The name of a role, an action or a join that the team does not have. Records are translated as
/// they are found, and some may not fit the state.
const UNKNOWN: &str = "?";

/// Returns the name of the action that does some work of a role: `think` for a choice, `answer` for
/// a person's answer.
pub fn action_name(role: &Role, work: Work) -> &str {
    match work {
        Work::Think { .. } => "think",
        Work::Answer => "answer",
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
        };
        Self { names }
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
}

/// What is needed to name what an event is about.
#[derive(Clone, Debug)]
struct EventNames {
    shape: Shape,
    step: u64,
    /// The components of the attempts in progress. A role has one attempt at a time.
    running: BTreeMap<RoleId, Option<Digest>>,
}

impl EventNames {
    fn update_before(&mut self, event: &Event) {
        match event {
            Event::RunStarted { .. } => self.step = 0,
            Event::RunResumed { step, .. }
            | Event::StepStarted { step, .. }
            | Event::Forked { step, .. } => self.step = *step,
            Event::CallStarted { role, digest, .. } => {
                self.running.insert(*role, digest.clone());
            }
            _ => {}
        }
    }

    fn update_after(&mut self, event: &Event) {
        if let Event::CallFinished { role, .. } = event {
            self.running.remove(role);
        }
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

    fn action_ref(&self, role: RoleId, work: Work) -> ActionRef {
        let (index, action) = match work {
            Work::Think { .. } => (-1, "think".to_owned()),
            Work::Answer => (-1, "answer".to_owned()),
            Work::Plan => (0, self.action_of_role(role, 0)),
            Work::Act { action, .. } => (
                i32::from(action.0),
                self.action_of_role(role, action.index()),
            ),
        };
        ActionRef {
            step: self.step,
            role: self.role_name(role),
            index,
            action,
        }
    }

    fn slot_names(&self, slot: Slot) -> (String, String) {
        let action = match slot.kind {
            SlotKind::Think => "think".to_owned(),
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
        Event::RunStarted {
            run, idea, routed, ..
        } => {
            visitor(&|_| PublicEvent::RunStarted {
                run: run.0.clone(),
                idea: idea.clone(),
            });
            visit_routed(routed, visitor);
        }
        Event::RunResumed {
            checkpoint,
            step,
            finished: kept,
            ..
        } => {
            visitor(&|_| PublicEvent::RunResumed {
                checkpoint: checkpoint.as_ref().map(|id| id.0.clone()),
                step: *step,
            });
            for (role, work) in kept.iter().filter(|(_, work)| !is_choice(*work)) {
                visitor(&|names| PublicEvent::ActionReplayed {
                    action: names.action_ref(*role, *work),
                });
            }
        }
        Event::Forked {
            lineage,
            from,
            checkpoint,
            ..
        } => visitor(&|_| PublicEvent::Forked {
            lineage: lineage.clone(),
            checkpoint: checkpoint.0.clone(),
            parent: from.0.clone(),
        }),
        Event::ComponentChanged { slot, old, new } => visitor(&|names| {
            let (role, action) = names.slot_names(*slot);
            PublicEvent::ComponentChanged {
                role,
                action,
                old: old.as_ref().map(|digest| digest.0.clone()),
                new: new.0.clone(),
            }
        }),
        Event::StepStarted { step, .. } => {
            visitor(&|_| PublicEvent::StepStarted { step: *step });
        }
        Event::StepConflicted {
            scope,
            key,
            writers,
            ..
        } => {
            for writer in writers {
                visitor(&|names| {
                    let roles: Vec<String> = writers
                        .iter()
                        .map(|other| names.role_name(other.role))
                        .collect();
                    let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                    conflict_event(names, writer, conflict_message(scope, key, &roles))
                });
            }
        }
        Event::StepCommitted {
            step,
            checkpoint,
            parent,
            routed,
            released,
        } => {
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
        Event::RunEnded {
            status, checkpoint, ..
        } => visitor(&|_| PublicEvent::RunEnded {
            status: *status,
            checkpoint: checkpoint.as_ref().map(|id| id.0.clone()),
        }),
        Event::MessageSent { routed, .. } => visit_routed(routed, visitor),
        Event::JoinReleased { released } => visit_released(released, visitor),
        Event::HandedOver { id } => {
            visitor(&|_| PublicEvent::MessageHandedOver { id: id.0.clone() });
        }
        Event::HandOverFailed { id, why } => visitor(&|_| PublicEvent::MessageNotHandedOver {
            id: id.0.clone(),
            reason: why.clone(),
        }),
        Event::RetryDue { .. } | Event::MoneyReserved { .. } => {}
        Event::FilesWritten { .. } | Event::FilesPlaced { .. } => visit_files(event, visitor),
        Event::HostCallBegun { .. }
        | Event::HostCalled { .. }
        | Event::DoubtSettled { .. }
        | Event::WritesUnclaimed { .. }
        | Event::RequestOpened { .. }
        | Event::RequestAnswered { .. } => visit_host_call(event, visitor),
        Event::CallStarted { .. }
        | Event::CallSuspended { .. }
        | Event::CallFinished { .. }
        | Event::CallFailed { .. } => visit_attempt(event, visitor),
    }
}

fn visit_routed(routed: &RoutingResult, visitor: &mut Visitor<'_>) {
    let from = |names: &EventNames| {
        routed
            .from
            .map(|role| names.role_name(role))
            .unwrap_or_default()
    };
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

fn visit_files(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::FilesWritten { role, work, files } => visitor(&|names| PublicEvent::FilesWritten {
            action: names.action_ref(*role, *work),
            files: files.iter().map(written_file).collect(),
        }),
        Event::FilesPlaced { aside, .. } => {
            for (path, kept) in aside {
                visitor(&|_| PublicEvent::FileKept {
                    path: path.clone(),
                    kept: kept.clone(),
                });
            }
        }
        _ => {}
    }
}

fn visit_host_call(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::HostCallBegun { role, work, intent } => {
            visitor(&|names| PublicEvent::HostCallBegun {
                action: names.action_ref(*role, *work),
                call: intent.kind,
                what: intent.description.clone(),
            });
        }
        Event::HostCalled { call, .. } if records_start(call) => {}
        Event::HostCalled {
            role,
            work,
            call,
            source,
            what,
        } => visitor(&|names| PublicEvent::HostCall {
            action: names.action_ref(*role, *work),
            call: call.kind,
            source: *source,
            // A recorded answer was paid for when it was recorded.
            cost: match source {
                AnswerSource::Live => call.cost.to_dollars(),
                AnswerSource::Recorded => 0.0,
            },
            what: what.clone(),
            finish: call.finish_reason,
        }),
        Event::DoubtSettled {
            role,
            work,
            what,
            resolution: verdict,
            ..
        } => visitor(&|names| PublicEvent::DoubtSettled {
            action: names.action_ref(*role, *work),
            what: what.clone(),
            verdict: verdict.name(),
        }),
        Event::WritesUnclaimed { role, work, writes } => {
            visitor(&|names| PublicEvent::WritesUnclaimed {
                action: names.action_ref(*role, *work),
                writes: writes.iter().map(|(_, what)| what.clone()).collect(),
            });
        }
        Event::RequestOpened {
            role,
            work,
            request,
        } => visitor(&|names| request_opened_event(names.action_ref(*role, *work), request)),
        Event::RequestAnswered {
            role,
            request,
            answer,
            checkpoint,
            ..
        } => visitor(&|names| PublicEvent::RequestAnswered {
            role: names.role_name(*role),
            request: request.0.clone(),
            by: answer.answered_by(),
            checkpoint: checkpoint.0.clone(),
            answer: answer.value().map(|value| value.value()),
        }),
        _ => {}
    }
}

fn visit_attempt(event: &Event, visitor: &mut Visitor<'_>) {
    match event {
        Event::CallStarted {
            role,
            work,
            attempt,
            digest,
            forgotten,
            ..
        } => {
            if !forgotten.is_empty() {
                visitor(&|names| PublicEvent::WritesForgotten {
                    action: names.action_ref(*role, *work),
                    writes: forgotten.clone(),
                });
            }
            if let Some(digest) = digest {
                visitor(&|names| {
                    let ActionRef {
                        role,
                        index,
                        action,
                        ..
                    } = names.action_ref(*role, *work);
                    PublicEvent::PluginInstantiated {
                        role,
                        index,
                        action,
                        digest: digest.0.clone(),
                    }
                });
            }
            if !is_choice(*work) {
                visitor(&|names| PublicEvent::ActionStarted {
                    action: names.action_ref(*role, *work),
                    attempt: *attempt,
                    digest: digest.as_ref().map(|digest| digest.0.clone()),
                });
            }
        }
        Event::CallSuspended {
            role,
            work,
            attempt,
        } => visitor(&|names| PublicEvent::ActionSuspended {
            action: names.action_ref(*role, *work),
            attempt: *attempt,
            reason: "out-of-budget",
        }),
        Event::CallFinished {
            role,
            work,
            attempt,
            result,
        } => visitor(&|names| finished_event(names, *role, *work, *attempt, result)),
        Event::CallFailed {
            role,
            work,
            attempt,
            digest,
            fault,
            retry_ms,
        } => visitor(&|names| {
            let Fault {
                kind,
                cause,
                message,
                backtrace,
                ..
            } = fault.as_reported(*work).into_owned();
            PublicEvent::ActionFailed {
                action: names.action_ref(*role, *work),
                attempt: *attempt,
                fault: kind,
                cause,
                message,
                digest: digest.as_ref().map(|digest| digest.0.clone()),
                backtrace,
                retry_ms: *retry_ms,
            }
        }),
        _ => {}
    }
}

fn finished_event(
    names: &EventNames,
    role: RoleId,
    work: Work,
    attempt: u32,
    result: &CallResult,
) -> PublicEvent {
    let output = match result {
        CallResult::Chosen(choice) => {
            return PublicEvent::Think {
                role: names.role_name(role),
                choice: *choice,
            };
        }
        CallResult::Planned { tasks, .. } => {
            let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
            ActionOutput {
                content: texts.join("\n"),
                data: None,
                to: Vec::new(),
                tasks: Some(tasks.clone()),
            }
        }
        CallResult::Returned { output, .. } => action_output(output),
    };
    let digest = names.running.get(&role).cloned().flatten();
    PublicEvent::ActionFinished {
        action: names.action_ref(role, work),
        attempt,
        digest: digest.map(|digest| digest.0),
        output,
    }
}

fn action_output(output: &Draft) -> ActionOutput {
    ActionOutput {
        content: output.content.clone(),
        data: output.data.as_ref().map(|data| data.value()),
        to: output.to.clone(),
        tasks: None,
    }
}

/// Returns the failure of an attempt whose result was taken back.
fn conflict_event(names: &EventNames, writer: &ConflictingWriter, message: String) -> PublicEvent {
    PublicEvent::ActionFailed {
        action: names.action_ref(writer.role, writer.work),
        attempt: writer.attempt,
        fault: FaultKind::StateConflict,
        cause: FaultCause::Unspecified,
        message,
        digest: writer.digest.as_ref().map(|digest| digest.0.clone()),
        backtrace: Vec::new(),
        retry_ms: None,
    }
}

fn request_opened_event(action: ActionRef, request: &HumanRequest) -> PublicEvent {
    PublicEvent::RequestOpened {
        action,
        request: request.id.0.clone(),
        question: request.question.clone(),
        schema: request.schema.as_ref().map(|schema| schema.value()),
        choices: request.choices.clone(),
        default: request.default.as_ref().map(|default| default.value()),
        expires: request.expires_ms.map(rfc3339),
    }
}

fn written_file(change: &FileChange) -> WrittenFile {
    WrittenFile {
        path: change.path.clone(),
        change: match &change.after {
            PathContent::Absent => WrittenContent::Removed,
            PathContent::Directory => WrittenContent::Made,
            PathContent::File { digest, bytes } => WrittenContent::Written {
                bytes: *bytes,
                digest: digest.0.clone(),
            },
        },
    }
}

/// Returns whether some work chooses the next action, which is not an action itself.
fn is_choice(work: Work) -> bool {
    matches!(work, Work::Think { .. })
}

/// Returns whether a call only records when an attempt began.
fn records_start(call: &HostCall) -> bool {
    call.kind == HostCallKind::Clock && call.request == WASI_CLOCK_START
}
