//! Replies that are streamed to a listener.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use strata_core::record::conversation::ToolCall;

use super::*;

use crate::models::StreamEvent;

/// The text that the listener received. `<again>` marks a restart.
#[derive(Clone, Default)]
struct RecordedText(Arc<Mutex<String>>);

impl RecordedText {
    fn observer(&self) -> StreamObserver {
        let heard = self.0.clone();
        StreamObserver::with_listener(Box::new(move |what| {
            heard
                .lock()
                .expect("nobody panics while listening")
                .push_str(match what {
                    StreamEvent::Text(text) => text,
                    StreamEvent::Restarted => "<again>",
                });
        }))
    }

    fn received(&self) -> String {
        self.0
            .lock()
            .expect("nobody panics while listening")
            .clone()
    }
}

/// Returns a stream of these events.
fn stream(events: &[Value]) -> ServerBehavior {
    let line = |event: &Value| match event {
        Value::String(text) => format!("data: {text}\n\n"),
        other => format!("data: {other}\n\n"),
    };
    ServerBehavior::Stream("", events.iter().map(line).collect())
}

fn delta(delta: Value) -> Value {
    json!({ "model": "served", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn says(text: &str) -> Value {
    delta(json!({ "content": text }))
}

fn end() -> Value {
    json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] })
}

fn counts() -> Value {
    json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 5 } })
}

/// Sends a request with a listener. Returns the outcome, the text that the listener received, and
/// the requests.
async fn complete_with_listener(
    plays: &[ServerBehavior],
    retries: u32,
) -> (Result<ModelReply, HostError>, String, Vec<Value>) {
    let server = ModelServer::new(plays);
    let mut provider = provider_of(&Endpoint {
        retries,
        ..server.endpoint()
    })
    .expect("a usable endpoint");
    provider.backoff = Duration::from_millis(1);
    let ear = RecordedText::default();
    let mut observer = ear.observer();
    let reply = complete(&provider, &mut observer).await;
    if let Ok(reply) = &reply {
        observer.completed(reply);
    }
    let requests = server
        .seen()
        .iter()
        .map(|seen| serde_json::from_str(&seen.body).expect("JSON"))
        .collect();
    (
        reply.map_err(|unanswered| unanswered.error),
        ear.received(),
        requests,
    )
}

