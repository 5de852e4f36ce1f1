//! Observing runs from outside: metrics for Prometheus, and traces for an OpenTelemetry collector.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::process::{Process, Signal};
use crate::web::Web;
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

/// Runs the host with a collector.
fn traced(place: &Workspace, endpoint: &str, args: &[&str]) -> Process {
    let mut command = place.command(args);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test");
    Process::spawn(command)
}

/// Returns the spans that a collector received, and the names of the services that sent them.
fn spans(web: &Web) -> (Vec<Span>, Vec<String>) {
    let (mut spans, mut services) = (Vec::new(), Vec::new());
    for request in web.requests() {
        assert_eq!(request.line, "POST /v1/traces");
        assert_eq!(
            request.header("content-type"),
            Some("application/x-protobuf")
        );
        let sent = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
        for resource in sent.resource_spans {
            let attributes = resource.resource.unwrap().attributes;
            let value = |key: &str| {
                let found = attributes.iter().find(|attribute| attribute.key == key)?;
                text(found.value.clone()?.value?)
            };
            services.extend(value("service.name"));
            assert_eq!(value("deployment.environment").as_deref(), Some("test"));
            spans.extend(
                resource
                    .scope_spans
                    .into_iter()
                    .flat_map(|scope| scope.spans),
            );
        }
    }
    (spans, services)
}

fn text(value: Any) -> Option<String> {
    match value {
        Any::StringValue(text) => Some(text),
        Any::IntValue(number) => Some(number.to_string()),
        Any::DoubleValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let one = |attribute: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        Some((
            attribute.key.clone(),
            text(attribute.value.clone()?.value?)?,
        ))
    };
    span.attributes.iter().filter_map(one).collect()
}

/// Returns the names of a span and of its ancestors, innermost first.
fn ancestors(spans: &[Span], span: &Span) -> Vec<String> {
    let mut way = vec![span.name.clone()];
    let mut at = span;
    while let Some(parent) = spans
        .iter()
        .find(|other| other.span_id == at.parent_span_id)
    {
        way.push(parent.name.clone());
        at = parent;
    }
    way
}

#[test]
fn a_collector_is_sent_spans_of_run_step_activation_action_and_call() {
    let (place, web) = (place(), Web::new());
    let endpoint = format!("http://127.0.0.1:{}", web.port());
    traced(
        &place,
        &endpoint,
        &["run", "team.toml", "--storage", "store"],
    )
    .end()
    .expect(3);
    let (first, services) = spans(&web);
    assert!(
        !services.is_empty() && services.iter().all(|name| name == "strata-host"),
        "{services:?}"
    );
    let call = first
        .iter()
        .find(|span| span.name == "llm")
        .expect("a span of the call");
    assert_eq!(
        ancestors(&first, call),
        ["llm", "A.Pay", "activation", "step", "run"]
    );
    let said = attributes(call);
    for (key, value) in [
        ("what", "how much?"),
        ("source", "live"),
        ("outcome", "answered"),
        ("tokens", "2000"),
    ] {
        assert_eq!(said.get(key).map(String::as_str), Some(value), "{said:?}");
    }
    let failed = first
        .iter()
        .find(|span| span.name == "A.Fail")
        .expect("a span of the action");
    let said = attributes(failed);
    assert_eq!(
        (
            said["outcome"].as_str(),
            said["fault"].as_str(),
            said["attempt"].as_str()
        ),
        ("failed", "error", "1")
    );
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    let run = first
        .iter()
        .find(|span| span.name == "run")
        .expect("a span of the run");
    assert_eq!(attributes(run)["status"], "failed");

    check_resume(&place, &web, &endpoint, &run.trace_id);
}

