//! An endpoint on loopback that plays what a test wants, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::services::llm::config::{Config, Endpoint, Provider};

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
pub struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// What it was asked.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The request line and the headers, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
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
                thread::spawn(move || serve(stream, &plays, &log).ok());
            }
        });
        Self { port, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics while it holds this").clone()
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            base_url: format!("http://127.0.0.1:{}/v1", self.port),
            api_key_env: None,
            retries: 0,
            timeout: Endpoint::TIMEOUT,
        }
    }

    pub fn config(&self) -> Config {
        Config { model: Some("m".to_owned()), ..Config::of(Provider::OpenAi(self.endpoint())) }
    }
}

fn serve(stream: TcpStream, plays: &[Play], log: &Mutex<Vec<Seen>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.and_then(|l| l.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let number = {
        let mut seen = log.lock().expect("no test panics while it holds this");
        seen.push(Seen { head, body });
        seen.len()
    };
    let mut out = &stream;
    match &plays[(number - 1).min(plays.len() - 1)] {
        Play::Answer(status, headers, body) => {
            let length = body.len();
            let end = "connection: close\r\n\r\n";
            write!(out, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}{end}{body}")
        }
        Play::Stream(headers, body) => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}connection: close\r\n\r\n")?;
            body.as_bytes().chunks(1).try_for_each(|byte| out.write_all(byte))
        }
        Play::Drip => {
            write!(out, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{{")?;
            reader.read_to_end(&mut Vec::new()).map(drop)
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
