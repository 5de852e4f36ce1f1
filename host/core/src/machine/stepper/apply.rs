//! Applying events. Nothing else changes an environment, neither live nor when recorded events are
//! read.
//!
//! Every event is checked before anything changes: an illegal event leaves the state untouched.

use alloc::format;
use alloc::vec::Vec;

use super::Stepper;
use super::checks::{ApplyResult, IllegalEvent, ensure};
use super::event_builders::unassignable_task;
use super::ready_index::ReadyIndex;
use super::role_calls::message_id_prefix;
use super::tool_calls::can_be_called;
use crate::record::event::{
    AttemptEvent, CallFailed, CallStarted, ComponentChanged, Event, HandOverFailed, HandedOver,
    JoinReleased, MessageSent, RunEnded, RunResumed, RunStarted, Status, StepCommitted,
    StepConflicted, StepStarted,
};
use crate::record::fault::{FaultHandling, FaultKind};
use crate::record::host_call::RecordedCallUse;
use crate::record::id::CheckpointId;
use crate::record::message::{Draft, IDEA_LABEL, Instruct, Message, TO_ALL};
use crate::record::rules::Rules;
use crate::record::scope_write::Write;
use crate::record::work::{CallKey, CallResult, Work};
use crate::state::activation::{
    Activation, Addressing, FinishedCall, Phase, ToolOutcome, TurnCall, UncommittedMessage,
};
use crate::state::environment::activations::called_key;

impl Stepper {
    /// Applies an event. Fails, without changing anything, if it does not fit the state.
    pub fn apply(&mut self, event: &Event) -> ApplyResult {
        self.apply_event(event)?;
        self.ready_index.apply_event(&self.team, &self.env, event);
        debug_assert_eq!(
            self.ready_index,
            ReadyIndex::build(&self.team, &self.env),
            "who is awake is known after each event"
        );
        Ok(())
    }

    fn apply_event(&mut self, event: &Event) -> ApplyResult {
        match event {
            Event::RunStarted(started) => self.apply_run_started(started),
            Event::RunResumed(resumed) => self.apply_run_resumed(resumed),
            Event::ComponentChanged(changed) => self.apply_component_changed(changed),
            Event::MessageSent(sent) => self.apply_message_sent(sent),
            Event::StepStarted(started) => self.apply_step_started(started),
            Event::Attempt(call, event) => self.apply_attempt_event(*call, event),
            Event::StepConflicted(conflict) => self.apply_step_conflicted(conflict),
            Event::StepCommitted(committed) => self.apply_step_committed(committed),
            Event::JoinReleased(released) => self.apply_join_released(released),
            Event::HandedOver(HandedOver { id }) => self.apply_handed_over(id, None),
            Event::HandOverFailed(HandOverFailed { id, why }) => {
                self.apply_handed_over(id, Some(why))
            }
            Event::RunEnded(ended) => self.apply_run_ended(ended),
            Event::Forked(forked) => self.apply_forked(forked),
            Event::FilesPlaced(placed) => self.apply_files_placed(placed.count as usize),
        }
    }

    fn apply_attempt_event(&mut self, call: CallKey, event: &AttemptEvent) -> ApplyResult {
        match event {
            AttemptEvent::CallStarted(started) => self.apply_call_started(call, started),
            AttemptEvent::CallSuspended(suspended) => {
                self.ensure_current_attempt(call, suspended.attempt)?;
                self.apply_call_suspended(call)
            }
            AttemptEvent::CallFinished(finished)
                if called_key(call.activation(), call.work).is_some() =>
            {
                self.apply_role_returned(call, finished)
            }
            AttemptEvent::CallFinished(finished) => {
                self.ensure_current_attempt(call, finished.attempt)?;
                self.apply_call_finished(call, &finished.result)
            }
            AttemptEvent::CallFailed(failed) => self.apply_call_failed(call, failed),
            AttemptEvent::RetryDue => self.apply_retry_due(call),
            AttemptEvent::HostCallBegun(_)
            | AttemptEvent::HostCalled(_)
            | AttemptEvent::MoneyReserved(_)
            | AttemptEvent::DoubtSettled(_)
            | AttemptEvent::WritesUnclaimed(_) => self.apply_host_call_event(call, event),
            AttemptEvent::RequestOpened(opened) => self.apply_request_opened(call, &opened.request),
            AttemptEvent::RequestAnswered(answered) => self.apply_request_answered(call, answered),
            AttemptEvent::FilesWritten(written) => self.apply_files_written(call, &written.files),
        }
    }

