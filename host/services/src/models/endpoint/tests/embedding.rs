//! Requests for vectors against an endpoint on loopback.

use super::*;
use crate::models::{EmbedRequest, Embeddings};

fn respond(body: &str) -> ServerBehavior {
    ServerBehavior::Respond("200 OK", "", body.to_owned())
}

/// Requests the vectors of two texts, with one retry, and returns what was used as well.
async fn embed(
    plays: &[ServerBehavior],
    protocol: ProtocolName,
) -> (Result<Embeddings, String>, u64, usize) {
    let server = ModelServer::new(plays);
    let endpoint = server.endpoint();
    let base_url = match protocol {
        ProtocolName::OpenAi | ProtocolName::Responses => endpoint.base_url.clone(),
        _ => endpoint.base_url.trim_end_matches("/v1").to_owned(),
    };
    let mut provider = provider_of(&Endpoint {
        protocol,
        base_url,
        retries: 1,
        api_key_env: Some(KEY.into()),
        ..endpoint
    })
    .expect("a usable endpoint");
    provider.backoff = Duration::from_millis(1);
    let request = EmbedRequest {
        model: None,
        texts: vec!["one".into(), "two".into()],
        dimensions: None,
    };
    let mut observer = StreamObserver::default();
    let mut account = CallAccount::new(&mut observer);
    account.switch_to(Price::default(), tokens(50, 0));
    let pace = RateLimiter::default();
    let result = super::embed(&provider, "m", &request, &pace, &mut account).await;
    let used = account.charge.usage.input;
    let result = result.map_err(|failure| failure.error.message);
    (result, used, server.seen().len())
}

const VECTORS: &str = r#"{"data":[{"embedding":[1,0]},{"embedding":[0,1]}],"model":"m-1","usage":{"prompt_tokens":9}}"#;

#[tokio::test]
async fn vectors_are_requested_again_after_a_failure_in_passing() {
    let busy = failing("503 Service Unavailable", "");
    let (result, used, requests) = embed(&[busy, respond(VECTORS)], ProtocolName::OpenAi).await;
    let embeddings = result.expect("vectors");
    assert_eq!(embeddings.vectors, [[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!((&*embeddings.model, embeddings.input_tokens), ("m-1", 9));
    assert_eq!((used, requests), (9, 2));
}

#[tokio::test]
async fn vectors_are_read_as_the_response_says() {
    let latin = "content-type: application/json; charset=iso-8859-1\r\n";
    let body = VECTORS.replace("m-1", "\u{e4}");
    let play = ServerBehavior::Respond("200 OK", latin, body);
    let (result, ..) = embed(&[play], ProtocolName::OpenAi).await;
    assert_eq!(result.expect("vectors").model, "\u{c3}\u{a4}");
    let gzip = "content-encoding: gzip\r\n";
    let play = ServerBehavior::Respond("200 OK", gzip, VECTORS.to_owned());
    let (result, _, requests) = embed(&[play], ProtocolName::OpenAi).await;
    let error = result.expect_err("a compressed answer");
    assert!(error.contains("compressed as `gzip`"), "{error}");
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_an_error_and_counts() {
    let check = async |body: &str, reason: &str, expected_use: u64, expected_requests: usize| {
        let (result, used, requests) = embed(&[respond(body)], ProtocolName::OpenAi).await;
        let error = result.expect_err("an error");
        assert!(error.contains(reason), "{error}");
        assert_eq!(
            (used, requests),
            (expected_use, expected_requests),
            "{body}"
        );
    };
    let few = r#"{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":7}}"#;
    check(few, "the answer has 1 vectors for 2 texts", 7, 1).await;
    let twice = r#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[2]}],"usage":{"prompt_tokens":7}}"#;
    check(twice, "the answer has no vector for text 0", 14, 2).await;
    let uneven = r#"{"data":[{"embedding":[1]},{"embedding":[]}],"usage":{"total_tokens":7}}"#;
    check(uneven, "vectors of different lengths", 7, 1).await;
    // What such an answer used is not known, so what was reserved is charged, for each request.
    check(r#"{"error":"no"}"#, "the answer holds no vectors", 100, 2).await;
}

#[tokio::test]
async fn the_key_is_in_no_answer_and_no_error() {
    let key = Variables::default().get(KEY).expect("a variable");
    let body = serde_json::json!({ "echo": key }).to_string();
    let (result, ..) = embed(&[respond(&body)], ProtocolName::Gemini).await;
    let error = result.expect_err("an error");
    assert!(!error.contains(&key), "{error}");
    // The library that reads the answer quotes the text that is no list of numbers.
    let body = serde_json::json!({ "data": [{ "embedding": key }] }).to_string();
    let (result, ..) = embed(&[respond(&body)], ProtocolName::OpenAi).await;
    let error = result.expect_err("an error");
    assert!(error.contains("[secret PATH]"), "{error}");
    assert!(!error.contains(&key), "{error}");
    let data = serde_json::json!([{ "embedding": [1] }, { "embedding": [2] }]);
    let body = serde_json::json!({ "data": data, "model": format!("m for {key}") }).to_string();
    let (result, ..) = embed(&[respond(&body)], ProtocolName::OpenAi).await;
    assert_eq!(result.expect("vectors").model, "m for [secret PATH]");
}

#[tokio::test]
async fn a_provider_without_vectors_is_not_asked() {
    let (result, used, requests) = embed(&[respond(VECTORS)], ProtocolName::Anthropic).await;
    let error = result.expect_err("an error");
    assert!(
        error.contains("the provider `anthropic` has no embeddings"),
        "{error}"
    );
    assert_eq!((used, requests), (0, 0));
}
