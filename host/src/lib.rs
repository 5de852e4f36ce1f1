//! strata-host: runs teams of agents whose every action is a sandboxed WebAssembly component.

pub mod gateway;
pub mod plugin;
pub mod sandbox;
pub mod services;
pub mod store;
