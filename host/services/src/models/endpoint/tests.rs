//! The provider against an endpoint on loopback.

mod addresses;
mod conformance;
mod embedding;
mod encoding;
mod hints;
mod key;
mod optional_field;
pub mod server;
mod streaming;
mod wire;

use std::time::Duration;

use self::server::{ModelServer, ServerBehavior, respond_with_text};
use super::*;
use crate::gateway::HostErrorKind;
use crate::models::config::{Price, ProtocolName};
use crate::models::tokens::expected_usage;
use crate::models::{Charge, DispatchState, StreamObserver};

/// The variable that plays the API key. It is set wherever tests run; a test cannot set one safely.
const KEY: &str = "PATH";

fn request() -> ModelRequest {
    ModelRequest::ask("hello")
}

/// Returns a usage without cached tokens.
fn tokens(input: u64, output: u64) -> TokenUsage {
    TokenUsage {
        input,
        output,
        ..TokenUsage::default()
    }
}

fn failing(status: &'static str, headers: &'static str) -> ServerBehavior {
    ServerBehavior::Respond(status, headers, "broken".to_owned())
}

/// Returns the provider for an endpoint, with the variables of this process.
fn provider_of(endpoint: &Endpoint) -> Result<ModelEndpoint, ConfigError> {
    ModelEndpoint::new(
        "default",
        endpoint,
        &Variables::default(),
        &mut HttpClients::default(),
    )
}

async fn ask(endpoint: &Endpoint) -> Result<ModelReply, HostError> {
    answer(endpoint)
        .await
        .0
        .map_err(|unanswered| unanswered.error)
}

/// Returns the reply of an endpoint and what was used.
async fn answer(endpoint: &Endpoint) -> (Result<ModelReply, RequestFailure>, TokenUsage) {
    let mut provider = provider_of(endpoint).expect("a usable endpoint");
    provider.backoff = Duration::from_millis(1);
    let pace = RateLimiter::default();
    complete_at(&provider, &mut StreamObserver::default(), &pace).await
}

/// Sends a request without a rate limit and returns only the reply.
async fn complete(
    provider: &ModelEndpoint,
    observer: &mut StreamObserver,
) -> Result<ModelReply, RequestFailure> {
    complete_at(provider, observer, &RateLimiter::default())
        .await
        .0
}

/// Sends a request and returns the reply and what was used.
async fn complete_at(
    provider: &ModelEndpoint,
    observer: &mut StreamObserver,
    pace: &RateLimiter,
) -> (Result<ModelReply, RequestFailure>, TokenUsage) {
    complete_request(provider, &request(), observer, pace).await
}

async fn complete_request(
    provider: &ModelEndpoint,
    request: &ModelRequest,
    observer: &mut StreamObserver,
    pace: &RateLimiter,
) -> (Result<ModelReply, RequestFailure>, TokenUsage) {
    let check = ReplyCheck::for_request(request).expect("a request without a schema");
    let question = Question {
        model: "m",
        request,
        settings: &ModelSettings::default(),
        blobs: &Blobs::new(),
        check: &check,
        pace,
    };
    let mut account = CallAccount::new(observer);
    account.switch_to(Price::default(), expected_usage(request, None));
    let reply = provider.complete(question, &mut account).await;
    (reply, account.charge.usage)
}

