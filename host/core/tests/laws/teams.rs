//! Random small teams: up to five roles that watch each other's labels (including cycles), have
//! aliases, belong to groups, send along routes with conditions, wait for each other in joins of
//! every mode (including joins that lead to joins, and loops of messages through them), react in
//! every mode, and write to scopes with every reducer.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::message::{IDEA_LABEL, Message, TO_ALL, TO_NOBODY, TO_SELF};
use strata_core::record::money::Usd;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::team::condition::Condition;
use strata_core::team::{
    Action, BudgetLimits, ExternalEnvironment, Join, OnFault, Policy, React, RetryPolicy, Role,
    Route, RouteArm, ScopedBudgets, Team,
};

/// The labels that the names of actions are chosen from; roles share them.
pub const LABELS: [&str; 6] = ["l0", "l1", "l2", "l3", "l4", "l5"];
/// Names of recipients. In most teams nobody has some of them.
pub const NAMES: [&str; 16] = [
    "R0", "R1", "R2", "R3", "R4", "al0", "al1", "al2", "g0", "g1", "j0", "j1", "j2", TO_ALL,
    TO_SELF, TO_NOBODY,
];
/// The shared scopes that teams may have.
pub const SCOPES: [&str; 3] = ["s0", "s1", "s2"];

/// Returns a configuration for this many random cases, or for ten times as many if `PROPTEST_CASES`
/// is 2560, ten times its default. Failures are not saved in files: what they show becomes one of
/// the `regressions`.
pub fn cases(count: u32) -> ProptestConfig {
    const DEFAULT_CASES: u32 = 256;
    let defaults = ProptestConfig::default();
    ProptestConfig {
        cases: count.saturating_mul(defaults.cases) / DEFAULT_CASES,
        failure_persistence: None,
        ..defaults
    }
}

/// Returns a role with these actions that watches these labels.
pub fn role(name: &str, watch: &[&str], actions: &[&str]) -> Role {
    let retry = RetryPolicy {
        retries: 0,
        backoff_ms: 100,
    };
    Role {
        name: name.into(),
        profile: format!("job of {name}"),
        goal: String::new(),
        constraints: String::new(),
        desc: String::new(),
        watch: watch.iter().map(|label| (*label).into()).collect(),
        addresses: Vec::new(),
        deliver: DeliveryMode::Batch,
        model: None,
        react: React::ByOrder,
        answer_form: Default::default(),
        actions: actions
            .iter()
            .map(|name| Action {
                name: (*name).into(),
                retry,
            })
            .collect(),
    }
}

/// Returns a team of these roles and nothing else.
pub fn team(roles: Vec<Role>) -> Team {
    Team {
        name: "t".into(),
        desc: String::new(),
        roles,
        groups: BTreeMap::new(),
        routes: Vec::new(),
        joins: Vec::new(),
        scopes: BTreeMap::new(),
        external: ExternalEnvironment::Absent,
        policy: Policy {
            on_fault: OnFault::Stop,
            max_steps: None,
            max_parallel: 8,
            budget: None,
            scoped_budgets: Default::default(),
            state_bytes: strata_core::team::DEFAULT_STATE_BYTES,
            lowered: Default::default(),
        },
    }
}

/// Returns an unconditional route to these names.
pub fn edge(from: u16, to: &[&str]) -> Route {
    let arm = RouteArm {
        when: None,
        to: to.iter().map(|name| (*name).into()).collect(),
    };
    Route {
        from: RoleId(from),
        label: String::new(),
        arms: vec![arm],
    }
}

/// Returns a join of the messages of these roles, which are handled together.
pub fn join(id: &str, from: &[u16], to: &str) -> Join {
    let from = from.iter().copied().map(RoleId).collect();
    Join {
        id: id.into(),
        from,
        to: to.into(),
        mode: JoinMode::All,
        deliver: DeliveryMode::Batch,
    }
}