    fn apply_retry_due(&mut self, call: CallKey) -> ApplyResult {
        self.ensure_running()?;
        let open = self.open_call_mut(call)?;
        ensure(
            *open.phase == Phase::BackingOff,
            "a retry of a call that is not waiting for one",
        )?;
        *open.phase = Phase::Ready;
        Ok(())
    }

    fn apply_step_conflicted(&mut self, conflict: &StepConflicted) -> ApplyResult {
        ensure(
            self.is_step_settled(),
            "a conflict in a step that is not settled",
        )?;
        ensure(
            self.step_conflict().as_ref() == Some(conflict),
            "a conflict that is none",
        )?;
        self.revert_conflict(conflict);
        Ok(())
    }

    fn apply_join_released(&mut self, event: &JoinReleased) -> ApplyResult {
        self.ensure_started()?;
        self.ensure_running()?;
        ensure(
            !self.env.is_step_open,
            "joins that fire by themselves within a step",
        )?;
        let firings = self.fired_between_steps();
        ensure(
            !firings.is_empty() && self.release_records(&firings) == event.released,
            "joins that cannot fire",
        )?;
        self.apply_joins(&[], &firings);
        Ok(())
    }

    fn apply_run_ended(&mut self, ended: &RunEnded) -> ApplyResult {
        self.ensure_started()?;
        self.ensure_running()?;
        ensure(ended.status != Status::Running, "an end that is none")?;
        self.env.status = ended.status;
        if let Some(id) = &ended.checkpoint {
            self.set_checkpoint(id.clone(), ended.parent.clone());
        }
        Ok(())
    }

    fn apply_run_started(&mut self, event: &RunStarted) -> ApplyResult {
        let RunStarted {
            run,
            idea,
            parts,
            budget,
            components,
            routed,
            checkpoint,
            rules,
        } = event;
        ensure(
            self.env.run.0.is_empty() && self.env.messages.is_empty(),
            "a start of a run that has started",
        )?;
        ensure(!run.0.is_empty(), "a run without a name")?;
        components
            .keys()
            .try_for_each(|slot| self.ensure_slot_exists(*slot))?;
        self.ensure_routed_from_outside(routed)?;
        self.adopt_rules(rules)?;
        (self.env.run, self.env.idea) = (run.clone(), idea.clone());
        self.env.budget = *budget;
        self.env.components = components.clone();
        self.env.idea_parts = Vec::new();
        let message = self.env.add_message(Message {
            parts: parts.clone(),
            ..Message::from_user(routed.id.clone(), idea.clone(), IDEA_LABEL.into())
        });
        self.deliver(message, routed);
        self.set_checkpoint(checkpoint.clone(), None);
        Ok(())
    }

    fn apply_run_resumed(&mut self, event: &RunResumed) -> ApplyResult {
        let RunResumed {
            checkpoint,
            step,
            budget,
            call_policy: calls,
            rules,
            spent,
            ..
        } = event;
        self.ensure_started()?;
        ensure(
            *checkpoint == self.env.checkpoint && *step == self.env.step,
            "a resume from another place",
        )?;
        ensure(*spent >= self.env.spent, "a resume that gives money back")?;
        // Determined under the old rules: a lower loop limit may leave a call without a place that
        // was in progress.
        let old_team = self.team.clone();
        let open = self.env.open_calls(&old_team);
        let at_work: Vec<CallKey> = open.map(|(call, _)| call).collect();
        self.adopt_rules(rules)?;
        self.env.status = Status::Running;
        (self.env.spent, self.env.budget) = (*spent, *budget);
        self.env.call_policy = *calls;
        for call in at_work {
            self.env.charge_reservations(&old_team, call);
        }
        for outbound in &mut self.env.outbox {
            outbound.failed = None;
        }
        let team = self.team.clone();
        self.env
            .for_each_activation_mut(&mut |key, activation| activation.resume(team.role(key.role)));
        Ok(())
    }

