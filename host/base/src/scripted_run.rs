//! For tests: a small team, and runs of it that are driven by a list of bytes.

#![allow(clippy::unwrap_used, missing_docs, reason = "only tests use it")]

mod team;

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{Media, MediaSource, Part, TokenUsage};
use strata_core::record::event::{
    AttemptEvent, ComponentChanged, DoubtSettled, Event, HostCallBegun, HostCalled, RunEnded,
    Status,
};
use strata_core::record::fault::{Fault, FaultCause, FaultKind, Retryability};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, DoubtResolution, FinishReason, HostCall, HostCallKind,
    Intent, LostAnswerPolicy, ModelUse, TriedModel,
};
use strata_core::record::human_request::{HumanAnswer, HumanRequest};
use strata_core::record::id::{ActionId, Digest, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop, Message};
use strata_core::record::money::Usd;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::record::work::{CallKey, CallResult, Task, Work};
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

pub use team::team;

/// A run in progress. Each of its decisions is made by the next byte.
pub struct ScriptedRun<'a> {
    pub stepper: Stepper,
    pub events: Vec<Event>,
    choices: std::slice::Iter<'a, u8>,
}

impl<'a> ScriptedRun<'a> {
    pub fn new(turns: &'a [u8]) -> Self {
        let team = team();
        let env = Environment::new(&team);
        Self {
            stepper: Stepper::new(team, env),
            events: Vec::new(),
            choices: turns.iter(),
        }
    }

    /// Continues a run from a state.
    pub fn from_state(env: Environment, turns: &'a [u8]) -> Self {
        Self {
            stepper: Stepper::new(team(), env),
            events: Vec::new(),
            choices: turns.iter(),
        }
    }

    /// Returns a number below `n`; 0 once the bytes are used up.
    fn choose(&mut self, n: u8) -> u8 {
        self.choices.next().map_or(0, |turn| turn % n)
    }

    fn apply(&mut self, event: Event) {
        self.stepper.apply(&event).unwrap();
        self.events.push(event);
    }

    /// Lets one event happen. Returns false if nothing is left to do.
    pub fn advance(&mut self) -> bool {
        if self.stepper.env().run.0.is_empty() {
            let components = [(slot(0, 0), "d0"), (slot(1, 1), "d1")]
                .map(|(slot, digest)| (slot, Digest::from(digest)))
                .into();
            let event = self.stepper.run_started_event(
                "run-1".into(),
                "an idea\n\"quoted\" ✓".into(),
                components,
            );
            self.apply(event);
            return true;
        }
        match self.stepper.next() {
            Effect::Record(event) => self.apply(event),
            Effect::Call(call) => {
                let event = self.stepper.call_started_event(&call);
                self.apply(event);
            }
            Effect::Wait => self.outcome(),
            Effect::Halt(_) => return self.resume(),
        }
        if self.choose(6) == 5 {
            self.answer_request();
        }
        if self.choose(40) == 39 && self.stepper.env().status == Status::Running {
            let env = self.stepper.env();
            let checkpoint = env.is_step_open.then(|| env.next_checkpoint_id());
            let parent = env.checkpoint.clone();
            self.apply(Event::RunEnded(RunEnded {
                status: Status::Interrupted,
                checkpoint,
                parent,
                by: None,
            }));
        }
        true
    }

    /// Resumes the run after a stop, unless the bytes are used up.
    fn resume(&mut self) -> bool {
        if self.choices.len() == 0 {
            return false;
        }
        self.answer_request();
        match self.choose(4) {
            0 => {
                let mut message = Message {
                    id: "".into(),
                    content: "from outside".into(),
                    instruct: None,
                    parts: Vec::new(),
                    role: "user".into(),
                    cause_by: "UserRequirement".into(),
                    sent_from: String::new(),
                    send_to: vec!["pair".into(), "nobody".into()],
                    meta: BTreeMap::from([("colour".into(), Json::parse("\"red\"").unwrap())]),
                    route: Vec::new(),
                };
                message.route.push(Hop {
                    from: "A".into(),
                    to: vec!["C".into(), "D".into()],
                });
                let event = self.stepper.message_sent_event(message);
                self.apply(event);
            }
            1 => {
                let old = self.stepper.env().components.get(&slot(1, 1)).cloned();
                self.apply(Event::ComponentChanged(ComponentChanged {
                    slot: slot(1, 1),
                    old,
                    new: Digest::from("d2"),
                }));
            }
            2 => {
                let slot = Slot {
                    role: RoleId(2),
                    kind: SlotKind::Think,
                };
                let old = self.stepper.env().components.get(&slot).cloned();
                self.apply(Event::ComponentChanged(ComponentChanged {
                    slot,
                    old,
                    new: Digest::from("d3"),
                }));
            }
            _ => {}
        }
        let calls =
            [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh][usize::from(self.choose(3))];
        let event = self
            .stepper
            .run_resumed_event(Some(Usd::from_dollars(100.0)), calls);
        self.apply(event);
        self.decide_doubt();
        true
    }

