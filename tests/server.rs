//! The server: what a token sees and changes, requests that are meant to confuse it, and its streams.

mod attempts;
pub mod client;
mod commands;
mod databases;
mod described;
mod encrypted;
mod full_disk;
mod generated_client;
mod identity;
mod kept_answers;
mod killed;
pub mod mcp;
mod open_calls;
mod parser;
mod schema_fuzz;
mod several;
mod slow_reader;
mod starting;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use client::{Runs, StreamMessage, TestServer, wherever_runs_are};

use crate::postgres_server::query;

/// A team that asks a person and says the answer.
pub const ASKING: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = { steps = [{ ask = "how many?", schema = { type = "integer" } }, { say = "answer {reads}" }] }
"#;

#[test]
fn a_run_is_started_answered_and_read_to_its_end() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let run = server.submit(&server.token, json!({ "name": "one" }));
        let waiting = server.until(&server.token, "/v1/runs/one", |run| {
            run["status"] == "waiting"
        });
        assert_eq!(waiting["id"], run["id"]);
        let open = server.get(&server.token, "/v1/requests").json();
        let id = open["items"][0]["id"].as_str().unwrap();
        let answered = server.post(&server.token, "/v1/runs/one/answers", &json!({ id: 3 }));
        assert_eq!(answered.status, 200, "{answered:?}");
        let done = server.until(&server.token, "/v1/runs/one", |run| run["state"] == "ended");
        assert_eq!(done["output"], "answer 3");
    });
}

#[test]
fn messages_of_many_clients_to_one_run_are_all_taken() {
    const CLIENTS: usize = 8;
    const MESSAGES: usize = 6;
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        server.submit(&server.token, json!({ "name": "one" }));
        let (http, token) = (server.client(), &server.token);
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || {
                    for n in 0..MESSAGES {
                        let content = format!("{client}-{n}");
                        let message = json!({ "content": content, "cause": "Note" });
                        let sent = http.post(token, "/v1/runs/one/messages", &message);
                        assert!(sent.status < 300, "{sent:?}");
                    }
                });
            }
        });
        let saved = server.get(&server.token, "/v1/runs/one/team.json").body;
        for client in 0..CLIENTS {
            for n in 0..MESSAGES {
                let content = format!("\"{client}-{n}\"");
                assert!(saved.contains(&content), "{content}");
            }
        }
    });
}

#[test]
fn a_revoked_token_ends_its_streams() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        server.submit(&server.token, json!({ "name": "one" }));
        let ann = server.new_token("ann", Some("default"), &["view"]);
        let stream = server.open_stream(&ann, "/v1/runs/one/events");
        let revoked = server.request(
            "DELETE",
            "/v1/tokens/ann?tenant=default",
            &server.token,
            &[],
            b"",
        );
        assert_eq!(revoked.status, 204);
        // The connection is closed within some seconds.
        let read = stream.read_to_end();
        assert!(!read.contains("event: end"), "{read}");
        assert_eq!(server.get(&ann, "/v1/runs").status, 401);
    });
}

#[test]
fn the_stream_of_a_page_brings_what_a_run_does_after_it_has_ended_and_was_resumed() {
    wherever_runs_are(|runs| {
        let failing = ASKING.replace(
            r#"{ ask = "how many?", schema = { type = "integer" } }, { say = "answer {reads}" }"#,
            r#"{ fail = "trap", attempts = [1] }, { say = "done" }"#,
        );
        let server = TestServer::start_at(runs, &failing);
        server.submit(&server.token, json!({ "name": "one" }));
        let mut stream = server.open_stream(&server.token, "/v1/events?run=one");
        let mut until_the_end = |wanted: &str| {
            let mut numbers = Vec::new();
            loop {
                let message = stream.next_message().expect("the stream goes on");
                assert_ne!(message.name, "end");
                if !message.name.is_empty() {
                    continue;
                }
                let event: serde_json::Value = serde_json::from_str(&message.data).unwrap();
                numbers.push(event["n"].as_u64().unwrap());
                if event["kind"] == "run-ended" {
                    assert_eq!(event["status"], wanted);
                    return numbers;
                }
            }
        };
        let mut numbers = until_the_end("failed");
        server.until(&server.token, "/v1/runs/one", |run| run["state"] == "ended");
        let resumed = server.post(&server.token, "/v1/runs/one/resume", &json!({}));
        assert_eq!(resumed.status, 202, "{resumed:?}");
        numbers.extend(until_the_end("done"));
        let all: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, all);
    });
}

#[test]
fn the_stream_of_a_page_keeps_its_position_when_its_run_is_deleted() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let token = &server.token;
        server.submit(token, json!({ "name": "one" }));
        server.until(token, "/v1/runs/one", |run| run["status"] == "waiting");
        let mut stream = server.open_stream(token, "/v1/events?run=one");
        // Returns the number of the last event that was sent of the run, according to the id of a message.
        let position = |message: &StreamMessage| {
            let id = URL_SAFE_NO_PAD.decode(&message.id).unwrap();
            let id: serde_json::Value = serde_json::from_slice(&id).unwrap();
            id["event"].as_u64().unwrap()
        };
        killed::answer(&server, "one");
        let last = loop {
            let message = stream.next_message().unwrap();
            if message.data.contains("\"run-ended\"") && message.data.contains("\"done\"") {
                break position(&message);
            }
        };
        assert!(last > 3, "{last}");
        server.until(token, "/v1/runs/one", |run| run["state"] == "ended");
        let deleted = server.request("DELETE", "/v1/runs/one", token, &[], b"");
        assert_eq!(deleted.status, 204, "{deleted:?}");
        server.submit(token, json!({ "name": "two" }));
        let message = loop {
            let message = stream.next_message().unwrap();
            if message.name == "run" && message.data.contains("\"two\"") {
                break message;
            }
        };
        assert_eq!(position(&message), last);
    });
}

#[test]
fn a_token_is_made_once_under_a_key_and_its_text_is_not_kept() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let make = |name: &str| {
            let body = json!({ "name": name, "tenant": "red", "rights": ["view"] }).to_string();
            let headers = [
                ("content-type", "application/json"),
                ("idempotency-key", "ann's token"),
            ];
            server.request(
                "POST",
                "/v1/tokens",
                &server.token,
                &headers,
                body.as_bytes(),
            )
        };
        let made = make("ann");
        assert_eq!(made.status, 201, "{made:?}");
        let text = made.json()["token"].as_str().unwrap().to_owned();
        let again = make("ann");
        assert_eq!(again.status, 201, "{again:?}");
        assert!(
            again.headers.contains("idempotency-replayed: true"),
            "{again:?}"
        );
        let expected = {
            let mut first = made.json();
            first["token"] = json!(null);
            first
        };
        assert_eq!(again.json(), expected);
        assert_eq!(make("bob").status, 422);
        assert_eq!(server.get(&text, "/v1/runs").status, 200);
        assert_eq!(server.terminate(), Some(0));
        if let Runs::InDatabase(url) = runs {
            let sql = "SELECT string_agg(text, ' ') FROM strata.server_record";
            let kept = query(url, sql);
            assert!(kept.contains("hash") && !kept.contains(&text), "{kept}");
        }
        for entry in std::fs::read_dir(server.place.path("served")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let bytes = std::fs::read(&path).unwrap();
                let is_kept = bytes
                    .windows(text.len())
                    .any(|part| part == text.as_bytes());
                assert!(!is_kept, "{path:?} has the text of the token");
            }
        }
    });
}
