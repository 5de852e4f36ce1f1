//! Converts recorded events into public events (NDJSON, one object a line).
//!
//! The conversion depends only on the events and the team's shape, so the public events of a run
//! can be reproduced exactly from its records.

mod count;
mod kinds;
mod routing;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use strata_core::event::{Event, Finished, Source, Work, Writer};
use strata_core::fault::{FaultCause, FaultKind};
use strata_core::file::{Content, FileChange};
use strata_core::id::{Digest, JoinId, Part, RoleId, Slot};
use strata_core::message::Draft;
use strata_core::request::Request;
use strata_core::shape::Shape;
use strata_core::stepper::conflict;
use strata_core::team::Role;

use count::{is_choice, is_start};

pub use count::{count, is_routed};
pub use kinds::{Field, KINDS, Kind, Presence};

/// The name of a role, action or join that the team does not have. Events are converted as they
/// were recorded, and damaged ones may not fit the team.
const UNKNOWN: &str = "?";

/// One public event.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The number of the line, counted from 1 over all runs on a storage.
    pub n: u64,
    /// When it was recorded, in milliseconds since the epoch.
    pub time_ms: i64,
    /// The kind of event.
    pub kind: &'static str,
    /// The fields other than `n`, `time` and `kind`.
    pub fields: Map<String, Value>,
}

impl Line {
    /// Returns the event as a line of JSON, without a newline. `n`, `time` and `kind` come first.
    pub fn to_json(&self) -> String {
        let head = format!(
            "{{\"n\":{},\"time\":\"{}\",\"kind\":\"{}\"",
            self.n,
            rfc3339(self.time_ms),
            self.kind
        );
        let fields = Value::Object(self.fields.clone()).to_string();
        match &fields[1..] {
            "}" => head + "}",
            fields => format!("{head},{fields}"),
        }
    }

