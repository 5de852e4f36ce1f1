//! A simulated run of a team, by a driver without a machine: calls end in any order, and what is
//! recorded survives everything. Disturbances (kills, stops, messages from outside, other
//! components, other rules) are random.

#[path = "lifecycle/humans.rs"]
mod humans;

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, CallSuspended, ComponentChanged, Event, HandOverFailed, HandedOver, HostCalled,
    MoneyReserved, Status, SuspendReason,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{AnswerSource, CallPolicy};
use strata_core::record::id::{ActionId, Digest, MessageId, RoleId, RunId, Slot, SlotKind};
use strata_core::record::message::Message;
use strata_core::record::money::Usd;
use strata_core::record::rules::Reducer;
use strata_core::record::shape::DeliveryMode;
use strata_core::record::spending::{Amount, Reservation};
use strata_core::record::work::CallKey;
use strata_core::state::activation::Phase;
use strata_core::state::budget::BudgetScope;
use strata_core::state::environment::Environment;
use strata_core::team::{React, Team};

use crate::rng::Rng;
use crate::script::Script;
use crate::teams::{LABELS, NAMES};

pub use humans::{AnswerTiming, HumanBehavior};

/// No run records more events; one that does is in an endless loop.
const MAX_EVENTS: usize = 20_000;

/// The disturbances of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultSchedule {
    /// How often the process is killed.
    pub kills: u32,
    /// How often the operator stops the run.
    pub stops: u32,
    /// How many messages arrive from outside.
    pub mail: u32,
    /// How often the run is resumed after it ended with a status other than done.
    pub resumes: u32,
    /// What a resume may change.
    pub change: ResumeChange,
}

/// What a resume may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumeChange {
    /// Nothing.
    #[default]
    Nothing,
    /// Components and the call policy.
    ComponentsAndCalls,
    /// Components, the call policy, limits, the budget, profiles and reducers.
    Everything,
}

/// A simulated run.
#[derive(Clone, Debug)]
pub struct SimulatedRun {
    /// The stepper.
    pub stepper: Stepper,
    /// All recorded events.
    pub log: Vec<Event>,
    /// The state after each event.
    pub states: Vec<Environment>,
    /// All attempts, with the index of their first event in the log.
    pub calls: Vec<(usize, Invocation)>,
    team: Arc<Team>,
    script: Script,
    faults: FaultSchedule,
    rng: Rng,
    in_flight: Vec<Invocation>,
    builds: u32,
    people: HumanBehavior,
}

impl SimulatedRun {
    /// Returns a run that has started. `order` seeds the order in which calls end, and the moments
    /// of the disturbances.
    pub fn begin(team: &Team, script: Script, faults: FaultSchedule, order: u64) -> Self {
        let team = Arc::new(team.clone());
        let stepper = Stepper::new(team.clone(), Environment::new(&team));
        let (log, states, calls, in_flight) = Default::default();
        let rng = Rng::new(order, "life");
        let people = HumanBehavior::default();
        let mut run = Self {
            stepper,
            log,
            states,
            calls,
            team,
            script,
            faults,
            rng,
            in_flight,
            builds: 0,
            people,
        };
        let components = slots(&run.team)
            .map(|slot| (slot, Digest::from("build 0")))
            .collect();
        run.record(
            run.stepper
                .run_started_event(RunId::from("run"), "an idea".into(), components),
        );
        run
    }

    /// Returns a complete run. It ends done, or when it may not be resumed any more.
    pub fn complete(team: &Team, script: Script, faults: FaultSchedule, order: u64) -> Self {
        let mut run = Self::begin(team, script, faults, order);
        run.run_to_end();
        run
    }

    /// Returns a complete run in which humans are asked. They answer as often as necessary.
    pub fn complete_with_humans(
        people: HumanBehavior,
        team: &Team,
        script: Script,
        faults: FaultSchedule,
        order: u64,
    ) -> Self {
        let mut run = Self::begin(team, script, faults, order);
        run.people = people;
        run.run_to_end();
        run
    }

