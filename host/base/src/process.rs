//! Processes, threads and tasks: starting children, and waiting.

pub mod abort_on_drop;
pub mod boot;
pub mod children;
pub mod machine;
pub mod runtime_context;
pub mod wait;
