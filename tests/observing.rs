//! Observing runs from outside: metrics for Prometheus. What a collector is sent is in `telemetry`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::process::Signal;
use crate::workspace::Workspace;

/// A team that makes a paid call, and then fails in its second action at first.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "watched"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
price = { input = 10.0, output = 10.0 }
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "Pay"
component = "probe.wasm"
config = { steps = [{ llm = "how much?" }, { emit = "lost", to = ["Nobody"] }] }
allow = { llm = { models = ["*"] } }
[[role.action]]
name = "Fail"
component = "probe.wasm"
config = { steps = [{ fail = "error", attempts = [1] }] }
[[role]]
name = "Quoted \"B\""
watch = ["Fail"]
[[role.action]]
name = "Ask"
component = "probe.wasm"
config = { steps = [{ now = true }, { ask = "well?" }] }
"#;

fn place() -> Workspace {
    let place = Workspace::with(TEAM);
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"two\"\ninput = 1000\noutput = 1000\n",
    );
    place
}

/// Returns a port on which nobody listens.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Sends a request and returns the response.
fn exchange(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // The connection is closed if the request is too large.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// Lines that the metrics of the team contain.
const SAMPLES: [&str; 12] = [
    "# TYPE strata_steps_total counter",
    "# TYPE strata_mailbox_messages gauge",
    "# TYPE strata_commit_duration_seconds histogram",
    "strata_steps_total 1",
    "strata_activations_total{role=\"Quoted \\\"B\\\"\"} 1",
    "strata_actions_total{role=\"A\",action=\"Fail\",outcome=\"finished\"} 1",
    "strata_actions_total{role=\"Quoted \\\"B\\\"\",action=\"Ask\",outcome=\"asked\"} 1",
    "strata_host_calls_total{kind=\"clock\",source=\"live\",outcome=\"answered\"} 1",
    "strata_dead_letters_total 1",
    "strata_open_requests 1",
    "strata_spent_dollars 0.02",
    "strata_mailbox_messages{role=\"A\"} 0",
];

#[test]
fn metrics_describe_a_run_and_nothing_else_is_served() {
    let place = place();
    let before = place.run().expect(3).events().len();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut host = place.start(&[
        "run",
        "--recover_path",
        "store",
        "--keep-alive",
        "--metrics",
        &address,
        "--events",
        "-",
    ]);
    host.until("request-opened", None);
    let shown = place.host(&["inspect", "store"]).expect(0).stdout;
    let mail = |role: &str| {
        shown.lines().find(|line| line.starts_with(role)).unwrap()[role.len()..].trim_start()[..1]
            .to_owned()
    };
    let recorded = &place.recorded()[before..];
    let events = format!("strata_events_total {}", recorded.len());
    let routed = recorded
        .iter()
        .filter(|line| line["kind"] == "message-routed")
        .count();
    let waits = format!(
        "strata_mailbox_messages{{role=\"Quoted \\\"B\\\"\"}} {}",
        mail("Quoted \"B\"")
    );
    let messages = format!("strata_messages_total {routed}");
    assert!(waits.ends_with(" 1") && routed == 1, "{shown}");
    let answer = exchange(port, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"),
        "{head}"
    );
    let found = |line: &str| text.lines().any(|found| found == line);
    for line in SAMPLES.iter().chain(&[&*waits, &messages, &events]) {
        assert!(found(line), "`{line}` is missing in\n{text}");
    }
    well_formed(text);
    check_server(port);
    host.signal(Signal::INT);
    host.end().expect(4);
}

/// Sends various requests to a server of metrics.
fn check_server(port: u16) {
    let check = |request: &str, status: &str| {
        let answer = exchange(port, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{request}: {answer}"
        );
    };
    let head = exchange(port, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200")
            && head.ends_with("\r\n\r\n")
            && head.contains("content-length: "),
        "{head}"
    );
    check("GET / HTTP/1.1\r\n\r\n", "404");
    check("POST /metrics HTTP/1.1\r\n\r\n", "405");
    check(
        &format!(
            "GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n",
            "x".repeat(10 << 10)
        ),
        "431",
    );
    // Incomplete requests do not block others, however many there are.
    let slow: Vec<TcpStream> = (0..7)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    check("GET /metrics HTTP/1.1\r\n\r\n", "200");
    drop(slow);
}

/// Checks that every sample is a number and belongs to a described family.
fn well_formed(text: &str) {
    let families: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(
            families.contains(&family) || families.contains(&name),
            "{line}"
        );
        assert!(
            line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
            "{line}"
        );
    }
}

#[test]
fn a_wrong_or_taken_address_for_metrics_is_refused_before_anything_runs() {
    let place = place();
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "--storage",
            "store",
            "--metrics",
            "nonsense",
        ])
        .expect(2);
    assert!(ended.stderr.contains("nonsense"), "{}", ended.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = place
        .host(&["run", "team.toml", "--storage", "store", "--metrics", &port])
        .expect(2);
    assert!(
        ended.stderr.contains("cannot serve metrics"),
        "{}",
        ended.stderr
    );
    assert!(!place.path("store").exists());
}
