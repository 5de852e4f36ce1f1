//! What operators' policies bound of a team's MCP servers.

use strata_services::mcp::config::{HintUse, ServerConfig, ServerTransport};

use super::{OperatorPolicy, refusal};
use crate::grants::mcp::allowed_tools;
use crate::{Definition, Diagnostics};

/// Restricts the servers of a team. Fails if it has one that the operator does not allow.
pub(super) fn restrict_servers(
    definition: &mut Definition,
    operator: &OperatorPolicy,
) -> Result<(), Diagnostics> {
    let Some(bounds) = &operator.allowed.bounds else {
        return Ok(());
    };
    let is_submitted = definition.is_submitted();
    for (name, server) in &mut definition.mcp {
        let target = describe_target(server);
        let mut allowing = bounds
            .mcp
            .iter()
            .filter(|bound| bound.is_about(name, &target))
            .peekable();
        if allowing.peek().is_none() {
            let message = format!(
                "the team has the MCP server `{name}` (`{target}`), which its operator does not allow"
            );
            return Err(refusal(operator, message));
        }
        if is_submitted && !allowing.any(|bound| bound.trusts_hints) {
            server.hints = HintUse::Ignored;
        }
    }
    for role in definition.tool_roles.values_mut() {
        for grant in &mut role.servers {
            grant.tools = allowed_tools(&grant.server, &grant.tools, &bounds.mcp);
        }
    }
    Ok(())
}

/// Returns the command of a server, with a space between its words, or its address.
fn describe_target(server: &ServerConfig) -> String {
    match &server.transport {
        ServerTransport::Stdio(stdio) => stdio.command.join(" "),
        ServerTransport::Http(http) => http.url.to_string(),
    }
}