/// Generates a team whose runs end, because their steps are limited.
pub fn any_team() -> impl Strategy<Value = Team> {
    let roles = prop::collection::vec(any_role(), 1..=5);
    let groups = prop::collection::vec(prop::collection::btree_set(0..5_u16, 0..=3), 0..=2);
    let routes = prop::collection::vec(any_route(), 0..=3);
    let scopes = prop::collection::vec(any_reducer(), 0..=3);
    let world = (any_policy(), prop::bool::weighted(0.3));
    let parts = (roles, groups, routes, any_joins(), scopes, world);
    parts.prop_map(
        |(roles, groups, routes, joins, scopes, (policy, outside))| {
            let count = roles.len() as u16;
            let mut team = team(
                roles
                    .into_iter()
                    .enumerate()
                    .map(|(i, role)| named(role, i))
                    .collect(),
            );
            let member = |members: BTreeSet<u16>| {
                members
                    .into_iter()
                    .filter(|id| *id < count)
                    .map(RoleId)
                    .collect()
            };
            team.groups = ["g0", "al1"]
                .map(String::from)
                .into_iter()
                .zip(groups.into_iter().map(member))
                .collect();
            team.routes = routes
                .into_iter()
                .filter(|route| route.from.0 < count)
                .collect();
            team.scopes = SCOPES
                .iter()
                .map(|name| (*name).into())
                .zip(scopes)
                .collect();
            team.policy = policy;
            add_joins(&mut team, joins.0, joins.1);
            team.external = if outside {
                ExternalEnvironment::Present
            } else {
                ExternalEnvironment::Absent
            };
            // At least one role receives the idea.
            team.roles[0].watch.insert(IDEA_LABEL.into());
            team
        },
    )
}

/// Generates a team that stops at faults and whose writes never conflict, so that only the results
/// of its actions decide what happens.
pub fn steady_team() -> impl Strategy<Value = Team> {
    any_team().prop_map(|mut team| {
        team.policy.on_fault = OnFault::Stop;
        team.policy.budget = None;
        team.policy.scoped_budgets = ScopedBudgets::default();
        for reducer in team.scopes.values_mut() {
            reducer.get_or_insert(Reducer::Last);
        }
        team
    })
}

/// Generates a team in which no message leads back to its sender, so that its runs end without a
/// limit.
pub fn acyclic_team() -> impl Strategy<Value = Team> {
    (any_team(), any::<u64>()).prop_map(|(mut team, watches)| {
        team.policy.max_steps = None;
        team.routes.clear();
        join_towards_the_last(&mut team);
        for (i, role) in team.roles.iter_mut().enumerate() {
            for (j, action) in role.actions.iter_mut().enumerate() {
                action.name = format!("r{i}a{j}");
            }
            role.watch = (0..i)
                .flat_map(|earlier| (0..3).map(move |j| format!("r{earlier}a{j}")))
                .collect();
            let heard = |label: &String| {
                watches >> (label.len() as u64 * 7 + i as u64) & 1 == 0 || label.ends_with('0')
            };
            role.watch.retain(heard);
            role.watch.insert(IDEA_LABEL.into());
        }
        team
    })
}

/// A join that is not part of a team yet.
#[derive(Clone, Debug)]
struct UnplacedJoin {
    from: Vec<u16>,
    to: String,
    mode: JoinMode,
    deliver: DeliveryMode,
    /// Whether it leads to the next join.
    chained: bool,
    /// Whether its sources receive the idea and send their outputs to it.
    fed: bool,
}

fn any_joins() -> impl Strategy<Value = (Vec<UnplacedJoin>, bool)> {
    let from = prop::sample::subsequence((0..4_u16).collect::<Vec<_>>(), 1..=3).prop_shuffle();
    let to = prop::sample::select(vec!["R0", "R1", "R2", "R3", "R4", "al0", "al2", "g0"])
        .prop_map(String::from);
    let mode = prop::sample::select(vec![
        JoinMode::All,
        JoinMode::All,
        JoinMode::Any,
        JoinMode::Active,
    ]);
    let deliver = prop::sample::select(vec![DeliveryMode::Batch, DeliveryMode::Each]);
    let unplaced = (
        from,
        to,
        mode,
        deliver,
        prop::bool::weighted(0.4),
        prop::bool::weighted(0.6),
    );
    let unplaced = unplaced.prop_map(|(from, to, mode, deliver, chained, fed)| UnplacedJoin {
        from,
        to,
        mode,
        deliver,
        chained,
        fed,
    });
    (prop::collection::vec(unplaced, 0..=3), any::<bool>())
}

