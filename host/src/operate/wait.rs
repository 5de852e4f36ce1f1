//! Waits until runs have ended or need a person.

use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_core::record::event::Status;
use strata_storage::{DeletedRun, LifecycleState, RunFilter, StorageLocation, StoreError};

use super::Patience;
use super::list::{FoundRun, list_runs};
use crate::launch::LaunchError;

/// How often it is looked at whether runs have ended.
const INTERVAL: Duration = Duration::from_millis(250);
/// How many times as long as the last look took is waited at least.
const LOOK_TIMES: u32 = 4;

/// For which of several runs is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// All of them.
    All,
    /// The first that ends.
    Any,
}

/// A run for which nothing is waited any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAtRest {
    /// The run.
    pub run: FoundRun,
    /// Why it rests.
    pub rest: RestCause,
}

/// Why a run rests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestCause {
    /// It ended, or waits for a person, with this status.
    Status(Status),
    /// Workers do not take it, for this reason.
    Refused(String),
    /// What is saved of it cannot be read, for this reason.
    Unreadable(String),
    /// It was deleted meanwhile; by whom, if that is known.
    Deleted(Option<DeletedRun>),
}

/// The outcome of waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The runs that rest, in the order in which they were found to.
    pub rested: Vec<RunAtRest>,
    /// Whether the time was over before all was waited for.
    pub is_time_over: bool,
}

/// Waits until the runs at these places have ended, need a person, are refused by workers, or are deleted; at most for a
/// time. `on_rest` is called once for each of them. A database that is away is waited for.
///
/// # Errors
/// Fails if a place cannot be read, or has no run.
pub fn wait_for_runs(
    places: &[StorageLocation],
    wait_for: WaitFor,
    timeout: Option<Duration>,
    on_rest: &mut dyn FnMut(&RunAtRest),
) -> Result<Waited, LaunchError> {
    let (start, mut patience) = (Instant::now(), Patience::default());
    let mut watch = Watch::default();
    loop {
        let look_start = Instant::now();
        let looked = watch.look(places, on_rest);
        let look_time = look_start.elapsed();
        if patience.accept(looked)?.is_some() && watch.is_over(wait_for) {
            return Ok(Waited {
                rested: watch.rested,
                is_time_over: false,
            });
        }
        if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
            return Ok(Waited {
                rested: watch.rested,
                is_time_over: true,
            });
        }
        // A database with many runs has other things to do than to list them.
        sleep(INTERVAL.max(LOOK_TIMES * look_time));
    }
}

/// The runs that were seen.
#[derive(Default)]
struct Watch {
    rested: Vec<RunAtRest>,
    /// Those that did not rest when they were seen last.
    pending: Vec<FoundRun>,
}

impl Watch {
    /// Looks at the runs again.
    fn look(
        &mut self,
        places: &[StorageLocation],
        on_rest: &mut dyn FnMut(&RunAtRest),
    ) -> Result<(), LaunchError> {
        let mut listed = Vec::new();
        for place in places {
            listed.extend(self.list(place)?);
        }
        let is_first = self.rested.is_empty() && self.pending.is_empty();
        if is_first && listed.is_empty() {
            let text = "there is no run to wait for";
            return Err(LaunchError::InvalidInput(text.into()));
        }
        let before = std::mem::take(&mut self.pending);
        let is_left = |run: &FoundRun| listed.iter().any(|other| is_same(run, other));
        let deleted: Vec<_> = before.into_iter().filter(|run| !is_left(run)).collect();
        for run in deleted {
            let rest = RestCause::Deleted(find_deletion(&run.listing.location));
            self.note_rest(RunAtRest { run, rest }, on_rest);
        }
        for run in listed {
            if self.rested.iter().any(|one| is_same(&one.run, &run)) {
                continue;
            }
            match rest_of(&run) {
                Some(rest) => self.note_rest(RunAtRest { run, rest }, on_rest),
                None => self.pending.push(run),
            }
        }
        Ok(())
    }

    /// Lists the runs at a place: none if those that were there are deleted.
    fn list(&self, place: &StorageLocation) -> Result<Vec<FoundRun>, LaunchError> {
        let listed = list_runs(std::slice::from_ref(place), &RunFilter::default());
        let mut seen = self.rested.iter().map(|one| &one.run).chain(&self.pending);
        match listed {
            Err(LaunchError::Store(StoreError::NoRun { .. } | StoreError::Absent { .. }))
                if seen.any(|run| run.listing.location == place.normalized()) =>
            {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    fn note_rest(&mut self, one: RunAtRest, on_rest: &mut dyn FnMut(&RunAtRest)) {
        on_rest(&one);
        self.rested.push(one);
    }

    /// Whether there is nothing to wait for any more.
    fn is_over(&self, wait_for: WaitFor) -> bool {
        match wait_for {
            WaitFor::All => self.pending.is_empty(),
            WaitFor::Any => !self.rested.is_empty(),
        }
    }
}

fn is_same(one: &FoundRun, other: &FoundRun) -> bool {
    one.listing.location == other.listing.location
}

/// Returns who deleted the run at a location, if that is known.
fn find_deletion(location: &StorageLocation) -> Option<DeletedRun> {
    match location.saved_form() {
        Err(StoreError::NoRun { deleted, .. }) => deleted,
        _ => None,
    }
}

/// Returns why a run rests, if nobody goes on with it by himself.
fn rest_of(run: &FoundRun) -> Option<RestCause> {
    if let Some(damage) = &run.damage {
        return Some(RestCause::Unreadable(damage.clone()));
    }
    let status = run.listing.overview.as_ref()?.status;
    let queued = run.listing.queued.as_ref();
    match run.listing.state {
        LifecycleState::Running | LifecycleState::Queued => None,
        LifecycleState::Refused => {
            let problem = queued.and_then(|queued| queued.problem.clone());
            Some(RestCause::Refused(problem.unwrap_or_default()))
        }
        // A server takes it again by itself after a failure.
        LifecycleState::Resting if queued.is_some() && status == Status::Running => None,
        LifecycleState::Resting if queued.is_some() && status == Status::Interrupted => None,
        LifecycleState::Resting | LifecycleState::Ended | LifecycleState::Detached => {
            Some(RestCause::Status(status))
        }
    }
}
