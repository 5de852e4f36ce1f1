//! The table of all operations.

use axum::http::Method;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use strata_core::record::event::Status;
use strata_host::storage::LifecycleState;

use super::{Content, Operation, ParameterValue};
use crate::api;
use crate::run_view::RunView;

/// A document of JSON that has no other schema.
fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// A list with a position after which it continues.
fn list_of(items: &Schema) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": { "type": "array", "items": items },
            "next": { "type": ["string", "null"] },
        },
    })
}

fn run(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<RunView>()
}

fn runs(generator: &mut SchemaGenerator) -> Schema {
    list_of(&run(generator))
}

fn any_list(_: &mut SchemaGenerator) -> Schema {
    list_of(&json_schema!({ "type": "object" }))
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const RUN: Content = Content::Json(run);
const ANY: Content = Content::Json(any);
const LIST: Content = Content::Json(any_list);
const STREAM: Content = Content::Other("text/event-stream");

fn state_names() -> ParameterValue {
    ParameterValue::OneOf(LifecycleState::ALL.map(LifecycleState::name).to_vec())
}

/// The statuses of runs; those that were never taken have the status `queued`.
fn status_names() -> ParameterValue {
    let mut names = vec![LifecycleState::Queued.name()];
    names.extend(Status::ALL.iter().map(|status| status.name()));
    ParameterValue::OneOf(names)
}

/// Returns all operations.
pub fn operations() -> Vec<Operation> {
    let mut all = uploads();
    all.extend(runs_of_server());
    all.extend(control());
    all.extend(halts());
    all.extend(states());
    all.extend(calls());
    all.extend(views());
    all.extend(streams());
    all.extend(tokens());
    all.extend(about_server());
    all
}

fn uploads() -> Vec<Operation> {
    use api::uploads::*;
    vec![
        Operation::new(
            Method::HEAD,
            "/v1/blobs/{digest}",
            "hasBlob",
            "Says whether this tenant has uploaded a file.",
            has_blob,
        )
        .gives(204, Content::Empty),
        Operation::new(
            Method::GET,
            "/v1/blobs/{digest}",
            "getBlob",
            "Returns a file that this tenant has uploaded.",
            get_blob,
        )
        .gives(200, Content::Other("application/octet-stream"))
        .gives(304, Content::Empty),
        Operation::new(
            Method::PUT,
            "/v1/blobs/{digest}",
            "putBlob",
            "Uploads a file under its SHA-256.",
            put_blob,
        )
        .takes(Content::Other("application/octet-stream"))
        .gives(201, Content::Empty)
        .gives(204, Content::Empty)
        .fails(&[408, 413, 422]),
        Operation::new(
            Method::POST,
            "/v1/bundles",
            "createBundle",
            "Names the files of a team, which were uploaded before.",
            create_bundle,
        )
        .takes(Content::Json(body::<NewBundle>))
        .keyed()
        .gives(201, ANY),
    ]
}

fn runs_of_server() -> Vec<Operation> {
    use api::runs::*;
    vec![
        Operation::new(
            Method::POST,
            "/v1/runs",
            "createRun",
            "Starts a run of a team. `Prefer: wait=N` answers when it has ended or waits, at the latest after N seconds.",
            create_run,
        )
        .takes(Content::Json(body::<NewRun>))
        .keyed()
        .gives(201, RUN),
        Operation::new(
            Method::GET,
            "/v1/runs",
            "listRuns",
            "Lists runs, the newest first.",
            list_runs,
        )
        .kept()
        .paged()
        .with_value("state", state_names(), "only runs in one of these states")
        .repeated()
        .with_value("status", status_names(), "only runs with one of these statuses")
        .repeated()
        .with("team", "only runs of one of these teams")
        .repeated()
        .with("prefix", "only runs whose names begin with one of these")
        .repeated()
        .with("by", "only runs that one of these tokens started")
        .repeated()
        .with("label", "only runs with one of these labels, each `KEY=VALUE`")
        .repeated()
        .with_value("since", ParameterValue::Time, "only runs that changed at this time or later")
        .with_value("until", ParameterValue::Time, "only runs that have not changed after this time")
        .gives(200, Content::Json(runs))
        .fails(&[422]),
        Operation::new(
            Method::GET,
            "/v1/runs/{run}",
            "getRun",
            "Returns a run.",
            get_run,
        )
        .kept()
        .gives(200, RUN)
        .gives(304, Content::Empty),
        Operation::new(
            Method::DELETE,
            "/v1/runs/{run}",
            "deleteRun",
            "Deletes a run on which no process works.",
            delete_run,
        )
        .gives(204, Content::Empty)
        .fails(&[409]),
        Operation::new(
            Method::POST,
            "/v1/bulk",
            "changeRuns",
            "Does something with each of several runs.",
            change_runs,
        )
        .takes(Content::Json(body::<BulkChange>))
        .keyed()
        .gives(200, ANY),
    ]
}

fn control() -> Vec<Operation> {
    use api::control::*;
    vec![
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/messages",
            "sendMessage",
            "Puts a message into mailboxes of a run.",
            send_message,
        )
        .takes(Content::Json(body::<NewMessage>))
        .keyed()
        .gives(200, ANY)
        .gives(202, ANY),
        Operation::new(
            Method::GET,
            "/v1/requests",
            "listRequests",
            "Lists open requests to people.",
            list_requests,
        )
        .kept()
        .paged()
        .with("run", "only those of this run")
        .gives(200, LIST)
        .fails(&[404, 422]),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/answers",
            "answerRequests",
            "Answers open requests: all of them, or none.",
            answer_requests,
        )
        .takes(ANY)
        .keyed()
        .gives(200, ANY),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/fork",
            "forkRun",
            "Starts a new run from a checkpoint.",
            fork_run,
        )
        .takes(Content::Json(body::<NewFork>))
        .keyed()
        .gives(201, RUN),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/prune",
            "pruneRun",
            "Deletes old checkpoints of a run.",
            prune_run,
        )
        .gives(200, ANY)
        .fails(&[400, 408, 409, 413, 415, 422]),
    ]
}

