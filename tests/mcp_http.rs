//! Teams as tools of MCP clients over HTTP: who may connect, sessions, and connections that are closed;
//! and a client that others wrote.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp_client::{NEWEST, OLDER};
use crate::mcp_server::{ASKS, team, text};
use crate::observing::free_port;
use crate::process::{Process, Signal};
use crate::pypi::environment_with;
use crate::web::Web;
use crate::workspace::Workspace;

/// How long a test waits for a server to listen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server at a port of this machine.
pub struct Served {
    process: Process,
    pub port: u16,
}

/// A response over HTTP.
#[derive(Debug)]
struct HttpResponse {
    status: u16,
    head: String,
    /// The messages in the body, whether it is a document or a stream of events.
    messages: Vec<Value>,
}

impl Served {
    /// Starts a server, and waits until it listens.
    pub fn start(place: &Workspace, more: &[&str]) -> Self {
        let port = free_port();
        let address = format!("127.0.0.1:{port}");
        let args = [
            "mcp",
            "team.toml",
            "--storage",
            "runs",
            "--listen",
            &address,
        ];
        let process = place.start(&[&args[..], more].concat());
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Self { process, port }
    }

    /// Sends a message of the newest revision. `headers` replace those with the same names.
    fn post(&self, headers: &[(&str, &str)], message: &Value) -> HttpResponse {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let name = message["params"]["name"].as_str().map(str::to_owned);
        let host = format!("127.0.0.1:{}", self.port);
        let mut all = vec![
            ("host", host.as_str()),
            ("mcp-protocol-version", NEWEST),
            ("mcp-method", &method),
        ];
        if let Some(name) = &name {
            all.push(("mcp-name", name));
        }
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
        self.exchange("POST", &all, &message.to_string())
    }

