//! What a collector of OpenTelemetry is sent about runs: spans and metrics over OTLP, by the names of
//! the conventions.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::collector::{Received, attributes};
use crate::observing::free_port;
use crate::process::{Ended, Process, Signal};
use crate::web::Web;
use crate::workspace::Workspace;

/// The variable that demands contents.
const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

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

/// A team whose model calls a tool, which fails at first, and then answers.
pub const LOOP: &str = r#"
schema = "strata.team/1"
[team]
name = "looker"
idea = "look around"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "Eye"
watch = ["UserRequirement"]
react = "tools"
[[role.action]]
name = "look"
component = "probe.wasm"
config = { steps = [{ fail = "retryable", attempts = [1] }, { say = "looked {arguments}" }] }
[role.action.limits]
retries = 1
backoff = "1ms"
"#;
/// The replies of its model.
pub const LOOP_REPLIES: &str = r#"
[[reply]]
turn = 0
input = 100
output = 10
tool_calls = [{ name = "look", arguments = { n = 1 } }]
[[reply]]
turn = 1
input = 120
output = 20
text = "one was seen"
"#;

/// Checks attributes of a span.
#[track_caller]
pub fn check(span: &Span, expected: &[(&str, &str)]) {
    let found = attributes(span);
    for (key, value) in expected {
        assert_eq!(
            found.get(*key).map(String::as_str),
            Some(*value),
            "{key}: {found:?}"
        );
    }
}

fn place() -> Workspace {
    let place = Workspace::with(TEAM);
    place.write(
        "replies.toml",
        "[[reply]]\ntext = \"two\"\ninput = 1000\noutput = 1000\n",
    );
    place
}

/// Returns the place of the team whose model calls a tool.
pub fn looker() -> Workspace {
    let place = Workspace::with(LOOP);
    place.write("replies.toml", LOOP_REPLIES);
    place
}

/// Returns the address of a server as a collector.
pub fn endpoint(web: &Web) -> String {
    format!("http://127.0.0.1:{}", web.port())
}

/// Runs the host with variables.
fn with_variables(place: &Workspace, args: &[&str], variables: &[(&str, &str)]) -> Process {
    let mut command = place.command(args);
    command
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        .envs(variables.iter().copied());
    Process::spawn(command)
}

/// Runs the host with a collector.
pub fn traced(place: &Workspace, endpoint: &str, args: &[&str]) -> Process {
    with_variables(place, args, &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)])
}

/// The arguments of a run.
pub const RUN: [&str; 4] = ["run", "team.toml", "--storage", "store"];

#[test]
fn a_collector_is_sent_spans_by_the_names_of_the_conventions_and_one_trace_over_resumes() {
    let (place, web) = (place(), Web::new());
    traced(&place, &endpoint(&web), &RUN).end().expect(3);
    let first = Received::at(&web);
    assert!(first.services.iter().all(|name| name == "strata-host"));
    let run_id = place.recorded()[0]["run"].as_str().unwrap().to_owned();
    let chat = first.span("chat default");
    let way = [
        "chat default",
        "A.Pay",
        "invoke_agent A",
        "step",
        "invoke_workflow watched",
    ];
    assert_eq!(first.ancestors(chat), way);
    // The kind of requests to others.
    assert_eq!(chat.kind, 3);
    check(
        chat,
        &[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "scripted"),
            ("gen_ai.request.model", "default"),
            ("gen_ai.response.finish_reasons", "[\"stop\"]"),
            ("gen_ai.usage.input_tokens", "1000"),
            ("gen_ai.usage.output_tokens", "1000"),
            ("gen_ai.conversation.id", &run_id),
            ("strata.cost_usd", "0.02"),
        ],
    );
    let failed = first.span("A.Fail");
    check(
        failed,
        &[
            ("strata.outcome", "failed"),
            ("error.type", "error"),
            ("strata.attempt", "1"),
        ],
    );
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    let run = first.span("invoke_workflow watched");
    check(
        run,
        &[
            ("gen_ai.operation.name", "invoke_workflow"),
            ("gen_ai.agent.name", "watched"),
            ("strata.status", "failed"),
        ],
    );
    no_content(&first, &["how much?", "two", "lost"]);

    // A resume continues the trace, and serves the recorded reply without another request.
    let again = [
        "run",
        "--recover_path",
        "store",
        "--keep-alive",
        "--events",
        "-",
    ];
    let mut host = traced(&place, &endpoint(&web), &again);
    host.until("request-opened", None);
    host.signal(Signal::INT);
    host.end().expect(4);
    traced(&place, &endpoint(&web), &["run", "--recover_path", "store"])
        .end()
        .expect(4);
    let all = Received::at(&web);
    let trace = &run.trace_id;
    assert!(all.spans.iter().all(|span| span.trace_id == *trace));
    let runs = all.all("invoke_workflow watched");
    let statuses: Vec<_> = runs
        .iter()
        .map(|run| attributes(run)["strata.status"].clone())
        .collect();
    assert_eq!(statuses, ["failed", "waiting", "waiting"]);
    all.span("chat default");
    check(all.span("Quoted \"B\".Ask"), &[("strata.outcome", "asked")]);
}

