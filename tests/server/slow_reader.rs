//! A reader of a stream that takes nothing: its connection is broken off, although what was written to it waits in the
//! kernel, and it continues by the id of its last message.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::client::{OpenStream, StreamMessage, TestServer};

/// How many roles the team has that say the same text, and of how many random bytes it is: all of it is more than is buffered
/// anywhere.
const ROLES: usize = 12;
const BYTES: usize = 60_000;
const TIMES: usize = 8;
/// Within which time a reader has to take what waits for it, and how long the server may take until as much waits as may.
const READ_TIME: Duration = Duration::from_secs(30);
const FILL_TIME: Duration = Duration::from_secs(30);

fn team() -> String {
    let mut team = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n".to_owned();
    for n in 0..ROLES {
        let watch = match n {
            0 => "UserRequirement".to_owned(),
            _ => format!("a{}", n - 1),
        };
        let steps = match n {
            0 => format!("{{ random = {BYTES} }}, ").repeat(TIMES) + "{ say = \"{reads}\" }",
            _ => "{ say = \"{inputs}\" }".to_owned(),
        };
        team += &format!(
            "[[role]]\nname = \"R{n}\"\nwatch = [\"{watch}\"]\n[[role.action]]\nname = \"a{n}\"\n\
             component = \"probe.wasm\"\n\
             config = {{ steps = [{steps}] }}\n"
        );
    }
    team
}

/// Opens a stream, takes nothing of it for a while, and prints what comes then until the connection is closed. The system
/// keeps little for it.
const READER: &str = r#"
import socket, sys, time
port, token, path, pause = sys.argv[1:]
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
connection.connect(("127.0.0.1", int(port)))
head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\r\n"
connection.sendall(head.encode())
time.sleep(float(pause))
connection.settimeout(20)
while True:
    try:
        piece = connection.recv(65536)
    except ConnectionResetError:
        break
    if not piece:
        break
    sys.stdout.buffer.write(piece)
"#;

fn messages(mut stream: OpenStream) -> Vec<StreamMessage> {
    std::iter::from_fn(|| stream.next_message()).collect()
}

#[test]
fn a_reader_that_takes_nothing_is_cut_off_and_continues_by_id() {
    let server = TestServer::start(&team());
    let token = &server.token;
    server.submit(token, json!({ "name": "one" }));
    server.until(token, "/v1/runs/one", |run| run["status"] == "done");
    let path = "/v1/runs/one/events";
    let all = messages(server.open_stream(token, path));
    assert_eq!(all.last().unwrap().name, "end");
    let pause = (READ_TIME + FILL_TIME).as_secs().to_string();
    let mut reader = Command::new("python3");
    reader.args(["-c", READER, &server.port.to_string(), token, path, &pause]);
    let read = reader.output().unwrap();
    let errors = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "it was not cut off: {errors}");
    let mut taken = messages(OpenStream::of_bytes(read.stdout));
    let sizes = [&taken, &all]
        .map(|messages| -> usize { messages.iter().map(|message| message.data.len()).sum() });
    assert!(sizes[0] > 0 && sizes[0] < sizes[1], "{sizes:?}");
    let last = taken.last().unwrap().id.clone();
    taken.extend(messages(server.open_stream_after(token, path, Some(&last))));
    assert!(taken == all, "{} of {}", taken.len(), all.len());
}
