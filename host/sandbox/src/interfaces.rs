//! The functions that guests call: a file for each interface of `wit/`, and `script` of the interpreters.
//! Each implements the generated trait of its interface for the data of the store, and checks what is
//! granted first. A test compares this folder with the interfaces.

use crate::bindings::types;
use crate::ctx::Ctx;

mod clock;
mod env;
mod environment;
mod files;
mod http;
mod human;
mod llm;
mod log;
mod mcp;
mod media;
mod memory;
mod random;
mod script;
mod secrets;
mod state;
mod tools;

/// The maximum number of requests of one `complete-many` or `fetch-many` call.
const MAX_BATCH: usize = 64;

// `types` has no functions.
impl types::Host for Ctx {}
