//! What models may call besides their actions, and what holds for the calls of tools: who approves them, and
//! how many are made.

use serde::Serialize;
use strata_base::text::units::format_duration;
use strata_core::record::id::{ActionId, RoleId, Slot, SlotKind};
use strata_core::record::turn::ToolRef;
use strata_core::team::tools::{Tool, ToolLoop};
use strata_services::mcp::GrantedTools;
use strata_services::tools::{ApprovalRule, RoleTool};

use super::servers::add_line;
use crate::Definition;

/// What the model of a role may call besides its actions, and how often it may call tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelPolicy {
    /// The role.
    pub role: String,
    /// `ROLE.turn`.
    pub slot: String,
    /// How many replies one activation may take.
    pub max_turns: u32,
    /// How many calls of all tools together one activation may make.
    pub max_calls: u32,
    /// The tools of MCP servers, by server.
    pub mcp: Vec<ServerToolsPolicy>,
    /// The roles that it may call, and tools of the host for which a rule holds.
    pub tools: Vec<NamedToolPolicy>,
}

/// The tools of a server that a model may call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerToolsPolicy {
    /// The name of the server.
    pub server: String,
    /// Patterns of the names of its tools.
    pub tools: Vec<String>,
    /// Patterns of the names of those whose calls a person approves.
    pub approve: Vec<String>,
    /// How many calls of all its tools together one activation may make; `None` for no limit of its own.
    pub max_calls: Option<u32>,
}

/// What holds for the calls of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolPolicy {
    /// How a person approves them; `None` if they need no approval.
    pub approve: Option<ApprovalPolicy>,
    /// How many calls of it one activation may make; `None` for no limit of its own.
    pub max_calls: Option<u32>,
}

/// How a person approves calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalPolicy {
    /// How long an answer is awaited, in milliseconds; `None` for ever.
    pub expires_ms: Option<u64>,
    /// Whether the call is approved if nobody answers in time.
    pub default: bool,
}

/// A tool of a model that is neither an action nor of a server, and what holds for its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedToolPolicy {
    /// Its name: that of another role, or of something that the host does.
    pub tool: String,
    /// Whether it is another role.
    #[serde(skip)]
    pub is_role: bool,
    /// What holds for its calls.
    #[serde(flatten)]
    pub policy: ToolPolicy,
}

/// Returns what the models of roles that work with tools may call, in the order of the roles.
pub(super) fn models(definition: &Definition) -> impl Iterator<Item = ModelPolicy> {
    let roles = definition.tool_roles.iter();
    roles.filter_map(|(id, settings)| {
        let role = definition.team.role(*id);
        let known = role.tool_loop()?;
        let servers = settings.servers.iter();
        Some(ModelPolicy {
            role: role.name.clone(),
            slot: definition.team.slot_name(Slot {
                role: *id,
                kind: SlotKind::Turn,
            }),
            max_turns: known.max_turns,
            max_calls: known.max_calls,
            mcp: servers
                .map(|granted| ServerToolsPolicy::new(granted, known))
                .collect(),
            tools: others(definition, *id),
        })
    })
}

/// Returns what holds for the calls of an action, if the model of its role calls it as a tool.
pub(super) fn of_action(
    definition: &Definition,
    role: RoleId,
    action: ActionId,
) -> Option<ToolPolicy> {
    let mut tools = tools(definition, role);
    let (tool, settings) = tools.find(|(tool, _)| tool.target.tool == ToolRef::Action(action))?;
    Some(ToolPolicy::new(tool, settings))
}

/// Returns the other tools of a role: all roles, and what the host does as far as a rule holds for it.
fn others(definition: &Definition, role: RoleId) -> Vec<NamedToolPolicy> {
    let named = tools(definition, role).filter_map(|(tool, settings)| {
        let is_role = matches!(tool.target.tool, ToolRef::Role(_));
        let policy = ToolPolicy::new(tool, settings);
        let is_host = matches!(tool.target.tool, ToolRef::Host(_));
        let is_shown = is_role || (is_host && policy != ToolPolicy::default());
        is_shown.then(|| NamedToolPolicy {
            tool: tool.name.clone(),
            is_role,
            policy,
        })
    });
    named.collect()
}

