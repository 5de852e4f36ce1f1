//! What is recorded is the state: replays and snapshots.

use std::sync::Arc;

use proptest::prelude::*;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::work::ActivationKey;
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::rng::Rng;
use crate::script::{RecipientChoice, Script};
use crate::teams::{self, any_team};

const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 3,
    stops: 2,
    mail: 3,
    resumes: 3,
    change: ResumeChange::Everything,
};

/// Returns a run with disturbances.
fn simulate(team: &Team, seed: u64, order: u64) -> SimulatedRun {
    SimulatedRun::complete(
        team,
        Script {
            seed,
            address: RecipientChoice::Often,
            failure_percent: 25,
        },
        MANY_FAULTS,
        order,
    )
}

/// Returns all states of a run that is replayed: that before the first event, then that after each
/// event.
fn replay(team: &Arc<Team>, log: &[Event]) -> Vec<Environment> {
    let mut stepper = Stepper::new(team.clone(), Environment::new(team));
    let mut states = vec![stepper.env().clone()];
    for event in log {
        stepper
            .apply(event)
            .expect("what was recorded can be read back");
        states.push(stepper.env().clone());
    }
    states
}

/// Returns a state after it was encoded and decoded.
pub fn read_back(state: &Environment) -> Environment {
    let bytes = postcard::to_allocvec(&(state.messages.iter().collect::<Vec<_>>(), state))
        .expect("a state can be written");
    let (messages, env) =
        postcard::from_bytes::<(Vec<_>, Environment)>(&bytes).expect("a state can be read");
    Environment {
        messages: messages.into_iter().collect(),
        ..env
    }
}

proptest! {
    #![proptest_config(teams::cases(96))]

    #[test]
    fn what_is_read_back_equals_what_was_lived(team in any_team(), seed: u64, order: u64) {
        // It is replayed under the final team, whatever the team was then.
        let run = simulate(&team, seed, order);
        prop_assert_eq!(&replay(run.team(), &run.log)[1..], &run.states[..]);
    }

    #[test]
    fn a_snapshot_and_the_tail_equal_a_full_replay(team in any_team(), seed: u64, order: u64) {
        let run = simulate(&team, seed, order);
        let mut rng = Rng::new(order, "snapshots");
        for _ in 0..6 {
            let at = rng.below(run.states.len());
            let read = read_back(&run.states[at]);
            prop_assert_eq!(&read, &run.states[at]);
            let mut stepper = Stepper::new(run.team().clone(), read);
            for event in &run.log[at + 1..] {
                stepper.apply(event).expect("the tail fits the snapshot");
            }
            prop_assert_eq!(stepper.env(), run.env());
        }
    }

    #[test]
    fn settled_messages_stay_as_they_are_and_never_become_fewer(team in any_team(), seed: u64, order: u64) {
        let run = simulate(&team, seed, order);
        for states in run.states.windows(2) {
            let (settled, later) = (states[0].final_message_count(), states[1].final_message_count());
            prop_assert!(settled <= later, "{settled}, then {later}");
            let [before, after] = [0, 1].map(|i| states[i].messages.range(0..settled).collect::<Vec<_>>());
            prop_assert_eq!(before, after);
        }
        if run.env().is_quiet() {
            prop_assert_eq!(run.env().final_message_count(), run.env().messages.len());
        }
    }

    #[test]
    fn what_is_next_follows_from_the_state_alone_however_it_was_reached(team in any_team(), seed: u64, order: u64) {
        let run = simulate(&team, seed, order);
        let mut stepper = Stepper::new(run.team().clone(), Environment::new(run.team()));
        for event in &run.log {
            stepper.apply(event).expect("what was recorded can be read back");
            prop_assert_eq!(stepper.next(), stepper.with_env(stepper.env().clone()).next());
        }
    }

    #[test]
    fn what_is_remembered_by_label_is_what_a_look_at_all_of_it_finds(team in any_team(), seed: u64, order: u64) {
        let run = simulate(&team, seed, order);
        let mut rng = Rng::new(order, "labels");
        let mut stepper = Stepper::new(run.team().clone(), Environment::new(run.team()));
        for event in &run.log {
            stepper.apply(event).expect("what was recorded can be read back");
            let Some(message) = stepper.env().messages.last() else { continue };
            let (label, limit) = (message.cause_by.clone(), rng.below(4));
            for id in run.team().role_ids() {
                let found = stepper.env().recent_memory(ActivationKey::of_mail(id), Some(&label), limit);
                prop_assert_eq!(stepper.recent_memory(ActivationKey::of_mail(id), Some(&label), limit), found);
            }
        }
    }

    #[test]
    fn every_event_survives_being_written_and_read(team in any_team(), seed: u64, order: u64) {
        let run = simulate(&team, seed, order);
        for event in &run.log {
            let bytes = postcard::to_allocvec(event).expect("an event can be written");
            prop_assert_eq!(&postcard::from_bytes::<Event>(&bytes).expect("an event can be read"), event);
        }
    }
}
