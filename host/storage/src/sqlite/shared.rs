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

mod caps;
mod change;
mod claims;
mod database;
mod delete;
pub(super) mod end_note;
mod failure;
mod insert_copy;
mod list;
mod mail;
mod owner_note;
mod queue;
mod queued_writer;
mod records;
mod runs;
mod served;
pub(super) mod submission_row;
mod submit;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use caps::{change_cap, read_caps};
pub(crate) use claims::{
    FileWorker, acknowledge_request, list_workers, open_claimed, prepare, try_write,
};
#[cfg(test)]
pub(crate) use database::SharedDatabase;
pub(crate) use delete::{delete_run, read_retention, set_retention};
pub(crate) use insert_copy::insert_copy;
pub(crate) use list::list_overviews;
pub(crate) use mail::{holder, receive_requests, request_owner};
#[cfg(test)]
pub(crate) use queued_writer::SharedLease;
pub(crate) use records::FileRecords;
pub(crate) use runs::{
    VacantName, has_run, is_same, is_storage_file, obstacle, open_named, open_reader, place_run,
    read_runs, require_run, require_vacant, run_identity, storage_files, take_lease, vacate,
};
pub(crate) use served::{find_served, list_served, watch_runs};
pub(crate) use submit::{FileRun, change_submission, request_work, submit};
