//! A database file that holds many runs. One process at a time changes them, the holder of the lock beside
//! the file; every process can read them.
//!
//! The process opens the file once (`database`), however many of its runs it has leases of (`lease`). A
//! change (`change`) is queued (`queue`) and written by a thread (`writer`): all that are queued in one
//! transaction, with one sync. `runs` finds, creates and renames runs by their URLs, and `mail` brings
//! requests to their owner, who is noted (`owner_note`).

mod change;
mod database;
mod failure;
mod lease;
mod list;
mod mail;
mod owner_note;
mod queue;
mod runs;
#[cfg(test)]
mod tests;
mod writer;

#[cfg(test)]
pub(crate) use database::SharedDatabase;
#[cfg(test)]
pub(crate) use lease::SharedLease;
pub(crate) use list::list_overviews;
pub(crate) use mail::{holder, receive_requests, request_owner};
pub(crate) use runs::{
    VacantName, delete_run, is_same, is_storage_file, obstacle, open_named, open_reader, place_run,
    read_runs, require_run, require_vacant, run_identity, storage_files, take_lease, vacate,
};
