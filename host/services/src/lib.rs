//! The services that a guest can reach beyond its own environment, through the journaled gateway:
//! language models, web servers, people, and the environment outside of a team.

pub mod client;
pub mod endpoint;
pub mod external;
pub mod gateway;
pub mod http;
pub mod human;
#[cfg(test)]
mod loopback;
pub mod models;
pub mod outbound;
pub mod plugin;
mod redaction;
mod text_response;
pub mod tool_name;
pub mod tools;
pub mod variables;
