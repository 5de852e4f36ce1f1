//! Runs in PostgreSQL. A database holds any number of runs, and any number of processes on any number
//! of machines can use it at the same time.
//!
//! The rows of a run, and the bytes in them, are those of an SQLite database: what a run contains
//! is read by the same code (`reader`) through `rows`. Here, `schema` creates the tables,
//! `run_name` finds runs, `runs` opens and creates them, `owner` decides which process may change one, `server_writer` changes it (`change`) and stores again what a database lost that
//! went back to an earlier state (`recent`, `restore`),
//! `mail` brings requests to the owner, `work` gives runs to workers when they are due (`schedule`), `watch` takes them from
//! dead ones, `caps` limits what runs cost together, `administer` is for operators, and `clean_up` removes what killed processes left.
//!
//! Servers list runs (`served`), keep what they remember (`records`, `record_hold`), and learn which runs change
//! (`change_feed`).
//!
//! However many runs a process has, it opens at most six connections to a database (`connect`): two over
//! which `writer` appends the events of all runs, two that everything else shares (`connection`, `write`),
//! one for the `heartbeat`, and one for `notifications`.

mod administer;
mod append;
mod append_statement;
mod caps;
mod change;
mod change_feed;
mod change_run;
mod clean_up;
mod connect;
mod connection;
mod examine;
mod failures;
mod heartbeat;
mod insert_copy;
mod list;
mod mail;
mod mail_text;
mod new_run;
mod notifications;
mod overview;
mod owner;
mod per_database;
mod recent;
mod record_hold;
mod records;
mod restore;
mod rows;
mod run_name;
mod runs;
mod schedule;
mod schema;
mod served;
mod server_writer;
mod session;
mod silence;
mod statistics;
mod sweep;
mod tls;
mod watch;
mod work;
mod workers;
mod write;
mod writer;

pub(super) use administer::{fence, has_run, prepare, read_retention, set_intake, set_retention};
pub(super) use caps::{change_cap, read_caps};
pub(super) use change_feed::watch_runs;
pub(super) use change_run::{change_submission, delete_run};
#[cfg(test)]
pub(super) use clean_up::{clean_up, leave_behind};
#[cfg(test)]
pub(super) use connection::TestUser;
pub(super) use examine::examine;
pub(super) use failures::try_write;
pub(super) use insert_copy::{insert_copy, open_copied};
pub(super) use list::list_overviews;
#[cfg(test)]
pub(super) use mail::DatabaseMailbox;
#[cfg(test)]
pub(super) use mail::send_request;
pub(super) use mail::{receive_requests, request_owner};
#[cfg(test)]
pub(super) use owner::declare_dead;
pub(super) use owner::holder;
pub(super) use records::open_records;
pub(super) use run_name::list_runs;
#[cfg(test)]
pub(super) use run_name::tamper;
pub(super) use runs::{
    VacantRun, open_reader, open_run, place_run, require_run, require_vacant, run_identity,
    take_lease, vacate,
};
#[cfg(test)]
pub(super) use schema::MIGRATIONS;
pub(super) use served::{find_served, list_served};
#[cfg(test)]
pub(super) use server_writer::PostgresLease;
pub(super) use statistics::read_statistics;
pub(super) use work::{
    DatabaseWorker, RunSubmission, acknowledge_request, open_claimed, request_work, submit,
};
pub(super) use workers::{drain_worker, list_workers};
