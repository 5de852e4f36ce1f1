//! The script: what the actions of a life return. A success depends on the seed and on what the
//! call can see (its seed, its news, the earlier outputs, memory, scopes) and on nothing else, so
//! whatever leaks shows in the outputs.

use strata_core::effect::Invocation;
use strata_core::environment::scope::{Change, ROLE_SCOPE, ScopeKey, Write};
use strata_core::event::{Finished, HostCall, HostCallKind, Outcome, Work};
use strata_core::fault::{Fault, FaultKind, Hope};
use strata_core::id::RequestId;
use strata_core::json::Json;
use strata_core::message::{Draft, Hop, Message};
use strata_core::money::Usd;
use strata_core::request::Request;
use strata_core::stepper::Stepper;
use strata_core::team::{Role, Task};

use crate::dice::Dice;
use crate::teams::{LABELS, NAMES, SCOPES};

/// How actions behave.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Everything follows from it.
    pub seed: u64,
    /// Whether they name recipients, itineraries and foreign labels.
    pub address: Address,
    /// How often, in a hundred, a call fails before it succeeds.
    pub trouble: u64,
}

/// Whether actions say who gets what they send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Often.
    Often,
    /// Never: messages go to who watches.
    Never,
}

impl Script {
    /// What becomes of an attempt.
    pub fn outcome(&self, stepper: &Stepper, call: &Invocation) -> Result<Finished, Fault> {
        let role = stepper.team().role(call.role);
        match self.failure(role, call) {
            Some(failure) => failure,
            None => Ok(self.success(stepper, call)),
        }
    }

    /// The host calls of an attempt: the same requests in every attempt, until it goes another way.
    pub fn requests(&self, call: &Invocation) -> Vec<String> {
        let mut dice = Dice::new(self.seed, &format!("calls {}", call.seed));
        let mut requests: Vec<String> = (0..dice.below(3))
            .map(|_| format!("q{}", dice.below(2)))
            .collect();
        if dice.chance(20) {
            requests.push(format!("only {}", call.attempt));
        }
        requests
    }

    /// The answer to a host call.
    pub fn answer(&self, request: &str) -> HostCall {
        let cost = Usd(Dice::new(self.seed, request).below(4) as u64);
        let (request, response, outcome) = (request.into(), Json::null(), Outcome::Answered);
        HostCall {
            kind: HostCallKind::Llm,
            request,
            response,
            cost,
            tokens: cost.0,
            outcome,
            finish: None,
        }
    }

    /// What a call asks people: the same in every attempt.
    pub fn questions(&self, asked: u64, call: &Invocation) -> Vec<String> {
        let mut dice = Dice::new(self.seed, &format!("people {}", call.idempotency_key));
        let count = if dice.chance(asked) {
            1 + dice.below(2)
        } else {
            0
        };
        (0..count)
            .map(|_| format!("person {}", dice.below(2)))
            .collect()
    }

    /// A request. Its default is what people answer it, too; that depends on where it is asked.
    pub fn request(&self, id: RequestId, question: &str) -> Request {
        let answer = Dice::new(self.seed, &id.0).below(9);
        Request {
            id,
            question: question.into(),
            schema: None,
            choices: Vec::new(),
            default: Some(Json::from(serde_json::Value::from(answer))),
            expires_ms: None,
            call: question.into(),
        }
    }

    /// How an attempt fails; none when it succeeds.
    fn failure(&self, role: &Role, call: &Invocation) -> Option<Result<Finished, Fault>> {
        let mut dice = Dice::new(self.seed, &format!("trouble {}", call.seed));
        let bad = if dice.chance(self.trouble) {
            1 + dice.below(3) as u32
        } else {
            0
        };
        if call.attempt > bad {
            return None;
        }
        let mut dice = Dice::new(self.seed, &format!("{} {}", call.attempt, call.seed));
        match call.work {
            Work::Think { .. } if dice.chance(30) => Some(Ok(Finished::Chosen(*dice.pick(&[
                -2,
                i32::MIN,
                i32::MAX,
                role.actions.len() as i32,
            ])))),
            Work::Plan if dice.chance(30) => {
                let tasks = vec![Task {
                    text: "x".into(),
                    action: Some("nobody's".into()),
                }];
                Some(Ok(Finished::Planned {
                    tasks,
                    emissions: Vec::new(),
                    writes: Vec::new(),
                }))
            }
            _ => {
                let kind = *dice.pick(&FaultKind::ALL);
                let mut fault = Fault::new(kind, format!("attempt {} went wrong", call.attempt));
                if dice.chance(40) {
                    fault.hope = Hope::Retryable;
                }
                Some(Err(fault))
            }
        }
    }

