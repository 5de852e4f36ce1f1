//! The table of all operations, with those that start and change runs.

use axum::http::Method;
use strata_core::record::event::Status;
use strata_host::SendReceipt;
use strata_host::storage::LifecycleState;

use super::schema::{answers, list_of, schema_of};
use super::{Content, Operation, ParameterValue, records, server};
use crate::api;
use crate::request_view::OpenRequest;
use crate::run_view::RunView;

/// What the header `Prefer` asks for, as a regular expression.
const PREFER_WAIT: &str = "^wait=([1-5]?[0-9]|60)$";
const RUN: Content = Content::Json(schema_of::<RunView>);

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
    all.extend(records::operations());
    all.extend(server::operations());
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
        .takes(Content::Json(schema_of::<NewBundle>))
        .keyed()
        .gives(201, Content::Json(schema_of::<NamedBundle>)),
    ]
}

fn runs_of_server() -> Vec<Operation> {
    use api::runs::*;
    vec![
        Operation::new(
            Method::POST,
            "/v1/runs",
            "createRun",
            "Starts a run of a team.",
            create_run,
        )
        .with_header(
            "Prefer",
            ParameterValue::Form(PREFER_WAIT),
            "`wait=N` answers when the run has ended or waits, at the latest after N seconds, of which 60 are the most",
        )
        .takes(Content::Json(schema_of::<NewRun>))
        .keyed()
        .located()
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
        .gives(200, Content::Json(list_of::<RunView>))
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
    ]
}

fn control() -> Vec<Operation> {
    use api::control::*;
    use api::requests::*;
    vec![
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/messages",
            "sendMessage",
            "Puts a message into mailboxes of a run.",
            send_message,
        )
        .takes(Content::Json(schema_of::<NewMessage>))
        .keyed()
        .gives(200, Content::Json(schema_of::<SendReceipt>))
        .gives(202, Content::Json(schema_of::<SendReceipt>)),
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
        .gives(200, Content::Json(list_of::<OpenRequest>))
        .fails(&[404, 422]),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/answers",
            "answerRequests",
            "Answers open requests: all of them, or none.",
            answer_requests,
        )
        .takes(Content::Json(answers))
        .keyed()
        .gives(200, Content::Json(schema_of::<AnsweredRequests>)),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/fork",
            "forkRun",
            "Starts a new run from a checkpoint.",
            fork_run,
        )
        .takes(Content::Json(schema_of::<NewFork>))
        .keyed()
        .located()
        .gives(201, RUN),
        Operation::new(
            Method::POST,
            "/v1/runs/{run}/prune",
            "pruneRun",
            "Deletes old checkpoints of a run.",
            prune_run,
        )
        .may_take(Content::Json(schema_of::<PruneTerms>))
        .gives(200, Content::Json(schema_of::<PrunedRun>))
        .fails(&[409]),
    ]
}

fn halts() -> Vec<Operation> {
    use api::bulk::{BulkChange, BulkResults, change_runs};
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
            "Ends a run. Only a resume, an answer or a message continues it.",
            cancel_run,
        )),
        halting(Operation::new(
            Method::POST,
            "/v1/runs/{run}/pause",
            "pauseRun",
            "Suspends a run until a resume, an answer or a message continues it.",
            pause_run,
        )),
        halting(Operation::new(
            Method::POST,
            "/v1/runs/{run}/resume",
            "resumeRun",
            "Lets a worker continue a run.",
            resume_run,
        ))
        .may_take(Content::Json(schema_of::<ResumeTerms>)),
        Operation::new(
            Method::POST,
            "/v1/bulk",
            "changeRuns",
            "Does something with each of several runs.",
            change_runs,
        )
        .takes(Content::Json(schema_of::<BulkChange>))
        .keyed()
        .gives(200, Content::Json(schema_of::<BulkResults>)),
    ]
}
