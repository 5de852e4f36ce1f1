//! Joins in small teams whose runs are known in every detail.

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{Event, JoinReleased, Status, StepCommitted};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::RoleId;
use strata_core::record::message::{Draft, Hop, IDEA_LABEL};
use strata_core::record::shape::{DeliveryMode, JoinMode, Shape};
use strata_core::record::work::{ActivationKey, CallResult};
use strata_core::team::{Join, OnFault, Team};

use crate::manual_run::{ManualRun, draft, mail, says};
use crate::teams::{edge, join, role, team};

/// Returns a team in which `A` and `B` receive the idea and send to the join `j`, which leads to
/// `D`.
fn pair(mode: JoinMode, deliver: DeliveryMode) -> Team {
    let mut team = team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
        role("D", &[], &["d"]),
    ]);
    team.routes = vec![edge(0, &["j"]), edge(1, &["j"])];
    team.joins = vec![Join {
        mode,
        deliver,
        ..join("j", &[1, 0], "D")
    }];
    team
}

fn news(call: &Invocation) -> Vec<&str> {
    call.news
        .iter()
        .map(|message| message.content.as_str())
        .collect()
}

/// Ends the next call with its messages, joined, and returns the role and the messages.
fn act(run: &mut ManualRun) -> (u16, Vec<String>) {
    let call = run.call();
    let news: Vec<String> = news(&call).into_iter().map(String::from).collect();
    run.end(
        call.role,
        Ok(says(&format!(
            "{} of {}",
            run.stepper.team().role(call.role).name,
            news.join("+")
        ))),
    );
    (call.role.0, news)
}

/// Returns how many messages of each source wait in the first join.
fn waiting(run: &ManualRun) -> Vec<usize> {
    run.env().joins[0]
        .queues
        .iter()
        .map(|queue| queue.len())
        .collect()
}

#[test]
fn a_branch_that_is_done_sooner_waits_for_the_other_and_both_come_together_in_the_order_of_the_sources()
 {
    let mut fan = team(vec![
        role("foo", &[IDEA_LABEL], &["f"]),
        role("bar", &[], &["r"]),
        role("baz", &[], &["z"]),
        role("qux", &[], &["q"]),
        role("quux", &[], &["u"]),
    ]);
    fan.routes = vec![
        edge(0, &["bar", "baz"]),
        edge(1, &["qux"]),
        edge(2, &["both"]),
        edge(3, &["both"]),
    ];
    fan.joins = vec![join("both", &[2, 3], "quux")];
    let mut run = ManualRun::start(fan.clone());
    for text in ["f ok", "r ok", "z ok"] {
        run.act(Ok(says(text)));
    }
    run.go();
    assert_eq!(waiting(&run), [1, 0]);
    // The messages that wait in a join are saved with everything else.
    run.resume(fan, CallPolicy::Auto);
    run.act(Ok(says("q ok")));
    let last = run.act(Ok(says("u ok")));
    assert_eq!((last.role, news(&last)), (RoleId(4), vec!["z ok", "q ok"]));
    assert_eq!(run.halt(), Status::Done);
    assert_eq!(run.env().step, 4);
}

#[test]
fn an_all_join_takes_one_message_of_each_source_and_keeps_the_rest() {
    let mut run = ManualRun::start(pair(JoinMode::All, DeliveryMode::Batch));
    let emissions = vec![draft("a1", &["j"]), draft("a2", &["j"])];
    run.act(Ok(CallResult::Returned {
        output: draft("a3", &[]),
        emissions,
        writes: Vec::new(),
    }));
    run.act(Ok(says("b1")));
    assert_eq!(act(&mut run), (2, vec!["b1".into(), "a1".into()]));
    assert_eq!(waiting(&run), [0, 2]);
    assert_eq!(run.halt(), Status::Stalled);
}

