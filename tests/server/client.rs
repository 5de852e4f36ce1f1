//! A server under test, and requests to it, written as bytes.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Cursor, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use strata_host::blob::digest_of;

use crate::observing::free_port;
use crate::postgres_server::create_database;
use crate::process::{Ended, Process, Signal};
use crate::workspace::Workspace;

/// How often something is looked for, and how often at most.
const INTERVAL: Duration = Duration::from_millis(50);
const MAX_LOOKS: u32 = 1200;

/// Where the runs of a server are.
#[derive(Clone, Debug)]
pub enum Runs {
    /// In a file of its directory.
    InFile,
    /// In the database of a URL, which other servers may use, too.
    InDatabase(String),
}

impl Runs {
    /// Returns a database that nobody uses yet. `None` if PostgreSQL is not installed.
    pub fn in_new_database() -> Option<Self> {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let n = DATABASES.fetch_add(1, Ordering::Relaxed);
        let name = format!("served-{}-{n}", std::process::id());
        create_database(&name).map(Self::InDatabase)
    }

    fn arguments(&self) -> Vec<String> {
        match self {
            Self::InFile => Vec::new(),
            Self::InDatabase(url) => vec!["--database".into(), url.clone()],
        }
    }
}

/// Runs a test with each kind of place for runs.
pub fn wherever_runs_are(test: impl Fn(&Runs)) {
    for runs in [Some(Runs::InFile), Runs::in_new_database()]
        .into_iter()
        .flatten()
    {
        eprintln!("{runs:?}");
        test(&runs);
    }
}

/// Sends requests to a server.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub port: u16,
}

/// A server that runs teams.
pub struct TestServer {
    pub place: Rc<Workspace>,
    pub token: String,
    client: Client,
    /// The name of its directory.
    storage: String,
    /// Further arguments of `serve`.
    more: Vec<String>,
    /// What is added to its environment.
    environment: Vec<(&'static str, PathBuf)>,
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
pub struct OpenStream(BufReader<ChunkedBody>);

/// The body of an answer that is sent in chunks, without their sizes.
struct ChunkedBody {
    answer: Box<dyn BufRead>,
    /// How much of the chunk has not been read.
    left: usize,
}

impl ChunkedBody {
    /// Returns that of an answer, of which no more was read than the status.
    fn of_answer(mut answer: Box<dyn BufRead>) -> Self {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if answer.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
        }
        Self { answer, left: 0 }
    }
}

impl Read for ChunkedBody {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            // The end of the chunk before, and the size of the next one.
            let mut line = String::new();
            if self.answer.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            match usize::from_str_radix(line.trim_end(), 16) {
                Ok(0) => return Ok(0),
                Ok(size) => self.left = size,
                Err(_) => assert_eq!(line, "\r\n"),
            }
        }
        let most = buffer.len().min(self.left);
        let count = self.answer.read(&mut buffer[..most])?;
        self.left -= count;
        Ok(count)
    }
}

/// A message of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamMessage {
    pub name: String,
    pub id: String,
    pub data: String,
}

impl OpenStream {
    fn of_answer(answer: impl BufRead + 'static) -> Self {
        Self(BufReader::new(ChunkedBody::of_answer(Box::new(answer))))
    }

    /// Returns what was read of one, with the head of the answer.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self::of_answer(Cursor::new(bytes))
    }

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
            // Everything else is a comment, or says when to come back.
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

impl Deref for TestServer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl TestServer {
    /// Starts a server whose workspace has this team.
    pub fn start(team: &str) -> Self {
        Self::start_at(&Runs::InFile, team)
    }

    /// Starts a server whose workspace has this team.
    pub fn start_at(runs: &Runs, team: &str) -> Self {
        let place = Rc::new(Workspace::with(team));
        Self::begin(place, "served", runs.arguments(), &[])
    }

    /// Starts a server in a workspace, with further arguments.
    pub fn start_in(place: Workspace, more: &[&str]) -> Self {
        let more = more.iter().map(|one| (*one).to_owned());
        Self::begin(Rc::new(place), "served", more.collect(), &[])
    }

