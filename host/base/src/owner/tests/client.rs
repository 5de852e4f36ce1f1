//! The client, with an owner that closes the connection or sends something else.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use super::*;

/// The body of the request, which is larger than the buffers of a socket.
const BODY_BYTES: usize = 1 << 20;

/// Sends a request to a peer and returns what came of it.
fn outcome(
    body: &str,
    timeout: Duration,
    peer: impl FnOnce(UnixStream) + Send + 'static,
) -> Result<RunReply, SendError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || peer(theirs));
    let request = RunRequest {
        operation: RunOperation::Send,
        body: body.to_owned(),
    };
    let sent = send_request(ours, RUN, request, timeout);
    peer.join().unwrap();
    sent
}

/// Reads a request up to its end, which is a brace.
fn read_request(stream: &mut UnixStream) {
    let mut byte = [0];
    while byte != *b"}" {
        stream.read_exact(&mut byte).unwrap();
    }
}

#[test]
fn a_request_that_was_not_received_whole_was_not_carried_out() {
    let check = |body: &str, bytes: usize| {
        let sent = outcome(body, PATIENCE, move |mut stream| {
            stream.read_exact(&mut vec![0; bytes]).unwrap();
        });
        assert!(
            matches!(sent, Err(SendError::NotReceived)),
            "{bytes}: {sent:?}"
        );
    };
    let large = "x".repeat(BODY_BYTES);
    for bytes in [0, 1, 10] {
        check("{}", bytes);
    }
    for bytes in [0, 10, BODY_BYTES / 2] {
        check(&large, bytes);
    }
}

#[test]
fn a_request_that_this_process_cannot_send_was_not_carried_out() {
    // The system does not say when a file can be written, as is needed to send anything.
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    let request = RunRequest {
        operation: RunOperation::Send,
        body: "{}".into(),
    };
    let sent = send_request(UnixStream::from(file), RUN, request, PATIENCE);
    assert!(matches!(sent, Err(SendError::NotSent(_))), "{sent:?}");
}

/// Checks that an owner that reads the whole request and then sends this gives no reply.
fn check_unanswered(response: &'static [u8], why: &str) {
    let sent = outcome("{}", PATIENCE, move |mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(response);
    });
    let shown = String::from_utf8_lossy(response);
    match sent {
        Err(SendError::Unanswered(error)) => assert_eq!(error.to_string(), why, "{shown}"),
        other => panic!("{shown}: {other:?}"),
    }
}

#[test]
fn what_is_no_reply_leaves_it_open_whether_a_request_was_carried_out() {
    check_unanswered(b"", "it ended before it answered");
    check_unanswered(b"HTTP/1.1 2", "it ended before it answered");
    for response in [
        &b"garbage\r\n\r\n"[..],
        b"{\"Sent\": {}}\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\xff",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 422 No\r\ncontent-length: 4\r\n\r\nnope",
    ] {
        check_unanswered(response, "it answered something else");
    }
}

#[test]
fn an_owner_that_sends_without_end_gives_no_reply() {
    for begin in ["", "HTTP/1.1 200 OK\r\nx: "] {
        let sent = outcome("{}", PATIENCE, move |mut stream| {
            let _ = stream.write_all(begin.as_bytes());
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
        });
        match sent {
            Err(SendError::Unanswered(error)) => {
                assert_eq!(error.to_string(), "it answered something else");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_owner_that_is_silent_is_given_up() {
    for body in ["{}", &"x".repeat(BODY_BYTES)] {
        let sent = outcome(body, Duration::from_millis(50), |mut stream| {
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        match sent {
            Err(SendError::Unanswered(error)) => assert_eq!(error.kind(), ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_request_can_be_sent_from_a_task() {
    let runtime = Runtime::new().unwrap();
    let owner = Owner::start(GENEROUS);
    let reply = runtime.block_on(async { owner.request(RunOperation::Pause, "{}") });
    assert_eq!(reply.unwrap().body, "pause {}");
}
