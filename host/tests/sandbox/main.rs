//! The sandbox, tried with guests that behave and guests that do not.
//!
//! - `calls`: what goes in and comes out
//! - `limits`: every limit bites, and only the guest that deserves it
//! - `keys`: no key of `[limits]` or `[allow]` is without a guest that tries it
//! - `grants`: what is not granted is refused
//! - `plain`, `echo`: functions of components that know nothing of the host
//! - `people`: guests that ask
//! - `source`: what faults say of a guest's source
//! - `bombs`: small things that would become large ones in the host
//! - `needs`: what a component says it needs, and what it says
//! - `lists`: lists in requests that cost a guest little
//! - `http`: requests, secrets and variables
//! - `determinism`: what WebAssembly leaves open is settled
//! - `wasi`: clocks and files of guests that use WASI
//! - `loading`: what cannot be loaded says why

mod bombs;
mod calls;
mod determinism;
mod driver;
mod echo;
mod grants;
mod guest;
mod http;
mod keys;
mod limits;
mod lists;
mod loading;
mod needs;
mod people;
mod plain;
mod source;
mod wasi;
