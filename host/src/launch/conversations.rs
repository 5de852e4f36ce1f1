//! Reads the conversations of roles whose model works with tools from what is saved. Reads without
//! the lock, so that the team may run at the same time.

use strata_storage::{StateSelector, StorageLocation};

use super::LaunchError;
use super::recorded_events::RecordedEvents;
use strata_view::SavedTeam;
use strata_view::{ConversationTracker, ConversationView};

/// Passes every conversation that led to `saved`, the state `at`, to `show`, oldest first. Those that
/// are open come last. A `team.json` alone has only these.
pub fn for_each_conversation(
    location: &StorageLocation,
    at: &StateSelector,
    saved: &SavedTeam,
    show: &mut dyn FnMut(ConversationView),
) -> Result<(), LaunchError> {
    let mut tracker = ConversationTracker::default();
    let Some(events) = RecordedEvents::of_run(location, at)? else {
        tracker
            .conversations(&saved.stepper)
            .into_iter()
            .for_each(show);
        return Ok(());
    };
    let beginning = events.earliest_state()?;
    let mut stepper = saved.stepper.with_env(beginning.env);
    let newest = stepper.env().checkpoint.clone();
    events.replay(beginning.position, newest, |record| {
        stepper.ensure_names_exist(&record.event)?;
        for conversation in tracker.add_event(&record.event, &stepper) {
            show(conversation);
        }
        stepper.apply(&record.event)?;
        Ok(stepper.env().checkpoint.clone())
    })?;
    tracker.conversations(&stepper).into_iter().for_each(show);
    Ok(())
}
