//! Roles as tools: examples of how a role works for another one within its step.

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, ToolCall};
use strata_core::record::event::{AttemptEvent, CallRevised, CallStarted, Event, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallPolicy, RecordedCallUse};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::nested_path::NestedPath;
use strata_core::record::role_call::MAX_ROLE_CALLS;
use strata_core::record::rules::Reducer;
use strata_core::record::turn::{
    Approval, CallDecision, CallEffect, CallForm, CallPlan, CallRevision, CallTarget, ToolRef,
    TurnOutcome,
};
use strata_core::record::work::{ActivationKey, CallKey, CallResult, Work};
use strata_core::state::activation::ToolOutcome;
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::validate;
use strata_core::team::tools::ToolFaults;
use strata_core::team::{OnFault, React, Role, Team};

use crate::manual_run::{ManualRun, draft, mail, says, writes};
use crate::teams::{role, team};
use crate::tool_roles::{answers, fault, replied, tool, tool_loop};

const A: RoleId = RoleId(0);
const B: RoleId = RoleId(1);
const C: RoleId = RoleId(2);

/// Returns a tools role that can call these roles and does nothing else.
fn caller(name: &str, watch: &[&str], called: &[u16]) -> Role {
    let mut caller = role(name, watch, &[]);
    let tools = called.iter().map(|id| {
        let name = ["A", "B", "C"][usize::from(*id)];
        tool(name, ToolRef::Role(RoleId(*id)))
    });
    caller.react = React::Tools(Box::new(tool_loop(tools.collect())));
    caller
}

/// Returns a team in which `A` calls `B`, which has the actions `x` and `y`, and `C` watches `x`,
/// `y` and what `A` answers.
pub fn assistant() -> Team {
    team(vec![
        caller("A", &[IDEA_LABEL], &[1]),
        role("B", &[], &["x", "y"]),
        role("C", &["x", "y", "A"], &["c"]),
    ])
}

/// Returns a reply that calls these roles with these messages.
pub fn calls(targets: &[(RoleId, &str)]) -> CallResult {
    plan_calls(targets, |_, target| CallDecision::Make(target))
}

fn plan_calls(
    targets: &[(RoleId, &str)],
    decide: impl Fn(usize, CallTarget) -> CallDecision,
) -> CallResult {
    let mut message = Vec::new();
    let mut plans = Vec::new();
    for (index, (to, text)) in targets.iter().enumerate() {
        let tool = ["A", "B", "C"][to.index()].to_owned();
        message.push(AssistantPart::ToolCall(ToolCall {
            id: format!("c{index}"),
            name: tool.clone(),
            arguments: format!("{{\"message\":\"{text}\"}}"),
        }));
        let target = CallTarget {
            tool: ToolRef::Role(*to),
            effect: CallEffect::Continues,
        };
        let decision = decide(index, target);
        plans.push(CallPlan {
            id: String::new(),
            tool,
            form: CallForm::Direct,
            decision,
        });
    }
    replied(message, TurnOutcome::Calls(plans))
}

fn news(call: &Invocation) -> Vec<&str> {
    call.news.iter().map(|news| news.content.as_str()).collect()
}

impl ManualRun {
    /// Makes the next call.
    fn end_next(&mut self, result: Result<CallResult, Fault>) {
        let call = self.call();
        self.end_call(&call, result);
    }

    /// Returns the results of the tool calls of the activation in which `A` handles mail.
    pub fn results(&self) -> Vec<String> {
        let activation = self.env().role(A).activation.as_ref().expect("open");
        let results = activation
            .tool_calls()
            .map(|(_, call)| match &call.outcome {
                Some(ToolOutcome::Returned(returned)) => returned.output.content.clone(),
                other => format!("{other:?}"),
            });
        results.collect()
    }

    /// Returns what a role remembers.
    pub fn memory_of(&self, role: RoleId) -> Vec<&str> {
        let memory = self.env().role(role).memory.iter();
        memory
            .map(|id| self.env().message(*id).content.as_str())
            .collect()
    }

    /// Returns what a call recalls of the past.
    fn recalled(&self, call: &Invocation) -> Vec<String> {
        let recent = self.env().recent_memory(call.key().activation(), None, 99);
        recent.iter().map(|found| found.content.clone()).collect()
    }
}

