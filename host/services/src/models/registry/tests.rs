//! What holds for all providers.

mod fallback;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use strata_core::record::conversation::{AssistantPart, ModelMessage, ToolCall};
use strata_core::record::money::Usd;

use super::*;

use crate::models::config::Endpoint;
use crate::models::endpoint::tests::server::{
    ModelServer, ServerBehavior, respond_with_message, respond_with_text,
};
use crate::models::scripted::{ReplyFilter, ScriptedAnswer, ScriptedReply};
use crate::models::{EmbedCall, EmbedRequest, ToolDefinition};
use crate::variables::Variables;

const PRICE: Price = Price {
    input: Usd(600_000_000_000),
    output: Some(Usd(2_000_000_000_000)),
    cache_read: None,
    cache_write: None,
};

fn user_request(content: &str) -> ModelRequest {
    ModelRequest::ask(content)
}

fn with_schema() -> ModelRequest {
    ModelRequest {
        output_schema: Some("{}".to_owned()),
        ..user_request("x")
    }
}

/// Returns the models of a configuration, with the variables of this process. Files of replies contain one
/// entry, which answers `x`.
fn models(config: &ModelsConfig) -> Result<Models, ConfigError> {
    let reply = |_: &Path| Ok(vec![entry("x", Duration::ZERO, [None, None])]);
    Models::new(config, &Variables::default(), &reply)
}

/// Returns an entry with this text and these numbers of tokens.
fn entry(text: &str, delay: Duration, [input, output]: [Option<u32>; 2]) -> ScriptedEntry {
    let reply = ScriptedReply {
        text: text.to_owned(),
        data: None,
        tool_calls: Vec::new(),
        input,
        output,
    };
    ScriptedEntry::new(
        ReplyFilter::default(),
        ScriptedAnswer::Reply(reply),
        delay,
        None,
    )
}

/// Returns the models of a team whose model answers from a file with one entry.
fn scripted(text: &str, delay: Duration, tokens: [Option<u32>; 2]) -> Models {
    let config = config_with(ProviderConfig::Scripted {
        replies: PathBuf::new(),
    });
    let reply = |_: &Path| Ok(vec![entry(text, delay, tokens)]);
    Models::new(&config, &Variables::default(), &reply).expect("usable models")
}

fn config_with(provider: ProviderConfig) -> ModelsConfig {
    ModelsConfig::with_default(ModelConfig {
        price: Some(PRICE),
        ..ModelConfig::with_provider(provider)
    })
}

/// Asks the model that a request names, or the default.
async fn ask(models: &Models, request: &ModelRequest) -> Result<CompletedCall, FailedCall> {
    let call = ModelCall::new(models.names(), ModelCaller::default(), request.clone());
    models
        .complete(&call, StreamObserver::default(), &CallTrace::default())
        .await
}

fn cost_of(models: &Models, request: ModelRequest) -> Usd {
    models
        .estimate(&ModelCall::new(
            models.names(),
            ModelCaller::default(),
            request,
        ))
        .cost
}

#[tokio::test]
async fn what_was_recorded_is_served_again_in_order_and_to_the_same_requests_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = dir.path().join("calls.ndjson");
    let server = ModelServer::new([
        respond_with_text("one"),
        respond_with_text("two"),
        ServerBehavior::Respond("400 Bad Request", "", "no".into()),
    ]);
    let config = ModelsConfig {
        record: Some(record.clone()),
        ..ModelsConfig::with_default(server.config())
    };
    let live = models(&config).expect("a usable endpoint");
    for asked in ["same", "same", "other"] {
        let _ = ask(&live, &user_request(asked)).await;
    }
    let recorded = || {
        models(&config_with(ProviderConfig::Recorded {
            replies: record.clone(),
        }))
        .expect("a record")
    };
    let again = recorded();
    let replies = [
        ask(&again, &user_request("same")).await,
        ask(&again, &user_request("same")).await,
    ];
    assert_eq!(
        replies.map(|reply| reply.expect("a reply").reply.text()),
        ["one", "two"]
    );
    let failed = ask(&again, &user_request("other"))
        .await
        .expect_err("it failed then, too")
        .error
        .message;
    assert!(failed.contains("400"), "{failed}");
    for asked in ["same", "new"] {
        let missing = ask(&again, &user_request(asked))
            .await
            .expect_err("nothing is left")
            .error
            .message;
        assert!(
            missing.contains("holds none that is left for exactly this request"),
            "{missing}"
        );
    }
}

