//! Hostile clients of the Model Context Protocol over HTTP: what is too large, too slow, too deep or too much, and what
//! is no request. Each gets a status that says so, from `mcp --listen` and from `serve` alike, and others are served on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp_client::NEWEST;
use crate::mcp_http::Served;
use crate::mcp_server::team;
use crate::server::ASKING;
use crate::server::client::TestServer;
use crate::server::mcp::message;
use crate::workspace::Workspace;

/// The media types that a client has to accept, and that of what it sends.
const ACCEPT: &str = "accept: application/json, text/event-stream\r\n";
const JSON: &str = "content-type: application/json\r\n";

/// A server under attack.
struct Target<'a> {
    name: &'static str,
    port: u16,
    token: &'a str,
}

impl Target<'_> {
    fn head(&self, method: &str, more: &str) -> String {
        let Self { port, token, .. } = self;
        format!(
            "{method} /mcp HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n{more}"
        )
    }

    /// Sends bytes and returns the answer.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(90)))
            .unwrap();
        // The server may answer before all was sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Posts a body, and returns the status and the answer.
    fn post(&self, more: &str, body: &[u8]) -> (u16, String) {
        let head = self.head("POST", more);
        let mut bytes = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        let answer = self.exchange(&bytes);
        (status_of(&answer), answer)
    }

    /// Checks that a request of an honest client is answered.
    fn check_served(&self) {
        let list = message("tools/list", json!({})).to_string();
        let more =
            format!("{ACCEPT}{JSON}mcp-protocol-version: {NEWEST}\r\nmcp-method: tools/list\r\n");
        let (status, answer) = self.post(&more, list.as_bytes());
        assert!(status == 200 && answer.contains("\"tools\""), "{answer}");
    }

    /// Opens a session of an older revision. Returns the status, and the id.
    fn initialize(&self) -> (u16, Option<String>) {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let (status, answer) = self.post(&format!("{ACCEPT}{JSON}"), body.to_string().as_bytes());
        let id = answer.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id")
                .then(|| value.to_owned())
        });
        (status, id)
    }
}

