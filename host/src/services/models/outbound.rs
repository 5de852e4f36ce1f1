//! Requests to language models as calls that leave the host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::{HostCallKind, ModelUse};
use strata_core::record::id::{Digest, to_hex};
use strata_core::record::json::Json;
use strata_core::record::spending::Amount;
use strata_core::state::environment::Environment;

use super::config::{ModelNames, ModelTarget};
use super::{
    Charge, CompletedCall, DispatchState, FailedCall, ModelCall, ModelCaller, ModelRequest, Models,
    StreamObserver,
};
use crate::blob::Blobs;
use crate::gateway::{Allowance, HostAnswer, HostError, HostErrorKind, reply_bytes};
use crate::services::outbound::{
    CallAnswer, OutboundBatch, OutboundCall, OutboundResult, SendContext, decode_answers, summarize,
};
use crate::sha256::sha256;

/// A reply up to this size is recorded even if it exceeds the guest's limit: it is paid for, and a
/// later attempt with a higher limit gets it from the record. No model writes this much in one
/// reply.
const MAX_RECORDED_REPLY_BYTES: usize = 1 << 20;

/// A request to a model.
struct OutboundModelCall {
    call: ModelCall,
    /// The models of the team; `None` if it has none, or if the call is only looked up.
    models: Option<Arc<Models>>,
}

/// Returns the calls for requests that `caller` makes at once. `blobs` are the bytes of their images
/// and files, and `names` are the models of the team.
pub(crate) fn outbound_batch(
    requests: Vec<ModelRequest>,
    blobs: &Blobs,
    models: Option<&Arc<Models>>,
    names: &ModelNames,
    caller: ModelCaller<'_>,
) -> OutboundBatch {
    let call = |request: ModelRequest| -> Arc<dyn OutboundCall> {
        let bytes = |digest: &Digest| Some((digest.clone(), blobs.get(digest)?.clone()));
        let blobs = request
            .stored_media()
            .filter_map(|(digest, _)| bytes(digest));
        let blobs = blobs.collect();
        Arc::new(OutboundModelCall {
            call: ModelCall {
                blobs,
                ..ModelCall::new(names, caller, request)
            },
            models: models.cloned(),
        })
    };
    OutboundBatch {
        calls: requests.into_iter().map(call).collect(),
        convert: to_replies,
    }
}

fn to_replies(answers: Vec<CallAnswer>) -> HostAnswer {
    HostAnswer::Replies(decode_answers(answers, |json| {
        serde_json::from_value(json.value()).map_err(|error| error.to_string())
    }))
}

/// Returns the error for guests of a team without a model.
pub(crate) fn no_model_error() -> HostError {
    let message = "the team has no model; add `[llm] provider = …` to its file";
    HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoModel)
}

impl OutboundCall for OutboundModelCall {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Llm
    }

    fn digest(&self, _: &Environment) -> String {
        to_hex(&sha256(self.call.identity()))
    }

    fn summary(&self) -> String {
        summarize(&self.call.request.newest_text())
    }

    fn is_paid(&self) -> bool {
        true
    }

    fn expected_cost(&self) -> Result<Amount, HostError> {
        let models = self.models.as_ref().ok_or_else(no_model_error)?;
        Ok(models.estimate(&self.call).into())
    }

    fn dispatch_state(&self) -> DispatchState {
        DispatchState::not_in_flight()
    }

    fn unsent(&self, used: Charge) -> OutboundResult {
        unsent_request(&self.call.target, used)
    }

    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult> {
        Box::pin(async move {
            let SendContext {
                allowance,
                observer,
                ..
            } = context;
            match &self.models {
                Some(models) => complete(models, &self.call, &allowance, observer).await,
                None => OutboundResult::failed(no_model_error()),
            }
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        serde_json::from_value(response.value()).map_or(0, |reply| reply_bytes(&reply))
    }
}

/// Requests a reply.
async fn complete(
    models: &Models,
    call: &ModelCall,
    allowance: &Allowance,
    observer: StreamObserver,
) -> OutboundResult {
    match models.complete(call, observer).await {
        Ok(CompletedCall { reply, cost, used }) => {
            let answer = serde_json::to_value(&reply).unwrap_or_default();
            OutboundResult {
                cost,
                model: Some(used),
                ..paid_answer(answer.into(), reply_bytes(&reply), allowance)
            }
        }
        Err(failed) => model_failed(failed),
    }
}

/// Returns the result of a call whose answer has `bytes` bytes. A small answer is recorded even if the
/// guest must not receive it.
pub(super) fn paid_answer(answer: Json, bytes: usize, allowance: &Allowance) -> OutboundResult {
    match allowance.take(bytes) {
        Err(error) if bytes > MAX_RECORDED_REPLY_BYTES => OutboundResult::failed(error),
        Ok(()) | Err(_) => OutboundResult::answered(answer),
    }
}

/// Returns the result of a call that no model answered.
pub(super) fn model_failed(failed: FailedCall) -> OutboundResult {
    OutboundResult {
        cost: failed.cost,
        model: Some(failed.used),
        ..OutboundResult::failed(failed.error)
    }
}

/// Returns the result of a call that is given up before its request is sent, or sent again. `used` is
/// the charge for earlier tries.
pub(super) fn unsent_request(target: &ModelTarget, used: Charge) -> OutboundResult {
    OutboundResult {
        cost: used.cost,
        model: Some(ModelUse {
            name: target.name.clone(),
            usage: used.usage,
            ..ModelUse::default()
        }),
        ..OutboundResult::unsent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_without_models_is_refused_before_anything_is_reserved_or_sent() {
        let names = ModelNames::default();
        let request = serde_json::from_value(serde_json::json!({ "messages": [] }));
        let request: ModelRequest = request.expect("a request");
        let batch = outbound_batch(
            vec![request],
            &Blobs::new(),
            None,
            &names,
            ModelCaller::default(),
        );
        let call = &batch.calls[0];
        assert!(call.is_paid() && !call.is_write());
        let refusal = call.expected_cost().expect_err("there is no model");
        assert_eq!(refusal.cause, Some(FaultCause::NoModel));
    }
}
