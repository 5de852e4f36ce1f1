//! Requests to humans: a role that waits does so for as long as necessary, does not hold up others,
//! and continues where it asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use strata_core::machine::stepper::{Stepper, may_have_had_request};
use strata_core::record::event::{
    AttemptEvent, ComponentChanged, Event, RequestAnswered, RequestOpened, RunEnded, Status,
};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::{CallPolicy, HostCallKind};
use strata_core::record::human_request::{HumanAnswer, HumanRequest};
use strata_core::record::id::{ActionId, Digest, RequestId, RoleId, Slot, SlotKind};
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::rules::Thinker;
use strata_core::record::work::{CallKey, CallResult, Work};
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;
use strata_core::team::{OnFault, React, Team};

use crate::forged_events::forgeries;
use crate::lifecycle::{AnswerTiming, FaultSchedule, HumanBehavior, ResumeChange, SimulatedRun};
use crate::manual_run::{ManualRun, says};
use crate::replay::read_back;
use crate::script::{RecipientChoice, Script};
use crate::state_view::state_view;
use crate::teams::{any_team, cases, role, steady_team, team};

const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 3,
    stops: 2,
    mail: 2,
    resumes: 4,
    change: ResumeChange::Everything,
};
const ANSWER_ANY_TIME: HumanBehavior = HumanBehavior {
    asked: 40,
    answer_timing: AnswerTiming::AnyTime,
};
const ANSWER_WHEN_QUIET: HumanBehavior = HumanBehavior {
    asked: 40,
    answer_timing: AnswerTiming::WhenQuiet,
};

/// Makes some of the roles of a team human roles.
fn with_human_roles(mut team: Team, who: u8) -> Team {
    for (i, role) in team
        .roles
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| who >> i & 1 == 1)
    {
        role.react = React::Human;
        role.actions.clear();
        role.watch.insert(format!("l{i}"));
    }
    team
}

fn script(seed: u64) -> Script {
    Script {
        seed,
        address: RecipientChoice::Often,
        failure_percent: 20,
    }
}

/// Returns a run with disturbances in which humans answer at any time.
fn simulate(team: &Team, seed: u64, order: u64) -> SimulatedRun {
    SimulatedRun::complete_with_humans(ANSWER_ANY_TIME, team, script(seed), MANY_FAULTS, order)
}