    /// Adopts these rules from now on.
    fn adopt_rules(&mut self, rules: &Rules) -> ApplyResult {
        ensure(
            rules.roles.len() == self.env.roles.len(),
            "rules for another team",
        )?;
        self.team = rules.apply_to(&self.defined_team);
        self.env.rules = rules.clone();
        Ok(())
    }

    fn apply_component_changed(&mut self, changed: &ComponentChanged) -> ApplyResult {
        let ComponentChanged { slot, old, new } = changed;
        let slot = *slot;
        self.ensure_started()?;
        self.ensure_slot_exists(slot)?;
        ensure(
            self.env.components.get(&slot) == old.as_ref(),
            "a change of a component that was not there",
        )?;
        self.env.components.insert(slot, new.clone());
        let team = self.team.clone();
        let role = team.role(slot.role);
        self.env.for_each_activation_mut(&mut |key, activation| {
            if key.role != slot.role {
                return;
            }
            let open = activation.open_calls(role);
            let made_by_it: Vec<Work> = open
                .map(|(work, _)| work)
                .filter(|work| super::component_slot(role, slot.role, *work) == Some(slot))
                .collect();
            for work in made_by_it {
                activation.component_replaced(role, work);
            }
        });
        Ok(())
    }

    fn apply_message_sent(&mut self, sent: &MessageSent) -> ApplyResult {
        let MessageSent { message, routed } = sent;
        self.ensure_started()?;
        ensure(
            message.id == self.env.next_external_message_id(),
            "a message from outside out of turn",
        )?;
        ensure(
            message.id == routed.id,
            "a message that was routed under another id",
        )?;
        self.ensure_routed_from_outside(routed)?;
        self.env.external_message_count += 1;
        let message = self.env.add_message(message.clone());
        self.deliver(message, routed);
        Ok(())
    }

    fn apply_step_started(&mut self, started: &StepStarted) -> ApplyResult {
        let StepStarted { step, roles } = started;
        ensure(
            self.env.status == Status::Running && !self.env.is_step_open,
            "a step while another is open",
        )?;
        ensure(*step == self.env.step, "a step out of turn")?;
        ensure(
            !roles.is_empty() && *roles == self.due_roles(),
            "a step with other roles than those that are due",
        )?;
        self.env.is_step_open = true;
        for id in roles {
            let state = &mut self.env.roles[id.index()];
            if state.activation.is_none() {
                let news = state.take_mail();
                state.latest = news.last().copied();
                state.activation = Some(Activation::new(*step, news, self.team.role(*id)));
            }
        }
        Ok(())
    }

    fn apply_call_started(&mut self, call: CallKey, started: &CallStarted) -> ApplyResult {
        let (attempt, call_reuse) = (started.attempt, started.call_reuse);
        self.ensure_running()?;
        ensure(self.env.is_step_open, "a call outside of a step")?;
        ensure(
            self.activation_mut(call.activation())?
                .tool_call(call.work)
                .is_none_or(TurnCall::is_ready),
            "a call that is not approved",
        )?;
        if let Work::ToolCall { tool, .. } = call.work {
            let can_be_called = can_be_called(call.activation(), tool);
            ensure(can_be_called, "a call of a role that led to it")?;
        }
        let open = self.open_call_mut(call)?;
        ensure(open.phase.is_ready(), "a call that is not ready")?;
        ensure(
            attempt == open.progress.attempts + 1,
            "an attempt out of turn",
        )?;
        open.progress.attempts = attempt;
        open.progress.was_suspended = false;
        if call_reuse == RecordedCallUse::Fresh {
            open.progress.recorded_calls.clear();
            open.progress.external_writes.clear();
        }
        *open.phase = Phase::Running;
        self.begin_role_call(call)
    }

