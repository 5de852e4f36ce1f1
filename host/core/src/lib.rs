//! The pure core of strata-host: what a team is, what its environment holds, and what happens next.
//!
//! No I/O, no clock, no randomness, no threads. `Stepper::next` decides, `Stepper::apply` evolves; both are total.
//! Everything that touches the machine (guests, disk, time) is elsewhere, in the `strata-host` package.
#![no_std]

extern crate alloc;

pub mod activation;
pub mod budget;
pub mod condition;
pub mod edit;
pub mod effect;
pub mod environment;
pub mod event;
pub mod fault;
pub mod file;
pub mod host_call;
pub mod id;
pub mod json;
pub mod message;
pub mod money;
pub mod request;
pub mod rules;
pub mod shape;
pub mod stepper;
pub mod team;
pub mod text;
