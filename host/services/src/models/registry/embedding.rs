//! Vectors for texts, from the models of a team. Other models are not asked if one does not answer:
//! vectors of different models cannot be compared.

use strata_core::record::host_call::ModelUse;
use strata_core::record::money::Usd;
use tracing::Instrument;

use super::{FailedCall, Model, Models, Provider, no_default_error, no_id_error};
use crate::models::charge::CallAccount;
use crate::models::embedding::{scripted_embeddings, unsupported_error};
use crate::models::endpoint::{RequestFailure, embed};
use crate::models::error_text::invalid;
use crate::models::request_span::RequestSpan;
use crate::models::scripted::DEFAULT_MODEL;
use crate::models::{Charge, EmbedCall, Embeddings, StreamObserver};
use crate::telemetry::{CallTrace, names};

/// Vectors and what is recorded about their model.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedEmbedding {
    /// The vectors.
    pub embeddings: Embeddings,
    /// What they cost, with failed requests.
    pub cost: Usd,
    /// How they came about.
    pub used: ModelUse,
}

impl Models {
    /// Returns what a call is expected to use.
    pub fn estimate_embedding(&self, call: &EmbedCall) -> Charge {
        let model = self.models.get(&call.target.name);
        let price = model.map(|model| model.price).unwrap_or_default();
        Charge::new(price, call.expected_usage())
    }

    /// Requests vectors. Dropping the future cancels the request.
    pub async fn embed(
        &self,
        call: &EmbedCall,
        mut observer: StreamObserver,
        trace: &CallTrace,
    ) -> Result<CompletedEmbedding, FailedCall> {
        let mut account = CallAccount::new(&mut observer);
        let mut used = ModelUse {
            name: call.target.name.clone(),
            ..ModelUse::default()
        };
        let Some(model) = self.models.get(&call.target.name) else {
            return Err(FailedCall::unpaid(no_default_error(), used));
        };
        if let Err(why) = call.request.check_size() {
            let error = invalid(format!("cannot embed: {why}"));
            return Err(FailedCall::unpaid(error, used));
        }
        // The semaphore is never closed, so acquiring cannot fail.
        let _place = self.permits.acquire().await;
        account.switch_to(model.price, call.expected_usage());
        let asked_model = model.asked_model(names::EMBEDDINGS, &call.target);
        let span = RequestSpan::open(&asked_model, trace, account.charge);
        let result = model
            .embed(call, &mut account)
            .instrument(span.span())
            .await;
        match &result {
            Ok(embeddings) => span.record_vectors(&embeddings.model, account.charge),
            Err(failure) => span.record_failure(failure, account.charge),
        }
        self.count(model, result.is_ok(), &mut account);
        used.usage = account.charge.usage;
        let cost = account.charge.cost;
        match result {
            Ok(embeddings) => {
                used.answered = Some(embeddings.model.clone());
                Ok(CompletedEmbedding {
                    embeddings,
                    cost,
                    used,
                })
            }
            Err(failure) => Err(FailedCall {
                error: failure.error,
                cost,
                used,
            }),
        }
    }
}

impl Model {
    async fn embed(
        &self,
        call: &EmbedCall,
        account: &mut CallAccount<'_>,
    ) -> Result<Embeddings, RequestFailure> {
        let id = call.target.id.as_deref();
        match &self.provider {
            Provider::Endpoint(endpoint) => {
                let id = id.ok_or_else(|| no_id_error(&call.target))?;
                embed(endpoint, id, &call.request, &self.pace, account).await
            }
            Provider::Scripted(_) => {
                self.pace.wait().await;
                account.dispatched();
                let reply = scripted_embeddings(&call.request, id.unwrap_or(DEFAULT_MODEL))?;
                account.add_reply(call.expected_usage());
                Ok(reply)
            }
            Provider::Recorded(_) => Err(unsupported_error("recorded").into()),
        }
    }
}
