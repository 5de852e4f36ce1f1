//! A client that a program of others generates from the OpenAPI document.

use std::process::Command;

use super::ASKING;
use super::client::{Runs, TestServer};
use super::commands::host;
use crate::pypi::environment_with;

/// Reads and answers with the client what a server has.
const SCRIPT: &str = r#"
import sys
from strata_host_client import AuthenticatedClient
from strata_host_client.api.default import answer_requests, change_runs, create_token, get_run, list_events, list_requests, list_runs, list_tokens
from strata_host_client.models import AnswerRequestsBody, BulkChange, BulkDeed, ListRunsStatusItem, Right, TokenRequest
client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
[run] = list_runs.sync(client=client, status=[ListRunsStatusItem.WAITING]).items
[request] = list_requests.sync(client=client, run=run.name).items
answer = AnswerRequestsBody.from_dict({request.id: 3})
[answered] = answer_requests.sync(run.id, client=client, body=answer).answered
assert answered.role == "A", answered
while (run := get_run.sync(run.id, client=client)).state != "ended":
    pass
kinds = [type(event).__name__ for event in list_events.sync(run.id, client=client, limit=500).items]
assert kinds[0] == "RunStartedEvent" and "HostCallEvent" in kinds, kinds
[bulk] = change_runs.sync(client=client, body=BulkChange(do=BulkDeed.PAUSE, runs=[run.id])).results
assert bulk.status == 409 and bulk.problem.detail == "the run is done", bulk
made = create_token.sync(client=client, body=TokenRequest(name="ann", rights=[Right.VIEW]))
assert made.token and made.rights == [Right.VIEW], made
assert [token.name for token in list_tokens.sync(client=client).items][-1] == "ann"
print(run.output)
"#;

#[test]
fn a_generated_client_reads_answers_and_changes_runs() {
    let Some(environment) = environment_with(
        "openapi-python-client",
        "import openapi_python_client, httpx",
    ) else {
        return;
    };
    let server = TestServer::start_at(&Runs::InFile, ASKING);
    host(
        &server,
        &["submit", "team.toml", "--name", "one", "--wait"],
        4,
    );
    let address = format!("http://127.0.0.1:{}", server.port);
    let run = |program: &str, arguments: &[&str]| {
        let ran = Command::new(environment.join("bin").join(program))
            .args(arguments)
            .current_dir(server.place.path("."))
            .env("PYTHONPATH", server.place.path("client"))
            .output()
            .expect("the program is installed");
        let texts =
            [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(ran.status.success(), "{texts:?}");
        texts
    };
    let document = format!("{address}/v1/openapi.json");
    let generate = ["generate", "--url", &document, "--output-path", "client"];
    let said = run("openapi-python-client", &generate).concat();
    // It knows no answers that are pictures. Everything else has to be understood.
    let warnings = said.matches("WARNING").count() + said.matches("Unable to process").count();
    assert_eq!(warnings, 1, "{said}");
    assert!(said.contains("image/svg+xml"), "{said}");
    server.place.write("use.py", SCRIPT);
    let [printed, _] = run("python", &["use.py", &address, &server.token]);
    assert_eq!(printed.trim(), "answer 3");
}
