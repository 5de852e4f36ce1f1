//! Small teams whose runs are known in every detail, for each react mode.

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::record::event::{Event, HandOverFailed, HandedOver, RunEnded, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::{ActionId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Hop, IDEA_LABEL, TO_ALL};
use strata_core::record::rules::Thinker;
use strata_core::record::scope_write::{ROLE_SCOPE, ScopeChange, Write};
use strata_core::record::work::{ActivationKey, CallResult, Task, Work};
use strata_core::state::environment::scope::ScopeKey;
use strata_core::team::{ExternalEnvironment, OnFault, React, Team};

use crate::manual_run::{ManualRun, draft, mail, says, writes};
use crate::teams::{edge, role, team};

fn trap() -> Result<CallResult, Fault> {
    Err(Fault::new(FaultKind::Trap, "unreachable"))
}

fn contents(run: &ManualRun, role: u16) -> Vec<String> {
    run.env()
        .recent_memory(ActivationKey::of_mail(RoleId(role)), None, 9)
        .iter()
        .map(|message| message.content.clone())
        .collect()
}

fn news(call: &Invocation) -> Vec<&str> {
    call.news
        .iter()
        .map(|message| message.content.as_str())
        .collect()
}

fn pair() -> Team {
    team(vec![
        role("A", &[IDEA_LABEL], &["p"]),
        role("B", &["p"], &["x", "y"]),
    ])
}

#[test]
fn a_role_resumes_at_its_failed_action_and_remembers_what_it_handled_and_did() {
    let mut run = ManualRun::start(pair());
    run.act(Ok(says("p ok")));
    run.act(Ok(says("x ok")));
    run.act(trap());
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(
        contents(&run, 1),
        ["x ok"],
        "what it is being told is not remembered yet"
    );
    assert_eq!(run.env().unfinished_mail(RoleId(1)).count(), 1);
    run.resume(pair(), CallPolicy::Auto);
    let again = run.act(Ok(says("y ok")));
    assert_eq!((again.attempt, news(&again)), (2, vec!["p ok"]));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(contents(&run, 0), ["idea", "p ok"]);
    assert_eq!(contents(&run, 1), ["p ok", "x ok", "y ok"]);
    assert_eq!(run.history(), ["idea", "p ok", "y ok"]);
}

#[test]
fn memory_is_asked_for_by_number_and_label() {
    let mut run = ManualRun::start(pair());
    run.act(Ok(says("p ok")));
    run.act(Ok(says("x ok")));
    run.act(Ok(says("y ok")));
    let check = |label, limit, expected: &[&str]| {
        let found = run
            .env()
            .recent_memory(ActivationKey::of_mail(RoleId(1)), label, limit);
        assert_eq!(
            found.iter().map(|m| m.content.as_str()).collect::<Vec<_>>(),
            expected,
            "{label:?} {limit}"
        );
    };
    check(None, 2, &["x ok", "y ok"]);
    check(None, 0, &[]);
    check(Some("p"), 9, &[]);
    check(Some("x"), 9, &["x ok"]);
}

#[test]
fn emissions_come_before_the_output_and_earlier_outputs_stay_private() {
    let mut run = ManualRun::start(team(vec![
        role("A", &[IDEA_LABEL], &["p", "q"]),
        role("B", &["memo"], &["b"]),
        role("C", &["p", "q"], &["c"]),
    ]));
    let memo = Draft {
        cause_by: Some("memo".into()),
        ..draft("note", &[])
    };
    run.act(Ok(CallResult::Returned {
        output: draft("p ok", &[]),
        emissions: vec![memo],
        writes: Vec::new(),
    }));
    run.act(Ok(says("q ok")));
    assert_eq!(news(&run.act(Ok(says("b")))), ["note"]);
    assert_eq!(news(&run.act(Ok(says("c")))), ["q ok"]);
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "note", "q ok", "b", "c"]);
}

