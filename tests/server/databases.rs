//! One server with several databases: it lists, finds and works on the runs of all of them, and puts new ones into the first.
//! Without PostgreSQL, these tests are skipped, and say so.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Answer, Runs, TestServer};
use super::killed::{answer, read};
use crate::database_server::{Proxy, Server};
use crate::workspace::Workspace;

/// Returns the URL of a new database. `None` without PostgreSQL.
fn new_database() -> Option<String> {
    match Runs::in_new_database()? {
        Runs::InDatabase(url) => Some(url),
        Runs::InFile => unreachable!("it is in a database"),
    }
}

/// Starts a server with both of two databases, and one with the second alone, which runs no teams.
fn two_servers() -> Option<[TestServer; 2]> {
    let (first, second) = (new_database()?, new_database()?);
    let place = || Workspace::with(ASKING);
    let only = TestServer::start_in(place(), &["--database", &second, "--no-work"]);
    let both = TestServer::start_in(place(), &["--database", &first, "--database", &second]);
    both.until("", "/ready", |_| true);
    Some([both, only])
}

fn id_of(run: &Value) -> String {
    run["id"].as_str().unwrap().to_owned()
}

/// Reads a list page by page.
fn all_items(server: &TestServer, list: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut path = format!("{list}?limit={limit}");
    loop {
        let page = server.get(&server.token, &path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        let page = page.json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => path = format!("{list}?limit={limit}&after={next}"),
            None => return items,
        }
    }
}

#[test]
fn the_runs_of_all_databases_are_in_one_list_with_the_newest_first() {
    let Some([both, only]) = two_servers() else {
        return;
    };
    let mut ids = Vec::new();
    for n in 0..7 {
        let server = [&both, &only, &only][n % 3];
        let name = format!("run-{n}");
        ids.insert(
            0,
            id_of(&server.submit(&server.token, json!({ "name": name }))),
        );
    }
    for id in &ids {
        let path = format!("/v1/runs/{id}");
        both.until(&both.token, &path, |run| run["status"] == "waiting");
    }
    for limit in [1, 2, 3, 7, 50] {
        let listed: Vec<String> = all_items(&both, "/v1/runs", limit)
            .iter()
            .map(id_of)
            .collect();
        assert_eq!(listed, ids, "{limit}");
        let asking = all_items(&both, "/v1/requests", limit);
        let asking: Vec<&str> = asking
            .iter()
            .map(|one| one["run_id"].as_str().unwrap())
            .collect();
        assert_eq!(asking, ids, "{limit}");
    }
    // Those that come while a client reads neither repeat nor hide others.
    let page = both.get(&both.token, "/v1/runs?limit=3").json();
    for (n, server) in [&both, &only].into_iter().enumerate() {
        server.submit(&server.token, json!({ "name": format!("later-{n}") }));
    }
    let next = page["next"].as_str().unwrap();
    let rest = both
        .get(&both.token, &format!("/v1/runs?limit=50&after={next}"))
        .json();
    let rest: Vec<String> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(id_of)
        .collect();
    assert_eq!(rest, ids[3..]);
    assert_eq!(all_items(&only, "/v1/runs", 50).len(), 5);
    let workers = both.get(&both.token, "/v1/workers").json();
    let workers = workers["items"].as_array().unwrap().iter();
    let databases: BTreeSet<String> = workers.map(|one| one["database"].to_string()).collect();
    assert_eq!(databases.len(), 2, "{databases:?}");
}

#[test]
fn a_run_of_another_database_is_read_answered_ended_forked_and_deleted() {
    let Some([both, only]) = two_servers() else {
        return;
    };
    let token = &both.token;
    let run = only.submit(&only.token, json!({ "name": "one" }));
    // It is another run than the one with the same number in the first database.
    both.submit(token, json!({ "name": "other" }));
    let mut page = both.open_stream(token, "/v1/events?run=one");
    both.until(token, "/v1/runs/one", |run| run["status"] == "waiting");
    let shown = both.get(token, "/v1/runs/one").json();
    assert_eq!(
        (&shown["id"], &shown["bundle"]),
        (&run["id"], &run["bundle"])
    );
    let note = json!({ "content": "note", "cause": "Note" });
    let send = || {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
        ];
        both.request(
            "POST",
            "/v1/runs/one/messages",
            token,
            &headers,
            note.to_string().as_bytes(),
        )
    };
    let (first, again) = (send(), send());
    assert_eq!((again.status, again.json()), (first.status, first.json()));
    assert!(
        again.headers.contains("idempotency-replayed: true"),
        "{again:?}"
    );
    answer(&both, "one");
    both.until(token, "/v1/runs/one", |run| run["state"] == "ended");
    let (events, is_over) = read(&both, "one", None, usize::MAX);
    assert!(is_over && events.iter().any(|(_, event)| event["kind"] == "run-ended"));
    loop {
        let message = page.next_message().expect("the stream goes on");
        if message.name.is_empty() && message.data.contains("\"run-ended\"") {
            break;
        }
    }
    let fork = |name: &str| {
        let body = json!({ "at": "main-0", "name": name });
        both.post(token, "/v1/runs/one/fork", &body)
    };
    let forked = fork("fork");
    assert_eq!(forked.status, 201, "{forked:?}");
    assert!(
        forked.json()["forked_from"]
            .as_str()
            .unwrap()
            .starts_with(&id_of(&run))
    );
    assert_eq!(only.get(&only.token, "/v1/runs/fork").status, 404);
    both.until(token, "/v1/runs/fork", |run| run["status"] == "waiting");
    assert_eq!(fork("one").status, 409);
    let deleted = both.request("DELETE", "/v1/runs/one", token, &[], b"");
    assert_eq!(deleted.status, 204, "{deleted:?}");
    for server in [&both, &only] {
        assert_eq!(server.get(&server.token, "/v1/runs/one").status, 404);
    }
}

