//! strata-host: runs teams of agents whose every action is a sandboxed WebAssembly component.

pub mod blob;
pub mod build;
pub mod cli;
pub mod difference;
pub mod doctor;
pub mod driver;
mod excerpt;
pub mod gateway;
pub mod graph;
pub mod interface;
pub mod launch;
pub mod live;
pub mod manifest;
pub mod metrics;
pub mod narrator;
pub mod plugin;
pub mod replay;
pub mod report;
pub mod sandbox;
pub mod scaffold;
pub mod services;
pub mod skills;
pub mod store;
pub mod telemetry;
pub mod trust;
mod user;

pub use driver::WhenIdle;
pub use launch::{Resume, Start};
pub use live::LiveEnvironment;
pub use strata_core::event::Status;
pub use strata_core::message::Message;