    /// Settles a doubtful host call, if there is one.
    fn decide_doubt(&mut self) {
        let doubt = self
            .stepper
            .env()
            .writes_in_doubt(self.stepper.team())
            .next()
            .map(|(call, place, write)| (call, place, write.intent.description.clone()));
        if let (Some((call, place, description)), true) = (doubt, self.choose(2) == 0) {
            let verdict = if self.choose(2) == 0 {
                DoubtResolution::Redo
            } else {
                DoubtResolution::Answer(self.document())
            };
            self.apply(Event::Attempt(
                call,
                AttemptEvent::DoubtSettled(DoubtSettled {
                    index: place as u32,
                    description,
                    resolution: verdict,
                }),
            ));
        }
    }

    /// Lets a running call make progress or end.
    fn outcome(&mut self) {
        let env = self.stepper.env();
        let busy: Vec<(RoleId, Phase)> = env
            .mail_activations()
            .filter(|(_, activation)| {
                matches!(activation.phase, Phase::Running | Phase::BackingOff)
            })
            .map(|(id, activation)| (id, activation.phase.clone()))
            .collect();
        let (id, phase) = busy[usize::from(self.choose(busy.len() as u8))].clone();
        let role = self.stepper.team().role(id).clone();
        let activation = self.stepper.env().role(id).activation.clone().unwrap();
        let work = activation.current_work(&role).unwrap();
        if phase == Phase::BackingOff {
            let call = CallKey::new(id, work);
            return self.apply(Event::Attempt(call, AttemptEvent::RetryDue));
        }
        let result = match self.choose(11) {
            10 => return self.open_request(CallKey::new(id, work)),
            0..=5 => Ok(self.finished(work)),
            6 | 7 => return self.host_call(id, work),
            8 => return self.begin_host_call(id, work),
            _ => Err(self.fault()),
        };
        let event = self
            .stepper
            .call_ended_event(CallKey::new(id, work), result)
            .unwrap();
        self.apply(event);
    }

    fn host_call(&mut self, role: RoleId, work: Work) {
        let call = HostCall {
            kind: HostCallKind::ALL[usize::from(self.choose(HostCallKind::ALL.len() as u8))],
            request: "0123".into(),
            response: self.document(),
            cost: Usd::from_dollars(0.125),
            outcome: CallOutcome::ALL[usize::from(self.choose(CallOutcome::ALL.len() as u8))],
            model: Some(ModelUse {
                name: "cheap".into(),
                answered: Some("model-1".into()),
                finish: Some(FinishReason::Length),
                usage: TokenUsage {
                    input: 200,
                    output: 22,
                    cache_read: 50,
                    cache_write: 40,
                    reasoning: 7,
                },
                tried: vec![TriedModel {
                    model: "default".into(),
                    reason: "it was not there".into(),
                }],
                limited_replies: vec!["cheap/0123".into()],
            }),
        };
        let source = if self.choose(3) == 2 {
            AnswerSource::Recorded
        } else {
            AnswerSource::Live
        };
        self.apply(Event::Attempt(
            CallKey::new(role, work),
            AttemptEvent::HostCalled(HostCalled {
                call,
                source,
                summary: "what".into(),
            }),
        ));
    }

