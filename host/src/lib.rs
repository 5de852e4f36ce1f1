//! strata-host: runs teams of agents in which every action is a sandboxed WebAssembly component.
//!
//! The program of the same name is this library with a command line, the package `strata-cli`. These
//! are the entry points for programs that embed it:
//!
//! | | |
//! |---|---|
//! | [`LiveEnvironment`] | a team's environment: `create` from a [`Start`], or `load` from a [`Resume`]; then `start`, `send`, `idle`, `stop` |
//! | [`StorageLocation`] | where a run is kept: what is saved there is read, and messages reach whoever runs it |
//! | [`manifest::Overrides`] | what the program changes in a team file: limits, components, and the policies that bind the team |
//! | [`manifest::operator::in_force`] | the policies that bind teams on this machine, as the command line uses them |
//! | [`live::LiveEvents`], [`public_event::EventLine`] | public events, as `--events` writes them |
//! | [`manifest::Definition`] | a team file, read and validated without running it |
//! | [`view`] | what a person is shown about a run, as values that can be serialised: its ending, faults, requests, cost |
//! | [`launch`] | one function for each command: reports, comparisons, forks, answers, checkpoints |
//! | [`mcp_server`] | teams and components as tools for clients of the Model Context Protocol |
//! | [`build::build`], [`skills::Shelf`], [`graph`] | building components from source, the shelf, teams as graphs |
//!
//! A team is resumed from where it was saved:
//!
//! ```no_run
//! use strata_host::manifest::operator::in_force;
//! use strata_host::{CheckpointId, LiveEnvironment, Overrides, Resume, WhenIdle};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let overrides = Overrides { operators: in_force(None)?, ..Overrides::default() };
//! let checkpoint = CheckpointId::from("main-3");
//! let saved = Resume { checkpoint: Some(checkpoint), ..Resume::new("store", overrides) };
//! let mut environment = LiveEnvironment::load(saved)?;
//! environment.start(WhenIdle::End)?;
//! println!("{}", environment.ended().await?.name());
//! # Ok(())
//! # }
//! ```
//!
//! The features, all of which are on by default:
//!
//! | | |
//! |---|---|
//! | `mcp-server` | teams and components as tools for MCP clients |
//! | `postgres` | runs in PostgreSQL |
//! | `report` | a saved run as one HTML page, and teams as graphs |
//! | `server` | listening on TCP, for metrics over HTTP |
//! | `telemetry` | spans of runs, exported over OTLP |

mod bundle;
pub mod difference;
pub mod doctor;
pub mod launch;
pub mod live;
#[cfg(feature = "mcp-server")]
pub mod mcp_server;
pub mod operate;
pub mod prebuild;
mod storage_mark;
pub mod worker;

pub use launch::{Resume, SavedTeamFile, Start};
pub use live::{AnsweredRequest, Handle, HumanReply, LiveEnvironment, SendReceipt};
pub use strata_base::advice::{Advice, Hint};
pub use strata_base::files::user::config_dir;
pub use strata_base::files::{blob, caches, installation, open, process_cache};
pub use strata_base::process::{children, runtime_context};
pub use strata_base::text::component_replacement::ComponentReplacement;
pub use strata_base::text::{display_path, excerpt, shell, suggest, unexpanded_path, units};
pub use strata_base::{clock, owner};
pub use strata_build::{self as build, scaffold};
pub use strata_core as core;
pub use strata_core::record::event::Status;
pub use strata_core::record::host_call::CallPolicy;
pub use strata_core::record::id::CheckpointId;
pub use strata_core::record::message::Message;
pub use strata_driver::WhenIdle;
pub use strata_driver::{self as driver, metrics, public_event, replay, telemetry};
pub use strata_manifest::Overrides;
pub use strata_manifest::{self as manifest, interface, skills, trust};
#[cfg(feature = "report")]
pub use strata_report as report;
#[cfg(feature = "report")]
pub use strata_report::graph;
pub use strata_sandbox as sandbox;
pub use strata_services::variables::Variables;
pub use strata_services::{self as services, gateway, plugin, tools};
pub use strata_storage as storage;
pub use strata_storage::{ReplacePolicy, StorageLocation};
pub use strata_team_json as team_json;
pub use strata_view::{self as view, wording};
