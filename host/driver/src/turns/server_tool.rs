//! Calls of tools of MCP servers by the models of tools roles. The host makes them itself.

use futures_util::future::BoxFuture;
use strata_base::files::blob::Blobs;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_core::record::turn::ToolRef;
use strata_core::record::work::CallResult;
use strata_services::gateway::{
    Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind, OutboundRequest,
};
use strata_services::mcp::{McpBatch, McpCaller, McpRequest, ToolAnswer};
use strata_services::outbound::read_answers;

/// The result of a call, with the bytes of the images in it.
type ServerToolResult = Result<(CallResult, Blobs), Fault>;

/// Returns an attempt at a call of a tool of a server.
pub(crate) fn server_tool_attempt(
    call: &Invocation,
    tool: ToolRef,
    stepper: &Stepper,
    gateway: Gateway,
) -> BoxFuture<'static, ServerToolResult> {
    let activation = stepper.env().activation(call.key().activation());
    let listed = activation.and_then(|activation| activation.server_tool(tool));
    let Some((list, tool)) = listed else {
        let fault = Fault::new(FaultKind::Host, "the tool is in no list of the activation");
        return Box::pin(async move { Err(fault) });
    };
    let request = McpRequest {
        server: list.server.clone(),
        tool: tool.name.clone(),
        arguments: call.arguments.clone().unwrap_or_else(Json::null),
        caller: McpCaller::Model(tool.input_schema.clone()),
    };
    Box::pin(call_tool(gateway, request))
}

async fn call_tool(gateway: Gateway, request: McpRequest) -> ServerToolResult {
    let batch = OutboundRequest::new(McpBatch(vec![request]));
    let answer = match gateway.request(GuestRequest::Outbound(batch)).await {
        Some(HostAnswer::Outbound(answers)) => read_answers::<McpBatch>(answers).pop(),
        _ => None,
    };
    let answer = answer.unwrap_or_else(|| {
        Err(HostError::new(
            HostErrorKind::Upstream,
            "the host is stopping",
        ))
    });
    let mut blobs = Blobs::new();
    let result = match answer.map_err(fault_of)? {
        ToolAnswer::Refused { error } => CallResult::Reported {
            output: text_output(error),
        },
        ToolAnswer::Returned(result) => {
            let (content, parts) = result.parts(&mut blobs);
            let output = Draft {
                parts,
                ..text_output(content)
            };
            if result.is_error {
                CallResult::Reported { output }
            } else {
                CallResult::Returned {
                    output,
                    emissions: Vec::new(),
                    writes: Vec::new(),
                }
            }
        }
    };
    Ok((result, blobs))
}

fn text_output(content: String) -> Draft {
    Draft {
        content,
        ..Draft::default()
    }
}

/// Returns the fault of an attempt to which this error happened.
pub(super) fn fault_of(error: HostError) -> Fault {
    let cause = error.cause.unwrap_or_default();
    let kind = match (error.kind, cause) {
        (HostErrorKind::Denied, _) => FaultKind::Denied,
        (HostErrorKind::Upstream, FaultCause::TimeLimit) => FaultKind::Timeout,
        (HostErrorKind::Invalid | HostErrorKind::NotFound, _) => FaultKind::Error,
        _ => FaultKind::Host,
    };
    Fault::new(kind, error.message).with_cause(cause)
}
