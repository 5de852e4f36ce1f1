//! A server under test, and requests to it, written as bytes.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use strata_host::blob::digest_of;

use crate::observing::free_port;
use crate::process::{Process, Signal};
use crate::workspace::Workspace;

/// How often something is looked for, and how often at most.
const INTERVAL: Duration = Duration::from_millis(50);
const MAX_LOOKS: u32 = 1200;

/// A server that runs teams.
pub struct TestServer {
    pub place: Workspace,
    pub port: u16,
    pub token: String,
    /// Further arguments of `serve`.
    more: Vec<String>,
    process: RefCell<Option<Process>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub headers: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A stream that is open.
pub struct OpenStream(BufReader<TcpStream>);

/// A message of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamMessage {
    pub name: String,
    pub id: String,
    pub data: String,
}

impl OpenStream {
    /// Reads what comes until the connection is closed.
    pub fn read_to_end(mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.0.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the next message with data; `None` once the connection is closed.
    pub fn next_message(&mut self) -> Option<StreamMessage> {
        let mut message = StreamMessage::default();
        loop {
            let mut line = String::new();
            if !matches!(self.0.read_line(&mut line), Ok(bytes) if bytes > 0) {
                return None;
            }
            // Everything else is the head, a comment, or the size of a chunk.
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => message.name = name.into(),
                Some(("id", id)) => message.id = id.into(),
                Some(("data", data)) => message.data = data.into(),
                _ if line == "\n" && !message.data.is_empty() => return Some(message),
                _ => {}
            }
        }
    }
}

impl TestServer {
    /// Starts a server whose workspace has this team.
    pub fn start(team: &str) -> Self {
        Self::start_in(Workspace::with(team), &[])
    }

    /// Starts a server in a workspace, with further arguments.
    pub fn start_in(place: Workspace, more: &[&str]) -> Self {
        let mut server = Self {
            place,
            port: free_port(),
            token: String::new(),
            more: more.iter().map(|one| (*one).to_owned()).collect(),
            process: RefCell::new(None),
        };
        server.start_again();
        let token = String::from_utf8(server.place.read("served/token"));
        server.token = token.unwrap().trim().to_owned();
        server
    }

    /// Tells the server to end, and returns its exit code.
    pub fn terminate(&self) -> Option<i32> {
        let process = self.process.borrow_mut().take().unwrap();
        process.signal(Signal::TERM);
        process.end().code
    }

    /// Kills the server and starts it again, at the same port.
    pub fn restart(&mut self) {
        self.process.borrow_mut().take().unwrap().kill();
        self.start_again();
    }

    /// Starts the server after it has ended, at the same port.
    pub fn start_again(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut args = vec!["serve", "--storage", "served", "--listen", &listen];
        args.extend(["--host", "strata.test"]);
        args.extend(self.more.iter().map(String::as_str));
        *self.process.borrow_mut() = Some(self.place.start(&args));
        for _ in 0..MAX_LOOKS {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            sleep(INTERVAL);
        }
    }

    /// Sends bytes and returns what comes back until the connection is closed.
    pub fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        // The server may close the connection before all was sent.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the head of a request.
    fn head(&self, method: &str, path: &str, token: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n",
            self.port
        );
        if !token.is_empty() {
            head += &format!("authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    /// Sends a request and returns the answer.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut bytes = self.head(method, path, token, headers).into_bytes();
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend_from_slice(body);
        let text = self.exchange(&bytes);
        let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = headers
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Answer {
            status: status.unwrap_or(0),
            headers: headers.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub fn get(&self, token: &str, path: &str) -> Answer {
        self.request("GET", path, token, &[], b"")
    }

    pub fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        let json = [("content-type", "application/json")];
        self.request("POST", path, token, &json, body.to_string().as_bytes())
    }

    /// Opens a stream and returns it once its head has come.
    pub fn open_stream(&self, token: &str, path: &str) -> OpenStream {
        self.open_stream_after(token, path, None)
    }

    /// Opens a stream after the message with an id.
    pub fn open_stream_after(&self, token: &str, path: &str, last: Option<&str>) -> OpenStream {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last.map(|last| ("last-event-id", last)));
        let head = self.head("GET", path, token, &headers) + "\r\n";
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        OpenStream(BufReader::new(stream))
    }

    /// Repeats a request until the answer fits.
    pub fn until(&self, token: &str, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut last = String::new();
        for _ in 0..MAX_LOOKS {
            let answer = self.get(token, path);
            if answer.status == 200 && fits(&answer.json()) {
                return answer.json();
            }
            last = answer.body;
            sleep(INTERVAL);
        }
        panic!("{path} stays {last}");
    }

    /// Makes a token.
    pub fn new_token(&self, name: &str, tenant: Option<&str>, rights: &[&str]) -> String {
        let body = json!({ "name": name, "tenant": tenant, "rights": rights });
        let made = self.post(&self.token, "/v1/tokens", &body);
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Uploads a file, and returns its digest.
    pub fn upload(&self, token: &str, bytes: &[u8]) -> String {
        let digest = format!("sha256:{}", digest_of(bytes));
        let put = self.request("PUT", &format!("/v1/blobs/{digest}"), token, &[], bytes);
        assert!([201, 204].contains(&put.status), "{put:?}");
        digest
    }

    /// Uploads the team, and returns the digest of its bundle.
    pub fn bundle(&self, token: &str) -> String {
        let mut files = serde_json::Map::new();
        for name in ["team.toml", "probe.wasm"] {
            files.insert(
                name.into(),
                json!(self.upload(token, &self.place.read(name))),
            );
        }
        let made = self.post(token, "/v1/bundles", &json!({ "files": files }));
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["digest"].as_str().unwrap().to_owned()
    }

    /// Starts a run of the team, and returns it.
    pub fn submit(&self, token: &str, more: Value) -> Value {
        let mut body = json!({ "bundle": self.bundle(token), "idea": "go" });
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        let started = self.post(token, "/v1/runs", &body);
        assert_eq!(started.status, 201, "{started:?}");
        started.json()
    }
}
