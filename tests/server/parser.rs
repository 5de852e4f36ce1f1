//! Requests that are meant to confuse a server: two lengths, foreign hosts, paths that lead elsewhere, and what is too
//! large.

use serde_json::json;

use super::ASKING;
use super::client::TestServer;

/// Returns the statuses of all answers in what a server sent.
fn statuses(answers: &str) -> Vec<u16> {
    answers
        .split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|answer| answer.get(..3)?.parse().ok())
        .collect()
}

#[test]
fn a_request_is_one_request_for_everybody() {
    let server = TestServer::start(ASKING);
    let (host, token) = (format!("127.0.0.1:{}", server.port), &server.token);
    let check = |head: &str, rest: &str, expected: &[u16]| {
        let bytes = format!("{head}{rest}");
        let found = statuses(&server.exchange(bytes.as_bytes()));
        assert_eq!(found, expected, "{bytes:?}");
    };
    let hidden = format!(
        "GET /v1/runs HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    let post = format!("POST /v1/runs HTTP/1.1\r\nhost: {host}\r\n");
    // Two lengths, a length beside chunks, and chunks that are none: at most one answer, which is an error.
    check(
        &post,
        &format!("content-length: 4\r\ncontent-length: 100\r\n\r\n{hidden}"),
        &[400],
    );
    check(
        &post,
        &format!("content-length: 4, 5\r\n\r\n{hidden}"),
        &[400],
    );
    check(
        &post,
        &format!("content-length: +4\r\n\r\n{hidden}"),
        &[400],
    );
    check(
        &post,
        &format!("transfer-encoding: xchunked\r\n\r\n{hidden}"),
        &[400],
    );
    check(
        &post,
        &format!("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
        &[400],
    );
    // Names and values with line feeds.
    check(&post, "x\n y: 1\r\n\r\n", &[400]);
    check(
        "GET / HTTP/1.1\r\n",
        &format!("host: {host}\r\nhost: {host}\r\nconnection: close\r\n\r\n"),
        &[421],
    );
    check("GET / HTTP/1.1\r\n", "connection: close\r\n\r\n", &[421]);
    check(
        "GET http://evil.example/v1/runs HTTP/1.1\r\n",
        &format!("host: {host}\r\nconnection: close\r\n\r\n"),
        &[421],
    );
    check(
        "GET /v1/runs HTTP/9.9\r\n",
        &format!("host: {host}\r\n\r\n"),
        &[400],
    );
}

#[test]
fn a_name_that_leads_here_is_not_one_of_the_server() {
    let server = TestServer::start(ASKING);
    let get = |path: &str, headers: &[(&str, &str)]| {
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nauthorization: Bearer {}\r\nconnection: close\r\n",
            server.token
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        statuses(&server.exchange((request + "\r\n").as_bytes()))
    };
    let own = format!("127.0.0.1:{}", server.port);
    let rebound = format!("evil.example:{}", server.port);
    for path in [
        "/",
        "/health",
        "/ready",
        "/metrics",
        "/v1/runs",
        "/v1/openapi.json",
        "/assets/x",
        "/mcp",
    ] {
        assert_eq!(get(path, &[("host", &rebound)]), [421], "{path}");
        let foreign = [("host", own.as_str()), ("origin", "https://evil.example")];
        assert_eq!(get(path, &foreign), [403], "{path}");
        let null = [("host", own.as_str()), ("origin", "null")];
        assert_eq!(get(path, &null), [403], "{path}");
    }
    assert_eq!(get("/v1/runs", &[("host", "strata.test")]), [200]);
    let answer = server.request(
        "OPTIONS",
        "/v1/runs",
        "",
        &[("access-control-request-method", "GET")],
        b"",
    );
    assert_eq!(answer.status, 405);
    assert!(!answer.headers.contains("access-control"), "{answer:?}");
}

#[test]
fn paths_lead_to_nothing_but_what_is_served() {
    let server = TestServer::start(ASKING);
    let run = server.submit(&server.token, json!({ "name": "one" }));
    for path in [
        "/../served/token",
        "/assets/../../served/token",
        "/assets/..%2f..%2fserved%2ftoken",
        "/assets/%2e%2e/token",
        "/v1/runs/..%2f..%2fserved",
        "/v1/runs/%2e%2e",
        "/v1/runs/%00",
        "/v1/runs/one%00",
        "/v1/runs/one/files/..%2f..%2fserved%2ftoken",
        "/v1/runs/one/files//etc/passwd",
        "/v1/runs/one/files/%2fetc%2fpasswd",
        "/v1/runs/one/files/../../../etc/passwd",
        "/v1/runs/one/messages/..%2f..",
        "/v1/runs//one",
        "/v1//runs/one",
        "/v1/blobs/sha256:..%2f..%2f..",
        "/%",
        "/%ff",
        "/v1/runs/%ff",
    ] {
        let answer = server.get(&server.token, path);
        assert!(
            [400, 404, 405].contains(&answer.status),
            "{path}: {answer:?}"
        );
        assert!(!answer.body.contains(&server.token), "{path}");
    }
    for checkpoint in ["main-0@x", "..", "%2e%2e", "sqlite:x"] {
        let path = format!(
            "/v1/runs/{}/checkpoints/{checkpoint}",
            run["id"].as_str().unwrap()
        );
        assert_eq!(server.get(&server.token, &path).status, 404, "{path}");
    }
}

#[test]
fn bodies_have_the_form_and_the_size_that_is_asked_for() {
    let server = TestServer::start(ASKING);
    server.submit(&server.token, json!({ "name": "one" }));
    let json_type = ("content-type", "application/json");
    let post = |path: &str, headers: &[(&str, &str)], body: &[u8]| {
        server
            .request("POST", path, &server.token, headers, body)
            .status
    };
    assert_eq!(post("/v1/runs", &[json_type], b"{"), 400);
    assert_eq!(post("/v1/runs", &[], b"{}"), 415);
    assert_eq!(
        post("/v1/runs", &[("content-type", "text/plain")], b"{}"),
        415
    );
    assert_eq!(post("/v1/runs", &[json_type], b"[]"), 422);
    assert_eq!(post("/v1/runs", &[json_type], b"{\"bundle\":1}"), 422);
    assert_eq!(post("/v1/runs", &[json_type], &[b'['; 200_000]), 400);
    let large = vec![b' '; (1 << 20) + 1];
    assert_eq!(post("/v1/runs/one/answers", &[json_type], &large), 413);
    // A body without a length is counted while it is read.
    let head = format!(
        "POST /v1/runs/one/answers HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        server.port, server.token
    );
    let mut bytes = head.into_bytes();
    for _ in 0..17 {
        bytes.extend(format!("{:x}\r\n", 1 << 16).bytes());
        bytes.extend(vec![b' '; 1 << 16]);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    assert_eq!(statuses(&server.exchange(&bytes)), [413]);
    // A client that sends all of it before it reads is answered, too.
    let much = vec![b' '; 20 << 20];
    assert_eq!(post("/v1/runs", &[json_type], &much), 413);
    assert_eq!(post("/v1/runs", &[], &much[..10 << 20]), 415);
    let long = "x".repeat(100_000);
    let answer = server.request("GET", "/v1/runs", &server.token, &[("x-long", &long)], b"");
    assert_eq!(answer.status, 431, "{}", answer.headers);
}
