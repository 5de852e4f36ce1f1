//! Reads the conversations of roles whose model works with tools from what is saved. Reads without
//! the lock, so that the team may run at the same time.

use strata_storage::{StateSelector, StorageLocation, StoreError};

use super::LaunchError;
use super::recorded_events::RecordedEvents;
use super::saved::list_checkpoints;
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
    let reader = match location.read() {
        Ok(reader) => reader,
        Err(StoreError::NoRecords { .. }) => {
            for conversation in tracker.conversations(&saved.stepper) {
                show(conversation);
            }
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let rows = match at {
        StateSelector::Checkpoint(_) => list_checkpoints(location)?.0,
        StateSelector::Head | StateSelector::Lineage(_) => Vec::new(),
    };
    let events = RecordedEvents::select(reader, at, &rows)?;
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
    for conversation in tracker.conversations(&stepper) {
        show(conversation);
    }
    Ok(())
}
