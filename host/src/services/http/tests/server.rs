//! What a server does to the tests of web requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::services::loopback::{Loopback, Seen};

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
pub struct Server(Loopback);

impl Server {
    pub fn new(plays: impl Into<Vec<Play>>) -> Self {
        Self(Loopback::new(plays.into(), perform))
    }

    /// Heads and bodies of what it was asked.
    pub fn seen(&self) -> Vec<String> {
        self.0
            .seen()
            .into_iter()
            .map(|seen| seen.head + &seen.body)
            .collect()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// An address on it.
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

/// A byte every few milliseconds: never so slow that a wait for the next one would end.
fn drip(mut out: &TcpStream) -> std::io::Result<()> {
    loop {
        out.write_all(b".")?;
        thread::sleep(std::time::Duration::from_millis(20));
    }
}