/// Returns all requests that were ever opened, with their questions.
fn questions_of(run: &SimulatedRun) -> BTreeMap<RequestId, String> {
    let opened = run.log.iter().filter_map(|event| match event {
        Event::Attempt(_, AttemptEvent::RequestOpened(RequestOpened { request })) => {
            Some((request.id.clone(), request.question.clone()))
        }
        _ => None,
    });
    opened.collect()
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn a_run_with_people_is_read_back_from_its_records_and_from_any_snapshot(
        team in any_team(), who: u8, seed: u64, order: u64,
    ) {
        let run = simulate(&with_human_roles(team, who), seed, order);
        let mut stepper = Stepper::new(run.team().clone(), Environment::new(run.team()));
        for (event, state) in run.log.iter().zip(&run.states) {
            stepper.apply(event).expect("what was recorded can be read back");
            prop_assert_eq!(stepper.env(), state);
        }
        prop_assert_eq!(&read_back(run.env()), run.env());
    }

    #[test]
    fn a_disturbed_run_with_people_ends_as_the_undisturbed_one_whoever_answers_first(
        team in steady_team(), who: u8, seed: u64, order: u64,
    ) {
        let team = with_human_roles(team, who);
        let script = Script { failure_percent: 0, ..script(seed) };
        let undisturbed = SimulatedRun::complete_with_humans(ANSWER_WHEN_QUIET, &team, script, FaultSchedule::default(), 0);
        let faults = FaultSchedule { kills: 4, stops: 3, mail: 0, resumes: 400, change: ResumeChange::Nothing };
        let disturbed = SimulatedRun::complete_with_humans(ANSWER_WHEN_QUIET, &team, script, faults, order);
        prop_assert_eq!(undisturbed.env().status, disturbed.env().status);
        prop_assert_eq!(state_view(undisturbed.env()), state_view(disturbed.env()));
        prop_assert_eq!(questions_of(&undisturbed), questions_of(&disturbed));
    }

    #[test]
    fn it_waits_only_when_nobody_else_can_go_on_and_is_never_done_while_somebody_waits(
        team in any_team(), who: u8, seed: u64, order: u64,
    ) {
        let run = simulate(&with_human_roles(team, who), seed, order);
        for (event, state) in run.log.iter().zip(&run.states) {
            let waits = state.open_requests().next().is_some();
            match event {
                Event::RunEnded(RunEnded { status: Status::Waiting, .. }) => {
                    prop_assert!(waits && state.failed_calls(run.team()).next().is_none());
                    let idle = |phase: &Phase| matches!(phase, Phase::WaitingForHuman(_));
                    prop_assert!(state.activations().all(|(_, activation)| idle(&activation.phase)));
                    let mail = |role: &strata_core::state::environment::RoleState| !role.mailbox.is_empty();
                    prop_assert!(!state.roles.iter().any(|role| role.activation.is_none() && mail(role)));
                }
                Event::RunEnded(RunEnded { status: Status::Done, .. }) => prop_assert!(!waits),
                _ => {}
            }
        }
    }

    #[test]
    fn an_attempt_that_asked_is_followed_by_one_that_has_the_answer(
        team in any_team(), who: u8, seed: u64, order: u64,
    ) {
        let run = simulate(&with_human_roles(team, who), seed, order);
        let mut calls = run.calls.iter().peekable();
        let mut answered: BTreeMap<RoleId, &HumanAnswer> = BTreeMap::new();
        for (at, event) in run.log.iter().enumerate() {
            if let Some((_, call)) = calls.next_if(|(start, _)| *start == at) {
                let before = run.states[at - 1].role(call.role).activation.as_ref().expect("an activation");
                prop_assert!(before.phase.is_ready());
                if let Some(answer) = answered.remove(&call.role) {
                    let last = call.recorded_calls.last().expect("a record");
                    prop_assert_eq!((last.kind, &last.response), (HostCallKind::Human, &answer.to_record()));
                }
            }
            match event {
                Event::Attempt(CallKey { role, .. }, AttemptEvent::RequestAnswered(RequestAnswered { answer, .. })) => drop(answered.insert(*role, answer)),
                Event::StepCommitted(_) => {
                    answered.retain(|role, _| run.states[at].role(*role).activation.is_some());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn open_requests_have_names_of_their_own(team in any_team(), who: u8, seed: u64, order: u64) {
        let run = simulate(&with_human_roles(team, who), seed, order);
        for state in &run.states {
            let ids: Vec<_> = state.open_requests().map(|(_, request)| &request.id).collect();
            prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        }
    }

    #[test]
    fn what_is_asked_and_answered_did_not_happen_otherwise_or_twice(
        team in any_team(), who: u8, seed: u64, order: u64,
    ) {
        let run = simulate(&with_human_roles(team, who), seed, order);
        for (at, event) in run.log.iter().enumerate() {
            if !matches!(event, Event::Attempt(_, AttemptEvent::RequestOpened(_)) | Event::Attempt(_, AttemptEvent::RequestAnswered(_))) {
                continue;
            }
            let mut after = Stepper::new(run.team().clone(), run.states[at].clone());
            prop_assert!(after.apply(event).is_err(), "{:?}", event);
            for forged in forgeries(event) {
                let mut before = Stepper::new(run.team().clone(), run.states[at - 1].clone());
                prop_assert!(before.apply(&forged).is_err(), "{:?}", forged);
                prop_assert_eq!(before.env(), &run.states[at - 1]);
            }
        }
    }
}

pub fn json(value: impl Into<serde_json::Value>) -> Json {
    Json::from(value.into())
}

impl ManualRun {
    /// Lets a running call ask a human; `before` is how often it asked before.
    pub fn ask_human(&mut self, role: u16, before: u32, default: Option<Json>) -> RequestId {
        self.ask_question(role, before, default, "how many?")
    }

    /// Does the same with another question.
    pub fn ask_question(
        &mut self,
        role: u16,
        before: u32,
        default: Option<Json>,
        question: &str,
    ) -> RequestId {
        let call = self.open_call(RoleId(role));
        let id = self
            .stepper
            .first_request_id(call, before)
            .expect("a running call");
        let (schema, choices, expires_ms) = (None, Vec::new(), default.as_ref().map(|_| 5_000));
        let request = HumanRequest {
            id,
            question: question.into(),
            schema,
            choices,
            default,
            expires_ms,
            proposed: None,
            asked_by: None,
        };
        let event = self
            .stepper
            .request_opened_event(call, request)
            .expect("a running call");
        self.record(event);
        self.open_request(RoleId(role))
    }

    pub fn reply(&mut self, role: u16, answer: HumanAnswer) {
        let event = self
            .stepper
            .request_answered_event(&self.open_request(RoleId(role)), answer, None)
            .expect("an open request");
        self.record(event);
    }
}

pub fn one() -> Team {
    team(vec![
        role("A", &[IDEA_LABEL], &["x", "y"]),
        role("B", &["y"], &["b"]),
    ])
}

#[test]
fn an_answer_leads_on_from_where_it_was_asked_whatever_the_policy() {
    for policy in [CallPolicy::Auto, CallPolicy::Reuse, CallPolicy::Fresh] {
        let mut run = ManualRun::start(one());
        run.act(Ok(says("x ok")));
        let call = run.call();
        run.ask(&call, "q", 5);
        let first = run.ask_human(0, 0, None);
        assert_eq!(
            (run.halt(), first.0.as_str()),
            (Status::Waiting, "ask-0-0-1-0")
        );
        assert!(
            run.env().is_step_open,
            "the step goes on when the answer is there"
        );
        run.resume(one(), policy);
        assert_eq!(run.halt(), Status::Waiting);
        run.reply(0, HumanAnswer::Given(json(7)));
        run.resume(one(), policy);
        let call = run.call();
        assert_eq!((call.attempt, call.recorded_calls.len()), (2, 2));
        assert_eq!(
            HumanAnswer::from_record(&call.recorded_calls[1].response),
            Some(HumanAnswer::Given(json(7)))
        );
        assert_eq!(run.ask_human(0, 1, None).0, "ask-0-0-1-1");
        run.reply(0, HumanAnswer::Given(json(8)));
        let call = run.call();
        assert_eq!((call.attempt, call.recorded_calls.len()), (3, 3));
        run.end(call.role, Ok(says("y ok")));
        assert_eq!(run.act(Ok(says("b ok"))).idempotency_key, "run/1/B/0");
        assert_eq!(run.halt(), Status::Done);
        assert_eq!(run.history(), ["idea", "y ok", "b ok"]);
    }
}

#[test]
fn a_question_without_an_answer_in_time_has_its_default_or_none() {
    let mut run = ManualRun::start(one());
    run.call();
    run.ask_human(0, 0, Some(json(9)));
    let (_, request) = run.env().open_requests().next().expect("a request");
    assert_eq!(
        (request.is_expired(4_999), request.is_expired(5_000)),
        (false, true)
    );
    let other = run
        .stepper
        .request_answered_event(&run.open_request(RoleId(0)), HumanAnswer::Expired, None)
        .expect("an event");
    assert!(
        run.stepper.clone().apply(&other).is_err(),
        "it has a default"
    );
    run.reply(0, request.outcome_when_expired());
    assert_eq!(
        run.call().recorded_calls[0].response,
        json(serde_json::json!({ "by": "default", "value": 9 }))
    );
    run.ask_human(0, 1, None);
    run.reply(0, HumanAnswer::Expired);
    assert_eq!(
        run.call().recorded_calls[1].response,
        json(serde_json::json!({ "by": "nobody" }))
    );
}

#[test]
fn another_component_takes_back_what_the_old_one_asked() {
    let mut run = ManualRun::start(one());
    run.call();
    run.ask_human(0, 0, None);
    assert_eq!(run.halt(), Status::Waiting);
    run.resume(one(), CallPolicy::Auto);
    let change = |part| {
        Event::ComponentChanged(ComponentChanged {
            slot: Slot {
                role: RoleId(0),
                kind: part,
            },
            old: Some(Digest::from("build 0")),
            new: Digest::from("build 1"),
        })
    };
    run.record(change(SlotKind::Action(ActionId(1))));
    assert_eq!(run.halt(), Status::Waiting);
    run.resume(one(), CallPolicy::Auto);
    run.record(change(SlotKind::Action(ActionId(0))));
    assert_eq!(run.env().open_requests().count(), 0);
    assert_eq!(run.act(Ok(says("x ok"))).attempt, 2);
}

#[test]
fn who_waits_holds_nobody_up_and_a_fault_outweighs_a_question() {
    let mut team = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
        role("C", &["b"], &["c"]),
    ]);
    team.policy.on_fault = OnFault::Park;
    let mut run = ManualRun::start(team.clone());
    run.call();
    run.ask_human(0, 0, None);
    run.act(Ok(says("b ok")));
    let c = run.act(Err(Fault::new(FaultKind::Trap, "boom")));
    assert_eq!((c.role, run.halt()), (RoleId(2), Status::Failed));
    run.resume(team.clone(), CallPolicy::Auto);
    run.act(Ok(says("c ok")));
    assert_eq!(
        (run.halt(), run.env().is_step_open),
        (Status::Waiting, false)
    );
    run.resume(team, CallPolicy::Auto);
    run.reply(0, HumanAnswer::Given(json(1)));
    assert_eq!(run.act(Ok(says("a ok"))).attempt, 2);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "b ok", "c ok", "a ok"]);
}

