//! Starting, listing, reading and deleting runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use strata_core::record::event::Status;
use strata_host::clock::{now_ms, rfc3339, stopwatch};
use strata_host::launch::{FileSubmission, LaunchError, NamedFile, SubmittedAs, submit_files};
use strata_host::operate::{DeleteRuns, delete_run_by};
use strata_host::storage::{
    CapScope, DEFAULT_TENANT, LifecycleState, MAX_NAME_CHARS, ServedFilter, ServedPosition,
    ServedRun, StoreError, SubmissionIdentity, check_stored_name, stored_run_name,
};

use super::uploads::{DIGEST_PATTERN, parse_digest, read_bundle, read_files_of_others};
use crate::answer::{Page, empty, json, tagged_json};
use crate::body::{MAX_BODY_BYTES, escape_pointer, parse_json};
use crate::caller::{Caller, Deed, Right};
use crate::context::{Context, find_run, is_run_id};
use crate::databases::name_taken;
use crate::idempotency::{KeyedAnswer, PendingKey, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::query::{decode_cursor, encode_cursor, wrong};
use crate::run_origin::RunOrigin;
use crate::run_view::{MissingForWorker, RunView};
use crate::server::Server;

/// How long an answer may be waited for, in seconds.
const MAX_WAIT_S: u64 = 60;
/// How many labels a run may have, and how long they may be.
const MAX_LABELS: usize = 64;
const MAX_LABEL_BYTES: usize = 256;

/// A run that is to be started.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The digest of a bundle, whose team file is its `team.toml`.
    #[schemars(regex(pattern = DIGEST_PATTERN))]
    bundle: String,
    /// The idea. Replaces the one in the team file.
    idea: Option<String>,
    /// The name of the run. By default it is that of the team with a random number.
    #[schemars(length(min = 1, max = MAX_NAME_CHARS))]
    name: Option<String>,
    /// What it may spend, in US dollars.
    investment: Option<f64>,
    /// What is noted with it to find it by.
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// The labels that a worker needs for it.
    #[serde(default)]
    needs: Vec<String>,
    /// Images and files that belong to the idea: the digests of blobs, by name.
    #[serde(default)]
    files: BTreeMap<String, String>,
}

impl NewRun {
    /// Returns one of a team, with the defaults for everything else.
    pub fn of_team(bundle: &str, name: &str, idea: &str) -> Self {
        Self {
            bundle: bundle.into(),
            idea: Some(idea.into()),
            name: Some(name.into()),
            investment: None,
            labels: BTreeMap::new(),
            needs: Vec::new(),
            files: BTreeMap::new(),
        }
    }
}

pub async fn create_run(mut context: Context) -> Answer {
    context.caller.require(Right::Submit)?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let new: NewRun = parse_json(&body)?;
    check_new_run(&new)?;
    let wait = wait_of(&context.headers)?;
    let (server, caller) = (Arc::clone(&context.server), context.caller.clone());
    make_once(&context, &body, None, move |key| async move {
        let submitted = {
            let key = key.clone();
            server
                .blocking(move |server| start_run(server, &caller, new, key.as_ref()))
                .await?
        };
        let (answer, id) = match submitted {
            Started::Run { answer, id } => (answer, id),
            Started::Before(record) => return Ok(KeyedAnswer::Before(record)),
        };
        if wait.is_zero() {
            return Ok(KeyedAnswer::WithKey(answer));
        }
        let view = wait_for_rest(&server, &id, wait).await?;
        let answer = ReplayableAnswer {
            body: serde_json::to_string(&view).unwrap_or_default(),
            ..answer
        };
        // A repetition gives this answer.
        Ok(KeyedAnswer::Now(answer))
    })
    .await
}

fn check_new_run(new: &NewRun) -> Result<(), Problem> {
    if let Some(name) = &new.name {
        check_new_name(name)?;
    }
    if let Some(usd) = new.investment
        && !(usd.is_finite() && usd >= 0.0)
    {
        return Err(Problem::field(
            "/investment",
            "it has to be a sum of US dollars",
        ));
    }
    let is_long = |text: &String| text.is_empty() || text.len() > MAX_LABEL_BYTES;
    // A filter names a label `KEY=VALUE`.
    if let Some(key) = new
        .labels
        .keys()
        .find(|key| key.is_empty() || key.contains('='))
    {
        let pointer = format!("/labels/{}", escape_pointer(key));
        return Err(Problem::field(
            pointer,
            "the key of a label has at least one character, and no `=`",
        ));
    }
    if new.labels.len() > MAX_LABELS
        || new
            .labels
            .iter()
            .any(|(key, value)| is_long(key) || value.len() > MAX_LABEL_BYTES)
    {
        let what =
            format!("at most {MAX_LABELS} labels with {MAX_LABEL_BYTES} bytes each are taken");
        return Err(Problem::field("/labels", what));
    }
    if new.needs.len() > MAX_LABELS || new.needs.iter().any(is_long) {
        let what =
            format!("at most {MAX_LABELS} labels with {MAX_LABEL_BYTES} bytes each are taken");
        return Err(Problem::field("/needs", what));
    }
    Ok(())
}

