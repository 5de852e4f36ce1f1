//! Attempts of tokens to see, change or guess what is not their own.

use serde_json::{Value, json};

use super::ASKING;
use super::client::{Runs, TestServer, wherever_runs_are};

/// What is there: a run of each of two tenants, each of which waits for a person, and tokens.
struct Scene {
    server: TestServer,
    /// The token of the other tenant, with all rights but that of an administrator.
    blue: String,
    /// The tokens of the tenant, by what they may do.
    ann: String,
    bob: String,
    viewer: String,
    boss: String,
    operator: String,
    admin: String,
    nothing: String,
    /// The id of the run of ann, its request, its bundle and a blob of it.
    run: String,
    request: String,
    bundle: String,
    blob: String,
}

impl Scene {
    fn new(runs: &Runs) -> Self {
        let server = TestServer::start_at(runs, ASKING);
        let token = |name: &str, tenant: &str, rights: &[&str]| {
            server.new_token(name, Some(tenant), rights)
        };
        let blue = token("ann", "blue", &["submit", "view", "answer", "operate"]);
        let ann = token("ann", "red", &["submit"]);
        let scene_tokens = (
            token("bob", "red", &["submit"]),
            token("viewer", "red", &["view"]),
            token("boss", "red", &["answer"]),
            token("operator", "red", &["operate"]),
            token("admin", "red", &["admin"]),
            token("nothing", "green", &["view"]),
        );
        let run = server.submit(
            &ann,
            json!({ "name": "mine", "labels": { "secret": "plan" } }),
        );
        let run = run["id"].as_str().unwrap().to_owned();
        server.submit(&blue, json!({ "name": "theirs" }));
        for (token, path) in [(&ann, "/v1/runs/mine"), (&blue, "/v1/runs/theirs")] {
            server.until(token, path, |run| run["state"] == "resting");
        }
        let open = server.get(&scene_tokens.2, "/v1/requests").json();
        let request = open["items"][0]["id"].as_str().unwrap().to_owned();
        let bundle = server.bundle(&ann);
        let blob = server.upload(&ann, b"a private note");
        let (bob, viewer, boss, operator, admin, nothing) = scene_tokens;
        Self {
            server,
            blue,
            ann,
            bob,
            viewer,
            boss,
            operator,
            admin,
            nothing,
            run,
            request,
            bundle,
            blob,
        }
    }

    fn token<'a>(&'a self, who: &'a str) -> &'a str {
        match who {
            "blue" => &self.blue,
            "ann" => &self.ann,
            "bob" => &self.bob,
            "viewer" => &self.viewer,
            "boss" => &self.boss,
            "operator" => &self.operator,
            "admin" => &self.admin,
            "nothing" => &self.nothing,
            other => other,
        }
    }

    /// Checks that an attempt has one of these statuses, and that its answer tells nothing.
    fn check(&self, who: &str, attempt: (&str, String, Value), expected: &[u16]) {
        let token = self.token(who);
        let (method, path, body) = attempt;
        let (headers, bytes): (&[(&str, &str)], Vec<u8>) = match &body {
            Value::Null => (&[], Vec::new()),
            body => (
                &[("content-type", "application/json")],
                body.to_string().into_bytes(),
            ),
        };
        let answer = self.server.request(method, &path, token, headers, &bytes);
        assert!(
            expected.contains(&answer.status),
            "{who}: {method} {path}: {answer:?}"
        );
        for secret in ["how many?", "a private note", "\"plan\""] {
            assert!(
                !answer.body.contains(secret),
                "{who}: {method} {path}: {answer:?}"
            );
        }
    }

    fn assert_unchanged(&self) {
        let run = self.server.get(&self.viewer, "/v1/runs/mine").json();
        assert_eq!(
            (&run["status"], &run["requests"]),
            (&json!("waiting"), &json!(1))
        );
        assert_eq!(run["labels"], json!({ "secret": "plan" }));
    }

    fn get(&self, path: &str) -> (&'static str, String, Value) {
        ("GET", self.fill(path), Value::Null)
    }

    fn post(&self, path: &str, body: Value) -> (&'static str, String, Value) {
        ("POST", self.fill(path), body)
    }

    fn fill(&self, path: &str) -> String {
        let path = path.replace("RUN", &self.run).replace("BLOB", &self.blob);
        path.replace("BUNDLE", &self.bundle)
    }
}

