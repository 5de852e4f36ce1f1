//! Applying events. Nothing else changes an environment, neither live nor when recorded events are
//! read.
//!
//! Every event is checked before anything changes: an illegal event leaves the state untouched.

use alloc::format;
use alloc::vec::Vec;

use super::Stepper;
use super::awake::Awake;
use super::names::{Applied, Illegal, ensure};
use super::report::idle_task;
use crate::activation::{Activation, Addressed, Done, Outgoing, Phase};
use crate::environment::scope::Write;
use crate::event::{Event, Finished, Journal, Routed, Status, Work};
use crate::fault::Fault;
use crate::id::{CheckpointId, Digest, RoleId, Slot};
use crate::message::{Draft, IDEA_LABEL, Instruct, Message, TO_ALL};
use crate::rules::Rules;

impl Stepper {
    /// Applies an event. Fails, without changing anything, if it does not fit the state.
    pub fn apply(&mut self, event: &Event) -> Applied {
        self.happen(event)?;
        self.awake.follow(&self.team, &self.env, event);
        debug_assert_eq!(
            self.awake,
            Awake::of(&self.team, &self.env),
            "who is awake is known after each event"
        );
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Applied {
        match event {
            Event::RunStarted { .. } => self.run_started(event),
            Event::RunResumed { .. } => self.run_resumed(event),
            Event::ComponentChanged { slot, old, new } => {
                self.component_changed(*slot, old.as_ref(), new)
            }
            Event::MessageSent { message, routed } => self.message_sent(message, routed),
            Event::StepStarted { step, roles } => self.step_started(*step, roles),
            Event::CallStarted { .. }
            | Event::CallSuspended { .. }
            | Event::CallFinished { .. }
            | Event::CallFailed { .. }
            | Event::RetryDue { .. } => self.apply_call_event(event),
            Event::HostCallBegun { .. }
            | Event::HostCalled { .. }
            | Event::MoneyReserved { .. }
            | Event::DoubtSettled { .. }
            | Event::WritesUnclaimed { .. } => self.host_call(event),
            Event::StepConflicted {
                scope,
                key,
                writers,
                ..
            } => {
                ensure(self.settled(), "a conflict in a step that is not settled")?;
                ensure(
                    self.conflict().as_ref() == Some(event),
                    "a conflict that is none",
                )?;
                self.undo(scope, key, writers);
                Ok(())
            }
            Event::StepCommitted { .. } => self.step_committed(event),
            Event::JoinReleased { .. } => self.apply_join_released(event),
            Event::RequestOpened {
                role,
                work,
                request,
            } => self.open_request(*role, *work, request),
            Event::RequestAnswered { .. } => self.answer_request(event),
            Event::HandedOver { id } => self.handed_over(id, None),
            Event::HandOverFailed { id, why } => self.handed_over(id, Some(why)),
            Event::RunEnded {
                status,
                checkpoint,
                parent,
            } => self.apply_run_ended(*status, checkpoint.as_ref(), parent.as_ref()),
            Event::Forked { .. } => self.fork(event),
            Event::FilesWritten { role, work, files } => self.files_written(*role, *work, files),
            Event::FilesPlaced { count, .. } => self.files_placed(*count as usize),
        }
    }

    /// Applies the events of attempts, except those of host calls.
    fn apply_call_event(&mut self, event: &Event) -> Applied {
        match event {
            Event::CallStarted {
                role,
                work,
                attempt,
                journal,
                ..
            } => self.begin_call(*role, *work, *attempt, *journal),
            Event::CallSuspended {
                role,
                work,
                attempt,
            } => {
                self.attempted(*role, *work, *attempt)?;
                self.call_suspended(*role, *work)
            }
            Event::CallFinished {
                role,
                work,
                attempt,
                result,
            } => {
                self.attempted(*role, *work, *attempt)?;
                self.call_finished(*role, *work, result)
            }
            Event::CallFailed {
                role,
                work,
                attempt,
                fault,
                retry_ms,
                ..
            } => {
                self.attempted(*role, *work, *attempt)?;
                self.call_failed(*role, *work, fault, *retry_ms)
            }
            Event::RetryDue { role } => {
                self.going()?;
                let activation = self.activation(*role)?;
                ensure(
                    activation.phase == Phase::Resting,
                    "a retry of a role that does not rest",
                )?;
                activation.phase = Phase::Ready;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn apply_join_released(&mut self, event: &Event) -> Applied {
        self.started_run()?;
        self.going()?;
        ensure(
            !self.env.open,
            "joins that fire by themselves within a step",
        )?;
        ensure(
            self.release().as_ref() == Some(event),
            "joins that cannot fire",
        )?;
        self.join(&[], &self.fired_between_steps());
        Ok(())
    }

    fn apply_run_ended(
        &mut self,
        status: Status,
        checkpoint: Option<&CheckpointId>,
        parent: Option<&CheckpointId>,
    ) -> Applied {
        self.started_run()?;
        self.going()?;
        ensure(status != Status::Running, "an end that is none")?;
        self.env.status = status;
        if let Some(id) = checkpoint {
            self.mark(id.clone(), parent.cloned());
        }
        Ok(())
    }

    fn run_started(&mut self, event: &Event) -> Applied {
        let Event::RunStarted {
            run,
            idea,
            budget,
            components,
            routed,
            checkpoint,
            rules,
        } = event
        else {
            return Ok(());
        };
        ensure(
            self.env.run.0.is_empty() && self.env.messages.is_empty(),
            "a start of a run that has started",
        )?;
        ensure(!run.0.is_empty(), "a run without a name")?;
        components.keys().try_for_each(|slot| self.has(*slot))?;
        self.incoming(routed)?;
        self.rule(rules)?;
        (self.env.run, self.env.idea) = (run.clone(), idea.clone());
        self.env.budget = *budget;
        self.env.components = components.clone();
        let message = self.env.add(Message::of_user(
            routed.id.clone(),
            idea.clone(),
            IDEA_LABEL.into(),
        ));
        self.deliver(message, routed);
        self.mark(checkpoint.clone(), None);
        Ok(())
    }

    fn run_resumed(&mut self, event: &Event) -> Applied {
        let Event::RunResumed {
            checkpoint,
            step,
            budget,
            calls,
            rules,
            spent,
            ..
        } = event
        else {
            return Ok(());
        };
        self.started_run()?;
        ensure(
            *checkpoint == self.env.checkpoint && *step == self.env.step,
            "a resume from another place",
        )?;
        ensure(*spent >= self.env.spent, "a resume that gives money back")?;
        // Determined under the old rules: a lower loop limit may leave a call without a place that
        // was in progress.
        let mut at_work = Vec::new();
        for (id, activation) in self.env.activations() {
            if let Some(work) = activation.work(self.team.role(id)) {
                at_work.push((id, work));
            }
        }
        self.rule(rules)?;
        self.env.status = Status::Running;
        (self.env.spent, self.env.budget) = (*spent, *budget);
        self.env.calls = *calls;
        for (id, work) in at_work {
            self.env.forfeit(id, work);
        }
        for outbound in &mut self.env.outbox {
            outbound.failed = None;
        }
        for (state, role) in self.env.roles.iter_mut().zip(&self.team.roles) {
            if let Some(activation) = &mut state.activation {
                activation.resume(role);
            }
        }
        Ok(())
    }

    /// Adopts these rules from now on.
    fn rule(&mut self, rules: &Rules) -> Applied {
        ensure(
            rules.roles.len() == self.env.roles.len(),
            "rules for another team",
        )?;
        self.team = rules.over(&self.given);
        self.env.rules = rules.clone();
        Ok(())
    }

    fn component_changed(&mut self, slot: Slot, old: Option<&Digest>, new: &Digest) -> Applied {
        self.started_run()?;
        self.has(slot)?;
        let role = self.team.role(slot.role);
        ensure(
            self.env.components.get(&slot) == old,
            "a change of a component that was not there",
        )?;
        self.env.components.insert(slot, new.clone());
        if let Some(activation) = &mut self.env.roles[slot.role.index()].activation {
            let at = activation
                .work(role)
                .and_then(|work| super::slot(role, slot.role, work));
            if at == Some(slot) {
                activation.reconsider();
            }
        }
        Ok(())
    }

    fn message_sent(&mut self, message: &Message, routed: &Routed) -> Applied {
        self.started_run()?;
        ensure(
            message.id == self.env.next_sent(),
            "a message from outside out of turn",
        )?;
        ensure(
            message.id == routed.id,
            "a message that was routed under another id",
        )?;
        self.incoming(routed)?;
        self.env.sent += 1;
        let message = self.env.add(message.clone());
        self.deliver(message, routed);
        Ok(())
    }

    fn step_started(&mut self, step: u64, roles: &[RoleId]) -> Applied {
        ensure(
            self.env.status == Status::Running && !self.env.open,
            "a step while another is open",
        )?;
        ensure(step == self.env.step, "a step out of turn")?;
        ensure(
            !roles.is_empty() && roles == self.due(),
            "a step with other roles than those that are due",
        )?;
        self.env.open = true;
        for id in roles {
            let state = &mut self.env.roles[id.index()];
            if state.activation.is_none() {
                let news = state.take_mail();
                state.latest = news.last().copied();
                state.activation = Some(Activation::open(step, news, self.team.role(*id)));
            }
        }
        Ok(())
    }

    fn begin_call(&mut self, id: RoleId, work: Work, attempt: u32, journal: Journal) -> Applied {
        self.going()?;
        ensure(self.env.open, "a call outside of a step")?;
        let team = self.team.clone();
        let activation = self.activation(id)?;
        let role = team.role(id);
        ensure(
            activation.phase.is_ready(),
            "a call of a role that is not ready",
        )?;
        ensure(
            activation.work(role) == Some(work),
            "a call that is not the next one",
        )?;
        ensure(
            activation.goes_on_with(work, attempt),
            "an attempt out of turn",
        )?;
        activation.current.attempts = attempt;
        activation.current.answered = false;
        if journal == Journal::Fresh {
            activation.current.journal.clear();
            activation.current.begun.clear();
        }
        activation.phase = Phase::Running;
        Ok(())
    }

    fn call_finished(&mut self, id: RoleId, work: Work, result: &Finished) -> Applied {
        let fits = match result {
            Finished::Chosen(choice) => {
                let known = -1..self.team.role(id).actions.len() as i32;
                ensure(known.contains(choice), "a choice of an action that is none")?;
                matches!(work, Work::Think { .. })
            }
            Finished::Planned { tasks, .. } => {
                ensure(
                    idle_task(self.team.role(id), tasks).is_none(),
                    "a plan that nobody can carry out",
                )?;
                work == Work::Plan
            }
            Finished::Returned { .. } => matches!(work, Work::Act { .. }),
        };
        ensure(fits, "a result of another kind of call")?;
        self.env.forfeit(id, work);
        match result {
            Finished::Chosen(choice) => self.activation(id)?.choose(work, *choice),
            Finished::Planned {
                tasks,
                emissions,
                writes,
            } => {
                let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
                let output = Draft {
                    content: texts.join("\n"),
                    ..Draft::default()
                };
                self.keep(id, work, &output, emissions, writes)?;
                self.activation(id)?.tasks = tasks.clone();
            }
            Finished::Returned {
                output,
                emissions,
                writes,
            } => self.keep(id, work, output, emissions, writes)?,
        }
        let team = self.team.clone();
        self.activation(id)?.proceed(team.role(id));
        Ok(())
    }

    /// Keeps the result of a call until the commit.
    pub(super) fn keep(
        &mut self,
        id: RoleId,
        work: Work,
        output: &Draft,
        emissions: &[Draft],
        writes: &[Write],
    ) -> Applied {
        let emissions = emissions
            .iter()
            .map(|draft| self.make(id, work, draft))
            .collect::<Result<_, _>>()?;
        let output = self.make(id, work, output)?;
        let activation = self.activation(id)?;
        let tried = core::mem::take(&mut activation.current);
        activation.done.push(Done {
            work,
            output,
            emissions,
            writes: writes.to_vec(),
            tried,
        });
        Ok(())
    }

    /// Makes a message from a draft. Its id is derived from where it was made, so that it is the
    /// same when the run is repeated.
    fn make(&mut self, id: RoleId, work: Work, draft: &Draft) -> Result<Outgoing, Illegal> {
        let team = self.team.clone();
        let role = team.role(id);
        let activation = self.activation(id)?;
        let number = activation.made;
        activation.made += 1;
        let name = format!("{}-{}-{number}", activation.opened, id.0);
        let action = match work {
            Work::Act { action, .. } => &role.action(action).name,
            Work::Plan | Work::Think { .. } => &role.actions[0].name,
            Work::Answer => &role.name,
        };
        let addressed = if draft.to.is_empty() {
            Addressed::Open
        } else {
            Addressed::Named
        };
        let message = Message {
            id: name.as_str().into(),
            content: draft.content.clone(),
            instruct: draft.data.clone().map(Instruct::untyped),
            role: role.speaker(),
            cause_by: draft.cause_by.clone().unwrap_or_else(|| action.clone()),
            sent_from: role.name.clone(),
            send_to: if draft.to.is_empty() {
                alloc::vec![TO_ALL.into()]
            } else {
                draft.to.clone()
            },
            meta: Default::default(),
            route: draft.route.clone(),
        };
        Ok(Outgoing {
            message: self.env.add(message),
            addressed,
        })
    }

    fn call_suspended(&mut self, id: RoleId, work: Work) -> Applied {
        self.env.forfeit(id, work);
        let activation = self.activation(id)?;
        (activation.current.keep, activation.current.answered) = (true, true);
        activation.phase = activation.ready();
        Ok(())
    }

    fn call_failed(
        &mut self,
        id: RoleId,
        work: Work,
        fault: &Fault,
        retry_ms: Option<u32>,
    ) -> Applied {
        self.env.forfeit(id, work);
        let activation = self.running(id, work)?;
        activation.current.failures += 1;
        activation.current.keep = fault.kind.keeps_calls();
        activation.phase = match retry_ms {
            Some(_) => Phase::Resting,
            None => Phase::Failed(fault.seen(work).into_owned()),
        };
        Ok(())
    }

    fn step_committed(&mut self, event: &Event) -> Applied {
        let Event::StepCommitted {
            step,
            checkpoint,
            parent,
            routed,
            released,
        } = event
        else {
            return Ok(());
        };
        ensure(
            self.settled() && *step == self.env.step,
            "a commit of a step that is not settled",
        )?;
        ensure(self.conflict().is_none(), "a commit of conflicting writes")?;
        let published = self.publications();
        let sent = published
            .iter()
            .map(|(id, outgoing)| (Some(*id), &self.env.message(outgoing.message).id));
        ensure(
            sent.eq(routed.iter().map(|r| (r.from, &r.id))),
            "a commit that publishes something else",
        )?;
        routed.iter().try_for_each(|r| self.routed(r))?;
        let arrivals = self.arrivals(&published, routed);
        let fired = self.fired_by(&arrivals);
        ensure(
            self.told(&fired) == *released,
            "a commit that makes other joins fire",
        )?;
        self.merge();
        self.deliver_all(&published, routed, &arrivals, &fired);
        self.env.step += 1;
        self.env.open = false;
        self.mark(checkpoint.clone(), parent.clone());
        Ok(())
    }

    /// Makes this the newest checkpoint.
    pub(super) fn mark(&mut self, id: CheckpointId, parent: Option<CheckpointId>) {
        self.env.checkpoint = Some(id);
        self.env.parent = parent;
        self.env.checkpoints += 1;
    }
}