/// Returns the key with escapes as PHP and others write it, so that no part of it appears in plain
/// form.
fn escaped(key: &str) -> String {
    key.encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

/// Runs a server with these behaviors, sends a request with `retries`, and compares the text or a
/// part of the error, and the number of requests.
async fn check(
    plays: &[ServerBehavior],
    retries: u32,
    expected: Result<&str, &str>,
    requests: usize,
) {
    let server = ModelServer::new(plays);
    let endpoint = Endpoint {
        retries,
        ..server.endpoint()
    };
    match (ask(&endpoint).await, expected) {
        (Ok(reply), Ok(text)) => assert_eq!(reply.text(), text),
        (Err(error), Err(part)) => {
            assert_eq!(error.kind, HostErrorKind::Upstream);
            assert!(error.message.contains(part), "{}", error.message);
        }
        (found, _) => panic!("{found:?} instead of {expected:?}"),
    }
    assert_eq!(server.seen().len(), requests);
}

#[tokio::test]
async fn a_failure_in_passing_is_retried_as_often_as_allowed() {
    let broken = failing("500 Internal Server Error", "");
    check(
        &[broken.clone(), respond_with_text("fine")],
        1,
        Ok("fine"),
        2,
    )
    .await;
    check(
        &[broken.clone(), respond_with_text("fine")],
        0,
        Err("answered 500 Internal Server Error: `broken`"),
        1,
    )
    .await;
    check(
        std::slice::from_ref(&broken),
        2,
        Err("(after 2 retries)"),
        3,
    )
    .await;
    check(
        &[ServerBehavior::Disconnect, respond_with_text("fine")],
        1,
        Ok("fine"),
        2,
    )
    .await;
    check(
        &[ServerBehavior::Disconnect, respond_with_text("fine")],
        0,
        Err("error sending request"),
        1,
    )
    .await;
    for status in [
        "408 Request Timeout",
        "409 Conflict",
        "429 Too Many Requests",
    ] {
        check(
            &[failing(status, ""), respond_with_text("fine")],
            1,
            Ok("fine"),
            2,
        )
        .await;
    }
}

#[tokio::test]
async fn requests_that_are_made_again_keep_to_the_pace() {
    let server = ModelServer::new([
        failing("429 Too Many Requests", ""),
        respond_with_text("fine"),
    ]);
    let mut provider = provider_of(&Endpoint {
        retries: 1,
        ..server.endpoint()
    })
    .expect("a usable endpoint");
    provider.backoff = Duration::from_millis(1);
    let (mut observer, pace) = (
        StreamObserver::default(),
        RateLimiter::per_minute(std::num::NonZeroU32::new(2)),
    );
    let asked = complete_at(&provider, &mut observer, &pace);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), asked)
            .await
            .is_err(),
        "the second waits for half a minute"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_lasting_failure_is_never_retried() {
    check(
        &[failing("400 Bad Request", "")],
        3,
        Err("400 Bad Request: `broken`"),
        1,
    )
    .await;
    check(
        &[failing("401 Unauthorized", "")],
        3,
        Err("under `api_key`"),
        1,
    )
    .await;
    check(&[failing("404 Not Found", "")], 3, Err("`base_url`"), 1).await;
    check(
        &[ServerBehavior::Respond("200 OK", "", "<html>".to_owned())],
        3,
        Err("is not a JSON document"),
        1,
    )
    .await;
}

#[tokio::test]
async fn what_an_error_says_to_do_is_said() {
    let check = async |status: &'static str, body: &str, expected: &str| {
        check(
            &[ServerBehavior::Respond(status, "", body.to_owned())],
            3,
            Err(expected),
            1,
        )
        .await;
    };
    let quota = r#"{"error":{"message":"You exceeded","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    check("429 Too Many Requests", quota, "quota is used up").await;
    check("200 OK", quota, "quota is used up").await;
    check("402 Payment Required", "", "quota is used up").await;
    check("403 Forbidden", "", "under `api_key`").await;
    check("404 Not Found", "", "are `base_url` and `model` right?").await;
}