    /// Returns the team as it is now.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// Returns the state.
    pub fn env(&self) -> &Environment {
        self.stepper.env()
    }

    /// Continues until the run ends.
    pub fn run_to_end(&mut self) {
        loop {
            while self.advance() {}
            if self.env().status == Status::Waiting {
                self.answer_humans();
                self.resume();
                continue;
            }
            let hopeless = match self.env().status {
                Status::Done => true,
                // Nothing happens without a message from outside.
                Status::Stalled => self.faults.mail == 0,
                Status::StepLimit | Status::OutOfBudget => {
                    self.faults.change != ResumeChange::Everything
                }
                _ => false,
            };
            if hopeless || self.faults.resumes == 0 {
                return;
            }
            self.faults.resumes -= 1;
            self.resume();
        }
    }

    /// Returns another run that branches off after the event at this index, which made a
    /// checkpoint, and continues to its end.
    pub fn fork(&self, at: usize, name: &str, order: u64) -> Self {
        let mut fork = self.clone();
        fork.log.truncate(at + 1);
        fork.states.truncate(at + 1);
        fork.calls.retain(|(start, _)| *start <= at);
        fork.in_flight.clear();
        fork.rng = Rng::new(order, "fork");
        fork.stepper = self.stepper.with_env(self.states[at].clone());
        let event = fork
            .stepper
            .forked_event(name.into(), Vec::new(), self.env().account())
            .expect("a checkpoint");
        fork.record(event);
        fork.resume();
        fork.run_to_end();
        fork
    }

    /// Resumes with a changed team.
    pub fn resume_as(&mut self, team: Team) {
        self.team = Arc::new(team);
        self.faults.change = ResumeChange::Nothing;
        self.resume();
    }

    /// Records an event and applies it.
    pub fn record(&mut self, event: Event) {
        assert!(self.log.len() < MAX_EVENTS, "the life does not end");
        if let Err(illegal) = self.stepper.apply(&event) {
            panic!("{illegal}: {event:?}");
        }
        self.log.push(event);
        self.states.push(self.env().clone());
    }

    /// Does one random thing. Returns false if the run has ended.
    fn advance(&mut self) -> bool {
        if self.faults.kills > 0 && self.rng.chance(4) {
            self.faults.kills -= 1;
            self.kill();
        } else if self.faults.stops > 0
            && self.rng.chance(4)
            && self.env().status == Status::Running
        {
            self.faults.stops -= 1;
            self.stop();
        } else if self.faults.mail > 0 && self.rng.chance(5) {
            self.faults.mail -= 1;
            self.mail();
        } else if self.people.answer_timing == AnswerTiming::AnyTime
            && self.env().open_requests().next().is_some()
            && self.rng.chance(10)
        {
            self.answer_humans();
        } else if (!self.in_flight.is_empty() || self.leaving().is_some()) && self.rng.chance(30) {
            self.complete_one();
        } else {
            return self.decide();
        }
        true
    }

    fn decide(&mut self) -> bool {
        match self.stepper.next() {
            Effect::Record(event) => self.record(event),
            Effect::Call(call) => {
                self.calls.push((self.log.len(), call.clone()));
                self.record(self.stepper.call_started_event(&call));
                if self.ask(&call) && self.ask_human(&call) {
                    self.in_flight.push(call);
                }
            }
            Effect::Wait => self.complete_one(),
            Effect::Halt(_) => return false,
        }
        true
    }

