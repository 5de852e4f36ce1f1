//! The socket of a process that owns a run: what it serves to the processes of its user, and clients that
//! are hostile.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::live::GREETER;
use crate::process::Signal;
use crate::workspace::Workspace;

/// Returns the path of the socket of the process that owns the run.
fn socket_of(place: &Workspace) -> PathBuf {
    let lock = String::from_utf8(place.read("store/team.lock")).unwrap();
    PathBuf::from(lock.lines().nth(1).unwrap())
}

/// Sends bytes and returns what comes back until the connection is closed.
fn exchange(socket: &Path, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The connection may be closed before everything was read.
    let _ = stream.write_all(bytes.as_ref());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request and returns the status and the body of the response.
fn post(socket: &Path, path: &str, body: &Value) -> (String, Value) {
    let body = body.to_string();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(socket, request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn the_socket_of_a_run_serves_its_user() {
    let place = Workspace::with(GREETER);
    let mut process = place.start_resting();
    let socket = socket_of(&place);
    let directory = socket.parent().unwrap().metadata().unwrap();
    assert_eq!(directory.mode() & 0o777, 0o700);
    let message = json!({
        "id": "", "content": "more", "parts": [], "role": "user", "cause_by": "UserRequirement",
        "sent_from": "", "send_to": ["<all>"], "meta": {}, "route": [],
    });
    let (status, receipt) = post(
        &socket,
        "/v1/runs/1/messages",
        &json!({ "message": message }),
    );
    assert_eq!(status, "200", "{receipt}");
    assert_eq!(
        receipt,
        json!({ "id": "sent-0", "to": ["A"], "dead": [], "known": false })
    );
    let said = process.until("action-finished", Some("A"));
    assert_eq!(said["output"]["content"], "re: more");
    process.until("step-committed", None);
    let check = |path: &str, body: &Value, why: &str| {
        let (status, problem) = post(&socket, path, body);
        assert_eq!(status, "422", "{problem}");
        assert_eq!(problem["type"], "urn:strata-host:refused");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(why), "{detail}");
    };
    check(
        "/v1/runs/1/messages",
        &json!({ "message": 5 }),
        "is not understood",
    );
    check("/v1/runs/1/messages", &json!([]), "is not understood");
    check(
        "/v1/runs/1/messages",
        &json!({ "message": message, "files": ["?"] }),
        "a file is not understood",
    );
    check(
        "/v1/runs/1/answers",
        &json!({ "answers": [{ "request": "ask-1", "text": "x" }] }),
        "there is no open request `ask-1`",
    );
    let (status, done) = post(&socket, "/v1/runs/1/cancel", &json!({}));
    assert_eq!((status.as_str(), done), ("200", json!({})));
    process.end().expect(12);
    assert!(!socket.exists());
}

#[test]
fn hostile_clients_do_not_affect_a_run() {
    let place = Workspace::with(GREETER);
    let mut process = place.start_resting();
    let socket = socket_of(&place);
    // Some stay connected and are slow. There are fewer than are served at a time.
    let head = "POST /v1/runs/1/messages HTTP/1.1\r\n";
    let parts = [
        "",
        "POST",
        head,
        &format!("{head}content-length: 100\r\n\r\n{{"),
    ];
    let slow = parts.map(|part| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(part.as_bytes()).unwrap();
        stream
    });
    let long_head = format!("{head}x: {}\r\n\r\n", "x".repeat(1 << 20));
    let large = [
        format!("{head}content-length: {}\r\n\r\n", 1 << 30).into_bytes(),
        vec![b'x'; 1 << 20],
    ]
    .concat();
    let browser = "GET / HTTP/1.1\r\nhost: localhost\r\norigin: http://example.com\r\n\r\n";
    let requests: [(&[u8], &str); 7] = [
        (b"{\"Halt\":\"Cancel\"}\n\n\n", "400"),
        (b"GET /v1/runs/1/cancel HTTP/1.1\r\n\r\n", "405"),
        (b"POST /v1/runs/2/cancel HTTP/1.1\r\n\r\n", "404"),
        (browser.as_bytes(), "404"),
        (long_head.as_bytes(), "431"),
        (&large, "413"),
        (&[0xff; 1 << 10], "400"),
    ];
    for (request, status) in requests {
        let answer = exchange(&socket, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{status}: {answer}"
        );
    }
    place
        .host(&["send", "store", "--cause", "UserRequirement", "more"])
        .expect(0);
    let said = process.until("action-finished", Some("A"));
    assert_eq!(said["output"]["content"], "re: more");
    process.until("step-committed", None);
    process.signal(Signal::INT);
    process.end().expect(0);
    drop(slow);
}