#[tokio::test]
async fn a_record_is_continued_after_its_last_complete_line_and_nothing_else_is() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let record = dir.path().join("calls.ndjson");
    let server = ModelServer::new([respond_with_text("one"), respond_with_text("two")]);
    let config = ModelsConfig {
        record: Some(record.clone()),
        ..ModelsConfig::with_default(server.config())
    };
    let live = models(&config).expect("a usable endpoint");
    for asked in ["same", "other"] {
        let _ = ask(&live, &user_request(asked)).await;
    }
    let whole = std::fs::read_to_string(&record).expect("a record");
    let one = whole.lines().next().expect("a line");
    for (left, kept) in [
        (whole.clone(), whole.clone()),
        (format!("{whole}{}", &one[..one.len() / 2]), whole.clone()),
        (one[..one.len() / 2].to_owned(), String::new()),
        (format!("{whole}{one}"), format!("{whole}{one}\n")),
        (String::new(), String::new()),
    ] {
        std::fs::write(&record, &left).expect("room for it");
        models(&config).expect("a record that is gone on with");
        assert_eq!(
            std::fs::read_to_string(&record).expect("a record"),
            kept,
            "{left}"
        );
    }
    std::fs::write(&record, "SQLite format 3").expect("room for it");
    assert!(
        models(&config)
            .expect_err("no record")
            .to_string()
            .contains("it is no JSON object")
    );
    std::fs::write(&record, "{}\n").expect("room for it");
    assert!(
        models(&config)
            .expect_err("no record")
            .to_string()
            .contains("line 1 of")
    );
    let broken = models(&config_with(ProviderConfig::Recorded {
        replies: record.clone(),
    }))
    .expect_err("no record");
    assert!(broken.to_string().contains("line 1 of"), "{broken}");
}

#[tokio::test]
async fn no_more_requests_are_made_than_the_rate_allows() {
    let replies = PathBuf::new();
    let config = ModelsConfig::with_default(ModelConfig {
        requests_per_minute: NonZeroU32::new(2),
        ..ModelConfig::with_provider(ProviderConfig::Scripted { replies })
    });
    let models = models(&config).expect("a usable file");
    ask(&models, &user_request("x")).await.expect("a reply");
    let asked = user_request("x");
    let second = tokio::time::timeout(Duration::from_millis(50), ask(&models, &asked)).await;
    assert!(second.is_err(), "the second waits for half a minute");
}

#[test]
fn all_that_a_model_is_given_counts_as_asked() {
    let models = scripted("x", Duration::ZERO, [None, None]);
    let bare = cost_of(&models, user_request("x"));
    let long = || "y".repeat(100_000);
    let tool = ToolDefinition {
        name: String::new(),
        description: long(),
        parameters: "{}".into(),
    };
    let called = ToolCall {
        id: String::new(),
        name: String::new(),
        arguments: long(),
    };
    let mut with_call = user_request("x");
    let reply = ModelMessage::Assistant(vec![AssistantPart::ToolCall(called)]);
    with_call.messages.push(reply);
    for request in [
        ModelRequest {
            output_schema: Some(long()),
            ..user_request("x")
        },
        ModelRequest {
            tools: vec![tool],
            ..user_request("x")
        },
        with_call,
    ] {
        // About four characters make a token.
        let more = cost_of(&models, request).0 - bare.0;
        assert!(more >= PRICE.input.per_million(20_000).0, "{more}");
    }
}

fn models_of(server: &ModelServer) -> Models {
    let config = ModelConfig {
        price: Some(PRICE),
        ..server.config()
    };
    models(&ModelsConfig::with_default(config)).expect("a usable endpoint")
}

#[tokio::test]
async fn a_call_costs_what_its_tokens_cost() {
    let models = scripted("x", Duration::ZERO, [Some(1_000_000), Some(500_000)]);
    let completed = ask(&models, &user_request("x")).await.expect("a reply");
    assert_eq!(completed.cost, Usd::from_dollars(1.6));
    let server = ModelServer::new([respond_with_text("x")]);
    let completed = ask(&models_of(&server), &user_request("x"))
        .await
        .expect("a reply");
    assert_eq!(completed.cost, Usd(10 * 600_000 + 5 * 2_000_000));
}

