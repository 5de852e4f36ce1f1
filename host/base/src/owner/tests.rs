//! The server of a run's owner with clients that are slow, hostile or gone, and the client with an owner
//! that is.

mod client;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;

/// The run that is served.
const RUN: i64 = 1;
/// How long a client waits at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// Limits that a test does not reach.
const GENEROUS: ConnectionLimits = ConnectionLimits {
    clients: 16,
    request_timeout: PATIENCE,
    response_timeout: Some(PATIENCE),
};
/// A timeout that a test reaches.
const SHORT: Duration = Duration::from_millis(50);
/// The body of a request that has a long reply.
const LONG: &str = "long";
/// The body of a request whose reply is held back until the test lets it go.
const HELD: &str = "held";
/// The length of a long reply in bytes: more than sockets hold.
const LONG_BYTES: usize = 8 << 20;

/// Returns the reply of the owner: the status that the body names, and the request.
fn reply_to(request: &RunRequest) -> RunReply {
    let body = match request.body.as_str() {
        LONG => "x".repeat(LONG_BYTES),
        other => format!("{} {other}", request.operation.name()),
    };
    RunReply {
        status: ReplyStatus::from_name(&request.body).unwrap_or(ReplyStatus::Done),
        body,
    }
}

/// A reply that is held back.
#[derive(Default)]
struct HeldReply {
    /// Notified when its request is taken up.
    taken_up: Notify,
    /// Lets the reply go.
    release: Notify,
}

/// An owner of a run.
struct Owner {
    server: OwnerServer,
    /// How many requests it has carried out.
    carried_out: Arc<AtomicUsize>,
    held: Arc<HeldReply>,
    runtime: Runtime,
    directory: TempDir,
}

impl Owner {
    fn start(limits: ConnectionLimits) -> Self {
        Self::start_after(limits, |_| {})
    }

    /// Starts an owner at whose socket `first` connects before the owner accepts anything.
    fn start_after(limits: ConnectionLimits, first: impl FnOnce(UnixStream)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        first(UnixStream::connect(&path).unwrap());
        let carried_out = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&carried_out);
        let held = Arc::new(HeldReply::default());
        let holder = Arc::clone(&held);
        let handler: RunRequestHandler = Arc::new(move |request| {
            counter.fetch_add(1, Ordering::Relaxed);
            let holder = Arc::clone(&holder);
            Box::pin(async move {
                if request.body == HELD {
                    holder.taken_up.notify_one();
                    holder.release.notified().await;
                }
                reply_to(&request)
            })
        });
        let runtime = Runtime::new().unwrap();
        let server = {
            let _entered = runtime.enter();
            OwnerServer::start_with_limits(listener, RUN, handler, limits).unwrap()
        };
        Self {
            server,
            carried_out,
            held,
            runtime,
            directory,
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.directory.path().join("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and returns what comes back until the owner closes the connection.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // The owner may close the connection before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn request(&self, operation: RunOperation, body: &str) -> Result<RunReply, SendError> {
        let body = body.to_owned();
        send_request(
            self.connect(),
            RUN,
            RunRequest { operation, body },
            PATIENCE,
        )
    }

    /// Ends it and returns how many requests it has carried out.
    fn close(self) -> usize {
        self.runtime.block_on(self.server.close());
        self.carried_out.load(Ordering::Relaxed)
    }
}

#[test]
fn every_request_is_carried_out_and_every_reply_arrives() {
    let owner = Owner::start(GENEROUS);
    let large = "\u{1}".repeat(1 << 20);
    for operation in RunOperation::ALL {
        for body in ["", "done", "refused", "unsaved", "ended", LONG, &large] {
            let request = RunRequest {
                operation,
                body: body.into(),
            };
            let reply = owner.request(operation, body).unwrap();
            assert!(
                reply == reply_to(&request),
                "{operation:?} {:?}",
                reply.status
            );
        }
    }
}

/// Requests that no owner carries out, each with the status of the response.
const REJECTED: [(&str, &str); 18] = [
    ("GET / HTTP/1.1\r\n\r\n", "404"),
    ("POST / HTTP/1.1\r\n\r\n", "404"),
    ("POST /v1/runs/2/cancel HTTP/1.1\r\n\r\n", "404"),
    ("POST /v1/runs/1/cancel/ HTTP/1.1\r\n\r\n", "404"),
    ("POST /v1/runs/1/../1/cancel HTTP/1.1\r\n\r\n", "404"),
    ("POST /v1/runs/1/%63ancel HTTP/1.1\r\n\r\n", "404"),
    ("GET /v1/runs/1/cancel HTTP/1.1\r\n\r\n", "405"),
    ("HEAD /v1/runs/1/cancel HTTP/1.1\r\n\r\n", "405"),
    ("DELETE /v1/runs/1/messages HTTP/1.1\r\n\r\n", "405"),
    // What a browser sends.
    (
        "GET / HTTP/1.1\r\nhost: localhost\r\norigin: http://example.com\r\naccept: text/html\r\n\r\n",
        "404",
    ),
    (
        "OPTIONS /v1/runs/1/cancel HTTP/1.1\r\nhost: localhost\r\norigin: http://example.com\r\n\
         access-control-request-method: POST\r\n\r\n",
        "405",
    ),
    ("nonsense\r\n\r\n", "400"),
    ("\u{16}\u{3}\u{1}\r\n\r\n", "400"),
    (
        "POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "400",
    ),
    (
        "POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "400",
    ),
    (
        "POST /v1/runs/1/cancel HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "400",
    ),
    (
        "POST /v1/runs/1/messages HTTP/1.1\r\ncontent-length: 1073741824\r\n\r\n{",
        "413",
    ),
    (
        "POST /v1/runs/1/messages HTTP/1.1\r\ncontent-length: 18446744073709551616\r\n\r\n{",
        "400",
    ),
];

#[test]
fn requests_that_no_owner_carries_out_are_rejected() {
    let owner = Owner::start(GENEROUS);
    let check = |request: &[u8], status: &str| {
        let answer = owner.exchange(request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{}: {answer}",
            String::from_utf8_lossy(request)
        );
        assert!(!answer.contains("access-control"), "{answer}");
    };
    for (request, status) in REJECTED {
        check(request.as_bytes(), status);
    }
    let head = "POST /v1/runs/1/cancel HTTP/1.1\r\n";
    let long = format!("{head}x: {}\r\n\r\n", "x".repeat(10 << 10));
    check(long.as_bytes(), "431");
    let many = format!("{head}{}\r\n", "x: y\r\n".repeat(1000));
    check(many.as_bytes(), "431");
    let no_text = [head.as_bytes(), b"content-length: 1\r\n\r\n\xff"].concat();
    check(&no_text, "400");
    assert_eq!(owner.close(), 0);
}

#[test]
fn an_error_is_described() {
    let owner = Owner::start(GENEROUS);
    let answer =
        owner.exchange(b"POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: 7\r\n\r\nrefused");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("content-type: application/problem+json"),
        "{head}"
    );
    assert!(head.contains("cache-control: no-store"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let expected = serde_json::json!({
        "type": "urn:strata-host:refused",
        "title": "The request was not accepted",
        "status": 422,
        "detail": "cancel refused",
    });
    assert_eq!(body, expected);
    let answer = owner.exchange(b"POST /v1/runs HTTP/1.1\r\n\r\n");
    assert!(
        answer.ends_with("\"detail\":\"nothing is served at `/v1/runs`\"}"),
        "{answer}"
    );
}

#[test]
fn slow_clients_are_disconnected_and_do_not_keep_others_out() {
    let owner = Owner::start(ConnectionLimits {
        clients: 1,
        request_timeout: SHORT,
        ..GENEROUS
    });
    let head = "POST /v1/runs/1/cancel HTTP/1.1\r\n";
    let parts = [
        "",
        "POST",
        head,
        &format!("{head}content-length: 2\r\n\r\n{{"),
    ];
    let slow = parts.map(|part| {
        let mut stream = owner.connect();
        stream.write_all(part.as_bytes()).unwrap();
        stream
    });
    // One client is served at a time, so this one waits for those. On a busy machine it is slow, too.
    let mut sent = owner.request(RunOperation::Pause, "{}");
    while let Err(SendError::NotReceived) = sent {
        sent = owner.request(RunOperation::Pause, "{}");
    }
    assert!(sent.is_ok(), "{sent:?}");
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "");
    }
    assert_eq!(owner.close(), 1);
}

