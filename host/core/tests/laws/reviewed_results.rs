//! Examples of guards that see what roles answer that are called as tools: the call ends with an attempt of
//! its own, after the role is done.

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::record::event::Status;
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::Work;
use strata_core::team::{React, Team};

use crate::manual_run::{ManualRun, says};
use crate::nested_calls::nest_role;
use crate::role_calls::{assistant, calls};
use crate::teams::role;
use crate::tool_roles::{self, analyst, answers, tool};

const B: RoleId = RoleId(1);

/// Returns the team in which `A` calls `B`, with a guard of `A`.
fn guarded() -> Team {
    let mut team = assistant();
    if let React::Tools(tools) = &mut team.roles[0].react {
        tools.reviews_results = true;
    }
    team
}

/// Starts a run in which `B` has answered one call, and starts the attempt that the guard works for.
fn answered() -> (ManualRun, Invocation) {
    let mut run = ManualRun::start(guarded());
    run.turn(|_| calls(&[(B, "please")]));
    for text in ["x ok", "y ok"] {
        run.act(Ok(says(text)));
    }
    let review = run.call();
    (run, review)
}

fn is_of_role(call: &Invocation) -> bool {
    matches!(
        call.work,
        Work::ToolCall {
            tool: ToolRef::Role(B),
            ..
        }
    )
}

#[test]
fn a_guard_sees_what_a_role_answered_before_the_caller_is_told() {
    let (mut run, review) = answered();
    assert!(is_of_role(&review), "{review:?}");
    assert_eq!(
        (review.attempt, &*review.idempotency_key),
        (2, "run/0/A/0/0")
    );
    let answer = run.stepper.role_result(review.key()).expect("an answer");
    assert_eq!(answer.content, "y ok");
    assert_eq!(run.go(), Effect::Wait);
    run.end_call(&review, Ok(says("y seen")));
    run.turn(|run| {
        assert_eq!(run.results(), ["y seen"]);
        answers("done")
    });
    run.act(Ok(says("c ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.memory_of(B), ["please", "x ok", "y ok"]);
}

#[test]
fn a_kill_or_a_fault_of_the_guard_repeats_nothing_but_the_guard() {
    let (mut run, _) = answered();
    run.resume(guarded(), CallPolicy::Auto);
    let again = run.call();
    assert!(is_of_role(&again) && again.attempt == 3, "{again:?}");
    run.end_call(&again, Err(Fault::new(FaultKind::Host, "no answer")));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(guarded(), CallPolicy::Auto);
    let third = run.call();
    assert!(is_of_role(&third) && third.attempt == 4, "{third:?}");
    run.end_call(&third, Ok(says("y seen")));
    let turn = run.turn(|_| answers("done"));
    assert_eq!(turn.work, Work::Turn { turn: 1 });
}

#[test]
fn a_result_that_waits_for_a_guard_is_told_as_it_is_if_the_guard_is_removed() {
    let (mut run, _) = answered();
    run.resume(assistant(), CallPolicy::Auto);
    let again = run.call();
    assert!(is_of_role(&again), "{again:?}");
    run.end_call(&again, Ok(says("y ok")));
    run.turn(|run| {
        assert_eq!(run.results(), ["y ok"]);
        answers("done")
    });
}

#[test]
fn a_role_works_on_the_next_call_while_a_guard_sees_its_answer() {
    let mut run = ManualRun::start(guarded());
    run.turn(|_| calls(&[(B, "one"), (B, "two")]));
    for text in ["x ok", "y ok"] {
        run.act(Ok(says(text)));
    }
    let both = [run.call(), run.call()];
    let reviews = both.iter().filter(|call| is_of_role(call)).count();
    assert_eq!(reviews, 1, "{both:?}");
    assert!(both.iter().any(|call| call.role == B), "{both:?}");
}

/// Returns a team in which the code of `x` can call `B`, who is a human, with a guard.
fn asking() -> Team {
    let mut team = analyst(|tools| {
        tools.reviews_results = true;
        tools.tools.push(tool("B", ToolRef::Role(B)));
    });
    team.roles[1] = role("B", &[], &[]);
    team.roles[1].react = React::Human;
    team
}

#[test]
fn code_that_waits_for_a_role_goes_on_once_a_guard_has_seen_the_answer() {
    let mut run = ManualRun::start(asking());
    run.turn(|run| tool_roles::calls(run, &["x"]));
    let outer = run.call();
    nest_role(&mut run, outer.key(), "B", B);
    assert_eq!(run.halt(), Status::Waiting);
    let request = run.open_request(B);
    let yes = HumanAnswer::Given(Json::parse("\"yes\"").expect("JSON"));
    let event = run.stepper.request_answered_event(&request, yes, None);
    run.record(event.expect("an open request"));
    run.resume(asking(), CallPolicy::Auto);
    let outer = run.call();
    let is_outer = |call: &Invocation| matches!(call.work, Work::ToolCall { tool: ToolRef::Action(ActionId(0)), nested, .. } if nested.is_empty());
    assert!(is_outer(&outer), "{outer:?}");
    nest_role(&mut run, outer.key(), "B", B);
    let review = run.call();
    assert!(is_of_role(&review), "{review:?}");
    run.end_call(&review, Ok(says("seen")));
    run.end_call(&outer, Ok(says("code ok")));
    run.turn(|_| answers("done"));
    assert_eq!(run.halt(), Status::Done);
}
