//! A client of the Model Context Protocol, for tests of `strata-host mcp`: it starts the server, writes
//! messages to it as lines, and checks each line that comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for a message. The slowest one compiles a component on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The newest revision of the protocol.
pub const NEWEST: &str = "2026-07-28";
/// The older revisions.
pub const OLDER: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// A client with its server.
pub struct McpClient {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: JoinHandle<String>,
    revision: &'static str,
    capabilities: Value,
    next_id: u64,
    /// The requests and notifications that came from the server.
    pub received: Vec<Value>,
    /// What is answered to the server's requests, in order.
    pub answers: Vec<Value>,
}

impl McpClient {
    /// Starts a server, and opens a session with this revision. The client can be asked by forms.
    pub fn start(command: Command, revision: &'static str) -> Self {
        Self::start_with(command, revision, json!({ "elicitation": { "form": {} } }))
    }

    /// Starts a server for a client with these capabilities.
    pub fn start_with(mut command: Command, revision: &'static str, capabilities: Value) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.expect("stdout is text");
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().expect("a pipe");
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut client = Self {
            input: child.stdin.take(),
            child,
            lines,
            stderr,
            revision,
            capabilities,
            next_id: 1,
            received: Vec::new(),
            answers: Vec::new(),
        };
        if revision != NEWEST {
            client.initialize();
        }
        client
    }

    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": { "name": "tests", "version": "1" },
        });
        let opened = self.request("initialize", params);
        assert_eq!(opened["result"]["protocolVersion"], self.revision);
        self.notify("notifications/initialized", json!({}));
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        let params = self.with_meta(params);
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let params = self.with_meta(params);
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a request, and returns the response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    /// Calls a tool, and returns the response.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request(
            "tools/call",
            json!({ "name": tool, "arguments": arguments }),
        )
    }

    /// Calls a tool with an idempotency key, and returns the response.
    pub fn call_with_key(&mut self, tool: &str, arguments: Value, key: &str) -> Value {
        let meta = json!({ "strata/idempotency-key": key });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        self.request("tools/call", params)
    }

    /// Reads messages until the response to a request comes. Requests of the server get the next of the
    /// answers.
    pub fn response(&mut self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
            if message.get("method").is_some() && message.get("id").is_some() {
                assert!(!self.answers.is_empty(), "nobody answers {message}");
                let result = self.answers.remove(0);
                self.write(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
            }
            self.received.push(message);
        }
    }

    /// Reads messages until the server sends this request or notification, which is returned and not answered.
    pub fn until(&mut self, method: &str) -> Value {
        loop {
            let message = self.next();
            if message["method"] == method {
                return message;
            }
            self.received.push(message);
        }
    }

    fn next(&mut self) -> Value {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no message came"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server has ended"),
        };
        parse_message(&line)
    }

    /// Writes a message as it is.
    pub fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("the input is open");
        writeln!(input, "{message}").expect("the server reads");
        input.flush().expect("the server reads");
    }

    /// Kills the server with `SIGKILL`.
    pub fn kill(mut self) {
        self.child.kill().expect("it was not waited for");
        self.child.wait().expect("it ends");
    }

    /// Closes the input and waits for the end. Returns how long that took and what was written to
    /// stderr. What still comes on stdout has to belong to the protocol.
    pub fn end(mut self) -> EndedServer {
        drop(self.input.take());
        let begun = Instant::now();
        let status = self.child.wait().expect("it ends");
        let took = begun.elapsed();
        for line in self.lines.iter() {
            parse_message(&line);
        }
        let stderr = self.stderr.join().expect("stderr is read");
        EndedServer {
            status,
            took,
            stderr,
        }
    }

    fn with_meta(&self, mut params: Value) -> Value {
        if self.revision == NEWEST {
            let own = "io.modelcontextprotocol/";
            let meta = &mut params["_meta"];
            meta[format!("{own}protocolVersion")] = NEWEST.into();
            meta[format!("{own}clientInfo")] = json!({ "name": "tests", "version": "1" });
            meta[format!("{own}clientCapabilities")] = self.capabilities.clone();
        }
        params
    }
}

/// A server that has ended.
pub struct EndedServer {
    /// How it ended.
    pub status: ExitStatus,
    /// How long that took after the end of the input.
    pub took: Duration,
    /// Its stderr.
    pub stderr: String,
}

impl EndedServer {
    /// Checks that it ended by itself and in time.
    pub fn expect_orderly(&self) {
        assert_eq!(self.status.code(), Some(0), "{}", self.stderr);
        assert!(self.took < Duration::from_secs(5), "{:?}", self.took);
    }
}

fn parse_message(line: &str) -> Value {
    let message: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
    assert_eq!(message["jsonrpc"], "2.0", "no message: {line}");
    message
}
