//! What changes during a run, and questions about it that depend on nothing else. What happens next
//! is decided in `machine`.

pub mod activation;
pub mod budget;
pub mod environment;
pub mod kept_bytes;
pub mod memory_plan;
pub mod messages;
