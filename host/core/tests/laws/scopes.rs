//! Shared scopes: a commit merges the writes of all roles, in their order, or the run stops if they
//! conflict.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::record::event::{Event, Status, StepConflicted};
use strata_core::record::fault::FaultKind;
use strata_core::record::id::RoleId;
use strata_core::record::rules::Reducer;
use strata_core::record::scope_write::Write;
use strata_core::state::activation::Phase;
use strata_core::state::environment::Environment;
use strata_core::state::environment::scope::{Scope, apply_changes};
use strata_core::team::OnFault;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script};
use crate::teams::{any_team, cases};

/// Returns the writes of the roles that completed the step, in order.
fn writes(env: &Environment) -> Vec<(RoleId, &Write)> {
    let complete = env
        .mail_activations()
        .filter(|(_, activation)| activation.phase == Phase::Complete);
    complete
        .flat_map(|(id, a)| {
            a.done
                .iter()
                .flat_map(move |done| done.writes.iter().map(move |w| (id, w)))
        })
        .collect()
}

/// Returns who wrote each key of the scopes without a reducer.
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

const SOME_FAULTS: FaultSchedule = FaultSchedule {
    kills: 1,
    stops: 1,
    mail: 2,
    resumes: 3,
    change: ResumeChange::Everything,
};

proptest! {
    #![proptest_config(cases(128))]

    #[test]
    fn two_roles_that_write_one_key_stop_the_step_unless_the_scope_unites_them(
        team in any_team(), seed: u64, order: u64,
    ) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 10 }, SOME_FAULTS, order);
        for (pair, event) in run.states.windows(2).zip(&run.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let claims = claims(before);
            match event {
                Event::StepCommitted(_) => prop_assert!(claims.values().all(|roles| roles.len() == 1)),
                Event::StepConflicted(StepConflicted { scope, key, writers, .. }) => {
                    let claimed = &claims[&(scope.as_str(), key.as_str())];
                    let writers: Vec<RoleId> = writers.iter().map(|writer| writer.call.role).collect();
                    prop_assert!(claimed.iter().eq(&writers) && writers.len() > 1);
                    prop_assert_eq!(&before.shared_scopes, &after.shared_scopes);
                    for (id, activation) in after.mail_activations() {
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
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 10 }, SOME_FAULTS, order);
        for (pair, event) in run.states.windows(2).zip(&run.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            if !matches!(event, Event::StepCommitted(_)) {
                prop_assert_eq!(&before.shared_scopes, &after.shared_scopes, "{:?}", event);
                continue;
            }
            let mut shared = before.shared_scopes.clone();
            let mut own: Vec<Scope> = before.roles.iter().map(|role| role.scope.clone()).collect();
            for (id, write) in writes(before) {
                let (values, reducer) = if write.scope == "role" {
                    (&mut own[id.index()], None)
                } else {
                    let reducer = before.rules.scopes.get(&write.scope).copied().flatten();
                    (shared.entry(write.scope.clone()).or_default(), reducer)
                };
                let old = values.remove(&write.key);
                values.extend(apply_changes(reducer, old, [&write.change]).map(|value| (write.key.clone(), value)));
            }
            prop_assert_eq!(&shared, &after.shared_scopes);
            prop_assert!(own.iter().eq(after.roles.iter().map(|role| &role.scope)));
        }
    }

    #[test]
    fn with_a_reducer_a_run_that_was_stopped_by_a_conflict_goes_on(team in any_team(), seed: u64, order: u64) {
        let mut team = team;
        team.policy.on_fault = OnFault::Stop;
        team.policy.budget = None;
        team.policy.scoped_budgets = Default::default();
        let script = Script { seed, address: RecipientChoice::Often, failure_percent: 0 };
        let mut run = SimulatedRun::complete(&team, script, FaultSchedule::default(), order);
        let conflicts = |run: &SimulatedRun| run.log.iter().filter(|e| matches!(e, Event::StepConflicted(_))).count();
        let before = conflicts(&run);
        prop_assert_eq!(before > 0, run.env().status == Status::Failed, "nothing else goes wrong here");
        if before == 0 {
            return Ok(());
        }
        for reducer in team.scopes.values_mut() {
            reducer.get_or_insert(Reducer::Append);
        }
        run.resume_as(team);
        run.run_to_end();
        prop_assert_eq!(conflicts(&run), before);
        prop_assert!(matches!(run.env().status, Status::Done | Status::Stalled | Status::StepLimit));
    }
}
