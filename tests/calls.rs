//! Host calls that are killed: before they are made, while they are made, and after their answer is
//! recorded. A recorded call is not made again; any other call is. Questions to people are in
//! `requests`, writes also in `writes`, and parallel calls in `together`.

use std::fs;

use serde_json::Value;

use crate::process::Signal;
use crate::stream;
use crate::together::team_with_parallel_calls;
use crate::web::Web;
use crate::workspace::Workspace;

/// Creates a team of one action with grants for a server. Its models are at the path `way` of the
/// server.
pub fn team(web: &Web, way: &str, component: &str, config: &str) -> Workspace {
    let url = format!("http://127.0.0.1:{}/v1/{way}", web.port());
    let config = config.replace("URL", &url);
    Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[llm]\nprovider = \"openai\"\n\
         base_url = \"{url}\"\nmodel = \"m\"\nretries = 0\nprice = {{ input = 1000.0, output = 1000.0 }}\n\
         [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"p\"\n\
         component = \"{component}\"\nconfig = {{ {config} }}\n[role.action.allow]\nllm = {{ models = [\"*\"] }}\n\
         http = [{{ host = \"127.0.0.1:{}\", methods = [\"GET\", \"POST\"] }}]\n",
        web.port()
    ))
}

/// Returns the sources of all recorded calls, in order.
pub fn sources(place: &Workspace) -> Vec<String> {
    let lines = place.recorded();
    stream::of_kind(&lines, "host-call")
        .iter()
        .map(|line| stream::text(&line["source"]).to_owned())
        .collect()
}

pub fn output(place: &Workspace) -> String {
    let history = place.team_json()["env"]["history"]["storage"].clone();
    stream::text(&history[1]["content"]).to_owned()
}

pub fn total(place: &Workspace) -> f64 {
    place.team_json()["strata"]["budget"]["total"]
        .as_f64()
        .unwrap()
}

