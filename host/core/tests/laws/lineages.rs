//! Lineages: going back to any checkpoint repeats what came after it, and changes nothing about
//! what was.

use std::collections::BTreeSet;

use proptest::prelude::*;
use strata_core::budget::{Account, Amount, Reserved, Spending, spender};
use strata_core::edit::{Edit, Edited};
use strata_core::environment::Environment;
use strata_core::environment::lineage::{common, place};
use strata_core::environment::scope::ScopeKey;
use strata_core::event::{CallPolicy, Event, HostCall, HostCallKind, Outcome, Source, Work};
use strata_core::id::{CheckpointId, RoleId};
use strata_core::json::Json;
use strata_core::money::Usd;
use strata_core::stepper::Stepper;

use crate::dice::Dice;
use crate::hand::{Hand, says, writes};
use crate::life::{Change, Life, Weather};
use crate::script::{Address, Script};
use crate::teams::{any_team, cases, role, steady_team, team};
use crate::view::view;

const STORMY: Weather = Weather {
    kills: 3,
    stops: 3,
    mail: 0,
    resumes: 400,
    change: Change::Circumstances,
};

/// The places in the log of the events that made checkpoints.
fn checkpoints(life: &Life) -> Vec<usize> {
    let made = |(at, state): (usize, &Environment)| {
        let before = at
            .checked_sub(1)
            .and_then(|at| life.states[at].checkpoint.as_ref());
        (state.checkpoint.as_ref() != before).then_some(at)
    };
    life.states.iter().enumerate().filter_map(made).collect()
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn from_every_checkpoint_a_life_ends_as_it_did(team in steady_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 30 }, STORMY, order);
        let all = checkpoints(&life);
        let mut dice = Dice::new(order, "checkpoints");
        for i in 0..4 {
            let at = *dice.pick(&all);
            let fork = life.fork(at, &format!("main.{i}"), order ^ i);
            prop_assert_eq!(fork.env().status, life.env().status);
            prop_assert_eq!(view(fork.env()), view(life.env()));
            // What was is as it was.
            prop_assert_eq!(&fork.log[..=at], &life.log[..=at]);
            // And a fork of the fork.
            let all = checkpoints(&fork);
            let again = fork.fork(*dice.pick(&all), &format!("main.{i}.again"), order);
            prop_assert_eq!(view(again.env()), view(life.env()));
        }
    }

    #[test]
    fn steps_and_checkpoints_count_on_and_the_chain_is_unbroken(team in any_team(), seed: u64, order: u64) {
        let weather = Weather { resumes: 4, ..STORMY };
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 25 }, weather, order);
        let mut dice = Dice::new(order, "checkpoints");
        let at = *dice.pick(&checkpoints(&life));
        let fork = life.fork(at, "main.1", order);
        let mut numbers = Vec::new();
        let mut newest: Option<CheckpointId> = None;
        for place_of in checkpoints(&fork) {
            let state = &fork.states[place_of];
            // Whatever stopped the first step, it lies below the beginning.
            let is_first = matches!(fork.log[place_of], Event::StepCommitted { step: 0, .. });
            let above = if is_first { Some(state.lineage.beginning()) } else { newest };
            prop_assert_eq!(&state.parent, &above);
            newest = state.checkpoint.clone();
            numbers.push(newest.as_ref().and_then(place).expect("a name of ours").1);
        }
        prop_assert_eq!(&numbers, &(0..numbers.len() as u64).collect::<Vec<_>>());
        prop_assert!(fork.states.windows(2).all(|pair| pair[0].step <= pair[1].step && pair[0].spent <= pair[1].spent));
        let head = |life: &Life| life.env().checkpoint.clone().expect("a checkpoint");
        let shared = common(&life.env().lineage, &head(&life), &fork.env().lineage, &head(&fork));
        prop_assert_eq!(shared, life.states[at].checkpoint.clone());
    }

    #[test]
    fn no_two_lineages_share_a_key_but_all_share_their_seeds(team in steady_team(), seed: u64, order: u64) {
        let life = Life::tell(&team, Script { seed, address: Address::Often, trouble: 20 }, STORMY, order);
        let at = *Dice::new(order, "checkpoints").pick(&checkpoints(&life));
        let fork = life.fork(at, "main.1", order);
        let keys = |life: &Life, after: usize| -> BTreeSet<String> {
            let later = life.calls.iter().filter(|(start, _)| *start > after);
            later.map(|(_, call)| call.idempotency_key.clone()).collect()
        };
        prop_assert!(keys(&fork, at).is_disjoint(&keys(&life, 0)));
        let seeds: BTreeSet<&str> = life.calls.iter().map(|(_, call)| call.seed.as_str()).collect();
        prop_assert!(fork.calls.iter().all(|(_, call)| seeds.contains(call.seed.as_str())));
        prop_assert!(life.calls.iter().all(|(_, call)| call.seed == call.idempotency_key));
    }
}