    fn begin_host_call(&mut self, role: RoleId, work: Work) {
        let again =
            LostAnswerPolicy::ALL[usize::from(self.choose(LostAnswerPolicy::ALL.len() as u8))];
        self.apply(Event::Attempt(
            CallKey::new(role, work),
            AttemptEvent::HostCallBegun(HostCallBegun {
                intent: Intent {
                    kind: HostCallKind::Http,
                    request: "0123".into(),
                    description: "POST http://a/b".into(),
                    if_answer_lost: again,
                },
            }),
        ));
    }

    fn fault(&mut self) -> Fault {
        let kind = FaultKind::ALL[usize::from(self.choose(FaultKind::ALL.len() as u8))];
        let hope = if self.choose(2) == 0 {
            Retryability::Final
        } else {
            Retryability::Retryable
        };
        let cause = FaultCause::ALL[usize::from(self.choose(FaultCause::ALL.len() as u8))];
        Fault {
            kind,
            retryability: hope,
            cause,
            message: "went wrong".into(),
            backtrace: vec!["frame".into()],
            log: vec!["line 1".into(), "line 2".into()],
        }
    }

    /// Lets a running call ask a person.
    fn open_request(&mut self, call: CallKey) {
        let before = u32::from(self.choose(3));
        let id = self.stepper.first_request_id(call, before).unwrap();
        let some = self.choose(2) == 1;
        let request = HumanRequest {
            id,
            question: "how\n\"many\"?".into(),
            schema: some.then(|| Json::parse("{\"type\":\"integer\"}").unwrap()),
            choices: if some {
                vec!["a".into(), "b".into()]
            } else {
                Vec::new()
            },
            default: (self.choose(2) == 1).then(|| self.document()),
            expires_ms: some.then(|| 1_700_000_000_123 + i64::from(self.choose(9))),
            proposed: None,
            asked_by: None,
        };
        let event = self.stepper.request_opened_event(call, request).unwrap();
        self.apply(event);
    }

    /// Answers one of the open requests, if there are any.
    fn answer_request(&mut self) {
        let open: Vec<_> = self
            .stepper
            .env()
            .open_requests()
            .map(|(_, request)| (request.id.clone(), request.outcome_when_expired()))
            .collect();
        if open.is_empty() {
            return;
        }
        let (id, lapse) = open[usize::from(self.choose(open.len() as u8))].clone();
        let (answer, person) = if self.choose(3) == 0 {
            (lapse, None)
        } else {
            (HumanAnswer::Given(self.document()), Some("Kim".to_owned()))
        };
        if let Some(event) = self.stepper.request_answered_event(&id, answer, person) {
            self.apply(event);
        }
    }

    fn finished(&mut self, work: Work) -> CallResult {
        let emissions = (0..self.choose(3)).map(|_| self.draft()).collect();
        let writes = (0..self.choose(3)).map(|_| self.write()).collect();
        match work {
            Work::Think { .. } => CallResult::Chosen([0, 1, -1, 7][usize::from(self.choose(4))]),
            Work::Plan => {
                let task = |turn| Task {
                    text: format!("task {turn}"),
                    action: [None, Some("rest".into())][usize::from(turn)].clone(),
                };
                let tasks = (0..self.choose(4)).map(|_| task(self.choose(2))).collect();
                CallResult::Planned {
                    tasks,
                    emissions,
                    writes,
                }
            }
            Work::Act { .. } => CallResult::Returned {
                output: self.draft(),
                emissions,
                writes,
            },
            other => unreachable!("no such call is made: {other:?}"),
        }
    }

    fn draft(&mut self) -> Draft {
        let to: [&[&str]; 7] = [
            &[],
            &[],
            &["C"],
            &["<self>"],
            &["pair", "nobody"],
            &["wait/~1"],
            &["quiet", "wait/~1", "D"],
        ];
        let to = to[usize::from(self.choose(7))];
        let hops = [
            vec![],
            vec![Hop {
                from: "the-C".into(),
                to: vec!["A".into()],
            }],
        ];
        let variant = self.choose(9);
        Draft {
            content: format!("said {variant}"),
            data: (self.choose(2) == 1).then(|| self.document()),
            parts: parts_of(variant),
            to: to.iter().map(|to| String::from(*to)).collect(),
            cause_by: [None, Some("odd".into()), Some(String::new())][usize::from(self.choose(3))]
                .clone(),
            route: hops[usize::from(self.choose(4) / 3)].clone(),
        }
    }