    fn apply_call_finished(&mut self, call: CallKey, result: &CallResult) -> ApplyResult {
        let (id, work, key) = (call.role, call.work, call.activation());
        let fits = match result {
            CallResult::Chosen(choice) => {
                let known = -1..self.team.role(id).actions.len() as i32;
                ensure(known.contains(choice), "a choice of an action that is none")?;
                matches!(work, Work::Think { .. })
            }
            CallResult::Planned { tasks, .. } => {
                ensure(
                    unassignable_task(self.team.role(id), tasks).is_none(),
                    "a plan that nobody can carry out",
                )?;
                work == Work::Plan
            }
            CallResult::Returned { .. } => matches!(work, Work::Act { .. } | Work::ToolCall { .. }),
            CallResult::Replied(reply) => {
                self.ensure_valid_reply(key, reply)?;
                matches!(work, Work::Turn { .. })
            }
        };
        ensure(fits, "a result of another kind of call")?;
        self.env.charge_reservations(&self.team, call);
        match result {
            CallResult::Chosen(choice) => self.activation_mut(key)?.record_choice(work, *choice),
            CallResult::Planned {
                tasks,
                emissions,
                writes,
            } => {
                let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
                let output = Draft {
                    content: texts.join("\n"),
                    ..Draft::default()
                };
                self.keep_result(call, &output, emissions, writes)?;
                self.activation_mut(key)?.tasks = tasks.clone();
            }
            CallResult::Returned {
                output,
                emissions,
                writes,
            } if matches!(work, Work::ToolCall { .. }) => {
                return self.end_tool_call_with(call, output, emissions, writes);
            }
            CallResult::Returned {
                output,
                emissions,
                writes,
            } => self.keep_result(call, output, emissions, writes)?,
            CallResult::Replied(reply) => return self.begin_turn(call, reply),
        }
        let team = self.team.clone();
        self.activation_mut(key)?.proceed(team.role(id));
        Ok(())
    }

    /// Keeps the result of a call until the commit. A called role publishes nothing.
    pub(super) fn keep_result(
        &mut self,
        call: CallKey,
        output: &Draft,
        emissions: &[Draft],
        writes: &[Write],
    ) -> ApplyResult {
        let published = emissions.iter().filter(|_| call.via.is_empty());
        let emissions = published
            .map(|draft| self.make_next_message(call, draft))
            .collect::<Result<_, _>>()?;
        let output = self.make_next_message(call, output)?;
        let activation = self.activation_mut(call.activation())?;
        let tried = core::mem::take(&mut activation.current_call);
        activation.done.push(FinishedCall {
            work: call.work,
            output,
            emissions,
            writes: writes.to_vec(),
            progress: tried,
        });
        Ok(())
    }

    /// Makes a message from a draft. Its id is derived from how many messages the activation made
    /// before, so that it is the same when the run is repeated.
    fn make_next_message(
        &mut self,
        call: CallKey,
        draft: &Draft,
    ) -> Result<UncommittedMessage, IllegalEvent> {
        let activation = self.activation_mut(call.activation())?;
        let number = activation.message_count;
        activation.message_count += 1;
        let id = format!(
            "{}-{number}",
            message_id_prefix(&self.env, call.activation())
        );
        Ok(self.make_message(call, draft, &id))
    }

