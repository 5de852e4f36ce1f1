//! Several models: which one is asked, what it costs, and what happens if it does not answer.

use strata_core::record::conversation::OpaquePart;
use strata_core::record::host_call::FinishReason;

use super::*;

/// Returns a model at an endpoint, which is not asked again after a failure.
fn model(server: &ModelServer, id: &str, dollars: f64) -> ModelConfig {
    ModelConfig {
        model: Some(id.to_owned()),
        price: Some(Price {
            input: Usd::from_dollars(dollars),
            output: Some(Usd::ZERO),
            ..Price::default()
        }),
        ..server.config()
    }
}

/// Returns a default model with one fallback, `other`.
fn with_other(default: &ModelServer, other: &ModelServer) -> Models {
    let default = ModelConfig {
        fallback: vec!["other".to_owned()],
        ..model(default, "m", 9.0)
    };
    let mut config = ModelsConfig::with_default(default);
    config.models.insert("other".into(), model(other, "n", 2.0));
    models(&config).expect("usable endpoints")
}

fn reply_with_usage(text: &str, input: u64) -> ServerBehavior {
    let body = format!(
        r#"{{"model":"served","choices":[{{"message":{{"content":"{text}"}}}}],"usage":{{"prompt_tokens":{input},"completion_tokens":0}}}}"#
    );
    ServerBehavior::Respond("200 OK", "", body)
}

fn status(status: &'static str, body: &str) -> ServerBehavior {
    ServerBehavior::Respond(status, "", body.to_owned())
}

