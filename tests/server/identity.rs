//! Who and what is meant by a name, an id and a key, whoever else uses them.

use serde_json::json;

use super::ASKING;
use super::client::{TestServer, wherever_runs_are};
use crate::process::Process;

#[test]
fn nothing_takes_the_place_of_a_run_that_is_named_by_its_id() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let victim = server.submit(&server.token, json!({ "name": "victim" }));
        let id = victim["id"].as_str().expect("an id");
        let body = json!({ "bundle": victim["bundle"], "idea": "go", "name": id });
        let refused = server.post(&server.token, "/v1/runs", &body);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.json()["errors"][0]["pointer"], "/name");
        assert_eq!(
            server.get(&server.token, &format!("/v1/runs/{id}")).json()["name"],
            "victim"
        );
    });
}

#[test]
fn a_key_gives_a_run_only_to_tokens_that_see_it() {
    let server = TestServer::start(ASKING);
    let token = |name: &str, rights: &[&str]| {
        let body = json!({ "name": name, "tenant": "default", "rights": rights });
        let made = server.post(&server.token, "/v1/tokens", &body);
        made.json()["token"].as_str().expect("a token").to_owned()
    };
    let (ann, bob, eve) = (
        token("ann", &["submit"]),
        token("bob", &["submit"]),
        token("eve", &["submit", "view"]),
    );
    let body = json!({ "bundle": server.bundle(&ann), "idea": "the secret of ann" });
    let start = |token: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("idempotency-key", "nightly"),
        ];
        server.request(
            "POST",
            "/v1/runs",
            token,
            &headers,
            body.to_string().as_bytes(),
        )
    };
    let first = start(&ann);
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(start(&ann).json()["id"], first.json()["id"]);
    assert_eq!(start(&eve).json()["id"], first.json()["id"]);
    let refused = start(&bob);
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(!refused.body.contains("secret"), "{refused:?}");
    assert_eq!(
        server.get(&eve, "/v1/runs").json()["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn names_that_would_mean_something_else_elsewhere_are_refused() {
    let server = TestServer::start(ASKING);
    let check = |path: &str, body: serde_json::Value, pointer: &str| {
        let refused = server.post(&server.token, path, &body);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(
            refused.json()["errors"][0]["pointer"],
            pointer,
            "{refused:?}"
        );
    };
    let token =
        |name: &str, tenant: &str| json!({ "name": name, "tenant": tenant, "rights": ["view"] });
    // The token of the storage has this name, and all runs have this cap.
    check("/v1/tokens", token("local", "default"), "/name");
    check("/v1/tokens", token("ann", "all"), "/tenant");
    // No cap can have this name.
    check("/v1/tokens", token("ann", "Tütü"), "/tenant");
    let bundle = server.bundle(&server.token);
    let labelled = |key: &str| json!({ "bundle": bundle, "labels": { key: "x" } });
    check("/v1/runs", labelled("a=b"), "/labels/a=b");
    check("/v1/runs", labelled(""), "/labels/");
    let create = [
        "token",
        "create",
        "local",
        "--rights",
        "view",
        "--storage",
        "other",
    ];
    let refused = server.place.host(&create).expect(2);
    assert!(
        refused
            .stderr
            .contains("`NAME`: this is the name of the token"),
        "{refused:?}"
    );
}

#[test]
fn a_fork_by_a_command_is_not_given_the_name_of_a_run_of_another_tenant() {
    let server = TestServer::start(ASKING);
    server.submit(&server.token, json!({ "name": "one" }));
    server.until(&server.token, "/v1/runs/one", |run| {
        run["status"] == "waiting"
    });
    let file = server.place.path("served/runs.db");
    let url = |name: &str| format!("sqlite:{}?run={name}", file.display());
    let fork = [
        "fork",
        &url("one"),
        "--at",
        "main-0",
        "--to",
        &url("red/two"),
    ];
    let refused = server.place.host(&fork).expect(2);
    assert!(
        refused
            .stderr
            .contains("`red/two` cannot be the name of a run"),
        "{refused:?}"
    );
    assert_eq!(
        server.get(&server.token, "/v1/runs").json()["items"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn a_text_that_is_no_token_is_not_taken_for_a_server_that_is_away() {
    let server = TestServer::start(ASKING);
    let address = format!("http://127.0.0.1:{}", server.port);
    let mut command = server.place.command(&["runs", "--server", &address]);
    command.env("STRATA_TOKEN", format!("{}\nmore", server.token));
    let refused = Process::spawn(command).end().expect(2);
    assert!(
        refused.stderr.contains("`$STRATA_TOKEN` is no token"),
        "{refused:?}"
    );
}
