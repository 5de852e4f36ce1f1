//! Requests that change something: none is repeated silently, and no response that arrived is lost.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Ended, Signal};
use crate::web::Web;
use crate::workspace::Workspace;

/// Creates a team of roles with these steps. `URL` stands for the server, which is granted
/// completely.
fn team(web: &Web, roles: &[(&str, &str)], limits: &str) -> Workspace {
    let port = web.port();
    let mut text = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n".to_owned();
    for (name, steps) in roles {
        let steps = steps.replace("URL", &format!("http://127.0.0.1:{port}/v1"));
        text += &format!(
            "[[role]]\nname = \"{name}\"\nwatch = [\"UserRequirement\"]\n[[role.action]]\nname = \"p\"\n\
             component = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n[role.action.limits]\n{limits}\n\
             [role.action.allow]\nhttp = [{{ host = \"127.0.0.1:{port}\", methods = [\"GET\", \"POST\"] }}]\n"
        );
    }
    Workspace::with(&text)
}

/// Creates a team of one role that executes these steps and outputs the results.
fn alone(web: &Web, steps: &str) -> Workspace {
    team(
        web,
        &[("A", &format!("{steps}, {{ say = \"got {{reads}}\" }}"))],
        "timeout = \"60s\"",
    )
}

/// Kills a run as soon as the server has received this many requests.
fn killed_at(place: &Workspace, web: &Web, requests: usize) {
    let process = place.start(&["run", "team.toml", "--storage", "store"]);
    web.wait(requests);
    process.kill();
}

fn resume(place: &Workspace, more: &[&str]) -> Ended {
    place.host(&[&["run", "--recover_path", "store", "--events", "-"], more].concat())
}

fn said(place: &Workspace) -> Vec<String> {
    let saved = place.team_json();
    let messages = saved["env"]["history"]["storage"]
        .as_array()
        .unwrap()
        .clone();
    messages
        .iter()
        .skip(1)
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

fn kinds<'a>(lines: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    lines.iter().filter(move |line| line["kind"] == kind)
}