/// A shared scope `s0`, in which A writes `k` and after which B and C act.
fn three() -> Hand {
    let mut team = team(vec![
        role("A", &["UserRequirement"], &["a"]),
        role("B", &["a"], &["b"]),
        role("C", &["b"], &["c"]),
    ]);
    team.scopes.insert("s0".into(), None);
    let mut life = Hand::start(team);
    life.act(Ok(writes("from a", &[("k", 5)])));
    life.act(Ok(says("from b")));
    life
}

fn number(value: i64) -> Json {
    Json::from(serde_json::Value::from(value))
}

fn edit(scope: Edited, key: &str, value: i64) -> Edit {
    Edit {
        scope,
        key: key.into(),
        value: number(value),
    }
}

/// A hand that goes on from the first checkpoint after the entry, with these edits.
fn fork(life: &Hand, edits: Vec<Edit>) -> Hand {
    let committed = |event: &Event| matches!(event, Event::StepCommitted { step: 0, .. });
    let at = life.log.iter().position(committed).expect("a commit");
    let mut stepper = life.stepper.at(Environment::new(life.stepper.team()));
    life.log[..=at]
        .iter()
        .for_each(|event| stepper.apply(event).expect("it fits"));
    let mut fork = Hand {
        stepper,
        log: life.log[..=at].to_vec(),
    };
    let event = fork
        .stepper
        .forked("main.1".into(), edits, life.env().account())
        .expect("a checkpoint");
    fork.record(event);
    fork.record(fork.stepper.resumed(None, CallPolicy::Auto));
    fork
}

#[test]
fn edits_hold_in_the_new_lineage_and_nowhere_else() {
    let life = three();
    let edits = vec![
        edit(Edited::Shared("s0".into()), "k", 9),
        edit(Edited::Shared("s0".into()), "new", 1),
        edit(Edited::Role(RoleId(1)), "own", 2),
    ];
    let mut other = fork(&life, edits);
    let team = other.stepper.team().clone();
    let read = |life: &Hand, role: u16, at: (&str, &str)| {
        life.env()
            .read(
                &team,
                RoleId(role),
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
    assert_eq!(read(&life, 2, ("s0", "k")), Some(number(5)));
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
    let mut life = three();
    let call = life.call();
    life.ask(&call, "q", 7);
    let other = fork(&life, Vec::new());
    assert_eq!(
        (other.env().spent, &other.env().ledger),
        (Usd(7), &life.env().ledger)
    );
    assert!(!life.env().ledger.is_empty());
}

#[test]
fn a_fork_that_cannot_have_happened_is_refused_and_leaves_the_state_untouched() {
    let mut life = three();
    let stop = life.stepper.ended(strata_core::event::Status::Interrupted);
    life.record(stop);
    let good = life
        .stepper
        .forked("main.1".into(), Vec::new(), life.env().account())
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
        let mut stepper = life.stepper.clone();
        assert!(stepper.apply(event).is_err(), "{event:?}");
        assert_eq!(stepper.env(), life.env());
    };
    for forge in forges {
        let mut event = good.clone();
        let Event::Forked {
            lineage,
            from,
            checkpoint,
            step,
            ..
        } = &mut event
        else {
            panic!("a fork")
        };
        forge(lineage, from, checkpoint, step);
        refused(&event);
    }
    let with = |edits: Vec<Edit>, spent: Usd| {
        let mut event = good.clone();
        let Event::Forked {
            edits: changed,
            account,
            ..
        } = &mut event
        else {
            panic!("a fork")
        };
        (*changed, account.spent) = (edits, spent);
        event
    };
    refused(&with(
        vec![edit(Edited::Shared("none".into()), "k", 1)],
        life.env().spent,
    ));
    refused(&with(
        vec![edit(Edited::Role(RoleId(3)), "k", 1)],
        life.env().spent,
    ));
    let call_first = three();
    let mut paid = call_first;
    let call = paid.call();
    paid.ask(&call, "q", 7);
    paid.record(paid.stepper.ended(strata_core::event::Status::Interrupted));
    let event = paid
        .stepper
        .forked("main.1".into(), Vec::new(), paid.env().account())
        .expect("a checkpoint");
    let Event::Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        account,
    } = event
    else {
        panic!("a fork")
    };
    let account = Account {
        spent: Usd(6),
        ..account
    };
    let cheap = Event::Forked {
        lineage,
        from,
        checkpoint,
        step,
        edits,
        account,
    };
    assert!(Stepper::apply(&mut paid.stepper.clone(), &cheap).is_err());
    life.stepper.clone().apply(&good).expect("it fits");
}

