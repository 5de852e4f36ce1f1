//! Stories: small teams whose whole course is known, mode by mode.

use strata_core::effect::{Effect, Invocation};
use strata_core::environment::scope::{Change, ROLE_SCOPE, ScopeKey, Write};
use strata_core::event::{CallPolicy, Event, Finished, Status, Work};
use strata_core::fault::{Fault, FaultKind};
use strata_core::id::{ActionId, RoleId};
use strata_core::json::Json;
use strata_core::message::{Draft, Hop, IDEA_LABEL, TO_ALL};
use strata_core::team::{OnFault, Outside, React, Task, Team, Thinker};

use crate::hand::{Hand, draft, mail, says, writes};
use crate::teams::{edge, role, team};

fn trap() -> Result<Finished, Fault> {
    Err(Fault::new(FaultKind::Trap, "unreachable"))
}

fn contents(life: &Hand, role: u16) -> Vec<String> {
    life.env()
        .remembered(RoleId(role), None, 9)
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
    let mut life = Hand::start(pair());
    life.act(Ok(says("p ok")));
    life.act(Ok(says("x ok")));
    life.act(trap());
    assert_eq!(life.halt(), Status::Failed);
    assert_eq!(
        contents(&life, 1),
        ["x ok"],
        "what it is being told is not remembered yet"
    );
    assert_eq!(life.env().buffer(RoleId(1)).count(), 1);
    life.resume(pair(), CallPolicy::Auto);
    let again = life.act(Ok(says("y ok")));
    assert_eq!((again.attempt, news(&again)), (2, vec!["p ok"]));
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(contents(&life, 0), ["idea", "p ok"]);
    assert_eq!(contents(&life, 1), ["p ok", "x ok", "y ok"]);
    assert_eq!(life.history(), ["idea", "p ok", "y ok"]);
}

#[test]
fn memory_is_asked_for_by_number_and_label() {
    let mut life = Hand::start(pair());
    life.act(Ok(says("p ok")));
    life.act(Ok(says("x ok")));
    life.act(Ok(says("y ok")));
    let check = |label, limit, expected: &[&str]| {
        let found = life.env().remembered(RoleId(1), label, limit);
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
    let mut life = Hand::start(team(vec![
        role("A", &[IDEA_LABEL], &["p", "q"]),
        role("B", &["memo"], &["b"]),
        role("C", &["p", "q"], &["c"]),
    ]));
    let memo = Draft {
        cause_by: Some("memo".into()),
        ..draft("note", &[])
    };
    life.act(Ok(Finished::Returned {
        output: draft("p ok", &[]),
        emissions: vec![memo],
        writes: Vec::new(),
    }));
    life.act(Ok(says("q ok")));
    assert_eq!(news(&life.act(Ok(says("b")))), ["note"]);
    assert_eq!(news(&life.act(Ok(says("c")))), ["q ok"]);
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.history(), ["idea", "note", "q ok", "b", "c"]);
}

