//! One log for several teams of a process. What they commit at the same moment is written and
//! synced once.
//!
//! Each team goes on writing to its own database, which is complete unless the machine loses power.
//! The log holds, in addition, the events since a team last synced its own database. Every storage
//! directory whose team writes to the log contains a hard link to it. So no directory depends on
//! anything outside of it, and removing the last link removes the log. The file has two halves,
//! which are written alternately; each use of a half is a generation. The format of the file is in
//! `file`; `sqlite/group_commit` restores events from it after a crash.
//!
//! "The log" is the one that teams share. The log of a team's own database is called its WAL.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use file::{LogFile, MAX_BATCH_BYTES, MAX_ENTRY_BYTES};
pub(in crate::storage) use file::{LogLink, is_log_link, log_links};

/// A log that the teams of a process share, so that teams that commit at the same moment wait for a
/// single sync ("group commit"). It pays off when a dozen teams or more run at once. It is passed
/// in `Start` and `Resume`; a clone refers to the same log.
///
/// A team syncs by itself if it cannot join: if its storage lies on another file system than that
/// of the first team, or if its `durability` is `process`. While a team belongs to the log, its
/// storage directory contains a link to it, `team.shared-log-…`. The link is part of the saved
/// team: a copy of the directory of a team that was killed has to include it.
///
/// The next run of the team needs no `GroupLog`. After a loss of power, that run restores the
/// events that only the log has. Until then, commands that only read, like `inspect`, show the team
/// as of the last time it synced its own database.
#[derive(Clone, Debug, Default)]
pub struct GroupLog {
    log: Arc<GroupLogInner>,
}

/// How many batches one team writes in a row while others wait for the next one.
const MAX_BATCHES_IN_A_ROW: usize = 8;

/// How long the writer of a batch waits for others. After the number of active teams drops, the
/// next one or two batches wait this long in vain.
const MAX_WAIT: Duration = Duration::from_micros(200);

/// Over how many fill levels of a half the teams spread the syncs of their WALs.
const SYNC_SLOTS: u64 = 64;

/// What all clones of a `GroupLog` refer to.
#[derive(Debug, Default)]
struct GroupLogInner {
    state: Mutex<GroupLogState>,
    /// Signals that a batch was written. Waiters use the condition variable of their batch's
    /// parity, so that those of the other batch are not woken.
    batch_written: [Condvar; 2],
    /// Signals the writer of the next batch that enough entries have been added.
    batch_filled: Condvar,
}

#[derive(Debug, Default)]
struct GroupLogState {
    members: BTreeMap<u64, MemberState>,
    /// The number of the newest member; numbers are never reused.
    last_id: u64,
    /// The file; `None` while a member writes a batch to it.
    file: Option<LogFile>,
    /// The generation of the file's current half; see `file`.
    generation: u64,
    /// How much of that half is used, in units of 1 / `SYNC_SLOTS`.
    filled_slots: u64,
    /// The encoded entries of the next batch.
    batch: Vec<u8>,
    /// How many entries `batch` holds.
    batch_entries: usize,
    /// How many entries the writer of `batch` waits for.
    awaited_entries: usize,
    /// How many entries the last two batches had.
    recent_sizes: [usize; 2],
    /// A buffer to reuse for the batch after the next.
    spare_buffer: Vec<u8>,
    /// How many batches have been started.
    started_batches: u64,
    /// How many batches are durable.
    durable_batches: u64,
    /// Whether writing the log, or syncing the WAL of a member before a half was overwritten,
    /// failed or panicked. From then on every team syncs its own WAL, until all members have left.
    is_broken: bool,
}

/// What the log knows of a member.
#[derive(Debug)]
struct MemberState {
    link: PathBuf,
    /// The WAL of its own database, once it has written to it.
    own_wal: Option<Arc<File>>,
    /// The generation during which that WAL was last synced. Entries of earlier generations are not
    /// needed any more.
    synced_generation: u64,
}

/// The membership of a team in a group log. Dropping it leaves the log.
#[derive(Debug)]
pub(in crate::storage) struct Member {
    log: Arc<GroupLogInner>,
    id: u64,
    link: PathBuf,
}