/// Checks that none of these texts is in an attribute, an event or the name of a span.
fn no_content(received: &Received, texts: &[&str]) {
    for span in &received.spans {
        let all = format!("{span:?}");
        for text in texts {
            assert!(!all.contains(text), "`{text}` in {all}");
        }
    }
}

#[test]
fn tool_calls_are_spans_and_metrics_agree_with_the_spans() {
    let (place, web) = (looker(), Web::new());
    traced(&place, &endpoint(&web), &RUN).end().expect(0);
    let received = Received::at(&web);
    let attempts = received.all("execute_tool look");
    let outcomes: Vec<_> = attempts
        .iter()
        .map(|span| attributes(span)["strata.outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["failed", "finished"]);
    check(attempts[0], &[("error.type", "error")]);
    let way = [
        "execute_tool look",
        "invoke_agent Eye",
        "step",
        "invoke_workflow looker",
    ];
    for attempt in &attempts {
        assert_eq!(received.ancestors(attempt), way);
        check(
            attempt,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "look"),
                ("gen_ai.tool.type", "function"),
                ("gen_ai.agent.name", "Eye"),
            ],
        );
        assert!(attributes(attempt).contains_key("gen_ai.tool.call.id"));
    }
    let chats = received.all("chat default");
    assert_eq!(chats.len(), 2);
    assert_eq!(received.ancestors(chats[0])[1], "invoke_agent Eye");
    check(
        chats[0],
        &[("gen_ai.response.finish_reasons", "[\"tool_call\"]")],
    );
    no_content(&received, &["one was seen", "looked", "look around"]);

    let inference = received.points("gen_ai.client.inference.duration");
    assert_eq!(inference.iter().map(|point| point.count).sum::<u64>(), 2);
    assert_eq!(inference[0].attributes["gen_ai.provider.name"], "scripted");
    assert_eq!(
        received.sum("gen_ai.client.inference.usage.input_tokens"),
        220.0
    );
    assert_eq!(
        received.sum("gen_ai.client.inference.usage.output_tokens"),
        30.0
    );
    let tools = received.points("gen_ai.execute_tool.duration");
    let failed = tools
        .iter()
        .filter(|point| point.attributes.contains_key("error.type"));
    assert_eq!((tools.len(), failed.count()), (2, 1));
    // Older names are exported on demand only.
    for old in [
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
    ] {
        assert!(!received.metrics.contains_key(old), "{old}");
    }
}

