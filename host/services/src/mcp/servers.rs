//! The servers of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all};
use strata_core::record::event::ServerState;
use strata_core::record::json::Json;
use strata_core::record::server_tool::{ServerTool, ToolList};
use strata_core::record::turn::ChangedTool;

use super::config::{Requirement, ServerConfig};
use super::lock::{ToolDigests, digests};
use super::revision::Revision;
use super::server::{Server, ServerHost, ServerNotice};
use super::tool::{OmittedTool, Tool, model_tool_name};
use crate::gateway::{HostError, HostErrorKind};
use crate::http::HttpClient;
use crate::plugin::pattern;
use crate::tools::Deferral;
use crate::variables::Variables;

/// The servers of a run. None is started before it is used.
#[derive(Default)]
pub struct McpServers {
    servers: BTreeMap<String, Arc<Server>>,
}

/// The tools of a server that a role is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTools {
    /// The name of the server.
    pub server: String,
    /// Patterns of the names of its tools.
    pub tools: Vec<String>,
    /// Patterns of the names of tools whose calls a person approves.
    pub approve: Vec<String>,
    /// Whether its tools are found by search instead of being sent.
    pub deferral: Deferral,
    /// Before which of the role's other tools they are listed.
    pub position: usize,
}

/// A tool that a model was told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedTool {
    /// The index of the call of it in the reply.
    pub call: u32,
    /// The name of the server.
    pub server: String,
    /// The name of the tool at the server.
    pub tool: String,
    /// The schema of its arguments, as the model was told it.
    pub input_schema: Json,
}

impl OfferedTool {
    /// Returns why the tool must not be called, which is no more what the model was told.
    pub(super) fn change(&self, now: Option<&Tool>) -> Option<String> {
        let Self { server, tool, .. } = self;
        match now {
            None => Some(format!("the MCP server `{server}` has no tool `{tool}`")),
            Some(now) if now.input_schema != self.input_schema => Some(
                "the schema of its arguments has changed since the tools were listed".to_owned(),
            ),
            Some(_) => None,
        }
    }
}

/// The lists of the servers of a role, or why there are none.
pub type ListedTools = Result<Arc<[ToolList]>, HostError>;

impl McpServers {
    /// Creates the servers of a run.
    pub fn new(
        configs: BTreeMap<String, ServerConfig>,
        http: Arc<HttpClient>,
        variables: Variables,
    ) -> Self {
        let host = Arc::new(ServerHost { http, variables });
        let create = |(name, config): (String, ServerConfig)| {
            let server = Server::new(name.clone(), config, host.clone());
            (name, Arc::new(server))
        };
        Self {
            servers: configs.into_iter().map(create).collect(),
        }
    }

    /// Sets the revisions that were spoken with the servers before. They are tried first.
    pub fn set_known_revisions(&self, revisions: &BTreeMap<String, String>) {
        for (name, server) in &self.servers {
            let known = revisions.get(name);
            server.set_known_revision(known.and_then(|name| Revision::parse(name)));
        }
    }

