//! A lease of a run whose rows are stored somewhere: what it knows of the run, and in which order things are done. How
//! the changes are written is up to its `RunWriter`.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use strata_base::files::blob::Blobs;
use strata_base::process::wait::wait;
use strata_core::state::environment::Environment;

use crate::codec::MessageBundle;
use crate::current_lineage::{CurrentLineage, NewBranch, NewSnapshot};
use crate::encoded_events::{EncodedEvents, KnownEvent};
use crate::error::StoreError;
use crate::overview::OverviewChange;
use crate::prune_plan::PrunePlanner;
use crate::reader::RecordedRun;
use crate::rows::RunRows;
use crate::run_change::{
    LineageSwitch, NewEvents, NewLineage, NewestState, RunChange, WrittenChange,
};
use crate::run_writer::{RunWriter, ShownState, Writing};
use crate::snapshot::{EncodedSnapshot, MAX_SNAPSHOT_BYTES, SnapshotRows};
use crate::{
    Append, Appending, BuildState, Durability, Epoch, Lease, LeaseStatus, OtherWork, Pruned,
    RunCaps, RunSchedule, SavedDefinition,
};

/// How often a change is made again because a server went back to an earlier state meanwhile.
const MAX_RESTORES: u32 = 3;

/// A lease of a run. Dropping it gives the run up.
#[derive(Debug)]
pub struct StoredLease<W: RunWriter> {
    writer: W,
    current: CurrentLineage,
    /// The largest key of a bundle that was used. It is read when it is first needed.
    last_bundle: Cell<Option<i64>>,
    /// Whether it is not known which events were appended. What this lease knows of the run may then be wrong, so it
    /// writes nothing more.
    has_failed: bool,
}

/// A state that is being saved.
struct SavingState {
    /// Its bundles.
    bundles: Vec<MessageBundle>,
    writing: Writing,
}

impl<W: RunWriter> StoredLease<W> {
    /// Returns the lease whose changes are written by `writer`.
    pub fn new(writer: W) -> Result<Self, StoreError> {
        let reader = writer.reader();
        let same = reader.begin_read()?;
        let current = CurrentLineage::load(reader, reader.rows.run()?.lineage)?;
        drop(same);
        Ok(Self {
            writer,
            current,
            last_bundle: Cell::new(None),
            has_failed: false,
        })
    }

    /// Returns what writes its changes.
    pub fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns the lineage that it changes.
    #[cfg(any(test, feature = "test-support"))]
    pub fn current(&mut self) -> &mut CurrentLineage {
        &mut self.current
    }

    /// Begins a change.
    fn begin(&self, change: RunChange, durability: Durability) -> Result<Writing, StoreError> {
        if self.has_failed {
            let what = "events could not be appended before; resume the run";
            let source = std::io::Error::other(what);
            return Err(StoreError::io(self.writer.path(), "write", source));
        }
        self.writer.begin(self.current.line(), change, durability)
    }

    /// Makes a change, and waits until it is committed.
    fn commit(
        &self,
        change: RunChange,
        durability: Durability,
    ) -> Result<WrittenChange, StoreError> {
        match self.begin(change, durability)? {
            Writing::Committed(written) => Ok(written),
            Writing::Pending(writing) => wait(writing),
        }
    }

    /// Finishes the change that was committed last.
    fn complete(
        &mut self,
        written: &WrittenChange,
        durability: Durability,
    ) -> Result<(), StoreError> {
        if durability == Durability::Full {
            self.writer.sync()?;
        }
        self.writer.note_written(written, durability);
        Ok(())
    }

    /// Waits for a change that was begun. If it is refused because a server went back to an earlier state, it is begun
    /// again once what was lost has been stored again.
    async fn finish(
        &mut self,
        begun: Writing,
        durability: Durability,
        mut begin: impl FnMut(&mut Self) -> Result<Writing, StoreError>,
    ) -> Result<WrittenChange, StoreError> {
        let mut restores = 0;
        let mut writing = begun;
        let written = loop {
            let written = match writing {
                Writing::Committed(written) => break written,
                Writing::Pending(pending) => pending.await,
            };
            match written {
                Err(error) if self.restore_after(&error, &mut restores)? => writing = begin(self)?,
                written => break written?,
            }
        };
        self.complete(&written, durability)?;
        Ok(written)
    }

    /// Makes a change, which `change` returns.
    fn make(
        &mut self,
        durability: Durability,
        change: impl Fn(&Self) -> Result<RunChange, StoreError>,
    ) -> Result<WrittenChange, StoreError> {
        let begin = |lease: &mut Self| lease.begin(change(lease)?, durability);
        let writing = begin(self)?;
        wait(self.finish(writing, durability, begin))
    }