/// Adds joins to a team. A join that leads to another leads to a later one, or to an earlier one if
/// the order is reversed.
fn add_joins(team: &mut Team, mut unplaced: Vec<UnplacedJoin>, reversed: bool) {
    let count = team.roles.len() as u16;
    for at in 0..unplaced.len() {
        unplaced[at].from.retain(|id| *id < count);
        if unplaced[at].from.is_empty() {
            unplaced[at].from.push(0);
        }
        let (here, rest) = unplaced[at..].split_first_mut().expect("a join");
        match rest.first_mut().filter(|_| here.chained) {
            Some(next) => {
                here.to = format!("j{}", at + 1);
                let more: Vec<u16> = here
                    .from
                    .iter()
                    .copied()
                    .filter(|id| !next.from.contains(id))
                    .collect();
                next.from.extend(more);
            }
            None if named_somewhere(team, &here.to) => {}
            None => here.to = "R0".into(),
        }
    }
    for (at, unplaced) in unplaced.into_iter().enumerate() {
        let id = format!("j{at}");
        if unplaced.fed {
            for source in &unplaced.from {
                let watch = &mut team.roles[usize::from(*source)].watch;
                watch.insert(IDEA_LABEL.into());
                team.routes.push(edge(*source, &[&id]));
            }
        }
        team.joins.push(Join {
            mode: unplaced.mode,
            deliver: unplaced.deliver,
            ..join(&id, &unplaced.from, &unplaced.to)
        });
    }
    if reversed {
        team.joins.reverse();
    }
}

/// Returns whether a role or a group has this name.
fn named_somewhere(team: &Team, name: &str) -> bool {
    team.find_role(name).is_some() || team.groups.contains_key(name)
}

/// Makes all joins lead to the last role in the end, with sources before it that send to them.
fn join_towards_the_last(team: &mut Team) {
    let last = team.roles.len() as u16 - 1;
    team.roles
        .iter_mut()
        .for_each(|role| role.addresses.clear());
    team.joins
        .iter_mut()
        .for_each(|join| join.from.retain(|id| id.0 < last));
    if team.joins.iter().any(|join| join.from.is_empty()) {
        team.joins.clear();
    }
    let ids: Vec<String> = team.joins.iter().map(|join| join.id.clone()).collect();
    for join in &mut team.joins {
        if !ids.contains(&join.to) {
            join.to = format!("R{last}");
        }
        team.routes
            .extend(join.from.iter().map(|source| edge(source.0, &[&join.id])));
    }
}

fn named(mut role: Role, i: usize) -> Role {
    role.name = format!("R{i}");
    if i == 3 {
        role.profile.clear();
    }
    role
}

fn any_role() -> impl Strategy<Value = Role> {
    let labels = prop::sample::subsequence(LABELS.to_vec(), 1..=3);
    let watch = prop::sample::subsequence([&LABELS[..], &[IDEA_LABEL]].concat(), 0..=3);
    // One alias is the name of another role, one that of a group, one that of a join.
    let alias = prop::option::of(prop::sample::select(vec!["al0", "al1", "al2", "R1", "j1"]));
    let retry = (
        0..=2_u32,
        prop::sample::select(vec![0, 100, 50_000, u32::MAX]),
    );
    let deliver = prop_oneof![3 => Just(DeliveryMode::Batch), 1 => Just(DeliveryMode::Each)];
    (labels, watch, alias, any_react(), retry, deliver).prop_map(
        |(labels, watch, alias, react, (retries, backoff_ms), deliver)| {
            let mut role = role("", &watch, &labels);
            role.profile = "Worker".into();
            role.addresses = alias.into_iter().map(String::from).collect();
            role.react = react;
            role.deliver = deliver;
            role.actions.iter_mut().for_each(|action| {
                action.retry = RetryPolicy {
                    retries,
                    backoff_ms,
                }
            });
            role
        },
    )
}

