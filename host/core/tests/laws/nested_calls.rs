//! Tools for code: examples of calls within tool calls, and the law that kills, faults and questions change
//! nothing about what becomes of them.

use proptest::prelude::*;
use strata_core::machine::effect::{Effect, Invocation};
use strata_core::record::event::HostCallBegun;
use strata_core::record::event::{AttemptEvent, Event, NestedCallMade, NestedCallPlan, Status};
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::host_call::{CallPolicy, HostCallKind, Intent, LostAnswerPolicy};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_core::record::nested_path::{MAX_NESTED_LEVELS, NestedPath};
use strata_core::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use strata_core::record::turn::{Approval, CallDecision, CallEffect, CallTarget, ToolRef};
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::activation::ToolOutcome;
use strata_core::team::{OnFault, React, Team};

use crate::manual_run::{ManualRun, says};
use crate::teams::role;
use crate::tool_roles::{analyst, answers, calls, tool};

const A: RoleId = RoleId(0);
const B: RoleId = RoleId(1);

fn team() -> Team {
    analyst(|_| {})
}

fn target(action: u16) -> CallTarget {
    CallTarget {
        tool: ToolRef::Action(ActionId(action)),
        effect: CallEffect::Continues,
    }
}

/// Lets an attempt call an action, or continue the call that an earlier attempt made. Returns its number.
fn nest(run: &mut ManualRun, outer: CallKey, action: u16, argument: usize) -> u16 {
    let decision = match action {
        1 => CallDecision::AskFirst(target(1), Approval::default()),
        _ => CallDecision::Make(target(action)),
    };
    let arguments = format!("{{\"n\":{argument}}}");
    let plan = NestedCallPlan {
        request: format!("{action}/{argument}"),
        tool: ["x", "y", "z"][usize::from(action)].into(),
        arguments: Json::parse(&arguments).expect("JSON"),
        decision,
    };
    make_or_continue(run, outer, plan)
}

/// Lets an attempt call a role, or continue the call that an earlier attempt made.
pub fn nest_role(run: &mut ManualRun, outer: CallKey, name: &str, role: RoleId) {
    let target = CallTarget {
        tool: ToolRef::Role(role),
        effect: CallEffect::Continues,
    };
    let plan = NestedCallPlan {
        request: name.into(),
        tool: name.into(),
        arguments: Json::parse(r#"{"message":"may I?"}"#).expect("JSON"),
        decision: CallDecision::Make(target),
    };
    make_or_continue(run, outer, plan);
}

fn make_or_continue(run: &mut ManualRun, outer: CallKey, plan: NestedCallPlan) -> u16 {
    let open = run
        .env()
        .open_call(run.stepper.team(), outer)
        .expect("an open call");
    let event = match open.progress.earlier_nested(&plan.request) {
        Some(number) => Event::Attempt(
            outer,
            AttemptEvent::NestedCallMade(NestedCallMade { number, plan: None }),
        ),
        None => run
            .stepper
            .nested_call_made_event(outer, plan)
            .expect("a running call"),
    };
    let Event::Attempt(_, AttemptEvent::NestedCallMade(nested_call)) = &event else {
        unreachable!("a call is made");
    };
    let number = nested_call.number;
    run.record(event);
    number
}

fn outcome(run: &ManualRun, outer: CallKey, number: u16) -> Option<ToolOutcome> {
    let open = run.env().open_call(run.stepper.team(), outer)?;
    let nested = open.progress.nested.get(usize::from(number))?;
    nested.call.outcome.clone()
}

/// Returns a result that also writes `value` to the key `k` of the role.
fn writes(value: &str) -> CallResult {
    let write = Write {
        scope: ROLE_SCOPE.into(),
        key: "k".into(),
        change: ScopeChange::Set(Json::from(serde_json::json!(value))),
    };
    CallResult::Returned {
        output: Draft {
            content: value.into(),
            ..Draft::default()
        },
        emissions: Vec::new(),
        writes: vec![write],
    }
}

/// Starts the run, and the call of `x` that the model makes.
fn start() -> (ManualRun, Invocation) {
    let mut run = ManualRun::start(team());
    run.turn(|run| calls(run, &["x"]));
    let outer = run.call();
    (run, outer)
}

#[test]
fn a_nested_call_is_an_attempt_of_its_own_whose_effects_come_before_those_of_the_outer_call() {
    let (mut run, outer) = start();
    nest(&mut run, outer.key(), 2, 0);
    let nested = run.call();
    assert_eq!(nested.idempotency_key, "run/0/A/0/0/0");
    assert_eq!(
        nested.arguments.as_ref().map(Json::as_str),
        Some("{\"n\":0}")
    );
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&nested, Ok(writes("nested")));
    assert!(matches!(
        outcome(&run, outer.key(), 0),
        Some(ToolOutcome::Returned(_))
    ));
    run.end_call(&outer, Ok(writes("outer")));
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.env().role(A).scope["k"].as_str(), "\"outer\"");
}