#[test]
fn mail_from_outside_is_handled_while_somebody_waits() {
    let mut run = ManualRun::start(one());
    run.call();
    run.ask_human(0, 0, None);
    assert_eq!(run.halt(), Status::Waiting);
    run.record(
        run.stepper
            .message_sent_event(crate::manual_run::mail("by the way", "y", &[])),
    );
    run.resume(one(), CallPolicy::Auto);
    assert_eq!(run.act(Ok(says("b ok"))).role, RoleId(1));
    assert_eq!(
        (run.halt(), run.env().open_requests().count()),
        (Status::Waiting, 1)
    );
}

#[test]
fn a_human_role_asks_about_its_mail_and_publishes_the_answer_under_its_name() {
    let mut boss = role("Boss", &["a", "b"], &[]);
    boss.react = React::Human;
    let team = || {
        team(vec![
            role("A", &[IDEA_LABEL], &["a"]),
            role("B", &[IDEA_LABEL], &["b"]),
            boss.clone(),
            role("C", &["Boss"], &["c"]),
        ])
    };
    let mut run = ManualRun::start(team());
    run.act(Ok(says("a ok")));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Waiting);
    let (id, request) = run.env().open_requests().next().expect("a request");
    assert_eq!(
        (id, request.id.0.as_str(), request.question.as_str()),
        (RoleId(2), "ask-1-2-0-0", "A: a ok\nB: b ok")
    );
    assert!(
        run.stepper
            .request_answered_event(&request.id, HumanAnswer::Expired, None)
            .is_none(),
        "a person speaks for themselves"
    );
    run.resume(team(), CallPolicy::Fresh);
    assert_eq!(run.halt(), Status::Waiting);
    run.reply(
        2,
        HumanAnswer::Given(json(serde_json::json!({ "approved": true }))),
    );
    run.resume(team(), CallPolicy::Fresh);
    let news = run.act(Ok(says("c ok"))).news;
    assert_eq!(
        (news[0].content.as_str(), news[0].cause_by.as_str()),
        (r#"{"approved":true}"#, "Boss")
    );
    assert_eq!(
        news[0].instruct.as_ref().map(|data| data.value.as_str()),
        Some(r#"{"approved":true}"#)
    );
    assert_eq!((run.halt(), news[0].id.0.as_str()), (Status::Done, "1-2-0"));
    assert_eq!(run.env().roles[2].memory.len(), 3);
}

#[test]
fn a_question_that_a_lower_limit_makes_idle_is_taken_back() {
    let chooser = |max_loop| {
        let mut chooser = role("C", &[IDEA_LABEL], &["x"]);
        chooser.react = React::Choose {
            max_loop,
            thinker: Thinker::Component,
        };
        team(vec![chooser])
    };
    let mut run = ManualRun::start(chooser(2));
    run.act(Ok(CallResult::Chosen(0)));
    run.act(Ok(says("x ok")));
    assert!(matches!(run.call().work, Work::Think { round: 1 }));
    run.ask_human(0, 0, None);
    run.resume(chooser(1), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "x ok"]);
}