/// Fails unless a run that a client creates may have this name.
pub fn check_new_name(name: &str) -> Result<(), Problem> {
    // Commands would take a name that begins with `-` for an option, and requests one like an id for the id of a run.
    let is_plain = !name.contains('/') && !name.starts_with('-') && !is_run_id(name);
    if is_plain && check_stored_name(name).is_ok() {
        return Ok(());
    }
    let what = format!(
        "1 to {MAX_NAME_CHARS} characters can be a name, without `/` and those that are not seen, not only dots, without a \
         `-` at the beginning, and not 32 hexadecimal digits, as the ids of runs are"
    );
    Err(Problem::field("/name", what))
}

/// Returns for how long an answer is waited for.
fn wait_of(headers: &HeaderMap) -> Result<Duration, Problem> {
    let values = headers.get_all("prefer").iter();
    let mut preferences = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split([',', ';']));
    let wait = preferences.find_map(|one| {
        let (name, value) = one.trim().split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then(|| value.trim().to_owned())
    });
    let Some(wait) = wait else {
        return Ok(Duration::ZERO);
    };
    let seconds = wait.parse().ok().filter(|seconds| *seconds <= MAX_WAIT_S);
    let seconds = seconds.ok_or_else(|| {
        Problem::refused(format!(
            "`Prefer: wait=N` takes a whole number of seconds, at most {MAX_WAIT_S}"
        ))
    })?;
    Ok(Duration::from_secs(seconds))
}

/// What became of a run that was to be started.
pub enum Started {
    /// It was started now.
    Run {
        answer: ReplayableAnswer,
        id: String,
    },
    /// It was started before under the same key.
    Before(Box<strata_host::storage::ServerRecord>),
}

/// Starts a run. Blocks.
pub fn start_run(
    server: &Server,
    caller: &Caller,
    new: NewRun,
    key: Option<&PendingKey>,
) -> Result<Started, Problem> {
    let tenant = caller.own_tenant();
    let files = read_bundle(server, tenant, &new.bundle)?;
    let files = files.ok_or_else(|| Problem::field("/bundle", "there is no such bundle"))?;
    let name = new.name.as_ref().map(|name| stored_run_name(tenant, name));
    if let Some(name) = &name {
        server.databases.require_free_elsewhere(name)?;
        // Whether a run of the home was started under this key is found out when it is put there.
        if key.is_none() && server.databases.home().has_run(name)? {
            return Err(name_taken(name).into());
        }
    }
    let identity = SubmissionIdentity {
        tenant: tenant.into(),
        submitter: caller.name.clone(),
        ..SubmissionIdentity::unserved()
    };
    let id = identity.id.clone();
    let prefix = match tenant {
        DEFAULT_TENANT => String::new(),
        _ => format!("{tenant}/"),
    };
    let (operators, grants) = server.policy_of(tenant);
    let attached = read_attached(server, tenant, &new.files)?;
    let first_answer = std::cell::RefCell::new(None);
    let submission = FileSubmission {
        database: server.databases.home(),
        name: name.as_deref(),
        name_prefix: &prefix,
        files: &files,
        contents: read_files_of_others(server, tenant, &files)?,
        idea: new.idea.clone(),
        attached,
        investment: new.investment,
        needs: new.needs.clone(),
        tags: new.labels.clone(),
        scope: CapScope::parse_named(tenant).ok(),
        identity,
        records: &|submitted| {
            let view = new_run_view(&new, caller, &id, submitted);
            let answer =
                ReplayableAnswer::new(StatusCode::CREATED, &view).at(format!("/v1/runs/{id}"));
            let record = key.map(|key| key.record(&answer, Some(&id)));
            *first_answer.borrow_mut() = Some(answer);
            let origin = RunOrigin {
                bundle: Some(new.bundle.clone()),
                ..RunOrigin::default()
            };
            record.into_iter().chain(origin.records(&id)).collect()
        },
        operators,
        grants,
    };
    let fetch = &mut |digest: &strata_core::record::id::Digest| {
        let bytes = server.read_file(digest)?;
        bytes.ok_or_else(|| LaunchError::InvalidInput(format!("the file `{digest}` is missing")))
    };
    match submit_files(submission, fetch) {
        Ok(_) => {}
        Err(LaunchError::Store(StoreError::RecordTaken { record, .. })) => {
            return Ok(Started::Before(record));
        }
        Err(error) => return Err(error.into()),
    }
    let answer = first_answer.into_inner();
    let answer = answer.ok_or_else(|| Problem::internal("the run has no answer"))?;
    Ok(Started::Run { answer, id })
}