#[test]
fn what_ended_is_not_made_again_and_what_was_running_is_continued() {
    let (mut run, outer) = start();
    let first = nest(&mut run, outer.key(), 2, 0);
    let nested = run.call();
    run.end_call(&nested, Ok(writes("one")));
    nest(&mut run, outer.key(), 2, 1);
    run.call();
    run.resume(team(), CallPolicy::Auto);
    let outer = run.call();
    assert_eq!(outer.attempt, 2);
    assert_eq!(nest(&mut run, outer.key(), 2, 0), first);
    assert_eq!(run.go(), Effect::Wait, "it has ended");
    assert_eq!(nest(&mut run, outer.key(), 2, 1), 1);
    let again = run.call();
    assert_eq!(
        (again.attempt, again.work.nested()),
        (2, NestedPath::EMPTY.with(1))
    );
}

#[test]
fn a_fault_of_the_run_ends_the_outer_attempt_and_a_resume_repeats_both() {
    let (mut run, outer) = start();
    nest(&mut run, outer.key(), 2, 0);
    let nested = run.call();
    let fault = Fault::new(FaultKind::Trap, "unreachable");
    run.end_call(&nested, Err(fault));
    assert_eq!(run.halt(), Status::Failed);
    let faults: Vec<(CallKey, FaultKind, FaultCause)> = run
        .env()
        .failed_calls(run.stepper.team())
        .filter_map(|(key, open)| Some((key, open.phase.fault()?.kind, open.phase.fault()?.cause)))
        .collect();
    assert_eq!(
        faults,
        [(outer.key(), FaultKind::Trap, FaultCause::NestedCall)]
    );
    run.resume(team(), CallPolicy::Auto);
    let outer = run.call();
    nest(&mut run, outer.key(), 2, 0);
    let nested = run.call();
    assert_eq!((outer.attempt, nested.attempt), (2, 2));
}

#[test]
fn a_write_within_a_nested_call_holds_up_the_outer_call_until_the_operator_decides() {
    let (mut run, outer) = start();
    nest(&mut run, outer.key(), 2, 0);
    let nested = run.call();
    let intent = Intent {
        kind: HostCallKind::Http,
        request: "post".into(),
        description: "POST a".into(),
        if_answer_lost: LostAnswerPolicy::AskOperator,
    };
    let event = AttemptEvent::HostCallBegun(HostCallBegun { intent });
    run.record(Event::Attempt(nested.key(), event));
    run.resume(team(), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::InDoubt);
    let doubts = run.env().writes_in_doubt(run.stepper.team());
    assert_eq!(
        doubts.map(|(key, ..)| key).collect::<Vec<_>>(),
        [nested.key()]
    );
}

#[test]
fn calls_are_nested_four_levels_deep_and_count_towards_the_limit_of_the_activation() {
    let mut run = ManualRun::start(analyst(|tools| tools.max_calls = 3));
    run.turn(|run| calls(run, &["x"]));
    let mut outer = run.call();
    for _ in 0..2 {
        nest(&mut run, outer.key(), 2, 0);
        outer = run.call();
    }
    nest(&mut run, outer.key(), 2, 0);
    assert!(matches!(
        outcome(&run, outer.key(), 0),
        Some(ToolOutcome::Rejected(_))
    ));
    let mut deep = NestedPath::EMPTY;
    for _ in 0..MAX_NESTED_LEVELS {
        let refusal = run.stepper.nesting_refusal(CallKey::new(A, work(deep)));
        assert_eq!(refusal, None);
        deep = deep.with(0).expect("a short path");
    }
    assert!(
        run.stepper
            .nesting_refusal(CallKey::new(A, work(deep)))
            .is_some()
    );
}

fn work(nested: NestedPath) -> Work {
    nested_work(0, nested)
}