#[test]
fn whether_a_person_plays_a_role_is_part_of_the_shape() {
    let mut human = one();
    human.roles[1].react = React::Human;
    human.roles[1].actions.clear();
    let (agent, human) = (
        Stepper::new(Arc::new(one()), Environment::new(&one())),
        Environment::new(&human),
    );
    let differences = agent.env().shape.differences(&human.shape);
    assert!(
        differences.contains(&"react of `B` is human, saved by_order".to_owned()),
        "{differences:?}"
    );
}

#[test]
fn an_answer_is_served_to_the_attempt_that_waited_for_it_and_not_for_ever() {
    for policy in [CallPolicy::Auto, CallPolicy::Fresh] {
        let mut run = ManualRun::start(one());
        run.call();
        run.ask_human(0, 0, None);
        run.reply(0, HumanAnswer::Given(json(7)));
        assert_eq!(
            run.act(Err(Fault::new(FaultKind::Trap, "unreachable")))
                .recorded_calls
                .len(),
            1
        );
        run.resume(one(), policy);
        let again = run.call();
        assert_eq!(
            (again.attempt, again.recorded_calls.len()),
            (3, 0),
            "{policy:?}: the same answer would only repeat it"
        );
    }
}

#[test]
fn a_person_is_asked_before_the_calls_of_the_step_are_made() {
    let mut boss = role("Boss", &[IDEA_LABEL], &[]);
    boss.react = React::Human;
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["a"]), boss]));
    assert_eq!(run.call().role, RoleId(0));
    assert_eq!(
        run.env().open_requests().count(),
        1,
        "they can think about it meanwhile"
    );
}