#[test]
fn new_runs_are_put_into_the_first_database_under_names_that_are_free_in_all() {
    let Some([both, only]) = two_servers() else {
        return;
    };
    let token = &both.token;
    let bundle = only.bundle(&only.token);
    let start = |name: &str, key: Option<&str>| -> Answer {
        let body = json!({ "bundle": bundle, "name": name, "idea": "go" }).to_string();
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        both.request("POST", "/v1/runs", token, &headers, body.as_bytes())
    };
    let theirs = id_of(&only.submit(&only.token, json!({ "name": "one" })));
    for key in [None, Some("k")] {
        let taken = start("one", key);
        assert_eq!(taken.status, 409, "{taken:?}");
        assert_eq!(taken.json()["type"], "urn:strata-host:name-taken");
    }
    // The bundle was uploaded elsewhere.
    let started = start("two", Some("l"));
    assert_eq!(started.status, 201, "{started:?}");
    assert_eq!(start("two", Some("l")).json(), started.json());
    assert_eq!(start("two", None).status, 409);
    assert_eq!(only.get(&only.token, "/v1/runs/two").status, 404);
    both.until(token, "/v1/runs/two", |run| run["status"] == "waiting");
    // Whoever knows only the second database may use the name; then the order of the databases decides.
    let second = id_of(&only.submit(&only.token, json!({ "name": "two" })));
    let found = both.get(token, "/v1/runs/two").json();
    assert_eq!(found["id"], started.json()["id"]);
    for id in [&second, &theirs] {
        let found = both.get(token, &format!("/v1/runs/{id}")).json();
        assert_eq!(found["id"], json!(id));
    }
}

#[test]
fn a_list_that_would_lack_the_runs_of_a_database_that_is_away_is_refused() {
    let (Some(server), Some(first)) = (Server::start(), new_database()) else {
        return;
    };
    let proxy = Proxy::start(&server.directory);
    let second = proxy.url();
    let only = TestServer::start_in(
        Workspace::with(ASKING),
        &["--database", &second, "--no-work"],
    );
    let theirs = only.submit(&only.token, json!({ "name": "theirs" }));
    assert_eq!(only.terminate(), Some(0));
    let arguments = ["--database", &first, "--database", &second];
    let both = TestServer::start_in(Workspace::with(ASKING), &arguments);
    let token = &both.token;
    let ours = id_of(&both.submit(token, json!({ "name": "ours" })));
    let paths = ["ours", &ours, "theirs", &id_of(&theirs)].map(|name| format!("/v1/runs/{name}"));
    for path in &paths {
        both.until(token, path, |run| run["status"] == "waiting");
    }
    proxy.refuse(true);
    for path in [
        "/v1/runs",
        "/v1/requests",
        "/v1/workers",
        "/ready",
        &paths[2],
        &paths[3],
        "/v1/runs/x",
    ] {
        let refused = both.get(token, path);
        assert_eq!(refused.status, 503, "{path}: {refused:?}");
        assert!(
            refused.headers.contains("retry-after"),
            "{path}: {refused:?}"
        );
    }
    for path in &paths[..2] {
        assert_eq!(both.get(token, path).status, 200, "{path}");
    }
    answer(&both, "ours");
    both.until(token, &paths[0], |run| run["state"] == "ended");
    proxy.refuse(false);
    both.until("", "/ready", |_| true);
    assert_eq!(all_items(&both, "/v1/runs", 50).len(), 2);
    answer(&both, "theirs");
    both.until(token, &paths[2], |run| run["state"] == "ended");
}

#[test]
fn a_database_is_not_given_twice() {
    let Some(url) = new_database() else {
        return;
    };
    let place = Workspace::with(ASKING);
    let serve = [
        "serve",
        "--database",
        &url,
        "--database",
        &url,
        "--listen",
        "127.0.0.1:0",
    ];
    let refused = place.host(&serve).expect(2);
    assert!(
        refused.stderr.contains("are the same"),
        "{}",
        refused.stderr
    );
}
