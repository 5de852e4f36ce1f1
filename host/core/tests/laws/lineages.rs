//! Lineages: going back to any checkpoint repeats what came after it, and does not change what was
//! before.

use std::collections::BTreeSet;

use proptest::prelude::*;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::TokenUsage;
use strata_core::record::edit::{Edit, EditedScope};
use strata_core::record::event::{
    AttemptEvent, Event, Forked, HostCalled, MoneyReserved, StepCommitted,
};
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, HostCall, HostCallKind, ModelUse,
};
use strata_core::record::id::{CheckpointId, RoleId};
use strata_core::record::json::Json;
use strata_core::record::lineage::{last_common_checkpoint, parse_checkpoint_id};
use strata_core::record::money::Usd;
use strata_core::record::spending::{Account, Amount, Reservation, Spending};
use strata_core::record::work::{ActivationKey, CallKey, Work};
use strata_core::state::budget::charged_slot;
use strata_core::state::environment::Environment;
use strata_core::state::environment::scope::ScopeKey;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::manual_run::{ManualRun, says, writes};
use crate::rng::Rng;
use crate::script::{RecipientChoice, Script};
use crate::state_view::state_view;
use crate::teams::{any_team, cases, role, steady_team, team};

const MANY_FAULTS: FaultSchedule = FaultSchedule {
    kills: 3,
    stops: 3,
    mail: 0,
    resumes: 400,
    change: ResumeChange::ComponentsAndCalls,
};

/// Returns the indices in the log of the events that made checkpoints.
fn checkpoints(run: &SimulatedRun) -> Vec<usize> {
    let checkpoint_index = |(at, state): (usize, &Environment)| {
        let before = at
            .checked_sub(1)
            .and_then(|at| run.states[at].checkpoint.as_ref());
        (state.checkpoint.as_ref() != before).then_some(at)
    };
    run.states
        .iter()
        .enumerate()
        .filter_map(checkpoint_index)
        .collect()
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn from_every_checkpoint_a_run_ends_as_it_did(team in steady_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 30 }, MANY_FAULTS, order);
        let all = checkpoints(&run);
        let mut rng = Rng::new(order, "checkpoints");
        for i in 0..4 {
            let at = *rng.pick(&all);
            let fork = run.fork(at, &format!("main.{i}"), order ^ i);
            prop_assert_eq!(fork.env().status, run.env().status);
            prop_assert_eq!(state_view(fork.env()), state_view(run.env()));
            // What was recorded before is unchanged.
            prop_assert_eq!(&fork.log[..=at], &run.log[..=at]);
            // A fork of the fork.
            let all = checkpoints(&fork);
            let again = fork.fork(*rng.pick(&all), &format!("main.{i}.again"), order);
            prop_assert_eq!(state_view(again.env()), state_view(run.env()));
        }
    }

    #[test]
    fn steps_and_checkpoints_count_on_and_the_chain_is_unbroken(team in any_team(), seed: u64, order: u64) {
        let faults = FaultSchedule { resumes: 4, ..MANY_FAULTS };
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 25 }, faults, order);
        let mut rng = Rng::new(order, "checkpoints");
        let at = *rng.pick(&checkpoints(&run));
        let fork = run.fork(at, "main.1", order);
        let mut numbers = Vec::new();
        let mut newest: Option<CheckpointId> = None;
        for place_of in checkpoints(&fork) {
            let state = &fork.states[place_of];
            // Whatever stopped the first step, its parent is the first checkpoint.
            let is_first = matches!(fork.log[place_of], Event::StepCommitted(StepCommitted { step: 0, .. }));
            let above = if is_first { Some(state.lineage.first_own_checkpoint()) } else { newest };
            prop_assert_eq!(&state.parent, &above);
            newest = state.checkpoint.clone();
            numbers.push(newest.as_ref().and_then(parse_checkpoint_id).expect("a name of ours").1);
        }
        prop_assert_eq!(&numbers, &(0..numbers.len() as u64).collect::<Vec<_>>());
        prop_assert!(fork.states.windows(2).all(|pair| pair[0].step <= pair[1].step && pair[0].spent <= pair[1].spent));
        let head = |run: &SimulatedRun| run.env().checkpoint.clone().expect("a checkpoint");
        let shared = last_common_checkpoint(&run.env().lineage, &head(&run), &fork.env().lineage, &head(&fork));
        prop_assert_eq!(shared, run.states[at].checkpoint.clone());
    }

    #[test]
    fn no_two_lineages_share_a_key_but_all_share_their_seeds(team in steady_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 20 }, MANY_FAULTS, order);
        let at = *Rng::new(order, "checkpoints").pick(&checkpoints(&run));
        let fork = run.fork(at, "main.1", order);
        let keys = |run: &SimulatedRun, after: usize| -> BTreeSet<String> {
            let later = run.calls.iter().filter(|(start, _)| *start > after);
            later.map(|(_, call)| call.idempotency_key.clone()).collect()
        };
        prop_assert!(keys(&fork, at).is_disjoint(&keys(&run, 0)));
        let seeds: BTreeSet<&str> = run.calls.iter().map(|(_, call)| call.seed.as_str()).collect();
        prop_assert!(fork.calls.iter().all(|(_, call)| seeds.contains(call.seed.as_str())));
        prop_assert!(run.calls.iter().all(|(_, call)| call.seed == call.idempotency_key));
    }
}

