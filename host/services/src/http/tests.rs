//! The client against servers on loopback that are hostile, broken or slow.

mod connections;
mod names;
mod secrets;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::Url;

use self::server::{HttpServerBehavior, HttpTestServer, redirects, respond_with};
use super::secrets::{Secrets, placeholder};
use super::{
    FailedExchange, Header, HostLookup, HttpClient, HttpRequest, HttpResponse, MAX_BODY_BYTES,
    MAX_HEADERS_BYTES, RequestSent,
};
use crate::gateway::Allowance;
use crate::gateway::HostErrorKind::{BeyondLimit, Denied, Invalid, Upstream};
use crate::plugin::http::{HostPattern, HttpGrant};

const SECRET: &str = "s3cr3t-value";
/// How long a test waits for something that should end immediately.
const MAX_WAIT: Duration = Duration::from_secs(5);

fn secrets() -> Secrets {
    Secrets::new([("TOKEN".to_owned(), SECRET.to_owned())].into())
}

fn client() -> HttpClient {
    HttpClient::new(secrets()).expect("a client")
}

/// Grants everything on a host, and these secrets.
fn grant(host: &str, secrets: &[&str]) -> HttpGrant {
    HttpGrant {
        host: HostPattern::parse(host).expect("a host"),
        methods: ["GET", "HEAD", "POST"].map(String::from).into(),
        path: "/v1/*".into(),
        secrets: secrets.iter().map(|name| (*name).into()).collect(),
        headers: Vec::new(),
    }
}

fn local(server: &HttpTestServer) -> HttpGrant {
    grant(&format!("127.0.0.1:{}", server.port()), &["TOKEN"])
}

fn request(method: &str, url: &str) -> HttpRequest {
    HttpRequest {
        method: method.into(),
        url: Url::parse(url).expect("an address"),
        headers: Vec::new(),
        body: None,
        secrets: Vec::new(),
        key: None,
        timeout_ms: Some(MAX_WAIT.as_millis() as u32),
    }
}