#[test]
fn a_fork_takes_over_the_account_of_all_lineages() {
    let mut life = three();
    let call = life.call();
    let (kind, request, response) = (HostCallKind::Llm, "q".into(), Json::null());
    let answer = HostCall {
        kind,
        request,
        response,
        cost: Usd(7),
        tokens: 3,
        outcome: Outcome::Answered,
        finish: None,
    };
    let (role, work, source) = (call.role, call.work, Source::Live);
    life.record(Event::HostCalled {
        role,
        work,
        call: answer,
        source,
        what: String::new(),
    });
    let used = life.env().account();
    let account = Account {
        budget: Some(Usd(100)),
        ..used.clone()
    };
    let mut early = life.stepper.at(Environment::new(life.stepper.team()));
    life.log[..1]
        .iter()
        .for_each(|event| early.apply(event).expect("it fits"));
    let event = early
        .forked("main.1".into(), Vec::new(), account.clone())
        .expect("a checkpoint");
    early.apply(&event).expect("it fits");
    assert_eq!(early.env().account(), account);
    assert_eq!(early.env().spending(|at| at.role == call.role).tokens, 3);
    // Nobody gets anything back, whoever knows less.
    let event = life
        .stepper
        .forked("main.2".into(), Vec::new(), Account::default())
        .expect("a checkpoint");
    life.record(event);
    assert_eq!(
        (life.env().spent, &life.env().ledger),
        (Usd(7), &used.ledger)
    );
}

#[test]
fn what_is_held_back_when_a_run_is_left_is_paid_once_by_the_fork() {
    let mut life = three();
    let call = life.call();
    life.ask(&call, "q", 7);
    let reserved = Reserved {
        request: "r".into(),
        amount: Amount {
            usd: Usd(10),
            tokens: 5,
        },
    };
    life.record(Event::MoneyReserved {
        role: call.role,
        work: call.work,
        reserved,
    });
    life.record(life.stepper.ended(strata_core::event::Status::Interrupted));
    let team = life.stepper.team().clone();
    assert_eq!(life.env().account().spent, Usd(7));
    let left = life.env().account_left(&team);
    let used = &left.ledger[&spender(call.role, call.work)];
    assert_eq!((left.spent, used.usd, used.tokens), (Usd(17), Usd(17), 5));
    life.record(
        life.stepper
            .forked("main.1".into(), Vec::new(), left.clone())
            .expect("a checkpoint"),
    );
    life.record(life.stepper.resumed(None, CallPolicy::Auto));
    assert_eq!(
        (life.env().spent, &life.env().ledger),
        (Usd(17), &left.ledger)
    );
}

#[test]
fn an_account_learns_what_others_used_up_and_forgets_nothing() {
    let slot = |role| spender(RoleId(role), Work::Plan);
    let used = |usd, tokens| Spending {
        usd: Usd(usd),
        tokens,
        calls: usd,
        served: tokens,
        saved: Usd(tokens),
        truncated: usd,
        refused: tokens,
    };
    let mut account = Account {
        ledger: [(slot(0), used(5, 1)), (slot(1), used(1, 1))].into(),
        ..Account::default()
    };
    let other = Account {
        ledger: [(slot(0), used(3, 4)), (slot(2), used(2, 2))].into(),
        ..Account::default()
    };
    account.learn(&other);
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
            .forked(name.into(), Vec::new(), account.clone())
            .expect("a checkpoint");
        assert_eq!(other.stepper.clone().apply(&event).is_ok(), fits, "{name}");
    }
}