#[test]
fn the_message_is_its_only_news_and_its_output_the_result_and_nothing_is_published() {
    let mut run = ManualRun::start(assistant());
    run.turn(|_| calls(&[(B, "please")]));
    let x = run.call();
    assert_eq!((x.role, news(&x)), (B, vec!["please"]));
    let message = &x.news[0];
    assert_eq!((&*message.sent_from, &*message.cause_by), ("A", "A"));
    assert_eq!(
        (&*message.id.0, &message.send_to[..]),
        ("0-0-0.0", &["B".to_owned()][..])
    );
    assert_eq!(x.idempotency_key, "run/0/A/0/0/B/0");
    let emitted = CallResult::Returned {
        output: draft("x ok", &["C"]),
        emissions: vec![draft("an aside", &[])],
        writes: Vec::new(),
    };
    run.end_call(&x, Ok(emitted));
    let y = run.call();
    assert_eq!(y.idempotency_key, "run/0/A/0/0/B/1");
    assert_eq!(y.outputs[0].id.0, "0-0-0.0-0");
    run.end_call(&y, Ok(says("y ok")));
    let turn = run.turn(|_| answers("done"));
    assert_eq!((turn.role, run.env().step), (A, 0));
    assert_eq!(run.act(Ok(says("c ok"))).role, C);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "done", "c ok"]);
    assert_eq!(run.memory_of(B), ["please", "x ok", "y ok"]);
    assert_eq!(run.memory_of(A), ["idea", "done"]);
}

