//! Several servers with one database: what is started, listed, read, answered and revoked at one of them is so at the others,
//! and they take over each other's runs. Without PostgreSQL, these tests are skipped, and say so.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Answer, Client, Runs, TestServer};
use super::killed::{TEAM, answer, read};
use super::mcp;
use crate::database_server::{Proxy, Server};

/// What every token of these tests may do.
const RIGHTS: [&str; 4] = ["submit", "view", "answer", "operate"];
const JSON: (&str, &str) = ("content-type", "application/json");

/// A team that works until it is cancelled.
fn working_team() -> String {
    ASKING.replace(
        r#"{ ask = "how many?", schema = { type = "integer" } }, { say = "answer {reads}" }"#,
        r#"{ sleep = "90s" }"#,
    )
}

/// Starts two servers with one database, in which the same token counts. `None` without PostgreSQL.
fn two_servers(team: &str, more: &[&str]) -> Option<[TestServer; 2]> {
    let runs = Runs::in_new_database()?;
    let mut one = TestServer::start_at(&runs, team);
    let mut other = one.start_beside("served-2", more);
    let token = one.new_token("ann", Some("default"), &RIGHTS);
    // The other one looks for tokens that it does not know.
    other.until(&token, "/v1/runs", |_| true);
    one.token.clone_from(&token);
    other.token = token;
    Some([one, other])
}

fn with_key(client: Client, token: &str, path: &str, key: &str, body: &Value) -> Answer {
    let headers = [JSON, ("idempotency-key", key)];
    client.request("POST", path, token, &headers, body.to_string().as_bytes())
}

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.contains("idempotency-replayed: true")
}

#[test]
fn a_stream_is_continued_at_another_server_when_the_first_is_killed() {
    let Some([mut first, other]) = two_servers(TEAM, &[]) else {
        return;
    };
    for seen in [1, 6, 11] {
        let name = format!("run-{seen}");
        first.submit(&first.token, json!({ "name": name }));
        let (mut events, is_over) = read(&first, &name, None, seen);
        assert!(!is_over);
        first.kill();
        let last = events.last().unwrap().0.clone();
        let (rest, _) = read(&other, &name, Some(&last), usize::MAX);
        events.extend(rest);
        let (again, _) = read(&other, &name, None, usize::MAX);
        assert_eq!(events, again, "{name}");
        let run = other.get(&other.token, &format!("/v1/runs/{name}")).json();
        assert_eq!(run["output"], "c of b 3", "{run}");
        let finished = events
            .iter()
            .filter(|(_, event)| event["kind"] == "action-finished");
        assert_eq!(finished.count(), 3, "{name}");
        first.start_again();
    }
}

#[test]
fn the_stream_of_a_page_is_continued_at_another_server() {
    let Some([first, other]) = two_servers(TEAM, &[]) else {
        return;
    };
    first.submit(&first.token, json!({ "name": "one" }));
    let (mut numbers, mut requests) = (Vec::new(), Vec::new());
    let mut last = None::<String>;
    // Returns whether the run has ended. That the question was answered may be told after that.
    let mut follow = |server: &TestServer, most: usize| {
        let path = "/v1/events?run=one";
        let mut stream = server.open_stream_after(&server.token, path, last.as_deref());
        let (mut count, mut has_ended) = (0, false);
        while count < most {
            if has_ended && requests.iter().any(|(_, is_opened)| !is_opened) {
                return true;
            }
            let message = stream.next_message().expect("the stream goes on");
            assert!(!message.id.is_empty(), "{message:?}");
            last = Some(message.id);
            let event: Value = serde_json::from_str(&message.data).unwrap();
            if message.name == "request" {
                let is_opened = event["opened"].is_string();
                requests.push((event["id"].to_string(), is_opened));
            }
            if !message.name.is_empty() {
                continue;
            }
            count += 1;
            numbers.push(event["n"].as_u64().unwrap());
            match event["kind"].as_str() {
                Some("request-opened") => answer(server, "one"),
                Some("run-ended") => has_ended = event["status"] == "done",
                _ => {}
            }
        }
        false
    };
    assert!(!follow(&first, 4));
    assert!(!follow(&other, 3));
    first.kill();
    assert!(follow(&other, usize::MAX));
    let all: Vec<u64> = (1..=numbers.len() as u64).collect();
    assert_eq!(numbers, all);
    let opened = requests.iter().filter(|(_, is_opened)| *is_opened).count();
    assert_eq!((opened, requests.len()), (1, 2), "{requests:?}");
}

