//! Applying events. Nothing else changes an environment, neither live nor when recorded events are
//! read.
//!
//! Every event is checked before anything changes: an illegal event leaves the state untouched.

use alloc::vec::Vec;

use super::Stepper;
use super::calls::apply_attempt_event;
use super::commit::{apply_handed_over, deliver, deliver_all, merge_activations, publications};
use super::conflict::{revert_conflict, step_conflict};
use super::consent::apply_consent_withdrawn;
use super::files::apply_files_placed;
use super::fork::apply_forked;
use super::human_requests::withdraw_outdated_requests;
use super::joins::{apply_joins, arrivals, fired_between_steps, fired_by, release_records};
use super::kept_bytes::KeptBytes;
use super::ready_index::ReadyIndex;
use super::team_state::{ApplyResult, ensure};
use crate::record::event::{
    CapReached, ComponentChanged, ConsentWithdrawn, Event, HandOverFailed, HandedOver,
    JoinReleased, MessageSent, RunEnded, RunResumed, RunStarted, ServerChanged, Status,
    StepCommitted, StepConflicted, StepStarted,
};
use crate::record::message::{IDEA_LABEL, Message};
use crate::record::rules::Rules;
use crate::record::work::{CallKey, Work};
use crate::state::activation::Activation;

impl Stepper {
    /// Applies an event. Fails, without changing anything, if it does not fit the state.
    pub fn apply(&mut self, event: &Event) -> ApplyResult {
        self.apply_event(event)?;
        self.ready_index
            .apply_event(&self.state.team, &self.state.env, event);
        self.state.kept.apply_event(&self.state.env, event);
        debug_assert_eq!(
            self.ready_index,
            ReadyIndex::build(&self.state.team, &self.state.env),
            "who is awake is known after each event"
        );
        debug_assert_eq!(
            self.state.kept,
            KeptBytes::count(&self.state.env),
            "how much the run keeps is known after each event"
        );
        Ok(())
    }

    /// Returns whether no call of the open step is running or waiting to be made.
    fn is_step_settled(&self) -> bool {
        self.state.ensure_running().is_ok()
            && self.state.env.is_step_open
            && self.ready_index.is_settled()
    }

    fn apply_event(&mut self, event: &Event) -> ApplyResult {
        match event {
            Event::RunStarted(started) => self.apply_run_started(started),
            Event::RunResumed(resumed) => self.apply_run_resumed(resumed),
            Event::ComponentChanged(changed) => self.apply_component_changed(changed),
            Event::MessageSent(sent) => self.apply_message_sent(sent),
            Event::StepStarted(started) => self.apply_step_started(started),
            Event::Attempt(call, event) => {
                apply_attempt_event(&mut self.state, &self.ready_index, *call, event)
            }
            Event::StepConflicted(conflict) => self.apply_step_conflicted(conflict),
            Event::StepCommitted(committed) => self.apply_step_committed(committed),
            Event::JoinReleased(released) => self.apply_join_released(released),
            Event::HandedOver(HandedOver { id }) => apply_handed_over(&mut self.state, id, None),
            Event::HandOverFailed(HandOverFailed { id, why }) => {
                apply_handed_over(&mut self.state, id, Some(why))
            }
            Event::RunEnded(ended) => self.apply_run_ended(ended),
            Event::Forked(forked) => apply_forked(&mut self.state, forked),
            Event::FilesPlaced(placed) => {
                apply_files_placed(&mut self.state.env, placed.count as usize)
            }
            Event::CapReached(reached) => self.apply_cap_reached(reached),
            Event::ConsentWithdrawn(ConsentWithdrawn {}) => {
                apply_consent_withdrawn(&mut self.state)
            }
            Event::ServerChanged(changed) => self.apply_server_changed(changed),
            // It is kept in the journal only: nothing depends on it.
            Event::ServerToolOmitted(_) => self.ensure_going_on(),
        }
    }