/// Each kind of call, and whether a server receives it.
const KINDS: [(&str, bool); 5] = [
    (r#"{ llm = "q" }"#, true),
    (r#"{ http = "URL/x" }"#, true),
    (r#"{ http = "URL/x", method = "POST" }"#, true),
    ("{ now = true }", false),
    ("{ random = 8 }", false),
];

/// A wait in the first attempt, during which it is killed.
const HALT: &str = r#"{ sleep = "60s", attempts = [1] }"#;

#[test]
fn a_kill_before_a_call_leaves_one_that_is_made_once() {
    for (call, seen) in KINDS {
        let web = Web::new();
        let steps = format!("steps = [{HALT}, {call}, {{ say = \"got {{reads}}\" }}]");
        let place = team(&web, "plain", "probe.wasm", &steps);
        let mut process = place.start_run(&[]);
        process.until("action-started", None);
        process.kill();
        assert_eq!(web.lines().len(), 0, "{call}");
        place.resume().expect(0);
        assert_eq!(
            (web.lines().len(), sources(&place).as_slice()),
            (usize::from(seen), &["live".to_owned()][..]),
            "{call}"
        );
    }
}

#[test]
fn a_kill_while_a_call_is_under_way_leaves_one_that_is_made_again_or_is_in_doubt() {
    for (call, _) in KINDS.iter().filter(|(_, seen)| *seen) {
        let web = Web::new();
        let place = team(
            &web,
            "once",
            "probe.wasm",
            &format!("steps = [{call}, {{ say = \"got {{reads}}\" }}]"),
        );
        let process = place.start(&["run", "team.toml", "--storage", "store"]);
        web.wait(1);
        process.kill();
        if call.contains("POST") {
            place.resume().expect(10);
            assert_eq!(web.lines().len(), 1, "{call}");
            place
                .host(&["run", "--recover_path", "store", "--in-doubt", "redo"])
                .expect(0);
        } else {
            place.resume().expect(0);
        }
        assert_eq!(
            (web.lines().len(), sources(&place).as_slice()),
            (2, &["live".to_owned()][..]),
            "{call}"
        );
        let (answer, cost) = if call.contains("llm") {
            ("got re: q", 2.0)
        } else {
            ("got /v1/once/x", 0.0)
        };
        assert_eq!(output(&place), answer, "{call}");
        // A call whose answer was lost counts with the amount that was reserved for it.
        assert!(
            total(&place) >= cost && (cost > 0.0) == (total(&place) > cost),
            "{call}: {}",
            total(&place)
        );
    }
}

/// Returns what the paid calls in the record cost together.
fn cost_of_calls(place: &Workspace) -> f64 {
    let lines = place.recorded();
    let calls = stream::of_kind(&lines, "host-call").into_iter();
    calls.map(|line| line["cost"].as_f64().unwrap()).sum()
}

/// Returns the amount before a text, e.g. 2.5 for `$2.5 of it`.
fn amount_before(shown: &str, text: &str) -> f64 {
    let before = shown.split(text).next().unwrap();
    let amount = before.rsplit('$').next().unwrap();
    let amount = amount.trim().replace(',', "");
    amount
        .parse()
        .unwrap_or_else(|_| panic!("`{amount}` in {shown}"))
}

#[test]
fn what_was_charged_for_an_answer_that_a_kill_lost_is_a_line_of_its_own_and_all_figures_add_up() {
    let web = Web::new();
    let steps = r#"steps = [{ llm = "first" }, { llm = "q" }, { say = "got {reads}" }]"#;
    let place = team(&web, "once", "probe.wasm", steps);
    // The first request is not answered before the kill.
    let process = place.start(&["run", "team.toml", "--storage", "store"]);
    web.wait(1);
    process.kill();
    let ended = place.resume().expect(0);
    let budget = place.team_json()["strata"]["budget"].clone();
    let (spent, lost) = (total(&place), budget["by"]["A/p"]["lost"].as_f64().unwrap());
    assert!(lost > 0.0, "{budget}");
    assert!(
        (spent - cost_of_calls(&place) - lost).abs() < 1e-9,
        "{budget}"
    );
    let by = budget["by"].as_object().unwrap();
    let sum: f64 = by.values().map(|part| part["usd"].as_f64().unwrap()).sum();
    assert!((sum - spent).abs() < 1e-9, "{budget}");

    // The end of the run, `inspect` and the report say the same.
    assert_eq!(amount_before(&ended.stderr, " is an estimate: "), lost);
    let inspect = place.host(&["inspect", "store"]).expect(0).stdout;
    let line = inspect
        .lines()
        .find(|line| line.starts_with("lost "))
        .unwrap();
    assert_eq!(amount_before(line, " of it: "), lost);
    let action = place
        .host(&["inspect", "store", "--action", "A.p"])
        .expect(0)
        .stdout;
    assert!(action.contains(line), "{action}");
    let page = place.host(&["report", "store"]).expect(0).stdout;
    let row = page
        .split("Answers lost, as estimated")
        .nth(1)
        .expect("a row of its own");
    assert_eq!(amount_before(row, "</td><td></td>"), lost);
}

#[test]
fn a_kill_after_a_call_leaves_its_answer_which_is_served_and_not_paid_again() {
    for (call, seen) in KINDS {
        let web = Web::new();
        let steps = format!("steps = [{call}, {HALT}, {{ say = \"{{reads}}\" }}]");
        let place = team(&web, "plain", "probe.wasm", &steps);
        let mut process = place.start_run(&[]);
        process.until("host-call", None);
        process.kill();
        let recorded = place
            .host(&["inspect", "store", "--calls"])
            .expect(0)
            .stdout;
        place.resume().expect(0);
        assert_eq!(
            (web.lines().len(), sources(&place)),
            (usize::from(seen), vec!["live".into(), "recorded".into()]),
            "{call}"
        );
        let served = output(&place);
        assert!(
            !served.is_empty() && recorded.contains(served.trim_start_matches("re: ")),
            "{call}: {served} is not in {recorded}"
        );
        assert_eq!(
            total(&place),
            if call.contains("llm") { 2.0 } else { 0.0 },
            "{call}"
        );
    }
}

#[test]
fn a_kill_right_after_the_start_of_an_attempt_loses_no_recorded_reading() {
    for call in ["{ now = true }", "{ random = 8 }"] {
        let web = Web::new();
        let calls = [call; 20].join(", ");
        let steps = format!("steps = [{calls}, {HALT}, {{ say = \"{{reads}}\" }}]");
        for read in [1, 7, 20] {
            let place = team(&web, "plain", "probe.wasm", &steps);
            let mut process = place.start_run(&[]);
            (0..read).for_each(|_| drop(process.until("host-call", None)));
            process.kill();
            place.resume().expect(0);
            let sources = sources(&place);
            let live = sources.iter().filter(|source| *source == "live").count();
            assert_eq!(live, 20, "{call} after {read}: {sources:?}");
            assert!(
                sources.len() >= 20 + read,
                "{call} after {read}: {sources:?}"
            );
        }
    }
}

#[test]
fn a_model_that_fails_for_too_long_stops_the_run_which_can_be_resumed() {
    let web = Web::new();
    let other = format!("{{ http = \"http://127.0.0.1:{}/v1/paid\" }}", web.port());
    let place = team(
        &web,
        "fail/2",
        "probe.wasm",
        &format!("steps = [{other}, {{ llm = \"q\" }}, {{ say = \"got {{reads}}\" }}]"),
    );
    let text = String::from_utf8(place.read("team.toml"))
        .unwrap()
        .replace("retries = 0", "retries = 1");
    place.write("team.toml", text);
    let ended = place.run().expect(3);
    assert_eq!(
        stream::of_kind(&ended.events(), "action-failed")[0]["fault"],
        "host"
    );
    assert!(
        ended.stderr.contains("503 Service Unavailable")
            && ended.stderr.contains("(after 1 retry)"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains(
            "its last host calls and their results:\n    http   /v1/paid\n    llm    failed: "
        ),
        "{}",
        ended.stderr
    );
    place.resume().expect(0);
    assert_eq!(output(&place), "got /v1/paid,re: q");
    assert_eq!((web.lines().len(), total(&place)), (4, 2.0));
}

#[test]
fn calls_can_be_reused_in_a_fresh_run_too() {
    for (calls, source) in [("auto", "live"), ("reuse", "recorded")] {
        let web = Web::new();
        let steps = "steps = [{ llm = \"q\" }, { fail = \"retryable\", attempts = [1] }]";
        let place = team(&web, "plain", "probe.wasm", steps);
        let text = String::from_utf8(place.read("team.toml")).unwrap();
        place.write(
            "team.toml",
            text + "[role.action.limits]\nretries = 1\nbackoff = \"1ms\"\n",
        );
        place
            .host(&["run", "team.toml", "--storage", "store", "--calls", calls])
            .expect(0);
        assert_eq!(sources(&place), ["live", source]);
    }
}

#[test]
fn recorded_calls_are_bounded_by_the_limits_of_the_guest() {
    let bounded = |place: &Workspace, bytes: &str| {
        let text = String::from_utf8(place.read("team.toml")).unwrap();
        let text = text
            .split("[role.action.limits]")
            .next()
            .unwrap()
            .to_owned();
        place.write(
            "team.toml",
            format!("{text}[role.action.limits]\nhost_bytes = \"{bytes}\"\n"),
        );
    };
    let many = |one: &dyn Fn(usize) -> String| (0..20).map(one).collect::<Vec<_>>().join(", ");
    let gets = many(&|n| format!("\"GET URL/../large/150000/{n}\""));
    let prompts = many(&|n| format!("\"{n} {}\"", "why ".repeat(10_000)));
    let cases = [
        (
            format!("requests = [{gets}]"),
            ["http.fetch-many", "(came to more)"],
            0.0,
        ),
        // The questions alone use a large part of it. Answered calls are paid for, so they are
        // kept.
        (
            format!("prompts = [{prompts}]"),
            ["llm.complete-many", "(came to 1"],
            40.0,
        ),
    ];
    for (config, [call, came_to], paid) in cases {
        let web = Web::new();
        let place = team_with_parallel_calls(&web, &config);
        bounded(&place, "1MiB");
        let run = place
            .host(&["run", "team.toml", "--storage", "store"])
            .expect(3);
        let told = format!("1 MiB to and from the host reached in `{call}`");
        for part in [told.as_str(), came_to, "raise `limits.host_bytes`"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
        let kept = fs::metadata(place.path("store/team.db")).unwrap().len();
        assert!(kept < 5 << 19, "{config:.20}: {kept}");
        assert!((total(&place) - paid).abs() < 1e-9, "{}", total(&place));
        place.host(&["replay", "store"]).expect(0);
        // Recorded calls count towards the limit as well, so the next attempt ends in the same way.
        place
            .host(&["run", "team.toml", "--recover_path", "store"])
            .expect(3);
        bounded(&place, "64MiB");
        place
            .host(&["run", "team.toml", "--recover_path", "store"])
            .expect(0);
        assert!(
            (total(&place) - paid).abs() < 1e-9,
            "nothing is paid for twice: {}",
            total(&place)
        );
    }
}

#[test]
fn an_answer_that_comes_while_a_run_is_being_stopped_is_durable_before_the_run_has_ended() {
    let web = Web::new();
    let base = format!("http://127.0.0.1:{}/v1/slow", web.port());
    let place = team_with_parallel_calls(
        &web,
        &format!("requests = [\"POST {base}/1000/a\", \"POST {base}/60000/b\"]"),
    );
    let process = place.start_run(&[]);
    web.wait(2);
    process.signal(Signal::INT);
    let recorded = |kind: &str| place.recorded().iter().any(|line| line["kind"] == kind);
    while !recorded("host-call") {}
    // A user who does not want to wait stops it again, or kills it.
    process.kill();
    assert!(!recorded("run-ended"));
}

/// Replaces the team by one with these lines for its action.
fn limited(place: &Workspace, lines: &str) {
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("team.toml", text + "[role.action.limits]\n" + lines);
}

#[test]
fn a_stop_does_not_wait_for_the_retry_of_a_model_call_which_costs_nothing() {
    let web = Web::new();
    let place = team(&web, "later", "probe.wasm", "steps = [{ llm = \"q\" }]");
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("team.toml", text.replace("retries = 0", "retries = 3"));
    limited(&place, "timeout = \"1s\"\n");
    let ended = place.run().expect(3);
    assert!(
        ended.stderr.contains("timeout of 1s reached"),
        "{}",
        ended.stderr
    );
    // The call was refused, so the reserved amount does not count.
    assert_eq!(
        (web.lines().len(), sources(&place).len(), total(&place)),
        (1, 1, 0.0)
    );
    let call = place
        .recorded()
        .into_iter()
        .find(|line| line["kind"] == "host-call")
        .unwrap();
    assert_eq!(call["cost"], 0.0);
}

#[test]
fn paid_calls_are_kept_if_an_output_is_too_large_or_writes_conflict() {
    for (fault, limit) in [("big-output", ""), ("big-output", "output = \"5MiB\"\n")] {
        let web = Web::new();
        let steps =
            format!("steps = [{{ llm = \"q\" }}, {{ fail = \"{fault}\", attempts = [1] }}]");
        let place = team(&web, "plain", "probe.wasm", &steps);
        limited(&place, limit);
        let ended = place.run().expect(3);
        assert_eq!(
            stream::of_kind(&ended.events(), "action-failed")[0]["fault"],
            "output-invalid"
        );
        place.resume().expect(0);
        assert_eq!(
            (sources(&place), total(&place)),
            (vec!["live".into(), "recorded".into()], 2.0)
        );
    }
    // A changed schema is not a changed limit: the model must reply anew.
    let web = Web::new();
    let place = team(
        &web,
        "plain",
        "probe.wasm",
        "steps = [{ llm = \"q\" }, { fail = \"invalid\", attempts = [1] }]",
    );
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    let schema = "output_schema = \"schema.json\"\n[role.action.allow]";
    place.write("schema.json", r#"{ "type": "object" }"#);
    place.write(
        "team.toml",
        text.replace("steps = [", "steps = [{ say = \"x\", data = {} }, ")
            .replace("[role.action.allow]", schema),
    );
    place.run().expect(3);
    place.resume().expect(0);
    assert_eq!(sources(&place), ["live", "live"]);
    // Two roles write one key until the scope has a reducer. What one of them did afterwards is
    // repeated, too.
    let web = Web::new();
    let write = "{ set = \"k\", value = 1, scope = \"s\" }";
    let place = team(
        &web,
        "plain",
        "probe.wasm",
        &format!("steps = [{{ llm = \"q\" }}, {write}]"),
    );
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    let other = format!(
        "[[role]]\nname = \"B\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"b\"\n\
         component = \"probe.wasm\"\nconfig = {{ steps = [{write}] }}\n[env.scope.s]\n"
    );
    let after = "[[role.action]]\nname = \"After\"\ncomponent = \"probe.wasm\"\nconfig = { steps = [{ llm = \"r\" }] }\n\
                 [role.action.allow]\nllm = { models = [\"*\"] }\n";
    place.write("team.toml", text + after + &other);
    place.run().expect(3);
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("team.toml", text + "reducer = \"add\"\n");
    place
        .host(&["run", "team.toml", "--recover_path", "store"])
        .expect(0);
    assert_eq!(
        (sources(&place), total(&place)),
        (
            ["live", "live", "recorded", "recorded"]
                .map(String::from)
                .into(),
            4.0
        )
    );
}

#[test]
fn a_guest_that_exceeds_its_host_calls_is_retried_as_configured() {
    let web = Web::new();
    let flood = "steps = [{ fail = \"flood-calls\", attempts = [1, 2] }]";
    for (retries, code) in [(1, 3), (2, 0)] {
        let place = team(&web, "plain", "probe.wasm", flood);
        limited(&place, &format!("retries = {retries}\nbackoff = \"1ms\"\n"));
        let ended = place.run().expect(code);
        let failed = ended.events();
        let failed = stream::of_kind(&failed, "action-failed");
        assert_eq!(
            (failed.len(), &failed[0]["fault"]),
            (2, &Value::from("host"))
        );
    }
}
