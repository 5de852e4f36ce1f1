//! Fields that endpoints refuse.

use serde_json::{Value, json};
use strata_core::record::conversation::ToolChoice;

use super::*;
use crate::models::ToolDefinition;

const ENCRYPTED: &str = r#"{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}"#;
const NAMED: &str = r#"{"error":"Invalid tool_choice type: 'object'. Supported string values: none, auto, required"}"#;
/// A refusal that names none of the fields.
const OTHER: &str = r#"{"error":{"message":"invalid"}}"#;

/// Returns a request with two tools, of which the model has to call one.
fn tool_request() -> ModelRequest {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: "{}".to_owned(),
    };
    ModelRequest {
        tools: vec![tool("add"), tool("now")],
        tool_choice: ToolChoice::Tool("add".to_owned()),
        ..request()
    }
}

/// Sends requests to an endpoint that first refuses one with this body, until one fails, at most
/// twice. Returns the bodies of all that were sent.
async fn bodies(protocol: ProtocolName, refusal: &str, settings: &ModelSettings) -> Vec<Value> {
    let refused = ServerBehavior::Respond("400 Bad Request", "", refusal.to_owned());
    let reply = json!({ "status": "completed", "output": [],
        "choices": [{ "message": { "content": "hello" } }] });
    let accepted = ServerBehavior::Respond("200 OK", "", reply.to_string());
    let server = ModelServer::new([refused, accepted]);
    let base_url = server.endpoint().base_url;
    let endpoint = Endpoint {
        protocol,
        base_url: base_url.replace("/v1", ""),
        ..server.endpoint()
    };
    let provider = provider_of(&endpoint).expect("a usable endpoint");
    let request = tool_request();
    let check = ReplyCheck::for_request(&request).expect("a request without a schema");
    let question = Question {
        model: "m",
        request: &request,
        settings,
        blobs: &Blobs::new(),
        check: &check,
        pace: &RateLimiter::default(),
    };
    for _ in 0..2 {
        let mut observer = StreamObserver::default();
        let mut account = CallAccount::new(&mut observer);
        if provider.complete(question, &mut account).await.is_err() {
            break;
        }
    }
    let seen = server.seen();
    let body = |seen: &crate::tests::loopback::ReceivedRequest| {
        serde_json::from_str(&seen.body).expect("JSON")
    };
    seen.iter().map(body).collect()
}

#[tokio::test]
async fn encrypted_reasoning_is_not_requested_again_from_a_model_that_refuses_it() {
    let settings = ModelSettings::default();
    let sent = bodies(ProtocolName::Responses, ENCRYPTED, &settings).await;
    let included: Vec<bool> = sent.iter().map(|body| body["include"].is_array()).collect();
    assert_eq!(included, [true, false, false]);
    assert_eq!(sent[1]["tool_choice"], sent[0]["tool_choice"]);
}

#[tokio::test]
async fn a_tool_that_cannot_be_named_is_sent_alone() {
    for protocol in [ProtocolName::OpenAi, ProtocolName::Responses] {
        let sent = bodies(protocol, NAMED, &ModelSettings::default()).await;
        let sent: Vec<_> = sent
            .iter()
            .map(|body| {
                let tools = body["tools"].as_array().map_or(0, Vec::len);
                (body["tool_choice"].is_object(), tools)
            })
            .collect();
        assert_eq!(sent, [(true, 2), (false, 1), (false, 1)]);
    }
}

#[tokio::test]
async fn a_refusal_of_anything_else_is_final() {
    let settings = ModelSettings::default();
    for protocol in ProtocolName::ALL {
        assert_eq!(bodies(protocol, OTHER, &settings).await.len(), 1);
    }
    let sent = bodies(ProtocolName::Anthropic, NAMED, &settings).await;
    assert_eq!(sent.len(), 1);
}

#[tokio::test]
async fn what_the_operator_has_determined_is_not_changed() {
    let without = ModelSettings {
        without: vec!["include".to_owned()],
        ..ModelSettings::default()
    };
    let sent = bodies(ProtocolName::Responses, ENCRYPTED, &without).await;
    assert_eq!(sent.len(), 1);
    let options = json!({ "tool_choice": { "type": "function", "function": { "name": "now" } } });
    let chosen = ModelSettings {
        options: options.as_object().expect("an object").clone(),
        ..ModelSettings::default()
    };
    let sent = bodies(ProtocolName::OpenAi, NAMED, &chosen).await;
    assert_eq!(sent.len(), 1);
}
