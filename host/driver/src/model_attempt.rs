//! Attempts that the host makes itself by asking a model.

use strata_base::files::blob::Blobs;
use strata_base::text::units::format_duration;
use strata_core::record::fault::{Fault, FaultCause, FaultKind};
use strata_core::record::work::CallResult;

use strata_services::gateway::{
    Gateway, GuestRequest, HostAnswer, HostError, HostErrorKind, OutboundRequest,
};
use strata_services::models::{ModelBatch, ModelReply, ModelRequest, action_choice};
use strata_services::outbound::read_answers;
use strata_services::tools::ModelTimeout;

/// Asks the role's model to choose the next action.
pub(super) async fn choose_action(
    gateway: Gateway,
    request: ModelRequest,
    actions: usize,
    timeout: Option<ModelTimeout>,
) -> Result<CallResult, Fault> {
    let asking = ask_model(&gateway, request);
    let reply = match timeout {
        Some(timeout) => reply_within(asking, &timeout, "choose an action").await?,
        None => asking.await?,
    };
    let choice = action_choice::parse_choice(&reply, actions)
        .map_err(|why| Fault::new(FaultKind::Think, why))?;
    Ok(CallResult::Chosen(choice))
}

/// Waits for a reply as long as the model may take. `what` is what it is asked to do.
pub(super) async fn reply_within(
    asking: impl Future<Output = Result<ModelReply, Fault>>,
    timeout: &ModelTimeout,
    what: &str,
) -> Result<ModelReply, Fault> {
    let ModelTimeout { duration, advice } = timeout;
    let reply = tokio::time::timeout(*duration, asking).await;
    reply.unwrap_or_else(|_| {
        let time = format_duration(*duration);
        let advice = advice
            .as_deref()
            .unwrap_or("raise `timeout` in `[role.limits]`");
        let message = format!("the model did not {what} within {time}; {advice}");
        Err(Fault::new(FaultKind::Host, message).with_cause(FaultCause::TimeLimit))
    })
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
    let reply = reply.unwrap_or_else(|| {
        Err(HostError::new(
            HostErrorKind::Upstream,
            "the host is stopping",
        ))
    });
    reply.map_err(|error| {
        let kind = if error.kind == HostErrorKind::Denied {
            FaultKind::Denied
        } else {
            FaultKind::Host
        };
        Fault::new(kind, error.message).with_cause(error.cause.unwrap_or_default())
    })
}
