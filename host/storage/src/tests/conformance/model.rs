//! A run as maps in memory, which is simple enough to be evidently right. What is stored elsewhere must be the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strata_base::files::blob::Blobs;
use strata_core::record::id::{CheckpointId, Digest};
use strata_core::record::money::Usd;
use strata_core::state::environment::Environment;
use strata_records::checkpoint_list::{
    LineageHistory, ListedCheckpoint, list_checkpoints, unknown_checkpoint,
};
use strata_records::error::StoreError;
use strata_records::reader::{RecordedRun, branch_of};
use strata_records::{concerns_checkpoint, cost_of, next_line};

use super::TestStorage;
use crate::tests::script::definition;
use crate::{
    Append, Appending, BuildState, CheckpointRow, Durability, Epoch, FIRST_LINE, Lease, LineageRow,
    LoadedState, Pruned, Record, SavedDefinition, StateSelector,
};

/// With fewer events a snapshot is not worth its cost.
const MIN_SNAPSHOT_EVENTS: u64 = 100;

/// A lease of a run.
#[derive(Debug)]
struct ModelLease {
    storage: ModelStorage,
    epoch: Epoch,
}

/// Keeps a run. A clone refers to the same run.
#[derive(Clone, Debug)]
struct ModelStorage {
    run: Arc<Mutex<ModelRun>>,
}

impl ModelStorage {
    /// Creates a run that starts from `base`.
    fn new(base: Environment, definition: SavedDefinition) -> Self {
        Self {
            run: Arc::new(Mutex::new(ModelRun::new(base, definition))),
        }
    }

    /// Takes a lease of the run. Those that were taken before cannot change it any more.
    fn open(&self) -> ModelLease {
        let mut run = self.lock();
        run.epoch.0 += 1;
        ModelLease {
            storage: self.clone(),
            epoch: run.epoch,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ModelRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelLease {
    /// Returns the run for reading.
    fn read(&self) -> MutexGuard<'_, ModelRun> {
        self.storage.lock()
    }

    /// Returns the run for a change. Fails if there is a newer lease.
    fn write(&self) -> Result<MutexGuard<'_, ModelRun>, StoreError> {
        let run = self.storage.lock();
        if run.epoch == self.epoch {
            Ok(run)
        } else {
            Err(StoreError::Fenced {
                path: "memory".into(),
            })
        }
    }
}

/// A run that is open in such a storage.
pub(super) struct Model {
    storage: ModelStorage,
    lease: ModelLease,
}

impl Model {
    pub(super) fn new(base: &Environment) -> Self {
        let storage = ModelStorage::new(base.clone(), definition());
        Self {
            lease: storage.open(),
            storage,
        }
    }
}

impl TestStorage for Model {
    fn lease(&mut self) -> &mut dyn Lease {
        &mut self.lease
    }

    fn reopen(&mut self) {
        self.lease = self.storage.open();
    }

    fn take_over(&mut self) -> Box<dyn Lease> {
        Box::new(self.storage.open())
    }
}

/// A run and everything that is recorded of it.
#[derive(Debug)]
struct ModelRun {
    /// The epoch of the newest lease.
    epoch: Epoch,
    base: Environment,
    lineages: Vec<ModelLineage>,
    current: usize,
    next_line: u64,
    spent: Usd,
    definition: SavedDefinition,
    notes: BTreeMap<String, String>,
    blobs: Blobs,
}

/// A lineage: its own events and snapshots, by their positions on the path from the beginning of
/// the run.
#[derive(Clone, Debug, Default)]
struct ModelLineage {
    name: String,
    /// The lineage that it left, and the position of the event after which it did.
    origin: Option<(usize, u64)>,
    /// The position of its newest event.
    end: u64,
    records: BTreeMap<u64, Record>,
    snapshots: BTreeMap<u64, Environment>,
    forgotten_until: u64,
    /// The gaps where events were dropped: the first position of each, with the last one and the
    /// next step after it.
    gaps: BTreeMap<u64, (u64, u64)>,
}

impl ModelLineage {
    fn start(&self) -> u64 {
        self.origin.map_or(0, |(_, at)| at)
    }
}

impl ModelRun {
    fn new(base: Environment, definition: SavedDefinition) -> Self {
        let first = ModelLineage {
            name: base.lineage.name.clone(),
            ..ModelLineage::default()
        };
        let spent = base.spent;
        Self {
            epoch: Epoch(0),
            base,
            lineages: vec![first],
            current: 0,
            next_line: FIRST_LINE,
            spent,
            definition,
            notes: BTreeMap::new(),
            blobs: Blobs::new(),
        }
    }