fn status_of(answer: &str) -> u16 {
    let status = answer.split(' ').nth(1);
    let status = status.and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// Checks both servers at the same time.
fn on_both(check: impl Fn(&Target<'_>) + Sync) {
    thread::scope(|scope| {
        scope.spawn(|| on_command(&check));
        scope.spawn(|| on_server(&check));
    });
}

/// Checks `strata-host mcp --listen`.
fn on_command(check: impl Fn(&Target<'_>)) {
    let place = Workspace::with(&team(r#"{ say = "x" }"#));
    place.write("token", "letmein\n");
    let served = Served::start(&place, &["--token-file", "token"]);
    let target = Target {
        name: "mcp",
        port: served.port,
        token: "letmein",
    };
    check(&target);
    target.check_served();
    served.end();
}

/// Checks `/mcp` of `serve`.
fn on_server(check: impl Fn(&Target<'_>)) {
    let server = TestServer::start(ASKING);
    let token = server.new_token("ann", Some("red"), &["submit"]);
    let target = Target {
        name: "serve",
        port: server.port,
        token: &token,
    };
    check(&target);
    target.check_served();
}

#[test]
fn what_is_no_request_has_a_status_that_says_so() {
    on_both(|target| {
        let check = |headers: &str, body: &[u8], expected: u16| {
            let (status, answer) = target.post(headers, body);
            let sent = String::from_utf8_lossy(&body[..body.len().min(80)]);
            assert_eq!(
                status, expected,
                "{}: {headers} {sent}: {answer}",
                target.name
            );
        };
        let both = format!("{ACCEPT}{JSON}");
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        check(JSON, list.as_bytes(), 406);
        check(
            &format!("accept: text/html\r\n{JSON}"),
            list.as_bytes(),
            406,
        );
        check(
            &format!("accept: application/json\r\n{JSON}"),
            list.as_bytes(),
            406,
        );
        check(ACCEPT, list.as_bytes(), 415);
        check(
            &format!("{ACCEPT}content-type: text/plain\r\n"),
            list.as_bytes(),
            415,
        );
        for body in [
            "",
            "{",
            "no JSON",
            "{}{}",
            "null",
            "7",
            "\"text\"",
            "[]",
            "{}",
            r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\u{0}\"",
        ] {
            check(&both, body.as_bytes(), 400);
        }
        check(
            &both,
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}",
            400,
        );
        // Batches are not part of any revision that is spoken.
        check(&both, format!("[{list},{list}]").as_bytes(), 400);
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        check(&both, deep.as_bytes(), 400);
        let deep = list.replace("}", &format!(r#","params":{deep}}}"#));
        check(&both, deep.as_bytes(), 400);
        for method in ["PUT", "PATCH", "OPTIONS", "HEAD"] {
            let head = target.head(method, &both);
            let answer = target.exchange(format!("{head}content-length: 0\r\n\r\n").as_bytes());
            assert_eq!(
                status_of(&answer),
                405,
                "{}: {method}: {answer}",
                target.name
            );
        }
    });
}

#[test]
fn what_is_too_large_or_too_slow_is_cut_off() {
    on_both(|target| {
        let both = format!("{ACCEPT}{JSON}");
        let (status, answer) = target.post(&both, &vec![b' '; (16 << 20) + 1]);
        assert_eq!(status, 413, "{}: {answer}", target.name);
        // One that does not say how large it is.
        let mut bytes = target.head("POST", &both).into_bytes();
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        for _ in 0..17 {
            bytes.extend_from_slice(b"100000\r\n");
            bytes.extend_from_slice(&vec![b' '; 1 << 20]);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        let answer = target.exchange(&bytes);
        assert_eq!(status_of(&answer), 413, "{}: {answer}", target.name);
        // One that never comes to its end: it is answered after 30 s, and its connection is closed soon.
        let head = target.head("POST", &both);
        let begun = Instant::now();
        let answer = target.exchange(format!("{head}content-length: 10\r\n\r\n{{").as_bytes());
        assert!(begun.elapsed() < Duration::from_secs(80), "{}", target.name);
        let is_cut_off = answer.is_empty() || status_of(&answer) == 408;
        assert!(is_cut_off, "{}: {answer}", target.name);
    });
}

#[test]
fn there_are_so_many_sessions_of_a_client_and_no_more() {
    on_both(|target| {
        let mut ids = Vec::new();
        let refused = loop {
            match target.initialize() {
                (200, Some(id)) => ids.push(id),
                (status, _) => break status,
            }
            assert!(ids.len() <= 256, "{}: too many", target.name);
        };
        assert_eq!((refused, ids.len()), (503, 128), "{}", target.name);
        // One that is closed makes room.
        let head = target.head("DELETE", &format!("mcp-session-id: {}\r\n", ids[0]));
        let closed = target.exchange(format!("{head}\r\n").as_bytes());
        assert_eq!(status_of(&closed), 202, "{}: {closed}", target.name);
        assert_eq!(target.initialize().0, 200, "{}", target.name);
    });
}

#[test]
fn a_session_is_of_no_use_to_another_token() {
    let server = TestServer::start(ASKING);
    let (ann, bob) = (
        server.new_token("ann", Some("red"), &["submit", "answer"]),
        server.new_token("bob", Some("red"), &["submit", "answer"]),
    );
    let target = |token| Target {
        name: "serve",
        port: server.port,
        token,
    };
    let (status, session) = target(ann.as_str()).initialize();
    assert_eq!(status, 200);
    let session = format!("mcp-session-id: {}\r\n", session.unwrap());
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    let accept = format!("{ACCEPT}{JSON}{session}");
    let status = |token, body: &str| target(token).post(&accept, body.as_bytes()).0;
    let answer = json!({ "jsonrpc": "2.0", "id": 0, "result": { "action": "accept" } }).to_string();
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 },
    });
    for body in [&list, &answer, &cancelled.to_string()] {
        assert_eq!(status(bob.as_str(), body), 404, "{body}");
    }
    let get = target(bob.as_str()).head("GET", &accept);
    let read = target(bob.as_str()).exchange(format!("{get}\r\n").as_bytes());
    assert_eq!(status_of(&read), 404, "{read}");
    // It is answered like the end of a session that does not exist, and ends nothing.
    let delete = target(bob.as_str()).head("DELETE", &session);
    let deleted = target(bob.as_str()).exchange(format!("{delete}\r\n").as_bytes());
    let nothing = target(bob.as_str()).head("DELETE", "mcp-session-id: none\r\n");
    let nothing = target(bob.as_str()).exchange(format!("{nothing}\r\n").as_bytes());
    assert_eq!(status_of(&deleted), status_of(&nothing), "{deleted}");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert_eq!(status(ann.as_str(), &ready), 202);
    assert_eq!(status(ann.as_str(), &list), 200);
}

#[test]
fn a_client_cannot_say_who_it_is_in_its_message() {
    let server = TestServer::start(ASKING);
    let ann = server.new_token("ann", Some("red"), &["submit", "answer"]);
    let blue = server.new_token("blue", Some("blue"), &["submit"]);
    server.submit(&ann, json!({ "name": "mine" }));
    for (params, extra) in [
        (json!({ "tenant": "red" }), ""),
        (json!({ "_meta": { "principal": "token red/ann" } }), ""),
        (json!({}), "x-tenant: red\r\n"),
        (json!({}), "mcp-session-id: ../red\r\n"),
    ] {
        let list: Value = message("tools/list", params);
        let more = format!(
            "{ACCEPT}{JSON}{extra}mcp-protocol-version: {NEWEST}\r\nmcp-method: tools/list\r\n"
        );
        let target = Target {
            name: "serve",
            port: server.port,
            token: &blue,
        };
        let (_, answer) = target.post(&more, list.to_string().as_bytes());
        assert!(!answer.contains("Runs the team"), "{extra}: {answer}");
    }
}
