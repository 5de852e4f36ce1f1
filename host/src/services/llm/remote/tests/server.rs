//! What an endpoint does to the tests of asking models.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::services::llm::config::{Config, Endpoint, Provider};
use crate::services::loopback::{Loopback, Seen};

/// What happens on a request.
#[derive(Clone)]
pub enum Play {
    /// A status line's end, more header lines, a body.
    Answer(&'static str, &'static str, String),
    /// More header lines, and a streamed body, byte by byte, at whose end the connection is closed.
    Stream(&'static str, String),
    /// The head and the beginning of an answer that never ends, until the client hangs up.
    Drip,
    /// A body without end.
    Flood,
    /// The connection is closed without an answer.
    Slam,
}

/// A good answer around this message.
pub fn says(message: &str) -> Play {
    let body = format!(
        r#"{{"model":"served","choices":[{{"message":{message}}}],"usage":{{"prompt_tokens":10,"completion_tokens":5}}}}"#
    );
    Play::Answer("200 OK", "", body)
}

/// A good answer with this text.
pub fn text(content: &str) -> Play {
    says(&serde_json::json!({ "role": "assistant", "content": content }).to_string())
}

/// The endpoint. The last play is repeated.
pub struct Server(Loopback);

impl Server {
    pub fn new(plays: impl Into<Vec<Play>>) -> Self {
        Self(Loopback::new(plays.into(), perform))
    }

    /// What it was asked; heads in lower case.
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
            body.as_bytes()
                .chunks(1)
                .try_for_each(|byte| out.write_all(byte))
        }
        Play::Drip => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{")?;
            out.read_to_end(&mut Vec::new()).map(drop)
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
