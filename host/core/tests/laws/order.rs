//! Order and privacy: when things arrive changes nothing, what is sent in a step is seen in the
//! next, and nobody sees what is another's.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::activation::Activation;
use strata_core::effect::Effect;
use strata_core::environment::scope::ScopeKey;
use strata_core::environment::{Environment, Mail, MessageRef};
use strata_core::event::{Event, Status};
use strata_core::id::RoleId;
use strata_core::json::Json;
use strata_core::stepper::Stepper;
use strata_core::team::Team;

use crate::hand::mail;
use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script};
use crate::teams::{SCOPES, any_team, cases};
use crate::view::{View, view};

const WINDY: Weather = Weather {
    kills: 2,
    stops: 1,
    mail: 3,
    resumes: 2,
    change: Change::Nothing,
};

fn script(seed: u64) -> Script {
    Script {
        seed,
        address: Address::Often,
        trouble: 20,
    }
}

/// What a life looks like after each step and at each end.
fn milestones(team: &Team, seed: u64, order: u64) -> Vec<(Status, View)> {
    let life = Life::tell(
        team,
        script(seed),
        Weather {
            resumes: 2,
            ..Weather::default()
        },
        order,
    );
    let stone =
        |event: &Event| matches!(event, Event::StepCommitted { .. } | Event::RunEnded { .. });
    let all = life
        .log
        .iter()
        .zip(&life.states)
        .filter(|(event, _)| stone(event));
    all.map(|(_, state)| (state.status, view(state))).collect()
}

/// Whose doing an event is.
fn doers(event: &Event) -> Vec<RoleId> {
    match event {
        Event::CallStarted { role, .. }
        | Event::HostCalled { role, .. }
        | Event::MoneyReserved { role, .. }
        | Event::CallSuspended { role, .. }
        | Event::CallFinished { role, .. }
        | Event::CallFailed { role, .. }
        | Event::RetryDue { role } => vec![*role],
        Event::StepConflicted { writers, .. } => writers.iter().map(|writer| writer.role).collect(),
        _ => Vec::new(),
    }
}

/// What everyone but the doers of an event can see.
fn seen_by_others(
    env: &Environment,
    doers: &[RoleId],
) -> BTreeMap<RoleId, (Vec<Mail>, Vec<MessageRef>, String)> {
    let others = (0..env.roles.len() as u16)
        .map(RoleId)
        .filter(|id| !doers.contains(id));
    let sight = |id: RoleId| {
        (
            env.role(id).mailbox.clone(),
            env.memory(id).collect(),
            format!("{:?}", env.role(id).scope),
        )
    };
    others.map(|id| (id, sight(id))).collect()
}

/// The same environment, with everything that is private to others than `id` turned upside down.
fn scrambled(env: &Environment, id: RoleId) -> Environment {
    let mut env = env.clone();
    let secret = env.add(mail("a secret", "l0", &[]));
    for (i, role) in env
        .roles
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| *i != id.index())
    {
        role.mailbox = vec![Mail::together(secret)];
        role.memory.reverse();
        role.memory.push(secret);
        role.latest = Some(secret);
        role.scope.insert(
            "k0".into(),
            Json::from(serde_json::json!({ "secret of": i })),
        );
        if let Some(Activation {
            news,
            done,
            current,
            ..
        }) = &mut role.activation
        {
            news.push(secret);
            current.journal.clear();
            done.iter_mut().for_each(|done| {
                done.output.message = secret;
                done.writes.clear();
                done.emissions.clear();
            });
        }
    }
    env
}

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn the_order_of_arrival_changes_nothing(
        team in any_team(), seed: u64, orders in any::<[u64; 2]>(), parallel in 1..6_usize,
    ) {
        let mut team = team;
        // Who is still paid for when the money runs out does depend on who was first.
        team.policy.budget = None;
        team.policy.purses = Default::default();
        let mut other = team.clone();
        other.policy.max_parallel = parallel;
        prop_assert_eq!(milestones(&team, seed, orders[0]), milestones(&other, seed, orders[1]));
    }

    #[test]
    fn nothing_that_is_sent_or_written_in_a_step_is_seen_before_the_next(team in any_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, script(seed), WINDY, order);
        for (pair, event) in life.states.windows(2).zip(&life.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            if !(before.open && after.open) {
                continue;
            }
            prop_assert_eq!(&before.shared, &after.shared, "{:?}", event);
            prop_assert!(before.roles.iter().map(|role| &role.scope).eq(after.roles.iter().map(|role| &role.scope)));
            prop_assert_eq!(&before.joins, &after.joins, "{:?}", event);
            if matches!(event, Event::MessageSent { .. }) {
                continue;
            }
            prop_assert_eq!(&before.history, &after.history, "{:?}", event);
            prop_assert_eq!(&before.dead_letters, &after.dead_letters);
            let doers = doers(event);
            prop_assert_eq!(seen_by_others(before, &doers), seen_by_others(after, &doers), "{:?}", event);
            prop_assert!(before.roles.iter().map(|role| &role.mailbox).eq(after.roles.iter().map(|role| &role.mailbox)));
        }
    }

    #[test]
    fn a_role_handles_only_what_was_published_in_earlier_steps(team in any_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, script(seed), WINDY, order);
        let mut published: BTreeSet<String> = BTreeSet::new();
        let mut calls = life.calls.iter().peekable();
        for (at, event) in life.log.iter().enumerate() {
            match event {
                Event::RunStarted { routed, .. } | Event::MessageSent { routed, .. } => {
                    published.insert(routed.id.0.clone());
                }
                Event::StepCommitted { routed, .. } => published.extend(routed.iter().map(|routed| routed.id.0.clone())),
                _ => {}
            }
            if let Some((_, call)) = calls.next_if(|(started, _)| *started == at) {
                for news in &call.news {
                    prop_assert!(published.contains(&news.id.0), "{:?} is not published yet", news);
                }
            }
        }
    }

    #[test]
    fn nobody_sees_what_is_private_to_another(team in any_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, script(seed), WINDY, order);
        for (at, call) in &life.calls {
            let (before, id) = (&life.states[at - 1], call.role);
            let other = Stepper::new(life.team().clone(), scrambled(before, id));
            prop_assert_eq!(other.next(), Effect::Call(call.clone()));
            for label in [None, Some("l0")] {
                prop_assert_eq!(before.remembered(id, label, 9), other.env().remembered(id, label, 9));
            }
            for scope in SCOPES.iter().copied().chain(["role"]) {
                let keys = |env: &Environment| env.keys(life.team(), id, scope, &[]);
                let read = |env: &Environment| env.read(life.team(), id, ScopeKey { scope, key: "k0" }, None, &[]);
                prop_assert_eq!((keys(before), read(before)), (keys(other.env()), read(other.env())));
            }
        }
    }
}
