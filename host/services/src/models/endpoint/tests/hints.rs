//! What the error of an endpoint says to do.

use super::*;
use crate::models::ToolDefinition;

/// Returns the error of a model with this name and protocol for a request with a tool, which its
/// endpoint refuses with this status and body.
async fn refusal(name: &str, protocol: ProtocolName, status: &'static str, body: &str) -> String {
    let server = ModelServer::new([ServerBehavior::Respond(status, "", body.to_owned())]);
    let endpoint = Endpoint {
        protocol,
        base_url: server.endpoint().base_url.replace("/v1", ""),
        ..server.endpoint()
    };
    let (variables, mut clients) = (Variables::default(), HttpClients::default());
    let provider = ModelEndpoint::new(name, &endpoint, &variables, &mut clients);
    let provider = provider.expect("a usable endpoint");
    let tool = ToolDefinition {
        name: "add".to_owned(),
        description: String::new(),
        parameters: "{}".to_owned(),
    };
    let request = ModelRequest {
        tools: vec![tool],
        ..request()
    };
    let mut observer = StreamObserver::default();
    let pace = RateLimiter::default();
    let (reply, _) = complete_request(&provider, &request, &mut observer, &pace).await;
    reply.expect_err("a refusal").error.message
}

#[tokio::test]
async fn the_table_of_the_model_is_named_whose_key_is_missing() {
    for (name, table) in [("default", "in `[llm]`"), ("cheap", "in `[model.cheap]`")] {
        let message = refusal(name, ProtocolName::OpenAi, "401 Unauthorized", "").await;
        assert!(message.contains(table), "{message}");
    }
}

#[tokio::test]
async fn another_protocol_is_suggested_for_tools_to_chat_completions_only() {
    let body = r#"{"error":{"message":"use /v1/responses for tools","param":"reasoning_effort"}}"#;
    for protocol in ProtocolName::ALL {
        let message = refusal("default", protocol, "400 Bad Request", body).await;
        let is_suggested = message.contains("provider = \"responses\"");
        assert_eq!(is_suggested, protocol == ProtocolName::OpenAi, "{message}");
    }
}