    fn listed_checkpoints(&self) -> Vec<ListedCheckpoint> {
        let lineage = |line: &ModelLineage| LineageHistory {
            name: line.name.clone(),
            origin: line.origin,
            forgotten_until: line.forgotten_until,
            events: line
                .records
                .iter()
                .filter(|(_, r)| concerns_checkpoint(&r.event))
                .map(|(at, r)| (*at, r.clone()))
                .collect(),
            gaps: line.gaps.values().copied().collect(),
        };
        list_checkpoints(
            &self.base,
            &self.lineages.iter().map(lineage).collect::<Vec<_>>(),
        )
    }

    fn find_checkpoint(&self, id: &CheckpointId) -> Result<(usize, u64), StoreError> {
        let listed = self.listed_checkpoints();
        let found = listed
            .iter()
            .find(|listed| listed.row.id == *id)
            .map(|listed| (listed.lineage, listed.position));
        found.ok_or_else(|| unknown_checkpoint(id, &listed))
    }

    fn lineage_index(&self, name: &str) -> Result<usize, StoreError> {
        let known = || self.lineages.iter().map(|line| line.name.clone()).collect();
        let found = self.lineages.iter().position(|line| line.name == name);
        found.ok_or_else(|| StoreError::NoLineage {
            name: name.into(),
            known: known(),
        })
    }

    /// Returns the lineages on the path to a position, each with the position where it is left,
    /// youngest first.
    fn path_to(&self, to: (usize, u64)) -> Vec<(usize, u64)> {
        let mut lineage = to.0;
        let mut path = vec![to];
        while let Some(origin) = self.lineages[lineage].origin {
            lineage = origin.0;
            path.push(origin);
        }
        path
    }

    /// Returns the events that lead to a position and were not dropped.
    fn events_until(&self, to: (usize, u64)) -> impl DoubleEndedIterator<Item = (u64, &Record)> {
        let pieces = self.path_to(to).into_iter().rev();
        pieces
            .flat_map(|(lineage, end)| self.lineages[lineage].records.range(..=end))
            .map(|(at, record)| (*at, record))
    }

    fn state_at(&self, to: (usize, u64)) -> LoadedState {
        let path = self.path_to(to);
        let snapshot = path
            .iter()
            .find_map(|&(lineage, end)| self.lineages[lineage].snapshots.range(..=end).next_back());
        let (start, base) = snapshot.map_or((0, &self.base), |(at, env)| (*at, env));
        let tail = self
            .events_until(to)
            .filter(|(at, _)| *at > start)
            .map(|(_, record)| record.clone())
            .collect();
        LoadedState {
            base: base.clone(),
            tail,
            next_line: self.next_line,
        }
    }

    fn branch(&self, name: &str, from: &CheckpointId) -> Result<ModelLineage, StoreError> {
        if self.lineage_index(name).is_ok() {
            return Err(StoreError::Lineage {
                name: name.into(),
                what: "there is one with this name already".into(),
            });
        }
        let origin = self.find_checkpoint(from)?;
        Ok(ModelLineage {
            name: name.into(),
            origin: Some(origin),
            end: origin.1,
            ..ModelLineage::default()
        })
    }

    fn forget_checkpoints(&mut self, lineage: usize, keep: u32) {
        let begin = self.lineages[lineage].start();
        let checkpoints = self.lineages[lineage]
            .records
            .iter()
            .filter(|(at, record)| {
                **at > begin + 1 && crate::checkpoint_of(&record.event).is_some()
            });
        let positions: Vec<u64> = checkpoints.map(|(at, _)| *at).collect();
        let over = positions.len().saturating_sub(keep as usize);
        let line = &mut self.lineages[lineage];
        line.forgotten_until = line
            .forgotten_until
            .max(positions[..over].last().copied().unwrap_or(0));
    }
}

impl ModelRun {
    fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let Some(newest) = records.last() else {
            return Ok(());
        };
        let mut lineage = self.current;
        if let Some((name, from)) = branch_of(records) {
            let branch = self.branch(name, from)?;
            lineage = self.lineages.len();
            self.lineages.push(branch);
            if records.len() > 1 {
                self.current = lineage;
            }
        }
        let line = &mut self.lineages[lineage];
        line.records
            .extend((line.end + 1..).zip(records.iter().cloned()));
        line.end += records.len() as u64;
        self.next_line = next_line(Some(newest));
        for record in records {
            self.spent += cost_of(&record.event);
        }
        Ok(())
    }

    fn snapshot_due(&self) -> bool {
        let line = &self.lineages[self.current];
        let path = self.path_to((self.current, line.end));
        let newest = path.iter().find_map(|(lineage, end)| {
            self.lineages[*lineage].snapshots.range(..=*end).next_back()
        });
        let at = newest.map_or(0, |(at, _)| *at);
        line.end - at > at.max(MIN_SNAPSHOT_EVENTS)
    }

