//! Long runs from fixed seeds, with everything at once: kills, stops, faults, messages from
//! outside, changed teams. The properties are checked for the run as a whole. `SIMULATION_LIVES`
//! sets the number of runs.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{Event, Status};
use strata_core::state::environment::Environment;
use strata_core::team::Team;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script};
use crate::teams::{any_team, cases};

const RUNS: u64 = 30;
const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 12,
    stops: 8,
    mail: 10,
    resumes: 40,
    change: ResumeChange::Everything,
};

/// Returns the team of a seed.
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
        address: RecipientChoice::Often,
        failure_percent: 20,
    };
    let run = SimulatedRun::complete(&team(seed), script, MANY_FAULTS, seed);
    let mut stepper = Stepper::new(run.team().clone(), Environment::new(run.team()));
    for (event, state) in run.log.iter().zip(&run.states) {
        stepper
            .apply(event)
            .expect("what was recorded can be read back");
        assert_eq!(stepper.env(), state, "seed {seed}");
        assert!(
            state.checkpoint.is_some() && state.checkpoint != state.parent,
            "seed {seed}"
        );
    }
    let ends = run
        .log
        .iter()
        .filter(|event| matches!(event, Event::RunEnded(_)))
        .count();
    let resumes = run
        .log
        .iter()
        .filter(|event| matches!(event, Event::RunResumed(_)))
        .count();
    assert!(
        ends <= resumes + 1,
        "seed {seed}: a run that ended goes on only when it is resumed"
    );
    run.env().status
}

#[test]
fn long_runs_in_any_weather_end_and_are_read_back_to_every_moment() {
    let lives = std::env::var("SIMULATION_LIVES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(RUNS);
    let ends: Vec<Status> = (0..lives).map(live).collect();
    let quiet = ends
        .iter()
        .filter(|status| matches!(status, Status::Done | Status::Stalled));
    assert!(
        quiet.count() * 2 > ends.len(),
        "most get done, or as far as their joins let them: {ends:?}"
    );
}
