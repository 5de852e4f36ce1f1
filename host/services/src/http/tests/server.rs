//! A server for the tests of HTTP requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::tests::loopback::{LoopbackServer, ReceivedRequest};

/// What the server does with a request.
#[derive(Clone)]
pub enum HttpServerBehavior {
    /// Sends a status, further header lines, and a body.
    Answer(&'static str, String, Vec<u8>),
    /// Sends the request back as the body.
    Echo,
    /// Sends the head and then an endless body, one byte at a time.
    Drip,
    /// Sends an endless head, one byte at a time.
    DripHead,
    /// Sends an endless body without a length.
    Flood,
    /// Announces a body that exceeds every limit.
    Boast,
    /// Sends a head with so many bytes of headers.
    Heads(usize),
    /// Sends nothing until the client disconnects.
    Silence,
    /// Closes the connection without a response.
    Slam,
}

/// Responds with status 200 and this body.
pub fn respond_with(body: &str) -> HttpServerBehavior {
    HttpServerBehavior::Answer("200 OK", String::new(), body.as_bytes().to_vec())
}

/// Responds with a redirect.
pub fn redirects(status: &'static str, to: &str) -> HttpServerBehavior {
    HttpServerBehavior::Answer(status, format!("location: {to}\r\n"), Vec::new())
}

/// The server. The last behavior is repeated.
pub struct HttpTestServer(LoopbackServer);

impl HttpTestServer {
    pub fn new(plays: impl Into<Vec<HttpServerBehavior>>) -> Self {
        Self(LoopbackServer::new(plays.into(), handle_request))
    }

    /// Returns the heads and bodies of the requests that it received.
    pub fn seen(&self) -> Vec<String> {
        self.0
            .requests()
            .into_iter()
            .map(|seen| seen.head + &seen.body)
            .collect()
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Returns an address on it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port())
    }
}

fn handle_request(
    play: &HttpServerBehavior,
    seen: &ReceivedRequest,
    mut out: &TcpStream,
) -> std::io::Result<()> {
    match play {
        HttpServerBehavior::Answer(status, headers, body) => answer(out, status, headers, body),
        HttpServerBehavior::Echo => {
            let whole = [seen.head.as_str(), &seen.body].concat();
            answer(
                out,
                "200 OK",
                &format!("x-head: {}\r\n", whole.len()),
                whole.as_bytes(),
            )
        }
        HttpServerBehavior::Drip => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")?;
            send_slowly(out)
        }
        HttpServerBehavior::DripHead => {
            out.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ")?;
            send_slowly(out)
        }
        HttpServerBehavior::Flood => {
            out.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                out.write_all(&[b' '; 1 << 16])?;
            }
        }
        HttpServerBehavior::Boast => {
            out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\nx")
        }
        HttpServerBehavior::Heads(bytes) => {
            let lines: String = (0..bytes / 1024)
                .map(|i| format!("x-{i}: {}\r\n", "h".repeat(1015)))
                .collect();
            answer(out, "200 OK", &lines, b"")
        }
        HttpServerBehavior::Silence => out.read_to_end(&mut Vec::new()).map(drop),
        HttpServerBehavior::Slam => Ok(()),
    }
}

fn answer(mut out: &TcpStream, status: &str, headers: &str, body: &[u8]) -> std::io::Result<()> {
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n",
        body.len()
    )?;
    out.write_all(body)
}

/// Sends a byte every few milliseconds, so that no timeout between two bytes would apply.
fn send_slowly(mut out: &TcpStream) -> std::io::Result<()> {
    loop {
        out.write_all(b".")?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
}
