//! The tools of a role together with those of servers, as they were listed at the first turn of the
//! activation.

use std::fmt::Write as _;

use strata_core::record::server_tool::{ServerTool, ToolList};
use strata_core::record::turn::{CallEffect, CallTarget, ToolRef};
use strata_core::team::tools::{CallOrder, Tool, ToolLoop};
use strata_services::mcp::GrantedTools;
use strata_services::plugin::{CompiledSchema, pattern};
use strata_services::tools::{ApprovalRule, Exposure, RoleTool, ToolRole};

/// Returns the tools of a role, as the core and as the model knows them, with those of servers at their
/// places among them. The instructions of the servers follow those of the role.
pub(super) fn with_server_tools(
    tools: &ToolLoop,
    settings: &ToolRole,
    lists: &[ToolList],
) -> (ToolLoop, ToolRole) {
    let (mut all, mut known) = (tools.clone(), settings.clone());
    let mut added = 0;
    for grant in &settings.servers {
        for (core, tool) in tools_of(grant, lists) {
            let place = (grant.position + added).min(all.tools.len());
            all.tools.insert(place, core);
            known.tools.insert(place, tool);
            added += 1;
        }
    }
    for list in lists {
        if let Some(instructions) = &list.instructions {
            let _ = write!(
                known.instructions,
                "\n\n{}: {}",
                list.server,
                instructions.trim()
            );
        }
    }
    if added > 0 {
        known.settle_exposure();
    }
    (all, known)
}

/// Returns the tools of a server that are granted now. The lists may be older than the grant.
fn tools_of(grant: &GrantedTools, lists: &[ToolList]) -> Vec<(Tool, RoleTool)> {
    let mut tools = Vec::new();
    for (list, list_index) in lists.iter().zip(0..) {
        for (tool, index) in list.tools.iter().zip(0..) {
            let is_granted =
                list.server == grant.server && pattern::matches_any(&grant.tools, &tool.name);
            let Some(known) = known_tool(grant, tool).filter(|_| is_granted) else {
                continue;
            };
            let target = ToolRef::Server {
                list: list_index,
                tool: index,
            };
            let core = Tool {
                name: list.full_name(tool),
                target: CallTarget {
                    tool: target,
                    effect: CallEffect::Continues,
                },
                faults: None,
                order: CallOrder::Parallel,
                max_calls: None,
            };
            tools.push((core, known));
        }
    }
    tools
}

/// Returns a tool as the model knows it. Its schema was compiled when it was listed.
fn known_tool(grant: &GrantedTools, tool: &ServerTool) -> Option<RoleTool> {
    let is_approved = pattern::matches_any(&grant.approve, &tool.name);
    Some(RoleTool {
        model_name: tool.model_name.clone(),
        description: Some(tool.description.clone()),
        input_schema: Some(CompiledSchema::compile_bounded(&tool.input_schema.value()).ok()?),
        approval: is_approved.then(ApprovalRule::default),
        deferral: grant.deferral,
        exposure: Exposure::Sent,
    })
}
