//! A server that is killed while a run is driven, streamed and answered: the stream is continued without a loss or a
//! repetition, and the run ends as one that was not disturbed.

use serde_json::{Value, json};

use super::client::{Runs, StreamMessage, TestServer, wherever_runs_are};

/// A team with two steps, a question to a person, and a join of two roles.
pub const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "a"
component = "probe.wasm"
[[role]]
name = "B"
watch = ["a"]
[[role.action]]
name = "b"
component = "probe.wasm"
config = { steps = [{ ask = "how many?", schema = { type = "integer" } }, { say = "b {reads}" }] }
[[role]]
name = "C"
watch = ["b"]
[[role.action]]
name = "c"
component = "probe.wasm"
config = { steps = [{ say = "c of {inputs}" }] }
"#;

/// Answers the open requests of a run.
pub fn answer(server: &TestServer, run: &str) {
    let open = server
        .get(&server.token, &format!("/v1/requests?run={run}"))
        .json();
    for item in open["items"].as_array().unwrap() {
        let body = json!({ item["id"].as_str().unwrap(): 3 });
        let path = format!("/v1/runs/{run}/answers");
        let answered = server.post(&server.token, &path, &body);
        assert!([200, 409].contains(&answered.status), "{answered:?}");
    }
}

/// Reads a run's stream from a position until it ends, or until so many events have come.
pub fn read(
    server: &TestServer,
    run: &str,
    last: Option<&str>,
    most: usize,
) -> (Vec<(String, Value)>, bool) {
    let path = format!("/v1/runs/{run}/events");
    let mut stream = server.open_stream_after(&server.token, &path, last);
    let mut events = Vec::new();
    while events.len() < most {
        match stream.next_message() {
            Some(StreamMessage { name, id, data }) if name.is_empty() => {
                let event: Value = serde_json::from_str(&data).unwrap();
                if event["kind"] == "request-opened" {
                    answer(server, run);
                }
                events.push((id, event));
            }
            Some(message) if message.name == "end" => return (events, true),
            Some(message) => panic!("{message:?}"),
            None => panic!("the stream of `{run}` broke off after {events:?}"),
        }
    }
    (events, false)
}

#[test]
fn a_stream_over_kills_of_the_server_loses_and_repeats_nothing() {
    wherever_runs_are(|runs| {
        // Each kill of a server with a database takes longer, since its runs are taken from it.
        let step = match runs {
            Runs::InFile => 1,
            Runs::InDatabase(_) => 4,
        };
        check_kills(TestServer::start_at(runs, TEAM), step);
    });
}

/// Kills a server after each so many-th event of a run.
fn check_kills(mut server: TestServer, step: usize) {
    server.submit(&server.token, json!({ "name": "undisturbed" }));
    let (undisturbed, _) = read(&server, "undisturbed", None, usize::MAX);
    let output = |server: &TestServer, run: &str| {
        server.get(&server.token, &format!("/v1/runs/{run}")).json()["output"].clone()
    };
    assert_eq!(output(&server, "undisturbed"), "c of b 3");
    for kill_after in (1..undisturbed.len()).step_by(step) {
        let name = format!("killed-{kill_after}");
        server.submit(&server.token, json!({ "name": name }));
        let (mut events, is_over) = read(&server, &name, None, kill_after);
        assert!(!is_over);
        server.restart();
        let last = events.last().unwrap().0.clone();
        let (rest, _) = read(&server, &name, Some(&last), usize::MAX);
        events.extend(rest);
        let ids: Vec<u64> = events.iter().map(|(id, _)| id.parse().unwrap()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{name}: {ids:?}");
        let (again, _) = read(&server, &name, None, usize::MAX);
        assert_eq!(events, again, "{name}");
        assert_eq!(output(&server, &name), "c of b 3", "{name}");
        let finished = events
            .iter()
            .filter(|(_, event)| event["kind"] == "action-finished")
            .count();
        assert_eq!(finished, 3, "{name}: {events:?}");
        // Whoever comes back after the end is told that nothing follows.
        let path = format!("/v1/runs/{name}/events");
        let last = [
            ("accept", "text/event-stream"),
            ("last-event-id", events.last().unwrap().0.as_str()),
        ];
        let answer = server.request("GET", &path, &server.token, &last, b"");
        assert_eq!(answer.status, 204, "{answer:?}");
    }
}

#[test]
fn a_drain_ends_all_streams_and_the_process() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, TEAM);
        server.submit(&server.token, json!({ "name": "one" }));
        let readers: Vec<String> = (0..4)
            .map(|n| server.new_token(&format!("reader-{n}"), Some("default"), &["view"]))
            .collect();
        let streams: Vec<_> = (0..100)
            .map(|n| server.open_stream(&readers[n % readers.len()], "/v1/runs/one/events"))
            .collect();
        assert_eq!(server.terminate(), Some(0));
        for stream in streams {
            let read = stream.read_to_end();
            assert!(
                read.contains("retry: 1000") && !read.contains("event: end"),
                "{read}"
            );
        }
    });
}
