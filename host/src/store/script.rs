//! For tests: a small team, and runs of it that are driven by a list of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use strata_core::activation::Phase;
use strata_core::effect::Effect;
use strata_core::environment::scope::{Change, Write};
use strata_core::environment::{Environment, MessageRef};
use strata_core::event::{
    CallPolicy, Event, Finished, HostCall, HostCallKind, Outcome, Source, Status, Work,
};
use strata_core::fault::{Fault, FaultCause, FaultKind, Hope};
use strata_core::host_call::{Again, Finish, Intent, Verdict};
use strata_core::id::{ActionId, Digest, Part, RoleId, Slot};
use strata_core::json::Json;
use strata_core::message::{Draft, Hop, Message};
use strata_core::money::Usd;
use strata_core::request::{Answer, Request};
use strata_core::stepper::Stepper;
use strata_core::team::{
    Action, Deliver, Join, Mode, OnFault, Outside, Policy, React, Reducer, Retry, Role, Task, Team,
    Thinker,
};

use super::{Record, SavedDefinition};

/// Creates a role from its name, the labels it watches, its react mode and its actions.
fn role(name: &str, watch: &[&str], react: React, actions: &[&str]) -> Role {
    let action = |name: &&str| Action {
        name: (*name).into(),
        retry: Retry {
            retries: 1,
            backoff_ms: 10,
        },
    };
    Role {
        name: name.into(),
        profile: format!("Role {name}"),
        goal: format!("{name}'s goal"),
        constraints: String::new(),
        desc: "a/b~c".into(),
        watch: watch
            .iter()
            .map(|label| String::from(*label))
            .collect::<BTreeSet<_>>(),
        addresses: vec![format!("the-{name}")],
        react,
        actions: actions.iter().map(action).collect(),
    }
}

fn join(id: &str, from: &[u16], to: &str, mode: Mode, deliver: Deliver) -> Join {
    Join {
        id: id.into(),
        from: from.iter().copied().map(RoleId).collect(),
        to: to.into(),
        mode,
        deliver,
    }
}

/// A team with a role of each kind and two joins. Its roles keep sending messages to each other.
pub(super) fn team() -> Arc<Team> {
    let choose = React::Choose {
        max_loop: 3,
        thinker: Thinker::Component,
    };
    let roles = vec![
        role("A", &["UserRequirement", "y"], React::ByOrder, &["p", "q"]),
        role("B/2", &["q", "work"], React::ByOrder, &["x", "y", "z"]),
        role("C", &["q", "z"], choose, &["c", "think"]),
        role("D", &["c"], React::PlanAndAct, &["plan", "work", "rest"]),
        role("E", &["x", "odd", "rest"], React::Human, &[]),
    ];
    let scopes = [
        ("log", Some(Reducer::Append)),
        ("sum", Some(Reducer::Add)),
        ("plain", None),
    ];
    Arc::new(Team {
        name: "t".into(),
        desc: "a team".into(),
        groups: [("pair".into(), vec![RoleId(0), RoleId(1)])].into(),
        routes: Vec::new(),
        joins: vec![
            join("wait/~1", &[1, 0], "D", Mode::All, Deliver::Each),
            join("quiet", &[0, 2], "pair", Mode::Active, Deliver::Batch),
        ],
        scopes: scopes
            .into_iter()
            .map(|(name, reducer)| (name.into(), reducer))
            .collect(),
        outside: Outside::Nobody,
        policy: Policy {
            on_fault: OnFault::Stop,
            max_steps: Some(12),
            max_parallel: 2,
            budget: Some(Usd::from_dollars(0.5)),
            purses: Default::default(),
        },
        roles,
    })
}

/// Copies the files of a storage directory that are wanted.
pub(super) fn copy(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if wanted(&name) {
            std::fs::copy(from.join(&name), to.join(&name)).unwrap();
        }
    }
}