    /// Makes the host calls of an attempt. Each recorded call is served once; others are made if
    /// the budgets allow them. Returns false if the attempt ends with that.
    fn ask(&mut self, call: &Invocation) -> bool {
        let (role, work) = (call.role, call.work);
        let mut recorded = call.recorded_calls.clone();
        for request in self.script.requests(call) {
            let found = recorded.iter().position(|known| known.request == request);
            if let Some(at) = found {
                let answer = recorded.remove(at);
                self.record(Event::Attempt(
                    call.key(),
                    AttemptEvent::HostCalled(HostCalled {
                        call: answer,
                        source: AnswerSource::Recorded,
                        summary: String::new(),
                    }),
                ));
                continue;
            }
            match self
                .env()
                .exhausted_budget(&self.team, role, work, Amount::ZERO)
            {
                None => {}
                // The action gets an error and continues without the call.
                Some(BudgetScope::Action(_)) => continue,
                Some(BudgetScope::Cap | BudgetScope::Team | BudgetScope::Role(_)) => {
                    self.record(Event::Attempt(
                        call.key(),
                        AttemptEvent::CallSuspended(CallSuspended {
                            attempt: call.attempt,
                            reason: SuspendReason::Budget,
                        }),
                    ));
                    return false;
                }
            }
            let usd = Usd(self.rng.below(6) as u64);
            let reserved = Reservation {
                request: request.clone(),
                amount: Amount {
                    usd,
                    tokens: self.rng.below(3) as u64,
                },
            };
            self.record(Event::Attempt(
                call.key(),
                AttemptEvent::MoneyReserved(MoneyReserved { reserved }),
            ));
            let answer = self.script.answer(&request);
            self.record(Event::Attempt(
                call.key(),
                AttemptEvent::HostCalled(HostCalled {
                    call: answer,
                    source: AnswerSource::Live,
                    summary: String::new(),
                }),
            ));
        }
        true
    }

    /// Completes one attempt, one pause, or the delivery of one message, at random.
    fn complete_one(&mut self) {
        let resting: Vec<CallKey> = self
            .env()
            .open_calls(self.stepper.team())
            .filter(|(_, open)| *open.phase == Phase::BackingOff)
            .map(|(call, _)| call)
            .collect();
        let leaving = self.leaving();
        let ways = self.in_flight.len() + resting.len();
        let at = self.rng.below(ways + usize::from(leaving.is_some()));
        if let Some(id) = leaving.filter(|_| at == ways) {
            let fails = self.faults.resumes > 2 && self.rng.chance(10);
            let failed = Event::HandOverFailed(HandOverFailed {
                id: id.clone(),
                why: "nobody answers".into(),
            });
            return self.record(if fails {
                failed
            } else {
                Event::HandedOver(HandedOver { id })
            });
        }
        match resting.get(at.wrapping_sub(self.in_flight.len())) {
            Some(call) if at >= self.in_flight.len() => {
                self.record(Event::Attempt(*call, AttemptEvent::RetryDue));
            }
            _ => {
                let call = self.in_flight.swap_remove(at);
                let outcome = self.script.outcome(&self.stepper, &call);
                let event = self
                    .stepper
                    .call_ended_event(call.key(), outcome)
                    .expect("a running call has an end");
                self.record(event);
            }
        }
    }

    /// Returns the message that is being delivered.
    fn leaving(&self) -> Option<MessageId> {
        let env = self.env();
        let first = env
            .outbox
            .first()
            .filter(|first| first.failed.is_none() && env.status == Status::Running)?;
        Some(env.message(first.message).id.clone())
    }

    /// The process is killed; everything that was not recorded is lost.
    fn kill(&mut self) {
        self.in_flight.clear();
        let soft = |event: &Event| {
            matches!(
                event,
                Event::StepStarted(_)
                    | Event::Attempt(_, AttemptEvent::CallStarted(_))
                    | Event::Attempt(_, AttemptEvent::RetryDue)
            ) || matches!(event, Event::StepCommitted(_) | Event::StepConflicted(_))
                || matches!(event, Event::JoinReleased(_))
        };
        // The last events, which are not synced to the disk yet, may be lost with the machine.
        while self.rng.chance(30) && self.log.last().is_some_and(soft) {
            self.log.pop();
        }
        self.states.truncate(self.log.len());
        self.calls.retain(|(at, _)| *at < self.log.len());
        self.resume();
    }

