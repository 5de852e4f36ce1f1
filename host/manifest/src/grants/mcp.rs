//! `allow.mcp`: the tools of MCP servers that a component may call.

use std::cell::RefCell;

use strata_core::record::host_call::Grant;
use strata_services::plugin::{Grants, McpGrant, pattern};

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter};
use crate::schema::kind;
use crate::table::{Located, TomlTable};

/// `allow.mcp`.
pub(super) struct McpKind;

/// What an operator allows of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpBound {
    /// A pattern of the names of servers in team files.
    pub(crate) server: String,
    /// Patterns of the tools that may be called.
    pub(crate) tools: Vec<String>,
    /// Patterns of commands, whose words are joined by spaces, and of addresses.
    pub(crate) commands: Vec<String>,
    /// Whether its hints count for submitted teams.
    pub(crate) trusts_hints: bool,
}

impl McpBound {
    /// Returns whether it is about a server that is reached like this.
    pub(crate) fn is_about(&self, server: &str, command: &str) -> bool {
        pattern::matches(&self.server, server) && pattern::matches_any(&self.commands, command)
    }
}

impl GrantKind for McpKind {
    fn grant(&self) -> Grant {
        Grant::Mcp
    }

    fn example(&self) -> &'static str {
        "mcp = [{ server = \"files\", tools = [\"read_*\"] }]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        let servers = RefCell::new(&mut authored.servers);
        let grants =
            allow
                .key(Grant::Mcp.key(), "Tools of MCP servers.")
                .tables("`mcp`", |table| {
                    let server = table
                        .key("server", "The name of the server, in `[mcp.NAME]`.")
                        .required()
                        .name();
                    let tools = read_tools(table);
                    let server = server?;
                    servers.borrow_mut().push(server.clone());
                    Some(McpGrant {
                        server: server.value,
                        tools,
                    })
                });
        authored.grants.mcp = grants.into_iter().flatten().collect();
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        let read = |table: &TomlTable<'_>| {
            let server = table
                .key(
                    "server",
                    "The name of the server in team files; `*` stands for any run of characters.",
                )
                .required()
                .value(kind::non_empty_text)
                .and_then(|item| item.legible_text());
            let tools = read_tools(table);
            let commands = table
                .key(
                    "commands",
                    "Commands, with a space between the words, and addresses of servers; `*` stands for any run of \
                     characters. A server that is none of these is not started.",
                )
                .required()
                .value(kind::non_empty_texts)
                .map(|item| item.unique_strings());
            let trusts_hints = table
                .key(
                    "hints",
                    "Whether the hints of the server count for submitted teams. For others, the team file says that.",
                )
                .boolean(false);
            Some(McpBound {
                server: server?.value,
                tools,
                commands: values(commands.unwrap_or_default()),
                trusts_hints,
            })
        };
        let servers = allow
            .key(Grant::Mcp.key(), "MCP servers, and their tools.")
            .tables("`mcp`", read);
        bounds.mcp = servers.into_iter().flatten().collect();
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        for grant in &had.mcp {
            let tools = allowed_tools(&grant.server, &grant.tools, &bounds.mcp);
            if !tools.is_empty() {
                left.mcp.push(McpGrant {
                    server: grant.server.clone(),
                    tools,
                });
            }
        }
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        had.mcp != left.mcp
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        let line = |grant: &McpGrant| GrantLine {
            verb: "call",
            object: format!(
                "tools {} of the MCP server {}",
                grant.tools.join(", "),
                grant.server
            ),
        };
        grants.mcp.iter().map(line).collect()
    }

    /// That a server is started is the team's use.
    fn outward_uses(&self, _: &Grants, _: &OutwardFilter<'_>) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the part of these patterns of tools of a server that an operator allows.
pub(crate) fn allowed_tools(server: &str, tools: &[String], bounds: &[McpBound]) -> Vec<String> {
    let mut left: Vec<String> = Vec::new();
    let bounds = bounds
        .iter()
        .filter(|bound| pattern::matches(&bound.server, server));
    for allowed in bounds.flat_map(|bound| &bound.tools) {
        for tool in tools {
            if let Some(both) = pattern::intersect(tool, allowed)
                && !left.iter().any(|known| known == both)
            {
                left.push(both.to_owned());
            }
        }
    }
    left
}

fn read_tools(table: &TomlTable<'_>) -> Vec<String> {
    let item = table
        .key(
            "tools",
            "The tools that may be called, by their names at the server; `*` stands for any run of characters.",
        )
        .required()
        .value(kind::non_empty_texts);
    let Some(item) = item else { return Vec::new() };
    if item.is_empty_list() {
        item.reject("`tools` grants no tool", "`[\"*\"]` grants all");
    }
    values(item.unique_strings())
}

fn values(texts: Vec<Located<String>>) -> Vec<String> {
    texts.into_iter().map(|text| text.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_granted_if_the_team_and_its_operator_name_it() {
        let bound = |server: &str, tools: &[&str]| McpBound {
            server: server.into(),
            tools: tools.iter().map(ToString::to_string).collect(),
            commands: vec!["*".into()],
            trusts_hints: false,
        };
        let bounds = [bound("files", &["read_*", "list"]), bound("w*", &["*"])];
        let check = |server: &str, tools: &[&str], expected: &[&str]| {
            let tools: Vec<String> = tools.iter().map(ToString::to_string).collect();
            assert_eq!(allowed_tools(server, &tools, &bounds), expected);
        };
        check("files", &["*"], &["read_*", "list"]);
        check("files", &["read_a", "write"], &["read_a"]);
        check("wiki", &["x"], &["x"]);
        check("other", &["*"], &[]);
    }
}
