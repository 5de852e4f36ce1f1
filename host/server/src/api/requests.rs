//! The requests of runs to people: the list of those that are open, and answers to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strata_host::AnsweredRequest;
use strata_host::driver::HumanReply;
use strata_host::launch::{LaunchError, answer, check_answers, load_saved};
use strata_host::storage::{ServedFilter, ServedRun, StateSelector, StoreError};
use strata_host::view::RequestView;

use crate::answer::{Page, json};
use crate::body::{MAX_ANSWER_BYTES, escape_pointer, parse_json};
use crate::caller::{Caller, Deed};
use crate::context::{Context, find_run};
use crate::idempotency::{KeyedAnswer, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::query::{decode_cursor, encode_cursor};
use crate::request_view::OpenRequest;
use crate::server::Server;

/// How many runs with open requests are looked at for a list of requests.
const MAX_ASKING_RUNS: usize = 10_000;

/// The requests that were answered.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AnsweredRequests {
    /// The requests, in the order of their ids.
    answered: Vec<AnsweredRequest>,
}

pub async fn list_requests(context: Context) -> Answer {
    let limit = context.query.limit()?;
    let after = context
        .query
        .one("after")?
        .map(decode_cursor::<(i64, String, String)>)
        .transpose()?;
    let named = context.query.one("run")?.map(str::to_owned);
    let caller = context.caller.clone();
    context
        .server
        .blocking(move |server| {
            let runs = match named {
                Some(name) => vec![find_run(server, &caller, &name, Deed::SeeRequests)?],
                None => asking_runs(server, &caller)?,
            };
            let mut items = Vec::new();
            for run in &runs {
                let overview = run.listing.overview.as_ref();
                if overview.is_some_and(|one| one.requests == 0) {
                    continue;
                }
                let saved = match load_saved(&run.listing.location, &StateSelector::Head) {
                    // It was deleted meanwhile.
                    Err(LaunchError::Store(StoreError::NoRun { .. })) => continue,
                    saved => saved?,
                };
                let views = RequestView::all(&saved.stepper);
                let ids = views.iter().map(|view| view.id.as_str());
                let opened = server.request_times.of_run(run, ids)?;
                for view in views {
                    let opened_ms = opened.get(&view.id).copied().flatten();
                    let created = run.listing.created_ms.unwrap_or(0);
                    let position = (created, run.id.clone(), view.id.clone());
                    items.push((
                        position,
                        OpenRequest::new(run, &saved.stepper, view, opened_ms),
                    ));
                }
            }
            // The newest run first; those of one run in the order of its roles.
            let start = match &after {
                None => 0,
                Some(after) => {
                    let found = items.iter().position(|(at, _)| at == after);
                    found.map(|at| at + 1).unwrap_or_else(|| {
                        items.partition_point(|(at, _)| (at.0, &at.1) >= (after.0, &after.1))
                    })
                }
            };
            let rest = &items[start.min(items.len())..];
            let next = rest
                .get(limit - 1)
                .filter(|_| rest.len() > limit)
                .map(|(at, _)| encode_cursor(at));
            let items = rest
                .iter()
                .take(limit)
                .map(|(_, request)| request)
                .collect();
            Ok(json(StatusCode::OK, &Page::<&OpenRequest> { items, next }))
        })
        .await
}

/// Returns the runs whose open requests a caller sees.
fn asking_runs(server: &Server, caller: &Caller) -> Result<Vec<ServedRun>, Problem> {
    let Some(visible) = caller.visible_requests() else {
        return Ok(Vec::new());
    };
    let filter = ServedFilter {
        is_asking: true,
        ..visible
    };
    Ok(server.databases.list(&filter, MAX_ASKING_RUNS)?)
}

pub async fn answer_requests(mut context: Context) -> Answer {
    let run = context.run(Deed::Answer).await?;
    let body = context.read_json(MAX_ANSWER_BYTES).await?;
    let answers: BTreeMap<String, Value> = parse_json(&body)?;
    if answers.is_empty() {
        return Err(Problem::refused("the body names no request").named("answer"));
    }
    let person = context.caller.name.clone();
    let replies: Vec<HumanReply> = answers
        .into_iter()
        .map(|(request, answer)| HumanReply {
            request,
            text: answer.to_string(),
            person: Some(person.clone()),
        })
        .collect();
    let server = Arc::clone(&context.server);
    make_once(&context, &body, Some(&run.clone()), move |_| async move {
        let outcome = server
            .changing(&run.clone(), move |_| {
                let location = &run.listing.location;
                check_answers(location, &replies).map_err(|error| at_request(error, &replies))?;
                let accepted = match answer(location, &replies) {
                    // The owner refuses what was valid a moment ago.
                    Err(LaunchError::InvalidInput(text)) => {
                        return Err(Problem::conflict(text).named("not-open"));
                    }
                    accepted => accepted?,
                };
                let answered = accepted.answers;
                Ok(ReplayableAnswer::new(
                    StatusCode::OK,
                    &AnsweredRequests { answered },
                ))
            })
            .await?;
        Ok(KeyedAnswer::Now(outcome))
    })
    .await
}

/// Returns the problem of an answer, with the field that it is about.
fn at_request(error: LaunchError, replies: &[HumanReply]) -> Problem {
    let is_named = |request: &str| replies.iter().any(|reply| reply.request == request);
    let pointer = match &error {
        LaunchError::Answer(why) if is_named(why.request()) => Some(format!(
            "/{}{}",
            escape_pointer(why.request()),
            why.pointer()
        )),
        _ => None,
    };
    let text = error.to_string();
    let problem = Problem::from(error);
    match pointer {
        Some(pointer) => problem.with_field(pointer, text),
        None => problem,
    }
}
