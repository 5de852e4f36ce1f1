//! The driver with a scripted sandbox and a store in memory: how often it saves, and what it does
//! if it cannot.

mod ahead;
mod requests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, Event, Status};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::human_request::AnswerForm;
use strata_core::record::id::{ActionId, Digest, RoleId, RunId, Slot, SlotKind};
use strata_core::record::message::{Draft, Message};
use strata_core::record::shape::DeliveryMode;
use strata_core::state::environment::Environment;
use strata_core::team::{
    Action, ExternalEnvironment, OnFault, Policy, React, RetryPolicy, Role, Team,
};
use strata_host::blob::Blobs;
use strata_host::driver::{
    CommandError, Driver, DriverError, HostServices, Journal, LineListener, RunState, WhenIdle,
};
use strata_host::plugin::Plugin;
use strata_host::public_event::PublicEvent;
use strata_host::sandbox::{
    Directories, ReturnValue, SandboxCall, ScriptedSandbox, outcome_without_usage,
    output_without_effects,
};
use strata_host::services::http::HttpClient;
use strata_host::services::http::secrets::Secrets;
use strata_host::storage::{
    Append, Appending, BuildState, Durability, Epoch, FIRST_LINE, Lease, OtherWork, Pruned, Record,
    RecordedRun, SavedDefinition, StoreError, create_in_memory,
};

/// What a store did, and when it is to fail.
#[derive(Default)]
struct Ledger {
    records: Vec<Record>,
    appends: usize,
    /// The number of the append that fails, and so do all later ones.
    fails_at: Option<usize>,
    /// Whether a snapshot is always due, and fails.
    no_snapshots: bool,
    /// Whether the driver is alone in its process. The store then writes while the driver works.
    is_alone: bool,
}