#[test]
fn a_client_that_does_not_read_the_response_is_disconnected() {
    let owner = Owner::start(ConnectionLimits {
        clients: 1,
        response_timeout: Some(SHORT),
        ..GENEROUS
    });
    let mut stream = owner.connect();
    let request = "POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: 4\r\n\r\nlong";
    stream.write_all(request.as_bytes()).unwrap();
    assert!(owner.request(RunOperation::Pause, "{}").is_ok());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.len() < LONG_BYTES, "{}", answer.len());
    assert_eq!(owner.close(), 2);
}

#[test]
fn a_request_of_a_client_that_has_disconnected_is_not_carried_out() {
    let request = b"POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}";
    let owner = Owner::start_after(GENEROUS, |mut stream| stream.write_all(request).unwrap());
    assert!(owner.request(RunOperation::Pause, "{}").is_ok());
    assert_eq!(owner.close(), 1);
}

#[test]
fn clients_that_have_not_sent_their_request_do_not_delay_the_end() {
    let owner = Owner::start(GENEROUS);
    let head = "POST /v1/runs/1/cancel HTTP/1.1\r\ncontent-length: 4\r\n\r\n";
    let idle = ["", "POST", head, &format!("{head}hel")].map(|part| {
        let mut stream = owner.connect();
        stream.write_all(part.as_bytes()).unwrap();
        stream
    });
    let mut held = owner.connect();
    held.write_all(format!("{head}{HELD}").as_bytes()).unwrap();
    owner.runtime.block_on(owner.held.taken_up.notified());
    owner.server.closing.notify_one();
    for mut stream in idle {
        let mut answer = Vec::new();
        // What the owner has not read resets the connection.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        assert_eq!(answer, b"");
    }
    // The one that was received is still answered.
    owner.held.release.notify_one();
    let mut answer = String::new();
    held.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(owner.close(), 1);
}