#[test]
fn a_team_names_its_collector_and_asks_for_older_names() {
    let web = Web::new();
    let settings = format!(
        "\n[telemetry]\nendpoint = \"{}\"\ncompat = true\n",
        endpoint(&web)
    );
    let place = looker();
    place.write("team.toml", LOOP.to_owned() + &settings);
    with_variables(&place, &RUN, &[]).end().expect(0);
    let received = Received::at(&web);
    let chats = received.all("chat default");
    check(
        chats[0],
        &[("gen_ai.usage.cache_creation.input_tokens", "0")],
    );
    assert_eq!(received.sum("gen_ai.client.token.usage"), 250.0);
    let kinds = received.points("gen_ai.client.token.usage").iter();
    let kinds: Vec<_> = kinds
        .map(|point| point.attributes["gen_ai.token.type"].as_str())
        .collect();
    assert!(
        kinds.contains(&"input") && kinds.contains(&"output"),
        "{kinds:?}"
    );
    assert!(
        received
            .metrics
            .contains_key("gen_ai.client.operation.duration")
    );
    assert!(
        received
            .metrics
            .contains_key("gen_ai.client.inference.duration")
    );
    // The variable takes precedence, and a team that is refused is told where.
    let other = Web::new();
    traced(
        &place,
        &endpoint(&other),
        &["run", "team.toml", "--storage", "other"],
    )
    .end()
    .expect(0);
    assert_eq!(Received::at(&web).spans.len(), received.spans.len());
    Received::at(&other).span("invoke_workflow looker");
    let wrong = LOOP.to_owned() + "\n[telemetry]\nendpoint = \"collector:4317\"\n";
    place.write("team.toml", wrong);
    let said = place.host(&["check", "team.toml"]).expect(2).stderr;
    assert!(
        said.contains("team.toml:") && said.contains("collector:4317"),
        "{said}"
    );
}

#[test]
fn the_span_of_a_request_names_its_server_and_why_it_failed() {
    let models = Web::new();
    let spans = |path: &str, code: i32| {
        let (place, web) = (place(), Web::new());
        let base = format!("http://127.0.0.1:{}/v1/{path}", models.port());
        let endpoint_of_model =
            format!("provider = \"openai\"\nbase_url = \"{base}\"\nmodel = \"m\"\nretries = 0");
        let text = TEAM.replace(
            "provider = \"scripted\"\nreplies = \"replies.toml\"",
            &endpoint_of_model,
        );
        place.write("team.toml", text);
        traced(&place, &endpoint(&web), &RUN).end().expect(code);
        Received::at(&web)
    };
    let port = models.port().to_string();
    let answered = spans("", 3);
    check(
        answered.span("chat m"),
        &[
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "m"),
            ("gen_ai.response.id", "reply-1"),
            ("server.address", "127.0.0.1"),
            ("server.port", &port),
            ("gen_ai.usage.input_tokens", "1000"),
        ],
    );
    let refused = spans("later/", 3);
    let chat = refused.span("chat m");
    check(
        chat,
        &[("http.response.status_code", "429"), ("error.type", "host")],
    );
    assert_eq!(chat.status.as_ref().unwrap().code, 2);
    check(refused.span("A.Pay"), &[("error.type", "host")]);
}

#[test]
fn contents_are_exported_only_on_demand() {
    let (place, web) = (looker(), Web::new());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&web)),
        (CAPTURE, "true"),
    ];
    with_variables(&place, &RUN, &variables).end().expect(0);
    let received = Received::at(&web);
    let finished = received.all("execute_tool look")[1];
    check(
        finished,
        &[
            ("gen_ai.tool.call.arguments", "{\"n\":1}"),
            ("gen_ai.tool.call.result", "looked {\"n\":1}"),
        ],
    );
    let last = received.all("chat default")[1];
    let said = attributes(last);
    for (key, part) in [
        ("gen_ai.input.messages", "looked {"),
        ("gen_ai.input.messages", "look around"),
        ("gen_ai.output.messages", "one was seen"),
    ] {
        assert!(said[key].contains(part), "{key}: {}", said[key]);
        let document: serde_json::Value = serde_json::from_str(&said[key]).unwrap();
        assert!(document[0]["role"].is_string() && document[0]["parts"].is_array());
    }
}

