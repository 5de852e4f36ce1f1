//! Tests of the sandbox with guests that behave and guests that do not.
//!
//! - `calls`: what is passed to a guest and what it returns
//! - `limits`: every limit is enforced, and only against the guest that exceeds it
//! - `keys`: every key of `[limits]` and `[allow]` has a guest that does what it forbids
//! - `grants`: what is not granted is refused
//! - `foreign_component`, `echo`: functions of foreign components
//! - `human`: guests that ask a person
//! - `source`: what faults tell about a guest's source
//! - `bombs`: inputs that are small for a guest but would be large in the host
//! - `needs`: what a component declares about itself
//! - `scripts`: translations of scripts
//! - `lists`: lists in requests that are cheap for a guest
//! - `http`: requests, secrets and variables
//! - `determinism`: results are the same on every machine
//! - `wasi`: clocks and files of guests that use WASI
//! - `loading`: errors of loading a component
//! - `media`: images and files that guests create, receive and pass on

mod bombs;
mod calls;
mod determinism;
mod driver;
mod echo;
mod foreign_component;
mod grants;
mod guest;
mod http;
mod human;
mod keys;
mod limits;
mod lists;
mod loading;
mod media;
mod needs;
mod scripts;
mod source;
mod wasi;
