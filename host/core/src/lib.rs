//! The pure core of strata-host: the definition of a team, its environment, and what happens next.
//!
//! It does no I/O and uses no clock, no randomness and no threads. `Stepper::next` decides,
//! `Stepper::apply` changes the state; both are total. Everything that touches the machine (guests,
//! disk, time) is in the `strata-host` package.
//!
//! It has three layers, each of which uses only those before it: `record`, what is recorded about a
//! run; `state`, what changes during a run; `machine`, what decides and applies changes. The
//! definition of a team (`team`) uses only `record`, and is used by the other two.
#![no_std]

extern crate alloc;

pub mod machine;
pub mod record;
pub mod state;
pub mod team;
pub mod text;