#[test]
fn choices_are_followed_until_minus_one_or_the_limit() {
    let check = |max_loop, choices: &[i32], acts: &[u16]| {
        let mut chooser = role("C", &[IDEA_LABEL], &["x", "y", "z"]);
        chooser.react = React::Choose {
            max_loop,
            thinker: Thinker::Model,
        };
        let mut life = Hand::start(team(vec![chooser]));
        let (mut choices, mut done) = (choices.iter(), Vec::new());
        while !life.env().is_quiet() {
            let Some(call) = life.next_call() else { break };
            match call.work {
                Work::Think { round } => {
                    assert_eq!(
                        (round as usize, call.digest),
                        (done.len(), None),
                        "the host itself thinks"
                    );
                    life.end(
                        call.role,
                        Ok(Finished::Chosen(*choices.next().expect("one more choice"))),
                    );
                }
                Work::Act { action, .. } => {
                    done.push(action.0);
                    life.end(call.role, Ok(says("on")));
                }
                Work::Plan | Work::Answer => panic!("nobody plans"),
            }
        }
        assert_eq!(
            (life.halt(), done.as_slice(), choices.len()),
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
    let mut life = Hand::start(planner());
    let task = |text: &str, action: Option<&str>| Task {
        text: text.into(),
        action: action.map(String::from),
    };
    let tasks = vec![task("t1", None), task("t2", Some("v")), task("t3", None)];
    let plan = life.act(Ok(Finished::Planned {
        tasks,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    assert_eq!(plan.work, Work::Plan);
    life.act(Ok(says("t1 ok")));
    life.call();
    // Killed: what was running is gone.
    life.resume(planner(), CallPolicy::Auto);
    let second = life.act(Ok(says("t2 ok")));
    let act = |action, task| Work::Act {
        action: ActionId(action),
        task: Some(task),
    };
    assert_eq!((second.work, second.attempt), (act(1, 1), 2));
    assert_eq!(second.task.map(|task| task.text).as_deref(), Some("t2"));
    let third = life.act(Ok(says("t3 ok")));
    assert_eq!(
        (third.work, third.attempt),
        (act(1, 2), 1),
        "the workers take turns"
    );
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.history(), ["idea", "t3 ok"]);
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
    let mut life = Hand::start(team);
    let number = |n: i64| Some(Some(Json::from(serde_json::Value::from(n))));
    let read = |life: &Hand, role, pending: &[Write]| {
        life.env().read(
            life.stepper.team(),
            RoleId(role),
            ScopeKey {
                scope: "s0",
                key: "k",
            },
            None,
            pending,
        )
    };
    life.act(Ok(writes("s ok", &[("k", 5)])));
    life.act(Ok(writes("a ok", &[("k", 1)])));
    assert_eq!(
        (read(&life, 1, &[]), read(&life, 2, &[])),
        (number(1), number(5))
    );
    let pending = Write {
        scope: "s0".into(),
        key: "k".into(),
        change: Change::Delete,
    };
    assert_eq!(read(&life, 1, std::slice::from_ref(&pending)), Some(None));
    let keys = |pending: &[Write]| {
        life.env()
            .keys(life.stepper.team(), RoleId(1), "s0", pending)
    };
    assert_eq!(
        (keys(&[]), keys(&[pending])),
        (Some(vec!["k".into()]), Some(Vec::new()))
    );
    assert_eq!(
        life.env().read(
            life.stepper.team(),
            RoleId(1),
            ScopeKey {
                scope: "none",
                key: "k"
            },
            None,
            &[]
        ),
        None
    );
    assert_eq!(
        life.env().read(
            life.stepper.team(),
            RoleId(1),
            ScopeKey {
                scope: ROLE_SCOPE,
                key: "k"
            },
            None,
            &[]
        ),
        Some(None)
    );
    life.act(Ok(says("a2 ok")));
    life.act(Ok(says("b ok")));
    life.call();
    assert_eq!(read(&life, 3, &[]), number(1));
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
    let mut life = Hand::start(first.clone());
    let hop = |from: &str, to: &str| Hop {
        from: from.into(),
        to: vec![to.into()],
    };
    let output = Draft {
        route: vec![hop("A", "B"), hop("B", "C"), hop("C", "D")],
        ..draft("a", &[])
    };
    life.act(Ok(Finished::Returned {
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    assert_eq!(life.act(Ok(says("b"))).role, RoleId(1));
    life.act(trap());
    assert_eq!(life.halt(), Status::Failed);
    life.resume(first, CallPolicy::Auto);
    assert_eq!(life.act(Ok(says("c"))).role, RoleId(2));
    assert_eq!(life.act(Ok(says("d"))).role, RoleId(3));
    assert_eq!(life.halt(), Status::Done);
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
    let mut life = Hand::start(parking.clone());
    life.act(trap());
    life.act(Ok(says("c ok")));
    life.act(Ok(says("d ok")));
    assert_eq!(life.halt(), Status::Failed);
    assert_eq!(life.history(), ["idea", "c ok", "d ok"]);
    life.resume(parking, CallPolicy::Auto);
    let again = life.act(Ok(says("a ok")));
    assert_eq!(
        (
            again.attempt,
            again.idempotency_key.as_str(),
            life.env().step
        ),
        (2, "run/0/A/0", 2)
    );
    life.act(Ok(says("b ok")));
    assert_eq!(life.halt(), Status::Done);
    assert_eq!(life.history(), ["idea", "c ok", "d ok", "a ok", "b ok"]);
}

#[test]
fn what_a_role_wrote_is_seen_in_its_scope_and_in_no_other() {
    let mut team = team(vec![role("A", &[IDEA_LABEL], &["a", "a2"])]);
    team.scopes = ["s0", "s1"].map(|name| (name.into(), None)).into();
    let mut life = Hand::start(team);
    let one = || Json::from(serde_json::Value::from(1));
    let own = |key: &str| Write {
        scope: ROLE_SCOPE.into(),
        key: key.into(),
        change: Change::Set(one()),
    };
    let shared = Write {
        scope: "s0".into(),
        ..own("shared")
    };
    life.act(Ok(Finished::Returned {
        output: draft("a ok", &[]),
        emissions: Vec::new(),
        writes: vec![own("own"), shared],
    }));
    let check = |scope: &str, expected: &[&str]| {
        let (team, env, pending) = (life.stepper.team(), life.env(), [own("pending")]);
        let keys = env.keys(team, RoleId(0), scope, &pending).expect("a scope");
        assert_eq!(keys, expected, "{scope}");
        for key in ["own", "pending", "shared"] {
            let value = env
                .read(team, RoleId(0), ScopeKey { scope, key }, None, &pending)
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
    let mut life = Hand::start(team(vec![role("A", &[IDEA_LABEL], &["a"])]));
    life.call();
    let within = life.stepper.ended(Status::Interrupted);
    assert!(
        matches!(&within, Event::RunEnded { checkpoint: Some(id), .. } if *id == life.env().next_checkpoint())
    );
    life.end(RoleId(0), Ok(says("a ok")));
    assert_eq!(life.halt(), Status::Done);
    assert!(matches!(
        life.log.last(),
        Some(Event::RunEnded {
            checkpoint: None,
            ..
        })
    ));
    assert_eq!(life.env().checkpoints, 2, "the entry and the step");
}

#[test]
fn a_message_is_named_after_the_step_in_which_its_activation_began() {
    let mut parking = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]);
    parking.policy.on_fault = OnFault::Park;
    let mut life = Hand::start(parking.clone());
    life.act(Err(Fault::new(FaultKind::Trap, "unreachable")));
    life.act(Ok(says("b ok")));
    assert_eq!(life.halt(), Status::Failed);
    life.resume(parking, CallPolicy::Auto);
    life.act(Ok(says("a ok")));
    assert_eq!((life.halt(), life.env().step), (Status::Done, 2));
    let ids: Vec<_> = life
        .env()
        .history
        .iter()
        .map(|id| life.env().message(*id).id.0.as_str())
        .collect();
    assert_eq!(ids, ["idea", "0-1-0", "0-0-0"]);
}

#[test]
fn a_role_knows_the_newest_message_that_it_took() {
    let mut life = Hand::start(team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
        role("C", &["a", "b"], &["c"]),
    ]));
    for text in ["a ok", "b ok", "c ok"] {
        life.act(Ok(says(text)));
    }
    assert_eq!(life.halt(), Status::Done);
    let latest = |id: usize| {
        life.env().roles[id]
            .latest
            .map(|latest| life.env().message(latest).content.as_str())
    };
    assert_eq!([latest(0), latest(2)], [Some("idea"), Some("b ok")]);
}

#[test]
fn a_message_from_outside_goes_to_all_whom_it_names_beside_those_who_watch() {
    let mut life = Hand::start(team(vec![
        role("A", &["x"], &["a"]),
        role("B", &[], &["b"]),
        role("C", &[], &["c"]),
    ]));
    life.record(life.stepper.sent(mail("hi", "x", &[TO_ALL, "B"])));
    assert_eq!(
        [0, 1, 2].map(|id: usize| life.env().roles[id].mailbox.len()),
        [1, 1, 0]
    );
}

#[test]
fn a_message_from_outside_goes_the_way_that_it_says_itself() {
    let leg = |from: &str, to: &str| Hop {
        from: from.into(),
        to: vec![to.into()],
    };
    let mut life = Hand::start(team(vec![
        role("A", &["x"], &["a"]),
        role("B", &[], &["b"]),
        role("C", &[], &["c"]),
    ]));
    let mut letter = mail("hi", "x", &[]);
    (letter.sent_from, letter.route) = ("alice".into(), vec![leg("alice", "B"), leg("B", "C")]);
    life.record(life.stepper.sent(letter));
    assert_eq!(
        [0, 1, 2].map(|id: usize| life.env().roles[id].mailbox.len()),
        [0, 1, 0]
    );
    assert_eq!(
        [life.act(Ok(says("b"))).role, life.act(Ok(says("c"))).role],
        [RoleId(1), RoleId(2)]
    );
}

#[test]
fn what_could_not_be_handed_over_is_tried_again_only_after_a_resume_and_in_order() {
    let outgoing = || {
        let mut team = team(vec![role("A", &[IDEA_LABEL], &["a"])]);
        team.outside = Outside::Somebody;
        team
    };
    let mut life = Hand::start(outgoing());
    let emissions = vec![draft("first", &["them"])];
    life.act(Ok(Finished::Returned {
        output: draft("second", &["them"]),
        emissions,
        writes: Vec::new(),
    }));
    assert_eq!(life.go(), Effect::Wait);
    let ids: Vec<_> = life
        .env()
        .outbox
        .iter()
        .map(|out| life.env().message(out.message).id.clone())
        .collect();
    let handed = |at: usize| Event::HandedOver {
        id: ids[at].clone(),
    };
    assert!(
        life.stepper.apply(&handed(1)).is_err(),
        "one after the other"
    );
    life.record(Event::HandOverFailed {
        id: ids[0].clone(),
        why: "nobody answers".into(),
    });
    assert!(
        life.stepper.apply(&handed(0)).is_err(),
        "it was given up until a resume"
    );
    assert_eq!((life.halt(), life.env().outbox.len()), (Status::Failed, 2));
    life.resume(outgoing(), CallPolicy::Auto);
    assert_eq!(life.go(), Effect::Wait);
    life.record(handed(0));
    life.record(handed(1));
    assert_eq!(life.halt(), Status::Done);
}
