//! A database file that holds many runs. One process at a time changes them, the holder of the lock beside
//! the file; every process can read them.
//!
//! The process opens the file once (`database`), however many of its runs it has leases of (`queued_writer`). A
//! change (`change`) is queued (`queue`) and written by a thread (`writer`): all that are queued in one
//! transaction, with one sync. `runs` finds, creates and renames runs by their URLs, and `mail` brings
//! requests to their owner, who is noted (`owner_note`).
//!
//! Runs can be submitted to it with their files (`submit`), from where a worker of this process takes them (`claims`), and
//! a server finds them by their ids (`served`) and keeps its own records there (`records`). Runs are copied into it from
//! elsewhere (`insert_copy`), and deleted (`delete`).
//!
//! While a worker or a server has the file open, other processes change it through that one (`through_holder`, `holder`), which
//! carries out what they ask (`serve_requests`).

mod cap_accounts;
mod caps;
mod change;
mod claims;
mod database;
mod delete;
pub(super) mod end_note;
mod examine;
mod failure;
mod held_runs;
mod holder;
mod holder_request;
mod insert_copy;
mod list;
mod mail;
mod owner_note;
mod queue;
mod queued_writer;
mod records;
mod runs;
mod serve_requests;
mod served;
mod served_query;
mod settings;
mod stored_cap;
pub(super) mod submission_row;
mod submit;
#[cfg(test)]
mod tests;
mod through_holder;
mod workers;
mod writer;

pub(crate) use caps::read_caps;
pub(crate) use claims::{FileWorker, acknowledge_request, open_claimed, try_write};
#[cfg(test)]
pub(crate) use database::SharedDatabase;
pub(crate) use delete::read_retention;
pub(crate) use examine::examine;
pub(crate) use list::list_overviews;
pub(crate) use mail::{holder, receive_requests, request_owner};
#[cfg(test)]
pub(crate) use queued_writer::{QueuedWriter, SharedLease};
pub(crate) use records::FileRecords;
pub(crate) use runs::{
    VacantName, has_run, is_same, is_storage_file, obstacle, open_named, open_reader, read_runs,
    require_database, require_run, require_vacant, run_identity, storage_files, take_lease, vacate,
};
pub use serve_requests::{HolderMailbox, UnownedRunHandler};
pub(crate) use served::{find_served, list_served, revisions, watch_runs};
pub(crate) use settings::{check_writable, fence};
pub(crate) use submit::FileRun;
pub(crate) use through_holder::{
    HeldByHolder, change_cap, change_submission, delete_run, drain_worker, insert_copy,
    list_workers, place_run, prepare, request_work, set_intake, set_retention, submit,
};