fn tools(definition: &Definition, role: RoleId) -> impl Iterator<Item = (&Tool, &RoleTool)> {
    let known = definition.team.role(role).tool_loop();
    let settings = definition.tool_roles.get(&role);
    known
        .into_iter()
        .flat_map(|tools| &tools.tools)
        .zip(settings.into_iter().flat_map(|role| &role.tools))
}

impl ServerToolsPolicy {
    fn new(granted: &GrantedTools, tools: &ToolLoop) -> Self {
        Self {
            server: granted.server.clone(),
            tools: granted.tools.clone(),
            approve: granted.approve.clone(),
            max_calls: tools.server_limit(&granted.server),
        }
    }
}

impl ModelPolicy {
    /// Renders it as text for people.
    pub(super) fn render(&self) -> String {
        let mut text = format!("{}\n", self.slot);
        for granted in &self.mcp {
            let (tools, server) = (granted.tools.join(", "), &granted.server);
            add_line(
                &mut text,
                "may call",
                &format!("tools {tools} of the MCP server {server}"),
            );
            if !granted.approve.is_empty() {
                let approved = granted.approve.join(", ");
                let rule = format!("a person decides on calls of {approved}");
                add_line(&mut text, "approve", &rule);
            }
            if let Some(most) = granted.max_calls {
                let server = format!("the tools of {server}");
                add_line(&mut text, "calls", &describe_max_calls(most, Some(&server)));
            }
        }
        for tool in &self.tools {
            if tool.is_role {
                add_line(&mut text, "may call", &format!("the role {}", tool.tool));
            }
            tool.policy.add_lines(Some(&tool.tool), &mut text);
        }
        add_line(
            &mut text,
            "calls",
            &describe_max_calls(self.max_calls, None),
        );
        let turns = format!("at most {} in an activation", self.max_turns);
        add_line(&mut text, "turns", &turns);
        text
    }
}

impl ToolPolicy {
    fn new(tool: &Tool, settings: &RoleTool) -> Self {
        Self {
            approve: settings.approval.as_ref().map(ApprovalPolicy::new),
            max_calls: tool.max_calls,
        }
    }

    /// Adds what holds for the calls to a section for people. `of` names the tool, unless the section is
    /// about it.
    pub(super) fn add_lines(&self, of: Option<&str>, text: &mut String) {
        if let Some(approve) = &self.approve {
            add_line(text, "approve", &approve.describe(of));
        }
        if let Some(most) = self.max_calls {
            add_line(text, "calls", &describe_max_calls(most, of));
        }
    }
}

impl ApprovalPolicy {
    fn new(rule: &ApprovalRule) -> Self {
        Self {
            expires_ms: rule
                .expires
                .map(|expires| u64::try_from(expires.as_millis()).unwrap_or(u64::MAX)),
            default: rule.default.unwrap_or(false),
        }
    }

    fn describe(&self, of: Option<&str>) -> String {
        let mut text = match of {
            Some(tool) => format!("a person decides on calls of {tool}"),
            None => "a person decides on each call".to_owned(),
        };
        if let Some(expires) = self.expires_ms {
            let expires = format_duration(std::time::Duration::from_millis(expires));
            let then = if self.default { "made" } else { "refused" };
            text += &format!("; without an answer in {expires} it is {then}");
        }
        text
    }
}

/// Describes how many calls one activation may make.
fn describe_max_calls(most: u32, of: Option<&str>) -> String {
    match of {
        Some(tool) => format!("at most {most} of {tool} in an activation"),
        None => format!("at most {most} in an activation"),
    }
}