fn halts() -> Vec<Operation> {
    use api::control::*;
    let halting = |operation: Operation| {
        operation
            .gives(202, RUN)
            .gives(200, RUN)
            .fails(&[400, 408, 409, 413, 415, 422])
    };
    vec![
        halting(Operation::new(
            Method::POST,
            "/v1/runs/{run}/cancel",
            "cancelRun",
            "Ends a run. Only a resume continues it.",
            cancel_run,
        )),
        halting(Operation::new(
            Method::POST,
            "/v1/runs/{run}/pause",
            "pauseRun",
            "Suspends a run until it is resumed.",
            pause_run,
        )),
        halting(Operation::new(
            Method::POST,
            "/v1/runs/{run}/resume",
            "resumeRun",
            "Lets a worker continue a run.",
            resume_run,
        )),
    ]
}

fn states() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/checkpoints",
            "listCheckpoints",
            "Lists the checkpoints of all lineages, oldest first.",
            list_checkpoints,
        )
        .paged()
        .gives(200, LIST)
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/checkpoints/{id}",
            "getCheckpoint",
            "Returns the state at a checkpoint, in the form of `team.json`.",
            get_checkpoint,
        )
        .gives(200, ANY)
        .gives(304, Content::Empty)
        .fails(&[410]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/messages",
            "listMessages",
            "Lists the messages of a run, the newest first.",
            list_messages,
        )
        .paged()
        .with("at", "the checkpoint or lineage")
        .with("as", "`tree`: their contents as trees of Markdown, too")
        .gives(200, LIST)
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/messages/{id}",
            "getMessage",
            "Returns a message completely.",
            get_message,
        )
        .with_value(
            "as",
            ParameterValue::OneOf(vec!["tree"]),
            "`tree`: its content as a tree of Markdown",
        )
        .gives(200, ANY)
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/conversations",
            "listConversations",
            "Lists the conversations of roles with tools, oldest first.",
            list_conversations,
        )
        .paged()
        .with("role", "only those of this role")
        .with_value(
            "as",
            ParameterValue::OneOf(vec!["tree"]),
            "`tree`: texts as trees of Markdown, too",
        )
        .gives(200, LIST)
        .fails(&[422]),
    ]
}