#[tokio::test]
async fn a_fallback_answers_at_its_own_price_and_the_call_says_who_was_asked() {
    let dead = ModelServer::new([status("503 Service Unavailable", "no")]);
    let good = ModelServer::new([reply_with_usage("good", 1_000_000)]);
    let completed = ask(&with_other(&dead, &good), &user_request("x"))
        .await
        .expect("a reply");
    assert_eq!(completed.reply.text(), "good");
    let used = completed.used;
    assert_eq!(
        (used.name.as_str(), used.answered.as_deref()),
        ("other", Some("served"))
    );
    assert_eq!(completed.cost, Usd::from_dollars(2.0));
    let [tried] = &used.tried[..] else {
        panic!("one model: {used:?}")
    };
    assert_eq!(tried.model, "default");
    assert_eq!(
        tried.reason,
        "the endpoint answered 503 Service Unavailable: `no`"
    );
    assert!(good.seen()[0].body.contains(r#""model":"n""#));
}

#[tokio::test]
async fn only_a_failure_that_says_nothing_about_the_request_leads_to_a_fallback() {
    let check = async |failure: ServerBehavior, leads_on: bool| {
        let failing = ModelServer::new([failure.clone()]);
        let good = ModelServer::new([respond_with_text("good")]);
        let result = ask(&with_other(&failing, &good), &user_request("x")).await;
        let name = match &failure {
            ServerBehavior::Respond(status, _, body) => format!("{status} {body}"),
            _ => "no response".to_owned(),
        };
        assert_eq!(result.is_ok(), leads_on, "{name}: {result:?}");
        assert_eq!(good.seen().len(), usize::from(leads_on), "{name}");
    };
    for refusal in [
        "401 Unauthorized",
        "402 Payment Required",
        "403 Forbidden",
        "404 Not Found",
        "413 Payload Too Large",
        "429 Too Many Requests",
        "500 Oops",
        "503 Service Unavailable",
        "529 Overloaded",
    ] {
        check(status(refusal, "no"), true).await;
    }
    let too_long = r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#;
    check(status("400 Bad Request", too_long), true).await;
    let prompt_too_long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    check(status("400 Bad Request", prompt_too_long), true).await;
    check(
        status("200 OK", r#"{"error":{"code":429,"message":"busy"}}"#),
        true,
    )
    .await;
    check(status("200 OK", "{}"), true).await;
    check(status("200 OK", "<html>"), true).await;
    check(ServerBehavior::Disconnect, true).await;
    for fault in [
        "400 Bad Request",
        "405 Method Not Allowed",
        "422 Unprocessable Entity",
    ] {
        check(status(fault, r#"{"error":{"message":"bad value"}}"#), false).await;
    }
    check(
        status("200 OK", r#"{"error":{"code":400,"message":"bad value"}}"#),
        false,
    )
    .await;
}

#[tokio::test]
async fn a_refusal_by_the_model_is_an_answer() {
    let body =
        r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#;
    let refusing = ModelServer::new([status("200 OK", body)]);
    let other = ModelServer::new([respond_with_text("good")]);
    let completed = ask(&with_other(&refusing, &other), &user_request("x"))
        .await
        .expect("a reply");
    assert_eq!(completed.reply.text(), "no");
    assert_eq!(completed.used.finish, Some(FinishReason::Refusal));
    assert_eq!(other.seen().len(), 0);
}

#[tokio::test]
async fn a_call_that_no_model_answers_names_all_of_them() {
    let dead = ModelServer::new([status("503 Service Unavailable", "down")]);
    let locked = ModelServer::new([status("401 Unauthorized", "locked")]);
    let failed = ask(&with_other(&dead, &locked), &user_request("x"))
        .await
        .expect_err("no answer");
    for part in [
        "model `n`",
        "`locked`",
        "before, `default` failed:",
        "`down`",
    ] {
        assert!(
            failed.error.message.contains(part),
            "{}",
            failed.error.message
        );
    }
    assert_eq!(failed.used.name, "other");
    assert_eq!(failed.used.tried.len(), 1);
}

#[tokio::test]
async fn what_a_failed_model_used_is_charged_at_its_price() {
    let half = r#"{"choices":[{"message":{"content":"half"},"finish_reason":"error"}],
        "usage":{"prompt_tokens":1000,"completion_tokens":0}}"#;
    let failing = ModelServer::new([status("200 OK", half)]);
    let good = ModelServer::new([reply_with_usage("good", 500)]);
    let completed = ask(&with_other(&failing, &good), &user_request("x"))
        .await
        .expect("a reply");
    // 1,000 tokens at 9 and 500 at 2 USD per million.
    assert_eq!(completed.cost, Usd::from_dollars(0.009 + 0.001));
    assert_eq!(completed.used.usage.input, 1500);
}

#[tokio::test]
async fn each_model_is_asked_once_in_the_order_of_the_list() {
    let servers = ["a", "b"].map(|_| ModelServer::new([status("500 Oops", "no")]));
    let mut config = ModelsConfig::with_default(ModelConfig {
        fallback: ["b", "a", "default", "b"].map(str::to_owned).to_vec(),
        ..model(&servers[0], "m", 0.0)
    });
    for (name, server) in ["a", "b"].iter().zip(&servers) {
        config
            .models
            .insert((*name).to_owned(), model(server, name, 0.0));
    }
    let failed = ask(
        &models(&config).expect("usable endpoints"),
        &user_request("x"),
    )
    .await
    .expect_err("no answer");
    let tried: Vec<&str> = failed
        .used
        .tried
        .iter()
        .map(|tried| tried.model.as_str())
        .collect();
    assert_eq!(
        (tried, failed.used.name.as_str()),
        (vec!["default", "b"], "a")
    );
}

#[test]
fn a_fallback_has_to_be_a_model_of_the_team() {
    let server = ModelServer::new([respond_with_text("x")]);
    let config = ModelsConfig::with_default(ModelConfig {
        fallback: vec!["missing".to_owned()],
        ..server.config()
    });
    let error = models(&config).expect_err("no such model").to_string();
    assert!(
        error.contains("its fallback `missing` is not a model of the team"),
        "{error}"
    );
}

#[tokio::test]
async fn the_reservation_covers_the_most_expensive_model() {
    let server = ModelServer::new([respond_with_text("x")]);
    let models = with_other(&server, &server);
    let cheap = ModelRequest {
        model: Some("other".to_owned()),
        ..user_request("x")
    };
    let (dear, cheap) = (cost_of(&models, user_request("x")), cost_of(&models, cheap));
    assert_eq!((dear, cheap), (Usd(9_000_000), Usd(2_000_000)));
}

#[tokio::test]
async fn a_reply_that_does_not_match_its_schema_is_requested_again_within_the_retries() {
    let request = ModelRequest {
        output_schema: Some(r#"{"type":"object","required":["a"]}"#.to_owned()),
        ..user_request("x")
    };
    let check =
        async |plays: &[ServerBehavior], retries, requests, expected: Result<&str, &str>| {
            let server = ModelServer::new(plays);
            let endpoint = Endpoint {
                retries,
                ..server.endpoint()
            };
            let config = ModelConfig {
                provider: ProviderConfig::Endpoint(endpoint),
                ..model(&server, "m", 1.0)
            };
            let models = models(&ModelsConfig::with_default(config)).expect("a usable endpoint");
            let result = ask(&models, &request).await;
            let used = result
                .as_ref()
                .map_or_else(|failed| &failed.used, |completed| &completed.used);
            // Each reply is paid for.
            assert_eq!(used.usage.input, 10 * requests);
            match (result, expected) {
                (Ok(completed), Ok(data)) => {
                    assert_eq!(completed.reply.data.as_deref(), Some(data));
                }
                (Err(failed), Err(part)) => {
                    let message = &failed.error.message;
                    assert!(message.contains(part), "{message}");
                }
                (found, _) => panic!("{found:?} instead of {expected:?}"),
            }
            assert_eq!(server.seen().len() as u64, requests);
        };
    let text = respond_with_text("not JSON");
    let other = respond_with_text(r#"{"b":1}"#);
    let good = respond_with_text(r#"{"a":1}"#);
    check(&[text.clone(), other.clone(), good], 2, 3, Ok(r#"{"a":1}"#)).await;
    check(
        &[other],
        1,
        2,
        Err(r#"the reply does not match the schema: "a" is a required property, by `/required` of the schema: `{"b":1}` (after 1 retry)"#),
    )
    .await;
    check(&[text], 0, 1, Err("the reply is not a JSON document")).await;
}

#[tokio::test]
async fn opaque_parts_are_sent_only_to_the_model_that_they_came_from() {
    let server = ModelServer::new([respond_with_text("x")]);
    let opaque = |provider: String, model: &str| {
        let data = serde_json::json!({ "reasoning_content": format!("{provider} {model}") });
        AssistantPart::Opaque(OpaquePart {
            provider,
            model: model.to_owned(),
            data: data.into(),
            reasoning: String::new(),
        })
    };
    let port = server.endpoint().base_url;
    let port = port.trim_start_matches("http://").trim_end_matches("/v1");
    for (provider, id, is_sent) in [
        (format!("openai {port}"), "m", true),
        (format!("openai {port}"), "other", false),
        ("openai".to_owned(), "m", false),
        ("anthropic".to_owned(), "m", false),
    ] {
        let reply = ModelMessage::Assistant(vec![opaque(provider, id)]);
        let mut request = user_request("x");
        request.messages.push(reply);
        ask(&models_of(&server), &request).await.expect("a reply");
        let seen = server.seen();
        let body = &seen.last().expect("a request").body;
        assert_eq!(body.contains("reasoning_content"), is_sent, "{body}");
    }
}
