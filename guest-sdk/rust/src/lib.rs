//! Actions for strata-host, in Rust.
//!
//! An action implements [`Action`] and is exported by [`action!`]. `strata-host build` makes a
//! WebAssembly component of it. It is tested natively with the in-memory host of [`testing`].
//!
//! ```
//! use strata_action::{Action, Context, Failure, Output, action, llm};
//!
//! #[derive(serde::Deserialize)]
//! struct Config { language: String }
//!
//! #[derive(serde::Serialize)]
//! struct Greeting { letters: usize }
//!
//! struct Greet;
//!
//! impl Action for Greet {
//!     type Config = Config;
//!     type Data = Greeting;
//!     fn run(cx: &Context<Config>) -> Result<Output<Greeting>, Failure> {
//!         let reply = llm::ask(format!("Greet in {}: {}", cx.config.language, cx.text()))?;
//!         Ok(Output::new(&reply.text).data(Greeting { letters: reply.text.len() }))
//!     }
//! }
//! action!(Greet);
//! # use strata_action::testing::{Call, Host};
//! # let call = Call::new().news("Ann").config(serde_json::json!({ "language": "Latin" }));
//! # let output = Host::new().reply("Salve, Ann").run::<Greet>(call).unwrap();
//! # assert_eq!(output.data.unwrap().letters, 10);
//! ```
//!
//! An author implements [`Action`], [`Thinker`] and [`Planner`], whose functions get a [`Context`]
//! or a [`Situation`]. They can call the functions of [`llm`], [`http`], [`mcp`], [`state`], [`memory`],
//! [`media`], [`environment`], [`files`], [`human`], [`tools`], [`secrets`], [`mod@env`], [`clock`],
//! [`random`] and [`log`]. The name, version and description of an action are those of its crate.

mod action;
#[cfg(all(feature = "allocator", any(target_arch = "wasm32", test)))]
mod allocator;
#[rustfmt::skip]
#[allow(missing_docs, unsafe_code, unused_qualifications, clippy::all, clippy::match_bool, clippy::unwrap_used, reason = "generated")]
mod bindings;
pub mod clock;
mod context;
pub mod env;
pub mod environment;
#[doc(hidden)]
pub mod export;
mod failure;
pub mod files;
pub mod http;
pub mod human;
mod json;
pub mod llm;
pub mod log;
pub mod mcp;
pub mod media;
pub mod memory;
mod message;
pub mod random;
#[cfg(feature = "schema")]
pub mod schema;
pub mod secrets;
pub mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod tools;

pub use action::{Action, Choice, Output, Planner, Thinker};
pub use bindings::strata::action::types::{
    Attempt, Failure, FailureKind, Hop, HostError, HostErrorKind, Message, Part, Profile, Task,
};
pub use context::{Candidate, Context, Situation};

/// The host's functions: the imports of the component, or the in-memory host in native tests.
#[cfg(target_arch = "wasm32")]
mod host {
    pub use crate::bindings::strata::action::{
        clock, env, environment, files, http, human, llm, log, mcp, media, memory, random, secrets,
        state, tools,
    };
}
#[cfg(not(target_arch = "wasm32"))]
use testing::imports as host;
