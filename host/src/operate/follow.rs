//! Follows the events of a run until it has ended, whoever works on it meanwhile.

use std::thread::sleep;
use std::time::Duration;

use strata_core::record::event::Status;
use strata_driver::public_event::EventLine;
use strata_storage::{LifecycleState, LockHolder, RunListing};

use super::Patience;
use super::list::find_run;
use crate::launch::{EventReader, LaunchError};

/// How often new events are looked for, while a process works on the run and while none does.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// How long events are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUntil {
    /// Until no process works on the run.
    Rest,
    /// Until the run has ended: over the time that it waits for workers and people, and over take-overs.
    End,
}

/// Passes the events of a run to `visit`, those that are there and those that come, until it returns false or the run
/// rests or has ended. A database that is away is waited for.
///
/// # Errors
/// Fails if the run cannot be read.
pub fn follow_events(
    reader: &mut EventReader,
    until: FollowUntil,
    visit: &mut dyn FnMut(&EventLine) -> bool,
) -> Result<(), LaunchError> {
    let mut patience = Patience::default();
    loop {
        // Who works on it is determined before reading: a process that gives the run up has recorded all of its events.
        let Some(phase) = patience.accept(phase_of(reader, until))? else {
            continue;
        };
        loop {
            let lines = match reader.next_lines() {
                Ok(Some(lines)) => lines,
                Ok(None) => break,
                Err(error) => {
                    // The reader may hold a connection that is broken.
                    patience.accept::<(), _>(Err(error))?;
                    patience.accept(reader.reopen())?;
                    continue;
                }
            };
            for line in &lines {
                if !visit(line) {
                    return Ok(());
                }
            }
        }
        match phase {
            Phase::Over => return Ok(()),
            Phase::Busy => sleep(BUSY_INTERVAL),
            Phase::Idle => sleep(IDLE_INTERVAL),
        }
    }
}

/// Whether events may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A process works on the run.
    Busy,
    /// None does, and somebody may continue it.
    Idle,
    /// Nothing is waited for.
    Over,
}

fn phase_of(reader: &EventReader, until: FollowUntil) -> Result<Phase, LaunchError> {
    if reader.holder()? != LockHolder::Nobody {
        return Ok(Phase::Busy);
    }
    if until == FollowUntil::Rest {
        return Ok(Phase::Over);
    }
    let Some(RunListing {
        state,
        overview,
        queued,
        ..
    }) = find_run(reader.location())?.map(|run| run.listing)
    else {
        return Ok(Phase::Over);
    };
    // Somebody stopped it, and no worker takes it by itself.
    let is_stopped =
        queued.is_none() && overview.is_some_and(|run| run.status == Status::Interrupted);
    Ok(if state == LifecycleState::Ended || is_stopped {
        Phase::Over
    } else {
        Phase::Idle
    })
}