    fn exchange(&self, method: &str, headers: &[(&str, &str)], body: &str) -> HttpResponse {
        let mut stream = self.send(method, headers, body);
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a response");
        HttpResponse::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Sends a request and returns the connection.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        let mut request = format!("{method} /mcp HTTP/1.1\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        request += &format!(
            "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    /// Ends the server by a signal, and checks that it ends in time.
    pub fn end(self) {
        self.process.signal(Signal::TERM);
        let begun = Instant::now();
        self.process.end().expect(0);
        assert!(begun.elapsed() < Duration::from_secs(8));
    }
}

impl HttpResponse {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let lines = body
            .lines()
            .map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let messages = lines.filter_map(|line| serde_json::from_str(line).ok());
        Self {
            status: status.unwrap_or_else(|| panic!("no response: {text}")),
            messages: messages.filter(Value::is_object).collect(),
            head: head.to_lowercase(),
        }
    }

    /// Returns the response to a request.
    fn answer(&self) -> &Value {
        let mut answers = self.messages.iter();
        let found =
            answers.find(|message| message.get("result").or(message.get("error")).is_some());
        found.unwrap_or_else(|| panic!("{self:?}"))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Returns a request of the newest revision.
fn request(method: &str, mut params: Value) -> Value {
    let own = "io.modelcontextprotocol/";
    params["_meta"][format!("{own}protocolVersion")] = NEWEST.into();
    params["_meta"][format!("{own}clientInfo")] = json!({ "name": "tests", "version": "1" });
    params["_meta"][format!("{own}clientCapabilities")] = json!({});
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn call(idea: &str) -> Value {
    request(
        "tools/call",
        json!({ "name": "press", "arguments": { "idea": idea } }),
    )
}

#[test]
fn a_team_is_called_over_http_by_those_who_may() {
    let place = Workspace::with(&team(r#"{ say = "told {inputs}" }"#));
    let served = Served::start(&place, &[]);
    let listed = served.post(&[], &request("tools/list", json!({})));
    assert_eq!(listed.status, 200, "{listed:?}");
    assert_eq!(listed.answer()["result"]["tools"][0]["name"], "press");
    let done = served.post(&[], &call("one"));
    assert_eq!(text(done.answer()), "told one");

    let local = format!("http://127.0.0.1:{}", served.port);
    for (headers, status) in [
        (vec![("host", "evil.example")], 421),
        (vec![("host", "127.0.0.1:1")], 421),
        (vec![("origin", "http://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", local.as_str())], 200),
    ] {
        let answered = served.post(&headers, &request("tools/list", json!({})));
        assert_eq!(answered.status, status, "{headers:?}");
    }
    served.end();
}

#[test]
fn a_token_is_asked_for_and_other_addresses_need_one() {
    let place = Workspace::with(&team(r#"{ say = "x" }"#));
    let open = ["mcp", "team.toml", "--listen", "0.0.0.0:0"];
    let refused = place.host(&open);
    let said = refused.expect(2).stderr;
    assert!(said.contains("--token-file"), "{said}");

    place.write("token", "letmein\n");
    let served = Served::start(&place, &["--token-file", "token"]);
    let list = request("tools/list", json!({}));
    for (authorization, status) in [
        ("", 401),
        ("Bearer letmeout", 401),
        ("Basic letmein", 401),
        ("Bearer letmein", 200),
    ] {
        let answered = served.post(&[("authorization", authorization)], &list);
        assert_eq!(answered.status, status, "{authorization}");
    }
    served.end();
}

#[test]
fn an_older_client_has_a_session() {
    let place = Workspace::with(&team(r#"{ say = "told {inputs}" }"#));
    let served = Served::start(&place, &[]);
    for revision in OLDER {
        let params = json!({
            "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" },
        });
        let initialize =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let host = format!("127.0.0.1:{}", served.port);
        let plain = [("host", host.as_str())];
        let opened = served.exchange("POST", &plain, &initialize.to_string());
        assert_eq!(opened.answer()["result"]["protocolVersion"], revision);
        let session = opened
            .header("mcp-session-id")
            .expect("a session")
            .to_owned();
        let with = [
            ("host", host.as_str()),
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", revision),
        ];
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let accepted = served.exchange("POST", &with, &ready.to_string());
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let params = json!({ "name": "press", "arguments": { "idea": revision } });
        let called = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let done = served.exchange("POST", &with, &called.to_string());
        assert_eq!(text(done.answer()), format!("told {revision}"));
        let unknown = [("host", host.as_str()), ("mcp-session-id", "unknown")];
        let unknown = served.exchange("POST", &unknown, &called.to_string());
        assert_eq!(unknown.status, 404, "{unknown:?}");
    }
    served.end();
}

#[test]
fn a_connection_that_is_closed_interrupts_the_run() {
    let web = Web::new();
    let url = format!("http://127.0.0.1:{}/v1/once/page", web.port());
    let grant = format!(
        r#"{{ host = "127.0.0.1:{}", methods = ["GET"], path = "/*" }}"#,
        web.port()
    );
    let steps = format!(r#"{{ http = "{url}" }}, {{ say = "went on" }}"#);
    let place = Workspace::with(&(team(&steps) + &format!("allow = {{ http = [{grant}] }}\n")));
    let served = Served::start(&place, &[]);
    let mut message = call("go");
    message["params"]["_meta"]["strata/idempotency-key"] = "k".into();
    let host = format!("127.0.0.1:{}", served.port);
    let headers = [
        ("host", host.as_str()),
        ("mcp-protocol-version", NEWEST),
        ("mcp-method", "tools/call"),
        ("mcp-name", "press"),
    ];
    let connection = served.send("POST", &headers, &message.to_string());
    web.wait(1);
    drop(connection);
    // The same key gets the same run, which is interrupted first.
    let done = served.post(&[], &message);
    assert_eq!(text(done.answer()), "went on", "{done:?}");
    assert_eq!(web.lines().len(), 2);
    served.end();
}

/// A client in the Python of the protocol's own SDK. It speaks the newest revision if the server does,
/// that revision without asking, and an older one.
const CLIENT: &str = r#"
import asyncio, json, sys
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

async def answer(context, params):
    print("asked", params.message.splitlines()[-1])
    return ElicitResult(action="accept", content={"n": 7})

async def use(server, mode):
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        result = await client.call_tool("press", {"idea": "go"})
        data = result.structured_content
        print(mode, [tool.name for tool in tools.tools], result.content[0].text, data["status"])

async def main():
    for mode in ["auto", "2026-07-28", "legacy"]:
        if sys.argv[1].startswith("http"):
            await use(sys.argv[1], mode)
        else:
            await use(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:]), mode)

asyncio.run(main())
"#;
/// What it prints.
const SAID: &str = "asked > how many?\nauto ['press'] answer {\"n\":7} done\n\
    asked > how many?\n2026-07-28 ['press'] answer {\"n\":7} done\n\
    asked > how many?\nlegacy ['press'] answer {\"n\":7} done\n";

#[test]
fn the_python_sdk_of_the_protocol_calls_a_team_that_asks() {
    let Some(environment) = environment_with("mcp", "from mcp import Client") else {
        return;
    };
    let python = environment.join("bin/python");
    let place = Workspace::with(&team(ASKS));
    place.write("client.py", CLIENT);
    let run = |words: &[&std::ffi::OsStr]| {
        let mut command = Command::new(&python);
        command
            .current_dir(place.path(""))
            .arg("client.py")
            .args(words);
        // The server finds the directories of the tests.
        for (name, value) in place.command(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = command.output().expect("python runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), SAID, "{errors}");
    };
    let serve = place.command(&["mcp", "team.toml", "--storage", "runs"]);
    let mut words = vec![serve.get_program()];
    words.extend(serve.get_args());
    run(&words);
    let served = Served::start(&place, &[]);
    let address = format!("http://127.0.0.1:{}/mcp", served.port);
    run(&[address.as_ref()]);
    served.end();
}
