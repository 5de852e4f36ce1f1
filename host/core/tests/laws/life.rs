//! A life of a team, told by a driver without a machine: calls end in any order, and what is
//! recorded survives everything. Disturbances (kills, stops, mail from outside, other components,
//! other rules) come by the dice.

#[path = "life/asking.rs"]
mod asking;

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::activation::Phase;
use strata_core::budget::{Amount, Purse, Reserved};
use strata_core::effect::{Effect, Invocation};
use strata_core::environment::Environment;
use strata_core::event::{CallPolicy, Event, Source, Status};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, Digest, MessageId, Part, RoleId, RunId, Slot};
use strata_core::message::Message;
use strata_core::money::Usd;
use strata_core::stepper::Stepper;
use strata_core::team::Team;

use crate::dice::Dice;
use crate::mending::mended;
use crate::script::Script;
use crate::teams::{LABELS, NAMES};

pub use asking::{Patience, People};

/// No life takes longer: beyond it the stepper goes round in circles.
const MAX_EVENTS: usize = 20_000;

/// What befalls a life.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// How often it is killed.
    pub kills: u32,
    /// How often the operator stops it.
    pub stops: u32,
    /// How many messages come from outside.
    pub mail: u32,
    /// How often it is resumed after it ended otherwise than done.
    pub resumes: u32,
    /// What resumes bring.
    pub change: Change,
}

/// What a resume may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    Nothing,
    /// Components and the call policy.
    Circumstances,
    /// That, and limits, the budget, profiles and reducers.
    Everything,
}

/// A life.
#[derive(Clone, Debug)]
pub struct Life {
    /// The team in motion.
    pub stepper: Stepper,
    /// All that was recorded.
    pub log: Vec<Event>,
    /// The state after each of it.
    pub states: Vec<Environment>,
    /// All attempts, with the place of their start in the log.
    pub calls: Vec<(usize, Invocation)>,
    team: Arc<Team>,
    script: Script,
    weather: Weather,
    dice: Dice,
    flying: Vec<Invocation>,
    builds: u32,
    people: People,
}

impl Life {
    /// A life that has begun. `order` decides what arrives when, and the weather's moments.
    pub fn begin(team: &Team, script: Script, weather: Weather, order: u64) -> Self {
        let team = Arc::new(team.clone());
        let stepper = Stepper::new(team.clone(), Environment::new(&team));
        let (log, states, calls, flying) = Default::default();
        let dice = Dice::new(order, "life");
        let people = People::default();
        let mut life = Self {
            stepper,
            log,
            states,
            calls,
            team,
            script,
            weather,
            dice,
            flying,
            builds: 0,
            people,
        };
        let components = slots(&life.team)
            .map(|slot| (slot, Digest::from("build 0")))
            .collect();
        life.record(
            life.stepper
                .started(RunId::from("run"), "an idea".into(), components),
        );
        life
    }

    /// A whole life. It ends done, or when it may be resumed no more.
    pub fn tell(team: &Team, script: Script, weather: Weather, order: u64) -> Self {
        let mut life = Self::begin(team, script, weather, order);
        life.run();
        life
    }

    /// A whole life in which people are asked. They answer however often it takes.
    pub fn tell_with(
        people: People,
        team: &Team,
        script: Script,
        (weather, order): (Weather, u64),
    ) -> Self {
        let mut life = Self::begin(team, script, weather, order);
        life.people = people;
        life.run();
        life
    }

    /// The team as it now is.
    pub fn team(&self) -> &Arc<Team> {
        &self.team
    }

    /// The state.
    pub fn env(&self) -> &Environment {
        self.stepper.env()
    }

    /// Goes on until the end.
    pub fn run(&mut self) {
        loop {
            while self.moment() {}
            if self.env().status == Status::Waiting {
                self.hear();
                self.resume();
                continue;
            }
            let hopeless = match self.env().status {
                Status::Done => true,
                // Nothing comes of itself.
                Status::Stalled => self.weather.mail == 0,
                Status::StepLimit | Status::OutOfBudget => {
                    self.weather.change != Change::Everything
                }
                _ => false,
            };
            if hopeless || self.weather.resumes == 0 {
                return;
            }
            self.weather.resumes -= 1;
            self.resume();
        }
    }

