//! Requests for vectors as calls that leave the host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::record::host_call::HostCallKind;
use strata_core::record::id::to_hex;
use strata_core::record::json::Json;
use strata_core::record::spending::Amount;
use strata_core::state::environment::Environment;

use super::{EmbedCall, EmbedRequest};
use crate::gateway::{HostAnswer, HostError, HostErrorKind, embeddings_bytes};
use crate::services::models::config::ModelNames;
use crate::services::models::outbound::{
    model_failed, no_model_error, paid_answer, unsent_request,
};
use crate::services::models::{Charge, DispatchState, Models};
use crate::services::outbound::{
    CallAnswer, OutboundBatch, OutboundCall, OutboundResult, SendContext, decode_answers, summarize,
};
use crate::sha256::sha256;

/// A request for vectors.
struct OutboundEmbedding {
    call: EmbedCall,
    /// The models of the team; `None` if it has none, or if the call is only looked up.
    models: Option<Arc<Models>>,
}

/// Returns the call for a request. `names` are the models of the team, and `role_model` is the model
/// for a request that names none.
pub(crate) fn outbound_embedding(
    request: EmbedRequest,
    models: Option<&Arc<Models>>,
    names: &ModelNames,
    role_model: Option<&str>,
) -> OutboundBatch {
    OutboundBatch {
        calls: vec![Arc::new(OutboundEmbedding {
            call: EmbedCall::new(names, role_model, request),
            models: models.cloned(),
        })],
        convert: to_embeddings,
    }
}

fn to_embeddings(answers: Vec<CallAnswer>) -> HostAnswer {
    let decoded = decode_answers(answers, |json| {
        serde_json::from_value(json.value()).map_err(|error| error.to_string())
    });
    let none = || HostError::new(HostErrorKind::Upstream, "there is no answer");
    HostAnswer::Embeddings(decoded.into_iter().next().unwrap_or_else(|| Err(none())))
}

impl OutboundCall for OutboundEmbedding {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Llm
    }

    fn digest(&self, _: &Environment) -> String {
        to_hex(&sha256(self.call.identity()))
    }

    fn summary(&self) -> String {
        let texts = &self.call.request.texts;
        let first = texts.first().map_or("", String::as_str);
        summarize(&match texts.len() {
            1 => format!("embed: {first}"),
            count => format!("embed {count} texts: {first}"),
        })
    }

    fn is_paid(&self) -> bool {
        true
    }

    fn expected_cost(&self) -> Result<Amount, HostError> {
        let models = self.models.as_ref().ok_or_else(no_model_error)?;
        Ok(models.estimate_embedding(&self.call).into())
    }

    fn dispatch_state(&self) -> DispatchState {
        DispatchState::not_in_flight()
    }

    fn unsent(&self, used: Charge) -> OutboundResult {
        unsent_request(&self.call.target, used)
    }

    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult> {
        Box::pin(async move {
            let Some(models) = &self.models else {
                return OutboundResult::failed(no_model_error());
            };
            match models.embed(&self.call, context.observer).await {
                Ok(completed) => {
                    let embeddings = &completed.embeddings;
                    let answer = serde_json::to_value(embeddings).unwrap_or_default();
                    OutboundResult {
                        cost: completed.cost,
                        model: Some(completed.used),
                        ..paid_answer(
                            answer.into(),
                            embeddings_bytes(embeddings),
                            &context.allowance,
                        )
                    }
                }
                Err(failed) => model_failed(failed),
            }
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        serde_json::from_value(response.value()).map_or(0, |found| embeddings_bytes(&found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_without_models_is_refused_before_anything_is_sent() {
        let request = EmbedRequest {
            model: None,
            texts: vec!["one".into(), "two".into()],
            dimensions: None,
        };
        let batch = outbound_embedding(request, None, &ModelNames::default(), None);
        let call = &batch.calls[0];
        assert_eq!(call.summary(), "embed 2 texts: one");
        assert!(call.is_paid() && call.expected_cost().is_err());
        let unsent = call.unsent(Charge::default());
        assert_eq!(unsent.model.map(|used| used.name), Some("default".into()));
    }
}
