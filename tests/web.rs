//! A server on the loopback interface that records the requests. The path determines the answer:
//!
//! | path | answer |
//! |---|---|
//! | `/v1/echo…` | the whole request |
//! | `/v1/slow/MS…` | an answer after this many milliseconds |
//! | `/v1/order/MS…` | after this many milliseconds, `order-` and the number of the order: the same for requests with the same idempotency key |
//! | `/v1/once/…` | no answer to the first request; answers to later ones |
//! | `/v1/fail/N…` | status 503 for the first N requests; answers to later ones |
//! | `/v1/later…` | status 429 with a `Retry-After` of ten minutes |
//! | `/v1/large/BYTES…` | this many bytes |
//! | `/v1/slam…` | the connection is closed without an answer |
//! | `/v1/drip…` | the reply of a model, streamed letter by letter |
//! | `/v1/document/NAME/…` | a document of `documents`; as one event after `streamed` |
//! | `/v1/turns…` | the next reply of the script in the system message: see `next_turn` |
//! | any other | the path |
//!
//! If a path ends in `/chat/completions`, the answer is a model's reply: `re: ` and the prompt, for
//! a thousand tokens of input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::documents::document;

/// How long a test waits for a request. The slowest one takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server.
pub struct Web {
    port: u16,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    came: Condvar,
    /// The idempotency key of each order, in order.
    orders: Mutex<Vec<Option<String>>>,
}

/// A request that the server received.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method and the path.
    pub line: String,
    /// The whole request, with the body at the end.
    pub text: String,
    /// The body, which may not be text.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.text, name)
    }
}

impl Web {
    /// Starts a server.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        let log = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = log.clone();
                // These tests kill clients.
                thread::spawn(move || serve(&stream, &log).ok());
            }
        });
        Self { port, seen }
    }

    /// Returns its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the methods and paths of the requests, in order.
    pub fn lines(&self) -> Vec<String> {
        self.requests()
            .into_iter()
            .map(|request| request.line)
            .collect()
    }

    /// Returns the requests, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Returns the idempotency keys of the orders, in order.
    pub fn orders(&self) -> Vec<Option<String>> {
        self.seen.orders.lock().unwrap().clone()
    }

    /// Waits until the server has received this many requests.
    pub fn wait(&self, count: usize) {
        let requests = self.seen.requests.lock().unwrap();
        let (requests, waited) = self
            .seen
            .came
            .wait_timeout_while(requests, PATIENCE, |requests| requests.len() < count)
            .unwrap();
        assert!(!waited.timed_out(), "only these came: {requests:?}");
    }
}

fn serve(stream: &TcpStream, seen: &Seen) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") && reader.read_line(&mut text)? > 0 {}
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    text += &String::from_utf8_lossy(&body);
    let line: Vec<&str> = text.split_whitespace().take(2).collect();
    let (line, path) = (line.join(" "), line[1].to_owned());
    let before = {
        let mut requests = seen.requests.lock().unwrap();
        let before = requests
            .iter()
            .filter(|request| request.line == line)
            .count();
        requests.push(Request {
            line,
            text: text.clone(),
            body,
        });
        seen.came.notify_all();
        before
    };
    match path.split('/').nth(2) {
        Some("order") => {
            let number = seen.order(&text);
            thread::sleep(milliseconds(path.split('/').nth(3)));
            answer(stream, &format!("order-{number}"))
        }
        Some("once") if before == 0 => reader.read_to_end(&mut Vec::new()).map(drop),
        _ => respond(stream, &path, &text, before),
    }
}

impl Seen {
    /// Returns the number of the order that a request makes, unless one with its key has made it.
    fn order(&self, request: &str) -> usize {
        let key = header(request, "idempotency-key").map(str::to_owned);
        let mut orders = self.orders.lock().unwrap();
        let made = orders
            .iter()
            .position(|made| made.is_some() && *made == key);
        made.unwrap_or_else(|| {
            orders.push(key);
            orders.len() - 1
        })
    }
}

/// Returns a number of milliseconds in a path.
fn milliseconds(part: Option<&str>) -> Duration {
    Duration::from_millis(part.and_then(|ms| ms.parse().ok()).unwrap_or(0))
}

