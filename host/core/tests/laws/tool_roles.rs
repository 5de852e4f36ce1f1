//! Roles whose model works in a loop with tools: examples of turns and tool calls, and the laws of
//! order, replay and recovery for teams with such roles.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{AssistantPart, ToolCall};
use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallPolicy, FinishReason};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, IDEA_LABEL};
use strata_core::record::money::Usd;
use strata_core::record::nested_path::NestedPath;
use strata_core::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use strata_core::record::turn::{
    Approval, CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ReplyMessage, ToolRef,
    TurnOutcome, TurnReply,
};
use strata_core::record::work::{ActivationKey, CallResult, Work};
use strata_core::state::activation::ToolOutcome;
use strata_core::state::environment::Environment;
use strata_core::state::environment::validation::validate;
use strata_core::team::tools::{CallOrder, Summariser, Tool, ToolFaults, ToolLoop};
use strata_core::team::{React, RetryPolicy, Role, Team};

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::manual_run::{ManualRun, says};
use crate::rng::Rng;
use crate::script::{RecipientChoice, Script};
use crate::state_view::state_view;
use crate::teams::{cases, role, steady_team, team};

const A: RoleId = RoleId(0);

pub fn tool(name: &str, tool: ToolRef) -> Tool {
    let effect = match tool {
        ToolRef::Action(_) | ToolRef::Role(_) | ToolRef::Host(_) | ToolRef::Server { .. } => {
            CallEffect::Continues
        }
        ToolRef::Handoff(_) => CallEffect::Ends,
    };
    Tool {
        name: name.into(),
        target: CallTarget { tool, effect },
        faults: None,
        order: CallOrder::Parallel,
        max_calls: None,
    }
}

pub fn tool_loop(tools: Vec<Tool>) -> ToolLoop {
    ToolLoop {
        max_turns: 20,
        max_calls: 100,
        repeat: None,
        order: CallOrder::Parallel,
        faults: ToolFaults::Auto,
        retry: RetryPolicy {
            retries: 0,
            backoff_ms: 0,
        },
        summariser: Summariser::Model,
        tools,
        reviews_results: false,
        server_limits: Vec::new(),
    }
}

/// Returns a team of a tools role with the actions `x`, `y` and `z`, and a role that handles mail.
pub fn analyst(change: impl Fn(&mut ToolLoop)) -> Team {
    let mut analyst = role("A", &[IDEA_LABEL], &["x", "y", "z"]);
    let names = ["x", "y", "z"].iter().zip(0..);
    let actions = names.map(|(name, index)| tool(name, ToolRef::Action(ActionId(index))));
    let mut tools = tool_loop(actions.collect());
    change(&mut tools);
    analyst.react = React::Tools(Box::new(tools));
    team(vec![analyst, role("B", &["A"], &["b"])])
}

/// Returns a reply that calls these tools, as the host plans it. A human is asked about those whose
/// names end in `?`.
pub fn calls(run: &ManualRun, names: &[&str]) -> CallResult {
    let tools = run.stepper.team().role(A).tool_loop().expect("tools");
    let mut message = vec![AssistantPart::Text("let me see".into())];
    let mut plans = Vec::new();
    for (index, asked) in names.iter().enumerate() {
        let name = asked.trim_end_matches('?');
        message.push(AssistantPart::ToolCall(ToolCall {
            id: format!("c{index}"),
            name: name.into(),
            arguments: format!("{{\"n\":{index}}}"),
        }));
        let decision = match tools.tools.iter().find(|tool| tool.name == name) {
            None => CallDecision::Reject("there is no such tool".into()),
            Some(tool) if asked.ends_with('?') => {
                CallDecision::AskFirst(tool.target, Approval::default())
            }
            Some(tool) => CallDecision::Make(tool.target),
        };
        plans.push(CallPlan {
            id: String::new(),
            tool: name.into(),
            form: CallForm::Direct,
            decision,
        });
    }
    replied(message, TurnOutcome::Calls(plans))
}

pub fn replied(message: Vec<AssistantPart>, outcome: TurnOutcome) -> CallResult {
    CallResult::Replied(TurnReply {
        model: "default".into(),
        finish: FinishReason::Stop,
        cost: Usd::ZERO,
        message: ReplyMessage::Parts(message),
        outcome,
        changed_tools: Vec::new(),
        skills: Vec::new(),
    })
}

