//! Tests of base addresses of endpoints.

use super::*;
use crate::models::EmbedRequest;
use crate::plugin::http::{HostPattern, HttpGrant, authority};

/// Returns the address to which unstreamed requests to the model `m` are sent.
fn address(protocol_name: ProtocolName, base: &str) -> Result<Url, ConfigError> {
    let base = base_url(&Endpoint {
        protocol: protocol_name,
        base_url: base.to_owned(),
        api_key_env: None,
        retries: 0,
        timeout: Endpoint::DEFAULT_TIMEOUT,
    })?;
    Ok(protocol(protocol_name, &base).url(&base, "m", TransferMode::Unstreamed))
}

#[tokio::test]
async fn every_address_to_which_a_request_goes_is_compared_with_the_policies() {
    let check = async |path: &str, id: &str, asks: bool, embeds: bool| {
        let server = ModelServer::new([respond_with_text("hello")]);
        let endpoint = Endpoint {
            protocol: ProtocolName::Gemini,
            base_url: server.endpoint().base_url.replace("/v1", ""),
            ..server.endpoint()
        };
        let host = Url::parse(&endpoint.base_url).expect("an address");
        let allows = |path: &str| EndpointBound {
            policy: "policy.toml".to_owned(),
            endpoints: vec![HttpGrant {
                host: HostPattern::parse(&authority(&host)).expect("a host"),
                methods: vec!["POST".to_owned()],
                path: path.to_owned(),
                secrets: Vec::new(),
                headers: Vec::new(),
            }],
        };
        let mut provider = provider_of(&endpoint).expect("a usable endpoint");
        provider.set_bounds(&[allows("*"), allows(path)]);
        let request = request();
        let check = ReplyCheck::for_request(&request).expect("a request without a schema");
        let question = Question {
            model: id,
            request: &request,
            settings: &ModelSettings::default(),
            blobs: &Blobs::new(),
            check: &check,
            pace: &RateLimiter::default(),
        };
        let mut observer = StreamObserver::default();
        let mut account = CallAccount::new(&mut observer);
        let is_denied = |failure: RequestFailure| {
            let HostError { kind, message, .. } = failure.error;
            assert!(kind != HostErrorKind::Denied || message.contains("(policy.toml)"));
            kind == HostErrorKind::Denied
        };
        let asked = provider.complete(question, &mut account).await;
        assert_eq!(
            !asked.map_err(is_denied).is_err_and(|denied| denied),
            asks,
            "{path} {id}"
        );
        let texts = EmbedRequest {
            model: None,
            texts: vec!["one".to_owned()],
            dimensions: None,
        };
        let pace = RateLimiter::default();
        let embedded = embed(&provider, id, &texts, &pace, &mut account).await;
        assert_eq!(
            !embedded.map_err(is_denied).is_err_and(|denied| denied),
            embeds,
            "{path} {id}"
        );
        assert_eq!(server.seen().len(), usize::from(asks) + usize::from(embeds));
    };
    check("*", "m", true, true).await;
    check("/v1beta/models/*", "m", true, true).await;
    check("/v1beta/models/*:generateContent", "m", true, false).await;
    check("/v1beta/models/*:batchEmbedContents", "m", false, true).await;
    check("/v1beta/models/m:*", "m", true, true).await;
    check("/v1beta/models/m:*", "other", false, false).await;
}

#[test]
fn each_protocol_appends_its_path_and_refuses_a_part_of_it() {
    let check = |protocol, base: &str, expected: Result<&str, &str>| match (
        address(protocol, base),
        expected,
    ) {
        (Ok(url), Ok(expected)) => assert_eq!(url.as_str(), expected),
        (Err(error), Err(part)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{text}");
        }
        (found, _) => panic!("{base}: {found:?} instead of {expected:?}"),
    };
    use ProtocolName::{Anthropic, Gemini, OpenAi, Responses};
    for (protocol, expected) in [
        (OpenAi, "https://api.openai.com/v1/chat/completions"),
        (Responses, "https://api.openai.com/v1/responses"),
        (Anthropic, "https://api.anthropic.com/v1/messages"),
        (
            Gemini,
            "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
        ),
    ] {
        check(protocol, protocol.default_base_url(), Ok(expected));
    }
    let messages = Ok("https://a.example/x/v1/messages");
    check(Anthropic, "https://a.example/x", messages);
    check(Anthropic, "https://a.example/x/v1/messages/", messages);
    check(
        Anthropic,
        "https://a.example/v1",
        Err("its path ends in `/v1`; write the part before `/v1/messages`"),
    );
    check(
        Gemini,
        "https://a.example/v1beta",
        Err("its path ends in `/v1beta`; write the part before `/v1beta/models`"),
    );
    check(
        Gemini,
        "https://a.example/v1beta/models",
        Ok("https://a.example/v1beta/models/m:generateContent"),
    );
    check(
        OpenAi,
        "https://a.example/v1/chat",
        Err("its path ends in `/chat`"),
    );
    check(
        OpenAi,
        "https://a.example/v1/messages",
        Err("its path ends in `/v1/messages`"),
    );
    check(
        Responses,
        "https://a.example/v1/chat/completions",
        Err("its path ends in `/chat/completions`; write the part before `/responses`"),
    );
}

#[test]
fn the_model_is_a_part_of_the_address_where_the_protocol_has_it_so() {
    let base = Url::parse("https://a.example").expect("an address");
    let gemini = protocol(ProtocolName::Gemini, &base);
    let check = |model: &str, transfer, expected: &str| {
        assert_eq!(gemini.url(&base, model, transfer).as_str(), expected);
    };
    check(
        "models/g",
        TransferMode::Unstreamed,
        "https://a.example/v1beta/models/g:generateContent",
    );
    check(
        "g",
        TransferMode::Streamed,
        "https://a.example/v1beta/models/g:streamGenerateContent?alt=sse",
    );
    check(
        "../x?y#z",
        TransferMode::Unstreamed,
        "https://a.example/v1beta/models/..%2Fx%3Fy%23z:generateContent",
    );
}

#[test]
fn base_addresses_lead_to_completions_or_are_refused() {
    let check = |base: &str, expected: Result<&str, &str>| match (
        address(ProtocolName::OpenAi, base),
        expected,
    ) {
        (Ok(url), Ok(expected)) => assert_eq!(url.as_str(), expected),
        (Err(error), Err(part)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
        (found, _) => panic!("{base}: {found:?} instead of {expected:?}"),
    };
    check(
        "https://a.example/v1",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1//",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/chat/completions",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/v1/chat/completions/",
        Ok("https://a.example/v1/chat/completions"),
    );
    check(
        "https://a.example/chat/completions?api-version=2",
        Ok("https://a.example/chat/completions?api-version=2"),
    );
    check(
        "https://a.example/completions",
        Ok("https://a.example/completions/chat/completions"),
    );
    check(
        "https://a.example/",
        Ok("https://a.example/chat/completions"),
    );
    check(
        "http://[::1]:8080",
        Ok("http://[::1]:8080/chat/completions"),
    );
    check(
        "https://a.example/d/?api-version=2",
        Ok("https://a.example/d/chat/completions?api-version=2"),
    );
    check(
        "https://a.example/v1?key=s3cret",
        Err("`https://a.example/v1` as the model's `base_url`: its query holds more"),
    );
    check("a.example/v1", Err("write it like"));
    check("", Err("write it like"));
    check("ftp://a.example", Err("no HTTP address"));
    check("data:x", Err("no HTTP address"));
    check(
        "https://me:s3cret@a.example",
        Err("`https://…@a.example` as the model's `base_url`: it holds credentials"),
    );
}
