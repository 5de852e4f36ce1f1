//! Limits of use: calls beyond `max_calls` of a tool, and a model that repeats itself.

use strata_core::machine::effect::Effect;
use strata_core::record::conversation::{AssistantPart, ToolCall};
use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::fault::{FaultHandling, FaultKind};
use strata_core::record::id::ActionId;
use strata_core::record::turn::{
    CallDecision, CallEffect, CallForm, CallPlan, CallTarget, ToolRef, TurnOutcome,
};
use strata_core::record::work::{CallResult, Work};
use strata_core::state::activation::ToolOutcome;

use crate::manual_run::{ManualRun, says};
use crate::tool_roles::{analyst, answers, replied};

const NAMES: [&str; 3] = ["x", "y", "z"];

/// Returns a reply that calls these actions, each with a number as its argument.
fn calls(requests: &[(&str, u32)]) -> CallResult {
    let (mut message, mut plans) = (Vec::new(), Vec::new());
    for (name, argument) in requests {
        message.push(AssistantPart::ToolCall(ToolCall {
            id: String::new(),
            name: (*name).into(),
            arguments: format!("{{ \"n\": {argument} }}"),
        }));
        let index = NAMES.iter().position(|known| known == name);
        plans.push(CallPlan {
            id: String::new(),
            tool: (*name).into(),
            form: CallForm::Direct,
            decision: CallDecision::Make(CallTarget {
                tool: ToolRef::Action(ActionId(index.expect("an action") as u16)),
                effect: CallEffect::Continues,
            }),
        });
    }
    replied(message, TurnOutcome::Calls(plans))
}

/// Ends the next turn with a reply that calls these actions, and makes the calls, which all return the
/// same. Returns for each whether it was made.
fn turn(run: &mut ManualRun, requests: &[(&str, u32)], result: &str) -> Vec<bool> {
    run.act(Ok(calls(requests)));
    let newest = |run: &ManualRun| {
        let (_, activation) = run.env().activations().next().expect("an activation");
        let turn = activation.turns.last().expect("a turn").clone();
        let is_rejected =
            |outcome: &Option<ToolOutcome>| matches!(outcome, Some(ToolOutcome::Rejected(_)));
        turn.calls
            .iter()
            .map(|call| !is_rejected(&call.outcome))
            .collect::<Vec<bool>>()
    };
    let are_made = newest(run);
    for _ in are_made.iter().filter(|is_made| **is_made) {
        let call = run.call();
        assert!(matches!(call.work, Work::ToolCall { .. }));
        let ended = run.stepper.call_ended_event(call.key(), Ok(says(result)));
        run.record(ended.expect("a running call"));
    }
    are_made
}

#[test]
fn calls_of_one_tool_are_limited_without_those_of_others() {
    let mut run = ManualRun::start(analyst(|tools| tools.tools[0].max_calls = Some(2)));
    assert_eq!(turn(&mut run, &[("x", 1), ("y", 1)], "ok"), [true, true]);
    let were_made = turn(&mut run, &[("x", 2), ("x", 3), ("y", 2), ("x", 4)], "ok");
    assert_eq!(were_made, [true, false, true, false]);
    assert_eq!(turn(&mut run, &[("x", 5), ("z", 5)], "ok"), [false, true]);
    run.act(Ok(answers("done")));
}

#[test]
fn a_call_that_repeats_itself_is_rejected_and_then_fails_the_next_turn_before_it_is_requested() {
    let mut run = ManualRun::start(analyst(|tools| tools.repeat = Some(3)));
    for _ in 0..3 {
        assert_eq!(turn(&mut run, &[("x", 1)], "same"), [true]);
    }
    assert_eq!(turn(&mut run, &[("x", 1)], "same"), [false]);
    // The reply is kept, and what it asks for after the repeated call is made.
    assert_eq!(turn(&mut run, &[("x", 1), ("y", 1)], "same"), [false, true]);
    let Effect::Record(limit) = run.stepper.next() else {
        panic!("the turn must fail");
    };
    let Event::Attempt(_, AttemptEvent::CallFailed(failed)) = &limit else {
        panic!("the turn must fail: {limit:?}");
    };
    assert_eq!(
        (failed.fault.kind, failed.retry_ms),
        (FaultKind::Turns, None)
    );
    assert_eq!(failed.handling, FaultHandling::Stops);
    run.record(limit);
    assert_eq!(run.halt(), Status::Failed);
}

#[test]
fn only_equal_calls_in_a_row_with_equal_results_count_as_repeated() {
    let mut run = ManualRun::start(analyst(|tools| tools.repeat = Some(2)));
    let mut check = |requests: &[(&str, u32)], result: &str, expected: &[bool]| {
        assert_eq!(turn(&mut run, requests, result), expected, "{requests:?}");
    };
    check(&[("x", 1)], "a", &[true]);
    check(&[("x", 1)], "b", &[true]);
    check(&[("x", 2)], "b", &[true]);
    check(&[("x", 2)], "b", &[true]);
    // A call in between, also of the same reply, ends the row.
    check(&[("y", 2), ("x", 2)], "b", &[true, true]);
    check(&[("x", 2)], "b", &[true]);
    // All further ones of a reply are rejected, because the model was not told yet.
    check(&[("x", 2), ("x", 2)], "b", &[false, false]);
    // Rejected calls are left out of the row, and something else can be called.
    check(&[("z", 2)], "b", &[true]);
    check(&[("x", 2)], "b", &[true]);
    run.act(Ok(answers("done")));
}
