//! Host calls that are made in parallel: each gets its own answer, in any order and after a kill.

use std::fs;

use serde_json::Value;

use crate::calls::{output, sources, team, total};
use crate::probe::build;
use crate::web::Web;
use crate::workspace::Workspace;

/// Creates a team whose only action makes the calls of its `config` in parallel.
pub fn team_with_parallel_calls(web: &Web, config: &str) -> Workspace {
    let place = team(web, "plain", "gather.wasm", config);
    fs::copy(build("tests/gather"), place.path("gather.wasm")).unwrap();
    place
}

#[test]
fn parallel_requests_get_their_own_answers_in_order() {
    let web = Web::new();
    let base = format!("http://127.0.0.1:{}/v1", web.port());
    let requests = format!(
        "requests = [\"GET {base}/slow/300/a\", \"DELETE {base}/b\", \"GET {base}/slam\", \"POST {base}/c\", \"GET {base}/d\"]"
    );
    let place =
        team_with_parallel_calls(&web, &format!("{requests}, prompts = [\"one\", \"two\"]"));
    place.run().expect(0);
    let expected = "/v1/slow/300/a | HostErrorKind::Denied | HostErrorKind::Upstream | /v1/c | /v1/d | re: one | re: two";
    assert_eq!(output(&place), expected);
    let mut lines = web.lines();
    lines.sort();
    let model = "POST /v1/plain/chat/completions";
    assert_eq!(
        lines,
        [
            "GET /v1/d",
            "GET /v1/slam",
            "GET /v1/slow/300/a",
            "POST /v1/c",
            model,
            model
        ]
    );
    assert_eq!(total(&place), 4.0);
}

#[test]
fn only_parallel_requests_without_an_answer_are_repeated() {
    let web = Web::new();
    let base = format!("http://127.0.0.1:{}/v1", web.port());
    // Two requests of one kind differ by their number. The first one is never answered at first.
    let requests = format!(
        "requests = [\"POST {base}/a\", \"POST {base}/a\", \"GET {base}/once/b\", \"GET {base}/c\"]"
    );
    let place = team_with_parallel_calls(&web, &requests);
    let mut process = place.start_run(&[]);
    // The order of the answers is random.
    let live = |line: &Value| line["kind"] == "host-call";
    let mut recorded = 0;
    while recorded < 3 {
        recorded += usize::from(process.next().as_ref().is_some_and(live));
    }
    process.kill();
    place.resume().expect(0);
    assert_eq!(output(&place), "/v1/a | /v1/a | /v1/once/b | /v1/c");
    let count = |line: &str| web.lines().iter().filter(|seen| *seen == line).count();
    assert_eq!(
        [
            count("POST /v1/a"),
            count("GET /v1/once/b"),
            count("GET /v1/c")
        ],
        [2, 2, 1]
    );
    let keys: Vec<_> = web
        .requests()
        .iter()
        .filter_map(|r| r.header("idempotency-key").map(str::to_owned))
        .collect();
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn parallel_calls_are_all_served_from_the_record() {
    let web = Web::new();
    let requests = format!(
        "requests = [\"GET http://127.0.0.1:{0}/v1/a\", \"POST http://127.0.0.1:{0}/v1/b\"]",
        web.port()
    );
    let place = team_with_parallel_calls(
        &web,
        &format!("{requests}, prompts = [\"one\", \"two\"], wait = [1]"),
    );
    let mut process = place.start_run(&[]);
    (0..4).for_each(|_| drop(process.until("host-call", None)));
    process.kill();
    place.resume().expect(0);
    assert_eq!(output(&place), "/v1/a | /v1/b | re: one | re: two");
    assert_eq!((web.lines().len(), total(&place)), (4, 4.0));
}

#[test]
fn equal_parallel_calls_are_each_served_their_own_answer() {
    let run = |wait: &str| {
        let place = Workspace::with(&format!(
            "schema = 'strata.team/1'\n[team]\nname = 't'\nidea = 'go'\n[llm]\nprovider = 'scripted'\n\
             replies = 'replies.toml'\n[[role]]\nname = 'A'\nwatch = ['UserRequirement']\n[[role.action]]\n\
             name = 'ask'\ncomponent = 'gather.wasm'\nconfig = {{ prompts = ['p', 'p'], wait = [{wait}] }}\n\
             allow = {{ llm = {{ models = ['*'] }} }}\n"
        ));
        fs::copy(build("tests/gather"), place.path("gather.wasm")).unwrap();
        let slow = "[[reply]]\ntext = \"slow\"\ntimes = 1\ndelay = \"500ms\"\n";
        place.write(
            "replies.toml",
            format!("{slow}[[reply]]\ntext = \"quick\"\n"),
        );
        place
    };
    let undisturbed = run("");
    undisturbed.run().expect(0);
    // The second request is answered first, and recorded first.
    let place = run("1");
    let mut process = place.start_run(&[]);
    (0..2).for_each(|_| drop(process.until("host-call", None)));
    process.kill();
    let verified = |args: &[&str]| place.host(args).expect(0);
    verified(&["run", "--recover_path", "store"]);
    assert_eq!(output(&place), output(&undisturbed));
    assert_eq!(sources(&place), ["live", "live", "recorded", "recorded"]);
    verified(&["replay", "store", "--verify"]);
}