#[test]
fn a_run_does_not_exist_for_a_token_that_may_not_see_it() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        let answers = json!({ scene.request.clone(): 7 });
        let message = json!({ "content": "x", "cause": "p" });
        // What belongs to a run, for tokens that may not see it: of another tenant, of another tenant with the same name of
        // a token, of the same tenant without a right, and by the name as well as by the id.
        for who in ["blue", "bob", "admin", "nothing"] {
            for name in ["mine", "RUN"] {
                for rest in [
                    "",
                    "/events",
                    "/stream",
                    "/checkpoints",
                    "/checkpoints/main-0",
                    "/messages",
                    "/messages/idea",
                    "/conversations",
                    "/calls",
                    "/calls/1",
                    "/graph",
                    "/graph.svg",
                    "/report",
                    "/files",
                    "/files/a.txt",
                    "/team.json",
                    "/diff?with=theirs",
                ] {
                    scene.check(who, scene.get(&format!("/v1/runs/{name}{rest}")), &[404]);
                }
                for rest in ["cancel", "pause", "resume", "prune"] {
                    let attempt = scene.post(&format!("/v1/runs/{name}/{rest}"), Value::Null);
                    scene.check(who, attempt, &[404]);
                }
                let attempt = scene.post(&format!("/v1/runs/{name}/answers"), answers.clone());
                scene.check(who, attempt, &[404]);
                let attempt = scene.post(&format!("/v1/runs/{name}/messages"), message.clone());
                scene.check(who, attempt, &[404]);
                let fork = json!({ "at": "main-0", "name": "stolen" });
                let attempt = scene.post(&format!("/v1/runs/{name}/fork"), fork);
                scene.check(who, attempt, &[404]);
                let delete = (
                    "DELETE",
                    scene.fill(&format!("/v1/runs/{name}")),
                    Value::Null,
                );
                scene.check(who, delete, &[404]);
            }
            scene.check(who, scene.get("/v1/requests?run=mine"), &[404]);
            scene.check(who, scene.get("/v1/runs/red%2Fmine"), &[404]);
            scene.check(who, scene.get("/v1/runs/..%2Fred%2Fmine"), &[404]);
            scene.check(
                who,
                scene.get("/v1/runs?prefix=m&label=secret%3Dplan"),
                &[200],
            );
            let open = scene.server.get(scene.token(who), "/v1/requests").json();
            let of_others = open["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|item| item["run"] != "theirs");
            assert_eq!(of_others.count(), 0, "{who}: {open}");
        }
        scene.assert_unchanged();
    });
}

#[test]
fn a_token_does_only_what_it_has_a_right_to() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        let answers = json!({ scene.request.clone(): 7 });
        let message = json!({ "content": "x", "cause": "p" });
        // What is seen and not allowed.
        for (who, path, body) in [
            ("viewer", "cancel", Value::Null),
            ("viewer", "pause", Value::Null),
            ("viewer", "resume", Value::Null),
            ("viewer", "prune", Value::Null),
            ("viewer", "answers", answers.clone()),
            ("viewer", "messages", message.clone()),
            ("viewer", "fork", json!({ "at": "main-0" })),
            ("ann", "answers", answers.clone()),
            ("ann", "fork", json!({ "at": "main-0" })),
            ("ann", "prune", Value::Null),
            ("boss", "cancel", Value::Null),
            ("boss", "messages", message.clone()),
            ("operator", "answers", answers.clone()),
        ] {
            scene.check(
                who,
                scene.post(&format!("/v1/runs/mine/{path}"), body),
                &[403],
            );
        }
        for who in ["viewer", "ann", "boss"] {
            let delete = ("DELETE", "/v1/runs/mine".to_owned(), Value::Null);
            scene.check(who, delete, &[403]);
        }
        // Tokens, workers and metrics.
        let token = json!({ "name": "more", "tenant": "red", "rights": ["view"] });
        for who in ["blue", "ann", "viewer", "boss", "operator", "nothing"] {
            scene.check(who, scene.get("/v1/tokens"), &[403]);
            scene.check(who, scene.post("/v1/tokens", token.clone()), &[403]);
            let revoke = ("DELETE", "/v1/tokens/ann".to_owned(), Value::Null);
            scene.check(who, revoke, &[403]);
            scene.check(who, scene.get("/v1/workers"), &[403]);
            scene.check(who, scene.get("/metrics"), &[403]);
        }
        let elsewhere = json!({ "name": "more", "tenant": "blue", "rights": ["view"] });
        scene.check("admin", scene.post("/v1/tokens", elsewhere), &[403]);
        let revoke = (
            "DELETE",
            "/v1/tokens/ann?tenant=blue".to_owned(),
            Value::Null,
        );
        scene.check("admin", revoke, &[403]);
        scene.check("admin", scene.get("/v1/workers"), &[403]);
        scene.check("admin", scene.get("/metrics"), &[403]);
        scene.assert_unchanged();
    });
}

#[test]
fn files_and_bundles_belong_to_the_tenant_that_uploaded_them() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        // Files and bundles of another tenant, and of this one without the right to start runs.
        let bundle = scene.bundle.clone();
        let start = json!({ "bundle": bundle, "idea": "go" });
        scene.check(
            "blue",
            ("HEAD", scene.fill("/v1/blobs/BLOB"), Value::Null),
            &[404],
        );
        scene.check(
            "nothing",
            ("HEAD", scene.fill("/v1/blobs/BLOB"), Value::Null),
            &[403],
        );
        scene.check("viewer", scene.post("/v1/runs", start.clone()), &[403]);
        scene.check("boss", scene.post("/v1/runs", start.clone()), &[403]);
        scene.check("operator", scene.post("/v1/runs", start), &[403]);
        let files = json!({ "files": { "note.txt": scene.blob.clone() } });
        scene.check("blue", scene.post("/v1/bundles", files.clone()), &[422]);
        scene.check("viewer", scene.post("/v1/bundles", files), &[403]);
        let attach = json!({ "bundle": scene.server.bundle(&scene.blue), "files": { "n.txt": scene.blob.clone() } });
        scene.check("blue", scene.post("/v1/runs", attach), &[422]);
    });
}