impl GroupLog {
    /// Creates a log without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the team of a directory. The link to the log is durable once the directory is synced.
    pub(in crate::storage) fn join(&self, directory: &Path) -> io::Result<Member> {
        let mut state = self.log.lock();
        state.last_id += 1;
        let id = state.last_id;
        let link = file::link_path(directory, id);
        if state.members.is_empty() {
            state.file = Some(LogFile::create(&link)?);
            (state.generation, state.is_broken) = (0, false);
            // Discards what was pending when the last file broke.
            (state.batch, state.batch_entries) = (Vec::new(), 0);
        } else {
            // The link of a member whose directory was moved cannot be used, so all are tried.
            let mut linked = state
                .members
                .values()
                .map(|member| std::fs::hard_link(&member.link, &link));
            let first = linked.next().unwrap_or(Ok(()));
            first.or_else(|error| linked.find_map(Result::ok).ok_or(error))?;
        }
        let synced = state.generation;
        state.members.insert(
            id,
            MemberState {
                link: link.clone(),
                own_wal: None,
                synced_generation: synced,
            },
        );
        Ok(Member {
            log: self.log.clone(),
            id,
            link,
        })
    }
}

impl Member {
    /// Returns the current generation, to be passed to `note_synced` once what is now written to
    /// the team's own WAL is durable.
    pub(in crate::storage) fn generation(&self) -> u64 {
        self.log.lock().generation
    }

    /// Returns a number below `slots` that differs between neighbouring members, to spread their
    /// work.
    pub(in crate::storage) fn slot_of(&self, slots: u64) -> u64 {
        self.id % slots
    }

    /// Notes that the team's own WAL is durable, with all that was written to it up to that
    /// generation.
    pub(in crate::storage) fn note_synced(&self, own_wal: &Arc<File>, generation: u64) {
        if let Some(member) = self.log.lock().members.get_mut(&self.id) {
            if !member
                .own_wal
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, own_wal))
            {
                member.own_wal = Some(own_wal.clone());
            }
            member.synced_generation = member.synced_generation.max(generation);
        }
    }

    /// Makes an entry durable, together with those of other members. Returns whether it is; if not,
    /// the team has to sync its own WAL. Each team has to do that now and then anyway, so that the
    /// space of old entries can be reused.
    pub(in crate::storage) fn commit(&self, entry: &[u8]) -> bool {
        let mut state = self.log.lock();
        let is_due = state.must_sync_own_wal(self.id);
        let does_not_fit =
            entry.len() > MAX_ENTRY_BYTES || state.batch.len() + entry.len() > MAX_BATCH_BYTES;
        if state.is_broken || is_due || does_not_fit {
            return false;
        }
        file::add_entry(&mut state.batch, self.id, entry);
        state.batch_entries += 1;
        if state.batch_entries == state.awaited_entries {
            self.log.batch_filled.notify_one();
        }
        let own_batch = state.started_batches + 1;
        while state.durable_batches < own_batch && !state.is_broken {
            if let Some(file) = state.file.take() {
                return self.log.write_batches(state, file);
            }
            state = self.log.batch_written[own_batch as usize & 1]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.durable_batches >= own_batch
    }
}