    fn save_snapshot(&mut self, env: &Environment) {
        let line = &mut self.lineages[self.current];
        line.snapshots.insert(line.end, env.clone());
    }

    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        let to = match at {
            StateSelector::Head => (self.current, self.lineages[self.current].end),
            StateSelector::Lineage(name) => self
                .lineage_index(name)
                .map(|lineage| (lineage, self.lineages[lineage].end))?,
            StateSelector::Checkpoint(id) => self.find_checkpoint(id)?,
        };
        Ok(self.state_at(to))
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.current = self.lineage_index(lineage)?;
        Ok(())
    }

    fn lineage_rows(&self) -> Vec<LineageRow> {
        let mut rows = Vec::with_capacity(self.lineages.len());
        for (index, line) in self.lineages.iter().enumerate() {
            rows.push(LineageRow {
                name: line.name.clone(),
                events: line.end,
                current: index == self.current,
            });
        }
        rows
    }

    fn prune(&mut self, keep: u32, sum_up: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        let before = self.listed_checkpoints().len();
        for lineage in 0..self.lineages.len() {
            self.forget_checkpoints(lineage, keep.max(1));
        }
        let mut listed = self.listed_checkpoints();
        let checkpoints = (before - listed.len()) as u64;
        listed.sort_by_key(|listed| (listed.lineage, listed.position));
        let mut pruned = Pruned {
            checkpoints,
            ..Pruned::default()
        };
        for (i, one) in listed
            .iter()
            .enumerate()
            .filter(|(_, one)| one.position > 0)
        {
            let previous = i
                .checked_sub(1)
                .map(|i| &listed[i])
                .filter(|p| p.lineage == one.lineage && p.position > 0);
            let after = previous.map_or(self.lineages[one.lineage].start(), |previous| {
                previous.position
            });
            let status_event = previous.and_then(|previous| previous.status_event);
            if after + 1 + u64::from(status_event.is_some()) >= one.position {
                continue;
            }
            let corrupt = |what| StoreError::Corrupt {
                path: "memory".into(),
                what,
            };
            let state = sum_up(self.state_at((one.lineage, one.position))).map_err(corrupt)?;
            let line = &mut self.lineages[one.lineage];
            line.snapshots
                .retain(|at, _| !(after + 1..one.position).contains(at));
            line.snapshots.insert(one.position, state);
            let count_before = line.records.len();
            line.records.retain(|at, _| {
                !(after + 1..one.position).contains(at) || Some(*at) == status_event
            });
            pruned.events += (count_before - line.records.len()) as u64;
            line.gaps
                .insert(after + 1, (one.position - 1, one.row.step));
        }
        Ok(pruned)
    }

    fn records(&self, from: u64, limit: usize) -> Vec<Record> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let all = self.events_until((self.current, self.lineages[self.current].end));
        all.skip(from)
            .take(limit)
            .map(|(_, record)| record.clone())
            .collect()
    }
}

impl RecordedRun for ModelStorage {
    fn load(&self, at: &StateSelector) -> Result<LoadedState, StoreError> {
        self.lock().load(at)
    }

    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        Ok(self.lock().lineage_rows())
    }

    fn spent(&self) -> Result<Usd, StoreError> {
        Ok(self.lock().spent)
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        let listed = self.lock().listed_checkpoints();
        Ok(listed.into_iter().map(|listed| listed.row).collect())
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        Ok(self.lock().definition.clone())
    }

    fn note(&self, name: &str) -> Result<Option<String>, StoreError> {
        Ok(self.lock().notes.get(name).cloned())
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        Ok(self.lock().blobs.get(digest).cloned())
    }

    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        Ok(self.lock().records(from, limit))
    }
}

impl Lease for ModelLease {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn recorded(&self) -> &dyn RecordedRun {
        &self.storage
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        Appending::Done(self.write().and_then(|mut run| run.append(append.records)))
    }

    fn snapshot_due(&self) -> bool {
        self.read().snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        self.write()?.save_snapshot(env);
        Ok(())
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.write()?.switch_lineage(lineage)
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        let mut run = self.write()?;
        let current = run.current;
        run.forget_checkpoints(current, keep);
        Ok(())
    }

    fn prune(&mut self, keep: u32, sum_up: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        self.write()?.prune(keep, sum_up)
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.write()?.blobs.extend(blobs.clone());
        Ok(())
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        self.write()?.definition = definition.clone();
        Ok(())
    }

    fn set_note(&mut self, name: &str, text: &str, _: Durability) -> Result<(), StoreError> {
        self.write()?.notes.insert(name.into(), text.into());
        Ok(())
    }
}