/// Returns what is shown of a run at first.
fn new_run_view(new: &NewRun, caller: &Caller, id: &str, submitted: &SubmittedAs<'_>) -> RunView {
    let name = submitted.name.rsplit('/').next().unwrap_or_default();
    let idea: String = submitted.idea.chars().take(2000).collect();
    let now = rfc3339(now_ms());
    RunView {
        id: id.into(),
        name: name.into(),
        team: submitted.team.into(),
        tenant: caller.own_tenant().into(),
        by: caller.name.clone(),
        labels: new.labels.clone(),
        state: LifecycleState::Queued.name().into(),
        status: Some(LifecycleState::Queued.name().into()),
        problem: None,
        needs: new.needs.clone(),
        waits_for: None,
        step: 0,
        spent: 0.0,
        budget: submitted.budget.map(|usd| usd.to_dollars()),
        cap_reached: None,
        requests: 0,
        faults: 0,
        timer: None,
        at_work: Vec::new(),
        checkpoint: None,
        lineage: None,
        forked_from: None,
        created: Some(now.clone()),
        updated: Some(now),
        ended: None,
        truncated: idea.len() < submitted.idea.len(),
        idea,
        output: None,
        events: 0,
        bundle: Some(new.bundle.clone()),
    }
}

/// Reads the files that belong to an idea.
fn read_attached(
    server: &Server,
    tenant: &str,
    files: &BTreeMap<String, String>,
) -> Result<Vec<NamedFile>, Problem> {
    let mut attached = Vec::new();
    for (name, digest) in files {
        let unknown = || {
            let pointer = format!("/files/{}", escape_pointer(name));
            Problem::field(pointer, "this tenant has uploaded no such blob")
        };
        let digest = parse_digest(digest).ok_or_else(unknown)?;
        if !super::uploads::has_uploaded(server, tenant, &digest)? {
            return Err(unknown());
        }
        let bytes = server.read_file(&digest)?.ok_or_else(unknown)?;
        attached.push(NamedFile {
            name: name.clone(),
            bytes,
        });
    }
    Ok(attached)
}

/// Waits until a run has ended or waits, at most for a time, and returns it.
async fn wait_for_rest(server: &Arc<Server>, id: &str, time: Duration) -> Result<RunView, Problem> {
    let deadline = stopwatch() + time;
    let find = |id: String| server.blocking(move |server| Ok(server.databases.find_by_id(&id)?));
    let unknown = || Problem::not_found("run");
    let mut run = find(id.to_owned()).await?.ok_or_else(unknown)?;
    let mut changed = server.changes.subscribe(server.databases.key_of(&run));
    loop {
        changed.borrow_and_update();
        run = find(id.to_owned()).await?.ok_or_else(unknown)?;
        let is_over = stopwatch() >= deadline;
        if is_at_rest(&run) || is_over {
            return server.blocking(move |server| server.view(&run)).await;
        }
        let _ = tokio::time::timeout_at(deadline.into(), changed.changed()).await;
    }
}

/// Whether a run has ended, or goes on only if somebody does something.
pub fn is_at_rest(run: &ServedRun) -> bool {
    let status = run.listing.overview.as_ref().map(|one| one.status);
    match run.listing.state {
        // A worker takes it again by itself after a failure.
        LifecycleState::Resting
            if matches!(status, Some(Status::Running | Status::Interrupted)) =>
        {
            false
        }
        LifecycleState::Ended | LifecycleState::Refused | LifecycleState::Resting => true,
        LifecycleState::Queued | LifecycleState::Running | LifecycleState::Detached => false,
    }
}

