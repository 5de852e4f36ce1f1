//! Random changes of a run, made in every kind of storage: after each, all contain the same, byte for
//! byte.

use strata_base::files::blob::{Blobs, digest_of};
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use strata_records::codec;
use strata_records::reader::branch_of;

#[cfg(feature = "postgres")]
use super::DatabaseStorage;
use super::{FileStorage, MemoryStorage, Model, SharedStorage, TestStorage, fresh, loaded_state};
use crate::tests::script::{ScriptedRun, definition, pseudorandom, team};
use crate::{
    Append, AppendedState, Durability, Lease, Record, RunFilter, RunOverview, StateSelector,
    StoreError,
};

/// How many scripts are run, and how many changes each makes.
const SCRIPTS: u64 = 10;
const CHANGES: usize = 60;

/// A change of a run.
enum Change {
    Append(Vec<Record>, Durability),
    SaveSnapshot(Box<Environment>),
    SwitchLineage(String),
    KeepCheckpoints(u32),
    Prune(u32),
    PutBlob(Vec<u8>),
    SetNote(String),
    SetDefinition(String),
    Reopen,
}

fn make(storage: &mut dyn TestStorage, change: &Change) {
    let lease = storage.lease();
    match change {
        Change::Append(records, durability) => append_with_state(lease, records, *durability),
        Change::SaveSnapshot(env) => lease.save_snapshot(env),
        Change::SwitchLineage(name) => lease.switch_lineage(name),
        Change::KeepCheckpoints(keep) => lease.keep_checkpoints(*keep),
        Change::Prune(keep) => lease
            .prune(*keep, &mut |saved| Ok(loaded_state(&saved)))
            .map(drop),
        Change::PutBlob(bytes) => {
            lease.put_blobs(&Blobs::from([(digest_of(bytes), bytes.as_slice().into())]))
        }
        Change::SetNote(text) => lease.set_note("note", text, Durability::Process),
        Change::SetDefinition(text) => {
            let mut definition = definition();
            definition.text.clone_from(text);
            lease.set_definition(&definition)
        }
        Change::Reopen => {
            storage.reopen();
            Ok(())
        }
    }
    .unwrap_or_else(|error| panic!("{error}"));
}

/// Appends events as the owner of a run does, who knows the state after them.
pub(super) fn append_with_state(
    lease: &mut dyn Lease,
    records: &[Record],
    durability: Durability,
) -> Result<(), StoreError> {
    let before = match branch_of(records) {
        Some((_, from)) => StateSelector::Checkpoint(from.clone()),
        None => StateSelector::Head,
    };
    let mut stepper = Stepper::new(team(), loaded_state(&lease.load(&before)?));
    for record in records {
        stepper.apply(&record.event).unwrap();
    }
    let append = Append {
        state: Some(AppendedState {
            team: stepper.team(),
            env: stepper.env(),
        }),
        ..Append::new(records, durability)
    };
    lease.begin_append(append).finish_blocking()
}

/// Checks that what is listed of a run is what its state is. Returns whether anything is known without reading the
/// state.
pub(super) fn check_listed(storage: &mut dyn TestStorage) -> bool {
    let Some(location) = storage.location() else {
        return false;
    };
    let listed = location.list_overviews(&RunFilter::default()).unwrap();
    let [run] = &listed[..] else {
        panic!("{listed:?}")
    };
    let env = loaded_state(&storage.lease().load(&StateSelector::Head).unwrap());
    let expected = RunOverview::of(AppendedState {
        team: &team(),
        env: &env,
    });
    match &run.overview {
        Some(known) => {
            let team = known.team.clone();
            assert_eq!(*known, RunOverview { team, ..expected });
            true
        }
        None => false,
    }
}

/// Chooses changes by the bytes that it is given.
struct Script {
    choices: std::vec::IntoIter<u8>,
    lineages: usize,
    /// Whether events were dropped: which ones depends on their size in the storage.
    is_pruned: bool,
    blobs: Vec<Vec<u8>>,
}

impl Script {
    fn choose(&mut self, n: usize) -> usize {
        usize::from(self.choices.next().unwrap_or(0)) % n
    }

    /// Returns a change that fits the run.
    fn next(&mut self, lease: &dyn Lease) -> Change {
        let env = loaded_state(&lease.load(&StateSelector::Head).unwrap());
        match self.choose(16) {
            0 => Change::SaveSnapshot(Box::new(env)),
            1 => self.fork(lease).unwrap_or(Change::Reopen),
            2 => {
                let rows = lease.lineages().unwrap();
                Change::SwitchLineage(rows[self.choose(rows.len())].name.clone())
            }
            3 => Change::KeepCheckpoints(2 + self.choose(3) as u32),
            4 if self.choose(3) == 0 => {
                self.is_pruned = true;
                Change::Prune(1 + self.choose(3) as u32)
            }
            5 => {
                let bytes = vec![self.choose(256) as u8; self.choose(100)];
                self.blobs.push(bytes.clone());
                Change::PutBlob(bytes)
            }
            6 => Change::SetNote(self.choose(256).to_string()),
            7 => Change::SetDefinition(self.choose(256).to_string()),
            8 => Change::Reopen,
            _ => self.append(lease, env),
        }
    }