    fn apply_step_conflicted(&mut self, conflict: &StepConflicted) -> ApplyResult {
        ensure(
            self.is_step_settled(),
            "a conflict in a step that is not settled",
        )?;
        ensure(
            step_conflict(&self.state, &self.ready_index).as_ref() == Some(conflict),
            "a conflict that is none",
        )?;
        revert_conflict(&mut self.state, conflict);
        Ok(())
    }

    fn apply_join_released(&mut self, event: &JoinReleased) -> ApplyResult {
        self.state.ensure_started()?;
        self.state.ensure_running()?;
        ensure(
            !self.state.env.is_step_open,
            "joins that fire by themselves within a step",
        )?;
        let firings = fired_between_steps(&self.state, &self.ready_index);
        ensure(
            !firings.is_empty() && release_records(&self.state.env, &firings) == event.released,
            "joins that cannot fire",
        )?;
        apply_joins(&mut self.state, &[], &firings);
        Ok(())
    }

    fn ensure_going_on(&self) -> ApplyResult {
        self.state.ensure_started()?;
        self.state.ensure_running()
    }

    fn apply_server_changed(&mut self, changed: &ServerChanged) -> ApplyResult {
        self.ensure_going_on()?;
        if let Some(revision) = &changed.revision {
            let (server, revision) = (changed.server.clone(), revision.clone());
            self.state.env.server_revisions.insert(server, revision);
        }
        Ok(())
    }

    fn apply_cap_reached(&mut self, reached: &CapReached) -> ApplyResult {
        self.state.ensure_started()?;
        self.state.ensure_running()?;
        ensure(!reached.scope.is_empty(), "a cap that applies to nothing")?;
        self.state.env.cap_reached = Some(reached.clone());
        Ok(())
    }