    fn write(&mut self) -> Write {
        let scope = ["role", "log", "sum", "plain"][usize::from(self.choose(4))];
        let change = if self.choose(4) == 3 {
            ScopeChange::Delete
        } else {
            ScopeChange::Set(self.document())
        };
        Write {
            scope: scope.into(),
            key: ["k", "a/b~1"][usize::from(self.choose(2))].into(),
            change,
        }
    }

    fn document(&mut self) -> Json {
        let texts = [
            "null",
            "7",
            "-0.1",
            "\"t\"",
            "[1,[2],{\"a\":0.30000000000000004}]",
            "{\"z\":1,\"a\":{\"b\":[]}}",
        ];
        Json::parse(texts[usize::from(self.choose(6))]).unwrap()
    }
}

/// Returns pseudorandom bytes.
pub fn pseudorandom(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the first `limit` events of a run, or all of them if there are fewer, and the state after them.
pub fn scripted_events(turns: &[u8], limit: usize) -> (Vec<Event>, Environment) {
    let mut run = ScriptedRun::new(turns);
    while run.events.len() < limit && run.advance() {}
    run.events.truncate(limit);
    let mut stepper = Stepper::new(team(), Environment::new(&team()));
    for event in &run.events {
        stepper.apply(event).unwrap();
    }
    (run.events, stepper.env().clone())
}

/// Continues a run until it has recorded so many events, or nothing is left to do. Each call fails. A state that cannot be
/// resumed is left as it is.
pub fn continue_with_faults(team: &Arc<Team>, env: Environment, events: usize) {
    let mut stepper = Stepper::new(team.clone(), env);
    let resumed = stepper.run_resumed_event(None, CallPolicy::Auto);
    if stepper.apply(&resumed).is_err() {
        return;
    }
    for _ in 0..events {
        let event = match stepper.next() {
            Effect::Record(event) => event,
            Effect::Wait | Effect::Halt(_) => return,
            Effect::Call(call) => {
                let started = stepper.call_started_event(&call);
                stepper.apply(&started).unwrap();
                let fault = Fault::new(FaultKind::Trap, "unreachable");
                stepper.call_ended_event(call.key(), Err(fault)).unwrap()
            }
        };
        let applied = stepper.apply(&event);
        assert!(applied.is_ok(), "{applied:?} {event:?} {:?}", stepper.env());
    }
}

fn slot(role: u16, action: u16) -> Slot {
    Slot {
        role: RoleId(role),
        kind: SlotKind::Action(ActionId(action)),
    }
}

/// Returns a state whose messages are sorted by id, without those that nothing refers to.
pub fn normalized(env: &Environment) -> Environment {
    let mut env = env.clone();
    let mut used: Vec<MessageRef> = Vec::new();
    env.for_each_message_ref(&mut |id| used.push(*id));
    let old = std::mem::take(&mut env.messages);
    let sorted: BTreeMap<String, MessageRef> = used
        .iter()
        .map(|id| (old.get(id.0 as usize).id.0.clone(), *id))
        .collect();
    env.messages = sorted
        .values()
        .map(|id| old.get(id.0 as usize).clone())
        .collect();
    let place = |id: MessageRef| {
        sorted
            .keys()
            .position(|name| *name == old.get(id.0 as usize).id.0)
            .unwrap()
    };
    env.for_each_message_ref(&mut |id| *id = MessageRef(place(*id) as u32));
    env
}

/// Returns the images and files of a message.
fn parts_of(variant: u8) -> Vec<Part> {
    let media = |name: Option<&str>, source| Media {
        media_type: "image/png".into(),
        name: name.map(String::from),
        source,
    };
    let blob = MediaSource::Blob {
        digest: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into(),
        size: 0,
    };
    match variant {
        7 => vec![Part::Image(media(
            None,
            MediaSource::Url("https://example.com/a".into()),
        ))],
        8 => vec![Part::File(media(Some("a \"b\""), blob))],
        _ => Vec::new(),
    }
}
