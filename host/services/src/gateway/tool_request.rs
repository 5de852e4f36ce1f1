//! Requests of a guest to the tools of its role.

use strata_base::files::sha256::sha256;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;

use super::size::ITEM_BYTES;

/// A call of a tool that a guest makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRequest {
    /// The name of the tool, as the team file has it or as models see it.
    pub name: String,
    /// The arguments.
    pub arguments: Json,
}

impl ToolRequest {
    /// Returns the digest by which a call of this tool is recognised in the record. `tool` is its name in
    /// the team file.
    pub fn digest(&self, tool: &str) -> String {
        let arguments = self.arguments.as_str();
        to_hex(&sha256(format!("{}\n{tool}\n{arguments}", tool.len())))
    }

    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.arguments.as_str().len() + ITEM_BYTES
    }
}

/// A tool that a guest may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDescription {
    /// Its name in the team file.
    pub name: String,
    /// What it does; empty if that is not known.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: Json,
}

impl ToolDescription {
    pub(super) fn bytes(&self) -> usize {
        self.name.len() + self.description.len() + self.input_schema.as_str().len() + ITEM_BYTES
    }
}
