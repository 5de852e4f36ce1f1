//! Order and privacy: the order in which things arrive changes nothing, what is sent in a step is
//! received in the next, and no role sees what is private to another.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{
    AttemptEvent, Event, MessageSent, RunStarted, Status, StepCommitted, StepConflicted,
};
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;

use strata_core::record::work::ActivationKey;
use strata_core::state::activation::Activation;
use strata_core::state::environment::scope::ScopeKey;
use strata_core::state::environment::{Environment, Mail};
use strata_core::state::messages::MessageRef;
use strata_core::team::Team;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::manual_run::mail;
use crate::script::{RecipientChoice, Script};
use crate::state_view::{StateView, state_view};
use crate::teams::{SCOPES, any_team, cases};

const SOME_FAULTS: FaultSchedule = FaultSchedule {
    kills: 2,
    stops: 1,
    mail: 3,
    resumes: 2,
    change: ResumeChange::Nothing,
};

fn script(seed: u64) -> Script {
    Script {
        seed,
        address: RecipientChoice::Often,
        failure_percent: 20,
    }
}

/// Returns what a run looks like after each step and at each end.
fn milestones(team: &Team, seed: u64, order: u64) -> Vec<(Status, StateView)> {
    let run = SimulatedRun::complete(
        team,
        script(seed),
        FaultSchedule {
            resumes: 2,
            ..FaultSchedule::default()
        },
        order,
    );
    let stone = |event: &Event| matches!(event, Event::StepCommitted(_) | Event::RunEnded(_));
    let all = run
        .log
        .iter()
        .zip(&run.states)
        .filter(|(event, _)| stone(event));
    all.map(|(_, state)| (state.status, state_view(state)))
        .collect()
}

/// Returns the roles that an event concerns.
fn acting_roles(event: &Event) -> Vec<RoleId> {
    match event {
        Event::Attempt(
            call,
            AttemptEvent::CallStarted(_)
            | AttemptEvent::HostCalled(_)
            | AttemptEvent::MoneyReserved(_)
            | AttemptEvent::CallSuspended(_)
            | AttemptEvent::CallFinished(_)
            | AttemptEvent::CallFailed(_)
            | AttemptEvent::RetryDue,
        ) => vec![call.role],
        Event::StepConflicted(StepConflicted { writers, .. }) => {
            writers.iter().map(|writer| writer.call.role).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns what all roles can see that the event does not concern.
fn seen_by_others(
    env: &Environment,
    acting_roles: &[RoleId],
) -> BTreeMap<RoleId, (Vec<Mail>, Vec<MessageRef>, String)> {
    let others = (0..env.roles.len() as u16)
        .map(RoleId)
        .filter(|id| !acting_roles.contains(id));
    let visible_state = |id: RoleId| {
        (
            env.role(id).mailbox.clone(),
            env.memory(ActivationKey::of_mail(id)).collect(),
            format!("{:?}", env.role(id).scope),
        )
    };
    others.map(|id| (id, visible_state(id))).collect()
}

/// Returns the environment with everything altered that is private to roles other than `id`.
fn scrambled(env: &Environment, id: RoleId) -> Environment {
    let mut env = env.clone();
    let secret = env.add_message(mail("a secret", "l0", &[]));
    for (i, role) in env
        .roles
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| *i != id.index())
    {
        role.mailbox = vec![Mail::batched(secret)];
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
            current_call: current,
            ..
        }) = &mut role.activation
        {
            news.push(secret);
            current.recorded_calls.clear();
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
        // Which role can still pay when the money runs out depends on the order.
        team.policy.budget = None;
        team.policy.scoped_budgets = Default::default();
        let mut other = team.clone();
        other.policy.max_parallel = parallel;
        prop_assert_eq!(milestones(&team, seed, orders[0]), milestones(&other, seed, orders[1]));
    }

    #[test]
    fn nothing_that_is_sent_or_written_in_a_step_is_seen_before_the_next(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, script(seed), SOME_FAULTS, order);
        for (pair, event) in run.states.windows(2).zip(&run.log[1..]) {
            let [before, after] = pair else { unreachable!("windows of two") };
            if !(before.is_step_open && after.is_step_open) {
                continue;
            }
            prop_assert_eq!(&before.shared_scopes, &after.shared_scopes, "{:?}", event);
            prop_assert!(before.roles.iter().map(|role| &role.scope).eq(after.roles.iter().map(|role| &role.scope)));
            prop_assert_eq!(&before.joins, &after.joins, "{:?}", event);
            if matches!(event, Event::MessageSent(_)) {
                continue;
            }
            prop_assert_eq!(&before.history, &after.history, "{:?}", event);
            prop_assert_eq!(&before.dead_letters, &after.dead_letters);
            let acting_roles = acting_roles(event);
            prop_assert_eq!(seen_by_others(before, &acting_roles), seen_by_others(after, &acting_roles), "{:?}", event);
            prop_assert!(before.roles.iter().map(|role| &role.mailbox).eq(after.roles.iter().map(|role| &role.mailbox)));
        }
    }

    #[test]
    fn a_role_handles_only_what_was_published_in_earlier_steps(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, script(seed), SOME_FAULTS, order);
        let mut published: BTreeSet<String> = BTreeSet::new();
        let mut calls = run.calls.iter().peekable();
        for (at, event) in run.log.iter().enumerate() {
            match event {
                Event::RunStarted(RunStarted { routed, .. }) | Event::MessageSent(MessageSent { routed, .. }) => {
                    published.insert(routed.id.0.clone());
                }
                Event::StepCommitted(StepCommitted { routed, .. }) => published.extend(routed.iter().map(|routed| routed.id.0.clone())),
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
        let run = SimulatedRun::complete(&team, script(seed), SOME_FAULTS, order);
        for (at, call) in &run.calls {
            let (before, id) = (&run.states[at - 1], call.role);
            let other = Stepper::new(run.team().clone(), scrambled(before, id));
            prop_assert_eq!(other.next(), Effect::Call(call.clone()));
            for label in [None, Some("l0")] {
                prop_assert_eq!(before.recent_memory(ActivationKey::of_mail(id), label, 9), other.env().recent_memory(ActivationKey::of_mail(id), label, 9));
            }
            for scope in SCOPES.iter().copied().chain(["role"]) {
                let keys = |env: &Environment| env.scope_keys(run.team(), ActivationKey::of_mail(id), scope, &[]);
                let read = |env: &Environment| env.read_key(run.team(), ActivationKey::of_mail(id), ScopeKey { scope, key: "k0" }, None, &[]);
                prop_assert_eq!((keys(before), read(before)), (keys(other.env()), read(other.env())));
            }
        }
    }
}