/// Returns a run of a team with a shared scope `s0`, in which A writes `k` and then B and C act.
fn three() -> ManualRun {
    let mut team = team(vec![
        role("A", &["UserRequirement"], &["a"]),
        role("B", &["a"], &["b"]),
        role("C", &["b"], &["c"]),
    ]);
    team.scopes.insert("s0".into(), None);
    let mut run = ManualRun::start(team);
    run.act(Ok(writes("from a", &[("k", 5)])));
    run.act(Ok(says("from b")));
    run
}

fn number(value: i64) -> Json {
    Json::from(serde_json::Value::from(value))
}

fn edit(scope: EditedScope, key: &str, value: i64) -> Edit {
    Edit {
        scope,
        key: key.into(),
        value: number(value),
    }
}

/// Returns a run that continues from the first checkpoint after the entry, with these edits.
fn fork(run: &ManualRun, edits: Vec<Edit>) -> ManualRun {
    let committed =
        |event: &Event| matches!(event, Event::StepCommitted(StepCommitted { step: 0, .. }));
    let at = run.log.iter().position(committed).expect("a commit");
    let mut stepper = run.stepper.with_env(Environment::new(run.stepper.team()));
    run.log[..=at]
        .iter()
        .for_each(|event| stepper.apply(event).expect("it fits"));
    let mut fork = ManualRun {
        stepper,
        log: run.log[..=at].to_vec(),
    };
    let event = fork
        .stepper
        .forked_event("main.1".into(), edits, run.env().account())
        .expect("a checkpoint");
    fork.record(event);
    fork.record(fork.stepper.run_resumed_event(None, CallPolicy::Auto));
    fork
}

#[test]
fn edits_hold_in_the_new_lineage_and_nowhere_else() {
    let run = three();
    let edits = vec![
        edit(EditedScope::Shared("s0".into()), "k", 9),
        edit(EditedScope::Shared("s0".into()), "new", 1),
        edit(EditedScope::Role(RoleId(1)), "own", 2),
    ];
    let mut other = fork(&run, edits);
    let team = other.stepper.team().clone();
    let read = |run: &ManualRun, role: u16, at: (&str, &str)| {
        run.env()
            .read_key(
                &team,
                ActivationKey::of_mail(RoleId(role)),
                ScopeKey {
                    scope: at.0,
                    key: at.1,
                },
                None,
                &[],
            )
            .expect("a scope")
    };
    assert_eq!(read(&other, 2, ("s0", "k")), Some(number(9)));
    assert_eq!(read(&other, 2, ("s0", "new")), Some(number(1)));
    assert_eq!(read(&other, 1, ("role", "own")), Some(number(2)));
    assert_eq!(read(&other, 2, ("role", "own")), None);
    assert_eq!(read(&run, 2, ("s0", "k")), Some(number(5)));
    let call = other.act(Ok(says("from b")));
    assert_eq!(
        (call.idempotency_key.as_str(), call.seed.as_str()),
        ("run@main.1/1/B/0", "run/1/B/0")
    );
    other.act(Ok(says("from c")));
    other.halt();
    assert_eq!(read(&other, 2, ("s0", "k")), Some(number(9)));
    assert_eq!(other.history(), ["idea", "from a", "from b", "from c"]);
}