/// A store in memory that can be inspected while it is used, and that fails on request.
struct WatchedStore {
    store: Box<dyn Lease>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Lease for WatchedStore {
    fn epoch(&self) -> Epoch {
        self.store.epoch()
    }

    fn recorded(&self) -> &dyn RecordedRun {
        self.store.recorded()
    }

    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError> {
        let mut ledger = self.ledger.lock().unwrap();
        ledger.appends += 1;
        if ledger.fails_at.is_some_and(|at| ledger.appends >= at) {
            return Err(StoreError::Full {
                path: "team.db".into(),
                action: "write",
                inodes: false,
                needed: 0,
            });
        }
        ledger.records.extend_from_slice(records);
        self.store.append(records, durability)
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        let Append {
            records,
            durability,
            other_work,
            ..
        } = append;
        match other_work {
            OtherWork::Some => {
                Appending::Written(Box::new(move || self.append(records, durability)))
            }
            OtherWork::None => Appending::Done(self.append(records, durability)),
        }
    }

    fn snapshot_due(&self) -> bool {
        self.ledger.lock().unwrap().no_snapshots || self.store.snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        if self.ledger.lock().unwrap().no_snapshots {
            return Err(StoreError::Full {
                path: "team.db".into(),
                action: "write",
                inodes: false,
                needed: 0,
            });
        }
        self.store.save_snapshot(env)
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.store.switch_lineage(lineage)
    }

    fn prune(&mut self, keep: u32, sum_up: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        self.store.prune(keep, sum_up)
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        self.store.keep_checkpoints(keep)
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.store.put_blobs(blobs)
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        self.store.set_definition(definition)
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.store.set_note(name, text, durability)
    }
}

fn role(name: &str, watch: &str, actions: &[&str]) -> Role {
    let retry = RetryPolicy {
        retries: 1,
        backoff_ms: 1,
    };
    Role {
        name: name.into(),
        profile: String::new(),
        goal: String::new(),
        constraints: String::new(),
        desc: String::new(),
        watch: [watch.into()].into(),
        addresses: Vec::new(),
        model: None,
        react: React::ByOrder,
        deliver: DeliveryMode::Batch,
        answer_form: AnswerForm::default(),
        actions: actions
            .iter()
            .map(|name| Action {
                name: (*name).into(),
                retry,
            })
            .collect(),
    }
}

fn team(roles: Vec<Role>) -> Arc<Team> {
    Arc::new(Team {
        name: "t".into(),
        desc: String::new(),
        roles,
        groups: BTreeMap::new(),
        routes: Vec::new(),
        joins: Vec::new(),
        scopes: BTreeMap::new(),
        external: ExternalEnvironment::Absent,
        policy: Policy {
            on_fault: OnFault::Stop,
            max_steps: None,
            max_parallel: 64,
            budget: None,
            scoped_budgets: Default::default(),
            state_bytes: strata_core::team::DEFAULT_STATE_BYTES,
            lowered: Default::default(),
        },
    })
}

fn slots(team: &Team) -> Vec<Slot> {
    let slots = |id: RoleId| {
        let actions = 0..team.role(id).actions.len() as u16;
        actions.map(move |action| Slot {
            role: id,
            kind: SlotKind::Action(ActionId(action)),
        })
    };
    team.role_ids().flat_map(slots).collect()
}

fn host_services(team: &Team, sandbox: &ScriptedSandbox) -> HostServices {
    let plugin = Arc::new(Plugin::new("a.wasm"));
    HostServices {
        sandbox: Arc::new(sandbox.clone()),
        plugins: slots(team)
            .into_iter()
            .map(|slot| (slot, plugin.clone()))
            .collect(),
        descriptions: BTreeMap::new(),
        tool_roles: BTreeMap::new(),
        choice_timeout: None,
        models: None,
        http: Arc::new(HttpClient::new(Secrets::default()).unwrap()),
        external: None,
        mcp: None,
        directories: Directories::default(),
    }
}

/// The result of a run: its end, the reported events, and the saved state.
struct Ran {
    status: Result<Status, DriverError>,
    told: Vec<u64>,
    env: Environment,
    ledger: Arc<Mutex<Ledger>>,
}

/// Returns a store for a run that begins with this state.
fn watched(stepper: &Stepper, ledger: &Arc<Mutex<Ledger>>) -> WatchedStore {
    let definition = SavedDefinition {
        name: String::new(),
        base: "/".into(),
        text: String::new(),
        components: Default::default(),
    };
    WatchedStore {
        store: create_in_memory(stepper.env(), &definition).unwrap(),
        ledger: ledger.clone(),
    }
}

/// Runs a team from the records of an earlier run, or from the beginning if there are none.
fn run(
    team: &Arc<Team>,
    sandbox: &ScriptedSandbox,
    before: &[Record],
    fails_at: Option<usize>,
) -> Ran {
    let ledger = Ledger {
        records: before.to_vec(),
        fails_at,
        ..Ledger::default()
    };
    run_with(team, sandbox, &Arc::new(Mutex::new(ledger)))
}

/// Runs a team from the records that its store has.
fn run_with(team: &Arc<Team>, sandbox: &ScriptedSandbox, ledger: &Arc<Mutex<Ledger>>) -> Ran {
    let before = ledger.lock().unwrap().records.clone();
    let is_alone = ledger.lock().unwrap().is_alone;
    let mut stepper = Stepper::new(team.clone(), Environment::new(team));
    for record in &before {
        stepper.apply(&record.event).unwrap();
    }
    let store = watched(&stepper, ledger);
    let next_line = before
        .last()
        .map_or(FIRST_LINE, |last| last.line + u64::from(last.lines));
    let told = Arc::new(Mutex::new(Vec::new()));
    let (durable, heard) = (ledger.clone(), told.clone());
    let mut journal = Journal::new(stepper, Box::new(store), next_line, Durability::Full)
        .with_listener(LineListener::Each(Box::new(move |line| {
            let saved = durable
                .lock()
                .unwrap()
                .records
                .last()
                .map_or(0, |last| last.line + u64::from(last.lines));
            assert!(line.n < saved, "line {} is told before it is saved", line.n);
            heard.lock().unwrap().push(line.n);
        })));
    let event = if before.is_empty() {
        let digests = slots(team)
            .into_iter()
            .map(|slot| (slot, Digest::from("d")))
            .collect();
        journal
            .stepper()
            .run_started_event(RunId("run".into()), "go".into(), digests)
    } else {
        journal
            .stepper()
            .run_resumed_event(None, Default::default())
    };
    journal.stage(event).unwrap();
    let mut driver = Driver::new(journal, host_services(team, sandbox));
    if is_alone {
        driver.set_alone();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_keep, mut stop) = tokio::sync::watch::channel(false);
    let status = runtime.block_on(driver.run(&mut stop));
    let env = driver.journal().env().clone();
    let told = told.lock().unwrap().clone();
    Ran {
        status,
        told,
        env,
        ledger: ledger.clone(),
    }
}

/// Returns a team with two roles in sequence beside a third one. One action fails permanently in
/// its first attempt of each run, another one fails with a retryable failure.
fn busy() -> (Arc<Team>, ScriptedSandbox) {
    let team = team(vec![
        role("A", "UserRequirement", &["One", "Two"]),
        role("B", "UserRequirement", &["Three"]),
        role("C", "Two", &["Four"]),
    ]);
    let say = |text: &str| {
        Ok(output_without_effects(ReturnValue::Output(Draft {
            content: text.into(),
            ..Draft::default()
        })))
    };
    let mut passing = Fault::new(FaultKind::Host, "the line is busy");
    passing.retryability = strata_core::record::fault::Retryability::Retryable;
    let sandbox =
        ScriptedSandbox::new().with_outcomes("B", "Three", vec![Err(passing), say("three")]);
    (team, sandbox)
}

#[test]
fn many_actions_of_one_step_are_saved_in_a_few_appends() {
    let names: Vec<String> = (0..64).map(|n| format!("R{n}")).collect();
    let team = team(
        names
            .iter()
            .map(|name| role(name, "UserRequirement", &["Work"]))
            .collect(),
    );
    let mut sandbox = ScriptedSandbox::new();
    let together = Arc::new(tokio::sync::Barrier::new(64));
    for name in &names {
        let together = together.clone();
        sandbox = sandbox.with_script(name, "Work", move |_, _| {
            let together = together.clone();
            Box::pin(async move {
                together.wait().await;
                outcome_without_usage(Ok(output_without_effects(ReturnValue::Output(Draft {
                    content: "done".into(),
                    ..Draft::default()
                }))))
            })
        });
    }
    let ran = run(&team, &sandbox, &[], None);
    assert_eq!(ran.status.unwrap(), Status::Done);
    let ledger = ran.ledger.lock().unwrap();
    let finished = ledger
        .records
        .iter()
        .filter(|record| {
            matches!(
                record.event,
                Event::Attempt(_, AttemptEvent::CallFinished(_))
            )
        })
        .count();
    assert_eq!(finished, 64);
    assert!(ledger.appends <= 8, "{} appends", ledger.appends);
}

#[test]
fn nothing_is_started_or_reported_after_a_failed_append() {
    let (team, sandbox) = busy();
    let whole = run(&team, &sandbox, &[], None);
    assert_eq!(whole.status.unwrap(), Status::Done);
    let appends = whole.ledger.lock().unwrap().appends;
    assert!(appends > 5, "there is something to break");
    for fails_at in 1..=appends {
        let (team, sandbox) = busy();
        let broken = run(&team, &sandbox, &[], Some(fails_at));
        assert!(
            matches!(
                broken.status,
                Err(DriverError::Store(StoreError::Full { .. }))
            ),
            "append {fails_at}"
        );
        let ledger = broken.ledger.lock().unwrap();
        assert_eq!(
            ledger.appends, fails_at,
            "it tried to save again after a failure"
        );
        let started = |record: &&Record| {
            matches!(
                record.event,
                Event::Attempt(_, AttemptEvent::CallStarted(_))
            )
        };
        let calls: Vec<SandboxCall> = sandbox.calls();
        assert_eq!(
            calls.len(),
            ledger.records.iter().filter(started).count(),
            "append {fails_at}"
        );
        let lines: u64 = ledger
            .records
            .iter()
            .map(|record| u64::from(record.lines))
            .sum();
        assert_eq!(
            broken.told,
            (FIRST_LINE..FIRST_LINE + lines).collect::<Vec<_>>(),
            "append {fails_at}"
        );
    }
}

#[test]
fn a_run_continues_from_what_could_be_saved() {
    let (team, sandbox) = busy();
    let whole = run(&team, &sandbox, &[], None);
    let appends = whole.ledger.lock().unwrap().appends;
    let outputs = |env: &Environment| -> Vec<String> {
        env.history
            .iter()
            .map(|message| env.message(*message).content.clone())
            .collect()
    };
    // If the first append fails, there is no run to continue.
    for fails_at in 2..=appends {
        let (team, sandbox) = busy();
        let broken = run(&team, &sandbox, &[], Some(fails_at));
        let saved = broken.ledger.lock().unwrap().records.clone();
        let resumed = run(&team, &sandbox, &saved, None);
        assert_eq!(resumed.status.unwrap(), Status::Done, "append {fails_at}");
        assert_eq!(
            outputs(&resumed.env),
            outputs(&whole.env),
            "append {fails_at}"
        );
        let ledger = resumed.ledger.lock().unwrap();
        let finished = ledger.records.iter().filter(|record| {
            matches!(
                record.event,
                Event::Attempt(_, AttemptEvent::CallFinished(_))
            )
        });
        assert_eq!(
            finished.count(),
            4,
            "an action that was finished ran again: append {fails_at}"
        );
    }
}

#[test]
fn the_sender_of_a_command_that_cannot_be_saved_is_not_told_that_it_had_no_effect() {
    let (team, sandbox) = busy();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let stepper = Stepper::new(team.clone(), Environment::new(&team));
    let store = watched(&stepper, &ledger);
    let mut journal = Journal::new(stepper, Box::new(store), FIRST_LINE, Durability::Full);
    let digests = slots(&team)
        .into_iter()
        .map(|slot| (slot, Digest::from("d")))
        .collect();
    journal
        .stage(
            journal
                .stepper()
                .run_started_event(RunId("run".into()), "go".into(), digests),
        )
        .unwrap();
    let mut driver = Driver::new(journal, host_services(&team, &sandbox));
    driver.prepare_to_run(WhenIdle::Stay);
    let (orders, mut motion) = (driver.handle(), driver.run_state());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (_keep, mut stop) = tokio::sync::watch::channel(false);
    let said = Message::from_user("".into(), "more".into(), "UserRequirement".into());
    let sent = async {
        motion
            .wait_for(|motion| *motion == RunState::Idle(Status::Done))
            .await
            .unwrap();
        ledger.lock().unwrap().fails_at = Some(0);
        orders.send(said.clone()).await
    };
    let (status, sent) = runtime.block_on(async { tokio::join!(driver.run(&mut stop), sent) });
    assert!(
        matches!(status, Err(DriverError::Store(StoreError::Full { .. }))),
        "{status:?}"
    );
    assert!(
        matches!(&sent, Err(CommandError::Unsaved(why)) if why.contains("team.db")),
        "{sent:?}"
    );
    assert_eq!(
        runtime.block_on(orders.send(said)),
        Err(CommandError::Ended)
    );
    // What the failed append did not save is not saved later, in any way.
    let appends = ledger.lock().unwrap().appends;
    ledger.lock().unwrap().fails_at = None;
    let journal = driver.journal_mut();
    let attempts = [journal.save(), journal.flush_blocking(), journal.resume()];
    assert!(
        attempts
            .iter()
            .all(|result| matches!(result, Err(DriverError::Closed))),
        "{attempts:?}"
    );
    assert_eq!(ledger.lock().unwrap().appends, appends);
}

#[test]
fn a_bug_of_the_host_is_not_a_fault_of_any_running_action() {
    for beside in [0, 1] {
        let team = team(
            ["A", "B"][..=beside]
                .iter()
                .map(|name| role(name, "UserRequirement", &["Work"]))
                .collect(),
        );
        let panics = ScriptedSandbox::new().with_script("A", "Work", |_, _| {
            Box::pin(async { panic!("a part is broken") })
        });
        let run = std::panic::AssertUnwindSafe(|| run(&team, &panics, &[], None));
        let panic = std::panic::catch_unwind(run)
            .err()
            .expect("it ends the run");
        assert_eq!(panic.downcast_ref(), Some(&"a part is broken"), "{beside}");
    }
}

#[test]
fn recorded_events_are_reported_once_although_the_state_cannot_be_saved() {
    let (team, _) = busy();
    let ledger = Arc::new(Mutex::new(Ledger {
        no_snapshots: true,
        ..Ledger::default()
    }));
    let stepper = Stepper::new(team.clone(), Environment::new(&team));
    let store = watched(&stepper, &ledger);
    let told = Arc::new(Mutex::new(Vec::new()));
    let hearing = told.clone();
    let mut journal = Journal::new(stepper, Box::new(store), FIRST_LINE, Durability::Full)
        .with_listener(LineListener::Each(Box::new(move |line| {
            hearing.lock().unwrap().push(line.event.clone())
        })));
    journal
        .stage(journal.stepper().run_started_event(
            RunId("run".into()),
            "go".into(),
            BTreeMap::new(),
        ))
        .unwrap();
    journal.flush_blocking().unwrap();
    journal.flush_blocking().unwrap();
    let ledger = ledger.lock().unwrap();
    assert_eq!((ledger.appends, ledger.records.len()), (1, 1));
    assert!(matches!(
        told.lock().unwrap().as_slice(),
        [
            PublicEvent::RunStarted { .. },
            PublicEvent::MessageRouted { .. }
        ]
    ));
}
