//! Answers that a server gives again as long as nothing changes: they are never older than a change that was answered, and
//! they are given to nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Client, TestServer, wherever_runs_are};
use super::killed::answer;

/// The lists and the run that are read again and again.
const READ: [&str; 4] = [
    "/v1/runs",
    "/v1/runs?limit=2",
    "/v1/requests",
    "/v1/runs/one",
];

/// How long a reader waits before it reads again.
const PAUSE: Duration = Duration::from_millis(5);

/// Returns the names of the runs that a token sees, the newest first.
fn names(client: Client, token: &str, query: &str) -> Vec<String> {
    let page = client.get(token, &format!("/v1/runs{query}"));
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.json();
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|run| run["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Reads as a token while `change` is carried out.
fn while_read(client: Client, token: &str, change: impl FnOnce()) {
    /// Ends the readers, also if `change` panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&is_over);
        for path in READ {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    client.get(token, path);
                    sleep(PAUSE);
                }
            });
        }
        change();
    });
}

#[test]
fn what_was_changed_is_seen_by_whoever_reads_after_the_answer() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let (token, client) = (&server.token, server.client());
        while_read(client, token, || {
            let mut expected = Vec::new();
            for name in ["one", "two", "three", "four"] {
                server.submit(token, json!({ "name": name }));
                expected.insert(0, name.to_owned());
                assert_eq!(names(client, token, ""), expected);
                assert_eq!(
                    names(client, token, "?limit=2"),
                    expected[..expected.len().min(2)]
                );
            }
            server.until(token, "/v1/runs/one", |run| run["status"] == "waiting");
            answer(&server, "one");
            let open = server.get(token, "/v1/requests?run=one").json();
            assert_eq!(open["items"], json!([]));
            server.until(token, "/v1/runs/one", |run| run["state"] == "ended");
            let deleted = server.request("DELETE", "/v1/runs/one", token, &[], b"");
            assert_eq!(deleted.status, 204, "{deleted:?}");
            assert_eq!(server.get(token, "/v1/runs/one").status, 404);
            assert_eq!(names(client, token, ""), ["four", "three", "two"]);
            let again = server.submit(token, json!({ "name": "one" }));
            assert_eq!(server.get(token, "/v1/runs/one").json()["id"], again["id"]);
        });
    });
}

#[test]
fn a_tag_says_whether_a_client_has_the_newest_answer() {
    let server = TestServer::start(ASKING);
    let token = &server.token;
    server.submit(token, json!({ "name": "one" }));
    server.until(token, "/v1/runs/one", |run| run["state"] == "resting");
    let tag_of = |headers: &str| {
        let mut lines = headers.lines();
        let tag = lines.find_map(|line| line.strip_prefix("etag: "));
        tag.unwrap().to_owned()
    };
    let first = server.get(token, "/v1/runs/one");
    let tag = tag_of(&first.headers);
    for _ in 0..2 {
        let same = server.request(
            "GET",
            "/v1/runs/one",
            token,
            &[("if-none-match", &tag)],
            b"",
        );
        assert_eq!((same.status, same.body.as_str()), (304, ""), "{same:?}");
        assert_eq!(tag_of(&same.headers), tag);
        let other = server.request(
            "GET",
            "/v1/runs/one",
            token,
            &[("if-none-match", "\"x\"")],
            b"",
        );
        assert_eq!((other.status, &other.body), (200, &first.body));
        let head = server.request("HEAD", "/v1/runs/one", token, &[], b"");
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{head:?}");
    }
    answer(&server, "one");
    server.until(token, "/v1/runs/one", |run| run["state"] == "ended");
    let newer = server.request(
        "GET",
        "/v1/runs/one",
        token,
        &[("if-none-match", &tag)],
        b"",
    );
    assert_eq!(newer.status, 200, "{newer:?}");
    assert_ne!(tag_of(&newer.headers), tag);
}

#[test]
fn nobody_gets_the_answer_to_somebody_else() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let client = server.client();
        let new = |name: &str, tenant: &str, rights: &[&str]| {
            server.new_token(name, Some(tenant), rights)
        };
        let all = ["submit", "view", "answer"];
        let (ann, bob) = (new("ann", "red", &all), new("bob", "blue", &all));
        // Names of tokens are those of their tenants.
        let blue_ann = new("ann", "blue", &["submit"]);
        let (viewer, asker) = (new("eve", "red", &["view"]), new("joe", "red", &["submit"]));
        let none = new("max", "red", &["admin"]);
        for (token, name) in [
            (&ann, "one"),
            (&bob, "two"),
            (&asker, "three"),
            (&blue_ann, "four"),
        ] {
            let run = server.submit(token, json!({ "name": name }));
            let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
            server.until(&server.token, &path, |run| run["status"] == "waiting");
        }
        let paths = ["/v1/runs", "/v1/requests"];
        let seen = |token: &str, path: &str| -> Vec<String> {
            let page: Value = client.get(token, path).json();
            let name = if path == "/v1/runs" { "name" } else { "run" };
            let items = page["items"].as_array().unwrap().iter();
            items
                .map(|one| one[name].as_str().unwrap().to_owned())
                .collect()
        };
        // What was answered to one before is there when the next one asks.
        for _ in 0..2 {
            for path in paths {
                assert_eq!(seen(&server.token, path), ["four", "three", "two", "one"]);
                assert_eq!(seen(&ann, path), ["three", "one"]);
                assert_eq!(seen(&viewer, path), ["three", "one"]);
                assert_eq!(seen(&asker, path), ["three"]);
                assert_eq!(seen(&bob, path), ["four", "two"]);
                assert_eq!(seen(&blue_ann, path), ["four"]);
                assert_eq!(seen(&none, path), [""; 0]);
            }
            let status = |token: &str| client.get(token, "/v1/runs/one").status;
            assert_eq!([&ann, &viewer].map(|token| status(token)), [200, 200]);
            let others = [&bob, &asker, &blue_ann, &none];
            assert_eq!(others.map(|token| status(token)), [404; 4]);
            assert_eq!(names(client, &ann, "?limit=1"), ["three"]);
            assert_eq!(names(client, &ann, "?prefix=o"), ["one"]);
            assert_eq!(names(client, &ann, "?status=done"), [""; 0]);
        }
        let revoked = server.request(
            "DELETE",
            "/v1/tokens/eve?tenant=red",
            &server.token,
            &[],
            b"",
        );
        assert_eq!(revoked.status, 204);
        assert_eq!(client.get(&viewer, "/v1/runs").status, 401);
    });
}