    /// Returns the events with which a state continues, as records.
    fn continued(&mut self, env: Environment, line: u64) -> Vec<Record> {
        let turns: Vec<u8> = self.choices.by_ref().take(40).collect();
        let mut run = ScriptedRun::from_state(env.clone(), &turns);
        let count = 1 + usize::from(turns.first().copied().unwrap_or(0)) % 9;
        while run.events.len() < count && run.advance() {}
        if run.events.is_empty() {
            let budget = Some(Usd::from_dollars(100.0));
            let resumed = Stepper::new(team(), env).run_resumed_event(budget, Default::default());
            run.events.push(resumed);
        }
        records(run.events, line)
    }

    fn append(&mut self, lease: &dyn Lease, env: Environment) -> Change {
        let line = lease.load(&StateSelector::Head).unwrap().next_line;
        let durability = [Durability::Process, Durability::Full][self.choose(2)];
        Change::Append(self.continued(env, line), durability)
    }

    /// Returns the begin of a new lineage at a checkpoint, and perhaps some events with which the
    /// run continues there. Returns `None` if there are no checkpoints yet.
    fn fork(&mut self, lease: &dyn Lease) -> Option<Change> {
        let rows = lease.checkpoints().unwrap();
        let at = rows.get(self.choose(rows.len().max(1)))?.id.clone();
        let saved = lease.load(&StateSelector::Checkpoint(at)).unwrap();
        let mut stepper = Stepper::new(team(), loaded_state(&saved));
        let mut account = stepper.env().account();
        account.spent = account.spent.max(lease.spent().unwrap());
        self.lineages += 1;
        let name = format!("main.{}", self.lineages);
        let forked = stepper.forked_event(name, Vec::new(), account)?;
        stepper.apply(&forked).unwrap();
        let mut events = records(vec![forked], saved.next_line);
        if self.choose(2) == 0 {
            events.extend(self.continued(stepper.into_env(), saved.next_line + 1));
        }
        Some(Change::Append(events, Durability::Full))
    }
}

fn records(events: Vec<Event>, line: u64) -> Vec<Record> {
    let record = |(event, line): (Event, u64)| Record {
        line,
        lines: 1,
        time_ms: line as i64,
        event,
    };
    events.into_iter().zip(line..).map(record).collect()
}

/// Returns everything that a run contains, as text. Which events are still there is included unless
/// some were dropped.
fn content(lease: &dyn Lease, script: &Script) -> String {
    let state = |at: &StateSelector| {
        let saved = lease.load(at).unwrap();
        let env = loaded_state(&saved);
        let json = strata_team_json::export(&team(), &env, &definition());
        let bytes = codec::encode_snapshot(&env);
        format!("{}\n{bytes:?}\n{json}", saved.next_line)
    };
    let checkpoints = lease.checkpoints().unwrap();
    let mut text = state(&StateSelector::Head);
    for row in lease.lineages().unwrap() {
        text += &format!(
            "\n{row:?}\n{}",
            state(&StateSelector::Lineage(row.name.clone()))
        );
    }
    for row in checkpoints.iter().rev().take(5).chain(checkpoints.first()) {
        text += &format!("\n{}", state(&StateSelector::Checkpoint(row.id.clone())));
    }
    if !script.is_pruned {
        text += &format!("\n{:?}", lease.records(0, usize::MAX).unwrap());
        let there = |bytes: &Vec<u8>| lease.blob(&digest_of(bytes)).unwrap();
        let blobs: Vec<_> = script.blobs.iter().map(there).collect();
        text += &format!("\n{blobs:?}");
    }
    let (spent, note) = (lease.spent().unwrap(), lease.note("note").unwrap());
    let definition = lease.definition().unwrap();
    text + &format!("\n{checkpoints:?}\n{spent:?}\n{note:?}\n{definition:?}")
}

#[test]
fn runs_contain_the_same_after_each_change_wherever_they_are_kept() {
    for seed in 0..SCRIPTS {
        let mut model = Model::new(&fresh());
        let mut others: Vec<Box<dyn TestStorage>> = vec![
            Box::new(FileStorage::new(&fresh())),
            Box::new(SharedStorage::new(&fresh())),
            Box::new(MemoryStorage::new(&fresh())),
            Box::new(SharedStorage::submitted()),
        ];
        #[cfg(feature = "postgres")]
        if let Some(database) = DatabaseStorage::new(&fresh()) {
            others.push(Box::new(database));
        }
        let mut script = Script {
            choices: pseudorandom(1000 + seed, 60 * CHANGES).into_iter(),
            lineages: 0,
            is_pruned: false,
            blobs: Vec::new(),
        };
        let started = Stepper::new(team(), fresh()).run_started_event(
            "run".into(),
            "go".into(),
            Default::default(),
        );
        let mut change = Change::Append(records(vec![started], 1), Durability::Full);
        let mut known = vec![0; others.len()];
        for n in 0..CHANGES {
            make(&mut model, &change);
            let expected = content(model.lease(), &script);
            for (storage, known) in others.iter_mut().zip(&mut known) {
                make(storage.as_mut(), &change);
                *known += usize::from(check_listed(storage.as_mut()));
                let content = content(storage.lease(), &script);
                for (one, other) in expected.lines().zip(content.lines()) {
                    assert_eq!(
                        one, other,
                        "script {seed}, change {n}, a line of the content"
                    );
                }
                assert!(expected == content, "script {seed}, change {n}");
            }
            change = script.next(model.lease());
        }
        // Only after the switch to another lineage, the state of a submitted run and that of one in a server has to be read.
        for known in &known[3..] {
            assert!(*known > CHANGES / 2, "script {seed}: {known}");
        }
    }
}
