//! A server on loopback that plays what a test wants, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What happens on a request.
#[derive(Clone)]
pub enum Play {
    /// A status line's end, more header lines, a body.
    Answer(&'static str, String, Vec<u8>),
    /// The request itself, as the body of an answer.
    Echo,
    /// The head and the beginning of a body that comes a byte at a time and never ends.
    Drip,
    /// The beginning of a head that comes a byte at a time and never ends.
    DripHead,
    /// A body without end and without a length.
    Flood,
    /// A body that is announced as larger than anything.
    Boast,
    /// A head with as many bytes of headers.
    Heads(usize),
    /// Nothing, until the client hangs up.
    Silence,
    /// The connection is closed without an answer.
    Slam,
}

/// A good answer with this body.
pub fn says(body: &str) -> Play {
    Play::Answer("200 OK", String::new(), body.as_bytes().to_vec())
}

/// Sends the client elsewhere.
pub fn redirects(status: &'static str, to: &str) -> Play {
    Play::Answer(status, format!("location: {to}\r\n"), Vec::new())
}

/// The server. The last play is repeated.
pub struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn new(plays: impl Into<Vec<Play>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (plays, log) = (plays.into(), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (plays, log) = (plays.clone(), log.clone());
                // A client that hangs up early is what some tests are about.
                thread::spawn(move || serve(&stream, &plays, &log).ok());
            }
        });
        Self { port, seen }
    }

    /// Heads, in lower case, and bodies of what it was asked.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no test panics while it holds this").clone()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An address on it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

fn serve(stream: &TcpStream, plays: &[Play], log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let whole = head + &String::from_utf8_lossy(&body);
    let number = {
        let mut seen = log.lock().expect("no test panics while it holds this");
        seen.push(whole.clone());
        seen.len()
    };
    let mut out = stream;
    match &plays[(number - 1).min(plays.len() - 1)] {
        Play::Answer(status, headers, body) => answer(out, status, headers, body),
        Play::Echo => answer(out, "200 OK", &format!("x-head: {}\r\n", whole.len()), whole.as_bytes()),
        Play::Drip => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")?;
            drip(out)
        }
        Play::DripHead => {
            out.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ")?;
            drip(out)
        }
        Play::Flood => {
            out.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                out.write_all(&[b' '; 1 << 16])?;
            }
        }
        Play::Boast => out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\nx"),
        Play::Heads(bytes) => {
            let lines: String = (0..bytes / 1024).map(|i| format!("x-{i}: {}\r\n", "h".repeat(1015))).collect();
            answer(out, "200 OK", &lines, b"")
        }
        Play::Silence => reader.read_to_end(&mut Vec::new()).map(drop),
        Play::Slam => Ok(()),
    }
}

fn answer(mut out: &TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n", body.len())?;
    out.write_all(body)
}

/// A byte every few milliseconds: never so slow that a wait for the next one would end.
fn drip(mut out: &TcpStream) -> std::io::Result<()> {
    loop {
        out.write_all(b".")?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
}
