//! How much a run keeps is bounded, and known at any time.

use std::sync::Arc;

use proptest::prelude::*;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_core::record::fault::FaultKind;
use strata_core::record::host_call::CallPolicy;
use strata_core::record::id::RoleId;
use strata_core::record::message::{IDEA_LABEL, TO_SELF};
use strata_core::state::activation::Phase;
use strata_core::team::Team;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::manual_run::{ManualRun, mail, says};
use crate::script::{RecipientChoice, Script};
use crate::teams::{any_team, cases, edge, role, team};

const SOME_FAULTS: FaultSchedule = FaultSchedule {
    kills: 1,
    stops: 1,
    mail: 2,
    resumes: 3,
    change: ResumeChange::Everything,
};

proptest! {
    #![proptest_config(cases(64))]

    // That the running total equals a count after each event is asserted where events are applied.
    #[test]
    fn what_a_run_keeps_is_the_same_when_it_is_loaded(team in any_team(), seed: u64, order: u64) {
        let script = Script { seed, address: RecipientChoice::Often, failure_percent: 10 };
        let run = SimulatedRun::complete(&team, script, SOME_FAULTS, order);
        let shared = Arc::new(team);
        let mut live = Stepper::new(shared.clone(), run.states[0].clone());
        for (event, state) in run.log[1..].iter().zip(&run.states[1..]) {
            live.apply(event).expect("a recorded event");
            let loaded = Stepper::new(shared.clone(), state.clone());
            prop_assert_eq!(live.kept_bytes(), loaded.kept_bytes(), "{:?}", event);
        }
    }
}

/// Returns a team whose role writes to itself for ever, and that may keep this much.
fn endless_team(state_bytes: u64) -> Team {
    let mut team = team(vec![role("R0", &[IDEA_LABEL], &["l0"])]);
    team.routes = vec![edge(0, &[TO_SELF])];
    team.policy.state_bytes = state_bytes;
    team
}

#[test]
fn a_result_that_is_too_much_for_the_run_is_a_fault_and_a_higher_limit_helps() {
    let mut run = ManualRun::start(endless_team(20_000));
    let text = "x".repeat(4000);
    let mut before = run.stepper.kept_bytes();
    for _ in 0..4 {
        run.act(Ok(says(&text)));
        let after = run.stepper.kept_bytes();
        assert!(after >= before + 4000 && after <= 20_000, "{after}");
        before = after;
    }
    run.act(Ok(says(&text)));
    assert_eq!(run.halt(), Status::Failed);
    // What is refused is not kept. Only what was delivered before has been added.
    let after = run.stepper.kept_bytes();
    assert!((before..before + 100).contains(&after), "{after}");
    let activation = run.env().role(RoleId(0)).activation.clone();
    let Some(Phase::Failed(fault)) = activation.map(|activation| activation.phase) else {
        panic!("it did not fail");
    };
    assert_eq!(fault.kind, FaultKind::Memory);
    let expected = "`state` in `[run]` allows";
    assert!(fault.message.contains(expected), "{}", fault.message);
    let message = mail(&text, "l0", &[]);
    assert!(run.stepper.check_room_for(&message).is_err());
    run.resume(endless_team(40_000), CallPolicy::Auto);
    assert!(run.stepper.check_room_for(&message).is_ok());
    run.act(Ok(says(&text)));
    assert!(run.stepper.kept_bytes() > 20_000);
}

#[test]
fn the_fault_of_a_limit_that_an_operator_has_lowered_says_so() {
    let mut team = endless_team(100);
    team.policy.lowered.state_bytes = Some("its operator allows no more, p.toml:1".into());
    let mut run = ManualRun::start(team);
    run.act(Ok(says(&"x".repeat(4000))));
    let activation = run.env().role(RoleId(0)).activation.clone();
    let Some(Phase::Failed(fault)) = activation.map(|activation| activation.phase) else {
        panic!("it did not fail");
    };
    let expected = " MiB (its operator allows no more, p.toml:1)";
    assert!(fault.message.ends_with(expected), "{}", fault.message);
}

#[test]
fn a_message_counts_for_each_role_that_receives_it() {
    // The size of a reference in `kept_bytes`.
    const REFERENCE_BYTES: u64 = 16;
    let grown = |receivers: usize| {
        let names: Vec<String> = (0..receivers)
            .map(|index| format!("R{}", index + 1))
            .collect();
        let others = names.iter().map(|name| role(name, &["l0"], &[name]));
        let roles = [role("R0", &[IDEA_LABEL], &["l0"])]
            .into_iter()
            .chain(others);
        let mut run = ManualRun::start(team(roles.collect()));
        let before = run.stepper.kept_bytes();
        run.act(Ok(says("text")));
        run.go();
        run.stepper.kept_bytes() - before
    };
    assert_eq!(grown(200) - grown(100), 100 * REFERENCE_BYTES);
}
