//! Streams of server-sent events: those of a run, of all runs, and what models write.

pub mod all_events;
pub mod hub;
pub mod model_text;
pub mod run_events;
pub mod run_feed;
pub mod sse;
