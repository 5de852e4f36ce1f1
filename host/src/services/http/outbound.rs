//! HTTP exchanges as calls that leave the host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::record::host_call::{CallOutcome, HostCallKind, Intent, LostAnswerPolicy};
use strata_core::record::json::Json;
use strata_core::state::environment::Environment;

use super::{HttpClient, HttpRequest, HttpResponse, RequestSent};
use crate::gateway::{HostAnswer, response_bytes};
use crate::plugin::Plugin;
use crate::services::outbound::{
    CallAnswer, OutboundBatch, OutboundCall, OutboundResult, SendContext, decode_answers, summarize,
};

/// An exchange that a plugin asks for.
struct HttpCall {
    request: HttpRequest,
    client: Arc<HttpClient>,
    /// Its grants limit where the request may go. Without a plugin, nothing is granted.
    plugin: Option<Arc<Plugin>>,
}

/// Returns the calls for requests that a plugin makes at once.
pub(crate) fn outbound_batch(
    requests: Vec<HttpRequest>,
    client: &Arc<HttpClient>,
    plugin: Option<&Arc<Plugin>>,
) -> OutboundBatch {
    let call = |request| -> Arc<dyn OutboundCall> {
        Arc::new(HttpCall {
            request,
            client: client.clone(),
            plugin: plugin.cloned(),
        })
    };
    OutboundBatch {
        calls: requests.into_iter().map(call).collect(),
        convert: to_responses,
    }
}

fn to_responses(answers: Vec<CallAnswer>) -> HostAnswer {
    HostAnswer::Responses(decode_answers(answers, |json| {
        HttpResponse::from_json(&json)
    }))
}

impl OutboundCall for HttpCall {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Http
    }

    fn digest(&self, env: &Environment) -> String {
        let run = &env.run.0;
        self.request
            .digest(&env.lineage.idempotency_prefix(run), run)
    }

    fn summary(&self) -> String {
        summarize(&self.request.describe())
    }

    fn is_write(&self) -> bool {
        self.request.is_write()
    }

    fn intent(&self, request_name: &str) -> Option<Intent> {
        let if_answer_lost = if self.request.key.is_some() {
            LostAnswerPolicy::Repeat
        } else {
            LostAnswerPolicy::AskOperator
        };
        self.is_write().then(|| Intent {
            kind: self.kind(),
            request: request_name.to_owned(),
            description: self.request.describe(),
            if_answer_lost,
        })
    }

    fn send(self: Arc<Self>, context: SendContext) -> BoxFuture<'static, OutboundResult> {
        Box::pin(async move {
            let grants = self
                .plugin
                .as_ref()
                .map_or(&[][..], |plugin| &plugin.grants.http);
            let SendContext {
                idempotency_key,
                allowance,
                ..
            } = context;
            let exchange = self
                .client
                .fetch(&self.request, grants, &idempotency_key, &allowance);
            match exchange.await {
                Ok(response) => OutboundResult::answered(response.to_json()),
                Err(failed) => OutboundResult {
                    outcome: match failed.sent {
                        RequestSent::No => CallOutcome::Failed,
                        RequestSent::Perhaps => CallOutcome::Unknown,
                    },
                    ..OutboundResult::failed(failed.error)
                },
            }
        })
    }

    fn answer_bytes(&self, response: &Json) -> usize {
        HttpResponse::from_json(response).map_or(0, |response| response_bytes(&response))
    }
}