    fn success(&self, stepper: &Stepper, call: &Invocation) -> Finished {
        let mut dice = Dice::new(self.seed, &call.seed);
        let role = stepper.team().role(call.role);
        // The host refuses scopes that are not declared.
        let scopes: Vec<&str> = stepper.team().scopes.keys().map(String::as_str).collect();
        let seen = Dice::new(self.seed, &self.sight(stepper, call)).roll();
        match call.work {
            Work::Answer => panic!("no script answers for a person"),
            Work::Think { .. } => Finished::Chosen(dice.below(role.actions.len() + 1) as i32 - 1),
            Work::Plan => Finished::Planned {
                tasks: self.tasks(&mut dice, role),
                emissions: self.emissions(&mut dice, call, seen),
                writes: writes(&mut dice, &scopes, (call, seen)),
            },
            Work::Act { .. } => Finished::Returned {
                output: self.draft(&mut dice, format!("{} saw {seen:x}", call.seed)),
                emissions: self.emissions(&mut dice, call, seen),
                writes: writes(&mut dice, &scopes, (call, seen)),
            },
        }
    }

    /// Everything a call can see, as text.
    fn sight(&self, stepper: &Stepper, call: &Invocation) -> String {
        let text = |message: &Message| {
            format!("{} {} {:?};", message.id, message.content, message.instruct)
        };
        let mut sight: String = call
            .news
            .iter()
            .chain(&call.outputs)
            .map(|message| text(message))
            .collect();
        let (team, env) = (stepper.team(), stepper.env());
        for message in env
            .remembered(call.role, None, 3)
            .iter()
            .chain(&env.remembered(call.role, Some("l0"), 2))
        {
            sight += &text(message);
        }
        for scope in SCOPES.iter().copied().chain([ROLE_SCOPE]) {
            sight += &format!(
                "{:?} {:?};",
                env.keys(team, call.role, scope, &[]),
                env.read(team, call.role, ScopeKey { scope, key: "k0" }, None, &[])
            );
        }
        sight
    }

    fn tasks(&self, dice: &mut Dice, role: &Role) -> Vec<Task> {
        // A planner without workers plans nothing: what it planned nobody could do.
        let workers: Vec<_> = role
            .actions
            .iter()
            .skip(1)
            .map(|action| action.name.clone())
            .collect();
        let count = if workers.is_empty() { 0 } else { dice.below(4) };
        let task = |i: usize, dice: &mut Dice| Task {
            text: format!("task {i}"),
            action: dice.chance(50).then(|| dice.pick(&workers).clone()),
        };
        (0..count).map(|i| task(i, dice)).collect()
    }

    fn emissions(&self, dice: &mut Dice, call: &Invocation, seen: u64) -> Vec<Draft> {
        let count = if dice.chance(40) {
            1 + dice.below(2)
        } else {
            0
        };
        (0..count)
            .map(|i| {
                let mut draft = self.draft(dice, format!("{} emits {i} {seen:x}", call.seed));
                if self.address == Address::Often && dice.chance(60) {
                    draft.cause_by = Some((*dice.pick(&LABELS)).into());
                }
                draft
            })
            .collect()
    }

    fn draft(&self, dice: &mut Dice, content: String) -> Draft {
        let mut draft = Draft {
            content,
            ..Draft::default()
        };
        if dice.chance(20) {
            draft.data = Some(Json::from(serde_json::Value::from(dice.below(9))));
        }
        if self.address == Address::Often && dice.chance(30) {
            draft.to = (0..1 + dice.below(3))
                .map(|_| (*dice.pick(&NAMES)).into())
                .collect();
        }
        if self.address == Address::Often && dice.chance(20) {
            let leg = |dice: &mut Dice| Hop {
                from: (*dice.pick(&NAMES)).into(),
                to: (0..1 + dice.below(2))
                    .map(|_| (*dice.pick(&NAMES)).into())
                    .collect(),
            };
            draft.route = (0..1 + dice.below(3)).map(|_| leg(dice)).collect();
        }
        draft
    }
}

fn writes(dice: &mut Dice, scopes: &[&str], (call, seen): (&Invocation, u64)) -> Vec<Write> {
    let write = |dice: &mut Dice| {
        let scope = if scopes.is_empty() || dice.chance(40) {
            ROLE_SCOPE
        } else {
            *dice.pick(scopes)
        };
        let value = match dice.below(4) {
            0 => serde_json::json!(seen % 100),
            1 => serde_json::json!([seen % 100]),
            2 => serde_json::json!({ format!("f{}", seen % 2): dice.below(9) }),
            _ => serde_json::json!(format!("by {:?}", call.role)),
        };
        let change = if dice.chance(15) {
            Change::Delete
        } else {
            Change::Set(Json::from(value))
        };
        Write {
            scope: scope.into(),
            key: format!("k{}", dice.below(3)),
            change,
        }
    };
    let count = if dice.chance(50) {
        1 + dice.below(3)
    } else {
        0
    };
    (0..count).map(|_| write(dice)).collect()
}

/// All drafts of a finished call.
pub fn drafts(result: &Finished) -> Vec<&Draft> {
    match result {
        Finished::Chosen(_) => Vec::new(),
        Finished::Planned { emissions, .. } => emissions.iter().collect(),
        Finished::Returned {
            output, emissions, ..
        } => emissions.iter().chain([output]).collect(),
    }
}
