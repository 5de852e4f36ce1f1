//! What a guest may call beyond its own environment. Each service is reached through the journaled gateway.

pub(crate) mod client;
pub(crate) mod endpoint;
pub mod external;
pub mod http;
pub mod human;
pub mod llm;
#[cfg(test)]
mod loopback;
mod trace;
pub mod variables;
mod wait;
