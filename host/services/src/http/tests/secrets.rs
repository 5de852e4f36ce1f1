//! Secrets: where they are inserted, where they are replaced, and where they are not sent.

use super::*;

#[test]
fn secrets_are_put_in_on_the_way_out_and_taken_out_of_what_comes_back() {
    let server = HttpTestServer::new([HttpServerBehavior::Echo]);
    let asked = HttpRequest {
        headers: vec![header(
            "authorization",
            &format!("Bearer {}", placeholder("TOKEN")),
        )],
        body: Some(format!("token={}", placeholder("TOKEN")).into_bytes()),
        secrets: vec!["TOKEN".into()],
        ..request(
            "POST",
            &server.url(&format!("/v1/x?key={}", placeholder("TOKEN"))),
        )
    };
    let response = fetch(&client(), &asked, &[local(&server)]).expect("a response");
    let seen = &server.seen()[0];
    assert!(
        seen.contains(&format!("authorization: Bearer {SECRET}")),
        "{seen}"
    );
    assert!(seen.contains(&format!("token={SECRET}")), "{seen}");
    assert!(seen.contains("/v1/x?key=s3cr3t%2Dvalue "), "{seen}");
    let body = String::from_utf8_lossy(&response.body).into_owned();
    assert_eq!(body.matches("[secret TOKEN]").count(), 3, "{body}");
    assert!(!body.contains(SECRET));
    let unnamed = HttpRequest {
        secrets: Vec::new(),
        ..asked.clone()
    };
    fetch(&client(), &unnamed, &[local(&server)]).expect("a response");
    assert!(
        !server.seen()[1].contains(SECRET),
        "what is not named is not put in"
    );
    let elsewhere = [HttpGrant {
        secrets: Vec::new(),
        ..local(&server)
    }];
    let failed = fetch(&client(), &asked, &elsewhere).unwrap_err();
    assert_eq!(failed.error.kind, Denied);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn what_becomes_too_large_with_its_secrets_is_not_sent() {
    let server = HttpTestServer::new([respond_with("fine")]);
    let token = placeholder("TOKEN");
    // Before the secrets are inserted, the requests are far below the limits; afterwards, they are
    // just above or equal to them.
    let long = "v".repeat(4 << 10);
    let client =
        HttpClient::new(Secrets::new([("TOKEN".to_owned(), long)].into())).expect("a client");
    let plain = || HttpRequest {
        secrets: vec!["TOKEN".into()],
        ..request("POST", &server.url("/v1/x"))
    };
    let body = |rest: &str| HttpRequest {
        body: Some((token.repeat(MAX_BODY_BYTES >> 12) + rest).into_bytes()),
        ..plain()
    };
    let head = |rest: &str| HttpRequest {
        headers: vec![header("x-a", &(token.repeat(15) + rest))],
        ..plain()
    };
    let url = |count| HttpRequest {
        url: Url::parse(&server.url(&format!("/v1/x?{}", token.repeat(count)))).unwrap(),
        ..plain()
    };
    for (asked, refused) in [
        (body(""), None),
        (body("x"), Some("body is larger than 8192 KiB")),
        (head(&"x".repeat(4093)), None),
        (
            head(&"x".repeat(4094)),
            Some("headers are larger than 64 KiB"),
        ),
        (url(1), None),
        (url(2), Some("address is larger than 8 KiB")),
    ] {
        let failed = fetch(&client, &asked, &[local(&server)]).err();
        let told = failed.as_ref().map(|failed| {
            (
                failed.error.kind,
                failed.sent,
                failed.error.message.as_str(),
            )
        });
        match refused {
            None => assert_eq!(told, None),
            Some(why) => {
                let (kind, sent, message) = told.expect("a refusal");
                assert_eq!((kind, sent), (Invalid, RequestSent::No));
                assert!(message.contains(why), "{message}");
            }
        }
    }
    assert_eq!(server.seen().len(), 3);
    // The two headers share one limit.
    let two = HttpRequest {
        headers: vec![
            header("x-a", &token.repeat(8)),
            header("x-b", &token.repeat(8)),
        ],
        ..plain()
    };
    assert_eq!(
        fetch(&client, &two, &[local(&server)]).map_err(|failed| failed.error.kind),
        Err(Invalid)
    );
}

#[test]
fn a_secret_follows_a_redirect_on_its_host_and_to_no_other() {
    let other = HttpTestServer::new([HttpServerBehavior::Echo]);
    let here = HttpTestServer::new([
        redirects("302 Found", "/v1/again"),
        redirects(
            "302 Found",
            &other.url(&format!("/v1/there?steal={}", placeholder("TOKEN"))),
        ),
    ]);
    let asked = HttpRequest {
        headers: vec![
            header("authorization", &format!("Bearer {}", placeholder("TOKEN"))),
            header("x-token", &placeholder("TOKEN")),
            header("cookie", "plain"),
            header("x_api_key", "plain"),
            header("x-mine", "kept"),
        ],
        secrets: vec!["TOKEN".into()],
        ..request("GET", &here.url("/v1/x"))
    };
    fetch(&client(), &asked, &[local(&here), local(&other)]).expect("a response");
    let (seen, there) = (here.seen(), &other.seen()[0]);
    assert!(
        seen.iter()
            .all(|request| request.contains(&format!("x-token: {SECRET}"))),
        "{seen:?}"
    );
    for gone in [SECRET, "authorization", "x-token", "cookie", "x_api_key"] {
        assert!(!there.contains(gone), "{gone} in {there}");
    }
    assert!(there.contains("x-mine: kept"));
    let here = HttpTestServer::new([redirects("302 Found", &other.url("/v1/there"))]);
    let url = Url::parse(&here.url("/v1/x")).expect("an address");
    let body = HttpRequest {
        url,
        body: Some(placeholder("TOKEN").into_bytes()),
        ..asked
    };
    let failed = fetch(&client(), &body, &[local(&here), local(&other)]).unwrap_err();
    assert!(
        failed.error.message.contains("must not go"),
        "{}",
        failed.error.message
    );
    assert_eq!(other.seen().len(), 1);
}

#[test]
fn what_comes_back_is_searched_for_the_secrets_of_its_host_and_for_no_others() {
    let fetch_with = |grants: &dyn Fn(&HttpTestServer) -> Vec<HttpGrant>| {
        let server = HttpTestServer::new([HttpServerBehavior::Answer(
            "200 OK",
            format!("x-{SECRET}: 1\r\nx-a: {SECRET}\r\n"),
            format!("{SECRET} and 483920").into_bytes(),
        )]);
        let values = [("TOKEN", SECRET), ("PIN", "483920")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let client = HttpClient::new(Secrets::new(values.into())).expect("a client");
        let response = fetch(
            &client,
            &request("GET", &server.url("/v1/x")),
            &grants(&server),
        )
        .expect("a response");
        let header = response
            .headers
            .iter()
            .find(|header| header.name == "x-a")
            .map(|header| header.value.clone());
        let named = response
            .headers
            .iter()
            .any(|header| header.name.contains(SECRET));
        (
            String::from_utf8(response.body).expect("a text"),
            header.unwrap_or_default(),
            named,
        )
    };
    // The action is granted this secret too, but for another host.
    let own = fetch_with(&|server| vec![local(server), grant("bank.example.com", &["PIN"])]);
    assert_eq!(
        own,
        (
            "[secret TOKEN] and 483920".into(),
            "[secret TOKEN]".into(),
            false
        )
    );
    let none = fetch_with(&|server| {
        vec![HttpGrant {
            secrets: Vec::new(),
            ..local(server)
        }]
    });
    assert_eq!(none, (format!("{SECRET} and 483920"), SECRET.into(), true));
}

#[test]
fn a_secret_does_not_go_over_plain_http_to_a_name() {
    let lookup: HostLookup = Arc::new(|_| panic!("nobody looks it up"));
    let client = HttpClient::with_lookup(secrets(), lookup).expect("a client");
    let asked = HttpRequest {
        headers: vec![header("x-token", &placeholder("TOKEN"))],
        secrets: vec!["TOKEN".into()],
        ..request("GET", "http://example.com/v1/x")
    };
    let failed = fetch(&client, &asked, &[grant("example.com", &["TOKEN"])]).unwrap_err();
    assert_eq!(failed.error.kind, Denied);
    assert!(
        failed.error.message.contains("over https only"),
        "{}",
        failed.error.message
    );
}

#[test]
fn errors_name_the_request_without_what_may_be_secret() {
    let server = HttpTestServer::new([HttpServerBehavior::Slam]);
    let asked = HttpRequest {
        secrets: vec!["TOKEN".into()],
        ..request(
            "GET",
            &server.url(&format!("/v1/x?key={}&q=plain", placeholder("TOKEN"))),
        )
    };
    let message = fetch(&client(), &asked, &[local(&server)])
        .unwrap_err()
        .error
        .message;
    assert!(
        message.starts_with(&format!("`GET {}` failed: ", server.url("/v1/x"))),
        "{message}"
    );
    for hidden in [SECRET, "s3cr3t%2Dvalue", "plain"] {
        assert!(!message.contains(hidden), "{message}");
    }
}