#[test]
fn choices_are_followed_until_minus_one_or_the_limit() {
    let check = |max_loop, choices: &[i32], acts: &[u16]| {
        let mut chooser = role("C", &[IDEA_LABEL], &["x", "y", "z"]);
        chooser.react = React::Choose {
            max_loop,
            thinker: Thinker::Model,
        };
        let mut run = ManualRun::start(team(vec![chooser]));
        let (mut choices, mut done) = (choices.iter(), Vec::new());
        while !run.env().is_quiet() {
            let Some(call) = run.next_call() else { break };
            match call.work {
                Work::Think { round } => {
                    assert_eq!(
                        (round as usize, call.digest),
                        (done.len(), None),
                        "the host itself thinks"
                    );
                    run.end(
                        call.role,
                        Ok(CallResult::Chosen(
                            *choices.next().expect("one more choice"),
                        )),
                    );
                }
                Work::Act { action, .. } => {
                    done.push(action.0);
                    run.end(call.role, Ok(says("on")));
                }
                other => panic!("nobody does {other:?}"),
            }
        }
        assert_eq!(
            (run.halt(), done.as_slice(), choices.len()),
            (Status::Done, acts, 0)
        );
    };
    check(5, &[1, 0, -1], &[1, 0]);
    check(2, &[1, 0], &[1, 0]);
    check(5, &[-1], &[]);
    check(0, &[], &[]);
}