#[test]
fn the_result_of_a_role_is_told_without_its_recipients_and_is_empty_if_it_does_nothing() {
    let mut lazy = assistant();
    lazy.roles[1].react = React::Choose {
        max_loop: 1,
        thinker: strata_core::record::rules::Thinker::Model,
    };
    let mut run = ManualRun::start(lazy);
    run.turn(|_| calls(&[(B, "please")]));
    run.act(Ok(CallResult::Chosen(-1)));
    run.turn(|run| {
        assert_eq!(run.results(), [""]);
        answers("done")
    });
    let mut ending = assistant();
    ending.roles[1].actions.truncate(1);
    let mut run = ManualRun::start(ending);
    let ends = |_: usize, target| {
        CallDecision::Make(CallTarget {
            effect: CallEffect::Ends,
            ..target
        })
    };
    run.turn(|_| plan_calls(&[(B, "please")], ends));
    let output = CallResult::Returned {
        output: draft("x ok", &["B"]),
        emissions: Vec::new(),
        writes: Vec::new(),
    };
    run.act(Ok(output));
    assert_eq!(news(&run.act(Ok(says("c ok")))), ["x ok"]);
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn its_mailbox_and_its_own_work_are_not_touched() {
    let mut run = ManualRun::start(assistant());
    run.record(run.stepper.message_sent_event(mail("letter", "l", &["B"])));
    let turn = run.call();
    let own = run.call();
    assert_eq!((own.role, news(&own)), (B, vec!["letter"]));
    run.end_call(&turn, Ok(calls(&[(B, "please")])));
    let called = run.call();
    assert_eq!((called.role, news(&called)), (B, vec!["please"]));
    assert_eq!(own.work, called.work);
    run.end_call(&called, Ok(says("called x")));
    run.end_call(&own, Ok(says("own x")));
    let (called, own) = (run.call(), run.call());
    run.end_call(&own, Ok(says("own y")));
    run.end_call(&called, Ok(says("called y")));
    run.turn(|_| answers("done"));
    run.act(Ok(says("c ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "letter", "done", "own y", "c ok"]);
    let expected = ["letter", "own x", "own y", "please", "called x", "called y"];
    assert_eq!(run.memory_of(B), expected);
}

#[test]
fn a_fault_of_the_called_role_is_its_own_and_the_caller_goes_on_after_a_resume() {
    let returning = || {
        let mut team = assistant();
        if let React::Tools(tools) = &mut team.roles[0].react {
            tools.faults = ToolFaults::Return;
        }
        team
    };
    let mut run = ManualRun::start(returning());
    run.turn(|_| calls(&[(B, "please")]));
    run.end_next(Ok(says("x ok")));
    run.end_next(fault(FaultKind::Error));
    assert_eq!(run.halt(), Status::Failed);
    let faults: Vec<CallKey> = run
        .env()
        .failed_calls(run.stepper.team())
        .map(|(call, _)| call)
        .collect();
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].role, faults[0].activation().root()), (B, A));
    run.resume(returning(), CallPolicy::Auto);
    let again = run.call();
    assert_eq!((again.key(), again.attempt), (faults[0], 2));
    run.end_call(&again, Ok(says("y ok")));
    run.turn(|run| {
        assert_eq!(run.results(), ["y ok"]);
        answers("done")
    });
    run.act(Ok(says("c ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.memory_of(B), ["please", "x ok", "y ok"]);
}

#[test]
fn a_run_that_is_killed_while_a_role_is_called_repeats_only_what_was_running() {
    let mut run = ManualRun::start(assistant());
    run.turn(|_| calls(&[(B, "please")]));
    run.end_next(Ok(says("x ok")));
    let y = run.call();
    run.resume(assistant(), CallPolicy::Auto);
    let again = run.call();
    assert_eq!((again.key(), again.attempt), (y.key(), 2));
    assert_eq!(again.idempotency_key, y.idempotency_key);
    run.end_call(&again, Ok(says("y ok")));
    let turn = run.turn(|_| answers("done"));
    assert_eq!(turn.work, Work::Turn { turn: 1 });
}

#[test]
fn a_parked_role_that_was_called_holds_up_its_caller_and_nobody_else() {
    let mut parked = assistant();
    parked.policy.on_fault = OnFault::Park;
    let mut run = ManualRun::start(parked);
    run.record(run.stepper.message_sent_event(mail("letter", "x", &[])));
    let (turn, c) = (run.call(), run.call());
    run.end_call(&c, Ok(says("c ok")));
    run.end_call(&turn, Ok(calls(&[(B, "please")])));
    run.end_next(fault(FaultKind::Trap));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(
        (run.env().step, run.history()),
        (1, vec!["idea", "letter", "c ok"])
    );
    let mut parked = assistant();
    parked.policy.on_fault = OnFault::Park;
    run.resume(parked, CallPolicy::Auto);
    for text in ["x ok", "y ok"] {
        run.act(Ok(says(text)));
    }
    run.turn(|_| answers("done"));
    run.act(Ok(says("c again")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_human_role_that_is_called_is_asked_and_the_answer_is_the_result() {
    let mut asking = assistant();
    asking.roles[1] = role("B", &[], &[]);
    asking.roles[1].react = React::Human;
    let mut run = ManualRun::start(asking.clone());
    run.turn(|_| calls(&[(B, "may I?"), (B, "really?")]));
    assert_eq!(run.halt(), Status::Waiting);
    let request = run.open_request(B);
    assert_eq!(request.0, "ask-0-0-0-0-1-0-0");
    assert_eq!(run.env().open_requests().count(), 1);
    let yes = HumanAnswer::Given(Json::parse("\"yes\"").expect("JSON"));
    let event = run
        .stepper
        .request_answered_event(&request, yes.clone(), None);
    run.record(event.expect("an open request"));
    run.resume(asking.clone(), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Waiting);
    let request = run.open_request(B);
    assert_eq!(request.0, "ask-0-0-0-1-1-0-0");
    let event = run.stepper.request_answered_event(&request, yes, None);
    run.record(event.expect("an open request"));
    run.resume(asking, CallPolicy::Auto);
    run.turn(|run| {
        assert_eq!(run.results(), ["\"yes\"", "\"yes\""]);
        answers("done")
    });
}

#[test]
fn a_call_of_a_role_can_need_approval() {
    let mut run = ManualRun::start(assistant());
    let ask = |_: usize, target| CallDecision::AskFirst(target, Approval::default());
    run.turn(|_| plan_calls(&[(B, "please")], ask));
    assert_eq!(run.halt(), Status::Waiting);
    let request = run.open_request(A);
    assert_eq!(request.0, "ask-0-0-0-0");
    let edited = r#"{ "approve": true, "arguments": { "message": "kindly" } }"#;
    let edited = HumanAnswer::Given(Json::parse(edited).expect("JSON"));
    let event = run.stepper.request_answered_event(&request, edited, None);
    run.record(event.expect("an open request"));
    run.resume(assistant(), CallPolicy::Auto);
    assert_eq!(news(&run.call()), ["kindly"]);
}

#[test]
fn a_call_that_a_role_works_on_can_be_taken_back_and_a_human_is_asked_first() {
    let mut run = ManualRun::start(assistant());
    run.turn(|_| calls(&[(B, "one")]));
    let one = run.call();
    assert_eq!(news(&one), ["one"]);
    run.end_call(&one, Ok(says("x ok")));
    run.resume(assistant(), CallPolicy::Auto);
    let work = Work::ToolCall {
        turn: 0,
        call: 0,
        nested: NestedPath::EMPTY,
        tool: ToolRef::Role(B),
    };
    let call = CallKey::in_activation(ActivationKey::of_mail(A), work);
    let revision = CallRevision::AskFirst(Approval::default());
    let revised = AttemptEvent::CallRevised(CallRevised { revision });
    run.record(Event::Attempt(call, revised));
    assert!(run.env().activations().all(|(key, _)| key.role == A));
    assert_eq!(run.halt(), Status::Waiting);
    let request = run.open_request(A);
    let yes = HumanAnswer::Given(Json::parse(r#"{ "approve": true }"#).expect("JSON"));
    let event = run.stepper.request_answered_event(&request, yes, None);
    run.record(event.expect("an open request"));
    run.resume(assistant(), CallPolicy::Auto);
    // The role begins again.
    let again = run.call();
    assert_eq!((news(&again), again.work), (vec!["one"], one.work));
}

#[test]
fn calls_of_one_role_run_one_after_another_and_see_what_earlier_turns_left() {
    let mut brief = assistant();
    brief.roles[1].actions.truncate(1);
    let mut run = ManualRun::start(brief);
    run.turn(|_| calls(&[(B, "one"), (B, "two")]));
    let one = run.call();
    assert_eq!(news(&one), ["one"]);
    assert_eq!(run.go(), Effect::Wait, "the role works on another call");
    run.end_call(&one, Ok(says("one ok")));
    let two = run.call();
    assert_eq!(news(&two), ["two"]);
    assert_eq!(
        run.recalled(&two),
        [""; 0],
        "the calls of a turn see its start"
    );
    run.end_call(&two, Ok(says("two ok")));
    run.turn(|_| calls(&[(B, "three")]));
    let three = run.call();
    assert_eq!(run.recalled(&three), ["one", "one ok", "two", "two ok"]);
    run.end_call(&three, Ok(says("three ok")));
    run.turn(|_| answers("done"));
    run.act(Ok(says("c ok")));
    let expected = ["one", "one ok", "two", "two ok", "three", "three ok"];
    assert_eq!(run.memory_of(B), expected);
}

#[test]
fn two_callers_of_a_role_take_turns_and_do_not_see_each_other() {
    let mut run = ManualRun::start(team(vec![
        caller("A", &[IDEA_LABEL], &[2]),
        caller("B", &[IDEA_LABEL], &[2]),
        role("C", &[], &["c"]),
    ]));
    let (a, b) = (run.call(), run.call());
    run.end_call(&a, Ok(calls(&[(C, "from A")])));
    run.end_call(&b, Ok(calls(&[(C, "from B")])));
    let first = run.call();
    assert_eq!(news(&first), ["from A"]);
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&first, Ok(says("for A")));
    // Its caller goes on at once.
    let next = [run.call(), run.call()];
    let (turn, second) = match next[0].role {
        A => (&next[0], &next[1]),
        _ => (&next[1], &next[0]),
    };
    assert_eq!((turn.role, news(second)), (A, vec!["from B"]));
    assert_eq!(run.recalled(second), [""; 0]);
    run.end_call(second, Ok(says("for B")));
    run.end_call(turn, Ok(answers("A is done")));
    run.turn(|_| answers("B is done"));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.memory_of(C), ["from A", "for A", "from B", "for B"]);
}

/// Returns a team in which `A` calls `B` and `B` calls `C`.
fn chain() -> Team {
    let mut team = team(vec![
        caller("A", &[IDEA_LABEL], &[1]),
        caller("B", &[], &[0, 2]),
        role("C", &[], &["c"]),
    ]);
    team.policy.max_parallel = 1;
    team
}

#[test]
fn a_called_role_calls_another_one() {
    let mut run = ManualRun::start(chain());
    run.turn(|_| calls(&[(B, "down")]));
    let turn = run.turn(|_| calls(&[(C, "further down")]));
    assert_eq!(turn.idempotency_key, "run/0/A/0/0/B/turn/0");
    let c = run.call();
    assert_eq!(c.idempotency_key, "run/0/A/0/0/B/0/0/C/0");
    assert_eq!(
        (news(&c), c.news[0].id.0.as_str()),
        (vec!["further down"], "0-0-0.0-0.0")
    );
    run.end_call(&c, Ok(says("bottom")));
    run.turn(|_| answers("half way"));
    run.turn(|run| {
        assert_eq!(run.results(), ["half way"]);
        answers("top")
    });
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "top"]);
    assert_eq!(run.memory_of(C), ["further down", "bottom"]);
    assert_eq!(run.memory_of(B), ["down", "half way"]);
}

#[test]
fn a_role_is_not_called_while_it_works_on_the_call() {
    let mut run = ManualRun::start(chain());
    run.turn(|_| calls(&[(B, "down")]));
    let turn = run.call();
    run.end_call(&turn, Ok(calls(&[(A, "up"), (C, "further down")])));
    assert_eq!(
        news(&run.call()),
        ["further down"],
        "the other call is rejected"
    );

    // Nothing but a forged record contains the start of such a call.
    let mut env = run.env().clone();
    let called = ActivationKey::of_mail(A)
        .called(B, 0, 0, NestedPath::EMPTY)
        .expect("short");
    let state = env.roles[0].called.get_mut(&called).expect("an activation");
    let mut turns = state.turns.to_vec();
    let call = &mut turns[0].calls[0];
    call.target = Some(CallTarget {
        tool: ToolRef::Role(A),
        effect: CallEffect::Continues,
    });
    (call.outcome, call.phase) = (None, strata_core::state::activation::Phase::Ready);
    state.turns = turns.into();
    let mut forged = Stepper::new(run.stepper.team().clone(), env);
    let work = Work::ToolCall {
        turn: 0,
        call: 0,
        nested: NestedPath::EMPTY,
        tool: ToolRef::Role(A),
    };
    let before = forged.env().clone();
    let started = AttemptEvent::CallStarted(CallStarted {
        attempt: 1,
        digest: None,
        call_reuse: RecordedCallUse::Reuse,
        forgotten: Vec::new(),
    });
    let event = Event::Attempt(CallKey::in_activation(called, work), started);
    assert!(forged.apply(&event).is_err());
    assert_eq!(*forged.env(), before);
}

#[test]
fn a_saved_state_with_work_that_no_role_called_is_invalid() {
    let mut run = ManualRun::start(chain());
    run.turn(|_| calls(&[(B, "down")]));
    run.call();
    let env = run.env().clone();
    assert_eq!(validate(env.clone()).as_ref(), Ok(&env));
    let check = |change: &dyn Fn(&mut Environment)| {
        let mut changed = env.clone();
        change(&mut changed);
        assert!(validate(changed).is_err());
    };
    let called = ActivationKey::of_mail(A)
        .called(B, 0, 0, NestedPath::EMPTY)
        .expect("short");
    check(&|env| env.roles[0].called.clear());
    check(&|env| env.roles[0].activation = None);
    check(&|env| {
        let state = env.roles[0].called.remove(&called).expect("open");
        let other = ActivationKey::of_mail(A)
            .called(B, 0, 1, NestedPath::EMPTY)
            .expect("short");
        env.roles[0].called.insert(other, state);
    });
    check(&|env| {
        let state = env.roles[0].called.remove(&called).expect("open");
        env.roles[1].called.insert(called, state);
    });
    let mut deep = Some(ActivationKey::of_mail(A));
    for _ in 0..MAX_ROLE_CALLS {
        deep = deep.and_then(|key| key.called(B, 0, 0, NestedPath::EMPTY));
    }
    assert!(deep.is_some_and(|key| key.called(B, 0, 0, NestedPath::EMPTY).is_none()));
}

#[test]
fn a_conflict_of_a_called_role_is_undone_there_and_no_turn_is_repeated() {
    let conflicting = |reducer: Option<Reducer>| {
        let mut team = team(vec![
            caller("A", &[IDEA_LABEL], &[1]),
            role("B", &[], &["x"]),
            role("C", &[IDEA_LABEL], &["c"]),
        ]);
        team.scopes.insert("s0".into(), reducer);
        team
    };
    let mut run = ManualRun::start(conflicting(None));
    let (turn, c) = (run.call(), run.call());
    run.end_call(&c, Ok(writes("c ok", &[("k", 1)])));
    run.end_call(&turn, Ok(calls(&[(B, "please")])));
    run.act(Ok(writes("x ok", &[("k", 2)])));
    run.turn(|_| answers("done"));
    assert_eq!(run.halt(), Status::Failed);
    let failed: Vec<(RoleId, FaultKind)> = run
        .env()
        .open_faults(run.stepper.team())
        .map(|(call, _, fault)| (call.role, fault.kind))
        .collect();
    let conflict = FaultKind::StateConflict;
    assert_eq!(failed, [(B, conflict), (C, conflict)]);
    run.resume(conflicting(Some(Reducer::Add)), CallPolicy::Auto);
    for _ in 0..2 {
        let call = run.call();
        assert_eq!(call.attempt, 2);
        run.end_call(&call, Ok(writes("again", &[("k", 2)])));
    }
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "done", "again"]);
    assert_eq!(run.env().shared_scopes["s0"]["k"].as_str(), "4");
}