/// Returns a call within the call of `x` at this position of the first turn.
fn nested_work(call: u32, nested: NestedPath) -> Work {
    let (turn, tool) = (0, ToolRef::Action(ActionId(0)));
    Work::ToolCall {
        turn,
        call,
        nested,
        tool,
    }
}

/// Returns a team in which a model and the code of `x` can call `B`.
fn with_role(b: React) -> Team {
    let mut team = analyst(|tools| tools.tools.push(tool("B", ToolRef::Role(B))));
    team.roles[1] = role("B", &[], &["b"]);
    team.roles[1].react = b;
    team
}

/// Returns how many attempts were started for the code of `x`.
fn attempts_of_code(run: &ManualRun) -> usize {
    let mut log = run.log.iter();
    let is_started = |event: &&Event| {
        let is_code = |call: &CallKey| call.work == nested_work(1, NestedPath::EMPTY);
        matches!(event, Event::Attempt(call, AttemptEvent::CallStarted(_)) if is_code(call))
    };
    log.by_ref().filter(is_started).count()
}

#[test]
fn code_that_calls_a_role_which_waits_for_a_human_is_executed_again_once_the_role_is_free() {
    let team = || with_role(React::Human);
    let mut run = ManualRun::start(team());
    run.turn(|run| calls(run, &["B", "x"]));
    let outer = run.call();
    nest_role(&mut run, outer.key(), "B", B);
    for expected in [1, 2] {
        assert_eq!(run.halt(), Status::Waiting);
        assert_eq!(attempts_of_code(&run), expected);
        let request = run.open_request(B);
        let yes = HumanAnswer::Given(Json::parse("\"yes\"").expect("JSON"));
        let event = run.stepper.request_answered_event(&request, yes, None);
        run.record(event.expect("an open request"));
        run.resume(team(), CallPolicy::Auto);
        let outer = run.call();
        nest_role(&mut run, outer.key(), "B", B);
        if expected == 2 {
            run.end_call(&outer, Ok(says("code ok")));
        }
    }
    run.turn(|_| answers("done"));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn code_that_calls_a_role_which_failed_is_not_executed_again_before_that_is_resumed() {
    for policy in [OnFault::Stop, OnFault::Park] {
        let team = || {
            let mut team = with_role(React::ByOrder);
            team.policy.on_fault = policy;
            team
        };
        let mut run = ManualRun::start(team());
        run.turn(|run| calls(run, &["B", "x"]));
        let started = [run.call(), run.call()];
        let outer = started
            .iter()
            .find(|call| call.role == A)
            .expect("the code");
        nest_role(&mut run, outer.key(), "B", B);
        run.end(B, Err(Fault::new(FaultKind::Trap, "broken")));
        assert_eq!(run.halt(), Status::Failed);
        assert_eq!(attempts_of_code(&run), 1);
        run.resume(team(), CallPolicy::Auto);
        run.act(Ok(says("b ok")));
        let outer = run.call();
        assert_eq!((outer.role, outer.attempt), (A, 2));
        nest_role(&mut run, outer.key(), "B", B);
        run.act(Ok(says("b ok again")));
        run.end_call(&outer, Ok(says("code ok")));
        run.turn(|_| answers("done"));
        assert_eq!(run.halt(), Status::Done);
    }
}

/// Code that makes these calls, those of a batch at once, and then returns.
struct Code {
    call: Invocation,
    next: usize,
    waits_for: Vec<u16>,
}

/// A run of code that is disturbed.
struct Disturbed<'a> {
    run: ManualRun,
    batches: &'a [Vec<u16>],
    code: Option<Code>,
    nested: Vec<Invocation>,
}