#[test]
fn a_join_fires_as_often_as_it_is_filled() {
    let mut run = ManualRun::start(pair(JoinMode::All, DeliveryMode::Batch));
    for (first, second) in [("a1", "a2"), ("b1", "b2")] {
        let emissions = vec![draft(first, &["j"])];
        run.act(Ok(CallResult::Returned {
            output: draft(second, &[]),
            emissions,
            writes: Vec::new(),
        }));
    }
    assert_eq!(
        act(&mut run).1,
        ["b1", "a1", "b2", "a2"],
        "one mailbox, one activation"
    );
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn an_any_join_lets_everything_go_as_it_comes() {
    let mut run = ManualRun::start(pair(JoinMode::Any, DeliveryMode::Batch));
    run.act(Ok(says("a1")));
    run.act(Ok(says("b1")));
    assert_eq!(
        act(&mut run).1,
        ["a1", "b1"],
        "in the order in which they were published"
    );
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn what_a_join_lets_go_comes_before_what_is_published_later() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.roles.push(role("Late", &[IDEA_LABEL], &["l"]));
    team.routes.push(edge(3, &["D"]));
    let mut run = ManualRun::start(team);
    for text in ["a1", "b1", "l1"] {
        run.act(Ok(says(text)));
    }
    assert_eq!(act(&mut run).1, ["b1", "a1", "l1"]);
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn an_active_join_fires_once_all_is_quiet_with_what_came() {
    let mut team = pair(JoinMode::Active, DeliveryMode::Batch);
    team.roles.push(role("Slow", &[], &["s"]));
    team.routes[1] = edge(1, &["Slow"]);
    team.routes.push(edge(3, &["nobody"]));
    let mut run = ManualRun::start(team);
    assert_eq!(
        [act(&mut run).0, act(&mut run).0, act(&mut run).0],
        [0, 1, 3]
    );
    assert_eq!(act(&mut run), (2, vec!["A of idea".into()]));
    assert_eq!(run.halt(), Status::Done);
    let released = run
        .log
        .iter()
        .filter(|event| matches!(event, Event::JoinReleased(_)))
        .count();
    assert_eq!(released, 1);
}

#[test]
fn an_active_join_lets_go_of_all_that_came_of_each_source() {
    let mut run = ManualRun::start(pair(JoinMode::Active, DeliveryMode::Batch));
    let emissions = vec![draft("a1", &["j"]), draft("a2", &["j"])];
    run.act(Ok(CallResult::Returned {
        output: draft("a3", &["j"]),
        emissions,
        writes: Vec::new(),
    }));
    run.act(Ok(says("b1")));
    assert_eq!(
        act(&mut run),
        (2, ["b1", "a1", "a2", "a3"].map(String::from).into()),
        "in the order of its sources"
    );
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn active_joins_fire_one_after_another() {
    let mut team = pair(JoinMode::Active, DeliveryMode::Batch);
    team.roles.push(role("E", &[], &["e"]));
    team.routes = vec![edge(0, &["j"]), edge(1, &["k"])];
    team.joins.push(Join {
        mode: JoinMode::Active,
        ..join("k", &[1], "E")
    });
    team.joins.swap(0, 1);
    let mut run = ManualRun::start(team);
    assert_eq!([act(&mut run).0, act(&mut run).0], [0, 1]);
    assert_eq!(
        act(&mut run),
        (3, vec!["B of idea".into()]),
        "the first that is declared"
    );
    assert_eq!(run.env().step, 1);
    assert_eq!(act(&mut run), (2, vec!["A of idea".into()]));
    assert_eq!((run.halt(), run.env().step), (Status::Done, 3));
}

#[test]
fn an_active_join_waits_for_what_is_parked() {
    let parking = || {
        let mut team = pair(JoinMode::Active, DeliveryMode::Batch);
        team.policy.on_fault = OnFault::Park;
        team
    };
    let mut run = ManualRun::start(parking());
    run.act(Ok(says("a1")));
    run.act(Err(Fault::new(FaultKind::Trap, "unreachable")));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(waiting(&run), [0, 1]);
    run.resume(parking(), CallPolicy::Auto);
    run.act(Ok(says("b1")));
    assert_eq!(act(&mut run).1, ["b1", "a1"]);
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn what_is_delivered_each_is_handled_one_activation_each_in_order() {
    let mut run = ManualRun::start(pair(JoinMode::All, DeliveryMode::Each));
    run.act(Ok(CallResult::Returned {
        output: draft("a1", &[]),
        emissions: vec![draft("before", &["D"])],
        writes: Vec::new(),
    }));
    run.act(Ok(says("b1")));
    assert_eq!(
        act(&mut run),
        (2, vec!["before".into()]),
        "mail that was there first comes first"
    );
    run.record(run.stepper.message_sent_event(mail("after", "x", &["D"])));
    assert_eq!(act(&mut run), (2, vec!["b1".into()]));
    assert_eq!(act(&mut run), (2, vec!["a1".into()]));
    assert_eq!(act(&mut run), (2, vec!["after".into()]));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn what_comes_by_two_ways_is_told_once() {
    let mut team = pair(JoinMode::All, DeliveryMode::Each);
    team.routes[0] = edge(0, &["j", "D"]);
    let mut run = ManualRun::start(team);
    run.act(Ok(says("a1")));
    run.act(Ok(says("b1")));
    assert_eq!(act(&mut run).1, ["a1"]);
    assert_eq!(act(&mut run).1, ["b1"]);
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn one_join_leads_to_another_forwards_and_backwards() {
    for turned in [false, true] {
        let mut team = pair(JoinMode::All, DeliveryMode::Batch);
        team.roles.push(role("C", &[IDEA_LABEL], &["c"]));
        team.routes.push(edge(3, &["k"]));
        team.joins = vec![
            join("j", &[0, 1], "k"),
            Join {
                deliver: DeliveryMode::Each,
                ..join("k", &[3, 1, 0], "D")
            },
        ];
        if turned {
            team.joins.reverse();
        }
        let mut run = ManualRun::start(team);
        for text in ["a1", "b1", "c1"] {
            run.act(Ok(says(text)));
        }
        let handled = [act(&mut run), act(&mut run), act(&mut run)].map(|(_, news)| news.join("+"));
        assert_eq!(handled, ["c1", "b1", "a1"]);
        assert_eq!(run.halt(), Status::Done);
    }
}

#[test]
fn two_that_review_each_round_come_together_again_and_again() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.roles[2].watch.clear();
    team.roles[0].watch.insert("d".into());
    team.roles[1].watch.insert("d".into());
    team.policy.max_steps = Some(6);
    let mut run = ManualRun::start(team);
    for _ in 0..3 {
        assert_eq!([act(&mut run).0, act(&mut run).0], [0, 1]);
        assert_eq!(act(&mut run).0, 2);
    }
    assert_eq!(run.halt(), Status::StepLimit);
}

#[test]
fn a_branch_that_is_never_taken_stalls_the_team_until_somebody_sends_word() {
    let team = || {
        let mut team = pair(JoinMode::All, DeliveryMode::Batch);
        team.roles[1].watch.clear();
        team
    };
    let mut run = ManualRun::start(team());
    act(&mut run);
    assert_eq!(run.halt(), Status::Stalled);
    let missing: Vec<_> = run.env().joins[0]
        .missing_sources(&team().joins[0])
        .collect();
    assert_eq!(missing, [RoleId(1)]);
    run.resume(team(), CallPolicy::Auto);
    assert_eq!(
        run.go(),
        Effect::Halt(Status::Stalled),
        "nothing has changed"
    );
    run.record(
        run.stepper
            .message_sent_event(mail("your turn", "x", &["B"])),
    );
    run.resume(team(), CallPolicy::Auto);
    assert_eq!(act(&mut run).0, 1);
    assert_eq!(
        act(&mut run),
        (2, vec!["B of your turn".into(), "A of idea".into()])
    );
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_message_for_a_join_that_does_not_wait_for_its_sender_is_a_dead_letter() {
    let mut team = pair(JoinMode::Any, DeliveryMode::Batch);
    team.joins[0].from = vec![RoleId(0)];
    let mut run = ManualRun::start(team);
    act(&mut run);
    act(&mut run);
    run.record(
        run.stepper
            .message_sent_event(mail("from outside", "x", &["j"])),
    );
    assert_eq!(act(&mut run), (2, vec!["A of idea".into()]));
    assert_eq!(run.halt(), Status::Done);
    let dead = run.env().dead_letters.iter();
    let dead: Vec<_> = dead
        .map(|dead| (run.env().message(dead.message).content.as_str(), &*dead.to))
        .collect();
    assert_eq!(dead, [("from outside", "j"), ("B of idea", "j")]);
}

#[test]
fn a_leg_of_an_itinerary_may_lead_into_a_join_and_the_rest_travels_on() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.routes.clear();
    team.roles.push(role("E", &[], &["e"]));
    let mut run = ManualRun::start(team);
    let hop = |from: &str, to: &str| Hop {
        from: from.into(),
        to: vec![to.into()],
    };
    let output = Draft {
        route: vec![hop("A", "j"), hop("D", "E")],
        ..draft("a1", &[])
    };
    run.act(Ok(CallResult::Returned {
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    run.act(Ok(CallResult::Returned {
        output: draft("b1", &["j"]),
        emissions: Vec::new(),
        writes: Vec::new(),
    }));
    assert_eq!(act(&mut run).0, 2);
    assert_eq!(act(&mut run), (3, vec!["D of b1+a1".into()]));
}

#[test]
fn several_faults_are_made_good_by_exactly_their_roles_and_the_join_then_has_all() {
    let trio = || {
        let mut team = pair(JoinMode::All, DeliveryMode::Batch);
        team.roles.push(role("C", &[IDEA_LABEL], &["c"]));
        team.routes.push(edge(3, &["j"]));
        team.joins = vec![join("j", &[0, 1, 3], "D")];
        team
    };
    let mut run = ManualRun::start(trio());
    let trap = || Err(Fault::new(FaultKind::Trap, "unreachable"));
    run.act(trap());
    run.act(Ok(says("b1")));
    run.act(trap());
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(
        (
            run.env().failed_calls(run.stepper.team()).count(),
            waiting(&run)
        ),
        (2, vec![0, 0, 0])
    );
    run.resume(trio(), CallPolicy::Auto);
    let again = [run.act(Ok(says("a1"))), run.act(Ok(says("c1")))];
    assert_eq!(
        again.map(|call| (call.role.0, call.attempt)),
        [(0, 2), (3, 2)]
    );
    assert_eq!(
        act(&mut run),
        (2, vec!["a1".into(), "b1".into(), "c1".into()])
    );
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_join_that_was_filled_by_hand_fires_when_the_run_goes_on() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.roles[1].watch.clear();
    let mut run = ManualRun::start(team);
    act(&mut run);
    assert_eq!(run.halt(), Status::Stalled);
    let mut env = run.env().clone();
    env.joins[0].queues[0].push_back(env.history[0]);
    run.stepper = Stepper::new(run.stepper.team().clone(), env);
    run.record(run.stepper.run_resumed_event(None, CallPolicy::Auto));
    assert_eq!(act(&mut run), (2, vec!["idea".into(), "A of idea".into()]));
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn what_a_join_tells_a_role_again_is_news_and_remembered_once() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.routes[0] = edge(0, &["D", "j"]);
    team.roles[1].watch = ["a".into()].into();
    team.routes.push(edge(0, &["B"]));
    let mut run = ManualRun::start(team);
    assert_eq!(act(&mut run).0, 0);
    assert_eq!(act(&mut run).0, 1);
    assert_eq!(act(&mut run), (2, vec!["A of idea".into()]));
    assert_eq!(
        act(&mut run),
        (2, vec!["B of A of idea".into(), "A of idea".into()])
    );
    assert_eq!(run.halt(), Status::Done);
    let memory = run
        .env()
        .recent_memory(ActivationKey::of_mail(RoleId(2)), None, 9);
    let contents: Vec<&str> = memory
        .iter()
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(
        contents,
        [
            "A of idea",
            "D of A of idea",
            "B of A of idea",
            "D of B of A of idea+A of idea"
        ]
    );
}

#[test]
fn joins_belong_to_what_a_team_is() {
    let saved = pair(JoinMode::All, DeliveryMode::Batch);
    let check = |mend: fn(&mut Team), expected: &[&str]| {
        let mut changed_team = saved.clone();
        mend(&mut changed_team);
        assert_eq!(
            Shape::from_team(&saved).differences(&Shape::from_team(&changed_team)),
            expected
        );
    };
    let all = "saved all from [`B`, `A`] to `D` by batch";
    check(|_| (), &[]);
    check(|team| team.joins.clear(), &["join `j` is missing"]);
    check(
        |team| team.joins.push(join("k", &[0], "D")),
        &["join `k` is new"],
    );
    check(
        |team| team.joins[0].mode = JoinMode::Any,
        &[&format!(
            "join `j` is any from [`B`, `A`] to `D` by batch, {all}"
        )],
    );
    check(
        |team| team.joins[0].from.swap(0, 1),
        &[&format!(
            "join `j` is all from [`A`, `B`] to `D` by batch, {all}"
        )],
    );
    check(
        |team| team.joins[0].to = "A".into(),
        &[&format!(
            "join `j` is all from [`B`, `A`] to `A` by batch, {all}"
        )],
    );
    check(
        |team| team.joins[0].deliver = DeliveryMode::Each,
        &[&format!(
            "join `j` is all from [`B`, `A`] to `D` by each, {all}"
        )],
    );
    let mut two = saved.clone();
    two.joins.push(join("k", &[0], "D"));
    let mut turned = two.clone();
    turned.joins.reverse();
    assert_eq!(
        Shape::from_team(&two).differences(&Shape::from_team(&turned)),
        ["joins are in another order"]
    );
}

#[test]
fn an_any_join_that_was_filled_by_hand_lets_one_go_after_the_other() {
    let mut team = pair(JoinMode::Any, DeliveryMode::Batch);
    team.roles[1].watch.clear();
    let mut run = ManualRun::start(team);
    run.go();
    let mut env = run.env().clone();
    let idea = env.history[0];
    let other = env.add_message(mail("another", "x", &[]));
    env.joins[0].queues[0].push_back(idea);
    env.joins[0].queues[1].push_back(other);
    env.is_step_open = false;
    env.roles[0].activation = None;
    run.stepper = run.stepper.with_env(env);
    let Effect::Record(Event::JoinReleased(JoinReleased { released })) = run.stepper.next() else {
        panic!("the join fires")
    };
    let sources: Vec<Vec<RoleId>> = released
        .iter()
        .map(|released| released.messages.iter().map(|(from, _)| *from).collect())
        .collect();
    assert_eq!(sources, [[RoleId(1)], [RoleId(0)]]);
}

#[test]
fn what_a_join_lets_go_to_a_group_goes_to_its_members_in_order_and_once() {
    let mut team = pair(JoinMode::All, DeliveryMode::Batch);
    team.roles.push(role("E", &[], &["e"]));
    team.groups.insert("g".into(), [3, 2, 3].map(RoleId).into());
    team.joins[0].to = "g".into();
    let mut run = ManualRun::start(team);
    act(&mut run);
    act(&mut run);
    assert_eq!(
        [act(&mut run), act(&mut run)].map(|(role, news)| (role, news.len())),
        [(2, 2), (3, 2)]
    );
    let released = run.log.iter().find_map(|event| match event {
        Event::StepCommitted(StepCommitted { released, .. }) => released.first(),
        _ => None,
    });
    assert_eq!(
        released.map(|released| &released.to[..]),
        Some(&[RoleId(2), RoleId(3)][..])
    );
}

#[test]
fn a_role_that_takes_each_message_handles_its_mail_one_by_one_until_a_resume_changes_that() {
    let batch = pair(JoinMode::All, DeliveryMode::Batch);
    let mut each = batch.clone();
    each.roles[2].deliver = DeliveryMode::Each;
    let mut run = ManualRun::start(each);
    run.act(Ok(CallResult::Returned {
        output: draft("a1", &[]),
        emissions: vec![draft("first", &["D"]), draft("second", &["D"])],
        writes: Vec::new(),
    }));
    run.act(Ok(says("b1")));
    assert_eq!(act(&mut run), (2, vec!["first".into()]));
    assert_eq!(act(&mut run), (2, vec!["second".into()]));
    run.resume(batch, CallPolicy::Auto);
    assert_eq!(act(&mut run), (2, vec!["b1".into(), "a1".into()]));
    assert_eq!(run.halt(), Status::Done);
}
