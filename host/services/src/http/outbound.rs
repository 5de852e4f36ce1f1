//! HTTP exchanges as calls that leave the host.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use strata_core::record::host_call::{CallOutcome, HostCallKind, Intent, LostAnswerPolicy};
use strata_core::record::json::Json;
use strata_core::state::environment::Environment;
use tracing::Span;

use super::{HttpBatch, HttpClient, HttpRequest, HttpResponse, RequestSent};
use crate::gateway::response_bytes;
use crate::outbound::{
    OutboundCall, OutboundContext, OutboundResult, ReadAnswer, RequestBatch, SendContext, summarize,
};
use crate::plugin::Plugin;
use crate::telemetry::names;

/// An exchange that a plugin asks for.
struct HttpCall {
    request: HttpRequest,
    client: Arc<HttpClient>,
    /// Its grants limit where the request may go. Without a plugin, nothing is granted.
    plugin: Option<Arc<Plugin>>,
}

impl RequestBatch for HttpBatch {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(HttpRequest::bytes).sum()
    }

    fn into_calls(self: Box<Self>, context: &OutboundContext<'_>) -> Vec<Arc<dyn OutboundCall>> {
        let call = |request| -> Arc<dyn OutboundCall> {
            Arc::new(HttpCall {
                request,
                client: context.services.http.clone(),
                plugin: context.plugin.cloned(),
            })
        };
        self.0.into_iter().map(call).collect()
    }
}

impl ReadAnswer for HttpBatch {
    type Answer = HttpResponse;

    fn read_answer(record: &Json) -> Result<HttpResponse, String> {
        HttpResponse::from_json(record)
    }

    fn answer_bytes(answer: &HttpResponse) -> usize {
        response_bytes(answer)
    }
}

impl OutboundCall for HttpCall {
    fn kind(&self) -> HostCallKind {
        HostCallKind::Http
    }

    fn digest(&self, env: &Environment) -> String {
        let run = &env.run.0;
        self.request.digest(&env.lineage.idempotency_run(run), run)
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
            let (span, url) = (Span::current(), &self.request.url);
            span.record(names::HTTP_METHOD, self.request.method.as_str())
                .record(names::SERVER_ADDRESS, url.host_str())
                .record(
                    names::SERVER_PORT,
                    url.port_or_known_default().map(i64::from),
                );
            let exchange = self
                .client
                .fetch(&self.request, grants, &idempotency_key, &allowance);
            match exchange.await {
                Ok(response) => {
                    span.record(names::STATUS_CODE, i64::from(response.status));
                    OutboundResult::answered(response.to_json())
                }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gateway::{HostError, HostErrorKind};
    use crate::http::secrets::Secrets;
    use crate::outbound::read_answers;

    fn call(method: &str, key: Option<&str>) -> HttpCall {
        let request = HttpRequest {
            method: method.into(),
            url: reqwest::Url::parse("http://a/x?y=1").expect("an address"),
            headers: Vec::new(),
            body: None,
            secrets: Vec::new(),
            key: key.map(str::to_owned),
            timeout_ms: None,
        };
        let client = HttpClient::new(Secrets::new(BTreeMap::new())).expect("a client");
        HttpCall {
            request,
            client: Arc::new(client),
            plugin: None,
        }
    }

    #[test]
    fn the_intent_of_a_write_says_what_may_be_done_if_its_answer_is_lost() {
        let check = |method: &str, key: Option<&str>, expected: Option<LostAnswerPolicy>| {
            let call = call(method, key);
            let intent = call.intent("digest#1");
            assert_eq!(call.is_write(), expected.is_some(), "{method}");
            assert_eq!(
                intent.as_ref().map(|intent| intent.if_answer_lost),
                expected
            );
            if let Some(intent) = intent {
                assert_eq!(intent.request, "digest#1");
                assert_eq!(intent.description, format!("{method} http://a/x"));
            }
        };
        check("GET", None, None);
        check("HEAD", Some("key"), None);
        check("POST", None, Some(LostAnswerPolicy::AskOperator));
        check("DELETE", Some("key"), Some(LostAnswerPolicy::Repeat));
    }

    #[test]
    fn answers_become_responses_and_errors_stay() {
        let response = HttpResponse {
            status: 204,
            ..HttpResponse::default()
        };
        let refused = HostError::new(HostErrorKind::Denied, "not granted");
        let answers = vec![
            Ok(response.to_json()),
            Err(refused.clone()),
            Ok(Json::from(serde_json::json!({ "status": "fine" }))),
        ];
        let responses = read_answers::<HttpBatch>(answers);
        assert_eq!(responses[..2], [Ok(response), Err(refused)]);
        let unreadable = responses[2].as_ref().expect_err("no status");
        assert_eq!(unreadable.kind, HostErrorKind::Upstream);
    }
}