#[tokio::test]
async fn cached_tokens_have_a_price_of_their_own() {
    let check = async |cache_read: Option<Usd>, cached: &str, expected: u64| {
        let usage = format!(
            r#"{{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{{"cached_tokens":{cached}}}}}"#
        );
        let body = format!(r#"{{"choices":[{{"message":{{"content":"x"}}}}],"usage":{usage}}}"#);
        let server = ModelServer::new([ServerBehavior::Respond("200 OK", "", body)]);
        let price = Price {
            cache_read,
            ..PRICE
        };
        let models = models(&ModelsConfig::with_default(ModelConfig {
            price: Some(price),
            ..server.config()
        }))
        .expect("an endpoint");
        let completed = ask(&models, &user_request("x")).await.expect("a reply");
        assert_eq!(
            (completed.cost, completed.used.usage.total()),
            (Usd(expected), 15),
            "{cache_read:?} {cached}"
        );
    };
    let cheap = Some(Usd(60_000_000_000));
    check(cheap, "8", 2 * 600_000 + 8 * 60_000 + 5 * 2_000_000).await;
    check(cheap, "99", 10 * 60_000 + 5 * 2_000_000).await;
    check(cheap, "-1", 10 * 600_000 + 5 * 2_000_000).await;
    check(Some(Usd::ZERO), "10", 5 * 2_000_000).await;
    check(None, "8", 10 * 600_000 + 5 * 2_000_000).await;
}

#[tokio::test]
async fn a_failure_because_of_a_truncated_or_refused_reply_names_the_finish_reason() {
    let check = async |message: &str, reason: &str, expected: &str| {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"{reason}"}}]}}"#);
        let server = ModelServer::new([ServerBehavior::Respond("200 OK", "", body)]);
        let failed = ask(&models_of(&server), &with_schema())
            .await
            .expect_err("no JSON");
        assert!(
            failed.error.message.contains(expected),
            "{}",
            failed.error.message
        );
        assert!(
            failed
                .used
                .finish
                .is_some_and(|finish| finish.defect().is_some())
                && failed.cost > Usd::ZERO,
            "{failed:?}"
        );
    };
    check(
        r#"{"content":"{\"a\":"}"#,
        "length",
        "it was truncated (finish reason `length`)",
    )
    .await;
    check(
        r#"{"content":"sorry"}"#,
        "content_filter",
        "it was refused or filtered (finish reason `refusal`)",
    )
    .await;
}

#[tokio::test]
async fn a_reply_that_breaks_its_schema_is_refused_and_paid() {
    let check = async |models: Models| {
        let request = ModelRequest {
            max_tokens: Some(5),
            ..with_schema()
        };
        let failed = ask(&models, &request).await.expect_err("no JSON");
        assert_eq!(failed.error.kind, HostErrorKind::Upstream);
        let message = &failed.error.message;
        assert!(
            message.contains("not a JSON document") && message.contains("`Sure! {`"),
            "{message}"
        );
        assert!(message.contains("truncated at `max_tokens`"), "{message}");
        assert_eq!(failed.cost, Usd(10 * 600_000 + 5 * 2_000_000));
    };
    check(scripted("Sure! {", Duration::ZERO, [Some(10), Some(5)])).await;
    check(models_of(&ModelServer::new([respond_with_text("Sure! {")]))).await;
}

