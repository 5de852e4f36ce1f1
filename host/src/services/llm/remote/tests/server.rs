//! A server for the tests that plays an endpoint of a model.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::services::llm::config::{Config, Endpoint, Provider};
use crate::services::loopback::{Loopback, Seen};

/// What the server does with a request.
#[derive(Clone)]
pub enum Play {
    /// Sends a status, further header lines, and a body.
    Answer(&'static str, &'static str, String),
    /// Sends further header lines and a streamed body, byte by byte, and then closes the
    /// connection.
    Stream(&'static str, String),
    /// Sends the head and the beginning of a response, and then nothing until the client
    /// disconnects.
    Drip,
    /// Sends an endless body.
    Flood,
    /// Closes the connection without a response.
    Slam,
}

/// Responds with this message.
pub fn says(message: &str) -> Play {
    let body = format!(
        r#"{{"model":"served","choices":[{{"message":{message}}}],"usage":{{"prompt_tokens":10,"completion_tokens":5}}}}"#
    );
    Play::Answer("200 OK", "", body)
}

/// Responds with a message that consists of this text.
pub fn text(content: &str) -> Play {
    says(&serde_json::json!({ "role": "assistant", "content": content }).to_string())
}

/// The server. The last behavior is repeated.
pub struct Server(Loopback);

impl Server {
    pub fn new(plays: impl Into<Vec<Play>>) -> Self {
        Self(Loopback::new(plays.into(), perform))
    }

    /// Returns the requests that it received, with the heads in lower case.
    pub fn seen(&self) -> Vec<Seen> {
        let lower = |seen: Seen| Seen {
            head: seen.head.to_lowercase(),
            ..seen
        };
        self.0.seen().into_iter().map(lower).collect()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            base_url: format!("http://127.0.0.1:{}/v1", self.0.port),
            api_key_env: None,
            retries: 0,
            timeout: Endpoint::TIMEOUT,
        }
    }

    pub fn config(&self) -> Config {
        Config {
            model: Some("m".to_owned()),
            ..Config::of(Provider::OpenAi(self.endpoint()))
        }
    }
}

fn perform(play: &Play, _seen: &Seen, mut out: &TcpStream) -> std::io::Result<()> {
    match play {
        Play::Answer(status, headers, body) => {
            let length = body.len();
            let end = "connection: close\r\n\r\n";
            write!(
                out,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}{end}{body}"
            )
        }
        Play::Stream(headers, body) => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}connection: close\r\n\r\n"
            )?;
            for byte in body.as_bytes().chunks(1) {
                out.write_all(byte)?;
            }
            Ok(())
        }
        Play::Drip => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{")?;
            out.read_to_end(&mut Vec::new())?;
            Ok(())
        }
        Play::Flood => {
            write!(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                out.write_all(&[b' '; 1 << 16])?;
            }
        }
        Play::Slam => Ok(()),
    }
}