    fn apply_run_ended(&mut self, ended: &RunEnded) -> ApplyResult {
        self.state.ensure_started()?;
        self.state.ensure_running()?;
        ensure(ended.status != Status::Running, "an end that is none")?;
        self.state.env.status = ended.status;
        if let Some(id) = &ended.checkpoint {
            self.state.set_checkpoint(id.clone(), ended.parent.clone());
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
            self.state.env.run.0.is_empty() && self.state.env.messages.is_empty(),
            "a start of a run that has started",
        )?;
        ensure(!run.0.is_empty(), "a run without a name")?;
        components
            .keys()
            .try_for_each(|slot| self.state.ensure_slot_exists(*slot))?;
        self.state.ensure_routed_from_outside(routed)?;
        self.adopt_rules(rules)?;
        (self.state.env.run, self.state.env.idea) = (run.clone(), idea.clone());
        self.state.env.budget = *budget;
        self.state.env.components = components.clone();
        self.state.env.idea_parts = Vec::new();
        let message = self.state.env.add_message(Message {
            parts: parts.clone(),
            ..Message::from_user(routed.id.clone(), idea.clone(), IDEA_LABEL.into())
        });
        deliver(&mut self.state, message, routed);
        self.state.set_checkpoint(checkpoint.clone(), None);
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
            questions,
            finished: _,
            by: _,
        } = event;
        self.state.ensure_started()?;
        ensure(
            *checkpoint == self.state.env.checkpoint && *step == self.state.env.step,
            "a resume from another place",
        )?;
        ensure(
            *spent >= self.state.env.spent,
            "a resume that gives money back",
        )?;
        // Determined under the old rules: a lower loop limit may leave a call without a place that
        // was in progress.
        let old_team = self.state.team.clone();
        let open = self.state.env.open_calls(&old_team);
        let at_work: Vec<CallKey> = open.map(|(call, _)| call).collect();
        self.adopt_rules(rules)?;
        self.state.env.status = Status::Running;
        (self.state.env.spent, self.state.env.budget) = (*spent, *budget);
        self.state.env.call_policy = *calls;
        self.state.env.cap_reached = None;
        self.state.env.questions.merge(questions);
        for call in at_work {
            self.state.env.charge_reservations(&old_team, call);
        }
        for outbound in &mut self.state.env.outbox {
            outbound.failed = None;
        }
        let team = self.state.team.clone();
        self.state
            .env
            .for_each_activation_mut(&mut |key, activation| activation.resume(team.role(key.role)));
        withdraw_outdated_requests(&team, &mut self.state.env);
        Ok(())
    }

    /// Adopts these rules from now on.
    fn adopt_rules(&mut self, rules: &Rules) -> ApplyResult {
        ensure(
            rules.roles.len() == self.state.env.roles.len(),
            "rules for another team",
        )?;
        self.state.team = rules.apply_to(&self.defined_team);
        self.state.env.rules = rules.clone();
        Ok(())
    }

    fn apply_component_changed(&mut self, changed: &ComponentChanged) -> ApplyResult {
        let ComponentChanged { slot, old, new } = changed;
        let slot = *slot;
        self.state.ensure_started()?;
        self.state.ensure_slot_exists(slot)?;
        ensure(
            self.state.env.components.get(&slot) == old.as_ref(),
            "a change of a component that was not there",
        )?;
        self.state.env.components.insert(slot, new.clone());
        let team = self.state.team.clone();
        let role = team.role(slot.role);
        self.state
            .env
            .for_each_activation_mut(&mut |key, activation| {
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
        self.state.ensure_started()?;
        ensure(
            message.id == self.state.env.next_external_message_id(),
            "a message from outside out of turn",
        )?;
        ensure(
            message.id == routed.id,
            "a message that was routed under another id",
        )?;
        self.state.ensure_routed_from_outside(routed)?;
        self.state.env.external_message_count += 1;
        let message = self.state.env.add_message(message.clone());
        deliver(&mut self.state, message, routed);
        Ok(())
    }

    fn apply_step_started(&mut self, started: &StepStarted) -> ApplyResult {
        let StepStarted { step, roles } = started;
        ensure(
            self.state.env.status == Status::Running && !self.state.env.is_step_open,
            "a step while another is open",
        )?;
        ensure(*step == self.state.env.step, "a step out of turn")?;
        ensure(
            !roles.is_empty() && *roles == self.due_roles(),
            "a step with other roles than those that are due",
        )?;
        self.state.env.is_step_open = true;
        for id in roles {
            let role = self.state.team.role(*id);
            let state = &mut self.state.env.roles[id.index()];
            if state.activation.is_none() {
                let news = state.take_mail(role.deliver);
                self.state.kept.remove_references(news.len());
                state.latest = news.last().copied();
                state.activation = Some(Activation::new(*step, news, role));
            }
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
            self.is_step_settled() && *step == self.state.env.step,
            "a commit of a step that is not settled",
        )?;
        ensure(
            step_conflict(&self.state, &self.ready_index).is_none(),
            "a commit of conflicting writes",
        )?;
        let published = publications(&self.state.env, &self.ready_index);
        let sent = published
            .iter()
            .map(|(id, outgoing)| (Some(*id), &self.state.env.message(outgoing.message).id));
        ensure(
            sent.eq(routed.iter().map(|r| (r.from, &r.id))),
            "a commit that publishes something else",
        )?;
        routed
            .iter()
            .try_for_each(|r| self.state.ensure_valid_routing(r))?;
        let arrivals = arrivals(&published, routed);
        let fired = fired_by(&self.state, &arrivals);
        ensure(
            release_records(&self.state.env, &fired) == *released,
            "a commit that makes other joins fire",
        )?;
        merge_activations(&mut self.state, &self.ready_index, &mut self.memory_index);
        deliver_all(&mut self.state, &published, routed, &arrivals, &fired);
        self.state.env.step += 1;
        self.state.env.is_step_open = false;
        self.state
            .set_checkpoint(checkpoint.clone(), parent.clone());
        Ok(())
    }
}
