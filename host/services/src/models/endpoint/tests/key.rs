//! Tests that the key of an endpoint is sent to it and shown nowhere.

use super::*;

#[tokio::test]
async fn the_key_is_sent_and_shown_nowhere() {
    let key = std::env::var(KEY).expect("a variable that is set everywhere");
    for status in ["200 OK", "401 Unauthorized"] {
        let body = serde_json::json!({ "error": format!("{key} is wrong") }).to_string();
        let server = ModelServer::new([ServerBehavior::Respond(status, "", body)]);
        let endpoint = Endpoint {
            api_key_env: Some(KEY.to_owned()),
            ..server.endpoint()
        };
        let provider = provider_of(&endpoint).expect("a usable endpoint");
        let error = complete(&provider, &mut StreamObserver::default())
            .await
            .expect_err("no reply")
            .error;
        assert!(
            error.message.contains("[secret PATH] is wrong"),
            "{}",
            error.message
        );
        assert!(!error.message.contains(&key));
        assert!(!format!("{provider:?}").contains(&key));
        let head = &server.seen()[0].head;
        assert!(
            head.contains(&format!("authorization: bearer {}\r\n", key.to_lowercase())),
            "{head}"
        );
    }
}

#[tokio::test]
async fn the_key_is_in_no_part_of_a_reply_or_an_error_however_it_is_escaped() {
    let key = std::env::var(KEY).expect("a variable that is set everywhere");
    let (escaped, slashed) = (escaped(&key), key.replace('/', "\\/"));
    let message = format!(
        r#"{{"content": "it is {escaped} {slashed}", "tool_calls": [
            {{"id": "{escaped}", "function": {{"name": "{slashed}", "arguments": "{{\"a\": \"{slashed}\"}}"}}}},
            {{"id": "c", "function": {{"name": "n", "arguments": {{"a": "{escaped}"}}}}}}]}}"#
    );
    let answer = format!(r#"{{"model": "{escaped}", "choices": [{{"message": {message}}}]}}"#);
    let server = ModelServer::new([ServerBehavior::Respond("200 OK", "", answer)]);
    let endpoint = Endpoint {
        api_key_env: Some(KEY.to_owned()),
        ..server.endpoint()
    };
    let provider = provider_of(&endpoint).expect("a usable endpoint");
    let reply = complete(&provider, &mut StreamObserver::default())
        .await
        .expect("a reply");
    assert_eq!(reply.text(), "it is [secret PATH] [secret PATH]");
    assert_eq!(reply.model, "[secret PATH]");
    let calls: Vec<_> = reply.tool_calls().collect();
    let [one, other] = calls[..] else {
        panic!("two calls: {reply:?}")
    };
    let hidden = r#"{"a": "[secret PATH]"}"#;
    assert_eq!(
        [&one.id, &one.name, &one.arguments],
        ["[secret PATH]", "[secret PATH]", hidden]
    );
    assert_eq!(other.arguments, hidden.replace(": ", ":"));
    // The key is removed before the text is cut off, because a part of it would not be recognized.
    let long = format!(r#"{{"error": "{}{escaped}"}}"#, "x".repeat(250));
    for status in ["200 OK", "500 Oops"] {
        let server = ModelServer::new([ServerBehavior::Respond(status, "", long.clone())]);
        let endpoint = Endpoint {
            api_key_env: Some(KEY.to_owned()),
            ..server.endpoint()
        };
        let provider = provider_of(&endpoint).expect("a usable endpoint");
        let error = complete(&provider, &mut StreamObserver::default())
            .await
            .expect_err("no reply")
            .error;
        assert!(
            error.message.contains("x[secret PATH]"),
            "{}",
            error.message
        );
    }
}
