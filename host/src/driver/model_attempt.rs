//! Attempts that the host makes itself by asking a model.

use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::work::CallResult;

use crate::blob::Blobs;
use crate::gateway::{
    Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind, OutboundRequest,
};
use crate::services::models::{ModelBatch, ModelReply, ModelRequest, action_choice};
use crate::services::outbound::read_answers;

/// Asks the role's model to choose the next action.
pub(super) async fn choose_action(
    gateway: Gateway,
    request: ModelRequest,
    actions: usize,
) -> Result<CallResult, Fault> {
    let reply = ask_model(&gateway, request).await?;
    let choice = action_choice::parse_choice(&reply, actions)
        .map_err(|why| Fault::new(FaultKind::Think, why))?;
    Ok(CallResult::Chosen(choice))
}

/// Asks the role's model. The fault says why there is no reply.
pub(super) async fn ask_model(
    gateway: &Gateway,
    request: ModelRequest,
) -> Result<ModelReply, Fault> {
    let batch = ModelBatch {
        requests: vec![request],
        blobs: Blobs::new(),
    };
    let request = GuestRequest::Outbound(OutboundRequest::new(batch));
    let reply = match gateway.request(request).await {
        Some(HostAnswer::Outbound(replies)) => read_answers::<ModelBatch>(replies).pop(),
        _ => None,
    };
    let gone = || HostError::new(HostErrorKind::Upstream, "the host is stopping");
    reply.unwrap_or_else(|| Err(gone())).map_err(|error| {
        let kind = if error.kind == HostErrorKind::Denied {
            FaultKind::Denied
        } else {
            FaultKind::Host
        };
        Fault::new(kind, error.message).with_cause(error.cause.unwrap_or_default())
    })
}