pub(super) fn definition() -> SavedDefinition {
    SavedDefinition {
        name: "team.toml".into(),
        base: "/somewhere".into(),
        text: "[team]\nname = \"t\"\n".into(),
        components: vec!["A.p=/p.wasm".into()],
    }
}

/// Turns an event into a record that differs from all others.
pub(super) fn record(n: usize, event: &Event) -> Record {
    let lines = (n % 3) as u32;
    let before = (n / 3) * 3 + [0, 0, 1][n % 3];
    Record {
        line: super::FIRST_LINE + before as u64,
        lines,
        time_ms: 1_000_000 + n as i64,
        event: event.clone(),
    }
}

/// A run in progress. Each of its decisions is made by the next byte.
pub(super) struct Run<'a> {
    pub stepper: Stepper,
    pub events: Vec<Event>,
    turns: std::slice::Iter<'a, u8>,
}

impl<'a> Run<'a> {
    pub(super) fn new(turns: &'a [u8]) -> Self {
        let team = team();
        let env = Environment::new(&team);
        Self {
            stepper: Stepper::new(team, env),
            events: Vec::new(),
            turns: turns.iter(),
        }
    }

    /// Continues a run from a state.
    pub(super) fn on(env: Environment, turns: &'a [u8]) -> Self {
        Self {
            stepper: Stepper::new(team(), env),
            events: Vec::new(),
            turns: turns.iter(),
        }
    }

    /// Returns a number below `n`; 0 once the bytes are used up.
    fn turn(&mut self, n: u8) -> u8 {
        self.turns.next().map_or(0, |turn| turn % n)
    }

    fn happen(&mut self, event: Event) {
        self.stepper.apply(&event).unwrap();
        self.events.push(event);
    }

    /// Lets one event happen. Returns false if nothing is left to do.
    pub(super) fn advance(&mut self) -> bool {
        if self.stepper.env().run.0.is_empty() {
            let components = [(slot(0, 0), "d0"), (slot(1, 1), "d1")]
                .map(|(slot, digest)| (slot, Digest::from(digest)))
                .into();
            let event =
                self.stepper
                    .started("run-1".into(), "an idea\n\"quoted\" ✓".into(), components);
            self.happen(event);
            return true;
        }
        match self.stepper.next() {
            Effect::Record(event) => self.happen(event),
            Effect::Call(call) => {
                let event = self.stepper.call_started(&call);
                self.happen(event);
            }
            Effect::Wait => self.outcome(),
            Effect::Halt(_) => return self.resume(),
        }
        if self.turn(6) == 5 {
            self.hear();
        }
        if self.turn(40) == 39 && self.stepper.env().status == Status::Running {
            let env = self.stepper.env();
            let checkpoint = env.open.then(|| env.next_checkpoint());
            let parent = env.checkpoint.clone();
            self.happen(Event::RunEnded {
                status: Status::Interrupted,
                checkpoint,
                parent,
            });
        }
        true
    }

