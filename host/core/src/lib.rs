//! The pure core of strata-host: the definition of a team, its environment, and what happens next.
//!
//! It does no I/O and uses no clock, no randomness and no threads. `Stepper::next` decides,
//! `Stepper::apply` changes the state; both are total. Everything that touches the machine (guests,
//! disk, time) is in the `strata-host` package.
#![no_std]

extern crate alloc;

pub mod activation;
pub mod budget;
pub mod edit;
pub mod effect;
pub mod environment;
pub mod event;
pub mod fault;
pub mod file;
pub mod host_call;
pub mod id;
pub mod json;
pub mod lineage;
pub mod message;
pub mod messages;
pub mod money;
pub mod request;
pub mod rules;
pub mod scope_write;
pub mod shape;
pub mod spending;
pub mod stepper;
pub mod team;
pub mod text;
pub mod work;