    /// Returns a server.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name)
    }

    /// Lists the tools that a role is granted. `taken` are the names under which its model knows other tools.
    pub fn list(
        &self,
        grants: Vec<GrantedTools>,
        taken: Vec<String>,
    ) -> BoxFuture<'static, (ListedTools, Vec<ServerNotice>)> {
        let servers: Vec<_> = grants
            .iter()
            .map(|grant| self.get(&grant.server).cloned())
            .collect();
        Box::pin(async move {
            let asking = grants
                .iter()
                .zip(&servers)
                .map(|(grant, server)| async move {
                    match server {
                        Some(server) => list_of(server, grant).await,
                        None => {
                            let message = format!("there is no MCP server `{}`", grant.server);
                            Err(HostError::new(HostErrorKind::Invalid, message))
                        }
                    }
                });
            let mut names: BTreeSet<String> = taken.into_iter().collect();
            let mut lists = Ok(Vec::new());
            for (listed, server) in join_all(asking).await.into_iter().zip(&servers) {
                lists = match (lists, listed) {
                    (Ok(mut before), Ok(list)) => {
                        before.extend(
                            list.map(|list| keep_distinct(list, &mut names, server.as_deref())),
                        );
                        Ok(before)
                    }
                    (Err(error), _) | (_, Err(error)) => Err(error),
                };
            }
            let notices = servers
                .iter()
                .flatten()
                .flat_map(|server| server.take_notices());
            (lists.map(Arc::from), notices.collect())
        })
    }

    /// Returns which tools are not any more what a model was told. Servers that were not started yet are started,
    /// and tools of servers that do not run are not compared.
    pub fn compare(
        &self,
        told: Vec<OfferedTool>,
    ) -> BoxFuture<'static, (Vec<ChangedTool>, Vec<ServerNotice>)> {
        let servers: Vec<_> = told
            .iter()
            .map(|tool| self.get(&tool.server).cloned())
            .collect();
        Box::pin(async move {
            let mut changes = Vec::new();
            let mut notices = Vec::new();
            for (told, server) in told.iter().zip(servers) {
                let Some(server) = server else { continue };
                if let Some(running) = server.running_or_first_start().await {
                    let tools = running.session.tools();
                    let now = tools.iter().find(|tool| tool.name == told.tool);
                    let call = told.call;
                    changes.extend(told.change(now).map(|reason| ChangedTool { call, reason }));
                }
                notices.extend(server.take_notices());
            }
            (changes, notices)
        })
    }

    /// Starts servers and returns the digests of their tools that match these patterns, by server.
    pub async fn digests(
        &self,
        granted: &BTreeMap<String, Vec<String>>,
    ) -> Result<BTreeMap<String, ToolDigests>, HostError> {
        let mut found = BTreeMap::new();
        for (name, patterns) in granted {
            if let Some(server) = self.get(name) {
                let running = server.running().await?;
                let instructions = server.used_instructions(&running.session);
                let listed = digests(&running.session.tools(), instructions, patterns);
                found.insert(name.clone(), listed);
            }
        }
        Ok(found)
    }

    /// Returns whether a server that lives asks a person within a call.
    pub fn has_asking_calls(&self) -> bool {
        self.servers
            .values()
            .any(|server| server.has_asking_calls())
    }

    /// Ends all servers with all processes that they started.
    pub async fn close(&self) {
        join_all(self.servers.values().map(|server| server.close())).await;
    }
}

impl fmt::Debug for McpServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}

/// Returns the list of a server, or `None` if roles work without it.
async fn list_of(server: &Server, grant: &GrantedTools) -> Result<Option<ToolList>, HostError> {
    let running = match server.running().await {
        Ok(running) => running,
        Err(error) if server.config.requirement == Requirement::Optional => {
            tracing::warn!("{}; roles work without it", error.message);
            server.note_state(ServerState::Omitted, None, Some(error.message));
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    server.refresh(&running).await?;
    let tools = running.session.tools();
    let granted = tools
        .iter()
        .filter(|tool| pattern::matches_any(&grant.tools, &tool.name));
    let instructions = server.used_instructions(&running.session);
    Ok(Some(ToolList {
        server: server.name.clone(),
        instructions: instructions.map(str::to_owned),
        tools: granted.map(|tool| offered(server, tool)).collect(),
    }))
}

fn offered(server: &Server, tool: &Tool) -> ServerTool {
    ServerTool {
        name: tool.name.clone(),
        model_name: model_tool_name(&server.name, &tool.name),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
    }
}

/// Removes the tools whose names for models are taken.
fn keep_distinct(
    mut list: ToolList,
    names: &mut BTreeSet<String>,
    server: Option<&Server>,
) -> ToolList {
    let mut omitted = Vec::new();
    list.tools.retain(|tool| {
        let is_new = names.insert(tool.model_name.clone());
        if !is_new {
            let reason = format!("models know another tool as `{}`", tool.model_name);
            tracing::warn!(
                "the tool `{}/{}` is not offered: {reason}",
                list.server,
                tool.name
            );
            let name = tool.name.clone();
            omitted.push(OmittedTool { name, reason });
        }
        is_new
    });
    if let Some(server) = server {
        server.note_omitted(omitted);
    }
    list
}
