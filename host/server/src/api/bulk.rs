//! The same change of several runs.

use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_host::driver::Halt;
use strata_host::launch::prune_by;

use super::control::{ResumeTerms, halt_run, resume};
use crate::body::{MAX_BODY_BYTES, parse_json};
use crate::caller::{Caller, Deed};
use crate::context::{Context, find_run};
use crate::idempotency::{KeyedAnswer, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::{Problem, problem_schema};
use crate::server::Server;

/// How many runs are changed at once at most.
const MAX_BULK: usize = 500;

/// What is done with several runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkChange {
    /// What is done.
    r#do: BulkDeed,
    /// Their names or ids, at most 500.
    #[schemars(length(max = MAX_BULK))]
    runs: Vec<String>,
}

/// What is done with each of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum BulkDeed {
    Cancel,
    Pause,
    Resume,
    Prune,
}

/// What became of several runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkResults {
    /// The results, in the order of the request.
    results: Vec<BulkResult>,
}

/// What became of one of several runs.
#[derive(Debug, Serialize, JsonSchema)]
struct BulkResult {
    /// Its name or id, as in the request.
    run: String,
    /// The status that the same change of this run alone has; 200 if it was made.
    status: u16,
    /// What the run is now: its status, `queued`, or `pruned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'static str>,
    /// Why it was not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "problem_schema")]
    problem: Option<Value>,
}

pub async fn change_runs(mut context: Context) -> Answer {
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let change: BulkChange = parse_json(&body)?;
    if change.runs.len() > MAX_BULK {
        return Err(Problem::field(
            "/runs",
            format!("at most {MAX_BULK} runs are taken"),
        ));
    }
    let (server, caller) = (Arc::clone(&context.server), context.caller.clone());
    make_once(&context, &body, None, move |_| async move {
        let results = server
            .blocking(move |server| {
                let mut results = Vec::new();
                for name in &change.runs {
                    results.push(change_one(server, &caller, name, change.r#do));
                }
                Ok(results)
            })
            .await?;
        Ok(KeyedAnswer::Now(ReplayableAnswer::new(
            StatusCode::OK,
            &BulkResults { results },
        )))
    })
    .await
}

/// Does something with one of several runs, and returns what became of it.
fn change_one(server: &Server, caller: &Caller, name: &str, deed: BulkDeed) -> BulkResult {
    let needed = match deed {
        BulkDeed::Cancel | BulkDeed::Pause | BulkDeed::Resume => Deed::Control,
        BulkDeed::Prune => Deed::Operate,
    };
    let change = || -> Result<&'static str, Problem> {
        let run = find_run(server, caller, name, needed)?;
        let (location, by) = (&run.listing.location, caller.author());
        match deed {
            BulkDeed::Cancel => Ok(halt_run(&run, Halt::Cancel, &by)?.result()),
            BulkDeed::Pause => Ok(halt_run(&run, Halt::Pause, &by)?.result()),
            BulkDeed::Resume => Ok(resume(&run, ResumeTerms::default(), by)?.result()),
            BulkDeed::Prune => {
                prune_by(location, None, Some(&by))?;
                Ok("pruned")
            }
        }
    };
    let (status, result, problem) = match change() {
        Ok(result) => (StatusCode::OK, Some(result), None),
        Err(problem) => (problem.status, None, Some(problem.to_json())),
    };
    BulkResult {
        run: name.to_owned(),
        status: status.as_u16(),
        result,
        problem,
    }
}
