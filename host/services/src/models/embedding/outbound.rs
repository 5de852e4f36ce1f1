//! Requests for vectors as calls that leave the host.

use std::sync::Arc;

use strata_core::record::json::Json;

use super::{EmbedCall, EmbedRequest, Embeddings};
use crate::gateway::embeddings_bytes;
use crate::models::config::ModelTarget;
use crate::models::outbound::{
    ModelOperation, model_failed, model_names, outbound_call, paid_answer,
};
use crate::models::{Charge, Models};
use crate::outbound::{
    OutboundCall, OutboundContext, OutboundResult, ReadAnswer, RequestBatch, SendContext,
};

impl RequestBatch for EmbedRequest {
    fn count(&self) -> usize {
        1
    }

    fn bytes(&self) -> usize {
        self.text_bytes()
    }

    fn into_calls(self: Box<Self>, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>> {
        let role_model = context.caller.role_model;
        let call = EmbedCall::new(&model_names(context), role_model, *self);
        vec![outbound_call(call, context)]
    }
}

impl ReadAnswer for EmbedRequest {
    type Answer = Embeddings;

    fn read_answer(record: &Json) -> Result<Embeddings, String> {
        serde_json::from_value(record.value()).map_err(|error| error.to_string())
    }

    fn answer_bytes(answer: &Embeddings) -> usize {
        embeddings_bytes(answer)
    }
}

impl ModelOperation for EmbedCall {
    fn target(&self) -> &ModelTarget {
        &self.target
    }

    fn identity(&self) -> String {
        EmbedCall::identity(self)
    }

    fn summary(&self) -> String {
        let texts = &self.request.texts;
        let first = texts.first().map_or("", String::as_str);
        match texts.len() {
            1 => format!("embed: {first}"),
            count => format!("embed {count} texts: {first}"),
        }
    }

    fn estimate(&self, models: &Models) -> Charge {
        models.estimate_embedding(self)
    }

    async fn send(&self, models: &Models, context: SendContext) -> OutboundResult {
        match models.embed(self, context.observer, &context.trace).await {
            Ok(completed) => {
                let answer = serde_json::to_value(&completed.embeddings).unwrap_or_default();
                let bytes = embeddings_bytes(&completed.embeddings);
                OutboundResult {
                    cost: completed.cost,
                    model: Some(completed.used),
                    ..paid_answer(answer.into(), bytes, &context.allowance)
                }
            }
            Err(failed) => model_failed(failed),
        }
    }

    fn answer_bytes(response: &Json) -> usize {
        EmbedRequest::read_answer(response).map_or(0, |found| embeddings_bytes(&found))
    }
}
