//! A server for the tests of HTTP requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::services::loopback::{Loopback, Seen};

/// What the server does with a request.
#[derive(Clone)]
pub enum Play {
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
pub fn says(body: &str) -> Play {
    Play::Answer("200 OK", String::new(), body.as_bytes().to_vec())
}

/// Responds with a redirect.
pub fn redirects(status: &'static str, to: &str) -> Play {
    Play::Answer(status, format!("location: {to}\r\n"), Vec::new())
}

/// The server. The last behavior is repeated.
pub struct Server(Loopback);

impl Server {
    pub fn new(plays: impl Into<Vec<Play>>) -> Self {
        Self(Loopback::new(plays.into(), perform))
    }

    /// Returns the heads and bodies of the requests that it received.
    pub fn seen(&self) -> Vec<String> {
        self.0
            .seen()
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

fn perform(play: &Play, seen: &Seen, mut out: &TcpStream) -> std::io::Result<()> {
    match play {
        Play::Answer(status, headers, body) => answer(out, status, headers, body),
        Play::Echo => {
            let whole = [seen.head.as_str(), &seen.body].concat();
            answer(
                out,
                "200 OK",
                &format!("x-head: {}\r\n", whole.len()),
                whole.as_bytes(),
            )
        }
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
            let lines: String = (0..bytes / 1024)
                .map(|i| format!("x-{i}: {}\r\n", "h".repeat(1015)))
                .collect();
            answer(out, "200 OK", &lines, b"")
        }
        Play::Silence => out.read_to_end(&mut Vec::new()).map(drop),
        Play::Slam => Ok(()),
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
fn drip(mut out: &TcpStream) -> std::io::Result<()> {
    loop {
        out.write_all(b".")?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
}
