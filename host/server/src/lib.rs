//! The server of strata-host: a worker with an HTTP API and a page in the same process.
//!
//! Requests are parsed and authorised here, and carried out by the functions that the command line calls, too
//! (`strata_host::launch`, `strata_host::operate`). `operations` is the table of the API, from which both the routes
//! and the OpenAPI document are made; `routes` leads from a request to its operation, `caller` says what a token may
//! see and do, and `problem` which status an error has.
//!
//! A request first has to be for this server (`ServerNames`), then to have a token (`tokens`); then `api` carries it out.
//! Streams are in `streams`, and the files of the page in `page`. `mcp` serves clients of the Model Context Protocol.

mod answer;
mod api;
mod body;
pub mod caller;
pub mod client;
mod context;
mod cut_off;
mod databases;
mod graph_view;
mod idempotency;
mod kept_answers;
mod listen;
mod markdown;
mod mcp;
mod mcp_calls;
mod mcp_teams;
mod media;
mod openapi;
mod operations;
mod page;
mod problem;
mod query;
mod readiness;
mod request_times;
mod request_view;
mod routes;
mod run_origin;
mod run_turns;
mod run_view;
pub mod serve;
mod server;
mod streams;
pub mod tokens;
mod unread_body;
mod usage;

pub use serve::{ServeError, ServeSettings, ServerStarted, database_in, serve};