/// Compares the outcome with the reply's text or a part of the error, the text that the listener
/// received, and which requests asked for streaming.
async fn check(
    plays: &[ServerBehavior],
    retries: u32,
    expected: Result<&str, &str>,
    heard: &str,
    streamed: &[bool],
) {
    let (reply, found, requests) = complete_with_listener(plays, retries).await;
    match (reply, expected) {
        (Ok(reply), Ok(text)) => assert_eq!(reply.text(), text),
        (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
        (found, _) => panic!("{found:?} instead of {expected:?}"),
    }
    assert_eq!(found, heard);
    let found: Vec<bool> = requests
        .iter()
        .map(|request| request["stream"] == true)
        .collect();
    assert_eq!(found, streamed);
}

#[tokio::test]
async fn a_streamed_reply_is_heard_and_is_the_same_as_one_in_one_piece() {
    let streamed = [
        says("he"),
        says("ll"),
        delta(json!({ "content": null })),
        says("ö"),
        end(),
        counts(),
        "[DONE]".into(),
    ];
    let (reply, heard, requests) = complete_with_listener(&[stream(&streamed)], 0).await;
    let whole = ask(&ModelServer::new([respond_with_text("hellö")]).endpoint()).await;
    assert_eq!(reply, whole);
    assert_eq!(heard, "hellö");
    assert_eq!(
        requests[0]["stream_options"],
        json!({ "include_usage": true })
    );
}

#[tokio::test]
async fn tool_calls_are_put_together() {
    let piece = |index: u32, call: Value| {
        let mut call = call;
        call["index"] = index.into();
        delta(json!({ "tool_calls": [call] }))
    };
    let events = [
        piece(
            0,
            json!({ "id": "c1", "function": { "name": "add", "arguments": "" } }),
        ),
        piece(0, json!({ "function": { "arguments": "{\"a\":" } })),
        piece(
            1,
            json!({ "id": "c2", "function": { "name": "now", "arguments": "" } }),
        ),
        piece(0, json!({ "function": { "arguments": "1}" } })),
        end(),
        counts(),
    ];
    let (reply, ..) = complete_with_listener(&[stream(&events)], 0).await;
    let call = |id: &str, name: &str, arguments: &str| {
        let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
        ToolCall {
            id,
            name,
            arguments,
        }
    };
    let expected = vec![call("c1", "add", r#"{"a":1}"#), call("c2", "now", "{}")];
    let reply = reply.expect("a reply");
    assert_eq!(reply.tool_calls().cloned().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_stream_that_breaks_in_the_middle_is_asked_for_again() {
    let whole = stream(&[says("hello"), end(), counts()]);
    let ended = stream(&[says("he")]);
    let cut = ServerBehavior::Stream(
        "content-length: 9999\r\n",
        format!("data: {}\n\n", says("he")),
    );
    let failed = stream(&[says("he"), json!({ "error": { "message": "overloaded" } })]);
    let typed = stream(&[
        says("he"),
        json!({ "type": "error", "message": "overloaded" }),
    ]);
    let garbled = stream(&[says("he"), "<html>".into(), says("llo"), end()]);
    let torn = stream(&[says("he"), "{".into()]);
    for broken in [&ended, &cut, &failed, &typed, &garbled, &torn] {
        check(
            &[broken.clone(), whole.clone()],
            1,
            Ok("hello"),
            "he<again>hello",
            &[true, true],
        )
        .await;
    }
    check(
        &[ended],
        0,
        Err("the stream ended in the middle of the reply"),
        "he<again>",
        &[true],
    )
    .await;
    check(&[failed], 0, Err("overloaded"), "he<again>", &[true]).await;
    check(&[typed], 0, Err("overloaded"), "he<again>", &[true]).await;
    let error = Err("is not a JSON document");
    check(&[garbled], 0, error, "he<again>", &[true]).await;
    // Nothing else has to come before it.
    let page = stream(&["<html>".into()]);
    check(&[page, whole], 1, Ok("hello"), "hello", &[true, true]).await;
    let lasting = json!({ "type": "error", "code": 401, "message": "no" });
    check(&[stream(&[lasting])], 3, Err("no"), "", &[true]).await;
}

#[tokio::test]
async fn what_breaks_behind_a_whole_reply_pays_for_nothing_twice() {
    let event = |event: Value| format!("data: {event}\n\n");
    let cut = ServerBehavior::Stream(
        "content-length: 9999\r\n",
        event(says("hello")) + &event(end()),
    );
    let failed = stream(&[says("hello"), end(), json!({ "error": "late" })]);
    let nonsense = stream(&[says("hello"), end(), "{".into()]);
    for broken in [cut, failed, nonsense] {
        check(&[broken], 3, Ok("hello"), "hello", &[true]).await;
    }
}

#[tokio::test]
async fn a_stream_that_stays_open_ends_with_its_reply() {
    let line = |event: Value| format!("data: {event}\n\n");
    let without_end = [says("hello"), end()].map(line).concat();
    let without_done = [says("hello"), end(), counts()].map(line).concat();
    for body in [without_end, without_done] {
        let headers = "content-type: text/event-stream\r\n";
        let server = ModelServer::new([ServerBehavior::StayOpen(headers, body)]);
        let mut provider = provider_of(&server.endpoint()).expect("a usable endpoint");
        provider.end_timeout = Duration::from_millis(1);
        let reply = complete(&provider, &mut RecordedText::default().observer()).await;
        assert_eq!(reply.expect("a reply").text(), "hello");
    }
}

#[tokio::test]
async fn a_context_that_is_too_long_is_no_reason_to_stop_streaming() {
    let refusal = r#"{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}"#;
    let refused = ServerBehavior::Respond("400 Bad Request", "", refusal.to_owned());
    check(&[refused], 3, Err("too long"), "", &[true]).await;
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_a_lasting_failure() {
    let endless = format!("data: {}", "x".repeat(MAX_REPLY_BYTES));
    let flood = ServerBehavior::Respond("200 OK", "content-type: text/event-stream\r\n", endless);
    check(&[flood], 3, Err("larger than 16 MiB"), "", &[true]).await;
}

#[tokio::test]
async fn a_stream_without_a_reply_is_asked_for_again() {
    let whole = stream(&[says("hello"), end(), counts()]);
    let event = |name: &str, data: &str| {
        ServerBehavior::Stream("", format!("event: {name}\ndata: {data}\n\n"))
    };
    let empty = json!({ "choices": [{ "delta": { "content": "he" }, "finish_reason": "" }] });
    for (none, heard) in [
        (stream(&["{".into()]), "hello"),
        (stream(&["[DONE]".into()]), "hello"),
        (stream(&["".into()]), "hello"),
        (stream(&[counts()]), "hello"),
        (ServerBehavior::Stream("", String::new()), "hello"),
        (
            ServerBehavior::Stream("", ": a comment\n\n".to_owned()),
            "hello",
        ),
        (stream(&[json!({ "error": "overloaded" })]), "hello"),
        (
            stream(&[
                json!({ "choices": [{ "delta": {}, "error": { "code": 502 }, "finish_reason": "stop" }] }),
            ]),
            "hello",
        ),
        (
            stream(&[
                says("he"),
                json!({ "choices": [{ "delta": {}, "finish_reason": "error" }] }),
            ]),
            "he<again>hello",
        ),
        (event("error", r#"{"message":"overloaded"}"#), "hello"),
        (event("error", "overloaded"), "hello"),
        (stream(std::slice::from_ref(&empty)), "he<again>hello"),
    ] {
        check(&[none, whole.clone()], 1, Ok("hello"), heard, &[true, true]).await;
    }
    check(&[stream(&[empty, end()])], 0, Ok("he"), "he", &[true]).await;
    check(
        &[event("error", r#"{"error":{"code":401}}"#)],
        3,
        Err("401"),
        "",
        &[true],
    )
    .await;
}

#[tokio::test]
async fn how_a_stream_is_framed_makes_no_difference() {
    let (hello, stop) = (says("hello").to_string(), end().to_string());
    for body in [
        format!("data: {hello}\n\ndata: {stop}\n\ndata:\n\ndata: [DONE]\n\n"),
        format!(
            ": x\r\nid: 1\r\nevent: message\r\ndata: {hello}\r\n\r\n: y\r\ndata: {stop}\r\n\r\n"
        ),
        format!("\n\n\u{feff}data:{hello}\n\ndata: \n\ndata:{stop}"),
    ] {
        for play in [
            ServerBehavior::Stream("", body.clone()),
            ServerBehavior::Respond("200 OK", "", body),
        ] {
            check(&[play], 0, Ok("hello"), "hello", &[true]).await;
        }
    }
    let whole = json!({ "choices": [{ "message": { "content": "hello" } }] });
    check(
        &[ServerBehavior::Stream("", whole.to_string())],
        0,
        Ok("hello"),
        "hello",
        &[true],
    )
    .await;
    let in_a_piece =
        json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }] });
    check(&[stream(&[in_a_piece])], 0, Ok("hello"), "hello", &[true]).await;
}

#[tokio::test]
async fn what_a_model_thinks_aloud_is_not_heard() {
    let events = [
        says("<thi"),
        says("nk>hm</think>\n\nhe"),
        says("llo"),
        end(),
        counts(),
    ];
    check(&[stream(&events)], 0, Ok("hello"), "hello", &[true]).await;
    let reasoned = delta(json!({ "reasoning_content": "hm", "content": null }));
    check(
        &[stream(&[reasoned, says("hello"), end()])],
        0,
        Ok("hello"),
        "hello",
        &[true],
    )
    .await;
}

#[tokio::test]
async fn a_character_that_is_split_over_two_pieces_is_whole() {
    let half = |half: &str| {
        Value::from(format!(
            r#"{{"choices":[{{"delta":{{"content":"{half}"}}}}]}}"#
        ))
    };
    let split = [half(r"hi \ud83d"), half(r"\ude00!"), end()];
    check(&[stream(&split)], 0, Ok("hi 😀!"), "hi 😀!", &[true]).await;
    check(
        &[stream(&[half(r"hi \ud83d"), end()])],
        0,
        Ok("hi \u{fffd}"),
        "hi ",
        &[true],
    )
    .await;
}

#[tokio::test]
async fn an_endpoint_that_cannot_stream_is_asked_for_replies_in_one_piece() {
    check(
        &[respond_with_text("hello")],
        0,
        Ok("hello"),
        "hello",
        &[true],
    )
    .await;
    for status in [
        "400 Bad Request",
        "422 Unprocessable Entity",
        "501 Not Implemented",
    ] {
        let refused = failing(status, "");
        check(
            &[refused.clone(), respond_with_text("hello")],
            0,
            Ok("hello"),
            "hello",
            &[true, false],
        )
        .await;
        check(&[refused], 0, Err(status), "", &[true, false]).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_refused_to_stream_or_does_not_count_is_not_asked_to_again() {
    let uncounted = stream(&[says("12345678"), end()]);
    for (first, requests, tokens) in [(failing("400 Bad Request", ""), 3, 5), (uncounted, 2, 2)] {
        let server = ModelServer::new([
            first,
            respond_with_text("whole"),
            respond_with_text("whole"),
        ]);
        let provider = provider_of(&server.endpoint()).expect("a usable endpoint");
        let reply = complete(&provider, &mut RecordedText::default().observer()).await;
        assert_eq!(reply.map(|reply| reply.usage.output), Ok(tokens));
        complete(&provider, &mut RecordedText::default().observer())
            .await
            .expect("a reply");
        let seen = server.seen();
        assert_eq!(seen.len(), requests);
        assert!(!seen.last().is_some_and(|seen| seen.body.contains("stream")));
    }
}

#[tokio::test]
async fn nobody_hears_the_key() {
    let key = std::env::var(KEY).expect("a variable that is set everywhere");
    let beginning: String = key.chars().take(3).collect();
    // In deltas of one character each, plain or escaped once more, within a text that may continue
    // it.
    for form in [key.clone(), escaped(&key), key.replace('/', "\\/")] {
        let text = format!("{form} and {beginning}");
        let events: Vec<Value> = text
            .chars()
            .map(|letter| says(&letter.to_string()))
            .chain([end(), counts()])
            .collect();
        let server = ModelServer::new([stream(&events)]);
        let endpoint = Endpoint {
            api_key_env: Some(KEY.to_owned()),
            ..server.endpoint()
        };
        let provider = provider_of(&endpoint).expect("a usable endpoint");
        let ear = RecordedText::default();
        let reply = complete(&provider, &mut ear.observer())
            .await
            .expect("a reply");
        assert_eq!(reply.text(), format!("[secret PATH] and {beginning}"));
        assert_eq!(ear.received(), reply.text());
    }
    let broken = format!(r#"{{"error": "{}"}}"#, escaped(&key));
    let server = ModelServer::new([stream(&[says("he"), broken.into()])]);
    let endpoint = Endpoint {
        api_key_env: Some(KEY.to_owned()),
        ..server.endpoint()
    };
    let provider = provider_of(&endpoint).expect("a usable endpoint");
    let error = complete(&provider, &mut RecordedText::default().observer())
        .await
        .expect_err("no reply")
        .error;
    assert!(
        error.message.contains("`\"[secret PATH]\"`"),
        "{}",
        error.message
    );
}