    /// Starts a server in a workspace, with further arguments and something more in its environment.
    pub fn start_with(
        place: Workspace,
        more: &[&str],
        environment: &[(&'static str, PathBuf)],
    ) -> Self {
        let more = more.iter().map(|one| (*one).to_owned());
        Self::begin(Rc::new(place), "served", more.collect(), environment)
    }

    /// Starts another server in the same workspace, with a directory of its own.
    pub fn start_beside(&self, storage: &str, more: &[&str]) -> Self {
        let more = more.iter().map(|one| (*one).to_owned());
        let more = self.more.iter().cloned().chain(more);
        Self::begin(
            Rc::clone(&self.place),
            storage,
            more.collect(),
            &self.environment,
        )
    }

    fn begin(
        place: Rc<Workspace>,
        storage: &str,
        more: Vec<String>,
        environment: &[(&'static str, PathBuf)],
    ) -> Self {
        let mut server = Self {
            place,
            client: Client { port: free_port() },
            token: String::new(),
            storage: storage.into(),
            more,
            environment: environment.to_vec(),
            process: RefCell::new(None),
        };
        server.start_again();
        let token = server.place.read(&format!("{storage}/token"));
        server.token = String::from_utf8(token).unwrap().trim().to_owned();
        server
    }

    /// Kills the server.
    pub fn kill(&self) {
        self.process.borrow_mut().take().unwrap().kill();
    }

    /// Tells the server to end, and returns its exit code.
    pub fn terminate(&self) -> Option<i32> {
        let process = self.process.borrow_mut().take().unwrap();
        process.signal(Signal::TERM);
        process.end().code
    }

    /// Kills the server and starts it again, at the same port.
    pub fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Waits until the server ends by itself.
    pub fn wait_for_end(&self) -> Ended {
        self.process.borrow_mut().take().unwrap().end()
    }

    /// Starts the server after it has ended, at the same port.
    pub fn start_again(&mut self) {
        let mut process = self.spawn();
        for _ in 0..MAX_LOOKS {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                *self.process.borrow_mut() = Some(process);
                return;
            }
            if !process.is_running() {
                panic!("the server has ended: {:?}", process.end());
            }
            sleep(INTERVAL);
        }
        panic!("the server does not listen: {:?}", process.kill());
    }

    /// Starts the server after it has ended, which ends by itself again.
    pub fn start_in_vain(&self) -> Ended {
        self.spawn().end()
    }

    fn spawn(&self) -> Process {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut args = vec!["serve", "--storage", &self.storage, "--listen", &listen];
        args.extend(["--host", "strata.test"]);
        args.extend(self.more.iter().map(String::as_str));
        let mut command = self.place.command(&args);
        command.envs(self.environment.iter().cloned());
        Process::spawn(command)
    }

    /// Returns what sends requests to it, also from another thread.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Makes a token.
    pub fn new_token(&self, name: &str, tenant: Option<&str>, rights: &[&str]) -> String {
        let body = json!({ "name": name, "tenant": tenant, "rights": rights });
        let made = self.post(&self.token, "/v1/tokens", &body);
        assert_eq!(made.status, 201, "{made:?}");
        made.json()["token"].as_str().unwrap().to_owned()
    }

    /// Uploads the team, and returns the digest of its bundle.
    pub fn bundle(&self, token: &str) -> String {
        self.bundle_of(token, &self.place.read("team.toml"))
    }

    /// Uploads a team, and returns the digest of its bundle.
    pub fn bundle_of(&self, token: &str, team: &[u8]) -> String {
        let probe = self.upload(token, &self.place.read("probe.wasm"));
        let files = json!({ "team.toml": self.upload(token, team), "probe.wasm": probe });
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

impl Client {
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
        OpenStream::of_answer(BufReader::new(stream))
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

    /// Uploads a file, and returns its digest.
    pub fn upload(&self, token: &str, bytes: &[u8]) -> String {
        let digest = format!("sha256:{}", digest_of(bytes));
        let put = self.request("PUT", &format!("/v1/blobs/{digest}"), token, &[], bytes);
        assert!([201, 204].contains(&put.status), "{put:?}");
        digest
    }
}
