//! One log for several teams of a process: what they make safe at the same moment is written and synced once.
//!
//! Each team goes on writing to its own database, which has everything as long as the machine does not lose power. The
//! log has, beside that, the events since a team last synced its own. It lies in the storage directory of every team
//! that writes to it, as a hard link: no directory depends on what lies outside of it, and who is the last to remove the
//! link removes the log. How it looks is in `file`; who was cut off takes in what it has there in `sqlite/joined`.

mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) use file::{Link, is_link, links};
use file::{LogFile, MAX_BATCH_BYTES, MAX_ENTRY_BYTES};

/// A log that the teams of a process share, so that those that wait for the disk at the same moment wait for one sync
/// ("group commit"): worth it where a dozen teams or more run at once. It is named in `Start` and `Resume`; a clone is the
/// same log.
///
/// A team that cannot join, because its storage lies on another file system than that of the first or its `durability` is
/// `process`, syncs by itself. While a team belongs to it, its storage directory holds a link to the log,
/// `team.shared-log-…`: it belongs to what is saved, and whoever copies the directory of a team that was cut off copies
/// it, too.
/// The next run of the team needs no `GroupLog` to go on. After a loss of power it is that run that takes in what only the
/// log has: commands that merely look, like `inspect`, show the team as of when it last synced by itself until then.
#[derive(Clone, Debug, Default)]
pub struct GroupLog {
    shared: Arc<Shared>,
}

/// How many batches a team writes before it goes on, while others wait for the next.
const MAX_BATCHES: usize = 8;

/// How long a batch is waited for. With fewer at work than before, that is what it costs them once or twice.
const MAX_WAIT: Duration = Duration::from_micros(200);

/// In how many turns the teams sync their own logs.
const PARTS: u64 = 64;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Who waits for a batch waits at the one of its parity: whom it does not concern sleeps on.
    written: [Condvar; 2],
    /// Who writes the next batch waits here for others.
    gathered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    members: BTreeMap<u64, Place>,
    /// How many there ever were: their numbers in the log.
    joined: u64,
    /// Away while somebody writes a batch to it.
    file: Option<LogFile>,
    /// Its half; see `file`.
    generation: u64,
    /// How far that is full, in parts of `PARTS`.
    filled: u64,
    /// What the next batch will hold.
    batch: Vec<u8>,
    /// How many entries those are.
    gathered: usize,
    /// How many entries its writer waits for.
    wanted: usize,
    /// How many entries the last two batches had.
    sizes: [usize; 2],
    /// Room for the batch after that.
    spare: Vec<u8>,
    /// How many batches were begun before the next.
    begun: u64,
    /// How many are safe.
    safe: u64,
    /// It could not be written: everyone syncs by himself from now on.
    broken: bool,
}

/// What is known of a team.
#[derive(Debug)]
struct Place {
    link: PathBuf,
    /// The log of its own database, once it writes to that.
    own: Option<Arc<File>>,
    /// The generation at which that was last synced: what the log has of it from earlier ones is not needed any more.
    synced: u64,
}

/// A team's part in a log; it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Member {
    shared: Arc<Shared>,
    id: u64,
    link: PathBuf,
}

impl GroupLog {
    /// A log that nobody writes to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the team of a directory. The link is durable once the directory is synced.
    pub(super) fn join(&self, directory: &Path) -> io::Result<Member> {
        let mut state = self.shared.lock();
        state.joined += 1;
        let id = state.joined;
        let link = file::link(directory, id);
        if state.members.is_empty() {
            state.file = Some(LogFile::create(&link)?);
            (state.generation, state.broken) = (0, false);
            // What was on its way when the last one broke.
            (state.batch, state.gathered) = (Vec::new(), 0);
        } else {
            // One whose directory was moved is of no use for that.
            let mut linked = state
                .members
                .values()
                .map(|place| std::fs::hard_link(&place.link, &link));
            let first = linked.next().unwrap_or(Ok(()));
            first.or_else(|error| linked.find_map(Result::ok).ok_or(error))?;
        }
        let synced = state.generation;
        state.members.insert(
            id,
            Place {
                link: link.clone(),
                own: None,
                synced,
            },
        );
        Ok(Member {
            shared: self.shared.clone(),
            id,
            link,
        })
    }
}

impl Member {
    /// What is passed to `synced` when what is now written to the team's own log is safe.
    pub(super) fn generation(&self) -> u64 {
        self.shared.lock().generation
    }

    /// A number that the teams of a log have in turn, below `turns`.
    pub(super) fn turn(&self, turns: u64) -> u64 {
        self.id % turns
    }