fn calls() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/calls",
            "listCalls",
            "Lists the recorded host calls, oldest first.",
            list_calls,
        )
        .paged()
        .gives(200, LIST)
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/calls/{n}",
            "getCall",
            "Returns a recorded host call completely, by the number of its event.",
            get_call,
        )
        .gives(200, ANY),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/diff",
            "diffRun",
            "Compares two states.",
            diff_run,
        )
        .with(
            "with",
            "the other state: `RUN`, or `RUN@ID` with a checkpoint or a lineage",
        )
        .required()
        .with("at", "the checkpoint or lineage of this run")
        .gives(200, ANY)
        .fails(&[409, 410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/graph",
            "getGraph",
            "Returns the team as a graph with coordinates, and the states of its roles.",
            get_graph,
        )
        .gives(200, ANY)
        .fails(&[422]),
    ]
}

fn views() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/graph.svg",
            "getGraphPicture",
            "Returns the team as a picture.",
            get_graph_picture,
        )
        .gives(200, Content::Other("image/svg+xml"))
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/report",
            "getReport",
            "Returns the run as one page.",
            get_report,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, Content::Other("text/html"))
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/files",
            "listFiles",
            "Lists the files that actions wrote.",
            list_files,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, LIST)
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/files/{*path}",
            "getFile",
            "Returns a file that an action wrote.",
            get_file,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, Content::Other("application/octet-stream"))
        .gives(304, Content::Empty)
        .fails(&[410, 422]),
        Operation::new(
            get,
            "/v1/runs/{run}/team.json",
            "getTeamJson",
            "Returns the newest state.",
            get_team_json,
        )
        .gives(200, ANY)
        .gives(304, Content::Empty),
    ]
}

fn streams() -> Vec<Operation> {
    use api::events::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/runs/{run}/events",
            "listEvents",
            "Lists the events of a run, oldest first; as a stream with `Accept: text/event-stream`.",
            list_events,
        )
        .limited()
        .with_value("after", ParameterValue::Number, "the number of the event after which it begins")
        .gives(200, LIST)
        .gives(204, Content::Empty)
        .fails(&[422]),
        Operation::new(
            Method::GET,
            "/v1/runs/{run}/stream",
            "streamText",
            "Streams what models write, as it arrives: messages `text`. With `source {live: false}` it says that another server works on the run, and that texts come with its events only.",
            stream_text,
        )
        .gives(200, STREAM),
        Operation::new(
            Method::GET,
            "/v1/events",
            "streamChanges",
            "Streams which runs change, and which requests are opened and answered.",
            stream_changes,
        )
        .with("run", "a run whose events are streamed, too")
        .gives(200, STREAM)
        .fails(&[404, 422]),
    ]
}

fn tokens() -> Vec<Operation> {
    use api::administration::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/tokens",
            "listTokens",
            "Lists the tokens of a tenant, or of all.",
            list_tokens,
        )
        .gives(200, LIST),
        Operation::new(
            Method::GET,
            "/v1/token",
            "getOwnToken",
            "Returns the token of the request, without its text.",
            get_own_token,
        )
        .gives(200, ANY),
        Operation::new(
            Method::POST,
            "/v1/tokens",
            "createToken",
            "Makes a token. Its text is shown once: a repeated request gets `null` in its place.",
            create_token,
        )
        .keyed()
        .takes(Content::Json(body::<TokenRequest>))
        .gives(201, ANY)
        .fails(&[409]),
        Operation::new(
            Method::DELETE,
            "/v1/tokens/{name}",
            "revokeToken",
            "Revokes a token.",
            revoke_token,
        )
        .with("tenant", "its tenant, for a token of all tenants")
        .gives(204, Content::Empty)
        .fails(&[422]),
    ]
}

fn about_server() -> Vec<Operation> {
    use api::administration::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/workers",
            "listWorkers",
            "Lists the workers, and names the database that they share.",
            list_workers,
        )
        .gives(200, LIST),
        Operation::new(
            Method::GET,
            "/v1/openapi.json",
            "getOpenApi",
            "Returns this document.",
            get_openapi,
        )
        .open()
        .gives(200, ANY),
        Operation::new(
            Method::GET,
            "/health",
            "getHealth",
            "Says that the process lives.",
            get_health,
        )
        .open()
        .gives(200, ANY),
        Operation::new(
            Method::GET,
            "/ready",
            "getReadiness",
            "Says whether the server takes requests.",
            get_readiness,
        )
        .open()
        .gives(200, ANY),
        Operation::new(
            Method::GET,
            "/metrics",
            "getMetrics",
            "Returns metrics for a collector of Prometheus.",
            get_metrics,
        )
        .gives(200, Content::Other("text/plain")),
    ]
}
