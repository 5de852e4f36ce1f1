//! Who continues a run.

use strata_storage::{RunSchedule, StorageLocation};
use strata_view::Continuation;

/// Returns who continues the run that is kept at a location: its operator, if no worker ever takes it.
pub fn continuation(location: &StorageLocation) -> Continuation {
    // A place that cannot be read is reported by whoever reads the run.
    let Ok(Some(state)) = location.submission_state() else {
        return Continuation::OwnProcess;
    };
    match state.schedule {
        None => Continuation::OwnProcess,
        Some(_) if state.problem.is_some() => Continuation::Workers,
        Some(RunSchedule::OnRequest) => Continuation::Workers,
        Some(RunSchedule::Now | RunSchedule::Later(_)) => Continuation::Itself,
    }
}
