//! Shared scopes: a commit takes in the writes of all roles, in their order, or stops where they
//! contradict.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::activation::Phase;
use strata_core::environment::Environment;
use strata_core::environment::scope::{Scope, Write, unite};
use strata_core::event::{Event, Status};
use strata_core::fault::FaultKind;
use strata_core::id::RoleId;
use strata_core::team::{OnFault, Reducer};

use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script};
use crate::teams::{any_team, cases};

/// What the roles that completed the step wrote, in order.
fn writes(env: &Environment) -> Vec<(RoleId, &Write)> {
    let complete = env
        .activations()
        .filter(|(_, activation)| activation.phase == Phase::Complete);
    complete
        .flat_map(|(id, a)| {
            a.done
                .iter()
                .flat_map(move |done| done.writes.iter().map(move |w| (id, w)))
        })
        .collect()
}

/// Who wrote each key of the scopes in which only one role may.
fn claims(env: &Environment) -> BTreeMap<(&str, &str), BTreeSet<RoleId>> {
    let mut claims: BTreeMap<_, BTreeSet<RoleId>> = BTreeMap::new();
    for (id, write) in writes(env) {
        if write.scope != "role"
            && env
                .rules
                .scopes
                .get(&write.scope)
                .copied()
                .flatten()
                .is_none()
        {
            claims
                .entry((write.scope.as_str(), write.key.as_str()))
                .or_default()
                .insert(id);
        }
    }
    claims
}

const WINDY: Weather = Weather {
    kills: 1,
    stops: 1,
    mail: 2,
    resumes: 3,
    change: Change::Everything,
};

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn two_roles_that_write_one_key_stop_the_step_unless_the_scope_unites_them(
        team in any_team(), seed: u64, order: u64,
    ) {
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 10 }, WINDY, order);
        for (pair, event) in life.states.windows(2).zip(&life.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let claims = claims(before);
            match event {
                Event::StepCommitted { .. } => prop_assert!(claims.values().all(|roles| roles.len() == 1)),
                Event::StepConflicted { scope, key, writers, .. } => {
                    let claimed = &claims[&(scope.as_str(), key.as_str())];
                    let writers: Vec<RoleId> = writers.iter().map(|writer| writer.role).collect();
                    prop_assert!(claimed.iter().eq(&writers) && writers.len() > 1);
                    prop_assert_eq!(&before.shared, &after.shared);
                    for (id, activation) in after.activations() {
                        let conflicted = matches!(&activation.phase,
                            Phase::Failed(fault) if fault.kind == FaultKind::StateConflict);
                        prop_assert!(conflicted || !writers.contains(&id));
                        let own = activation.done.iter().flat_map(|done| &done.writes);
                        let wrote = own.filter(|w| w.scope == *scope && w.key == *key).count();
                        prop_assert!(wrote == 0 || !writers.contains(&id), "the write is taken back");
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_commit_takes_in_the_writes_in_the_order_of_the_roles(team in any_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 10 }, WINDY, order);
        for (pair, event) in life.states.windows(2).zip(&life.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            if !matches!(event, Event::StepCommitted { .. }) {
                prop_assert_eq!(&before.shared, &after.shared, "{:?}", event);
                continue;
            }
            let mut shared = before.shared.clone();
            let mut own: Vec<Scope> = before.roles.iter().map(|role| role.scope.clone()).collect();
            for (id, write) in writes(before) {
                let (values, reducer) = if write.scope == "role" {
                    (&mut own[id.index()], None)
                } else {
                    let reducer = before.rules.scopes.get(&write.scope).copied().flatten();
                    (shared.entry(write.scope.clone()).or_default(), reducer)
                };
                let old = values.remove(&write.key);
                values.extend(unite(reducer, old, [&write.change]).map(|value| (write.key.clone(), value)));
            }
            prop_assert_eq!(&shared, &after.shared);
            prop_assert!(own.iter().eq(after.roles.iter().map(|role| &role.scope)));
        }
    }

    #[test]
    fn with_a_reducer_a_life_that_was_stopped_by_a_conflict_goes_on(team in any_team(), seed: u64, order: u64) {
        let mut team = team;
        team.policy.on_fault = OnFault::Stop;
        team.policy.budget = None;
        team.policy.purses = Default::default();
        let script = Script { seed, address: Address::Often, trouble: 0 };
        let mut life = Life::tell(&team, script, Weather::default(), order);
        let conflicts = |life: &Life| life.log.iter().filter(|e| matches!(e, Event::StepConflicted { .. })).count();
        let before = conflicts(&life);
        prop_assert_eq!(before > 0, life.env().status == Status::Failed, "nothing else goes wrong here");
        if before == 0 {
            return Ok(());
        }
        for reducer in team.scopes.values_mut() {
            reducer.get_or_insert(Reducer::Append);
        }
        life.resume_as(team);
        life.run();
        prop_assert_eq!(conflicts(&life), before);
        prop_assert!(matches!(life.env().status, Status::Done | Status::Stalled | Status::StepLimit));
    }
}