#[test]
fn going_back_gives_no_money_back() {
    let mut run = three();
    let call = run.call();
    run.ask(&call, "q", 7);
    let other = fork(&run, Vec::new());
    assert_eq!(
        (other.env().spent, &other.env().ledger),
        (Usd(7), &run.env().ledger)
    );
    assert!(!run.env().ledger.is_empty());
}

#[test]
fn a_fork_that_cannot_have_happened_is_refused_and_leaves_the_state_untouched() {
    let mut run = three();
    let stop = run
        .stepper
        .run_ended_event(strata_core::record::event::Status::Interrupted);
    run.record(stop);
    let good = run
        .stepper
        .forked_event("main.1".into(), Vec::new(), run.env().account())
        .expect("a checkpoint");
    type Forge = fn(&mut String, &mut CheckpointId, &mut CheckpointId, &mut u64);
    let forges: [Forge; 7] = [
        |name, _, _, _| name.clear(),
        |name, _, id, _| (*name, *id) = ("main".into(), "main-3".into()),
        |_, from, _, _| *from = "main-1".into(),
        |_, _, id, _| *id = "main.1-9".into(),
        |_, _, id, _| *id = "main-3".into(),
        |_, _, _, step| *step += 1,
        |name, _, _, _| name.push('1'),
    ];
    let refused = |event: &Event| {
        let mut stepper = run.stepper.clone();
        assert!(stepper.apply(event).is_err(), "{event:?}");
        assert_eq!(stepper.env(), run.env());
    };
    for forge in forges {
        let mut event = good.clone();
        let Event::Forked(Forked {
            lineage,
            from,
            checkpoint,
            step,
            ..
        }) = &mut event
        else {
            panic!("a fork")
        };
        forge(lineage, from, checkpoint, step);
        refused(&event);
    }
    run.stepper.clone().apply(&good).expect("it fits");
}

#[test]
fn a_fork_that_edits_what_does_not_exist_is_refused() {
    let mut run = three();
    let stop = run
        .stepper
        .run_ended_event(strata_core::record::event::Status::Interrupted);
    run.record(stop);
    for scope in [
        EditedScope::Shared("none".into()),
        EditedScope::Role(RoleId(3)),
    ] {
        let event = run
            .stepper
            .forked_event(
                "main.1".into(),
                vec![edit(scope, "k", 1)],
                run.env().account(),
            )
            .expect("a checkpoint");
        let mut stepper = run.stepper.clone();
        assert!(stepper.apply(&event).is_err(), "{event:?}");
        assert_eq!(stepper.env(), run.env());
    }
}

#[test]
fn a_fork_that_gives_money_back_is_refused() {
    let mut paid = three();
    let call = paid.call();
    paid.ask(&call, "q", 7);
    paid.record(
        paid.stepper
            .run_ended_event(strata_core::record::event::Status::Interrupted),
    );
    let event = paid
        .stepper
        .forked_event("main.1".into(), Vec::new(), paid.env().account())
        .expect("a checkpoint");
    let Event::Forked(Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        account,
        questions,
    }) = event
    else {
        panic!("a fork")
    };
    let account = Account {
        spent: Usd(6),
        ..account
    };
    let cheap = Event::Forked(Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        account,
        questions,
    });
    assert!(Stepper::apply(&mut paid.stepper.clone(), &cheap).is_err());
}

