//! What the OpenAPI document says of answers: every field that an answer has is described, and every header that is said to
//! be there is.

use serde_json::{Value, json};

use super::client::{Answer, TestServer};
use super::commands::host;
use crate::workspace::Workspace;

/// A team that asks a person, writes a file, and has a conversation with a tool that fails once.
const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "t"
idea = "go"
[llm]
provider = "scripted"
replies = "replies.toml"
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "probe.wasm"
config = { steps = [{ write = "/out/a", text = "hello" }, { ask = "how many?", schema = { type = "object", properties = { n = { type = "integer" } } }, default = { n = 1 } }, { say = "answer" }] }
[role.action.allow]
dirs = [{ host = "out", guest = "/out", write = true }]
[[role]]
name = "B"
watch = ["UserRequirement"]
react = "tools"
tool_faults = "return"
[[role.action]]
name = "act"
component = "probe.wasm"
config = { steps = [{ now = true }, { fail = "trap" }] }
"#;
const REPLIES: &str = r#"
[[reply]]
turn = 0
text = "first"
tool_calls = [{ name = "act" }]
[[reply]]
turn = 1
text = "it failed"
"#;

/// The document of a server.
struct Document(Value);

impl Document {
    /// Reads it. Fields that it does not describe are then not allowed.
    fn read(server: &TestServer) -> Self {
        let mut document = server.get("", "/v1/openapi.json").json();
        let schemas = document["components"]["schemas"].as_object_mut();
        for (_, schema) in schemas.expect("there are schemas") {
            let is_open =
                schema["properties"].is_object() && schema["additionalProperties"].is_null();
            if is_open {
                schema["unevaluatedProperties"] = json!(false);
            }
        }
        Self(document)
    }

    /// Checks an answer against what the document says of it.
    fn check(&self, method: &str, path: &str, answer: &Answer) {
        let status = answer.status.to_string();
        let described = &self.0["paths"][path][method]["responses"][&status];
        assert!(described.is_object(), "{method} {path} {answer:?}");
        for (name, header) in described["headers"].as_object().into_iter().flatten() {
            let line = format!("\n{}: ", name.to_ascii_lowercase());
            let is_there = answer.headers.contains(&line);
            assert!(
                is_there || header["required"] == false,
                "{name}: {answer:?}"
            );
        }
        let content = described["content"].as_object();
        let Some((_, content)) = content.and_then(|content| content.iter().next()) else {
            assert!(answer.body.is_empty(), "{answer:?}");
            return;
        };
        let mut schema = content["schema"].clone();
        schema["components"] = self.0["components"].clone();
        let validator = jsonschema::validator_for(&schema).expect("it is a schema");
        let body = answer.json();
        let errors: Vec<String> = validator
            .iter_errors(&body)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{method} {path}: {errors:?}\n{body:#}");
    }
}

/// Starts a server with a run `one` whose role A waits for a person and whose role B has failed.
fn server() -> TestServer {
    let place = Workspace::with(TEAM);
    place.write("replies.toml", REPLIES);
    std::fs::create_dir_all(place.path("out")).expect("a directory");
    let server = TestServer::start_in(place, &[]);
    let submit = ["submit", "team.toml", "--name", "one", "--wait"];
    host(&server, &submit, 4);
    server
}

#[test]
fn every_field_and_header_of_an_answer_is_in_the_document() {
    let server = server();
    let document = Document::read(&server);
    let token = &server.token;
    let get = |path: &str, at: &str| {
        let answer = server.get(token, at);
        assert_eq!(answer.status, 200, "{answer:?}");
        document.check("get", path, &answer);
        answer.json()
    };
    let run = |part: &str| {
        get(
            &format!("/v1/runs/{{run}}{part}"),
            &format!("/v1/runs/one{part}"),
        )
    };
    let requests = get("/v1/requests", "/v1/requests");
    let post = |path: &str, at: &str, body: &Value, status: u16| {
        let answer = server.post(token, at, body);
        assert_eq!(answer.status, status, "{answer:?}");
        document.check("post", path, &answer);
        answer.json()
    };
    let request = requests["items"][0]["id"].as_str().expect("a request");
    let path = "/v1/runs/{run}/answers";
    post(path, "/v1/runs/one/answers", &json!({ "nobody": 1 }), 422);
    post(
        path,
        "/v1/runs/one/answers",
        &json!({ request: { "n": 3 } }),
        200,
    );
    server.until(token, "/v1/runs/one", |run| run["state"] == "ended");
    for part in [
        "",
        "/checkpoints",
        "/messages",
        "/conversations",
        "/calls",
        "/files",
        "/events",
        "/graph",
        "/team.json",
    ] {
        let body = run(part);
        let is_empty = body["items"].as_array().is_some_and(Vec::is_empty);
        assert!(!is_empty, "{part}");
    }
    let id = |list: &Value, name: &str| list["items"][0][name].to_string().replace('"', "");
    let checkpoint = id(&run("/checkpoints"), "id");
    let (message, call) = (id(&run("/messages"), "id"), id(&run("/calls"), "n"));
    get(
        "/v1/runs/{run}/messages/{id}",
        &format!("/v1/runs/one/messages/{message}"),
    );
    get(
        "/v1/runs/{run}/calls/{n}",
        &format!("/v1/runs/one/calls/{call}"),
    );
    get(
        "/v1/runs/{run}/checkpoints/{id}",
        &format!("/v1/runs/one/checkpoints/{checkpoint}"),
    );
    let diff = format!("/v1/runs/one/diff?with=one@{checkpoint}");
    let diff = get("/v1/runs/{run}/diff", &diff);
    assert!(diff["difference"]["scopes"].is_array(), "{diff}");
    for path in [
        "/v1/runs",
        "/v1/token",
        "/v1/tokens",
        "/v1/workers",
        "/health",
        "/ready",
    ] {
        get(path, path);
    }
    let more = json!({ "content": "x", "cause": "Nobody" });
    post(
        "/v1/runs/{run}/messages",
        "/v1/runs/one/messages",
        &more,
        202,
    );
    let fork = json!({ "at": checkpoint, "name": "two" });
    post("/v1/runs/{run}/fork", "/v1/runs/one/fork", &fork, 201);
    let bulk = json!({ "do": "cancel", "runs": ["one", "nobody"] });
    let bulk = post("/v1/bulk", "/v1/bulk", &bulk, 200);
    assert_eq!(bulk["results"][1]["status"], 404, "{bulk}");
    let made = json!({ "name": "ann", "rights": ["view"] });
    post("/v1/tokens", "/v1/tokens", &made, 201);
    for name in ["-x", "a/b", ".."] {
        let refused = json!({ "at": checkpoint, "name": name });
        let refused = post("/v1/runs/{run}/fork", "/v1/runs/one/fork", &refused, 422);
        assert_eq!(refused["errors"][0]["pointer"], "/name", "{refused}");
    }
}
