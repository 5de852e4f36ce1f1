//! Shapes of teams, and idempotency keys, which must not change.

use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::RoleId;
use strata_core::record::message::IDEA_LABEL;
use strata_core::record::money::Usd;
use strata_core::record::rules::{Reducer, Rules, Thinker};
use strata_core::record::shape::{DeliveryMode, Shape};
use strata_core::record::work::{CallResult, Task};
use strata_core::team::{OnFault, React, RetryPolicy, Team};

use crate::manual_run::{ManualRun, says};
use crate::teams::{edge, role, team};

fn saved() -> Team {
    let mut team = team(vec![
        role("A", &[IDEA_LABEL], &["p", "q"]),
        role("B", &["q"], &["x"]),
    ]);
    team.groups.insert("g".into(), vec![RoleId(0), RoleId(1)]);
    team.routes = vec![edge(0, &["B"]), edge(1, &["A"])];
    team
}

/// Checks the differences reported for a team that was changed like this.
fn check(mend: fn(&mut Team), expected: &[&str]) {
    let mut changed_team = saved();
    mend(&mut changed_team);
    assert_eq!(
        Shape::from_team(&saved()).differences(&Shape::from_team(&changed_team)),
        expected
    );
}

#[test]
fn a_team_that_differs_is_told_how() {
    check(
        |team| team.roles[1].name = "C".into(),
        &[
            "role `B` is missing",
            "role `C` is new",
            "group `g` is [`A`, `C`], saved [`A`, `B`]",
            "route from `C` to [`A`] is new",
            "route from `B` to [`A`] is missing",
        ],
    );
    check(
        |team| team.roles[0].actions.swap(0, 1),
        &["actions of `A` are [`q`, `p`], saved [`p`, `q`]"],
    );
    check(
        |team| team.roles[1].watch.extend(["p".into()]),
        &["watch of `B` is [`p`, `q`], saved [`q`]"],
    );
    check(
        |team| team.roles[0].react = React::PlanAndAct,
        &["react of `A` is plan_and_act, saved by_order"],
    );
    check(
        |team| drop(team.groups.remove("g")),
        &["group `g` is missing"],
    );
    check(
        |team| drop(team.groups.insert("h".into(), Vec::new())),
        &["group `h` is new"],
    );
    check(
        |team| team.routes.truncate(1),
        &["route from `B` to [`A`] is missing"],
    );
    check(
        |team| team.routes.swap(0, 1),
        &["routes are in another order"],
    );
    check(
        |team| team.routes.push(edge(0, &["A"])),
        &["route from `A` to [`A`] is new"],
    );
}

#[test]
fn a_team_whose_roles_change_places_is_told_the_order() {
    let swap = |team: &mut Team| {
        team.roles.swap(0, 1);
        team.groups.clear();
        team.routes.clear();
    };
    let (mut before, mut after) = (saved(), saved());
    before.groups.clear();
    before.routes.clear();
    swap(&mut after);
    let expected = ["roles are in the order [`B`, `A`], saved [`A`, `B`]"];
    assert_eq!(
        Shape::from_team(&before).differences(&Shape::from_team(&after)),
        expected
    );
}

#[test]
fn what_may_change_is_no_difference() {
    check(|_| (), &[]);
    check(|team| team.roles[0].profile = "another job".into(), &[]);
    check(|team| team.roles[0].deliver = DeliveryMode::Each, &[]);
    check(|team| team.roles[0].goal = "another goal".into(), &[]);
    check(
        |team| {
            team.roles[0].actions[0].retry = RetryPolicy {
                retries: 9,
                backoff_ms: 9,
            }
        },
        &[],
    );
    check(
        |team| team.scopes.extend([("s".into(), Some(Reducer::Add))]),
        &[],
    );
    check(|team| team.policy.on_fault = OnFault::Park, &[]);
    check(|team| team.policy.budget = Some(Usd(1)), &[]);
    let chooser = |max_loop, thinker| {
        let mut team = saved();
        team.roles[0].react = React::Choose { max_loop, thinker };
        team
    };
    let before = chooser(1, Thinker::Model);
    for after in [chooser(2, Thinker::Model), chooser(1, Thinker::OnlyAction)] {
        assert!(
            Shape::from_team(&before)
                .differences(&Shape::from_team(&after))
                .is_empty()
        );
        assert_ne!(Rules::from_team(&before), Rules::from_team(&after));
    }
}

/// Checks the keys of a role that finishes these calls, and those of the calls it makes again.
fn keys(react: React, results: &[CallResult], expected: &[&str]) {
    let mut worker = role("W", &[IDEA_LABEL], &["a", "b"]);
    worker.react = react;
    let team = team(vec![worker]);
    let mut run = ManualRun::start(team.clone());
    let mut found = Vec::new();
    for result in results {
        let failed = run.act(Err(Fault::new(FaultKind::Trap, "first try")));
        run.resume(team.clone(), CallPolicy::Auto);
        let again = run.act(Ok(result.clone()));
        assert_eq!(failed.idempotency_key, again.idempotency_key);
        assert_eq!((failed.attempt, again.attempt), (1, 2));
        found.push(again.idempotency_key);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_key_names_run_step_role_and_index_and_tells_repeated_calls_apart() {
    keys(
        React::ByOrder,
        &[says("a"), says("b")],
        &["run/0/W/0", "run/0/W/1"],
    );
    let choose = React::Choose {
        max_loop: 2,
        thinker: Thinker::Component,
    };
    let chosen = [
        CallResult::Chosen(1),
        says("b"),
        CallResult::Chosen(1),
        says("b"),
    ];
    keys(
        choose,
        &chosen,
        &[
            "run/0/W/think/0",
            "run/0/W/1/0",
            "run/0/W/think/1",
            "run/0/W/1/1",
        ],
    );
    // The only action is chosen without asking, as often as the loop limit allows.
    let only = React::Choose {
        max_loop: 2,
        thinker: Thinker::OnlyAction,
    };
    keys(
        only,
        &[says("a"), says("a")],
        &["run/0/W/0/0", "run/0/W/0/1"],
    );
    let task = |text: &str| Task {
        text: text.into(),
        action: None,
    };
    let tasks = vec![task("t1"), task("t2")];
    let plan = CallResult::Planned {
        tasks,
        emissions: Vec::new(),
        writes: Vec::new(),
    };
    keys(
        React::PlanAndAct,
        &[plan, says("1"), says("2")],
        &["run/0/W/0", "run/0/W/1/0", "run/0/W/1/1"],
    );
}
