//! Tools of the team's MCP servers, as far as `allow.mcp` grants them. Results are recorded: a repeated
//! attempt gets the recorded ones.
//!
//! ```
//! # use strata_action::{mcp, Failure};
//! # strata_action::testing::Host::new().mcp_result("two notes").within(|| -> Result<(), Failure> {
//! let result = mcp::call("notes", "list_notes", &serde_json::json!({ "of": "today" }))?;
//! assert_eq!(result.text, "two notes");
//! # Ok(()) }).unwrap();
//! ```
//!
//! A tool that the server does not declare as read-only may change something. If the answer of such a
//! call is lost, it is repeated only if that is harmless; otherwise the run stops until the operator has
//! decided what to do.

use crate::failure::invalid;
use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::strata::action::mcp::ToolResult;

/// Calls a tool of a server. The arguments have to be a JSON object.
///
/// # Errors
/// Fails if the tool is not granted, the server refuses the call or there is no answer. A result that says
/// that the tool failed is a success; see [`ToolResult::is_error`].
pub fn call<T: Serialize + ?Sized>(
    server: &str,
    tool: &str,
    arguments: &T,
) -> Result<ToolResult, HostError> {
    let arguments = json::write("the arguments of a tool", arguments).map_err(invalid)?;
    host::mcp::call_tool(server, tool, &arguments)
}

impl ToolResult {
    /// Returns the structured data as a value.
    ///
    /// # Errors
    /// Fails if there is no data, or if it does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let data = self.data.as_deref();
        let data = data.ok_or_else(|| Failure::error("the tool returned no structured data"))?;
        json::parse("the data of a tool", data)
    }
}