impl GroupLogInner {
    fn lock(&self) -> MutexGuard<'_, GroupLogState> {
        // A thread that panicked leaves the state consistent: see `BreakOnPanic`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the pending batch, which contains an entry of the caller, and returns whether it is
    /// durable. If entries for another batch were added meanwhile, it writes that, too: waking
    /// another member to do it would take longer.
    fn write_batches<'a>(
        &'a self,
        mut state: MutexGuard<'a, GroupLogState>,
        mut file: LogFile,
    ) -> bool {
        let own_batch = state.started_batches + 1;
        for _ in 0..MAX_BATCHES_IN_A_ROW {
            state = self.write_batch(self.wait_for_entries(state), &mut file);
            if state.batch.is_empty() || state.is_broken {
                break;
            }
        }
        let (is_durable, next) = (
            state.durable_batches >= own_batch,
            state.started_batches + 1,
        );
        state.file = Some(file);
        drop(state);
        self.batch_written[next as usize & 1].notify_one();
        is_durable
    }

    /// Waits until the batch has as many entries as the recent batches had, but not for more than
    /// half of all members, since the others are to work while it is written. Waits `MAX_WAIT` at
    /// most.
    fn wait_for_entries<'a>(
        &'a self,
        mut state: MutexGuard<'a, GroupLogState>,
    ) -> MutexGuard<'a, GroupLogState> {
        state.awaited_entries =
            (state.recent_sizes.iter().sum::<usize>() / 2).min(state.members.len() / 2);
        if state.batch_entries < state.awaited_entries {
            let is_short = |state: &mut GroupLogState| state.batch_entries < state.awaited_entries;
            let waited = self
                .batch_filled
                .wait_timeout_while(state, MAX_WAIT, is_short);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.awaited_entries, state.recent_sizes) =
            (0, [state.recent_sizes[1], state.batch_entries]);
        state
    }

    /// Writes the pending batch. Entries for the next one can be added meanwhile.
    fn write_batch<'a>(
        &'a self,
        mut state: MutexGuard<'a, GroupLogState>,
        file: &mut LogFile,
    ) -> MutexGuard<'a, GroupLogState> {
        let spare = std::mem::take(&mut state.spare_buffer);
        let mut batch = std::mem::replace(&mut state.batch, spare);
        (state.started_batches, state.batch_entries) = (state.started_batches + 1, 0);
        let (own_batch, generation) = (state.started_batches, state.generation);
        let must_switch_half = !file.fits(batch.len());
        let members_behind = if must_switch_half {
            state.members_behind()
        } else {
            Vec::new()
        };
        drop(state);
        let break_on_panic = BreakOnPanic { log: self };
        let mut write = || {
            members_behind
                .iter()
                .try_for_each(|(_, own_wal)| own_wal.sync_data())?;
            if must_switch_half {
                file.switch_half();
            }
            file.write_batch(&mut batch)
        };
        let written = write();
        drop(break_on_panic);
        batch.clear();
        let mut state = self.lock();
        for (id, _) in members_behind {
            state.members.entry(id).and_modify(|member| {
                member.synced_generation = member.synced_generation.max(generation)
            });
        }
        (state.generation, state.filled_slots) = (file.generation(), file.filled(SYNC_SLOTS));
        state.spare_buffer = batch;
        match written {
            Ok(()) => state.durable_batches = own_batch,
            Err(error) => {
                tracing::warn!("teams cannot share a log, so each syncs its own: {error}");
                state.is_broken = true;
            }
        }
        let is_broken = state.is_broken;
        // Those that are woken need the mutex.
        drop(state);
        self.batch_written[own_batch as usize & 1].notify_all();
        if is_broken {
            self.batch_written[own_batch as usize & 1 ^ 1].notify_all();
        }
        self.lock()
    }
}

/// Marks a log as broken if the thread that writes a batch panics. Then the file is lost, so those
/// that wait for the batch could wait forever; instead, each of them syncs its own WAL.
struct BreakOnPanic<'a> {
    log: &'a GroupLogInner,
}

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.log.lock().is_broken = true;
        for batch_written in &self.log.batch_written {
            batch_written.notify_all();
        }
    }
}

impl GroupLogState {
    /// Whether a member has to sync its own WAL, so that the previous half can be overwritten in
    /// time. Members do this at different fill levels, since the others wait during a sync.
    fn must_sync_own_wal(&self, id: u64) -> bool {
        // All members have reached their slot when three quarters of the half are full. The last
        // quarter is for those that have not committed since: they sync with their next commit.
        let slot_reached = self.filled_slots * 4 / 3 >= id % SYNC_SLOTS;
        self.members
            .get(&id)
            .is_none_or(|member| member.synced_generation < self.generation && slot_reached)
    }

    /// Returns the members that still need the half that is about to be overwritten: those that
    /// have not synced their own WAL since the other half was started.
    fn members_behind(&self) -> Vec<(u64, Arc<File>)> {
        let late = self
            .members
            .iter()
            .filter(|(_, member)| member.synced_generation < self.generation);
        late.filter_map(|(id, member)| Some((*id, member.own_wal.clone()?)))
            .collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let member = self.log.lock().members.remove(&self.id);
        // If SQLite has removed the WAL, its contents are in the database and synced. If entries in
        // the log are still needed, the link stays, and the next run restores them.
        let is_removed = |wal: &File| rustix::fs::fstat(wal).is_ok_and(|meta| meta.st_nlink == 0);
        let make_durable = |wal: Arc<File>| is_removed(&wal) || wal.sync_data().is_ok();
        let is_durable = member
            .and_then(|member| member.own_wal)
            .is_none_or(make_durable);
        if is_durable && let Err(error) = std::fs::remove_file(&self.link) {
            tracing::warn!(
                "`{}` is not needed any more and cannot be removed: {error}",
                self.link.display()
            );
        }
    }
}
