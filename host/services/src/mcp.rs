//! MCP: the tools of servers that a team names, called by actions and by the models of tools roles.
//!
//! `config` is what the team file says of a server. `connection` exchanges messages with one, over the
//! standard streams of a process (`stdio`) or over HTTP (`http`). `session` settles the revision of the
//! protocol, lists the tools and calls them. `server` starts a server at its first use, and again after it
//! has died; `servers` are those of a run. `tool` checks what a server says of its tools (`param_header`: which
//! arguments are sent as headers), `result` what a call returned, and `outbound` makes a call one that the driver
//! records.
//!
//! The protocol is implemented here, on JSON values, and not with the types of a library: each rule of this
//! module is about messages that do not follow the protocol, such as a hint that is not a boolean, a block of
//! an unknown type, a line that is no message or one without an end. Such a message must cost a tool, a block
//! or a line, and not the whole list, result or connection.

mod call;
mod call_signals;
mod call_span;
pub mod config;
mod connection;
mod event_stream;
mod exchange;
mod http;
mod legible;
mod lock;
mod message;
mod outbound;
mod param_header;
mod question;
mod result;
mod revision;
mod server;
mod servers;
mod session;
mod stdio;
#[cfg(test)]
mod tests;
mod tool;
mod valid_blocks;

pub use legible::removed_for_models;
pub use lock::{LockedTools, ToolDigests};
pub use outbound::{McpBatch, McpCaller, McpRequest};
pub use result::{ToolAnswer, ToolResult, operator_answer, skipped_answer, unknown_answer};
pub use revision::Revision;
pub use server::ServerNotice;
pub use servers::{GrantedTools, ListedTools, McpServers, OfferedTool};
pub use tool::model_tool_name;
