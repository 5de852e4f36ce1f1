//! Connections that are kept.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::*;

/// A server that answers this many requests over each connection before it closes the connection. It
/// counts the requests over each.
struct KeepingServer {
    port: u16,
    requests: Arc<Mutex<Vec<usize>>>,
}

impl KeepingServer {
    fn new(per_connection: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let counts = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let nth = {
                    let mut counts = counts.lock().expect("no test panics while it holds this");
                    counts.push(0);
                    counts.len() - 1
                };
                let counts = Arc::clone(&counts);
                thread::spawn(move || answer(&stream, per_connection, &counts, nth));
            }
        });
        Self { port, requests }
    }

    /// Returns how many requests came over each connection that was used.
    fn counts(&self) -> Vec<usize> {
        let counts = self.requests.lock();
        let counts = counts.expect("no test panics while it holds this");
        // A connection may be established in vain: another one became idle meanwhile.
        counts.iter().copied().filter(|count| *count > 0).collect()
    }

    fn request(&self, method: &str) -> HttpRequest {
        request(method, &format!("http://127.0.0.1:{}/v1/x", self.port))
    }

    fn grants(&self) -> [HttpGrant; 1] {
        [grant(&format!("127.0.0.1:{}", self.port), &[])]
    }
}

/// Answers requests without a body. What cannot be sent is for a client that has disconnected.
fn answer(mut stream: &TcpStream, requests: usize, counts: &Mutex<Vec<usize>>, nth: usize) {
    let mut lines = BufReader::new(stream).lines();
    for _ in 0..requests {
        loop {
            match lines.next() {
                Some(Ok(line)) if line.is_empty() => break,
                Some(Ok(_)) => {}
                _ => return,
            }
        }
        counts.lock().expect("no test panics while it holds this")[nth] += 1;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
}

/// Makes requests one after another, over the connections of one client.
fn make(server: &KeepingServer, methods: &[&str]) {
    let client = client();
    block_on(async {
        for method in methods {
            let request = server.request(method);
            let grants = server.grants();
            let allowance = Allowance::unlimited();
            let response = client.fetch(&request, &grants, "key", &allowance);
            assert_eq!(response.await.map(|response| response.status), Ok(200));
        }
    });
}

#[test]
fn reads_share_a_connection_and_each_write_has_its_own() {
    let server = KeepingServer::new(usize::MAX);
    make(&server, &["GET", "GET", "POST", "GET", "POST", "GET"]);
    let mut counts = server.counts();
    counts.sort();
    assert_eq!(counts, [1, 1, 4]);
}

#[test]
fn a_read_is_repeated_if_the_server_has_closed_the_connection_that_was_kept() {
    let server = KeepingServer::new(2);
    make(&server, &["GET"; 6]);
    assert_eq!(server.counts().iter().sum::<usize>(), 6);
}

#[test]
fn the_grants_of_a_request_are_checked_for_a_connection_that_is_kept() {
    let server = KeepingServer::new(usize::MAX);
    let client = client();
    let asked = server.request("GET");
    block_on(async {
        for grants in [&server.grants()[..], &[], &server.grants()[..]] {
            let allowance = Allowance::unlimited();
            let fetched = client.fetch(&asked, grants, "key", &allowance);
            let refused = fetched.await.err().map(|failed| failed.error.kind);
            assert_eq!(refused, grants.is_empty().then_some(Denied));
        }
    });
    assert_eq!(server.counts(), [2]);
}