#[test]
fn a_request_without_a_token_in_its_header_is_refused() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        // No token, a wrong one, and one where none belongs.
        for token in ["", "wrong", "strata_00"] {
            scene.check(token, scene.get("/v1/runs"), &[401]);
            scene.check(token, scene.get("/v1/runs/mine"), &[401]);
            scene.check(token, scene.get("/v1/events"), &[401]);
        }
        let by_query = format!("/v1/runs?token={}", scene.ann);
        scene.check("", ("GET", by_query, Value::Null), &[401]);
        let cookie = format!("token={}", scene.ann);
        let answer = scene
            .server
            .request("GET", "/v1/runs", "", &[("cookie", &cookie)], b"");
        assert_eq!(answer.status, 401);
    });
}

#[test]
fn several_runs_are_changed_each_with_the_rights_for_it() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        let bulk =
            json!({ "do": "cancel", "runs": ["mine", "theirs", scene.run.clone(), "nothing"] });
        let answer = scene.server.post(&scene.blue, "/v1/bulk", &bulk).json();
        let statuses: Vec<u64> = answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["status"].as_u64().unwrap())
            .collect();
        assert_eq!(statuses, [404, 200, 404, 404], "{answer}");
        let run = scene.server.get(&scene.viewer, "/v1/runs/mine").json();
        assert_eq!(run["status"], "waiting");
    });
}

#[test]
fn what_another_tenant_has_changes_no_answer() {
    wherever_runs_are(|runs| {
        let scene = Scene::new(runs);
        // The same names, keys and files, whichever tenant had them first.
        let key = [
            ("idempotency-key", "k"),
            ("content-type", "application/json"),
        ];
        let start = |token: &str| {
            let body =
                json!({ "bundle": scene.server.bundle(token), "name": "same", "idea": "go" });
            scene
                .server
                .request("POST", "/v1/runs", token, &key, body.to_string().as_bytes())
        };
        let (one, other) = (start(&scene.ann), start(&scene.blue));
        assert_eq!((one.status, other.status), (201, 201), "{one:?} {other:?}");
        assert!(!other.headers.contains("idempotency-replayed"));
        assert_ne!(one.json()["id"], other.json()["id"]);
        let listed = scene.server.get(&scene.nothing, "/v1/runs").body;
        assert_eq!(listed, r#"{"items":[],"next":null}"#);
    });
}

#[test]
fn a_run_of_another_tenant_is_named_with_that_by_a_token_of_all_tenants() {
    wherever_runs_are(|runs| {
        let server = TestServer::start_at(runs, ASKING);
        let red = server.new_token("ann", Some("red"), &["submit", "view", "answer"]);
        let run = server.submit(&red, json!({ "name": "one" }));
        // Its own tenant has one of the same name.
        server.submit(&server.token, json!({ "name": "one" }));
        for (token, path) in [
            (&server.token, "/v1/runs/red%2Fone"),
            (&red, "/v1/runs/one"),
            (&red, "/v1/runs/red%2Fone"),
        ] {
            assert_eq!(server.get(token, path).json()["id"], run["id"], "{path}");
        }
        let own = server.get(&server.token, "/v1/runs/one").json();
        assert_eq!(own["tenant"], "default");
        assert_eq!(server.get(&red, "/v1/runs/default%2Fone").status, 404);
        server.until(&server.token, "/v1/runs/red%2Fone", |run| {
            run["status"] == "waiting"
        });
        let open = server.get(&server.token, "/v1/requests?run=red%2Fone");
        let request = &open.json()["items"][0];
        assert_eq!(
            (&request["tenant"], &request["run"]),
            (&json!("red"), &json!("one"))
        );
        let mut stream = server.open_stream(&server.token, "/v1/events?run=red%2Fone");
        let id = request["id"].as_str().unwrap();
        let answers = json!({ id: 3 });
        let answered = server.post(&server.token, "/v1/runs/red%2Fone/answers", &answers);
        assert_eq!(answered.status, 200, "{answered:?}");
        let events = std::iter::from_fn(|| stream.next_message());
        let mut events = events.filter_map(|event| serde_json::from_str(&event.data).ok());
        assert!(events.any(|event: Value| event["kind"] == "run-ended"));
        let done = server.until(&red, "/v1/runs/one", |run| run["state"] == "ended");
        assert_eq!(done["output"], "answer 3");
    });
}
