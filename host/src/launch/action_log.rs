//! Finds what an action logged in what is saved. Reads without the lock, so that the team may run at
//! the same time.

use strata_core::record::event::{AttemptEvent, Event, Logged};
use strata_core::record::id::Slot;
use strata_core::state::budget::charged_slot;
use strata_storage::{StateSelector, StorageLocation};

use super::LaunchError;
use super::recorded_events::RecordedEvents;
use strata_view::ActionLog;
use strata_view::SavedTeam;

/// Returns what the action in a slot logged when it succeeded last before `saved`, the state `at`.
/// Returns `None` if it logged nothing, or if the events are not saved, as with a `team.json` alone.
pub fn last_log(
    location: &StorageLocation,
    at: &StateSelector,
    saved: &SavedTeam,
    slot: Slot,
) -> Result<Option<ActionLog>, LaunchError> {
    let Some(events) = RecordedEvents::of_run(location, at)? else {
        return Ok(None);
    };
    let beginning = events.earliest_state()?;
    let mut stepper = saved.stepper.with_env(beginning.env);
    let newest = stepper.env().checkpoint.clone();
    // Tool calls of a turn are attempted at the same time; a log belongs to the success that follows.
    let (mut logged, mut last) = (None, None);
    events.replay(beginning.position, newest, |record| {
        stepper.apply(&record.event)?;
        match &record.event {
            Event::Attempt(call, AttemptEvent::Logged(Logged { lines, left_out }))
                if charged_slot(call.role, call.work) == slot =>
            {
                let (lines, left_out) = (lines.clone(), *left_out);
                logged = Some((*call, ActionLog { lines, left_out }));
            }
            Event::Attempt(call, AttemptEvent::CallFinished(_))
                if charged_slot(call.role, call.work) == slot =>
            {
                let own = logged.take().filter(|(of, _)| of == call);
                last = own.map(|(_, log)| log);
            }
            _ => {}
        }
        Ok(stepper.env().checkpoint.clone())
    })?;
    Ok(last)
}
