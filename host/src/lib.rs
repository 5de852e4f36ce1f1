//! The host.

pub mod build;
