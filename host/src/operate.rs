//! Operating many runs: listing them, waiting for them, and doing something with each of several.
//!
//! What is stored of runs is read and changed in `storage`; commands and servers call the functions here.

mod bulk;
mod follow;
mod list;
mod metrics;
mod patience;
mod wait;

pub use bulk::{
    DeleteRuns, RunDeed, SelectedRun, check_deed, delete_run, delete_run_by, select_runs,
};
pub use follow::{FollowUntil, follow_events};
pub use list::{FoundRun, find_run, list_runs};
pub use metrics::{ProcessMetrics, RefusalReason};
pub use patience::Patience;
pub use wait::{RestCause, RunAtRest, WaitFor, Waited, wait_for_runs};