impl Disturbed<'_> {
    /// Goes on until the run has ended. `dice` decides what happens next.
    fn go(&mut self, dice: &mut impl Iterator<Item = u8>) -> Status {
        for _ in 0..2000 {
            let roll = dice.next().unwrap_or(1);
            match self.run.stepper.next() {
                Effect::Record(event) => {
                    self.forget_ended(&event);
                    self.run.record(event);
                }
                Effect::Call(call) => {
                    self.run.record(self.run.stepper.call_started_event(&call));
                    self.started(call);
                }
                Effect::Halt(Status::Done) => return Status::Done,
                Effect::Halt(Status::Waiting) => self.answer(),
                Effect::Halt(_) => self.restart(),
                Effect::Wait if roll.is_multiple_of(7) => self.restart(),
                Effect::Wait => self.advance(roll),
            }
        }
        panic!("the run does not end");
    }

    fn started(&mut self, call: Invocation) {
        match call.work {
            Work::Turn { turn: 0 } => {
                let reply = calls(&self.run, &["x"]);
                self.run.end_call(&call, Ok(reply));
            }
            Work::Turn { .. } => self.run.end_call(&call, Ok(answers("done"))),
            Work::ToolCall { nested, .. } if nested.is_empty() => {
                let (next, waits_for) = (0, Vec::new());
                self.code = Some(Code {
                    call,
                    next,
                    waits_for,
                });
            }
            Work::ToolCall { .. } => self.nested.push(call),
            _ => self.run.end_call(&call, Ok(says("ok"))),
        }
    }

    /// The process is killed and the run resumed.
    fn restart(&mut self) {
        (self.code, self.nested) = (None, Vec::new());
        self.run.resume(team(), CallPolicy::Auto);
    }

    /// A person approves all that is asked.
    fn answer(&mut self) {
        while let Some(id) = {
            let mut open = self.run.env().open_requests();
            open.next().map(|(_, request)| request.id.clone())
        } {
            let yes = HumanAnswer::Given(Json::parse("{\"approve\":true}").expect("JSON"));
            let event = self.run.stepper.request_answered_event(&id, yes, None);
            self.run.record(event.expect("an open request"));
        }
        self.restart();
    }

    /// The attempts are forgotten that the core ends.
    fn forget_ended(&mut self, event: &Event) {
        if let Event::Attempt(call, AttemptEvent::CallSuspended(_) | AttemptEvent::CallFailed(_)) =
            event
        {
            self.code.take_if(|code| code.call.key() == *call);
            self.nested.retain(|nested| nested.key() != *call);
        }
    }

    /// One of the attempts goes on.
    fn advance(&mut self, roll: u8) {
        if !self.nested.is_empty() {
            let call = self.nested.remove(usize::from(roll) % self.nested.len());
            // The third call fails the first time it is made, which stops the run.
            let traps = call.work.nested() == NestedPath::EMPTY.with(2) && call.attempt == 1;
            let result = if traps {
                Err(Fault::new(FaultKind::Trap, "unreachable"))
            } else {
                Ok(writes(&format!("{:?}", call.work.nested())))
            };
            return self.run.end_call(&call, result);
        }
        let Some(code) = &mut self.code else { return };
        let key = code.call.key();
        let ended = |number: &u16| outcome(&self.run, key, *number).is_some();
        assert!(code.waits_for.iter().all(ended), "nothing else can happen");
        let Some(batch) = self.batches.get(code.next) else {
            let code = self.code.take().expect("code");
            return self.run.end_call(&code.call, Ok(says("code ok")));
        };
        let first = code.next * 100;
        code.next += 1;
        code.waits_for.clear();
        for (index, action) in batch.iter().enumerate() {
            let number = nest(&mut self.run, key, *action, first + index);
            code.waits_for.push(number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn kills_faults_and_questions_change_nothing_about_nested_calls(
        batches in prop::collection::vec(prop::collection::vec(1..3u16, 1..4), 1..4),
        dice in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut disturbed = Disturbed {
            run: ManualRun::start(team()),
            batches: &batches,
            code: None,
            nested: Vec::new(),
        };
        prop_assert_eq!(disturbed.go(&mut dice.into_iter()), Status::Done);
        let run = &disturbed.run;
        // The last nested call that is made wins.
        let count = batches.iter().map(Vec::len).sum::<usize>();
        let last = NestedPath::EMPTY.with(count as u16 - 1);
        let expected = serde_json::json!(format!("{last:?}"));
        prop_assert_eq!(run.env().role(A).scope["k"].value(), expected);
        let mut ended = Vec::new();
        for event in &run.log {
            match event {
                Event::Attempt(call, AttemptEvent::CallStarted(_)) => {
                    prop_assert!(!ended.contains(call), "{call:?} was made again");
                }
                Event::Attempt(call, AttemptEvent::CallFinished(_)) => ended.push(*call),
                _ => {}
            }
        }
        let nested = ended.iter().filter(|call| call.work.nested().is_some());
        prop_assert_eq!(nested.count(), count);
    }
}