fn header(name: &str, value: &str) -> Header {
    Header {
        name: name.into(),
        value: value.into(),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

fn fetch(
    client: &HttpClient,
    request: &HttpRequest,
    grants: &[HttpGrant],
) -> Result<HttpResponse, FailedExchange> {
    block_on(client.fetch(request, grants, "run/0/R/0/0", &Allowance::unlimited()))
}

#[test]
fn exchanges_bring_no_more_than_what_is_left_for_all_of_them() {
    let body = || HttpServerBehavior::Answer("200 OK", String::new(), vec![b'x'; 600]);
    let server = HttpTestServer::new([body(), body(), body()]);
    let allowance = Allowance::new(1_500);
    let one = || {
        let asked = request("GET", &server.url("/v1/x"));
        block_on(client().fetch(&asked, &[local(&server)], "key", &allowance))
            .map_err(|failed| failed.error.kind)
    };
    assert_eq!(one().map(|response| response.body.len()), Ok(600));
    assert_eq!(one().map(|response| response.body.len()), Ok(600));
    assert_eq!(one(), Err(BeyondLimit));
}

#[test]
fn an_exchange_carries_what_was_asked_and_brings_back_what_was_said() {
    let server = HttpTestServer::new([HttpServerBehavior::Answer(
        "201 Created",
        "x-a: b\r\n".into(),
        vec![0, 255, 7],
    )]);
    let asked = HttpRequest {
        headers: vec![header("x-mine", "1")],
        body: Some(b"hello".to_vec()),
        ..request("POST", &server.url("/v1/x?q=1"))
    };
    let response = fetch(&client(), &asked, &[local(&server)]).expect("a response");
    assert_eq!(
        (response.status, &response.body[..]),
        (201, &[0, 255, 7][..])
    );
    assert!(response.headers.contains(&header("x-a", "b")));
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    for expected in [
        "POST /v1/x?q=1 HTTP/1.1\r\n",
        "x-mine: 1\r\n",
        "idempotency-key: run/0/R/0/0\r\n",
        "\r\n\r\nhello",
    ] {
        assert!(seen[0].contains(expected), "{expected:?} in {}", seen[0]);
    }
}

#[test]
fn the_key_of_a_write_is_the_guests_where_it_gives_one_and_reads_have_none() {
    let check = |method: &str, key: Option<&str>, expected: Option<&str>| {
        let server = HttpTestServer::new([respond_with("")]);
        let asked = HttpRequest {
            key: key.map(String::from),
            ..request(method, &server.url("/v1/x"))
        };
        fetch(&client(), &asked, &[local(&server)]).expect("a response");
        let seen = &server.seen()[0];
        let sent = seen
            .lines()
            .find_map(|line| line.strip_prefix("idempotency-key: "));
        assert_eq!(sent, expected, "{method} {key:?}");
    };
    check("POST", Some("mine"), Some("mine"));
    check("POST", None, Some("run/0/R/0/0"));
    check("GET", None, None);
    check("GET", Some("mine"), None);
}

#[test]
fn what_does_not_end_is_ended_whatever_it_drips() {
    for play in [
        HttpServerBehavior::Drip,
        HttpServerBehavior::DripHead,
        HttpServerBehavior::Silence,
    ] {
        let server = HttpTestServer::new([play]);
        let hurried = |method| HttpRequest {
            timeout_ms: Some(1000),
            ..request(method, &server.url("/v1/x"))
        };
        let began = Instant::now();
        let failed = fetch(&client(), &hurried("GET"), &[local(&server)]).unwrap_err();
        assert!(began.elapsed() < MAX_WAIT, "{:?}", began.elapsed());
        assert_eq!(
            (failed.error.kind, failed.sent),
            (Upstream, RequestSent::No),
            "a read is made again for nothing"
        );
        assert!(
            failed.error.message.contains("no whole answer within 1s"),
            "{}",
            failed.error.message
        );
        let failed = fetch(&client(), &hurried("POST"), &[local(&server)]).unwrap_err();
        assert_eq!(
            failed.sent,
            RequestSent::Perhaps,
            "nobody knows about a write"
        );
    }
}

#[test]
fn a_write_is_not_sent_before_there_is_a_connection() {
    // The first name is never resolved, and nobody answers at the second address, so no TLS
    // connection is established.
    let never: HostLookup = Arc::new(|_| Box::pin(std::future::pending()));
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = HttpTestServer::new([HttpServerBehavior::Silence]);
    let lost = HttpClient::with_lookup(secrets(), never).expect("a client");
    let fail_within = |client: &HttpClient, url: &str, host: &str, timeout_ms: u32| {
        let hurried = HttpRequest {
            timeout_ms: Some(timeout_ms),
            ..request("POST", url)
        };
        fetch(client, &hurried, &[grant(host, &[])]).unwrap_err()
    };
    let check = |failed: FailedExchange, why: &str, sent: RequestSent| {
        assert_eq!((failed.error.kind, failed.sent), (Upstream, sent));
        let message = failed.error.message;
        assert!(message.contains(why), "{message}");
    };
    let secure = format!(
        "127.0.0.1:{}",
        deaf.local_addr().expect("an address").port()
    );
    let (plain, address) = (silent.url("/v1/x"), format!("127.0.0.1:{}", silent.port()));
    check(
        fail_within(&lost, "http://example.com/v1/x", "example.com", 300),
        "no connection within 300ms",
        RequestSent::No,
    );
    let url = format!("https://{secure}/v1/x");
    check(
        fail_within(&client(), &url, &secure, 300),
        "no connection within 300ms",
        RequestSent::No,
    );
    check(
        fail_within(&client(), &plain, &address, 2000),
        "no whole answer within 2s",
        RequestSent::Perhaps,
    );
}

#[test]
fn what_is_too_large_is_cut_off() {
    let check = |play: HttpServerBehavior, expected: &str| {
        let server = HttpTestServer::new([play]);
        let failed = fetch(
            &client(),
            &request("GET", &server.url("/v1/x")),
            &[local(&server)],
        )
        .unwrap_err();
        assert!(
            failed.error.message.contains(expected),
            "{}",
            failed.error.message
        );
        assert_eq!(failed.error.kind, Upstream);
    };
    check(HttpServerBehavior::Flood, "larger than 8192 KiB");
    check(
        HttpServerBehavior::Heads(MAX_HEADERS_BYTES + (8 << 10)),
        "headers are larger than 64 KiB",
    );
    check(HttpServerBehavior::Heads(8 << 20), "");
    check(HttpServerBehavior::Boast, "");
    let server = HttpTestServer::new([HttpServerBehavior::Answer(
        "200 OK",
        String::new(),
        vec![b'x'; MAX_BODY_BYTES],
    )]);
    let response = fetch(
        &client(),
        &request("GET", &server.url("/v1/x")),
        &[local(&server)],
    )
    .expect("it just fits");
    assert_eq!(response.body.len(), MAX_BODY_BYTES);
}

#[test]
fn what_is_compressed_stays_so_and_is_not_asked_for() {
    let bomb = b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec();
    let server = HttpTestServer::new([HttpServerBehavior::Answer(
        "200 OK",
        "content-encoding: gzip\r\n".into(),
        bomb.clone(),
    )]);
    let response = fetch(
        &client(),
        &request("GET", &server.url("/v1/x")),
        &[local(&server)],
    )
    .expect("a response");
    assert_eq!(response.body, bomb);
    assert!(!server.seen()[0].to_lowercase().contains("accept-encoding"));
}

#[test]
fn a_broken_connection_leaves_only_sent_writes_in_the_dark() {
    let slam = HttpTestServer::new([HttpServerBehavior::Slam]);
    let failed = fetch(
        &client(),
        &request("POST", &slam.url("/v1/x")),
        &[local(&slam)],
    )
    .unwrap_err();
    assert_eq!(
        (failed.error.kind, failed.sent),
        (Upstream, RequestSent::Perhaps)
    );
    assert_eq!(slam.seen().len(), 1, "it is not sent again by itself");
    let failed = fetch(
        &client(),
        &request("GET", &slam.url("/v1/x")),
        &[local(&slam)],
    )
    .unwrap_err();
    assert_eq!(failed.sent, RequestSent::No);
    // Nobody listens at this address any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let gone = request("POST", &format!("http://127.0.0.1:{port}/v1/x"));
    let failed = fetch(
        &client(),
        &gone,
        &[grant(&format!("127.0.0.1:{port}"), &[])],
    )
    .unwrap_err();
    assert_eq!(
        (failed.error.kind, failed.sent),
        (Upstream, RequestSent::No),
        "{}",
        failed.error.message
    );
}

#[test]
fn reads_follow_redirects_within_their_grants_and_writes_follow_none() {
    let there = HttpTestServer::new([respond_with("there")]);
    let check = |status: &'static str, method: &str, expected: Result<u16, &str>| {
        let here = HttpTestServer::new([
            redirects(status, "/v1/a"),
            redirects(status, &there.url("/v1/b")),
        ]);
        let asked = request(method, &here.url("/v1/x"));
        let got = fetch(&client(), &asked, &[local(&here), local(&there)])
            .map(|response| response.status);
        assert_eq!(
            got.as_ref().map_err(|f| f.error.message.as_str()),
            expected.as_ref().map_err(|e| *e),
            "{status}"
        );
    };
    for status in [
        "301 Moved",
        "302 Found",
        "303 See Other",
        "307 Temporary",
        "308 Permanent",
    ] {
        check(status, "GET", Ok(200));
        check(status, "HEAD", Ok(200));
    }
    check("307 Temporary", "POST", Ok(307));
    check("300 Choose", "GET", Ok(300));
    let before = there.seen().len();
    assert_eq!(before, 10);
}

#[test]
fn redirects_that_lead_astray_are_not_followed() {
    let other = HttpTestServer::new([respond_with("other")]);
    let check = |location: String, kind, expected: &str| {
        let here = HttpTestServer::new([redirects("302 Found", &location)]);
        let failed = fetch(
            &client(),
            &request("GET", &here.url("/v1/x")),
            &[local(&here)],
        )
        .unwrap_err();
        assert_eq!(
            failed.error.kind, kind,
            "{location}: {}",
            failed.error.message
        );
        assert!(
            failed.error.message.contains(expected),
            "{location}: {}",
            failed.error.message
        );
    };
    check(other.url("/v1/x"), Denied, "is not granted");
    check("/v2/x".into(), Denied, "is not granted");
    check("/v1/..%2fv2".into(), Denied, "can be read in several ways");
    check(
        "http://169.254.169.254/latest/meta-data".into(),
        Denied,
        "is not granted",
    );
    check("file:///etc/passwd".into(), Denied, "scheme `file`");
    check(
        "http://user:word@127.0.0.1/v1/x".into(),
        Denied,
        "credentials",
    );
    check("http://[".into(), Denied, "no address");
    check("/v1/x".into(), Upstream, "redirected more than 5 times");
    assert_eq!(other.seen().len(), 0);
}