#[test]
fn a_choice_and_the_action_it_leads_to_ask_under_names_of_their_own() {
    let mut chooser = role("C", &[IDEA_LABEL], &["x"]);
    chooser.react = React::Choose {
        max_loop: 2,
        thinker: Thinker::Component,
    };
    let mut run = ManualRun::start(team(vec![chooser]));
    let mut names = Vec::new();
    for result in [
        CallResult::Chosen(0),
        says("x ok"),
        CallResult::Chosen(0),
        says("x again"),
    ] {
        run.call();
        names.push(run.ask_human(0, 0, None).0);
        run.reply(0, HumanAnswer::Given(json(7)));
        run.act(Ok(result));
    }
    assert_eq!(
        names,
        ["ask-0-0-0-0", "ask-0-0-1-0", "ask-0-0-2-0", "ask-0-0-3-0"]
    );
}

#[test]
fn a_request_may_have_been_asked_in_a_step_and_by_a_role_that_there_are() {
    let mut run = ManualRun::start(one());
    run.call();
    let id = run.ask_human(0, 0, None);
    run.reply(0, HumanAnswer::Given(json(7)));
    let may = |id: &str| may_have_had_request(run.env(), id);
    assert!(may(&id.0), "it was, in this very step");
    assert!(may("ask-0-1-0-0"));
    assert!(may("ask-0-1-0-0-0"), "of a tool call");
    assert!(may("ask-0-1-0-0-0-0"), "of a call that code made");
    for other in [
        "ask-1-0-0-0",
        "ask-0-2-0-0",
        "ask-0-0-0",
        "ask-1-0-0-0-0-0",
        "ask-0-0-x-0",
        "0-0-0-0",
        "ask-",
        "",
    ] {
        assert!(!may(other), "{other}");
    }
}
