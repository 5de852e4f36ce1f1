//! Requests to language models as calls that leave the host: for replies, and for vectors.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_base::files::sha256::sha256;
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::{HostCallKind, ModelUse};
use strata_core::record::id::{Digest, to_hex};
use strata_core::record::json::Json;
use strata_core::record::spending::Amount;
use strata_core::state::environment::Environment;

use super::config::{ModelNames, ModelTarget};
use super::{
    Charge, CompletedCall, DispatchState, FailedCall, ModelBatch, ModelCall, ModelReply,
    ModelRequest, Models,
};
use crate::gateway::{Allowance, HostError, HostErrorKind, reply_bytes};
use crate::outbound::{
    OutboundCall, OutboundContext, OutboundResult, ReadAnswer, RequestBatch, SendContext, summarize,
};

/// A reply up to this size is recorded even if it exceeds the guest's limit: it is paid for, and a
/// later attempt with a higher limit gets it from the record. No model writes this much in one
/// reply.
const MAX_RECORDED_REPLY_BYTES: usize = 1 << 20;

/// What a model is asked for.
pub(super) trait ModelOperation: Send + Sync + Sized + 'static {
    /// Returns the model that is asked.
    fn target(&self) -> &ModelTarget;

    /// Returns the text by which recorded calls are matched.
    fn identity(&self) -> String;

    /// Summarizes the request in one line for people.
    fn summary(&self) -> String;

    /// Returns what the call is expected to use at most.
    fn estimate(&self, models: &Models) -> Charge;

    /// Makes the call.
    fn send(
        &self,
        models: &Models,
        context: SendContext,
    ) -> impl Future<Output = OutboundResult> + Send;

    /// Returns the number of bytes that a recorded answer brings to the guest.
    fn answer_bytes(response: &Json) -> usize;
}

/// A request to a model.
struct OutboundModelCall<O> {
    operation: O,
    /// The models of the team; `None` if it has none, or if the call is only looked up.
    models: Option<Arc<Models>>,
}

/// Returns the call that carries out an operation.
pub(super) fn outbound_call(
    operation: impl ModelOperation,
    context: &OutboundContext<'_>,
) -> Arc<dyn OutboundCall> {
    Arc::new(OutboundModelCall {
        operation,
        models: context.services.models.clone(),
    })
}

/// Returns the names of the team's models, none if it has no models.
pub(super) fn model_names(context: &OutboundContext<'_>) -> ModelNames {
    context.services.model_names.clone().unwrap_or_default()
}

/// Returns the error for guests of a team without a model.
pub fn no_model_error() -> HostError {
    let message = "the team has no model; add `[llm] provider = …` to its file";
    HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoModel)
}