#[test]
fn what_is_started_at_one_server_is_listed_answered_and_ended_at_another() {
    let Some([first, other]) = two_servers(ASKING, &["--no-work"]) else {
        return;
    };
    let token = &first.token;
    let mut ids = BTreeSet::new();
    for n in 0..8 {
        let server = [&first, &other][n % 2];
        let run = server.submit(token, json!({ "name": format!("run-{n}") }));
        assert!(ids.insert(run["id"].as_str().unwrap().to_owned()));
    }
    let (mut listed, mut path) = (Vec::new(), "/v1/runs?limit=3".to_owned());
    for n in 0.. {
        let page = [&first, &other][n % 2].get(token, &path).json();
        for run in page["items"].as_array().unwrap() {
            listed.push(run["id"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => path = format!("/v1/runs?limit=3&after={next}"),
            None => break,
        }
    }
    assert_eq!(listed.len(), 8, "{listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), ids);
    // The other one runs no teams.
    let path = "/v1/runs/run-0";
    other.until(token, path, |run| run["status"] == "waiting");
    let mut stream = first.open_stream(token, &format!("{path}/events"));
    answer(&other, "run-0");
    let messages: Vec<_> = std::iter::from_fn(|| stream.next_message()).collect();
    assert_eq!(messages.last().unwrap().name, "end", "{messages:?}");
    let done = other.get(token, path).json();
    assert_eq!(
        (&done["state"], &done["output"]),
        (&json!("ended"), &json!("answer 3"))
    );
    let cancelled = other.post(token, "/v1/runs/run-1/cancel", &json!({}));
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
    first.until(token, "/v1/runs/run-1", |run| run["status"] == "cancelled");
    let workers = first.get("", "/health").json();
    assert_eq!(workers["status"], "ok");
}

#[test]
fn a_request_is_repeated_at_another_server_and_carried_out_once() {
    let Some([first, other]) = two_servers(ASKING, &["--no-work"]) else {
        return;
    };
    let token = first.token.clone();
    let body = json!({ "bundle": first.bundle(&token), "name": "one", "idea": "go" });
    let made = with_key(first.client(), &token, "/v1/runs", "k", &body);
    assert!(made.status == 201 && !is_replayed(&made), "{made:?}");
    let again = with_key(other.client(), &token, "/v1/runs", "k", &body);
    assert!(again.status == 201 && is_replayed(&again), "{again:?}");
    assert_eq!(again.json(), made.json());
    let else_ = json!({ "bundle": body["bundle"], "name": "two", "idea": "go" });
    let refused = with_key(other.client(), &token, "/v1/runs", "k", &else_);
    assert_eq!(refused.status, 422, "{refused:?}");
    first.until(&token, "/v1/runs/one", |run| run["status"] == "waiting");
    // The same request at the same time at both.
    let fork = json!({ "at": "main-0" });
    let clients = [first.client(), other.client()];
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (client, token, fork) = (clients[n % 2], &token, &fork);
                scope.spawn(move || with_key(client, token, "/v1/runs/one/fork", "f", fork))
            })
            .collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers.collect()
    });
    let made: Vec<&Answer> = answers.iter().filter(|one| one.status == 201).collect();
    let new = made.iter().filter(|one| !is_replayed(one));
    assert_eq!(new.count(), 1, "{answers:?}");
    for answer in &answers {
        match answer.status {
            201 => assert_eq!(answer.json()["id"], made[0].json()["id"]),
            409 => assert!(answer.headers.contains("retry-after"), "{answer:?}"),
            _ => panic!("{answer:?}"),
        }
    }
    let runs = other.get(&token, "/v1/runs").json();
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
}

#[test]
fn a_call_of_a_client_of_the_protocol_is_continued_at_another_server() {
    let Some([first, other]) = two_servers(ASKING, &[]) else {
        return;
    };
    let token = &first.token;
    first.submit(token, json!({ "name": "first" }));
    let asked = mcp::request(&first, token, &mcp::call(json!({ "idea": "go" })));
    let question = mcp::question(&asked);
    let done = mcp::request(&other, token, &mcp::reply(&question, json!("3")));
    assert_eq!(done["result"]["content"][0]["text"], "answer 3", "{done}");
    // Under a key there is one run.
    let run_at = |server: &TestServer| {
        let asked = mcp::request(server, token, &mcp::call_with_key("k"));
        let (_, state) = mcp::question(&asked);
        let runs = server.get(token, "/v1/runs").json();
        assert!(!state.is_null());
        runs["items"].as_array().unwrap().len()
    };
    assert_eq!((run_at(&first), run_at(&other)), (3, 3));
}

