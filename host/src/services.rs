//! What a guest may call beyond its own environment. Each service is reached through the journaled gateway.

pub mod external;
pub mod http;
pub mod human;
pub mod llm;