pub fn answers(text: &str) -> CallResult {
    let answer = Draft {
        content: text.into(),
        ..Draft::default()
    };
    replied(
        vec![AssistantPart::Text(text.into())],
        TurnOutcome::Answer(answer),
    )
}

impl ManualRun {
    /// Makes the next turn with this reply.
    pub fn turn(&mut self, reply: impl FnOnce(&Self) -> CallResult) -> Invocation {
        let call = self.call();
        assert!(matches!(call.work, Work::Turn { .. }), "{call:?}");
        let reply = reply(self);
        self.end_call(&call, Ok(reply));
        call
    }

    /// Ends a call.
    pub fn end_call(&mut self, call: &Invocation, result: Result<CallResult, Fault>) {
        let event = self.stepper.call_ended_event(call.key(), result);
        self.record(event.expect("a running call"));
    }

    /// Returns what became of the calls of the role with tools.
    pub fn outcomes(&self) -> Vec<String> {
        let activation = self
            .env()
            .role(A)
            .activation
            .as_ref()
            .expect("an activation");
        let calls = activation.turns.iter().flat_map(|turn| &turn.calls);
        calls
            .map(|call| match &call.outcome {
                None => "open".into(),
                Some(ToolOutcome::Returned(returned)) => returned.output.content.clone(),
                Some(ToolOutcome::Failed(fault)) => format!("{}: {}", fault.kind, fault.message),
                Some(ToolOutcome::Rejected(reason)) => format!("rejected: {reason}"),
                Some(ToolOutcome::Declined(reason)) => format!("declined: {reason}"),
            })
            .collect()
    }
}

pub fn fault(kind: FaultKind) -> Result<CallResult, Fault> {
    Err(Fault::new(kind, "it went wrong"))
}

#[test]
fn the_model_calls_tools_is_told_the_results_and_answers() {
    let mut run = ManualRun::start(analyst(|_| {}));
    let first = run.turn(|run| calls(run, &["x", "y"]));
    assert_eq!(first.idempotency_key, "run/0/A/turn/0");
    let (x, y) = (run.call(), run.call());
    assert_eq!(x.idempotency_key, "run/0/A/0/0");
    assert_eq!(y.idempotency_key, "run/0/A/0/1");
    assert_eq!(y.arguments, Some(Json::parse("{\"n\":1}").expect("JSON")));
    run.end_call(&y, Ok(says("y ok")));
    assert_eq!(run.go(), Effect::Wait, "a turn waits for all its calls");
    run.end_call(&x, Ok(says("x ok")));
    assert_eq!(run.outcomes(), ["x ok", "y ok"]);
    run.turn(|_| answers("both are ok"));
    let handled = run.act(Ok(says("b ok")));
    assert_eq!(
        (handled.role, handled.news[0].cause_by.as_str()),
        (RoleId(1), "A")
    );
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "both are ok", "b ok"]);
    let memory = run.env().resolve(&run.env().role(A).memory);
    let texts: Vec<&str> = memory
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(texts.len(), 2, "the news and the answer: {texts:?}");
}

#[test]
fn calls_of_a_turn_see_the_state_at_its_start_and_the_later_call_wins() {
    let write = |text: &str, value: u32| CallResult::Returned {
        output: Draft {
            content: text.into(),
            ..Draft::default()
        },
        emissions: Vec::new(),
        writes: vec![Write {
            scope: ROLE_SCOPE.into(),
            key: "k".into(),
            change: ScopeChange::Set(Json::from(serde_json::Value::from(value))),
        }],
    };
    let mut run = ManualRun::start(analyst(|_| {}));
    let value = |run: &ManualRun| {
        let at = strata_core::state::environment::scope::ScopeKey {
            scope: ROLE_SCOPE,
            key: "k",
        };
        let value =
            run.env()
                .read_key(run.stepper.team(), ActivationKey::of_mail(A), at, None, &[]);
        value.flatten().map(|value| value.as_str().to_owned())
    };
    run.turn(|run| calls(run, &["x", "y"]));
    let (x, y) = (run.call(), run.call());
    run.end_call(&y, Ok(write("y", 2)));
    assert_eq!(value(&run), None, "the turn is not complete");
    run.end_call(&x, Ok(write("x", 1)));
    assert_eq!(value(&run).as_deref(), Some("2"));
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.env().role(A).scope["k"].as_str(), "2");
}

