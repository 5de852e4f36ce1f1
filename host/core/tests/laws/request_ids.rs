//! The id of a request belongs to one question, in all attempts and lineages.

use strata_core::record::event::{Event, Status};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::message::IDEA_LABEL;
use strata_core::team::React;

use crate::human_requests::{json, one};
use crate::manual_run::ManualRun;
use crate::teams::{role, team};

#[test]
fn the_id_of_a_request_belongs_to_one_question() {
    let mut run = ManualRun::start(one());
    run.call();
    let first = run.ask_question(0, 0, Some(json("no")), "may I say hello?");
    run.reply(0, HumanAnswer::Default(json("no")));
    // The attempt that follows asks something else in the same place, then the same again.
    for (question, expected) in [
        ("may I delete everything?", "ask-0-0-0-0-r1"),
        ("may I say hello?", "ask-0-0-0-0"),
        ("may I go?", "ask-0-0-0-0-r2"),
    ] {
        run.call();
        let id = run.ask_question(0, 0, None, question);
        assert_eq!(id.0, expected, "{question}");
        if id != first {
            let answer = HumanAnswer::Given(json("yes"));
            let answered = run.stepper.request_answered_event(&first, answer, None);
            assert_eq!(answered, None, "{question}");
        }
        run.reply(0, HumanAnswer::Given(json("yes")));
    }
    let call = run.call();
    assert_eq!(call.recorded_calls.len(), 4);
}

#[test]
fn a_lineage_uses_no_id_for_another_question_than_the_lineages_before_it() {
    let mut run = ManualRun::start(one());
    run.call();
    let before = run.stepper.clone();
    let asked = run.ask_question(0, 0, None, "may I say hello?");
    run.record(run.stepper.run_ended_event(Status::Waiting));
    let left = run.env().questions.clone();
    let account = before.env().account();
    let fork = before.forked_event("main.1".into(), Vec::new(), account);
    let Some(Event::Forked(mut forked)) = fork else {
        panic!("a fork")
    };
    forked.questions = left;
    run.stepper = before;
    run.record(Event::Forked(forked));
    assert_eq!(
        run.ask_question(0, 0, None, "may I delete everything?").0,
        format!("{asked}-r1")
    );
}

#[test]
fn a_human_is_asked_again_if_the_answer_needs_another_form() {
    let with_choices = |choices: &[&str]| {
        let mut boss = role("Boss", &[IDEA_LABEL], &[]);
        boss.react = React::Human;
        boss.answer_form.choices = choices.iter().map(|choice| (*choice).into()).collect();
        team(vec![boss])
    };
    let mut run = ManualRun::start(with_choices(&["yes", "no"]));
    assert_eq!(run.halt(), Status::Waiting);
    let open = |run: &ManualRun| {
        let (_, request) = run.env().open_requests().next().expect("a request");
        (request.id.0.clone(), request.choices.clone())
    };
    let first = open(&run);
    assert_eq!(
        (&*first.0, &*first.1),
        ("ask-0-0-0-0", &["yes".into(), "no".into()][..])
    );
    run.resume(with_choices(&["yes", "no"]), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Waiting);
    assert_eq!(open(&run), first);
    run.resume(with_choices(&["go"]), CallPolicy::Auto);
    assert_eq!(run.halt(), Status::Waiting);
    assert_eq!(open(&run), ("ask-0-0-0-0-r1".into(), vec!["go".into()]));
}
