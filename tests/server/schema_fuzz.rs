//! Requests that are made from the OpenAPI document, by a program that others wrote: whatever is sent, no answer is a bug of
//! the server, and each is described in the document.

use std::process::Command;

use serde_json::json;

use super::ASKING;
use super::client::TestServer;
use crate::pypi::environment_with;

/// What is checked of each answer.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,\
                      response_headers_conformance,unsupported_method,ignored_auth";
/// How many requests are made of each operation, besides those that try each value on its own.
const EXAMPLES: &str = "5";
/// After how many seconds the program gives an answer up. Only streams have no end, of which it checks nothing then.
const PATIENCE: &str = "2";

#[test]
fn every_answer_to_a_request_made_from_the_document_is_described_in_it() {
    let check = "import schemathesis";
    let Some(environment) = environment_with("schemathesis", check) else {
        return;
    };
    let server = TestServer::start(ASKING);
    server.submit(&server.token, json!({ "name": "one" }));
    let document = format!("http://127.0.0.1:{}/v1/openapi.json", server.port);
    let token = format!("Authorization: Bearer {}", server.token);
    let ran = Command::new(environment.join("bin/schemathesis"))
        .args(["run", &document, "--header", &token, "--checks", CHECKS])
        .args(["--max-examples", EXAMPLES, "--seed", "1", "--no-color"])
        .args([
            "--phases",
            "coverage,fuzzing",
            "--request-timeout",
            PATIENCE,
        ])
        .current_dir(server.place.path("."))
        .output()
        .expect("the program is installed");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert_eq!(server.get(&server.token, "/ready").status, 200);
}
