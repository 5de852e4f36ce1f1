//! The sandbox, tried with guests that behave and guests that do not.
//!
//! - `calls`: what goes in and comes out
//! - `limits`: every limit bites, and only the guest that deserves it
//! - `grants`: what is not granted is refused
//! - `people`: guests that ask
//! - `http`: requests, secrets and variables
//! - `wasi`: clocks and files of guests that use WASI
//! - `loading`: what cannot be loaded says why

mod calls;
mod driver;
mod grants;
mod guest;
mod http;
mod limits;
mod loading;
mod people;
mod wasi;