    /// Another life that leaves this one after an event that made a checkpoint, and goes on to its
    /// end.
    pub fn fork(&self, at: usize, name: &str, order: u64) -> Self {
        let mut fork = self.clone();
        fork.log.truncate(at + 1);
        fork.states.truncate(at + 1);
        fork.calls.retain(|(start, _)| *start <= at);
        fork.flying.clear();
        fork.dice = Dice::new(order, "fork");
        fork.stepper = self.stepper.at(self.states[at].clone());
        let event = fork
            .stepper
            .forked(name.into(), Vec::new(), self.env().account())
            .expect("a checkpoint");
        fork.record(event);
        fork.resume();
        fork.run();
        fork
    }

    /// Goes on with a mended team.
    pub fn resume_as(&mut self, team: Team) {
        self.team = Arc::new(team);
        self.weather.change = Change::Nothing;
        self.resume();
    }

    /// Records an event and lets it happen.
    pub fn record(&mut self, event: Event) {
        assert!(self.log.len() < MAX_EVENTS, "the life does not end");
        if let Err(illegal) = self.stepper.apply(&event) {
            panic!("{illegal}: {event:?}");
        }
        self.log.push(event);
        self.states.push(self.env().clone());
    }

    /// Lets one thing happen. False at a halt.
    fn moment(&mut self) -> bool {
        if self.weather.kills > 0 && self.dice.chance(4) {
            self.weather.kills -= 1;
            self.kill();
        } else if self.weather.stops > 0
            && self.dice.chance(4)
            && self.env().status == Status::Running
        {
            self.weather.stops -= 1;
            self.stop();
        } else if self.weather.mail > 0 && self.dice.chance(5) {
            self.weather.mail -= 1;
            self.mail();
        } else if self.people.patience == Patience::AnyTime
            && self.env().requests().next().is_some()
            && self.dice.chance(10)
        {
            self.hear();
        } else if (!self.flying.is_empty() || self.leaving().is_some()) && self.dice.chance(30) {
            self.land();
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
                self.record(self.stepper.call_started(&call));
                if self.ask(&call) && self.consult(&call) {
                    self.flying.push(call);
                }
            }
            Effect::Wait => self.land(),
            Effect::Halt(_) => return false,
        }
        true
    }

    /// Makes the host calls of an attempt: each is served once from what is recorded, else made, if
    /// a budget allows it. Whether the attempt goes on.
    fn ask(&mut self, call: &Invocation) -> bool {
        let (role, work) = (call.role, call.work);
        let mut recorded = call.recorded.clone();
        for request in self.script.requests(call) {
            let found = recorded.iter().position(|known| known.request == request);
            if let Some(at) = found {
                let call = recorded.remove(at);
                self.record(Event::HostCalled {
                    role,
                    work,
                    call,
                    source: Source::Recorded,
                    what: String::new(),
                });
                continue;
            }
            match self.env().exhausted(&self.team, role, work, Amount::NONE) {
                None => {}
                // The action is told, and makes do.
                Some(Purse::Action(_)) => continue,
                Some(Purse::Team | Purse::Role(_)) => {
                    self.record(Event::CallSuspended {
                        role,
                        work,
                        attempt: call.attempt,
                    });
                    return false;
                }
            }
            let usd = Usd(self.dice.below(6) as u64);
            let reserved = Reserved {
                request: request.clone(),
                amount: Amount {
                    usd,
                    tokens: self.dice.below(3) as u64,
                },
            };
            self.record(Event::MoneyReserved {
                role,
                work,
                reserved,
            });
            let call = self.script.answer(&request);
            self.record(Event::HostCalled {
                role,
                work,
                call,
                source: Source::Live,
                what: String::new(),
            });
        }
        true
    }

    /// Lets an attempt, a pause or the handing over of a message end, any one.
    fn land(&mut self) {
        let resting: Vec<RoleId> = self
            .env()
            .activations()
            .filter(|(_, a)| a.phase == Phase::Resting)
            .map(|(id, _)| id)
            .collect();
        let leaving = self.leaving();
        let ways = self.flying.len() + resting.len();
        let at = self.dice.below(ways + usize::from(leaving.is_some()));
        if let Some(id) = leaving.filter(|_| at == ways) {
            let fails = self.weather.resumes > 2 && self.dice.chance(10);
            let failed = Event::HandOverFailed {
                id: id.clone(),
                why: "nobody answers".into(),
            };
            return self.record(if fails {
                failed
            } else {
                Event::HandedOver { id }
            });
        }
        match resting.get(at.wrapping_sub(self.flying.len())) {
            Some(role) if at >= self.flying.len() => self.record(Event::RetryDue { role: *role }),
            _ => {
                let call = self.flying.swap_remove(at);
                let outcome = self.script.outcome(&self.stepper, &call);
                let event = self
                    .stepper
                    .call_ended(call.role, outcome)
                    .expect("a running call has an end");
                self.record(event);
            }
        }
    }

    /// The message that is being handed over.
    fn leaving(&self) -> Option<MessageId> {
        let env = self.env();
        let first = env
            .outbox
            .first()
            .filter(|first| first.failed.is_none() && env.status == Status::Running)?;
        Some(env.message(first.message).id.clone())
    }

    /// The process is gone, and with it everything that was not recorded.
    fn kill(&mut self) {
        self.flying.clear();
        let soft = |event: &Event| {
            matches!(
                event,
                Event::StepStarted { .. } | Event::CallStarted { .. } | Event::RetryDue { .. }
            ) || matches!(
                event,
                Event::StepCommitted { .. } | Event::StepConflicted { .. }
            ) || matches!(event, Event::JoinReleased { .. })
        };
        // The tail that is not flushed to the disk may be lost with the machine.
        while self.dice.chance(30) && self.log.last().is_some_and(soft) {
            self.log.pop();
        }
        self.states.truncate(self.log.len());
        self.calls.retain(|(at, _)| *at < self.log.len());
        self.resume();
    }

    /// The operator stops it, and sometimes resumes it at once.
    fn stop(&mut self) {
        for call in std::mem::take(&mut self.flying) {
            let stopped = Fault::new(FaultKind::Interrupted, "stopped by the operator");
            if let Some(event) = self.stepper.call_ended(call.role, Err(stopped)) {
                self.record(event);
            }
        }
        self.record(self.stepper.ended(Status::Interrupted));
        self.resume();
    }

    fn mail(&mut self) {
        let to = if self.dice.chance(50) {
            vec![(*self.dice.pick(&NAMES)).to_string()]
        } else {
            Vec::new()
        };
        let message = Message {
            id: MessageId::from(""),
            content: format!("from outside: {}", self.weather.mail),
            instruct: None,
            role: "user".into(),
            cause_by: (*self.dice.pick(&LABELS)).into(),
            sent_from: String::new(),
            send_to: to,
            meta: BTreeMap::new(),
            route: Vec::new(),
        };
        self.record(self.stepper.sent(message));
    }

    /// Reads the log back and goes on from there.
    fn resume(&mut self) {
        if self.weather.change == Change::Everything {
            self.team = Arc::new(mended(&self.team, &mut self.dice));
        }
        let mut stepper = Stepper::new(self.team.clone(), Environment::new(&self.team));
        for event in &self.log {
            stepper
                .apply(event)
                .expect("what was recorded can be read back");
        }
        self.stepper = stepper;
        self.flying.clear();
        let mut calls = CallPolicy::Auto;
        if self.weather.change != Change::Nothing {
            calls = *self.dice.pick(&[
                CallPolicy::Auto,
                CallPolicy::Auto,
                CallPolicy::Reuse,
                CallPolicy::Fresh,
            ]);
            self.replace_components();
        }
        self.record(self.stepper.resumed(self.team.policy.budget, calls));
    }

    fn replace_components(&mut self) {
        for slot in slots(&self.team.clone()) {
            if self.dice.chance(20) {
                self.builds += 1;
                let new = Digest(format!("build {}", self.builds));
                let old = self.env().components.get(&slot).cloned();
                self.record(Event::ComponentChanged { slot, old, new });
            }
        }
    }
}

/// All places of components.
pub fn slots(team: &Team) -> impl Iterator<Item = Slot> {
    let of = |id: RoleId, actions: usize| {
        let actions = (0..actions).map(|i| Part::Action(ActionId(i as u16)));
        actions
            .chain([Part::Think])
            .map(move |part| Slot { role: id, part })
            .collect::<Vec<_>>()
    };
    let all: Vec<Slot> = team
        .role_ids()
        .flat_map(|id| of(id, team.role(id).actions.len()))
        .collect();
    all.into_iter()
}