#[test]
fn a_plan_goes_on_at_its_task() {
    let planner = || {
        let mut planner = role("P", &[IDEA_LABEL], &["plan", "v", "w"]);
        planner.react = React::PlanAndAct;
        team(vec![planner])
    };
    let mut run = ManualRun::start(planner());
    let task = |text: &str, action: Option<&str>| Task {
        text: text.into(),
        action: action.map(String::from),
    };
    let tasks = vec![task("t1", None), task("t2", Some("v")), task("t3", None)];
    let plan = run.act(Ok(CallResult::Planned {
        tasks,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    assert_eq!(plan.work, Work::Plan);
    run.act(Ok(says("t1 ok")));
    run.call();
    // Killed: the running attempt is lost.
    run.resume(planner(), CallPolicy::Auto);
    let second = run.act(Ok(says("t2 ok")));
    let act = |action, task| Work::Act {
        action: ActionId(action),
        task: Some(task),
    };
    assert_eq!((second.work, second.attempt), (act(1, 1), 2));
    assert_eq!(second.task.map(|task| task.text).as_deref(), Some("t2"));
    let third = run.act(Ok(says("t3 ok")));
    assert_eq!(
        (third.work, third.attempt),
        (act(1, 2), 1),
        "the workers take turns"
    );
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "t3 ok"]);
}

#[test]
fn a_write_is_seen_by_its_writer_at_once_by_a_sibling_never_and_by_others_in_the_next_step() {
    let mut team = team(vec![
        role("S", &[IDEA_LABEL], &["s"]),
        role("A", &[], &["a", "a2"]),
        role("B", &[], &["b"]),
        role("C", &[], &["c"]),
    ]);
    team.scopes.insert("s0".into(), None);
    team.routes = vec![edge(0, &["A", "B"]), edge(1, &["C"])];
    let mut run = ManualRun::start(team);
    let number = |n: i64| Some(Some(Json::from(serde_json::Value::from(n))));
    let read = |run: &ManualRun, role, pending: &[Write]| {
        run.env().read_key(
            run.stepper.team(),
            ActivationKey::of_mail(RoleId(role)),
            ScopeKey {
                scope: "s0",
                key: "k",
            },
            None,
            pending,
        )
    };
    run.act(Ok(writes("s ok", &[("k", 5)])));
    run.act(Ok(writes("a ok", &[("k", 1)])));
    assert_eq!(
        (read(&run, 1, &[]), read(&run, 2, &[])),
        (number(1), number(5))
    );
    let pending = Write {
        scope: "s0".into(),
        key: "k".into(),
        change: ScopeChange::Delete,
    };
    assert_eq!(read(&run, 1, std::slice::from_ref(&pending)), Some(None));
    let keys = |pending: &[Write]| {
        run.env().scope_keys(
            run.stepper.team(),
            ActivationKey::of_mail(RoleId(1)),
            "s0",
            pending,
        )
    };
    assert_eq!(
        (keys(&[]), keys(&[pending])),
        (Some(vec!["k".into()]), Some(Vec::new()))
    );
    let read_own = |scope| {
        let at = ScopeKey { scope, key: "k" };
        run.env().read_key(
            run.stepper.team(),
            ActivationKey::of_mail(RoleId(1)),
            at,
            None,
            &[],
        )
    };
    assert_eq!((read_own("none"), read_own(ROLE_SCOPE)), (None, Some(None)));
    run.act(Ok(says("a2 ok")));
    run.act(Ok(says("b ok")));
    run.call();
    assert_eq!(read(&run, 3, &[]), number(1));
}

#[test]
fn hops_travel_with_the_output_past_a_fault() {
    let line = || {
        team(
            ["A", "B", "C", "D"]
                .map(|name| role(name, &[], &["act"]))
                .into(),
        )
    };
    let mut first = line();
    first.roles[0].watch.insert(IDEA_LABEL.into());
    let mut run = ManualRun::start(first.clone());
    let hop = |from: &str, to: &str| Hop {
        from: from.into(),
        to: vec![to.into()],
    };
    let output = Draft {
        route: vec![hop("A", "B"), hop("B", "C"), hop("C", "D")],
        ..draft("a", &[])
    };
    run.act(Ok(CallResult::Returned {
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    assert_eq!(run.act(Ok(says("b"))).role, RoleId(1));
    run.act(trap());
    assert_eq!(run.halt(), Status::Failed);
    run.resume(first, CallPolicy::Auto);
    assert_eq!(run.act(Ok(says("c"))).role, RoleId(2));
    assert_eq!(run.act(Ok(says("d"))).role, RoleId(3));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_parked_fault_lets_the_others_go_on_and_is_mended_in_the_step_in_which_it_is_resumed() {
    let mut parking = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("C", &[IDEA_LABEL], &["c"]),
        role("D", &["c"], &["d"]),
        role("B", &["a"], &["b"]),
    ]);
    parking.policy.on_fault = OnFault::Park;
    let mut run = ManualRun::start(parking.clone());
    run.act(trap());
    run.act(Ok(says("c ok")));
    run.act(Ok(says("d ok")));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(run.history(), ["idea", "c ok", "d ok"]);
    run.resume(parking, CallPolicy::Auto);
    let again = run.act(Ok(says("a ok")));
    assert_eq!(
        (
            again.attempt,
            again.idempotency_key.as_str(),
            run.env().step
        ),
        (2, "run/0/A/0", 2)
    );
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.history(), ["idea", "c ok", "d ok", "a ok", "b ok"]);
}

#[test]
fn what_a_role_wrote_is_seen_in_its_scope_and_in_no_other() {
    let mut team = team(vec![role("A", &[IDEA_LABEL], &["a", "a2"])]);
    team.scopes = ["s0", "s1"].map(|name| (name.into(), None)).into();
    let mut run = ManualRun::start(team);
    let one = || Json::from(serde_json::Value::from(1));
    let own = |key: &str| Write {
        scope: ROLE_SCOPE.into(),
        key: key.into(),
        change: ScopeChange::Set(one()),
    };
    let shared = Write {
        scope: "s0".into(),
        ..own("shared")
    };
    run.act(Ok(CallResult::Returned {
        output: draft("a ok", &[]),
        emissions: Vec::new(),
        writes: vec![own("own"), shared],
    }));
    let check = |scope: &str, expected: &[&str]| {
        let (team, env, pending) = (run.stepper.team(), run.env(), [own("pending")]);
        let keys = env
            .scope_keys(team, ActivationKey::of_mail(RoleId(0)), scope, &pending)
            .expect("a scope");
        assert_eq!(keys, expected, "{scope}");
        for key in ["own", "pending", "shared"] {
            let value = env
                .read_key(
                    team,
                    ActivationKey::of_mail(RoleId(0)),
                    ScopeKey { scope, key },
                    None,
                    &pending,
                )
                .expect("a scope");
            assert_eq!(value, expected.contains(&key).then(one), "{scope} {key}");
        }
    };
    check(ROLE_SCOPE, &["own", "pending"]);
    check("s0", &["shared"]);
    check("s1", &[]);
}

#[test]
fn an_end_makes_a_checkpoint_only_within_a_step() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["a"])]));
    run.call();
    let within = run.stepper.run_ended_event(Status::Interrupted);
    assert!(
        matches!(&within, Event::RunEnded(RunEnded { checkpoint: Some(id), .. }) if *id == run.env().next_checkpoint_id())
    );
    run.end(RoleId(0), Ok(says("a ok")));
    assert_eq!(run.halt(), Status::Done);
    assert!(matches!(
        run.log.last(),
        Some(Event::RunEnded(RunEnded {
            checkpoint: None,
            ..
        }))
    ));
    assert_eq!(run.env().checkpoint_count, 2, "the entry and the step");
}