#[test]
fn a_role_may_make_its_calls_one_after_another_and_a_tool_may_run_alone() {
    let alone = |tools: &mut ToolLoop| tools.tools[1].order = CallOrder::Exclusive;
    let mut run = ManualRun::start(analyst(alone));
    run.turn(|run| calls(run, &["x", "y", "z"]));
    let (x, z) = (run.call(), run.call());
    assert_eq!((x.work, z.work), (tool_call(0, 0, 0), tool_call(0, 2, 2)));
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&x, Ok(says("x")));
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&z, Ok(says("z")));
    let y = run.call();
    assert_eq!(y.work, tool_call(0, 1, 1));
    run.end_call(&y, Ok(says("y")));
    let mut run = ManualRun::start(analyst(|tools| tools.order = CallOrder::Exclusive));
    run.turn(|run| calls(run, &["x", "y"]));
    let x = run.call();
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&x, Ok(says("x")));
    assert_eq!(run.call().work, tool_call(0, 1, 1));
}

fn tool_call(turn: u32, call: u32, action: u16) -> Work {
    let tool = ToolRef::Action(ActionId(action));
    let nested = NestedPath::EMPTY;
    Work::ToolCall {
        turn,
        call,
        nested,
        tool,
    }
}

#[test]
fn an_error_is_told_and_a_trap_stops_the_run_after_the_other_calls_of_the_turn() {
    let mut run = ManualRun::start(analyst(|_| {}));
    run.turn(|run| calls(run, &["x", "y", "z"]));
    let (x, y, z) = (run.call(), run.call(), run.call());
    run.end_call(&x, fault(FaultKind::Error));
    run.end_call(&y, fault(FaultKind::Trap));
    assert_eq!(run.go(), Effect::Wait, "another call is running");
    run.end_call(&z, Ok(says("z ok")));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(run.outcomes(), ["error: it went wrong", "open", "z ok"]);
    run.resume(analyst(|_| {}), CallPolicy::Auto);
    let again = run.call();
    assert_eq!((again.work, again.attempt), (tool_call(0, 1, 1), 2));
    run.end_call(&again, Ok(says("y ok")));
    assert_eq!(run.outcomes(), ["error: it went wrong", "y ok", "z ok"]);
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_tool_decides_about_its_faults_before_its_role() {
    let check = |of_role, of_tool, kind, expected| {
        let mut run = ManualRun::start(analyst(|tools| {
            tools.faults = of_role;
            tools.tools[0].faults = of_tool;
        }));
        run.turn(|run| calls(run, &["x"]));
        let x = run.call();
        run.end_call(&x, fault(kind));
        assert_eq!(run.outcomes(), [expected], "{of_role:?} {of_tool:?} {kind}");
    };
    use ToolFaults::*;
    check(Return, Some(Stop), FaultKind::Error, "open");
    check(Stop, Some(Return), FaultKind::Trap, "trap: it went wrong");
    check(Auto, None, FaultKind::Cpu, "cpu: it went wrong");
    check(Auto, None, FaultKind::Host, "open");
    // An interruption is no result of the tool.
    check(Return, Some(Return), FaultKind::Interrupted, "open");
}

#[test]
fn at_the_limit_of_turns_it_fails_until_more_are_allowed() {
    let limit = |max| analyst(move |tools| tools.max_turns = max);
    let mut run = ManualRun::start(limit(1));
    run.turn(|run| calls(run, &["x"]));
    run.act(Ok(says("x ok")));
    assert_eq!(run.halt(), Status::Failed);
    let (call, open) = run
        .env()
        .failed_calls(run.stepper.team())
        .next()
        .expect("a fault");
    assert_eq!(call.work, Work::Turn { turn: 1 });
    assert_eq!(
        open.phase.fault().map(|fault| fault.kind),
        Some(FaultKind::Turns)
    );
    run.resume(limit(1), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Failed);
    run.resume(limit(2), CallPolicy::Auto);
    run.turn(|_| answers("done"));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn calls_beyond_the_limit_are_rejected_and_rejected_calls_do_not_count() {
    let mut run = ManualRun::start(analyst(|tools| tools.max_calls = 2));
    run.turn(|run| calls(run, &["nothing", "x", "y", "z"]));
    let (x, y) = (run.call(), run.call());
    assert_eq!((x.work, y.work), (tool_call(0, 1, 0), tool_call(0, 2, 1)));
    run.end_call(&x, Ok(says("x ok")));
    run.end_call(&y, Ok(says("y ok")));
    let limit = "rejected: no more than 2 tool calls may be made, and they were made";
    let expected = ["rejected: there is no such tool", "x ok", "y ok", limit];
    assert_eq!(run.outcomes(), expected);
    run.turn(|run| calls(run, &["x"]));
    assert_eq!(run.outcomes().last().map(String::as_str), Some(limit));
    run.turn(|_| answers("done"));
}

#[test]
fn a_call_that_needs_approval_waits_while_others_run() {
    let mut run = ManualRun::start(analyst(|_| {}));
    run.turn(|run| calls(run, &["x?", "y", "x?"]));
    let y = run.call();
    assert_eq!(y.work, tool_call(0, 1, 1));
    let asked: Vec<_> = run
        .env()
        .open_requests()
        .map(|(_, asked)| asked.clone())
        .collect();
    assert_eq!(
        [asked[0].id.0.as_str(), asked[1].id.0.as_str()],
        ["ask-0-0-0-0", "ask-0-0-0-2"]
    );
    assert_eq!(
        asked[0].proposed.as_ref().map(|call| call.tool.as_str()),
        Some("x")
    );
    run.end_call(&y, Ok(says("y ok")));
    assert_eq!(run.halt(), Status::Waiting);
    let answer = |text: &str| HumanAnswer::Given(Json::parse(text).expect("JSON"));
    let no = answer(r#"{ "approve": false, "reason": "too much" }"#);
    let yes = answer(r#"{ "approve": true, "arguments": { "n": 7 } }"#);
    let wrong = run
        .stepper
        .request_answered_event(&asked[0].id, answer("true"), None);
    assert_eq!(wrong, None);
    for (request, answer) in [(&asked[0], no), (&asked[1], yes)] {
        let event = run
            .stepper
            .request_answered_event(&request.id, answer, None);
        run.record(event.expect("an open request"));
    }
    run.resume(analyst(|_| {}), CallPolicy::Auto);
    let x = run.call();
    assert_eq!(x.arguments, Some(Json::parse("{\"n\":7}").expect("JSON")));
    run.end_call(&x, Ok(says("x ok")));
    assert_eq!(run.outcomes(), ["declined: too much", "y ok", "x ok"]);
    run.turn(|_| answers("done"));
}

#[test]
fn a_handoff_and_a_final_tool_end_the_activation_after_the_other_calls() {
    let to_b = |tools: &mut ToolLoop| {
        let to = ToolRef::Handoff(RoleId(1));
        tools.tools.insert(0, tool("transfer_to_B", to));
        tools.tools[3].target.effect = CallEffect::Ends;
    };
    let mut run = ManualRun::start(analyst(to_b));
    run.turn(|run| calls(run, &["transfer_to_B", "x", "z"]));
    let x = run.call();
    assert_eq!(x.work, tool_call(0, 1, 0));
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&x, Ok(says("x ok")));
    let handoff = run.call();
    run.end_call(&handoff, Ok(says("please")));
    let handled = run.act(Ok(says("b ok")));
    assert_eq!(handled.news[0].content, "let me see\nplease");
    assert_eq!(handled.news[0].send_to, ["B"]);
    assert_eq!(run.halt(), Status::Done);

    let mut run = ManualRun::start(analyst(to_b));
    run.turn(|run| calls(run, &["z"]));
    let z = run.call();
    run.end_call(&z, fault(FaultKind::Error));
    assert_eq!(run.outcomes(), ["error: it went wrong"]);
    run.turn(|run| calls(run, &["z"]));
    let z = run.call();
    run.end_call(&z, Ok(says("it is z")));
    let handled = run.act(Ok(says("b ok")));
    assert_eq!(
        (
            handled.news[0].content.as_str(),
            handled.news[0].cause_by.as_str()
        ),
        ("it is z", "A")
    );
    assert_eq!(run.halt(), Status::Done);
}

/// Returns the team with some of its roles working with tools.
fn with_tools(mut team: Team, seed: u64) -> Team {
    let mut rng = Rng::new(seed, "tools");
    let names: Vec<String> = team.roles.iter().map(|role| role.name.clone()).collect();
    for (index, role) in team.roles.iter_mut().enumerate() {
        let is_human = role.react == React::Human;
        if is_human || index > 0 && !rng.chance(60) {
            continue;
        }
        let mut tools = tool_loop(action_tools(role, &mut rng));
        if rng.chance(30) {
            let to = rng.below(names.len());
            let name = format!("transfer_to_{}", names[to]);
            tools
                .tools
                .push(tool(&name, ToolRef::Handoff(RoleId(to as u16))));
        }
        if index + 1 < names.len() && rng.chance(60) {
            // Towards the last role, so that no role calls itself.
            let to = index + 1 + rng.below(names.len() - index - 1);
            let mut called = tool(&names[to], ToolRef::Role(RoleId(to as u16)));
            if rng.chance(15) {
                called.target.effect = CallEffect::Ends;
            }
            tools.tools.push(called);
        }
        if rng.chance(20) {
            tools.order = CallOrder::Exclusive;
        }
        tools.max_calls = 1 + rng.below(6) as u32;
        tools.reviews_results = rng.chance(40);
        role.react = React::Tools(Box::new(tools));
    }
    team
}

fn action_tools(role: &Role, rng: &mut Rng) -> Vec<Tool> {
    let actions = role.actions.iter().zip(0..);
    let tools = actions.map(|(action, index)| {
        let mut tool = tool(&action.name, ToolRef::Action(ActionId(index)));
        if rng.chance(20) {
            tool.order = CallOrder::Exclusive;
        }
        if rng.chance(15) {
            tool.target.effect = CallEffect::Ends;
        }
        tool
    });
    tools.collect()
}

fn script(seed: u64) -> Script {
    Script {
        seed,
        address: RecipientChoice::Often,
        failure_percent: 0,
    }
}

/// Returns how the faults of a disturbed run differ from those of a calm one: attempts are lost,
/// never results.
const DISTURBED: FaultSchedule = FaultSchedule {
    kills: 8,
    stops: 5,
    mail: 0,
    resumes: 40,
    change: ResumeChange::ComponentsAndCalls,
};

#[test]
fn random_teams_have_roles_that_call_roles_that_call_roles() {
    let mut runner = TestRunner::deterministic();
    let mut deepest = 0;
    for seed in 0..40 {
        let team = steady_team().new_tree(&mut runner).expect("a team");
        let team = with_tools(team.current(), seed);
        let run = SimulatedRun::complete(&team, script(seed), DISTURBED, seed);
        for event in &run.log {
            if let Event::Attempt(call, AttemptEvent::CallFinished(_)) = event {
                deepest = deepest.max(call.via.calls().len());
            }
        }
    }
    assert!(deepest >= 2, "{deepest}");
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn with_tools_a_replayed_run_is_the_run(team in steady_team(), seed: u64, order: u64) {
        let team = with_tools(team, seed);
        let script = Script { failure_percent: 25, ..script(seed) };
        let run = SimulatedRun::complete(&team, script, DISTURBED, order);
        let mut stepper = Stepper::new(run.team().clone(), Environment::new(run.team()));
        for (event, state) in run.log.iter().zip(&run.states) {
            stepper.apply(event).expect("what was recorded can be read back");
            prop_assert_eq!(stepper.env(), state);
        }
        let saved = validate(run.env().clone());
        prop_assert_eq!(saved.as_ref(), Ok(run.env()));
    }

    #[test]
    fn with_tools_a_disturbed_run_in_another_order_ends_as_the_undisturbed_one(
        team in steady_team(), seed: u64, order: u64, parallel in 1..5_usize,
    ) {
        let mut team = with_tools(team, seed);
        let calm = SimulatedRun::complete(&team, script(seed), FaultSchedule::default(), 0);
        team.policy.max_parallel = parallel;
        let rough = SimulatedRun::complete(&team, script(seed), DISTURBED, order);
        prop_assert_eq!(calm.env().status, rough.env().status);
        prop_assert_eq!(state_view(calm.env()), state_view(rough.env()));
    }

    #[test]
    fn with_tools_no_turn_and_no_call_is_finished_twice(team in steady_team(), seed: u64, order: u64) {
        let team = with_tools(team, seed);
        let script = Script { failure_percent: 25, ..script(seed) };
        let run = SimulatedRun::complete(&team, script, DISTURBED, order);
        let mut step = 0;
        let mut finished = std::collections::BTreeSet::new();
        for event in &run.log {
            match event {
                Event::StepStarted(started) => step = started.step,
                // A turn whose conversation is replaced first is requested afterwards.
                Event::Attempt(_, AttemptEvent::CallFinished(finished)) if matches!(finished.result, CallResult::SummaryDue(_) | CallResult::Replaced(_)) => {}
                Event::Attempt(call, AttemptEvent::CallFinished(_)) if matches!(call.work, Work::Turn { .. } | Work::ToolCall { .. }) => {
                    prop_assert!(finished.insert((step, *call)), "{call:?} finished twice in step {step}");
                }
                _ => {}
            }
        }
    }
}
