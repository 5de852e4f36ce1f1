//! Tools of the acting role, which `allow.tools` grants: its other actions, tools of MCP servers, and other
//! roles.
//!
//! Each call is an attempt of its own, and is recorded. A repeated attempt of the action is served what
//! has ended if it makes the same calls.
//!
//! ```
//! # use strata_action::{tools, Failure};
//! # use serde_json::json;
//! # strata_action::testing::Host::new().tool("search", json!("found it")).within(|| -> Result<(), Failure> {
//! let found: String = tools::call("search", &json!({ "q": "x" }))?;
//! assert_eq!(found, "found it");
//! # Ok(()) }).unwrap();
//! ```

use crate::failure::invalid;
use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::strata::action::tools::{Tool, ToolCall};

/// Returns the tools that are granted, in the order of the team file.
///
/// # Errors
/// Fails if no tool is granted.
pub fn list() -> Result<Vec<Tool>, HostError> {
    host::tools::list()
}

/// Calls a tool, and returns the data of its result, or else its text.
///
/// # Errors
/// Fails if the tool is not granted, reports an error, or returns something that is not a `T`.
pub fn call<T: DeserializeOwned>(name: &str, arguments: &impl Serialize) -> Result<T, Failure> {
    let result = ToolCall::new(name, arguments)?.send()?;
    json::parse("the result of a tool", &result)
}

/// Makes several calls at the same time, at most 64. The results, as JSON texts, are in the order of the
/// calls.
pub fn call_many(calls: &[ToolCall]) -> Vec<Result<String, HostError>> {
    host::tools::call_many(calls)
}

impl ToolCall {
    /// Creates a call.
    ///
    /// # Errors
    /// Fails if the arguments cannot be written as JSON.
    pub fn new(name: impl Into<String>, arguments: &impl Serialize) -> Result<Self, HostError> {
        Ok(Self {
            name: name.into(),
            arguments: json::write("the arguments", arguments).map_err(invalid)?,
        })
    }

    /// Makes the call, and returns the result as a JSON text.
    ///
    /// # Errors
    /// Fails if the tool is not granted, or reports an error.
    pub fn send(&self) -> Result<String, HostError> {
        host::tools::call(self)
    }
}
