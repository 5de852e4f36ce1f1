//! What is done with a run that was started: messages and answers, pausing, resuming and cancelling, forks and pruning.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_core::record::event::Status;
use strata_core::record::json::Json;
use strata_core::record::message::{IDEMPOTENCY_KEY, Instruct, Message};
use strata_core::text::find_unfit_for_name;
use strata_host::driver::Halt;
use strata_host::launch::{
    Author, DoubtDecision, ForkRequest, LaunchError, NamedFile, QueuedFork, QueuedResume,
    StateEdit, fork, halt_by, load_saved, prune_by, request_resume, resume_in_queue,
    send_with_files,
};
use strata_host::storage::{
    CapScope, LifecycleState, MAX_NAME_CHARS, ServedRun, StateSelector, SubmissionIdentity,
    stored_run_name,
};
use strata_host::{CallPolicy, CheckpointId, SendReceipt, manifest::Overrides};

use super::runs::check_new_name;
use super::uploads::{DIGEST_PATTERN, has_uploaded, parse_digest};
use crate::answer::json;
use crate::body::{MAX_BODY_BYTES, escape_pointer, parse_json};
use crate::caller::{Caller, Deed};
use crate::context::Context;
use crate::idempotency::{KeyedAnswer, PendingKey, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::run_origin::RunOrigin;
use crate::run_view::RunView;
use crate::server::Server;

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
#[derive(Debug, Default, Deserialize, JsonSchema)]
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

/// What is to be pruned of a run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PruneTerms {
    /// How many of the newest checkpoints are kept. By default, as many as the team file says.
    keep: Option<u32>,
}

/// What was pruned of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PrunedRun {
    /// How many checkpoints of each lineage are kept.
    kept: u32,
    /// How many checkpoints were deleted.
    checkpoints: u64,
    /// How many events were deleted.
    events: u64,
    /// By how many bytes the files became smaller.
    bytes: u64,
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
            check_new_name(&name)?;
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
    let (run, by) = (context.run(Deed::Operate).await?, context.caller.author());
    let terms: PruneTerms = context.optional_json(MAX_BODY_BYTES).await?;
    let result = context
        .server
        .changing(&run.clone(), move |_| {
            let done = prune_by(&run.listing.location, terms.keep, Some(&by))?;
            Ok(PrunedRun {
                kept: done.keep,
                checkpoints: done.pruned.checkpoints,
                events: done.pruned.events,
                bytes: done.pruned.bytes,
            })
        })
        .await?;
    Ok(json(StatusCode::OK, &result))
}