    /// Stores again what a server lost, if something was refused with this error because it went back. Returns
    /// whether what was refused can be done again. `restores` counts how often that was so.
    fn restore_after(
        &mut self,
        error: &StoreError,
        restores: &mut u32,
    ) -> Result<bool, StoreError> {
        *restores += 1;
        if !error.is_behind()
            || *restores > MAX_RESTORES
            || !self.writer.restore(self.current.line())?
        {
            return Ok(false);
        }
        // Rows of lineages and states are not stored again. From here on, those are known that are there.
        let newest = KnownEvent::newest_of(self.current.line());
        self.continue_with(self.current.line().id)?;
        self.last_bundle.set(None);
        Ok(KnownEvent::newest_of(self.current.line()) == newest)
    }

    /// Makes a lineage the current one.
    fn continue_with(&mut self, lineage: i64) -> Result<(), StoreError> {
        self.current = CurrentLineage::load(self.writer.reader(), lineage)?;
        Ok(())
    }

    /// Writes the row of the current lineage if it lags behind.
    pub fn write_row_if_behind(&mut self) -> Result<(), StoreError> {
        match self.current.row_behind() {
            Some(_) => self.write_row(),
            None => Ok(()),
        }
    }

    /// Writes the row of the current lineage.
    fn write_row(&mut self) -> Result<(), StoreError> {
        self.make(Durability::Process, |lease| {
            Ok(RunChange::Row(lease.current.line().clone()))
        })?;
        self.current.note_row_written(&self.current.line().clone());
        Ok(())
    }

    /// Returns what becomes of what a list shows of the run, if that is kept.
    fn shown_after(&self, append: Append<'_>) -> Option<OverviewChange> {
        match self.writer.shown() {
            ShownState::Always => Some(OverviewChange::after(append)),
            ShownState::AtEnd => OverviewChange::after_end(append),
            ShownState::Never => None,
        }
    }

    /// Returns the change that appends events.
    fn appending(&self, append: Append<'_>) -> Result<RunChange, StoreError> {
        let records = append.records;
        let Some(branch) = NewBranch::beginning_with(records, self.writer.reader())? else {
            let mut line = self.current.line().clone();
            let events = EncodedEvents::following(&mut line, records);
            return Ok(RunChange::Events(Arc::new(NewEvents {
                events,
                writes_row: self.current.is_row_due(&line),
                shown: self.shown_after(append),
                line,
                replies: append.replies.to_vec(),
            })));
        };
        let mut line = branch.line;
        let events = EncodedEvents::following(&mut line, records);
        // A branch that the run does not continue with changes nothing of what is listed.
        let shown = if branch.becomes_current {
            self.shown_after(append)
        } else {
            None
        };
        Ok(RunChange::Branch(Arc::new(NewLineage {
            behind: self.current.row_behind(),
            line,
            events,
            former: self.current.line().id,
            becomes_current: branch.becomes_current,
            next_line: branch.next_line as i64,
            shown,
        })))
    }

    /// Notes that events were appended.
    fn note_appended(
        &mut self,
        change: RunChange,
        written: WrittenChange,
        append: Append<'_>,
    ) -> Result<(), StoreError> {
        match change {
            RunChange::Events(new) => {
                if new.writes_row {
                    self.current.note_row_written(&new.line);
                }
                let line = match Arc::try_unwrap(new) {
                    Ok(new) => new.line,
                    Err(shared) => shared.line.clone(),
                };
                self.current.note_appended(line, append.records);
                Ok(())
            }
            RunChange::Branch(new) => {
                let id = new.current(written.lineage.unwrap_or(new.line.id));
                self.continue_with(id)
            }
            _ => Ok(()),
        }
    }