    /// Makes a message with this id from a draft.
    pub(super) fn make_message(
        &mut self,
        call: CallKey,
        draft: &Draft,
        id: &str,
    ) -> UncommittedMessage {
        let role = self.team.role(call.role);
        let label = match call.work {
            Work::Act { action, .. } => &role.action(action).name,
            Work::Plan | Work::Think { .. } => &role.actions[0].name,
            // The actions of a tools role are no labels.
            Work::Answer | Work::Turn { .. } | Work::ToolCall { .. } => &role.name,
        };
        let addressed = if draft.to.is_empty() {
            Addressing::ByEnvironment
        } else {
            Addressing::Explicit
        };
        let message = Message {
            id: id.into(),
            content: draft.content.clone(),
            instruct: draft.data.clone().map(Instruct::untyped),
            parts: draft.parts.clone(),
            role: role.speaker_name(),
            cause_by: draft.cause_by.clone().unwrap_or_else(|| label.clone()),
            sent_from: role.name.clone(),
            send_to: if draft.to.is_empty() {
                alloc::vec![TO_ALL.into()]
            } else {
                draft.to.clone()
            },
            meta: Default::default(),
            route: draft.route.clone(),
        };
        UncommittedMessage {
            message: self.env.add_message(message),
            addressing: addressed,
        }
    }

    fn apply_call_suspended(&mut self, call: CallKey) -> ApplyResult {
        self.env.charge_reservations(&self.team, call);
        let open = self.open_call_mut(call)?;
        (open.progress.keeps_calls, open.progress.was_suspended) = (true, true);
        *open.phase = open.progress.ready_or_in_doubt();
        Ok(())
    }

    fn apply_call_failed(&mut self, call: CallKey, failed: &CallFailed) -> ApplyResult {
        let CallFailed {
            attempt,
            fault,
            retry_ms,
            handling,
            ..
        } = failed;
        let open = self.env.open_call(&self.team, call);
        if fault.kind == FaultKind::Turns && open.is_some_and(|open| open.phase.is_ready()) {
            return self.apply_turn_limit(call, failed);
        }
        self.ensure_current_attempt(call, *attempt)?;
        let is_returned = *handling == FaultHandling::Returned;
        ensure(
            !is_returned || retry_ms.is_none() && matches!(call.work, Work::ToolCall { .. }),
            "a fault that cannot be returned to a model",
        )?;
        self.env.charge_reservations(&self.team, call);
        let open = self.running_call_mut(call)?;
        open.progress.failures += 1;
        open.progress.keeps_calls = fault.kind.keeps_recorded_calls();
        *open.phase = match retry_ms {
            Some(_) => Phase::BackingOff,
            None => Phase::Failed(fault.as_reported(call.work).into_owned()),
        };
        if is_returned {
            self.end_tool_call(call, ToolOutcome::Failed(fault.clone()))?;
        }
        Ok(())
    }

    fn apply_step_committed(&mut self, event: &StepCommitted) -> ApplyResult {
        let StepCommitted {
            step,
            checkpoint,
            parent,
            routed,
            released,
        } = event;
        ensure(
            self.is_step_settled() && *step == self.env.step,
            "a commit of a step that is not settled",
        )?;
        ensure(
            self.step_conflict().is_none(),
            "a commit of conflicting writes",
        )?;
        let published = self.publications();
        let sent = published
            .iter()
            .map(|(id, outgoing)| (Some(*id), &self.env.message(outgoing.message).id));
        ensure(
            sent.eq(routed.iter().map(|r| (r.from, &r.id))),
            "a commit that publishes something else",
        )?;
        routed
            .iter()
            .try_for_each(|r| self.ensure_valid_routing(r))?;
        let arrivals = self.arrivals(&published, routed);
        let fired = self.fired_by(&arrivals);
        ensure(
            self.release_records(&fired) == *released,
            "a commit that makes other joins fire",
        )?;
        self.merge_activations();
        self.deliver_all(&published, routed, &arrivals, &fired);
        self.env.step += 1;
        self.env.is_step_open = false;
        self.set_checkpoint(checkpoint.clone(), parent.clone());
        Ok(())
    }

    /// Makes this the newest checkpoint.
    pub(super) fn set_checkpoint(&mut self, id: CheckpointId, parent: Option<CheckpointId>) {
        self.env.checkpoint = Some(id);
        self.env.parent = parent;
        self.env.checkpoint_count += 1;
    }
}