fn any_react() -> impl Strategy<Value = React> {
    let choose =
        |thinker| (0..=3_u32).prop_map(move |max_loop| React::Choose { max_loop, thinker });
    prop_oneof![
        4 => Just(React::ByOrder),
        1 => choose(Thinker::Component),
        1 => choose(Thinker::Model),
        1 => choose(Thinker::OnlyAction),
        1 => Just(React::PlanAndAct),
    ]
}

fn any_reducer() -> impl Strategy<Value = Option<Reducer>> {
    let all = [
        Reducer::Append,
        Reducer::Add,
        Reducer::Max,
        Reducer::Merge,
        Reducer::Last,
    ];
    prop::option::of(prop::sample::select(all.to_vec()))
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let on_fault = prop::sample::select(vec![OnFault::Stop, OnFault::Park]);
    let budget = prop::option::weighted(0.2, (1..40_u64).prop_map(Usd));
    let limits = (1..8_u64, 1..=4_usize);
    (on_fault, limits, budget, any_scoped_budgets()).prop_map(
        |(on_fault, (steps, max_parallel), budget, budgets)| Policy {
            on_fault,
            max_steps: Some(steps),
            max_parallel,
            budget,
            scoped_budgets: budgets,
            state_bytes: strata_core::team::DEFAULT_STATE_BYTES,
            lowered: Default::default(),
        },
    )
}

fn any_scoped_budgets() -> impl Strategy<Value = ScopedBudgets> {
    let tokens = || prop::option::weighted(0.3, 1..40_u64);
    let usd = prop::option::weighted(0.3, (1..40_u64).prop_map(Usd));
    let caps = (usd, tokens()).prop_map(|(usd, tokens)| BudgetLimits { usd, tokens });
    let roles = prop::collection::btree_map((0..5_u16).prop_map(RoleId), caps.clone(), 0..=2);
    let slot = (0..5_u16, 0..3_u16).prop_map(|(role, action)| Slot {
        role: RoleId(role),
        kind: SlotKind::Action(ActionId(action)),
    });
    let actions = prop::collection::btree_map(slot, caps, 0..=2);
    let some = (tokens(), roles, actions).prop_map(|(tokens, roles, actions)| ScopedBudgets {
        tokens,
        roles,
        actions,
    });
    prop_oneof![4 => Just(ScopedBudgets::default()), 1 => some]
}

fn any_route() -> impl Strategy<Value = Route> {
    let to = prop::sample::subsequence(NAMES.to_vec(), 0..=3);
    let arm = (to, prop::option::of(any_condition())).prop_map(|(to, when)| RouteArm {
        when,
        to: to.into_iter().map(String::from).collect(),
    });
    (0..5_u16, prop::collection::vec(arm, 1..=3)).prop_map(|(from, arms)| Route {
        from: RoleId(from),
        label: String::new(),
        arms,
    })
}

fn any_condition() -> impl Strategy<Value = Condition> {
    let by_label = prop::sample::select(LABELS.to_vec()).prop_map(|label| {
        let judge = move |message: &Message, _: &mut _| Ok(message.cause_by == label);
        Condition::new(format!("cause_by == '{label}'"), Box::new(judge))
    });
    let by_length = Just(()).prop_map(|()| {
        Condition::new(
            "size(content) % 2 == 0".into(),
            Box::new(|message: &Message, _: &mut _| Ok(message.content.len().is_multiple_of(2))),
        )
    });
    let never_told = Just(()).prop_map(|()| {
        Condition::new("data.x == 1".into(), Box::new(|_, _| Err("no data".into())))
    });
    prop_oneof![3 => by_label, 3 => by_length, 1 => never_told]
}
