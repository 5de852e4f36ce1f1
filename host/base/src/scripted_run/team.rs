//! The team of the scripted runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use strata_core::record::id::RoleId;
use strata_core::record::money::Usd;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::team::{
    Action, ExternalEnvironment, Join, OnFault, Policy, React, RetryPolicy, Role, Team,
};

/// Creates a role from its name, the labels it watches, its react mode and its actions.
fn role(name: &str, watch: &[&str], react: React, actions: &[&str]) -> Role {
    let action = |name: &&str| Action {
        name: (*name).into(),
        retry: RetryPolicy {
            retries: 1,
            backoff_ms: 10,
        },
    };
    Role {
        name: name.into(),
        profile: format!("Role {name}"),
        goal: format!("{name}'s goal"),
        constraints: String::new(),
        desc: "a/b~c".into(),
        watch: watch
            .iter()
            .map(|label| String::from(*label))
            .collect::<BTreeSet<_>>(),
        addresses: vec![format!("the-{name}")],
        deliver: DeliveryMode::Batch,
        model: None,
        react,
        actions: actions.iter().map(action).collect(),
        answer_form: Default::default(),
    }
}

fn join(id: &str, from: &[u16], to: &str, mode: JoinMode, deliver: DeliveryMode) -> Join {
    Join {
        id: id.into(),
        from: from.iter().copied().map(RoleId).collect(),
        to: to.into(),
        mode,
        deliver,
    }
}

/// A team with a role of each kind and two joins. Its roles keep sending messages to each other.
pub fn team() -> Arc<Team> {
    let choose = React::Choose {
        max_loop: 3,
        thinker: Thinker::Component,
    };
    let roles = vec![
        role("A", &["UserRequirement", "y"], React::ByOrder, &["p", "q"]),
        role("B/2", &["q", "work"], React::ByOrder, &["x", "y", "z"]),
        role("C", &["q", "z"], choose, &["c", "think"]),
        role("D", &["c"], React::PlanAndAct, &["plan", "work", "rest"]),
        role("E", &["x", "odd", "rest"], React::Human, &[]),
    ];
    let scopes = [
        ("log", Some(Reducer::Append)),
        ("sum", Some(Reducer::Add)),
        ("plain", None),
    ];
    Arc::new(Team {
        name: "t".into(),
        desc: "a team".into(),
        groups: [("pair".into(), vec![RoleId(0), RoleId(1)])].into(),
        routes: Vec::new(),
        joins: vec![
            join("wait/~1", &[1, 0], "D", JoinMode::All, DeliveryMode::Each),
            join(
                "quiet",
                &[0, 2],
                "pair",
                JoinMode::Active,
                DeliveryMode::Batch,
            ),
        ],
        scopes: scopes
            .into_iter()
            .map(|(name, reducer)| (name.into(), reducer))
            .collect(),
        external: ExternalEnvironment::Absent,
        policy: Policy {
            on_fault: OnFault::Stop,
            max_steps: Some(12),
            max_parallel: 2,
            budget: Some(Usd::from_dollars(0.5)),
            scoped_budgets: Default::default(),
            state_bytes: strata_core::team::DEFAULT_STATE_BYTES,
            lowered: Default::default(),
        },
        roles,
    })
}