    /// Finishes an append whose events are committed. The disk may work on them beside what else the owner has to do.
    fn finish_committed<'a>(
        &'a mut self,
        change: RunChange,
        written: WrittenChange,
        append: Append<'a>,
    ) -> Appending<'a> {
        let durability = append.durability;
        let works_beside = append.other_work == OtherWork::Some
            && durability == Durability::Full
            && self.writer.begin_sync();
        // What the disk has is not known if nobody waits for it.
        self.has_failed = true;
        let finish = move || -> Result<(), StoreError> {
            self.complete(&written, durability)?;
            self.note_appended(change, written, append)?;
            self.has_failed = false;
            Ok(())
        };
        if works_beside {
            Appending::Written(Box::new(finish))
        } else {
            Appending::Done(finish())
        }
    }

    /// Finishes an append that is pending.
    async fn finish_pending(
        &mut self,
        mut change: RunChange,
        writing: Writing,
        append: Append<'_>,
    ) -> Result<(), StoreError> {
        let durability = append.durability;
        let again = |lease: &mut Self| {
            change = lease.appending(append)?;
            let line = lease.current.line();
            lease.writer.begin(line, change.clone(), durability)
        };
        let written = self.finish(writing, durability, again).await;
        let is_refused = written.as_ref().is_err_and(is_refusal);
        let appended = match written {
            Ok(written) => self.note_appended(change, written, append),
            Err(error) => Err(error),
        };
        self.has_failed = appended.is_err() && !is_refused;
        appended
    }

    /// Returns the rows of a state that is to be saved.
    fn snapshot_rows(
        &self,
        state: &EncodedSnapshot<'_>,
        n: i64,
        bundles: Vec<MessageBundle>,
    ) -> Result<SnapshotRows, StoreError> {
        // Only this lease adds bundles to the run.
        let last = match self.last_bundle.get() {
            Some(last) => last,
            None => {
                let keys = self.writer.bundle_keys();
                self.writer.reader().rows.last_bundle(keys)?
            }
        };
        let rows = state.rows(n, last, bundles);
        let newest = rows.new_bundles.last().map(|bundle| bundle.n);
        self.last_bundle.set(Some(newest.unwrap_or(last)));
        Ok(rows)
    }

    /// Begins to save a state, and to delete older ones that are not needed any more.
    fn begin_saving(&self, new: &NewSnapshot<'_>) -> Result<SavingState, StoreError> {
        let rows = self.snapshot_rows(&new.state, new.key, new.bundles.clone())?;
        let bundles = rows.bundles.clone();
        let state = NewestState {
            rows,
            line: new.row.clone(),
        };
        // It may be lost with the power, since the events that it covers are not.
        let change = RunChange::Snapshot(Arc::new(state));
        let writing = self.begin(change, Durability::Process)?;
        Ok(SavingState { bundles, writing })
    }

    /// Waits for a state that is being saved.
    async fn finish_saving<'a>(
        &mut self,
        mut new: NewSnapshot<'a>,
        saving: SavingState,
        env: &'a Environment,
    ) -> Result<(), StoreError> {
        let SavingState {
            mut bundles,
            writing,
        } = saving;
        let again = |lease: &mut Self| {
            new = lease.current.new_snapshot(env);
            let again = lease.begin_saving(&new)?;
            bundles = again.bundles;
            Ok(again.writing)
        };
        let saved = self.finish(writing, Durability::Process, again).await;
        self.current
            .note_snapshot(&new, saved.map(|_| Some(bundles)))
    }

    /// Begins a change that is not an event, and notes it with `note` once it is written.
    fn begin_change<'a>(
        &'a mut self,
        change: RunChange,
        note: impl FnOnce(&mut Self) -> Result<(), StoreError> + Send + 'a,
    ) -> Appending<'a> {
        let durability = Durability::Process;
        let writing = match self.begin(change.clone(), durability) {
            Ok(writing) => writing,
            Err(error) => return Appending::Done(Err(error)),
        };
        let is_committed = matches!(writing, Writing::Committed(_));
        let finish = async move {
            let again = |lease: &mut Self| lease.begin(change.clone(), durability);
            self.finish(writing, durability, again).await?;
            note(self)
        };
        if is_committed {
            Appending::Done(wait(finish))
        } else {
            Appending::Pending(Box::pin(finish))
        }
    }
}

/// Whether a change was certainly not made because of what the database contains.
fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Fenced { .. }
            | StoreError::Lost { .. }
            | StoreError::RolledBack { .. }
            | StoreError::Restored { .. }
    )
}

/// Writes the row of the lineage, so that readers do not have to look for its newest events.
impl<W: RunWriter> Drop for StoredLease<W> {
    fn drop(&mut self) {
        if self.has_failed {
            return;
        }
        if let Err(error) = self.write_row_if_behind() {
            tracing::debug!("the row of the lineage stays behind: {error}");
        }
    }
}

impl<W: RunWriter> Lease for StoredLease<W> {
    fn epoch(&self) -> Epoch {
        self.writer.epoch()
    }

    fn recorded(&self) -> &dyn RecordedRun {
        self.writer.reader()
    }

    fn begin_append<'a>(&'a mut self, append: Append<'a>) -> Appending<'a> {
        if append.records.is_empty() {
            return Appending::Done(Ok(()));
        }
        let writing = self.appending(append).and_then(|change| {
            let writing = self.begin(change.clone(), append.durability)?;
            Ok((change, writing))
        });
        match writing {
            Err(error) => Appending::Done(Err(error)),
            Ok((change, Writing::Committed(written))) => {
                self.finish_committed(change, written, append)
            }
            Ok((change, writing)) => {
                // What was appended is not known if nobody waits for the answer.
                self.has_failed = true;
                Appending::Pending(Box::pin(self.finish_pending(change, writing, append)))
            }
        }
    }