#[test]
fn a_fork_takes_over_the_account_of_all_lineages() {
    let mut run = three();
    let call = run.call();
    let (kind, request, response) = (HostCallKind::Llm, "q".into(), Json::null());
    let answer = HostCall {
        kind,
        request,
        response,
        cost: Usd(7),
        outcome: CallOutcome::Answered,
        model: Some(ModelUse {
            usage: TokenUsage {
                input: 3,
                ..TokenUsage::default()
            },
            ..ModelUse::default()
        }),
    };
    let (role, work, source) = (call.role, call.work, AnswerSource::Live);
    run.record(Event::Attempt(
        CallKey::new(role, work),
        AttemptEvent::HostCalled(HostCalled {
            call: answer,
            source,
            summary: String::new(),
        }),
    ));
    let used = run.env().account();
    let account = Account {
        budget: Some(Usd(100)),
        ..used.clone()
    };
    let mut early = run.stepper.with_env(Environment::new(run.stepper.team()));
    run.log[..1]
        .iter()
        .for_each(|event| early.apply(event).expect("it fits"));
    let event = early
        .forked_event("main.1".into(), Vec::new(), account.clone())
        .expect("a checkpoint");
    early.apply(&event).expect("it fits");
    assert_eq!(early.env().account(), account);
    assert_eq!(early.env().spending(|at| at.role == call.role).tokens, 3);
    // Nothing is refunded, whichever lineage knows less.
    let event = run
        .stepper
        .forked_event("main.2".into(), Vec::new(), Account::default())
        .expect("a checkpoint");
    run.record(event);
    assert_eq!((run.env().spent, &run.env().ledger), (Usd(7), &used.ledger));
}

#[test]
fn what_is_held_back_when_a_run_is_left_is_paid_once_by_the_fork() {
    let mut run = three();
    let call = run.call();
    run.ask(&call, "q", 7);
    let reserved = Reservation {
        request: "r".into(),
        amount: Amount {
            usd: Usd(10),
            tokens: 5,
        },
    };
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::MoneyReserved(MoneyReserved { reserved }),
    ));
    run.record(
        run.stepper
            .run_ended_event(strata_core::record::event::Status::Interrupted),
    );
    let team = run.stepper.team().clone();
    assert_eq!(run.env().account().spent, Usd(7));
    let left = run.env().account_at_stop(&team);
    let used = &left.ledger[&charged_slot(call.role, call.work)];
    assert_eq!((left.spent, used.usd, used.tokens), (Usd(17), Usd(17), 5));
    run.record(
        run.stepper
            .forked_event("main.1".into(), Vec::new(), left.clone())
            .expect("a checkpoint"),
    );
    run.record(run.stepper.run_resumed_event(None, CallPolicy::Auto));
    assert_eq!(
        (run.env().spent, &run.env().ledger),
        (Usd(17), &left.ledger)
    );
}

#[test]
fn an_account_learns_what_others_used_up_and_forgets_nothing() {
    let slot = |role| charged_slot(RoleId(role), Work::Plan);
    let used = |usd, tokens| Spending {
        usd: Usd(usd),
        tokens,
        calls: usd,
        served: tokens,
        saved: Usd(tokens),
        truncated: usd,
        refused: tokens,
        lost: Usd(usd),
    };
    let mut account = Account {
        ledger: [(slot(0), used(5, 1)), (slot(1), used(1, 1))].into(),
        ..Account::default()
    };
    let other = Account {
        ledger: [(slot(0), used(3, 4)), (slot(2), used(2, 2))].into(),
        ..Account::default()
    };
    account.merge_ledger(&other);
    let expected = used(5, 4);
    assert_eq!(
        account.ledger,
        [
            (slot(0), expected),
            (slot(1), used(1, 1)),
            (slot(2), used(2, 2))
        ]
        .into()
    );
}

#[test]
fn a_fork_takes_no_name_that_its_checkpoints_bear() {
    let other = fork(&three(), Vec::new());
    let account = other.env().account();
    for (name, fits) in [("main", false), ("main.1", false), ("main.2", true)] {
        let event = other
            .stepper
            .forked_event(name.into(), Vec::new(), account.clone())
            .expect("a checkpoint");
        assert_eq!(other.stepper.clone().apply(&event).is_ok(), fits, "{name}");
    }
}