#[test]
fn a_token_counts_at_all_servers_until_it_is_revoked_at_one() {
    let Some(runs) = Runs::in_new_database() else {
        return;
    };
    let Runs::InDatabase(url) = &runs else {
        unreachable!("it is in one");
    };
    let first = TestServer::start_at(&runs, ASKING);
    let other = first.start_beside("served-2", &["--no-work"]);
    let create = [
        "token",
        "create",
        "bob",
        "--rights",
        "view",
        "--tenant",
        "red",
        "--database",
        url,
    ];
    let text = first.place.host(&create).expect(0).stdout;
    let bob = text.trim();
    let ann = other.new_token("ann", Some("red"), &["submit", "view"]);
    first.until(bob, "/v1/runs", |_| true);
    first.submit(&ann, json!({ "name": "one" }));
    let listed = first
        .place
        .host(&["token", "list", "--json", "--database", url]);
    let listed = listed.expect(0).stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    for (token, revoke) in [(&ann[..], "/v1/tokens/ann?tenant=red"), (bob, "")] {
        let streams =
            [&first, &other].map(|server| server.open_stream(token, "/v1/runs/one/events"));
        let revoked = Instant::now();
        if revoke.is_empty() {
            let revoke = [
                "token",
                "revoke",
                "bob",
                "--tenant",
                "red",
                "--database",
                url,
            ];
            first.place.host(&revoke).expect(0);
        } else {
            let answer = other.request("DELETE", revoke, &other.token, &[], b"");
            assert_eq!(answer.status, 204, "{answer:?}");
        }
        for stream in streams {
            let read = stream.read_to_end();
            assert!(!read.contains("event: end"), "{read}");
        }
        let elapsed = revoked.elapsed();
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        for server in [&first, &other] {
            assert_eq!(server.get(token, "/v1/runs").status, 401);
        }
    }
    let again = [
        "token",
        "revoke",
        "bob",
        "--tenant",
        "red",
        "--database",
        url,
    ];
    first.place.host(&again).expect(2);
}

#[test]
fn a_server_whose_database_is_away_says_so_and_goes_on_when_it_is_back() {
    let Some(database) = Server::start() else {
        return;
    };
    let proxy = Proxy::start(&database.directory);
    let server = TestServer::start_at(&Runs::InDatabase(proxy.url()), TEAM);
    let token = &server.token;
    let bundle = server.bundle(token);
    server.submit(token, json!({ "name": "one" }));
    server.until(token, "/v1/runs/one", |run| run["status"] == "waiting");
    let before = event_ids(&server);
    let mut streams =
        ["/v1/runs/one/events", "/v1/events?run=one"].map(|path| server.open_stream(token, path));
    for _ in 0..before.len() {
        streams[0].next_message().unwrap();
    }
    proxy.refuse(true);
    let start = json!({ "bundle": bundle, "name": "two", "idea": "go" });
    for (method, path, body) in [
        ("GET", "/ready", Value::Null),
        ("GET", "/v1/runs", Value::Null),
        ("GET", "/v1/runs/one", Value::Null),
        ("GET", "/v1/runs/one/events", Value::Null),
        ("GET", "/v1/runs/one/report", Value::Null),
        ("GET", "/v1/runs/one/checkpoints", Value::Null),
        ("GET", "/v1/requests", Value::Null),
        ("GET", "/v1/tokens", Value::Null),
        ("GET", "/v1/workers", Value::Null),
        ("POST", "/v1/runs", start.clone()),
        ("POST", "/v1/runs/one/cancel", json!({})),
        ("POST", "/v1/runs/one/answers", json!({ "ask-1-0-0-0": 3 })),
        (
            "POST",
            "/v1/tokens",
            json!({ "name": "eve", "rights": ["view"] }),
        ),
        ("DELETE", "/v1/runs/one", Value::Null),
    ] {
        let headers: &[(&str, &str)] = if body.is_null() { &[] } else { &[JSON] };
        let bytes = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = server.request(method, path, token, headers, bytes.as_bytes());
        assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
        assert!(answer.headers.contains("retry-after"), "{path}: {answer:?}");
        let keyed = [JSON, ("idempotency-key", "k")];
        if method == "POST" {
            let answer = server.request(method, path, token, &keyed, bytes.as_bytes());
            assert_eq!(answer.status, 503, "{path}: {answer:?}");
        }
    }
    assert_eq!(server.get("", "/health").status, 200);
    proxy.refuse(false);
    server.until("", "/ready", |_| true);
    answer(&server, "one");
    // A stream that broke off is continued by the id of its last message.
    let last = before.last().unwrap().clone();
    let rest: Vec<_> = std::iter::from_fn(|| streams[0].next_message()).collect();
    let rest: Vec<String> = match rest.last() {
        Some(last) if last.name == "end" => rest.iter().map(|one| one.id.clone()).collect(),
        _ => {
            let (rest, _) = read(&server, "one", Some(&last), usize::MAX);
            rest.into_iter().map(|(id, _)| id).collect()
        }
    };
    let (all, _) = read(&server, "one", None, usize::MAX);
    let ids = before.iter().chain(&rest);
    let ids: Vec<&String> = ids.filter(|id| !id.is_empty()).collect();
    assert_eq!(ids, all.iter().map(|(id, _)| id).collect::<Vec<_>>());
    let started = with_key(server.client(), token, "/v1/runs", "k", &start);
    assert_eq!(started.status, 201, "{started:?}");
}