    /// The team's own log is safe, with all that was written to it at that generation.
    pub(super) fn synced(&self, own: &Arc<File>, generation: u64) {
        if let Some(place) = self.shared.lock().members.get_mut(&self.id) {
            if !place
                .own
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, own))
            {
                place.own = Some(own.clone());
            }
            place.synced = place.synced.max(generation);
        }
    }

    /// Makes an entry safe, together with those of others. Gives whether it is; if not, the team has to sync its own log,
    /// which it does now and then anyway, so that the place of old entries can be used again.
    pub(super) fn commit(&self, entry: &[u8]) -> bool {
        let mut state = self.shared.lock();
        let is_due = state.is_due(self.id);
        let is_large =
            entry.len() > MAX_ENTRY_BYTES || state.batch.len() + entry.len() > MAX_BATCH_BYTES;
        if state.broken || is_due || is_large {
            return false;
        }
        file::add(&mut state.batch, self.id, entry);
        state.gathered += 1;
        if state.gathered == state.wanted {
            self.shared.gathered.notify_one();
        }
        let own = state.begun + 1;
        while state.safe < own && !state.broken {
            if let Some(file) = state.file.take() {
                return self.shared.lead(state, file);
            }
            state = self.shared.written[own as usize & 1]
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.safe >= own
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What a thread left that panicked is whole: nothing is done by halves here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the batch that has gathered, in which the caller has an entry, and gives whether that is safe. Who waits
    /// already when it is gets the next one written, too: to wake one of them for that would take longer.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>, mut file: LogFile) -> bool {
        let own = state.begun + 1;
        for _ in 0..MAX_BATCHES {
            state = self.write(self.gather(state), &mut file);
            if state.batch.is_empty() || state.broken {
                break;
            }
        }
        let (is_safe, next) = (state.safe >= own, state.begun + 1);
        state.file = Some(file);
        drop(state);
        self.written[next as usize & 1].notify_one();
        is_safe
    }

    /// Waits for a moment until as many have an entry in the batch as had in those before, but not for more than half of
    /// all: the others are to be at work while it is written.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.wanted = (state.sizes.iter().sum::<usize>() / 2).min(state.members.len() / 2);
        if state.gathered < state.wanted {
            let is_short = |state: &mut State| state.gathered < state.wanted;
            let waited = self.gathered.wait_timeout_while(state, MAX_WAIT, is_short);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (state.wanted, state.sizes) = (0, [state.sizes[1], state.gathered]);
        state
    }

    /// Writes what has gathered as one batch. Meanwhile the next one gathers.
    fn write<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        file: &mut LogFile,
    ) -> MutexGuard<'a, State> {
        let spare = std::mem::take(&mut state.spare);
        let mut batch = std::mem::replace(&mut state.batch, spare);
        (state.begun, state.gathered) = (state.begun + 1, 0);
        let (own, generation) = (state.begun, state.generation);
        let turns = !file.has_room(batch.len());
        let late = if turns { state.late() } else { Vec::new() };
        drop(state);
        let mut write = || {
            late.iter().try_for_each(|(_, own)| own.sync_data())?;
            if turns {
                file.turn();
            }
            file.write(&mut batch)
        };
        let written = write();
        batch.clear();
        let mut state = self.lock();
        for (id, _) in late {
            state
                .members
                .entry(id)
                .and_modify(|place| place.synced = place.synced.max(generation));
        }
        (state.generation, state.filled) = (file.generation(), file.filled(PARTS));
        state.spare = batch;
        match written {
            Ok(()) => state.safe = own,
            Err(error) => {
                tracing::warn!("teams cannot share a log, so each syncs its own: {error}");
                state.broken = true;
            }
        }
        let is_broken = state.broken;
        // Who is woken needs the state.
        drop(state);
        self.written[own as usize & 1].notify_all();
        if is_broken {
            self.written[own as usize & 1 ^ 1].notify_all();
        }
        self.lock()
    }
}

impl State {
    /// Whether a team has to sync its own log, so that the half of the shared one that is full now can be written over in
    /// time. Not all do it at the same moment, for which the others would wait.
    fn is_due(&self, id: u64) -> bool {
        let turn = self.filled * 4 / 3 >= id % PARTS;
        self.members
            .get(&id)
            .is_none_or(|place| place.synced < self.generation && turn)
    }

    /// Who needs what is about to be written over: those that have not synced their own log since the other half of the
    /// log began.
    fn late(&self) -> Vec<(u64, Arc<File>)> {
        let late = self
            .members
            .iter()
            .filter(|(_, place)| place.synced < self.generation);
        late.filter_map(|(id, place)| Some((*id, place.own.clone()?)))
            .collect()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let place = self.shared.lock().members.remove(&self.id);
        // One that is removed was moved into the database, and that was synced. With what is in the log still needed, the
        // link stays: the next run takes it in.
        let is_removed = |own: &File| rustix::fs::fstat(own).is_ok_and(|meta| meta.st_nlink == 0);
        let is_safe = |own: Arc<File>| is_removed(&own) || own.sync_data().is_ok();
        let is_safe = place.and_then(|place| place.own).is_none_or(is_safe);
        if is_safe && let Err(error) = std::fs::remove_file(&self.link) {
            tracing::warn!(
                "`{}` is not needed any more and cannot be removed: {error}",
                self.link.display()
            );
        }
    }
}