/// Checks that a resume continues the trace and exports the spans that the stop left open.
fn check_resume(place: &Workspace, web: &Web, endpoint: &str, trace: &[u8]) {
    let mut host = traced(
        place,
        endpoint,
        &[
            "run",
            "--recover_path",
            "store",
            "--keep-alive",
            "--events",
            "-",
        ],
    );
    host.until("request-opened", None);
    host.signal(Signal::INT);
    host.end().expect(4);
    let (all, _) = spans(web);
    assert!(all.iter().all(|span| span.trace_id == trace), "{all:?}");
    let runs: Vec<_> = all.iter().filter(|span| span.name == "run").collect();
    assert_eq!(
        (runs.len(), attributes(runs[1])["status"].as_str()),
        (2, "waiting")
    );
    let asked = all
        .iter()
        .find(|span| span.name == "Quoted \"B\".Ask")
        .expect("a span of the action that asks");
    assert_eq!(attributes(asked)["outcome"], "asked");
}

#[test]
fn an_unavailable_collector_neither_fails_nor_delays_a_run() {
    let web = Web::new();
    let hangs = format!("http://127.0.0.1:{}/v1/once", web.port());
    for endpoint in [format!("http://127.0.0.1:{}", free_port()), hangs] {
        let place = place();
        traced(
            &place,
            &endpoint,
            &["run", "team.toml", "--storage", "store"],
        )
        .end()
        .expect(3);
        let plain = place.host(&["events", "store"]).expect(0).stdout;
        assert!(plain.contains("\"action-failed\""));
    }
    let place = place();
    let mut command = place.command(&["run", "team.toml", "--storage", "store"]);
    command
        .env(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            format!("http://127.0.0.1:{}", web.port()),
        )
        .env("OTEL_SDK_DISABLED", "true");
    let before = web.lines().len();
    Process::spawn(command).end().expect(3);
    assert_eq!(web.lines().len(), before);
}

#[test]
fn an_action_that_continues_with_an_answer_in_a_later_step_has_spans_there() {
    let role = |name: &str, watch: &str, steps: &str| {
        format!(
            "[[role]]\nname = '{name}'\nwatch = ['{watch}']\n[[role.action]]\nname = 'act'\ncomponent = 'probe.wasm'\n\
             config = {{ steps = [{steps}] }}\n"
        )
    };
    let head = "schema = 'strata.team/1'\n[team]\nname = 't'\nidea = 'go'\n".to_owned();
    let (asks, works) = ("{ ask = 'why?' }", "{ say = 'x', to = ['Long'] }");
    let roles = role("Asks", "UserRequirement", asks) + &role("Works", "UserRequirement", works);
    let place = Workspace::with(&(head + &roles + &role("Long", "nothing", "{ sleep = '3s' }")));
    let web = Web::new();
    let endpoint = format!("http://127.0.0.1:{}", web.port());
    let mut host = traced(
        &place,
        &endpoint,
        &["run", "team.toml", "--storage", "store", "--events", "-"],
    );
    let asked = host.until("request-opened", Some("Asks"));
    host.until("action-started", Some("Long"));
    let id = asked["request"].as_str().unwrap();
    place
        .host(&["answer", "store", &format!("{id}=so")])
        .expect(0);
    host.end().expect(0);
    let (all, _) = spans(&web);
    let attempts: Vec<_> = all.iter().filter(|span| span.name == "Asks.act").collect();
    let told: Vec<_> = attempts
        .iter()
        .map(|span| (attributes(span)["step"].clone(), ancestors(&all, span)))
        .collect();
    let expected = ["Asks.act", "activation", "step", "run"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(
        told,
        [
            ("0".to_owned(), expected.clone()),
            ("1".to_owned(), expected)
        ]
    );
}

#[test]
fn the_credentials_in_a_collectors_address_are_not_shown() {
    let place = place();
    let endpoint = format!(
        "http://me:s3cretpw@127.0.0.1:{}/v1?token=s3cretpw",
        free_port()
    );
    let ended = traced(
        &place,
        &endpoint,
        &["run", "team.toml", "--storage", "store"],
    )
    .end()
    .expect(3);
    assert!(
        ended.stderr.contains("traces do not reach") && !ended.stderr.contains("s3cretpw"),
        "{}",
        ended.stderr
    );
    let mut command = place.command(&["run", "team.toml", "--storage", "other"]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    let ended = Process::spawn(command).end();
    assert!(
        ended.stderr.contains("gRPC") && !ended.stderr.contains("s3cretpw"),
        "{}",
        ended.stderr
    );
}
