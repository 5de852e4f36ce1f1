//! Long lives from fixed seeds, with everything at once: kills, stops, faults, mail, mended teams.
//! What the laws say of a part is asked here of the whole. `SIMULATION_LIVES` sets how many are
//! lived.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use strata_core::environment::Environment;
use strata_core::event::{Event, Status};
use strata_core::stepper::Stepper;
use strata_core::team::Team;

use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script};
use crate::teams::{any_team, cases};

const LIVES: u64 = 30;
const STORMY: Weather = Weather {
    kills: 12,
    stops: 8,
    mail: 10,
    resumes: 40,
    change: Change::Everything,
};

/// The team of a seed.
fn team(seed: u64) -> Team {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner =
        TestRunner::new_with_rng(cases(1), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let mut team = any_team().new_tree(&mut runner).expect("a team").current();
    team.policy.max_steps = Some(25);
    team
}

fn live(seed: u64) -> Status {
    let script = Script {
        seed,
        address: Address::Often,
        trouble: 20,
    };
    let life = Life::tell(&team(seed), script, STORMY, seed);
    let mut stepper = Stepper::new(life.team().clone(), Environment::new(life.team()));
    for (event, state) in life.log.iter().zip(&life.states) {
        stepper
            .apply(event)
            .expect("what was recorded can be read back");
        assert_eq!(stepper.env(), state, "seed {seed}");
        assert!(
            state.checkpoint.is_some() && state.checkpoint != state.parent,
            "seed {seed}"
        );
    }
    let ends = life
        .log
        .iter()
        .filter(|event| matches!(event, Event::RunEnded { .. }))
        .count();
    let resumes = life
        .log
        .iter()
        .filter(|event| matches!(event, Event::RunResumed { .. }))
        .count();
    assert!(
        ends <= resumes + 1,
        "seed {seed}: a run that ended goes on only when it is resumed"
    );
    life.env().status
}

#[test]
fn long_lives_in_any_weather_end_and_are_read_back_to_every_moment() {
    let lives = std::env::var("SIMULATION_LIVES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(LIVES);
    let ends: Vec<Status> = (0..lives).map(live).collect();
    let quiet = ends
        .iter()
        .filter(|status| matches!(status, Status::Done | Status::Stalled));
    assert!(
        quiet.count() * 2 > ends.len(),
        "most get done, or as far as their joins let them: {ends:?}"
    );
}
