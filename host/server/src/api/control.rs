//! What is done with a run that was started: messages and answers, pausing, resuming and cancelling, forks and pruning.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use strata_core::record::event::Status;
use strata_core::record::json::Json;
use strata_core::record::message::{IDEMPOTENCY_KEY, Instruct, Message};
use strata_core::text::find_unfit_for_name;
use strata_host::driver::{Halt, HumanReply};
use strata_host::launch::{
    Author, DoubtDecision, ForkRequest, LaunchError, NamedFile, QueuedFork, QueuedResume,
    StateEdit, answer, check_answers, fork, halt_by, load_saved, prune_by, request_resume,
    resume_in_queue, send_with_files,
};
use strata_host::storage::{
    CapScope, LifecycleState, MAX_NAME_CHARS, ServedFilter, ServedRun, StateSelector, StoreError,
    SubmissionIdentity, check_stored_name, stored_run_name,
};
use strata_host::view::RequestView;
use strata_host::{CallPolicy, CheckpointId, SendReceipt, manifest::Overrides};

use super::uploads::{DIGEST_PATTERN, has_uploaded, parse_digest};
use crate::answer::{Page, json};
use crate::body::{MAX_ANSWER_BYTES, MAX_BODY_BYTES, escape_pointer, parse_json};
use crate::caller::{Caller, Deed};
use crate::context::{Context, find_run};
use crate::idempotency::{KeyedAnswer, PendingKey, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::query::{decode_cursor, encode_cursor};
use crate::request_view::request_json;
use crate::run_origin::RunOrigin;
use crate::run_view::RunView;
use crate::server::Server;

/// How many runs with open requests are looked at for a list of requests.
const MAX_ASKING_RUNS: usize = 10_000;

/// A message that is to be sent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Its text.
    content: String,
    /// The label under which it is heard.
    #[schemars(length(min = 1))]
    cause: String,
    /// Its recipients: roles, aliases or groups. By default, every role that watches the label receives it.
    #[serde(default)]
    to: Vec<String>,
    /// Its data.
    data: Option<Value>,
    /// Images and files that belong to it.
    #[serde(default)]
    parts: Vec<NewPart>,
}

/// An image or a file that belongs to a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPart {
    /// Its name.
    name: String,
    /// The digest of a blob that was uploaded.
    #[schemars(regex(pattern = DIGEST_PATTERN))]
    digest: String,
}

/// A fork that is to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFork {
    /// The checkpoint.
    at: String,
    /// Values to change: `SCOPE/KEY`, or the name of a scope, with the new value.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// The name of the new run.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    name: Option<String>,
}

/// How a run is to be resumed.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeTerms {
    /// What it may spend from now on, in US dollars.
    investment: Option<f64>,
    /// How many steps it may make.
    max_steps: Option<u64>,
    /// The checkpoint to resume from.
    checkpoint: Option<String>,
    /// What is done about calls in doubt, as `--in-doubt` takes it.
    in_doubt: Vec<String>,
}

impl ResumeTerms {
    fn is_empty(&self) -> bool {
        self.investment.is_none()
            && self.max_steps.is_none()
            && self.checkpoint.is_none()
            && self.in_doubt.is_empty()
    }
}

/// Whether a run was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunTransition {
    /// It is about to be so.
    Now(&'static str),
    /// It was so already.
    Already(&'static str),
}

impl RunTransition {
    /// Returns what the run is.
    pub fn result(self) -> &'static str {
        match self {
            Self::Now(result) | Self::Already(result) => result,
        }
    }
}

pub async fn send_message(mut context: Context) -> Answer {
    let run = context.run(Deed::Control).await?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let new: NewMessage = parse_json(&body)?;
    check_message(&new)?;
    let (server, caller) = (Arc::clone(&context.server), context.caller.clone());
    make_once(&context, &body, Some(&run.clone()), move |key| async move {
        let outcome = server
            .changing(&run.clone(), move |server| {
                send(server, &run, &caller, new, key.as_ref())
            })
            .await?;
        Ok(KeyedAnswer::Now(outcome))
    })
    .await
}

fn check_message(new: &NewMessage) -> Result<(), Problem> {
    if new.cause.is_empty() {
        return Err(Problem::field(
            "/cause",
            "say under which label the message is heard",
        ));
    }
    let unseen = |name: &str| find_unfit_for_name(name).is_some();
    if unseen(&new.cause) {
        return Err(Problem::field(
            "/cause",
            "it has a character that is not seen",
        ));
    }
    match new.to.iter().position(|name| unseen(name)) {
        Some(at) => Err(Problem::field(
            format!("/to/{at}"),
            "it has a character that is not seen",
        )),
        None => Ok(()),
    }
}

