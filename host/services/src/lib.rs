//! The services that a guest can reach beyond its own environment, through the journaled gateway:
//! language models, web servers, people, and the environment outside of a team. Beside them lies what they are
//! given: what a component may do ([`plugin`]), how models of tools roles are asked ([`tools`]), and the only way
//! from a guest to the driver ([`gateway`]).
//!
//! ```
//! use strata_services::plugin::{Limits, Plugin};
//!
//! let plugin = Plugin::new("/teams/write.wasm");
//! assert_eq!(plugin.limits, Limits::default());
//! assert!(plugin.grants.secrets().next().is_none(), "nothing is granted");
//! ```
//!
//! This crate uses the network, files that the team names for its models, and the program of an external
//! environment. It runs no guest, and records nothing: the driver does.

pub mod client;
pub mod endpoint;
pub mod external;
pub mod gateway;
pub mod http;
pub mod human;
pub mod mcp;
pub mod models;
pub mod outbound;
pub mod plugin;
mod redaction;
pub mod skills;
mod sse;
pub mod telemetry;
#[cfg(test)]
mod tests;
mod text_response;
pub mod tool_name;
pub mod tools;
pub mod variables;
