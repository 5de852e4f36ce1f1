//! Attempts that run ahead of the disk: they compute with what is not durable yet, and nothing of that
//! has an effect before it is durable, whichever sync fails.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::message::Draft;
use strata_core::record::work::Work;
use strata_core::team::Team;
use strata_host::driver::DriverError;
use strata_host::gateway::GuestRequest;
use strata_host::sandbox::{
    ReturnValue, ScriptedSandbox, outcome_without_usage, output_without_effects,
};
use strata_host::storage::{FIRST_LINE, StoreError};

use super::{Ledger, role, run_with, team};

/// What attempts have noticed.
#[derive(Default)]
struct Noticed {
    /// How many began before their start was durable.
    ahead: AtomicUsize,
    /// How many requests were answered.
    answered: AtomicUsize,
    /// How many of these belong to attempts whose start was not durable.
    answered_too_early: AtomicUsize,
}

/// Returns how many starts and ends of attempts are durable.
fn durable(ledger: &Mutex<Ledger>) -> [usize; 2] {
    let ledger = ledger.lock().unwrap();
    let count = |is_counted: fn(&AttemptEvent) -> bool| {
        let events = ledger.records.iter().map(|record| &record.event);
        let counted = events.filter(|event| match event {
            Event::Attempt(call, event) => {
                matches!(call.work, Work::Act { .. }) && is_counted(event)
            }
            _ => false,
        });
        counted.count()
    };
    [
        count(|event| matches!(event, AttemptEvent::CallStarted(_))),
        count(|event| matches!(event, AttemptEvent::CallFinished(_))),
    ]
}

/// Returns a team of roles that work one after another, and a sandbox whose attempts ask the host for
/// something each.
fn chain(ledger: &Arc<Mutex<Ledger>>, noticed: &Arc<Noticed>) -> (Arc<Team>, ScriptedSandbox) {
    let roles = [
        ("A", "UserRequirement", vec!["One", "Two"]),
        ("B", "Two", vec!["Three"]),
        ("C", "Three", vec!["Four", "Five"]),
    ];
    let mut sandbox = ScriptedSandbox::new();
    let began = Arc::new(AtomicUsize::new(0));
    for (name, _, actions) in &roles {
        for action in actions {
            let (ledger, noticed) = (Arc::clone(ledger), Arc::clone(noticed));
            let began = Arc::clone(&began);
            sandbox = sandbox.with_script(name, action, move |_, gateway| {
                let (ledger, noticed) = (Arc::clone(&ledger), Arc::clone(&noticed));
                let began = Arc::clone(&began);
                Box::pin(async move {
                    let nth = began.fetch_add(1, SeqCst) + 1;
                    if durable(&ledger)[0] < nth {
                        noticed.ahead.fetch_add(1, SeqCst);
                    }
                    let answer = gateway.request(GuestRequest::CurrentTime).await;
                    if answer.is_some() {
                        noticed.answered.fetch_add(1, SeqCst);
                        if durable(&ledger)[0] < nth {
                            noticed.answered_too_early.fetch_add(1, SeqCst);
                        }
                    }
                    outcome_without_usage(Ok(output_without_effects(ReturnValue::Output(Draft {
                        content: "done".into(),
                        ..Draft::default()
                    }))))
                })
            });
        }
    }
    let team = team(
        roles
            .iter()
            .map(|(name, watch, actions)| role(name, watch, actions))
            .collect(),
    );
    (team, sandbox)
}

/// Runs the chain in a store whose syncs fail from this one on. Returns how many appends there were.
fn check(fails_at: Option<usize>) -> usize {
    let ledger = Arc::new(Mutex::new(Ledger {
        fails_at,
        is_alone: true,
        ..Ledger::default()
    }));
    let noticed = Arc::new(Noticed::default());
    let (team, sandbox) = chain(&ledger, &noticed);
    let ran = run_with(&team, &sandbox, &ledger);
    let [ahead, answered, too_early] = [
        &noticed.ahead,
        &noticed.answered,
        &noticed.answered_too_early,
    ]
    .map(|count| count.load(SeqCst));
    assert_eq!(too_early, 0, "sync {fails_at:?}");
    let [started, finished] = durable(&ledger);
    let ledger = ledger.lock().unwrap();
    match fails_at {
        None => {
            assert_eq!(ran.status.unwrap(), Status::Done);
            assert_eq!([started, finished, ahead, answered], [5; 4]);
        }
        Some(at) => {
            assert!(matches!(
                ran.status,
                Err(DriverError::Store(StoreError::Full { .. }))
            ));
            assert_eq!(ledger.appends, at, "it tried to save again after a failure");
            assert!(answered <= started && finished <= answered, "sync {at}");
        }
    }
    // What is reported is durable, and everything durable is reported.
    let lines: u64 = ledger.records.iter().map(|one| u64::from(one.lines)).sum();
    let reported: Vec<u64> = (FIRST_LINE..FIRST_LINE + lines).collect();
    assert_eq!(ran.told, reported, "sync {fails_at:?}");
    ledger.appends
}

#[test]
fn attempts_run_ahead_of_the_disk_and_have_no_effect_before_it_is_done() {
    let appends = check(None);
    assert!(appends > 5, "there is something to break");
    for fails_at in 1..=appends {
        check(Some(fails_at));
    }
}