/// Returns the value of a header in a request.
fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Answers a request by its path, after `before` others with the same line.
fn respond(stream: &TcpStream, path: &str, text: &str, before: usize) -> std::io::Result<()> {
    let mut parts = path.split('/').skip(2);
    match parts.next().unwrap_or_default() {
        "echo" => answer(stream, text),
        "slow" => {
            thread::sleep(milliseconds(parts.next()));
            answer(stream, &said(path, text))
        }
        "turns" => answer(stream, &next_turn(text)),
        "drip" => drip(stream, &reply(text)),
        "document" => {
            let document = document(parts.next().unwrap_or_default());
            match parts.next() {
                Some("streamed") => burst(stream, &document),
                _ => answer(stream, &document),
            }
        }
        "fail"
            if before
                < parts
                    .next()
                    .and_then(|times| times.parse().ok())
                    .unwrap_or(0) =>
        {
            write!(
                &mut &*stream,
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        }
        "later" => write!(
            &mut &*stream,
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 600\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ),
        "large" => answer(
            stream,
            &"x".repeat(
                parts
                    .next()
                    .and_then(|bytes| bytes.parse().ok())
                    .unwrap_or(0),
            ),
        ),
        "slam" => Ok(()),
        _ => answer(stream, &said(path, text)),
    }
}

fn answer(mut stream: &TcpStream, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the body of an answer.
fn said(path: &str, request: &str) -> String {
    if !path.ends_with("/chat/completions") {
        return path.to_owned();
    }
    let message = json!({ "role": "assistant", "content": reply(request) });
    json!({ "id": "reply-1", "choices": [{ "message": message }], "usage": usage() }).to_string()
}

/// Returns the reply of a model.
fn reply(request: &str) -> String {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let last = asked["messages"]
        .as_array()
        .and_then(|turns| turns.last())
        .map(|turn| turn["content"].clone());
    format!(
        "re: {}",
        last.and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default()
    )
}

/// Returns the next reply of a model that works with tools. The system message contains `script:` and
/// a JSON array with an item for each turn: the text of the reply, or an array of tool calls, each an
/// array of a name and arguments. The reply depends on the conversation alone, so it is the same if
/// a request is repeated.
fn next_turn(request: &str) -> String {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let messages = asked["messages"].as_array().cloned().unwrap_or_default();
    let of_role = |role: &'static str| {
        messages
            .iter()
            .filter(move |message| message["role"] == role)
    };
    let turn = of_role("assistant").count();
    let script = of_role("system").find_map(|message| {
        let (_, script) = message["content"].as_str()?.split_once("script:")?;
        let mut values = serde_json::Deserializer::from_str(script).into_iter::<Value>();
        values.next()?.ok()
    });
    let message = match &script.unwrap_or_default()[turn] {
        Value::Array(calls) => {
            let calls: Vec<Value> = calls
                .iter()
                .enumerate()
                .map(|(index, call)| {
                    let function = json!({ "name": call[0], "arguments": call[1].to_string() });
                    json!({ "id": format!("{turn}-{index}"), "type": "function", "function": function })
                })
                .collect();
            json!({ "role": "assistant", "content": null, "tool_calls": calls })
        }
        text => json!({ "role": "assistant", "content": text }),
    };
    let finish = match message["tool_calls"] {
        Value::Null => "stop",
        _ => "tool_calls",
    };
    let choice = json!({ "message": message, "finish_reason": finish });
    json!({ "choices": [choice], "usage": usage() }).to_string()
}

/// Sends a stream of one event.
fn burst(mut stream: &TcpStream, event: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {event}\n\n"
    )
}

fn drip(mut stream: &TcpStream, text: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    )?;
    for letter in text.chars() {
        let piece = json!({ "choices": [{ "delta": { "content": letter.to_string() } }] });
        write!(stream, "data: {piece}\n\n")?;
        stream.flush()?;
    }
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }], "usage": usage() });
    write!(stream, "data: {end}\n\ndata: [DONE]\n\n")
}

fn usage() -> Value {
    json!({ "prompt_tokens": 1000, "completion_tokens": 1000 })
}
