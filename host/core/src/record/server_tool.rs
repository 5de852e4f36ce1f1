//! The tools of MCP servers that the model of a role is offered, as they were listed at the first
//! turn of an activation. The lists are recorded, so that all turns of the activation offer the same.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::json::Json;

/// The tools of one server that a role may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolList {
    /// The name of the server in the team file.
    pub server: String,
    /// What the server says about its use, if the team file passes it on to models.
    pub instructions: Option<String>,
    /// The tools, sorted by name.
    pub tools: Vec<ServerTool>,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTool {
    /// Its name at the server.
    pub name: String,
    /// The name that the model uses.
    pub model_name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Json,
}

impl ToolList {
    /// Returns the name of a tool in events and in `team.json`: `SERVER/TOOL`.
    pub fn full_name(&self, tool: &ServerTool) -> String {
        alloc::format!("{}/{}", self.server, tool.name)
    }
}