    /// The operator stops the run, and it is resumed.
    fn stop(&mut self) {
        for call in std::mem::take(&mut self.in_flight) {
            let stopped = Fault::new(FaultKind::Interrupted, "stopped by the operator");
            if let Some(event) = self.stepper.call_ended_event(call.key(), Err(stopped)) {
                self.record(event);
            }
        }
        self.record(self.stepper.run_ended_event(Status::Interrupted));
        self.resume();
    }

    fn mail(&mut self) {
        let to = if self.rng.chance(50) {
            vec![(*self.rng.pick(&NAMES)).to_string()]
        } else {
            Vec::new()
        };
        let message = Message {
            id: MessageId::from(""),
            content: format!("from outside: {}", self.faults.mail),
            instruct: None,
            parts: Vec::new(),
            role: "user".into(),
            cause_by: (*self.rng.pick(&LABELS)).into(),
            sent_from: String::new(),
            send_to: to,
            meta: BTreeMap::new(),
            route: Vec::new(),
        };
        self.record(self.stepper.message_sent_event(message));
    }

    /// Replays the log and continues from there.
    fn resume(&mut self) {
        if self.faults.change == ResumeChange::Everything {
            self.team = Arc::new(changed_team(&self.team, &mut self.rng));
        }
        let mut stepper = Stepper::new(self.team.clone(), Environment::new(&self.team));
        for event in &self.log {
            stepper
                .apply(event)
                .expect("what was recorded can be read back");
        }
        self.stepper = stepper;
        self.in_flight.clear();
        let mut calls = CallPolicy::Auto;
        if self.faults.change != ResumeChange::Nothing {
            calls = *self.rng.pick(&[
                CallPolicy::Auto,
                CallPolicy::Auto,
                CallPolicy::Reuse,
                CallPolicy::Fresh,
            ]);
            self.replace_components();
        }
        self.record(
            self.stepper
                .run_resumed_event(self.team.policy.budget, calls),
        );
    }

    fn replace_components(&mut self) {
        for slot in slots(&self.team.clone()) {
            if self.rng.chance(20) {
                self.builds += 1;
                let new = Digest(format!("build {}", self.builds));
                let old = self.env().components.get(&slot).cloned();
                self.record(Event::ComponentChanged(ComponentChanged { slot, old, new }));
            }
        }
    }
}

/// Returns all slots of a team.
pub fn slots(team: &Team) -> impl Iterator<Item = Slot> {
    let of = |id: RoleId, actions: usize| {
        let actions = (0..actions).map(|i| SlotKind::Action(ActionId(i as u16)));
        actions
            .chain([SlotKind::Think])
            .map(move |part| Slot {
                role: id,
                kind: part,
            })
            .collect::<Vec<_>>()
    };
    let all: Vec<Slot> = team
        .role_ids()
        .flat_map(|id| of(id, team.role(id).actions.len()))
        .collect();
    all.into_iter()
}

/// Returns the team with random permitted changes.
pub fn changed_team(team: &Team, rng: &mut Rng) -> Team {
    let mut team = Team::clone(team);
    team.policy.max_parallel = 1 + rng.below(4);
    team.policy.max_steps = team
        .policy
        .max_steps
        .map(|steps| steps + rng.below(3) as u64);
    team.policy.budget = team
        .policy
        .budget
        .map(|budget| budget + Usd(rng.below(20) as u64));
    for reducer in team.scopes.values_mut() {
        *reducer = *rng.pick(&[
            None,
            Some(Reducer::Append),
            Some(Reducer::Add),
            Some(Reducer::Last),
        ]);
    }
    for role in &mut team.roles {
        role.profile = format!("job {}", rng.below(3));
        role.deliver = match rng.below(2) {
            0 => DeliveryMode::Batch,
            _ => DeliveryMode::Each,
        };
        if let React::Choose { max_loop, .. } = &mut role.react {
            *max_loop = rng.below(4) as u32;
        }
    }
    team
}