    /// Resumes the run after a stop, unless the bytes are used up.
    fn resume(&mut self) -> bool {
        if self.turns.len() == 0 {
            return false;
        }
        self.hear();
        match self.turn(4) {
            0 => {
                let mut message = Message {
                    id: "".into(),
                    content: "from outside".into(),
                    instruct: None,
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
                let event = self.stepper.sent(message);
                self.happen(event);
            }
            1 => {
                let old = self.stepper.env().components.get(&slot(1, 1)).cloned();
                self.happen(Event::ComponentChanged {
                    slot: slot(1, 1),
                    old,
                    new: Digest::from("d2"),
                });
            }
            2 => {
                let slot = Slot {
                    role: RoleId(2),
                    part: Part::Think,
                };
                let old = self.stepper.env().components.get(&slot).cloned();
                self.happen(Event::ComponentChanged {
                    slot,
                    old,
                    new: Digest::from("d3"),
                });
            }
            _ => {}
        }
        let calls =
            [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh][usize::from(self.turn(3))];
        let event = self.stepper.resumed(Some(Usd::from_dollars(100.0)), calls);
        self.happen(event);
        self.settle_doubt();
        true
    }

    /// Settles a doubtful host call, if there is one.
    fn settle_doubt(&mut self) {
        let doubt = self
            .stepper
            .env()
            .doubts()
            .next()
            .map(|(role, place, begun)| (role, place, begun.intent.what.clone()));
        if let (Some((role, place, what)), true) = (doubt, self.turn(2) == 0) {
            let activation = self.stepper.env().role(role).activation.as_ref().unwrap();
            let work = activation.work(self.stepper.team().role(role)).unwrap();
            let verdict = if self.turn(2) == 0 {
                Verdict::Redo
            } else {
                Verdict::Answer(self.document())
            };
            self.happen(Event::DoubtSettled {
                role,
                work,
                place: place as u32,
                what,
                verdict,
            });
        }
    }

    /// Lets a running call make progress or end.
    fn outcome(&mut self) {
        let env = self.stepper.env();
        let busy: Vec<(RoleId, Phase)> = env
            .activations()
            .filter(|(_, activation)| matches!(activation.phase, Phase::Running | Phase::Resting))
            .map(|(id, activation)| (id, activation.phase.clone()))
            .collect();
        let (id, phase) = busy[usize::from(self.turn(busy.len() as u8))].clone();
        if phase == Phase::Resting {
            return self.happen(Event::RetryDue { role: id });
        }
        let role = self.stepper.team().role(id).clone();
        let activation = self.stepper.env().role(id).activation.clone().unwrap();
        let work = activation.work(&role).unwrap();
        let result = match self.turn(11) {
            10 => return self.consult(id),
            0..=5 => Ok(self.finished(work)),
            6 | 7 => return self.host_call(id, work),
            8 => return self.begin_host_call(id, work),
            _ => Err(self.fault()),
        };
        let event = self.stepper.call_ended(id, result).unwrap();
        self.happen(event);
    }

    fn host_call(&mut self, role: RoleId, work: Work) {
        let call = HostCall {
            kind: HostCallKind::ALL[usize::from(self.turn(HostCallKind::ALL.len() as u8))],
            request: "0123".into(),
            response: self.document(),
            cost: Usd::from_dollars(0.125),
            outcome: Outcome::ALL[usize::from(self.turn(Outcome::ALL.len() as u8))],
            tokens: 7,
            finish: Some(Finish::Length),
        };
        let source = if self.turn(3) == 2 {
            Source::Recorded
        } else {
            Source::Live
        };
        self.happen(Event::HostCalled {
            role,
            work,
            call,
            source,
            what: "what".into(),
        });
    }

    fn begin_host_call(&mut self, role: RoleId, work: Work) {
        let again = Again::ALL[usize::from(self.turn(Again::ALL.len() as u8))];
        self.happen(Event::HostCallBegun {
            role,
            work,
            intent: Intent {
                kind: HostCallKind::Http,
                request: "0123".into(),
                what: "POST http://a/b".into(),
                again,
            },
        });
    }

    fn fault(&mut self) -> Fault {
        let kind = FaultKind::ALL[usize::from(self.turn(FaultKind::ALL.len() as u8))];
        let hope = if self.turn(2) == 0 {
            Hope::Final
        } else {
            Hope::Retryable
        };
        let cause = FaultCause::ALL[usize::from(self.turn(FaultCause::ALL.len() as u8))];
        Fault {
            kind,
            hope,
            cause,
            message: "went wrong".into(),
            backtrace: vec!["frame".into()],
            log: vec!["line 1".into(), "line 2".into()],
        }
    }

    /// Lets a running call ask a person.
    fn consult(&mut self, role: RoleId) {
        let before = u32::from(self.turn(3));
        let id = self.stepper.request_id(role, before).unwrap();
        let some = self.turn(2) == 1;
        let request = Request {
            id,
            question: "how\n\"many\"?".into(),
            schema: some.then(|| Json::parse("{\"type\":\"integer\"}").unwrap()),
            choices: if some {
                vec!["a".into(), "b".into()]
            } else {
                Vec::new()
            },
            default: (self.turn(2) == 1).then(|| self.document()),
            expires_ms: some.then(|| 1_700_000_000_123 + i64::from(self.turn(9))),
            call: "4567".into(),
        };
        let event = self.stepper.request_opened(role, request).unwrap();
        self.happen(event);
    }

    /// Answers one of the open requests, if there are any.
    fn hear(&mut self) {
        let open: Vec<_> = self
            .stepper
            .env()
            .requests()
            .map(|(id, request)| (id, request.lapse()))
            .collect();
        if open.is_empty() {
            return;
        }
        let (id, lapse) = open[usize::from(self.turn(open.len() as u8))].clone();
        let answer = if self.turn(3) == 0 {
            lapse
        } else {
            Answer::Given(self.document())
        };
        if let Some(event) = self.stepper.request_answered(id, answer) {
            self.happen(event);
        }
    }

    fn finished(&mut self, work: Work) -> Finished {
        let emissions = (0..self.turn(3)).map(|_| self.draft()).collect();
        let writes = (0..self.turn(3)).map(|_| self.write()).collect();
        match work {
            Work::Think { .. } => Finished::Chosen([0, 1, -1, 7][usize::from(self.turn(4))]),
            Work::Plan => {
                let task = |turn| Task {
                    text: format!("task {turn}"),
                    action: [None, Some("rest".into())][usize::from(turn)].clone(),
                };
                let tasks = (0..self.turn(4)).map(|_| task(self.turn(2))).collect();
                Finished::Planned {
                    tasks,
                    emissions,
                    writes,
                }
            }
            Work::Act { .. } => Finished::Returned {
                output: self.draft(),
                emissions,
                writes,
            },
            Work::Answer => unreachable!("no call is made for a person"),
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
        let to = to[usize::from(self.turn(7))];
        let hops = [
            vec![],
            vec![Hop {
                from: "the-C".into(),
                to: vec!["A".into()],
            }],
        ];
        Draft {
            content: format!("said {}", self.turn(9)),
            data: (self.turn(2) == 1).then(|| self.document()),
            to: to.iter().map(|to| String::from(*to)).collect(),
            cause_by: [None, Some("odd".into()), Some(String::new())][usize::from(self.turn(3))]
                .clone(),
            route: hops[usize::from(self.turn(4) / 3)].clone(),
        }
    }

    fn write(&mut self) -> Write {
        let scope = ["role", "log", "sum", "plain"][usize::from(self.turn(4))];
        let change = if self.turn(4) == 3 {
            Change::Delete
        } else {
            Change::Set(self.document())
        };
        Write {
            scope: scope.into(),
            key: ["k", "a/b~1"][usize::from(self.turn(2))].into(),
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
        Json::parse(texts[usize::from(self.turn(6))]).unwrap()
    }
}

/// Returns the records of a run of at most `limit` events, and the state after them.
pub(super) fn run(turns: &[u8], limit: usize) -> (Vec<Record>, Environment) {
    let mut run = Run::new(turns);
    while run.events.len() < limit && run.advance() {}
    run.events.truncate(limit);
    let mut stepper = Stepper::new(team(), Environment::new(&team()));
    for event in &run.events {
        stepper.apply(event).unwrap();
    }
    (
        run.events
            .iter()
            .enumerate()
            .map(|(n, event)| record(n, event))
            .collect(),
        stepper.env().clone(),
    )
}

fn slot(role: u16, action: u16) -> Slot {
    Slot {
        role: RoleId(role),
        part: Part::Action(ActionId(action)),
    }
}

/// Returns a state whose messages are sorted by id, without those that nothing refers to.
pub(super) fn normal(env: &Environment) -> Environment {
    let mut env = env.clone();
    let mut used: Vec<MessageRef> = Vec::new();
    env.each_reference(&mut |id| used.push(*id));
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
    env.each_reference(&mut |id| *id = MessageRef(place(*id) as u32));
    env
}