#[test]
fn a_write_killed_in_flight_is_in_doubt_until_the_operator_decides() {
    let check = |verdict: &str, requests: usize, expected: &str| {
        let web = Web::new();
        let place = alone(&web, r#"{ http = "URL/once/x", method = "POST" }"#);
        killed_at(&place, &web, 1);
        let cut_off = place.host(&["inspect", "store"]).expect(0).stdout;
        assert!(
            cut_off.contains("in doubt on the next run") && cut_off.contains("\n  A.p: POST "),
            "{cut_off}"
        );
        for _ in 0..2 {
            let ended = place.resume().expect(10);
            assert_eq!(web.lines().len(), 1);
            let what = format!("POST http://127.0.0.1:{}/v1/once/x", web.port());
            assert!(
                ended.stderr.contains(&format!("in doubt: A.p: `{what}`")),
                "{}",
                ended.stderr
            );
            assert!(ended.stderr.contains("--in-doubt redo"), "{}", ended.stderr);
            assert_eq!(place.team_json()["strata"]["status"], "in-doubt");
            let shown = place.host(&["inspect", "store"]).expect(0).stdout;
            assert!(
                shown.contains("in doubt") && shown.contains(&format!("A.p: {what}")),
                "{shown}"
            );
        }
        let settled = resume(&place, &["--in-doubt", verdict]).expect(0);
        assert_eq!(kinds(&settled.events(), "doubt-settled").count(), 1);
        assert_eq!(web.lines().len(), requests, "{verdict}");
        assert_eq!(said(&place), [expected], "{verdict}");
    };
    check("redo", 2, "got /v1/once/x");
    check("skip", 1, "got ");
    check(r#"{"status":201,"body":"made"}"#, 1, "got made");
    check(r#""made""#, 1, "got made");
    check("A.p=skip", 1, "got ");
}

#[test]
fn a_write_that_is_made_again_in_doubt_has_the_same_key() {
    let web = Web::new();
    let place = alone(
        &web,
        r#"{ http = "URL/once/x", method = "POST", body = "1" }"#,
    );
    killed_at(&place, &web, 1);
    place.resume().expect(10);
    resume(&place, &["--in-doubt", "redo"]).expect(0);
    let keys: Vec<_> = web
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn invalid_decisions_are_rejected_and_the_doubt_remains() {
    let web = Web::new();
    let place = alone(&web, r#"{ http = "URL/once/x", method = "POST" }"#);
    killed_at(&place, &web, 1);
    place.resume().expect(10);
    let before = place.read("store/team.json");
    for words in ["again", "B.p=skip", "{\"status\":\"ok\"}", "A.p=what"] {
        let refused = resume(&place, &["--in-doubt", words]).expect(2);
        assert!(refused.stderr.contains("`A.p`"), "{}", refused.stderr);
    }
    resume(&place, &["--in-doubt", "skip", "--calls", "fresh"]).expect(2);
    assert_eq!(place.read("store/team.json"), before);
    resume(&place, &["--in-doubt", "skip"]).expect(0);
    let team = place
        .host(&["run", "--recover_path", "store", "--in-doubt", "skip"])
        .expect(0);
    assert!(team.stderr.contains("nothing is left"), "{}", team.stderr);
}

#[test]
fn doubts_are_decided_one_by_one_and_kept_in_a_copy() {
    let web = Web::new();
    let step = r#"{ http = "URL/once/NAME", method = "POST" }, { say = "{reads}" }"#;
    let steps = |name: &str| step.replace("NAME", name);
    let place = team(
        &web,
        &[("A", &steps("a")), ("B", &steps("b"))],
        "timeout = \"60s\"",
    );
    killed_at(&place, &web, 2);
    let both = place.resume().expect(10);
    assert!(
        both.stderr.contains("A.p") && both.stderr.contains("B.p"),
        "{}",
        both.stderr
    );
    let team_json = place.read("store/team.json");
    std::fs::remove_dir_all(place.path("store")).unwrap();
    std::fs::create_dir(place.path("store")).unwrap();
    place.write("store/team.json", team_json);
    let one = resume(&place, &["--in-doubt", "A.p=\"a\"", "--trust"]).expect(10);
    assert!(!one.stderr.contains("in doubt: A.p"), "{}", one.stderr);
    assert_eq!(web.lines().len(), 2);
    resume(&place, &["--in-doubt", "redo"]).expect(0);
    assert_eq!(said(&place), ["a", "/v1/once/b"]);
    assert_eq!(web.lines().len(), 3);
}

#[test]
fn a_write_with_its_own_key_is_repeated_automatically_with_that_key() {
    let web = Web::new();
    let place = alone(
        &web,
        r#"{ http = "URL/once/x", method = "POST", key = "order-7" }"#,
    );
    killed_at(&place, &web, 1);
    place.resume().expect(0);
    let keys: Vec<_> = web
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys, ["order-7", "order-7"]);
    assert_eq!(said(&place), ["got /v1/once/x"]);
}

#[test]
fn a_write_is_not_repeated_when_a_run_goes_back_to_a_later_checkpoint() {
    let web = Web::new();
    let host = format!("127.0.0.1:{}", web.port());
    let place = Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\nwatch = \
         [\"UserRequirement\"]\n[[role.action]]\nname = \"p\"\nscript = \"pay.js\"\n[role.action.allow]\nhttp = [{{ \
         host = \"{host}\", methods = [\"POST\"] }}]\n"
    ));
    place.write(
        "pay.js",
        format!(
            "import {{ action, http, human }} from \"@strata/action\";\nexport default action({{ run(cx) {{\n  const key = \
             `${{cx.attempt.idempotencyKey}}/pay`;\n  http.fetch(\"http://{host}/v1/pay\", {{ method: \"POST\", \
             idempotencyKey: key, body: key }});\n  return human.ask(\"go on?\").value;\n}} }});\n"
        ),
    );
    place.run().expect(4);
    let open = place.team_json()["strata"]["requests"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let at = place.team_json()["strata"]["checkpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    let answer = |word: &str| format!("{open}=\"{word}\"");
    place
        .host(&["run", "--recover_path", "store", "--answer", &answer("yes")])
        .expect(0);
    place
        .host(&[
            "run",
            "--recover_path",
            "store",
            "--checkpoint",
            &at,
            "--answer",
            &answer("no"),
        ])
        .expect(0);
    let keys: Vec<_> = web
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert!(
        keys.len() == 1 && keys[0].ends_with("/0/A/0/pay"),
        "{keys:?}"
    );
    assert_eq!(
        (said(&place), &place.team_json()["strata"]["lineage"]),
        (vec!["no".to_owned()], &"main.1".into())
    );
}

#[test]
fn repeated_writes_have_keys_that_are_the_same_in_all_attempts() {
    let web = Web::new();
    let post = r#"{ http = "URL/x", method = "POST" }"#;
    let place = alone(
        &web,
        &format!("{post}, {post}, {{ fail = \"trap\", attempts = [1] }}"),
    );
    place.run().expect(3);
    // The component trapped by itself and is unchanged: the next attempt makes its calls again, and
    // the host reports this.
    let ended = place.resume().expect(0);
    let warned = format!(
        "A.p starts afresh and may make a write again that it made before: POST http://127.0.0.1:{}/v1/x",
        web.port()
    );
    assert_eq!(ended.stderr.matches(&warned).count(), 2, "{}", ended.stderr);
    let keys: Vec<_> = web
        .requests()
        .iter()
        .map(|r| r.header("idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys.len(), 4);
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[..2], keys[2..]);
}

#[test]
fn an_automatic_retry_that_may_repeat_writes_reports_them_like_a_resume() {
    let web = Web::new();
    let steps = r#"{ http = "URL/x", method = "POST" }, { http = "URL/read" }, { fail = "retryable", attempts = [1] }"#;
    let place = team(&web, &[("A", steps)], "retries = 1\nbackoff = \"1ms\"");
    let ended = place.run().expect(0);
    let warned = format!(
        "A.p starts afresh and may make a write again that it made before: POST http://127.0.0.1:{}/v1/x",
        web.port()
    );
    assert_eq!(ended.stderr.matches(&warned).count(), 1, "{}", ended.stderr);
    let lines = ended.events();
    let told = |kind: &str| lines.iter().rposition(|line| line["kind"] == kind).unwrap();
    assert!(
        told("action-failed") < told("writes-forgotten")
            && told("writes-forgotten") < told("action-started")
    );
    assert_eq!(
        web.lines(),
        ["POST /v1/x", "GET /v1/read", "POST /v1/x", "GET /v1/read"]
    );
}

#[test]
fn an_answer_that_comes_after_its_attempt_was_ended_is_kept() {
    let check = |call: &str| {
        let web = Web::new();
        let steps = format!("{call}, {{ say = \"got {{reads}}\" }}");
        let place = team(&web, &[("A", &steps)], "timeout = \"500ms\"");
        let llm = format!(
            "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{}/v1/slow/2000\"\nmodel = \"m\"\nretries = 0\n\
             price = {{ input = 1.0, output = 0.0 }}\n",
            web.port()
        );
        let text = String::from_utf8(place.read("team.toml")).unwrap();
        let text =
            text.replace("[[role]]", &format!("{llm}[[role]]")) + "llm = { models = [\"*\"] }\n";
        place.write("team.toml", text);
        let ended = place.run().expect(3);
        let failed = ended.events();
        assert_eq!(
            kinds(&failed, "action-failed").next().unwrap()["fault"],
            "timeout",
            "{call}"
        );
        assert_eq!(
            kinds(&failed, "host-call").count(),
            1,
            "{call}: {}",
            ended.stderr
        );
        let again = place.resume().expect(0).events();
        assert_eq!(
            kinds(&again, "host-call").next().unwrap()["source"],
            "recorded",
            "{call}"
        );
        assert_eq!(web.lines().len(), 1, "{call}");
    };
    check(r#"{ http = "URL/slow/2000", method = "POST" }"#);
    check(r#"{ llm = "q" }"#);
}

#[test]
fn a_write_that_is_never_answered_is_in_doubt_and_does_not_block_others() {
    let web = Web::new();
    let place = team(
        &web,
        &[("A", r#"{ http = "URL/once/x", method = "POST" }"#)],
        "timeout = \"500ms\"\nretries = 3",
    );
    let began = Instant::now();
    let ended = place.run().expect(10);
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(web.lines().len(), 1, "it was tried again by itself");
    let events = ended.events();
    assert_eq!(
        kinds(&events, "action-failed").next().unwrap()["fault"],
        "timeout"
    );
    assert_eq!(events.last().unwrap()["status"], "in-doubt");
    resume(&place, &["--in-doubt", "redo"]).expect(0);
}

#[test]
fn after_a_broken_connection_a_write_is_in_doubt_and_a_read_is_repeated() {
    let web = Web::new();
    let place = alone(&web, r#"{ http = "URL/slam", method = "POST" }"#);
    place.run().expect(10);
    place.resume().expect(10);
    assert_eq!(web.lines().len(), 1);
    let settled = resume(&place, &["--in-doubt", "\"it was made\""]).expect(0);
    assert_eq!(kinds(&settled.events(), "writes-unclaimed").count(), 0);
    assert_eq!(said(&place), ["got it was made"]);
    let place = alone(&web, r#"{ http = "URL/slam" }"#);
    let ended = place.run().expect(3);
    assert_eq!(
        kinds(&ended.events(), "action-failed").next().unwrap()["fault"],
        "host"
    );
    place.resume().expect(3);
    assert_eq!(web.lines().len(), 3);
}

#[test]
fn a_write_under_way_when_the_run_is_stopped_is_waited_for() {
    let web = Web::new();
    let place = alone(&web, r#"{ http = "URL/slow/1500", method = "POST" }"#);
    let process = place.start(&["run", "team.toml", "--storage", "store"]);
    web.wait(1);
    process.signal(Signal::INT);
    process.end().expect(130);
    place.resume().expect(0);
    assert_eq!(web.lines().len(), 1);
    assert_eq!(said(&place), ["got /v1/slow/1500"]);
}

#[test]
fn recorded_writes_that_are_no_longer_made_are_listed_before_the_run_continues() {
    let web = Web::new();
    let place = alone(
        &web,
        r#"{ http = "URL/a", method = "POST", attempts = [1] }, { http = "URL/b", method = "POST" }, { sleep = "30s", attempts = [1] }"#,
    );
    let mut process = place.start_run(&[]);
    process.until("host-call", None);
    process.until("host-call", None);
    process.kill();
    let ended = place.resume().expect(0);
    let warned = format!(
        "A.p no longer makes a write that it made before: POST http://127.0.0.1:{}/v1/a",
        web.port()
    );
    assert!(ended.stderr.contains(&warned), "{}", ended.stderr);
    let lines: Vec<Value> = ended.events();
    let listed = lines
        .iter()
        .position(|line| line["kind"] == "writes-unclaimed")
        .unwrap();
    let finished = lines
        .iter()
        .position(|line| line["kind"] == "action-finished")
        .unwrap();
    assert!(listed < finished);
    assert_eq!(web.lines(), ["POST /v1/a", "POST /v1/b"]);
}

#[test]
fn a_run_killed_at_any_line_repeats_no_write_silently() {
    const STEPS: &str = r#"{ http = "URL/read" }, { http = "URL/write", method = "POST" }, { now = true },
        { http = "URL/keyed", method = "POST", key = "k" }, { random = 4 }, { http = "URL/last", method = "POST" }"#;
    let count = |web: &Web, line: &str| web.lines().iter().filter(|seen| *seen == line).count();
    let whole = {
        let web = Web::new();
        alone(&web, &STEPS.replace('\n', " "))
            .run()
            .expect(0)
            .events()
            .len()
    };
    for n in 1..=whole {
        let web = Web::new();
        let place = alone(&web, &STEPS.replace('\n', " "));
        let mut process = place.start_run(&[]);
        (0..n).for_each(|_| drop(process.next()));
        process.kill();
        let mut ended = place.resume();
        let mut doubts = 0;
        while ended.code == Some(10) {
            doubts += 1;
            let what = ended
                .stderr
                .lines()
                .find(|line| line.starts_with("in doubt: A.p: `POST "))
                .unwrap()
                .to_owned();
            assert!(!what.contains("keyed"), "{what}");
            ended = resume(&place, &["--in-doubt", "redo"]);
        }
        ended.expect(0);
        assert!(doubts <= 1, "one write at a time is under way");
        let repeated = ["POST /v1/write", "POST /v1/last"].map(|line| count(&web, line) - 1);
        assert!(
            repeated.iter().sum::<usize>() <= doubts,
            "killed after {n} lines: {:?}",
            web.lines()
        );
        assert!(count(&web, "POST /v1/keyed") <= 2);
        let texts = said(&place);
        assert!(
            texts[0].starts_with("got /v1/read,/v1/write,") && texts[0].ends_with(",/v1/last"),
            "{texts:?}"
        );
    }
}

#[test]
fn waiting_for_the_calls_of_one_attempt_does_not_end_a_later_one() {
    let web = Web::new();
    let slow = r#"{ http = "URL/slow/1200", method = "POST" }"#;
    let place = team(
        &web,
        &[("A", slow)],
        "timeout = \"400ms\"\nretries = 1\nbackoff = \"1ms\"",
    );
    // The second attempt is running when the time is over for which the first one would have been
    // kept open.
    let next = "[[role.action]]\nname = \"q\"\ncomponent = \"probe.wasm\"\nconfig = { steps = [{ sleep = \"12s\" }] }\n";
    let text = String::from_utf8(place.read("team.toml")).unwrap();
    place.write("team.toml", text + next);
    let events = place.run().expect(0).events();
    let ends: Vec<&Value> = kinds(&events, "action-failed")
        .chain(kinds(&events, "action-finished"))
        .collect();
    let ends: Vec<_> = ends
        .iter()
        .map(|line| (line["action"].as_str(), line["attempt"].as_u64()))
        .collect();
    assert_eq!(
        ends,
        [
            (Some("p"), Some(1)),
            (Some("p"), Some(2)),
            (Some("q"), Some(1))
        ]
    );
    assert_eq!(web.lines().len(), 1);
}
