//! Runs in PostgreSQL. A database holds any number of runs, and any number of processes on any number
//! of machines can use it at the same time.
//!
//! The rows of a run, and the bytes in them, are those of an SQLite database: what a run contains
//! is read by the same code (`strata_records::reader`) through `rows`, and changed by the same lease through
//! `server_writer`. Here, `schema` creates the tables, `run_name` finds runs, `runs` opens and creates them, `owner`
//! decides which process may change one, `change` carries out a change, and `recent` and `restore` store again what a
//! database lost that went back to an earlier state,
//! `mail` brings requests to the owner, `work` gives runs to workers when they are due (`schedule`), `watch` takes them from
//! dead ones, `caps` limits what runs cost together, `administer` is for operators, and `clean_up` removes what killed processes left.
//!
//! Servers list runs (`served`), keep what they remember (`records`, `record_hold`), and learn which runs change
//! (`change_feed`).
//!
//! However many runs a process has, it opens at most six connections to a database (`connect`): two over
//! which `writer` appends the events of all runs, two that everything else shares (`connection`, `write`),
//! one for the `heartbeat`, and one for `notifications`. A `database` has all of them, and hands them down.
//!
//! ```no_run
//! use strata_postgres::{Database, list_runs};
//! use strata_records::database_url::DatabaseUrl;
//!
//! let database = Database::at(DatabaseUrl::parse("postgres://127.0.0.1/teams")?);
//! for run in list_runs(&database, 20)? {
//!     println!("{}", run.name);
//! }
//! # Ok::<(), strata_records::StoreError>(())
//! ```
//!
//! This crate is the only one that speaks to a database server, and it touches no file but those with certificates. It
//! needs PostgreSQL 14 or a later version. `strata-storage` decides from an address whether runs are kept here.

mod administer;
mod append;
mod append_statement;
mod cap_settings;
mod caps;
mod change;
mod change_feed;
mod change_run;
mod clean_up;
mod connect;
mod connection;
mod database;
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
#[cfg(any(test, feature = "test-support"))]
mod testing;
mod tls;
mod watch;
mod while_used;
mod work;
mod workers;
mod write;
mod writer;

#[cfg(test)]
#[path = "../../../tests/postgres_server.rs"]
mod postgres_server;

pub use administer::{fence, has_run, prepare, read_retention, set_intake, set_retention};
pub use cap_settings::{change_cap, read_caps};
pub use change_feed::watch_runs;
pub use change_run::{change_submission, delete_run};
pub use database::Database;
pub use examine::examine;
pub use failures::try_write;
pub use insert_copy::{insert_copy, open_copied};
pub use list::list_overviews;
pub use mail::{DatabaseMailbox, receive_requests, request_owner};
pub use owner::holder;
pub use records::open_records;
pub use run_name::list_runs;
pub use runs::{
    RunIdentity, VacantRun, open_reader, open_run, place_run, require_run, require_vacant,
    run_identity, take_lease, vacate,
};
#[cfg(any(test, feature = "test-support"))]
pub use schema::MIGRATIONS;
pub use served::{find_served, list_served};
pub use server_writer::PostgresLease;
pub use statistics::read_statistics;
#[cfg(any(test, feature = "test-support"))]
pub use testing::{TestUser, clean_up, declare_dead, leave_behind, send_request, tamper};
pub use work::{
    DatabaseWorker, RunSubmission, acknowledge_request, open_claimed, request_work, submit,
};
pub use workers::{drain_worker, list_workers};
