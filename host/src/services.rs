//! The services that a guest can reach beyond its own environment, through the journaled gateway:
//! language models, web servers, people, and the environment outside of a team.

pub(crate) mod client;
pub(crate) mod endpoint;
pub mod external;
pub mod http;
pub mod human;
#[cfg(test)]
mod loopback;
pub mod models;
pub(crate) mod outbound;
mod redaction;
pub mod variables;
