//! `mcp`: the host function that calls tools of MCP servers, as far as they are granted. `services::mcp`
//! speaks with the servers.

use serde_json::Value;
use strata_base::text::units::format_bytes;
use strata_core::record::host_call::Grant;
use strata_core::record::json::{self, Json};
use strata_services::mcp::{McpBatch, McpCaller, McpRequest, ToolAnswer};

use crate::bindings::{mcp, types};
use crate::ctx::outbound::call_outside;
use crate::ctx::{Ctx, HostResult, invalid};

/// The largest arguments of a call, in bytes.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

impl mcp::Host for Ctx {
    async fn call_tool(
        &mut self,
        server: String,
        tool: String,
        arguments: String,
    ) -> HostResult<mcp::ToolResult> {
        const NAME: &str = "mcp.call-tool";
        self.count_calls(NAME, 1)?;
        let request = authorize(self, server, tool, &arguments);
        let answers = call_outside(self, NAME, vec![request], |_, calls| McpBatch(calls));
        let answer = answers.await?.pop().expect("one request has one answer");
        Ok(answer.and_then(to_wit_result))
    }
}

/// Validates a call and checks that it is granted.
fn authorize(
    ctx: &mut Ctx,
    server: String,
    tool: String,
    arguments: &str,
) -> Result<McpRequest, types::HostError> {
    let mut grants = ctx.capabilities.grants().mcp.iter();
    if !grants.any(|grant| grant.allows(&server, &tool)) {
        let message = format!(
            "the tool `{}` of the MCP server `{}` is not granted; add it to `allow.mcp`",
            tool.escape_debug(),
            server.escape_debug()
        );
        return Err(ctx.deny(Grant::Mcp, message));
    }
    if arguments.len() > MAX_ARGUMENT_BYTES {
        return Err(invalid(format!(
            "the arguments of a tool have {}; at most {} are sent",
            format_bytes(arguments.len() as u64),
            format_bytes(MAX_ARGUMENT_BYTES as u64)
        )));
    }
    let arguments = json::parse_untrusted(arguments)
        .map_err(|error| invalid(format!("the arguments of a tool are {error}")))?;
    if !matches!(arguments, Value::Object(_)) {
        return Err(invalid("the arguments of a tool are not a JSON object"));
    }
    Ok(McpRequest {
        server,
        tool,
        arguments: Json::from(arguments),
        caller: McpCaller::Action,
    })
}

fn to_wit_result(answer: ToolAnswer) -> Result<mcp::ToolResult, types::HostError> {
    match answer {
        ToolAnswer::Refused { error } => {
            Err(invalid(format!("the MCP server refused the call: {error}")))
        }
        ToolAnswer::Returned(result) => Ok(mcp::ToolResult {
            text: result.text(),
            data: result.data().map(Value::to_string),
            content: result.content().to_string(),
            is_error: result.is_error,
        }),
    }
}