#[tokio::test]
async fn a_reply_that_was_to_be_structured_has_data() {
    let check = async |content: &str, expected: &str| {
        let server = ModelServer::new([respond_with_text(content)]);
        let completed = ask(&models_of(&server), &with_schema())
            .await
            .expect("a reply");
        assert_eq!(completed.reply.data.as_deref(), Some(expected));
        assert_eq!(completed.reply.text(), content);
    };
    check(r#"{ "b": 1, "a": 2 }"#, r#"{"a":2,"b":1}"#).await;
    check("```json\n[1]\n```", "[1]").await;
    check("\n\"x\"", "\"x\"").await;
}

#[tokio::test]
async fn text_stays_text_where_no_schema_was_asked_for() {
    let server = ModelServer::new([respond_with_text("{}")]);
    let completed = ask(&models_of(&server), &user_request("x"))
        .await
        .expect("a reply");
    assert_eq!(completed.reply.data, None);
}

#[tokio::test]
async fn a_model_that_calls_a_tool_owes_no_data_yet() {
    let call =
        r#"{"id":"c","type":"function","function":{"name":"add","arguments":"{ \"a\" : 1 }"}}"#;
    for content in ["null", "\"\"", "\"let me see\""] {
        let server = ModelServer::new([respond_with_message(&format!(
            r#"{{"content":{content},"tool_calls":[{call}]}}"#
        ))]);
        let reply = ask(&models_of(&server), &with_schema())
            .await
            .expect("a reply")
            .reply;
        assert_eq!(reply.data, None);
        let calls: Vec<_> = reply.tool_calls().map(|call| &call.arguments).collect();
        assert_eq!(calls, [r#"{ "a" : 1 }"#]);
    }
}

#[tokio::test]
async fn the_arguments_of_a_tool_call_are_returned_as_the_model_wrote_them() {
    let call = r#"{"id":"c","function":{"name":"add","arguments":"{"}}"#;
    let server = ModelServer::new([respond_with_message(&format!(
        r#"{{"tool_calls":[{call}]}}"#
    ))]);
    let completed = ask(&models_of(&server), &user_request("x"))
        .await
        .expect("a reply");
    let calls: Vec<_> = completed.reply.tool_calls().collect();
    assert_eq!(calls[0].arguments, "{");
}

#[tokio::test]
async fn requests_without_sense_are_never_sent() {
    let server = ModelServer::new([respond_with_text("x")]);
    let check = async |models: Models, request: ModelRequest, expected: &str| {
        let failed = ask(&models, &request).await.expect_err("no sense");
        assert_eq!(
            (failed.error.kind, failed.cost),
            (HostErrorKind::Invalid, Usd::ZERO)
        );
        assert!(
            failed.error.message.contains(expected),
            "{}",
            failed.error.message
        );
    };
    let messages = Vec::new();
    check(
        models_of(&server),
        ModelRequest {
            messages,
            ..user_request("x")
        },
        "`messages` is empty",
    )
    .await;
    let temperature = Some(f64::NAN);
    check(
        models_of(&server),
        ModelRequest {
            temperature,
            ..user_request("x")
        },
        "`temperature`",
    )
    .await;
    check(
        models_of(&server),
        user_request(&"x".repeat(9 << 20)),
        "the request is 9.1 MiB, at most 8 MiB are sent",
    )
    .await;
    let nameless = models(&ModelsConfig::with_default(ModelConfig {
        model: None,
        ..server.config()
    }))
    .expect("a usable endpoint");
    check(
        nameless,
        user_request("x"),
        "write `model = \"…\"` under `[llm]`",
    )
    .await;
    let call = EmbedCall::new(
        &Default::default(),
        None,
        EmbedRequest {
            model: None,
            texts: vec!["x".repeat(9 << 20)],
            dimensions: None,
        },
    );
    let models = models_of(&server);
    let trace = CallTrace::default();
    let embedded = models.embed(&call, StreamObserver::default(), &trace);
    let failed = embedded.await.expect_err("too large").error;
    let expected = "cannot embed: the texts are 9.1 MiB, at most 8 MiB are sent";
    assert_eq!(failed.message, expected);
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn the_request_names_the_model_before_the_team_does() {
    let server = ModelServer::new([respond_with_text("x")]);
    let models = models_of(&server);
    let model = Some("own".to_owned());
    for request in [
        user_request("x"),
        ModelRequest {
            model,
            ..user_request("x")
        },
    ] {
        ask(&models, &request).await.expect("a reply");
    }
    let seen = server.seen();
    assert!(
        seen[0].body.contains(r#""model":"m""#) && seen[1].body.contains(r#""model":"own""#),
        "{seen:?}"
    );
}

#[tokio::test]
async fn only_so_many_requests_are_under_way_at_once() {
    let models = scripted("x", Duration::from_millis(20), [None, None]);
    let requests: Vec<_> = (0..2 * MAX_CONCURRENT_REQUESTS + 1)
        .map(|_| user_request("x"))
        .collect();
    let begin = Instant::now();
    futures_util::future::join_all(requests.iter().map(|request| ask(&models, request))).await;
    assert!(
        begin.elapsed() >= Duration::from_millis(60),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn a_missing_key_is_the_operators_error_and_names_the_variable() {
    let endpoint = Endpoint {
        api_key_env: Some("STRATA_TEST_NO_SUCH_KEY".to_owned()),
        ..ModelServer::new([respond_with_text("x")]).endpoint()
    };
    let config = config_with(ProviderConfig::Endpoint(endpoint));
    let error = models(&config).expect_err("no key").to_string();
    assert!(
        error.contains("`STRATA_TEST_NO_SUCH_KEY`: it is not set"),
        "{error}"
    );
}