fn send(
    server: &Server,
    run: &ServedRun,
    caller: &Caller,
    new: NewMessage,
    key: Option<&PendingKey>,
) -> Result<ReplayableAnswer, Problem> {
    let mut files = Vec::new();
    for (at, part) in new.parts.iter().enumerate() {
        let unknown = || {
            Problem::field(
                format!("/parts/{at}/digest"),
                "this tenant has uploaded no such blob",
            )
        };
        let digest = parse_digest(&part.digest).ok_or_else(unknown)?;
        if !has_uploaded(server, caller.own_tenant(), &digest)? {
            return Err(unknown());
        }
        let bytes = server.read_file(&digest)?.ok_or_else(unknown)?;
        files.push(NamedFile {
            name: part.name.clone(),
            bytes,
        });
    }
    let mut message = Message::from_user("".into(), new.content, new.cause);
    if !new.to.is_empty() {
        message.send_to = new.to;
    }
    message.instruct = new.data.map(|value| Instruct::untyped(Json::from(value)));
    // A repetition is recognised even if its answer was not stored.
    message.meta.extend(key.map(|key| {
        let text = Value::String(key.text.clone());
        (IDEMPOTENCY_KEY.to_owned(), Json::from(text))
    }));
    let was_owned = run.listing.owner.is_some();
    let sent: SendReceipt = send_with_files(&run.listing.location, message, files)?;
    let status = if was_owned {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    Ok(ReplayableAnswer::new(status, &sent))
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
                    items.push((
                        (created, run.id.clone(), view.id.clone()),
                        request_json(run, &saved.stepper, &view, opened_ms),
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
            let items = rest.iter().take(limit).map(|(_, value)| value).collect();
            Ok(json(StatusCode::OK, &Page::<&Value> { items, next }))
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
                let answers: Vec<Value> = accepted
                    .answers
                    .iter()
                    .map(|one| json!({ "request": one.request, "role": one.role }))
                    .collect();
                Ok(ReplayableAnswer::new(
                    StatusCode::OK,
                    &json!({ "answered": answers }),
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

pub async fn cancel_run(context: Context) -> Answer {
    halt_and_answer(context, Halt::Cancel).await
}

pub async fn pause_run(context: Context) -> Answer {
    halt_and_answer(context, Halt::Pause).await
}

async fn halt_and_answer(context: Context, what: Halt) -> Answer {
    let run = context.run(Deed::Control).await?;
    let by = context.caller.author();
    change_and_answer(context, run, move |run| halt_run(run, what, &by)).await
}

/// Changes a run, and answers with what it is then.
async fn change_and_answer(
    context: Context,
    run: ServedRun,
    change: impl FnOnce(&ServedRun) -> Result<RunTransition, Problem> + Send + 'static,
) -> Answer {
    let (changed, view) = context
        .server
        .changing(&run.clone(), move |server| {
            let changed = change(&run)?;
            let run = server
                .reload(&run)?
                .ok_or_else(|| Problem::not_found("run"))?;
            Ok::<(RunTransition, RunView), Problem>((changed, server.view(&run)?))
        })
        .await?;
    let status = match changed {
        RunTransition::Now(_) => StatusCode::ACCEPTED,
        RunTransition::Already(_) => StatusCode::OK,
    };
    Ok(json(status, &view))
}

/// Ends a run for good or for a while, unless it has ended so. Blocks.
pub fn halt_run(run: &ServedRun, what: Halt, by: &Author) -> Result<RunTransition, Problem> {
    let status = status_of(run)?;
    let is_working = run.listing.owner.is_some();
    match (what, status) {
        (_, status) if status == what.status() && !is_working => {
            return Ok(RunTransition::Already(status.name()));
        }
        (_, Status::Done) if !is_working => {
            return Err(Problem::conflict("the run is done").named("ended"));
        }
        (
            Halt::Pause,
            Status::Failed
            | Status::OutOfBudget
            | Status::Stalled
            | Status::StepLimit
            | Status::InDoubt
            | Status::Cancelled,
        ) if !is_working => {
            let text = format!(
                "the run has ended ({}), so there is nothing to suspend",
                status.name()
            );
            return Err(Problem::conflict(text).named("ended"));
        }
        _ => {}
    }
    match halt_by(&run.listing.location, what, Some(by)) {
        Ok(()) => Ok(RunTransition::Now(what.status().name())),
        // It has ended meanwhile.
        Err(LaunchError::InvalidInput(text)) => Err(Problem::conflict(text).named("ended")),
        Err(error) => Err(error.into()),
    }
}

fn status_of(run: &ServedRun) -> Result<Status, Problem> {
    if let Some(one) = &run.listing.overview {
        return Ok(one.status);
    }
    let saved = load_saved(&run.listing.location, &StateSelector::Head)?;
    Ok(saved.stepper.env().status)
}

pub async fn resume_run(mut context: Context) -> Answer {
    let run = context.run(Deed::Control).await?;
    let terms: ResumeTerms = context.optional_json(MAX_BODY_BYTES).await?;
    let by = context.caller.author();
    change_and_answer(context, run, move |run| resume(run, terms, by)).await
}

/// Lets a worker continue a run, if it does not go on by itself. Blocks.
pub fn resume(run: &ServedRun, terms: ResumeTerms, by: Author) -> Result<RunTransition, Problem> {
    let location = &run.listing.location;
    let status = status_of(run)?;
    let is_refused = run.listing.state == LifecycleState::Refused;
    let goes_on = match status {
        Status::Running | Status::Waiting | Status::Interrupted => !is_refused,
        Status::Done => terms.checkpoint.is_none(),
        _ => run.listing.owner.is_some() || run.listing.state == LifecycleState::Queued,
    };
    let is_left_alone =
        run.listing.state == LifecycleState::Detached && run.listing.owner.is_none();
    if is_left_alone && status != Status::Done {
        let text =
            "no worker continues the run, because it was not submitted to them; adopt it first";
        return Err(Problem::conflict(text).named("detached"));
    }
    if terms.is_empty() {
        if goes_on {
            return Ok(RunTransition::Already(status.name()));
        }
        request_resume(location, &by)?;
        return Ok(RunTransition::Now("queued"));
    }
    if terms
        .investment
        .is_some_and(|usd| !(usd.is_finite() && usd >= 0.0))
    {
        return Err(Problem::field(
            "/investment",
            "it has to be a sum of US dollars",
        ));
    }
    let queued = QueuedResume {
        overrides: Overrides {
            investment: terms.investment,
            max_steps: terms.max_steps,
            ..Overrides::default()
        },
        checkpoint: terms.checkpoint.map(CheckpointId),
        in_doubt: terms
            .in_doubt
            .into_iter()
            .map(DoubtDecision::from)
            .collect(),
        calls: CallPolicy::Auto,
        by: Some(by),
        ..QueuedResume::default()
    };
    resume_in_queue(location, &queued, &mut |_| {})?;
    Ok(RunTransition::Now("queued"))
}

pub async fn fork_run(mut context: Context) -> Answer {
    let run = context.run(Deed::Operate).await?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let new: NewFork = parse_json(&body)?;
    let (server, caller) = (Arc::clone(&context.server), context.caller.clone());
    make_once(&context, &body, Some(&run.clone()), move |_| async move {
        let outcome = server
            .blocking(move |server| start_fork(server, &run, &caller, new))
            .await?;
        Ok(KeyedAnswer::Now(outcome))
    })
    .await
}

fn start_fork(
    server: &Server,
    run: &ServedRun,
    caller: &Caller,
    new: NewFork,
) -> Result<ReplayableAnswer, Problem> {
    let name = match new.name {
        Some(name) => {
            let is_name = check_stored_name(&name).is_ok() && !name.contains('/');
            if !is_name {
                let what = "1 to 200 characters can be a name, without `/` and those that are not seen, and not only dots";
                return Err(Problem::field("/name", what));
            }
            name
        }
        None => strata_host::launch::generated_run_name(run.name()),
    };
    let mut edits = Vec::new();
    for (place, value) in new.set {
        edits.push(parse_edit(&place, &value)?);
    }
    let origin = RunOrigin {
        forked_from: Some(format!("{}@{}", run.id, new.at)),
        ..server.origin_of(run)?
    };
    let stored = stored_run_name(&run.tenant, &name);
    server.databases.require_free_elsewhere(&stored)?;
    let identity = SubmissionIdentity {
        tenant: run.tenant.clone(),
        submitter: caller.name.clone(),
        ..SubmissionIdentity::unserved()
    };
    let (id, of) = (
        identity.id.clone(),
        run.listing.queued.clone().unwrap_or_default(),
    );
    let request = ForkRequest {
        storage: run.listing.location.clone(),
        at: CheckpointId(new.at),
        edits,
        to: Some(server.databases.home().location(&stored)),
        queued: Some(QueuedFork {
            identity,
            needs: of.needs,
            tags: of.tags,
            scope: of
                .scope
                .as_deref()
                .and_then(|scope| CapScope::parse_named(scope).ok()),
            records: origin.records(&id),
        }),
    };
    fork(&request)?;
    let forked = server.databases.find_by_id(&id)?;
    let forked = forked.ok_or_else(|| Problem::not_found("run"))?;
    let view = server.view(&forked)?;
    Ok(ReplayableAnswer::new(StatusCode::CREATED, &view).at(format!("/v1/runs/{id}")))
}

/// Parses a value that is to be changed, as `fork --set` does.
fn parse_edit(place: &str, value: &Value) -> Result<StateEdit, Problem> {
    if place.contains('/') {
        Ok(StateEdit::from(format!("{place}={value}").as_str()))
    } else {
        let what = "give SCOPE/KEY as the name";
        Err(Problem::field(
            format!("/set/{}", escape_pointer(place)),
            what,
        ))
    }
}

pub async fn prune_run(mut context: Context) -> Answer {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Prune {
        keep: Option<u32>,
    }
    let (run, by) = (context.run(Deed::Operate).await?, context.caller.author());
    let how: Prune = context.optional_json(MAX_BODY_BYTES).await?;
    let result = context
        .server
        .changing(&run.clone(), move |_| {
            let done = prune_by(&run.listing.location, how.keep, Some(&by))?;
            let pruned = done.pruned;
            Ok(json!({
                "kept": done.keep, "checkpoints": pruned.checkpoints, "events": pruned.events, "bytes": pruned.bytes,
            }))
        })
        .await?;
    Ok(json(StatusCode::OK, &result))
}