    fn begin_put_blobs<'a>(&'a mut self, blobs: Blobs) -> Appending<'a> {
        self.begin_change(RunChange::Blobs(Arc::new(blobs)), |lease| {
            if lease.writer.needs_row() {
                lease.write_row()
            } else {
                Ok(())
            }
        })
    }

    fn begin_save_snapshot<'a>(&'a mut self, env: &'a Environment) -> Appending<'a> {
        let new = self.current.new_snapshot(env);
        if !new.fits() {
            return Appending::Done(self.current.note_snapshot(&new, Ok(None)));
        }
        match self.begin_saving(&new) {
            Err(error) => Appending::Done(self.current.note_snapshot(&new, Err(error))),
            Ok(saving) if matches!(saving.writing, Writing::Committed(_)) => {
                Appending::Done(wait(self.finish_saving(new, saving, env)))
            }
            Ok(saving) => Appending::Pending(Box::pin(self.finish_saving(new, saving, env))),
        }
    }

    fn begin_keep_checkpoints<'a>(&'a mut self, keep: u32) -> Appending<'a> {
        let reader = self.writer.reader();
        match self.current.forget_checkpoints(reader, keep) {
            Ok(Some(line)) => self.begin_change(RunChange::Row(line.clone()), |lease| {
                lease.current.note_forgotten(line);
                Ok(())
            }),
            Ok(None) => Appending::Done(Ok(())),
            Err(error) => Appending::Done(Err(error)),
        }
    }

    fn status(&self) -> LeaseStatus {
        self.writer.status()
    }

    fn ensure_stored(&mut self) -> Result<(), StoreError> {
        let mut restores = 0;
        loop {
            match self.writer.check_stored(self.current.line()) {
                Err(StoreError::Unreachable { .. }) => return Ok(()),
                Err(error) if self.restore_after(&error, &mut restores)? => {}
                done => return done,
            }
        }
    }

    fn set_patience(&mut self, patience: Duration) {
        self.writer.set_patience(patience);
    }

    fn caps(&self) -> RunCaps {
        self.writer.caps()
    }

    fn snapshot_due(&self) -> bool {
        self.current.is_snapshot_due()
    }

    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        self.begin_save_snapshot(env).finish_blocking()
    }

    fn switch_lineage(&mut self, lineage: &str) -> Result<(), StoreError> {
        if self.current.line().name == lineage {
            return Ok(());
        }
        let id = self.writer.reader().require_lineage(lineage)?.id;
        self.make(Durability::Full, |lease| {
            Ok(RunChange::Switch(Arc::new(LineageSwitch {
                behind: lease.current.row_behind(),
                lineage: id,
                next_line: lease.writer.reader().next_line()? as i64,
            })))
        })?;
        self.continue_with(id)
    }

    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        self.begin_keep_checkpoints(keep).finish_blocking()
    }

    fn prune(&mut self, keep: u32, build_state: &mut BuildState<'_>) -> Result<Pruned, StoreError> {
        let before = self.writer.measure()?;
        let planner = PrunePlanner {
            reader: self.writer.reader(),
            keep,
            max_state_bytes: MAX_SNAPSHOT_BYTES,
            build_state: &mut |saved| build_state(saved),
            save_state: &mut |state, n, bundles| {
                let rows = self.snapshot_rows(state, n, bundles)?;
                let change = RunChange::EarlierState(Arc::new(rows));
                self.commit(change, Durability::Process).map(drop)
            },
        };
        let plan = Arc::new(planner.plan()?);
        // A full sync, which covers the states that were saved before.
        let written = self.commit(RunChange::Prune(Arc::clone(&plan)), Durability::Full)?;
        self.complete(&written, Durability::Full)?;
        self.continue_with(self.current.line().id)?;
        let after = self.writer.shrink()?;
        Ok(Pruned {
            checkpoints: plan.checkpoints,
            events: written.dropped,
            bytes: before.saturating_sub(after),
        })
    }

    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.begin_put_blobs(blobs.clone()).finish_blocking()
    }

    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        let definition = Arc::new(definition.clone());
        self.make(Durability::Full, |_| {
            Ok(RunChange::Definition(Arc::clone(&definition)))
        })
        .map(drop)
    }

    fn set_schedule(&mut self, schedule: RunSchedule) -> Result<(), StoreError> {
        if self.writer.shown() != ShownState::Always {
            return Ok(());
        }
        self.make(Durability::Full, |_| Ok(RunChange::Schedule(schedule)))
            .map(drop)
    }

    fn set_note(
        &mut self,
        name: &str,
        text: &str,
        durability: Durability,
    ) -> Result<(), StoreError> {
        self.make(durability, |_| Ok(RunChange::note(name, text)))
            .map(drop)
    }
}