#[test]
fn a_message_is_named_after_the_step_in_which_its_activation_began() {
    let mut parking = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]);
    parking.policy.on_fault = OnFault::Park;
    let mut run = ManualRun::start(parking.clone());
    run.act(Err(Fault::new(FaultKind::Trap, "unreachable")));
    run.act(Ok(says("b ok")));
    assert_eq!(run.halt(), Status::Failed);
    run.resume(parking, CallPolicy::Auto);
    run.act(Ok(says("a ok")));
    assert_eq!((run.halt(), run.env().step), (Status::Done, 2));
    let ids: Vec<_> = run
        .env()
        .history
        .iter()
        .map(|id| run.env().message(*id).id.0.as_str())
        .collect();
    assert_eq!(ids, ["idea", "0-1-0", "0-0-0"]);
}

#[test]
fn a_role_knows_the_newest_message_that_it_took() {
    let mut run = ManualRun::start(team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
        role("C", &["a", "b"], &["c"]),
    ]));
    for text in ["a ok", "b ok", "c ok"] {
        run.act(Ok(says(text)));
    }
    assert_eq!(run.halt(), Status::Done);
    let latest = |id: usize| {
        run.env().roles[id]
            .latest
            .map(|latest| run.env().message(latest).content.as_str())
    };
    assert_eq!([latest(0), latest(2)], [Some("idea"), Some("b ok")]);
}

#[test]
fn a_message_from_outside_goes_to_all_whom_it_names_beside_those_who_watch() {
    let mut run = ManualRun::start(team(vec![
        role("A", &["x"], &["a"]),
        role("B", &[], &["b"]),
        role("C", &[], &["c"]),
    ]));
    run.record(
        run.stepper
            .message_sent_event(mail("hi", "x", &[TO_ALL, "B"])),
    );
    assert_eq!(
        [0, 1, 2].map(|id: usize| run.env().roles[id].mailbox.len()),
        [1, 1, 0]
    );
}

#[test]
fn a_message_from_outside_goes_the_way_that_it_says_itself() {
    let leg = |from: &str, to: &str| Hop {
        from: from.into(),
        to: vec![to.into()],
    };
    let mut run = ManualRun::start(team(vec![
        role("A", &["x"], &["a"]),
        role("B", &[], &["b"]),
        role("C", &[], &["c"]),
    ]));
    let mut letter = mail("hi", "x", &[]);
    (letter.sent_from, letter.route) = ("alice".into(), vec![leg("alice", "B"), leg("B", "C")]);
    run.record(run.stepper.message_sent_event(letter));
    assert_eq!(
        [0, 1, 2].map(|id: usize| run.env().roles[id].mailbox.len()),
        [0, 1, 0]
    );
    assert_eq!(
        [run.act(Ok(says("b"))).role, run.act(Ok(says("c"))).role],
        [RoleId(1), RoleId(2)]
    );
}

#[test]
fn what_could_not_be_handed_over_is_tried_again_only_after_a_resume_and_in_order() {
    let outgoing = || {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.external = ExternalEnvironment::Present;
        team
    };
    let mut run = ManualRun::start(outgoing());
    let emissions = vec![draft("first", &["them"])];
    run.act(Ok(CallResult::Returned {
        output: draft("second", &["them"]),
        emissions,
        writes: Vec::new(),
    }));
    assert_eq!(run.go(), Effect::Wait);
    let ids: Vec<_> = run
        .env()
        .outbox
        .iter()
        .map(|out| run.env().message(out.message).id.clone())
        .collect();
    let handed = |at: usize| {
        Event::HandedOver(HandedOver {
            id: ids[at].clone(),
        })
    };
    assert!(
        run.stepper.apply(&handed(1)).is_err(),
        "one after the other"
    );
    run.record(Event::HandOverFailed(HandOverFailed {
        id: ids[0].clone(),
        why: "nobody answers".into(),
    }));
    assert!(
        run.stepper.apply(&handed(0)).is_err(),
        "it was given up until a resume"
    );
    assert_eq!((run.halt(), run.env().outbox.len()), (Status::Failed, 2));
    run.resume(outgoing(), CallPolicy::Auto);
    assert_eq!(run.go(), Effect::Wait);
    run.record(handed(0));
    run.record(handed(1));
    assert_eq!(run.halt(), Status::Done);
}