#[test]
fn a_server_that_does_not_see_what_models_write_says_so() {
    let Some([one, other]) = two_servers(&working_team(), &["--no-work"]) else {
        return;
    };
    one.submit(&one.token, json!({ "name": "one" }));
    other.until(&other.token, "/v1/runs/one", |run| {
        run["state"] == "running"
    });
    let mut stream = other.open_stream(&other.token, "/v1/runs/one/stream");
    let first = stream.next_message().unwrap();
    assert_eq!(
        (&*first.name, &*first.data),
        ("source", r#"{"live":false}"#)
    );
    // The one that works on the run says nothing of the kind.
    let mut stream = one.open_stream(&one.token, "/v1/runs/one/stream");
    let cancelled = other.post(&other.token, "/v1/runs/one/cancel", &json!({}));
    assert_eq!(cancelled.status, 202, "{cancelled:?}");
    let names = std::iter::from_fn(|| stream.next_message()).map(|message| message.name);
    assert_eq!(names.collect::<Vec<_>>(), ["end"]);
}

#[test]
fn a_server_that_starts_before_its_database_listens_and_waits_for_it() {
    let Some(database) = Server::start() else {
        return;
    };
    let proxy = Proxy::start(&database.directory);
    proxy.refuse(true);
    let mut server = TestServer::start_at(&Runs::InDatabase(proxy.url()), TEAM);
    let assert_waits = |server: &TestServer| {
        assert_eq!(server.get("", "/health").status, 200);
        assert_eq!(server.get("", "/").status, 200);
        for path in ["/ready", "/v1/runs", "/v1/runs/one/events", "/v1/token"] {
            let answer = server.get(&server.token, path);
            assert_eq!(answer.status, 503, "{path}: {answer:?}");
            assert!(answer.headers.contains("retry-after"), "{path}: {answer:?}");
            assert_eq!(answer.json()["status"], 503, "{path}: {answer:?}");
        }
        let start = json!({ "name": "one", "idea": "go" });
        assert_eq!(server.post(&server.token, "/v1/runs", &start).status, 503);
    };
    assert_waits(&server);
    // It is told to end as at any other time.
    assert_eq!(server.terminate(), Some(0));
    server.start_again();
    assert_waits(&server);
    proxy.refuse(false);
    server.until("", "/ready", |_| true);
    server.submit(&server.token, json!({ "name": "one" }));
    server.until(&server.token, "/v1/runs/one", |run| {
        run["status"] == "waiting"
    });
}

/// Returns the ids of the events that a waiting run has.
fn event_ids(server: &TestServer) -> Vec<String> {
    let page = server
        .get(&server.token, "/v1/runs/one/events?limit=500")
        .json();
    let events = page["items"].as_array().unwrap().iter();
    events.map(|event| event["n"].to_string()).collect()
}