pub async fn list_runs(context: Context) -> Answer {
    let query = &context.query;
    let limit = query.limit()?;
    let after = query
        .one("after")?
        .map(decode_cursor::<(i64, String)>)
        .transpose()?;
    let parse_state = |name: &String| {
        LifecycleState::from_name(name).ok_or_else(|| {
            let names = LifecycleState::ALL.map(LifecycleState::name);
            wrong("state", &format!("the states are: {}", names.join(", ")))
        })
    };
    let states = query.all("state");
    let states: Result<Vec<_>, Problem> = states.iter().map(parse_state).collect();
    let statuses = query.all("status");
    for name in &statuses {
        if Status::from_name(name).is_none() && name != LifecycleState::Queued.name() {
            let names: Vec<&str> = Status::ALL.iter().map(|status| status.name()).collect();
            return Err(wrong(
                "status",
                &format!("the statuses are: queued, {}", names.join(", ")),
            ));
        }
    }
    let tags = query.all("label").into_iter().map(|label| {
        let parts = label
            .split_once('=')
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        parts.ok_or_else(|| wrong("label", "give KEY=VALUE"))
    });
    let filter = ServedFilter {
        states: states?,
        statuses,
        teams: query.all("team"),
        prefixes: query.all("prefix"),
        submitters: query.all("by"),
        tags: tags.collect::<Result<_, _>>()?,
        since_ms: query.time_ms("since")?,
        until_ms: query.time_ms("until")?,
        after: after.map(|(created_ms, id)| ServedPosition { created_ms, id }),
        ..ServedFilter::default()
    };
    let Some(visible) = context.caller.visible_runs() else {
        return Ok(json(StatusCode::OK, &json!({ "items": [], "next": null })));
    };
    let filter = ServedFilter {
        tenant: visible.tenant,
        owner: visible.owner,
        ..filter
    };
    context
        .server
        .blocking(move |server| {
            let mut found = server.databases.list(&filter, limit + 1)?;
            let has_more = found.len() > limit;
            found.truncate(limit);
            let next = found
                .last()
                .filter(|_| has_more)
                .map(|last| encode_cursor(&(last.listing.created_ms.unwrap_or(0), &last.id)));
            let items: Result<Vec<RunView>, Problem> =
                found.iter().map(|run| server.view(run)).collect();
            let items = items?;
            Ok(json(StatusCode::OK, &Page { items, next }))
        })
        .await
}

pub async fn get_run(context: Context) -> Answer {
    let (name, caller) = (context.param("run").to_owned(), context.caller.clone());
    let view = context
        .server
        .blocking(move |server| {
            let run = find_run(server, &caller, &name, Deed::See)?;
            let mut view = server.view(&run)?;
            if run.listing.state == LifecycleState::Queued {
                let state = run.listing.location.submission_state()?;
                let shortage = state.and_then(|state| state.shortage);
                view.waits_for = shortage.map(MissingForWorker::from);
            }
            Ok(view)
        })
        .await?;
    Ok(tagged_json(&context.headers, &view))
}

pub async fn delete_run(context: Context) -> Answer {
    let run = context.run(Deed::Operate).await?;
    let by = context.caller.author();
    context
        .server
        .blocking(move |_| match run.listing.state {
            LifecycleState::Ended
            | LifecycleState::Refused
            | LifecycleState::Resting
            | LifecycleState::Detached => {
                // What rests is not worked on, and asked for: it is cancelled first.
                match delete_run_by(&run.listing.location, DeleteRuns::All, Some(&by)) {
                    Err(LaunchError::Store(StoreError::NoRun { .. })) => {
                        Err(Problem::not_found("run"))
                    }
                    done => Ok(done?),
                }
            }
            LifecycleState::Queued | LifecycleState::Running => Err(Problem::conflict(
                "a process works on the run, or is about to",
            )
            .named("running")
            .with_hint("cancel it first")),
        })
        .await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_client_may_wait_for_a_minute() {
        let check = |value: &'static str, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_static(value));
            let wait = wait_of(&headers).ok().map(|wait| wait.as_secs());
            assert_eq!(wait, expected, "{value}");
        };
        check("wait=30", Some(30));
        check("respond-async, wait=5", Some(5));
        check("Wait = 7", Some(7));
        check("handling=strict", Some(0));
        check("wait=61", None);
        check("wait=-1", None);
        check("wait=x", None);
    }

    #[test]
    fn a_new_run_has_a_name_that_can_be_one() {
        let check = |name: &str, expected: bool| {
            let text = json!({ "bundle": "x", "name": name }).to_string();
            let new: NewRun = parse_json(text.as_bytes()).unwrap();
            assert_eq!(check_new_run(&new).is_ok(), expected, "{name}");
        };
        check("one", true);
        check("two words", true);
        check("é", true);
        check("a/b", false);
        check("..", false);
        check(".", false);
        check("", false);
        check(" a", false);
        check("a\u{202e}b", false);
        check("a\nb", false);
        check(&"x".repeat(200), true);
        check(&"x".repeat(201), false);
    }
}
