//! What people are said to have decided in a state that somebody else wrote does not count.

use std::sync::Arc;

use strata_core::machine::stepper::{Stepper, derive_requests};
use strata_core::record::event::{ConsentWithdrawn, Event, Status};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;
use strata_core::state::activation::{Consent, Phase};
use strata_core::state::environment::Environment;
use strata_core::team::{React, Team};

use crate::manual_run::ManualRun;
use crate::teams::{role, team};
use crate::tool_roles::{analyst, calls};

fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

impl ManualRun {
    /// Takes the state over from somebody else.
    fn withdraw_consent(&mut self) {
        self.record(Event::ConsentWithdrawn(ConsentWithdrawn {}));
    }
}

#[test]
fn a_call_that_somebody_approved_elsewhere_is_not_approved() {
    let mut run = ManualRun::start(analyst(|_| {}));
    run.turn(|run| calls(run, &["x?"]));
    assert_eq!(run.halt(), Status::Waiting);
    let answer = json(r#"{"approve":true,"arguments":{"n":7}}"#);
    run.reply(0, HumanAnswer::Given(answer));
    let call = |run: &ManualRun| {
        let (_, open) = run.env().activations().next().expect("an activation");
        open.turns[0].calls[0].clone()
    };
    assert_eq!(call(&run).consent, Consent::Given);
    run.withdraw_consent();
    let withdrawn = call(&run);
    assert_eq!(withdrawn.consent, Consent::NotNeeded);
    assert_eq!(
        (withdrawn.edited_arguments, withdrawn.decided_by),
        (None, None)
    );
}

#[test]
fn an_answer_that_was_given_elsewhere_is_not_served() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["x"])]));
    run.call();
    run.ask_human(0, 0, None);
    run.reply(0, HumanAnswer::Given(json("7")));
    run.withdraw_consent();
    assert!(run.call().recorded_calls.is_empty());
    run.ask_human(0, 0, Some(json("9")));
    run.withdraw_consent();
    let (_, request) = run.env().open_requests().next().expect("it stays open");
    assert_eq!((&request.default, request.expires_ms), (&None, None));
}

#[test]
fn a_human_role_answers_again_what_was_not_committed() {
    let mut boss = role("Boss", &[IDEA_LABEL], &[]);
    boss.react = React::Human;
    let other = role("A", &[IDEA_LABEL], &["x"]);
    let mut run = ManualRun::start(team(vec![boss, other]));
    run.call();
    run.reply(0, HumanAnswer::Given(json("true")));
    assert_eq!(run.env().open_requests().count(), 0);
    run.withdraw_consent();
    run.end(RoleId(1), Ok(crate::manual_run::says("x ok")));
    assert_eq!(run.halt(), Status::Waiting);
    assert_eq!(run.open_request(RoleId(0)).0, "ask-0-0-0-0");
}

/// Returns a state in which the call of a tool, or a human role, waits for a person.
fn waiting(team: Team) -> (Arc<Team>, Environment) {
    let tools = matches!(team.roles[0].react, React::Tools(_));
    let mut run = ManualRun::start(team);
    if tools {
        run.turn(|run| calls(run, &["x?"]));
    }
    assert_eq!(run.halt(), Status::Waiting);
    (run.stepper.team().clone(), run.env().clone())
}

/// Changes the open request of a state, and returns what a person is asked then.
fn asked_after(
    team: &Team,
    mut env: Environment,
    change: fn(&mut strata_core::record::human_request::HumanRequest),
) -> Option<strata_core::record::human_request::HumanRequest> {
    let activation = env.roles[0].activation.as_mut().expect("an activation");
    let mut turns = activation.turns.to_vec();
    let phase = match turns.first_mut() {
        Some(turn) => &mut turn.calls[0].phase,
        None => &mut activation.phase,
    };
    let Phase::WaitingForHuman(request) = phase else {
        panic!("it waits")
    };
    change(request);
    if !turns.is_empty() {
        activation.turns = turns.into();
    }
    derive_requests(team, &mut env);
    let asked = env.open_requests().next();
    asked.map(|(_, request)| request.clone())
}

#[test]
fn what_a_person_is_asked_follows_from_what_will_be_done() {
    let mut boss = role("Boss", &[IDEA_LABEL], &[]);
    boss.react = React::Human;
    for (team, env) in [waiting(analyst(|_| {})), waiting(team(vec![boss]))] {
        let (_, before) = env.open_requests().next().expect("a request");
        let asked = asked_after(&team, env.clone(), |request| {
            request.question = "may I say hello?".into();
            request.id = "ask-7".into();
            if let Some(call) = &mut request.proposed {
                call.arguments = Json::null();
                call.tool = "other".into();
            }
        });
        assert_eq!(asked.as_ref(), Some(before));
        // The state is one that the stepper accepts.
        Stepper::new(team, env);
    }
}

#[test]
fn a_request_that_cannot_be_of_its_call_is_withdrawn() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["x"])]));
    run.call();
    run.ask_human(0, 0, None);
    let (team, env) = (run.stepper.team().clone(), run.env().clone());
    let same = asked_after(&team, env.clone(), |_| {});
    assert_eq!(same.map(|request| request.id.0), Some("ask-0-0-0-0".into()));
    let other = asked_after(&team, env.clone(), |request| request.question.push('?'));
    assert_eq!(
        other.map(|request| request.id.0),
        Some("ask-0-0-0-0-r1".into())
    );
    assert_eq!(
        asked_after(&team, env, |request| request.id = "ask-0-1-0-0".into()),
        None
    );
}