#[tokio::test]
async fn a_reply_that_is_none_is_asked_for_again() {
    let respond = |body: &str| ServerBehavior::Respond("200 OK", "", body.to_owned());
    for none in [
        "",
        " \n",
        "{}",
        "[]",
        "null",
        r#"{"choices":[]}"#,
        r#"{"choices":[{"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"message":{"content":"half"},"finish_reason":""}]}"#,
        r#"{"choices":[{"message":{"content":"half"},"finish_reason":"error"}]}"#,
        r#"{"choices":[{"message":{"content":"half"},"error":{"code":502}}]}"#,
        r#"{"choices":[{"message":{"content":"half"},"finish_reason":"stop"}],"error":{"code":429}}"#,
        r#"{"error":"overloaded"}"#,
        r#"{"error":{"message":"overloaded"},"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        r#"{"choices":[{"message":{"content":"cut o"#,
    ] {
        check(
            &[respond(none), respond_with_text("fine")],
            1,
            Ok("fine"),
            2,
        )
        .await;
    }
    check(&[respond("{}")], 1, Err("holds no reply: `{}`"), 2).await;
    check(&[respond("")], 1, Err("the answer is empty"), 2).await;
    check(&[respond(r#"{"error":{"code":401}}"#)], 3, Err("401"), 1).await;
    check(
        &[respond(
            "\u{feff}{\"choices\":[{\"message\":{\"content\":\"fine\"}}]}",
        )],
        0,
        Ok("fine"),
        1,
    )
    .await;
    check(
        &[respond(
            r#"{"choices":[{"message":{"content":"cut \ud83d"}}]}"#,
        )],
        0,
        Ok("cut \u{fffd}"),
        1,
    )
    .await;
}

#[tokio::test]
async fn what_failed_replies_used_up_is_charged_with_the_one_that_did_not() {
    let failed = r#"{"choices":[{"message":{"content":"half"},"finish_reason":"error"}],
        "usage":{"prompt_tokens":10,"completion_tokens":3}}"#;
    let server = ModelServer::new([
        ServerBehavior::Respond("200 OK", "", failed.to_owned()),
        respond_with_text("fine"),
    ]);
    let mut provider = provider_of(&Endpoint {
        retries: 1,
        ..server.endpoint()
    })
    .expect("a usable endpoint");
    provider.backoff = Duration::from_millis(1);
    let (reply, used) = complete_at(
        &provider,
        &mut StreamObserver::default(),
        &RateLimiter::default(),
    )
    .await;
    let usage = reply.expect("a reply").usage;
    assert_eq!(
        (used.input - usage.input, used.output - usage.output),
        (10, 3)
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let moved = failing("307 Temporary Redirect", "location: /elsewhere\r\n");
    check(
        &[moved, respond_with_text("fine")],
        3,
        Err("redirects are not followed"),
        1,
    )
    .await;
}

#[tokio::test]
async fn the_endpoint_decides_when_it_is_asked_again() {
    let server = ModelServer::new([
        failing("429 Too Many Requests", "retry-after: 0\r\n"),
        respond_with_text("fine"),
    ]);
    let endpoint = Endpoint {
        retries: 1,
        ..server.endpoint()
    };
    let mut provider = provider_of(&endpoint).expect("a usable endpoint");
    // If the header were ignored, the test would wait for this long.
    provider.backoff = Duration::from_secs(3600);
    let reply = complete(&provider, &mut StreamObserver::default()).await;
    assert_eq!(reply.map(|r| r.text()), Ok("fine".to_owned()));
}

#[tokio::test]
async fn what_an_answer_without_a_reply_used_up_is_told() {
    async fn check(play: ServerBehavior, expected: UsageWithoutReply) {
        let unknown = expected_usage(&request(), None);
        let server = ModelServer::new([play]);
        let endpoint = Endpoint {
            timeout: Duration::from_millis(300),
            retries: 0,
            ..server.endpoint()
        };
        let (reply, used) = answer(&endpoint).await;
        assert!(reply.is_err(), "{reply:?}");
        assert_eq!(used, expected.tokens(unknown));
    }
    let without_choices =
        |usage: &str| ServerBehavior::Respond("200 OK", "", format!(r#"{{"choices": []{usage}}}"#));
    check(
        without_choices(r#", "usage": {"prompt_tokens": 1000, "completion_tokens": 2}"#),
        UsageWithoutReply::Tokens(tokens(1000, 2)),
    )
    .await;
    check(
        without_choices(r#", "usage": {"prompt_tokens": 1000}"#),
        UsageWithoutReply::Tokens(tokens(1000, 0)),
    )
    .await;
    check(without_choices(""), UsageWithoutReply::Nothing).await;
    check(failing("500 Oops", ""), UsageWithoutReply::Nothing).await;
    // The endpoint may still be working, or was when the connection broke.
    check(ServerBehavior::Disconnect, UsageWithoutReply::Unknown).await;
    check(ServerBehavior::Stall, UsageWithoutReply::Unknown).await;
    check(ServerBehavior::SendEndlessly, UsageWithoutReply::Unknown).await;
    let cut = ServerBehavior::Stream("content-length: 9999\r\n", "data: {}\n\n".to_owned());
    check(cut, UsageWithoutReply::Unknown).await;
    let piece = r#"data: {"choices": [{"delta": {"content": "much"}}]}"#;
    check(
        ServerBehavior::Stream("", format!("{piece}\n\ndata: {{\n\n")),
        UsageWithoutReply::Unknown,
    )
    .await;
    check(
        ServerBehavior::Stream("", "data: {\n\n".to_owned()),
        UsageWithoutReply::Unknown,
    )
    .await;
    check(
        ServerBehavior::Stream("", "data: <\n\n".to_owned()),
        UsageWithoutReply::Nothing,
    )
    .await;
    check(
        ServerBehavior::Stream("", String::new()),
        UsageWithoutReply::Nothing,
    )
    .await;
    let counted = format!(
        "{}, \"usage\": {{\"prompt_tokens\": 9, \"completion_tokens\": 1}}}}",
        &piece[..piece.len() - 1]
    );
    check(
        ServerBehavior::Stream("", format!("{counted}\n\n")),
        UsageWithoutReply::Tokens(tokens(9, 1)),
    )
    .await;
}

#[tokio::test]
async fn what_broke_off_counts_also_while_it_waits_to_be_asked_for_again() {
    let cut = ServerBehavior::Stream("content-length: 9999\r\n", "data: {}\n\n".to_owned());
    let server = ModelServer::new([cut]);
    let mut provider = provider_of(&Endpoint {
        retries: 1,
        ..server.endpoint()
    })
    .expect("a usable endpoint");
    provider.backoff = Duration::from_secs(3600);
    let dispatch_state = DispatchState::not_in_flight();
    let mut observer = StreamObserver::default().with_dispatch_state(dispatch_state.clone());
    let returned = async {
        loop {
            match dispatch_state.wait_until_not_in_flight().await {
                used if used == Charge::default() => tokio::task::yield_now().await,
                used => return used,
            }
        }
    };
    let returned = tokio::time::timeout(Duration::from_secs(60), returned);
    tokio::select! {
        asked = complete(&provider, &mut observer) => panic!("{asked:?} before it is asked again"),
        used = returned => {
            let used = used.map(|charge| charge.usage);
            assert_eq!(used, Ok(expected_usage(&request(), None)));
        }
    }
}

#[tokio::test]
async fn a_reply_that_does_not_end_is_cut_by_the_timeout_and_not_paid_twice() {
    let server = ModelServer::new([ServerBehavior::Stall]);
    let endpoint = Endpoint {
        retries: 3,
        timeout: Duration::from_millis(300),
        ..server.endpoint()
    };
    let error = ask(&endpoint).await.expect_err("no end of the reply");
    assert!(
        error.message.contains("no whole answer within 300ms"),
        "{}",
        error.message
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_reply_is_complete_whatever_the_connection_does() {
    let whole = r#"{"choices":[{"message":{"content":"hello"}}]}"#;
    let open = ServerBehavior::StayOpen("", whole.to_owned());
    let cut = ServerBehavior::Stream("content-length: 9999\r\n", whole.to_owned());
    for play in [open, cut] {
        let server = ModelServer::new([play]);
        let mut provider = provider_of(&server.endpoint()).expect("a usable endpoint");
        provider.end_timeout = Duration::from_millis(1);
        let reply = complete(&provider, &mut StreamObserver::default()).await;
        assert_eq!(reply.expect("a reply").text(), "hello");
        assert_eq!(server.seen().len(), 1);
    }
    let half = ServerBehavior::Stream("content-length: 9999\r\n", whole[..20].to_owned());
    check(&[half], 0, Err("body"), 1).await;
}

#[tokio::test]
async fn a_response_that_is_not_compressed_is_requested() {
    let server = ModelServer::new([respond_with_text("hello")]);
    ask(&server.endpoint()).await.expect("a reply");
    assert!(
        server.seen()[0]
            .head
            .contains("accept-encoding: identity\r\n")
    );
}

#[tokio::test]
async fn a_reply_without_end_is_bounded() {
    check(
        &[ServerBehavior::SendEndlessly],
        3,
        Err("larger than 16 MiB"),
        1,
    )
    .await;
}

#[tokio::test]
async fn an_error_is_quoted_at_its_beginning_and_on_one_line() {
    let long = format!("one\n\u{1b}[2Jtwo {}", "x".repeat(100_000));
    let server = ModelServer::new([ServerBehavior::Respond("400 Bad Request", "", long)]);
    let error = ask(&server.endpoint()).await.expect_err("a bad request");
    assert!(
        error.message.contains("`one  [2Jtwo xxx"),
        "{}",
        error.message
    );
    assert!(error.message.len() < 500, "{}", error.message.len());
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_an_upstream_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let endpoint = Endpoint {
        protocol: ProtocolName::OpenAi,
        base_url: format!("http://127.0.0.1:{port}"),
        api_key_env: None,
        retries: 1,
        timeout: Endpoint::DEFAULT_TIMEOUT,
    };
    let error = ask(&endpoint).await.expect_err("nobody there");
    assert_eq!(error.kind, HostErrorKind::Upstream);
    for part in [
        &format!("at `http://127.0.0.1:{port}/chat/completions`"),
        "refused",
        "(after 1 retry)",
    ] {
        assert!(error.message.contains(part), "{}", error.message);
    }
}

#[tokio::test]
async fn the_path_of_the_base_address_is_kept() {
    let server = ModelServer::new([respond_with_text("fine")]);
    ask(&server.endpoint()).await.expect("a reply");
    let seen = &server.seen()[0];
    assert!(
        seen.head
            .starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{}",
        seen.head
    );
    assert!(!seen.head.contains("authorization"));
    assert_eq!(
        seen.body,
        r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#
    );
}

#[test]
fn an_encrypted_endpoint_can_be_prepared_without_a_connection() {
    let endpoint = Endpoint {
        protocol: ProtocolName::OpenAi,
        base_url: "https://a.example".to_owned(),
        api_key_env: None,
        retries: 0,
        timeout: Endpoint::DEFAULT_TIMEOUT,
    };
    match provider_of(&endpoint) {
        Ok(_) => {}
        // On a machine without root certificates this is what the operator is told.
        Err(error) => assert!(error.to_string().contains("certificates"), "{error}"),
    }
}
