//! Calls of tools of MCP servers that have changed since the model was told of them. They are rejected, and the
//! model is told why.

use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::server_tool::ToolList;
use strata_core::record::turn::{
    CallDecision, CallPlan, ChangedTool, ToolRef, TurnOutcome, TurnReply,
};
use strata_services::gateway::{Gateway, GuestRequest, HostAnswer};
use strata_services::mcp::ToldTool;

/// Rejects the calls of a reply whose tools are not any more what the model was told.
pub(super) async fn reject_changed_tools(
    gateway: &Gateway,
    lists: &[ToolList],
    reply: &mut TurnReply,
) -> Result<(), Fault> {
    let TurnOutcome::Calls(plans) = &mut reply.outcome else {
        return Ok(());
    };
    let numbered = (0..).zip(&*plans);
    let told: Vec<ToldTool> = numbered
        .filter_map(|(call, plan)| told_tool(call, plan, lists))
        .collect();
    if told.is_empty() {
        return Ok(());
    }
    let answer = gateway
        .request(GuestRequest::CompareServerTools(told))
        .await;
    let Some(HostAnswer::ChangedTools(changed)) = answer else {
        return Err(Fault::new(FaultKind::Host, "the host is stopping"));
    };
    for ChangedTool { call, reason } in &changed {
        if let Some(plan) = plans.get_mut(*call as usize) {
            plan.decision = CallDecision::Reject(reason.clone());
        }
    }
    reply.changed_tools = changed;
    Ok(())
}

/// Returns the tool of a server that a call is to be made to without asking a person first.
fn told_tool(call: u32, plan: &CallPlan, lists: &[ToolList]) -> Option<ToldTool> {
    let CallDecision::Make(target) = &plan.decision else {
        return None;
    };
    let ToolRef::Server { list, tool } = target.tool else {
        return None;
    };
    let list = lists.get(usize::from(list))?;
    let tool = list.tools.get(usize::from(tool))?;
    Some(ToldTool {
        call,
        server: list.server.clone(),
        tool: tool.name.clone(),
        input_schema: tool.input_schema.clone(),
    })
}