impl<O: ModelOperation> OutboundCall for OutboundModelCall<O> {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Llm
    }

    fn digest(&self, _: &Environment) -> String {
        to_hex(&sha256(self.operation.identity()))
    }

    fn summary(&self) -> String {
        summarize(&self.operation.summary())
    }

    fn is_paid(&self) -> bool {
        true
    }

    fn expected_cost(&self) -> Result<Amount, HostError> {
        let models = self.models.as_ref().ok_or_else(no_model_error)?;
        Ok(self.operation.estimate(models).into())
    }

    fn dispatch_state(&self) -> DispatchState {
        DispatchState::not_in_flight()
    }

    fn unsent(&self, used: Charge) -> OutboundResult {
        unsent_request(self.operation.target(), used)
    }

    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult> {
        Box::pin(async move {
            match &self.models {
                Some(models) => self.operation.send(models, context).await,
                None => OutboundResult::failed(no_model_error()),
            }
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        O::answer_bytes(response)
    }
}

impl RequestBatch for ModelBatch {
    fn count(&self) -> usize {
        self.requests.len()
    }

    fn bytes(&self) -> usize {
        self.requests.iter().map(ModelRequest::bytes).sum()
    }

    fn media_to_load(&self) -> Vec<&Digest> {
        let media = self.requests.iter().flat_map(ModelRequest::stored_media);
        let digests = media.map(|(digest, _)| digest);
        digests
            .filter(|digest| !self.blobs.contains_key(*digest))
            .collect()
    }

    fn into_calls(self: Box<Self>, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>> {
        let names = model_names(context);
        let Self { requests, blobs } = *self;
        let find = |digest: &Digest| blobs.get(digest).or_else(|| context.blobs.get(digest));
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            let digests = request.stored_media().map(|(digest, _)| digest);
            let media = digests.filter_map(|digest| Some((digest.clone(), find(digest)?.clone())));
            let call = ModelCall {
                blobs: media.collect(),
                ..ModelCall::new(&names, context.caller, request)
            };
            calls.push(outbound_call(call, context));
        }
        calls
    }
}

impl ReadAnswer for ModelBatch {
    type Answer = ModelReply;

    fn read_answer(record: &Json) -> Result<ModelReply, String> {
        serde_json::from_str(record.as_str()).map_err(|error| error.to_string())
    }

    fn answer_bytes(answer: &ModelReply) -> usize {
        reply_bytes(answer)
    }
}

impl ModelOperation for ModelCall {
    fn target(&self) -> &ModelTarget {
        &self.target
    }

    fn identity(&self) -> String {
        ModelCall::identity(self)
    }

    fn summary(&self) -> String {
        self.request.summary()
    }

    fn estimate(&self, models: &Models) -> Charge {
        models.estimate(self)
    }

    async fn send(&self, models: &Models, context: SendContext) -> OutboundResult {
        let completed = models.complete(self, context.observer, &context.trace);
        match completed.await {
            Ok(CompletedCall { reply, cost, used }) => {
                let bytes = reply_bytes(&reply);
                // Replies may be large, so this one is not kept beside its other form.
                let answer = serde_json::to_value(reply).unwrap_or_default();
                OutboundResult {
                    cost,
                    model: Some(used),
                    ..paid_answer(answer.into(), bytes, &context.allowance)
                }
            }
            Err(failed) => model_failed(failed),
        }
    }

    fn answer_bytes(response: &Json) -> usize {
        ModelBatch::read_answer(response).map_or(0, |reply| reply_bytes(&reply))
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
fn unsent_request(target: &ModelTarget, used: Charge) -> OutboundResult {
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
    use std::collections::BTreeMap;

    use strata_base::files::blob::Blobs;

    use super::*;
    use crate::http::HttpClient;
    use crate::http::secrets::Secrets;
    use crate::models::{EmbedRequest, ModelCaller};
    use crate::outbound::OutboundServices;

    #[test]
    fn a_team_without_models_is_refused_before_anything_is_reserved_or_sent() {
        let client = HttpClient::new(Secrets::new(BTreeMap::new())).expect("a client");
        let services = OutboundServices {
            mcp: None,
            http: Arc::new(client),
            models: None,
            model_names: None,
        };
        let context = OutboundContext {
            services: &services,
            caller: ModelCaller::default(),
            plugin: None,
            blobs: Blobs::new(),
        };
        let request = serde_json::from_value(serde_json::json!({ "messages": [] }));
        let replies = ModelBatch {
            requests: vec![request.expect("a request")],
            blobs: Blobs::new(),
        };
        let vectors = EmbedRequest {
            model: None,
            texts: vec!["one".into(), "two".into()],
            dimensions: None,
        };
        let mut calls = Box::new(replies).into_calls(&context);
        calls.extend(Box::new(vectors).into_calls(&context));
        assert_eq!(calls[1].summary(), "embed 2 texts: one");
        for call in calls {
            assert!(call.is_paid() && !call.is_write());
            let refusal = call.expected_cost().expect_err("there is no model");
            assert_eq!(refusal.cause, Some(FaultCause::NoModel));
            let unsent = call.unsent(Charge::default());
            assert_eq!(unsent.model.map(|used| used.name), Some("default".into()));
        }
    }
}
