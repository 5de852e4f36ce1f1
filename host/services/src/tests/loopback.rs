//! A server on the loopback interface for tests. It records the requests and handles each as the
//! test specifies. The tests of each service define the possible behaviors.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

/// The server. It runs until the process ends.
pub struct LoopbackServer {
    /// Its port.
    pub port: u16,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl LoopbackServer {
    /// Returns a server that handles its first request by the first of `plays`, and so on. The last
    /// one is repeated.
    pub fn new<P>(
        plays: Vec<P>,
        perform: fn(&P, &ReceivedRequest, &TcpStream) -> io::Result<()>,
    ) -> Self
    where
        P: Clone + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (plays, log) = (plays.clone(), log.clone());
                // In some tests the client disconnects early, so errors are ignored.
                thread::spawn(move || {
                    serve(&stream, &log, |number, seen| {
                        perform(&plays[number.min(plays.len() - 1)], seen, &stream)
                    })
                    .ok()
                });
            }
        });
        Self { port, seen }
    }

    /// Returns the requests that it received.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen
            .lock()
            .expect("no test panics while it holds this")
            .clone()
    }
}

fn serve(
    stream: &TcpStream,
    log: &Mutex<Vec<ReceivedRequest>>,
    answer: impl FnOnce(usize, &ReceivedRequest) -> io::Result<()>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let lower = head.to_lowercase();
    let length = lower
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let seen = ReceivedRequest {
        head,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let number = {
        let mut log = log.lock().expect("no test panics while it holds this");
        log.push(seen.clone());
        log.len() - 1
    };
    answer(number, &seen)
}
