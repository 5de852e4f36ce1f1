//! Operating many runs: listing them, waiting for them, and doing something with each of several.
//!
//! What is stored of runs is read and changed in `storage`; commands and servers call the functions here.

mod list;

pub use list::{FoundRun, list_runs};