#[test]
fn spans_that_the_sampler_leaves_out_are_counted() {
    let (place, web) = (looker(), Web::new());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&web)),
        ("OTEL_TRACES_SAMPLER", "always_off"),
    ];
    with_variables(&place, &RUN, &variables).end().expect(0);
    let received = Received::at(&web);
    assert!(received.spans.is_empty(), "{:?}", received.names());
    assert_eq!(
        received.sum("gen_ai.client.inference.usage.input_tokens"),
        220.0
    );
    let metrics_off = Web::new();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&metrics_off)),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    let other = ["run", "team.toml", "--storage", "other"];
    with_variables(&place, &other, &variables).end().expect(0);
    let received = Received::at(&metrics_off);
    assert!(received.metrics.is_empty());
    received.span("invoke_workflow looker");
}

#[test]
fn an_unavailable_collector_changes_nothing_and_is_reported_once() {
    let web = Web::new();
    let hangs = format!("http://127.0.0.1:{}/v1/once", web.port());
    let begun = Instant::now();
    let plain = place();
    plain.host(&RUN).expect(3);
    let usual = begun.elapsed();
    let events = |place: &Workspace| {
        let kinds = place.recorded().into_iter();
        kinds.map(|line| line["kind"].clone()).collect::<Vec<_>>()
    };
    for endpoint in [
        format!("http://127.0.0.1:{}", free_port()),
        hangs,
        format!("http://127.0.0.1:{}/v1/fail/1000", web.port()),
    ] {
        let place = place();
        let begun = Instant::now();
        let ended = traced(&place, &endpoint, &RUN).end().expect(3);
        let took = begun.elapsed();
        // Two seconds at the end, and what a busy machine adds.
        assert!(
            took < usual * 2 + Duration::from_secs(4),
            "{endpoint}: {took:?}, usually {usual:?}"
        );
        assert_eq!(events(&place), events(&plain), "{endpoint}");
        let warnings = ended.stderr.matches("telemetry does not reach").count();
        assert!(warnings <= 1, "{}", ended.stderr);
    }
    let place = place();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint(&web)),
        ("OTEL_SDK_DISABLED", "true"),
    ];
    let before = web.lines().len();
    with_variables(&place, &RUN, &variables).end().expect(3);
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
    let args = ["run", "team.toml", "--storage", "store", "--events", "-"];
    let mut host = traced(&place, &endpoint(&web), &args);
    let asked = host.until("request-opened", Some("Asks"));
    host.until("action-started", Some("Long"));
    let id = asked["request"].as_str().unwrap();
    place
        .host(&["answer", "store", &format!("{id}=so")])
        .expect(0);
    host.end().expect(0);
    let received = Received::at(&web);
    let attempts = received.all("Asks.act").into_iter();
    let steps: Vec<_> = attempts
        .map(|span| {
            let way = ["Asks.act", "invoke_agent Asks", "step", "invoke_workflow t"];
            assert_eq!(received.ancestors(span), way);
            let parent = |other: &&Span| other.span_id == span.parent_span_id;
            let parent = received.spans.iter().find(parent).unwrap();
            attributes(parent)["strata.step"].clone()
        })
        .collect();
    assert_eq!(steps, ["0", "1"]);
}

#[test]
fn the_credentials_in_a_collectors_address_are_not_shown() {
    let place = place();
    let endpoint = format!(
        "http://me:s3cretpw@127.0.0.1:{}/v1?token=s3cretpw",
        free_port()
    );
    let check = |ended: Ended, part: &str| {
        let said = ended.stderr;
        assert!(said.contains(part) && !said.contains("s3cretpw"), "{said}");
    };
    check(
        traced(&place, &endpoint, &RUN).end().expect(3),
        "telemetry does not reach",
    );
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
    ];
    let other = ["run", "team.toml", "--storage", "other"];
    check(with_variables(&place, &other, &variables).end(), "gRPC");
}
