//! What the driver depends on besides the state of the team.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::id::{RoleId, Slot};
use strata_services::external::ExternalConnection;
use strata_services::http::HttpClient;
use strata_services::mcp::McpServers;
use strata_services::models::Models;
use strata_services::plugin::Plugin;
use strata_services::tools::{ModelTimeout, ToolRole};

use strata_sandbox::{Directories, Sandbox};

/// What the driver depends on besides the state of the team.
pub struct HostServices {
    /// Runs the attempts.
    pub sandbox: Arc<dyn Sandbox>,
    /// The plugins of the team, by slot.
    pub plugins: BTreeMap<Slot, Arc<Plugin>>,
    /// The descriptions that the components give of themselves, for the model or action that
    /// chooses between them.
    pub descriptions: BTreeMap<Slot, String>,
    /// How the models of roles that work with tools are asked, by role.
    pub tool_roles: BTreeMap<RoleId, Arc<ToolRole>>,
    /// How long a model may take to choose the next action of a role; `None` for as long as its own
    /// settings say.
    pub choice_timeout: Option<ModelTimeout>,
    /// The language models; `None` if the team file names no provider.
    pub models: Option<Arc<Models>>,
    /// The HTTP client.
    pub http: Arc<HttpClient>,
    /// The MCP servers; `None` if the team has none, or none may be started.
    pub mcp: Option<Arc<McpServers>>,
    /// Where messages to names outside the team are sent.
    pub external: Option<ExternalConnection>,
    /// The directories in which actions may write files.
    pub directories: Directories,
}