    /// Returns the value of a string field; empty if the field is absent or not a string.
    pub fn text(&self, field: &str) -> &str {
        self.fields
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// Returns the name of a role's work: the action's name, `think` or `answer`.
pub fn action_name(role: &Role, work: Work) -> &str {
    match work {
        Work::Think { .. } => "think",
        Work::Answer => "answer",
        Work::Plan => role.actions.first().map_or("", |action| &action.name),
        Work::Act { action, .. } => &role.action(action).name,
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
pub fn rfc3339(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms)
        .map_or_else(|_| time_ms.to_string(), |time| format!("{time:.3}"))
}

/// Converts the events of one team.
#[derive(Clone, Debug)]
pub struct Narrator {
    shape: Shape,
    step: u64,
    /// The component of each role's current attempt. A role makes one attempt at a time.
    running: BTreeMap<RoleId, Option<Digest>>,
}

type Told = (&'static str, Value);

impl Narrator {
    /// Creates a narrator for the events that follow in a team of this shape, of which `step` is
    /// the current step.
    pub fn new(shape: Shape, step: u64) -> Self {
        Self {
            shape,
            step,
            running: BTreeMap::new(),
        }
    }

    /// Converts one event. `n` is the number of its first line.
    pub fn tell(&mut self, event: &Event, n: u64, time_ms: i64) -> Vec<Line> {
        let told = self.lines(event);
        let mut lines = Vec::with_capacity(told.len());
        for ((kind, value), n) in told.into_iter().zip(n..) {
            let Value::Object(fields) = value else {
                continue;
            };
            debug_assert!(
                kinds::fits(kind, &fields),
                "`{kind}` is listed otherwise than it is told: {fields:?}"
            );
            lines.push(Line {
                n,
                time_ms,
                kind,
                fields,
            });
        }
        lines
    }

    fn lines(&mut self, event: &Event) -> Vec<Told> {
        match event {
            Event::RunStarted { .. }
            | Event::RunResumed { .. }
            | Event::RunEnded { .. }
            | Event::Forked { .. }
            | Event::ComponentChanged { .. } => self.run(event),
            Event::StepStarted { .. }
            | Event::StepConflicted { .. }
            | Event::StepCommitted { .. } => self.step(event),
            Event::MessageSent { routed, .. } => self.routed(routed),
            Event::JoinReleased { released } => self.released(released),
            Event::HandedOver { id } => vec![("message-handed-over", json!({ "id": id.0 }))],
            Event::HandOverFailed { id, why } => {
                vec![(
                    "message-not-handed-over",
                    json!({ "id": id.0, "reason": why }),
                )]
            }
            Event::FilesWritten { .. } | Event::FilesPlaced { .. } => self.files(event),
            Event::RetryDue { .. } | Event::MoneyReserved { .. } => Vec::new(),
            Event::RequestOpened {
                role,
                work,
                request,
            } => {
                vec![("request-opened", self.opened(*role, *work, request))]
            }
            Event::RequestAnswered { .. } => self.answered(event),
            Event::HostCallBegun { .. }
            | Event::HostCalled { .. }
            | Event::DoubtSettled { .. }
            | Event::WritesUnclaimed { .. } => self.host_call(event),
            Event::CallStarted { .. }
            | Event::CallSuspended { .. }
            | Event::CallFinished { .. }
            | Event::CallFailed { .. } => self.attempt(event),
        }
    }

    fn run(&mut self, event: &Event) -> Vec<Told> {
        match event {
            Event::RunStarted {
                run, idea, routed, ..
            } => {
                self.step = 0;
                let mut told = vec![("run-started", json!({ "run": run.0, "idea": idea }))];
                told.extend(self.routed(routed));
                told
            }
            Event::RunResumed {
                checkpoint,
                step,
                kept,
                ..
            } => {
                self.step = *step;
                let checkpoint = checkpoint.as_ref().map(|id| id.0.clone());
                let mut told = vec![(
                    "run-resumed",
                    json!({ "checkpoint": checkpoint, "step": step }),
                )];
                for (role, work) in kept {
                    if !is_choice(*work) {
                        told.push(("action-replayed", self.call(*role, *work)));
                    }
                }
                told
            }
            Event::RunEnded {
                status, checkpoint, ..
            } => {
                let mut fields = json!({ "status": status.name() });
                if let Some(checkpoint) = checkpoint {
                    fields["checkpoint"] = checkpoint.0.clone().into();
                }
                vec![("run-ended", fields)]
            }
            Event::Forked {
                lineage,
                from,
                checkpoint,
                step,
                ..
            } => {
                self.step = *step;
                let fields =
                    json!({ "lineage": lineage, "checkpoint": checkpoint.0, "parent": from.0 });
                vec![("forked", fields)]
            }
            Event::ComponentChanged { slot, old, new } => {
                let old = old.as_ref().map(|digest| digest.0.clone());
                let (role, action) = self.place(*slot);
                vec![(
                    "component-changed",
                    json!({ "role": role, "action": action, "old": old, "new": new.0 }),
                )]
            }
            _ => Vec::new(),
        }
    }

    fn step(&mut self, event: &Event) -> Vec<Told> {
        match event {
            Event::StepStarted { step, .. } => {
                self.step = *step;
                vec![("step-started", json!({ "step": step }))]
            }
            Event::StepConflicted {
                scope,
                key,
                writers,
                ..
            } => self.conflict(scope, key, writers),
            Event::StepCommitted {
                step,
                checkpoint,
                parent,
                routed,
                released,
            } => {
                let mut told: Vec<Told> = routed.iter().flat_map(|r| self.routed(r)).collect();
                told.extend(self.released(released));
                let parent = parent.as_ref().map(|id| id.0.clone());
                told.push((
                    "step-committed",
                    json!({ "step": step, "checkpoint": checkpoint.0, "parent": parent }),
                ));
                told
            }
            _ => Vec::new(),
        }
    }

    fn files(&self, event: &Event) -> Vec<Told> {
        match event {
            Event::FilesWritten { role, work, files } => {
                let mut fields = self.call(*role, *work);
                fields["files"] = files.iter().map(file_change).collect();
                vec![("files-written", fields)]
            }
            Event::FilesPlaced { aside, .. } => {
                let mut told = Vec::new();
                for (path, kept) in aside {
                    told.push(("file-kept", json!({ "path": path, "kept": kept })));
                }
                told
            }
            _ => Vec::new(),
        }
    }

    fn conflict(&self, scope: &str, key: &str, writers: &[Writer]) -> Vec<Told> {
        let names: Vec<&str> = writers
            .iter()
            .map(|writer| self.role(writer.role))
            .collect();
        let message = conflict(scope, key, &names);
        writers
            .iter()
            .map(|writer| ("action-failed", self.conflicted(writer, &message)))
            .collect()
    }

    fn host_call(&self, event: &Event) -> Vec<Told> {
        match event {
            Event::HostCalled { call, .. } if is_start(call) => Vec::new(),
            Event::HostCalled {
                role,
                work,
                call,
                source,
                what,
            } => {
                let mut fields = self.call(*role, *work);
                fields["call"] = call.kind.name().into();
                fields["source"] = source.name().into();
                // A response that is served from the journal costs nothing.
                let cost = if *source == Source::Live {
                    call.cost.dollars()
                } else {
                    0.0
                };
                fields["cost"] = json!(cost);
                fields["what"] = what.clone().into();
                if let Some(finish) = call.finish {
                    fields["finish"] = finish.name().into();
                }
                vec![("host-call", fields)]
            }
            Event::HostCallBegun { role, work, intent } => {
                let mut fields = self.call(*role, *work);
                fields["call"] = intent.kind.name().into();
                fields["what"] = intent.what.clone().into();
                vec![("host-call-begun", fields)]
            }
            Event::DoubtSettled {
                role,
                work,
                what,
                verdict,
                ..
            } => {
                let mut fields = self.call(*role, *work);
                fields["what"] = what.clone().into();
                fields["verdict"] = verdict.name().into();
                vec![("doubt-settled", fields)]
            }
            Event::WritesUnclaimed { role, work, writes } => {
                let mut fields = self.call(*role, *work);
                fields["writes"] = writes.iter().map(|(_, what)| what.as_str()).collect();
                vec![("writes-unclaimed", fields)]
            }
            _ => Vec::new(),
        }
    }

    fn attempt(&mut self, event: &Event) -> Vec<Told> {
        match event {
            Event::CallSuspended {
                role,
                work,
                attempt,
            } => {
                let mut fields = self.call(*role, *work);
                fields["attempt"] = (*attempt).into();
                fields["reason"] = "out-of-budget".into();
                vec![("action-suspended", fields)]
            }
            Event::CallStarted { .. } => self.attempt_started(event),
            Event::CallFinished { .. } => self.attempt_finished(event),
            Event::CallFailed {
                role,
                work,
                attempt,
                digest,
                fault,
                retry_ms,
            } => {
                let fault = fault.seen(*work);
                let mut fields = self.call(*role, *work);
                fields["attempt"] = (*attempt).into();
                fields["fault"] = fault.kind.name().into();
                fields["cause"] = fault.cause.name().into();
                fields["message"] = fault.message.clone().into();
                fields["digest"] = json!(digest.as_ref().map(|digest| &digest.0));
                fields["backtrace"] = json!(fault.backtrace);
                if let Some(pause) = retry_ms {
                    fields["retry_ms"] = (*pause).into();
                }
                vec![("action-failed", fields)]
            }
            _ => Vec::new(),
        }
    }

    fn attempt_started(&mut self, event: &Event) -> Vec<Told> {
        let Event::CallStarted {
            role,
            work,
            attempt,
            digest,
            forgotten,
            ..
        } = event
        else {
            return Vec::new();
        };
        let mut told = Vec::new();
        if !forgotten.is_empty() {
            let mut fields = self.call(*role, *work);
            fields["writes"] = json!(forgotten);
            told.push(("writes-forgotten", fields));
        }
        let mut call = self.call(*role, *work);
        call["digest"] = json!(digest.as_ref().map(|digest| &digest.0));
        self.running.insert(*role, digest.clone());
        if digest.is_some() {
            let mut fields = call.clone();
            if let Some(object) = fields.as_object_mut() {
                object.remove("step");
            }
            told.push(("plugin-instantiated", fields));
        }
        if !is_choice(*work) {
            call["attempt"] = (*attempt).into();
            told.push(("action-started", call));
        }
        told
    }

    fn attempt_finished(&mut self, event: &Event) -> Vec<Told> {
        let Event::CallFinished {
            role,
            work,
            attempt,
            result,
        } = event
        else {
            return Vec::new();
        };
        let digest = self.running.remove(role).flatten();
        let mut fields = self.call(*role, *work);
        fields["attempt"] = (*attempt).into();
        fields["digest"] = json!(digest.map(|digest| digest.0));
        fields["output"] = match result {
            Finished::Chosen(choice) => {
                let role = self.role(*role);
                return vec![("think", json!({ "role": role, "choice": choice }))];
            }
            Finished::Planned { tasks, .. } => {
                let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
                json!({ "content": texts.join("\n"), "tasks": tasks })
            }
            Finished::Returned { output, .. } => output_json(output),
        };
        vec![("action-finished", fields)]
    }

    fn role(&self, id: RoleId) -> &str {
        self.shape
            .roles
            .get(id.index())
            .map_or(UNKNOWN, |role| &role.name)
    }

    fn action(&self, id: RoleId, action: usize) -> &str {
        let actions = self.shape.roles.get(id.index()).map(|role| &role.actions);
        actions
            .and_then(|actions| actions.get(action))
            .map_or(UNKNOWN, String::as_str)
    }

    fn join(&self, id: JoinId) -> &str {
        self.shape
            .joins
            .get(id.index())
            .map_or(UNKNOWN, |join| &join.id)
    }

    /// Returns the fields of a call whose result is discarded because of a conflict.
    fn conflicted(&self, writer: &Writer, message: &str) -> Value {
        let mut fields = self.call(writer.role, writer.work);
        fields["attempt"] = writer.attempt.into();
        fields["fault"] = FaultKind::StateConflict.name().into();
        fields["cause"] = FaultCause::Unspecified.name().into();
        fields["message"] = message.into();
        fields["digest"] = json!(writer.digest.as_ref().map(|digest| &digest.0));
        fields["backtrace"] = json!([]);
        fields
    }

    fn answered(&self, event: &Event) -> Vec<Told> {
        let Event::RequestAnswered {
            role,
            request,
            answer,
            checkpoint,
            ..
        } = event
        else {
            return Vec::new();
        };
        let role = self.role(*role);
        let mut fields = json!({ "role": role, "request": request.0, "by": answer.by(), "checkpoint": checkpoint.0 });
        if let Some(value) = answer.value() {
            fields["answer"] = value.value();
        }
        vec![("request-answered", fields)]
    }

    fn opened(&self, id: RoleId, work: Work, request: &Request) -> Value {
        let mut fields = self.call(id, work);
        fields["request"] = request.id.0.clone().into();
        fields["question"] = request.question.clone().into();
        if let Some(schema) = &request.schema {
            fields["schema"] = schema.value();
        }
        if !request.choices.is_empty() {
            fields["choices"] = json!(request.choices);
        }
        if let Some(default) = &request.default {
            fields["default"] = default.value();
        }
        if let Some(end) = request.expires_ms {
            fields["expires"] = rfc3339(end).into();
        }
        fields
    }

    /// Returns the fields `step`, `role`, `index` and `action` of a call.
    fn call(&self, id: RoleId, work: Work) -> Value {
        let (index, action) = match work {
            Work::Think { .. } => (-1, "think"),
            Work::Answer => (-1, "answer"),
            Work::Plan => (0, self.action(id, 0)),
            Work::Act { action, .. } => (i32::from(action.0), self.action(id, action.index())),
        };
        json!({ "step": self.step, "role": self.role(id), "index": index, "action": action })
    }

    fn place(&self, slot: Slot) -> (&str, &str) {
        let action = match slot.part {
            Part::Think => "think",
            Part::Action(action) => self.action(slot.role, action.index()),
        };
        (self.role(slot.role), action)
    }
}

fn output_json(output: &Draft) -> Value {
    let mut fields = json!({ "content": output.content });
    if let Some(data) = &output.data {
        fields["data"] = data.value();
    }
    if !output.to.is_empty() {
        fields["to"] = json!(output.to);
    }
    fields
}

fn file_change(change: &FileChange) -> Value {
    let path = &change.path;
    match &change.after {
        Content::Absent => json!({ "path": path, "change": "removed" }),
        Content::Directory => json!({ "path": path, "change": "made" }),
        Content::File { digest, bytes } => {
            json!({ "path": path, "change": "written", "bytes": bytes, "digest": digest.0 })
        }
    }
}
