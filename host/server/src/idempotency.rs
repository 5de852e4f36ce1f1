//! Requests that are repeated under a key: the first answer is given again, and nothing is done twice.

use std::future::Future;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use strata_core::record::id::to_hex;
use strata_host::clock::now_ms;
use strata_host::storage::{RecordHold, ServedRun, ServerRecord, ServerRecords};

use crate::answer::json_text;
use crate::caller::Deed;
use crate::context::Context;
use crate::problem::Problem;
use crate::server::Server;

/// The kind of the records of keys.
const KIND: &str = "key";
/// For how long a key counts that belongs to no run, in milliseconds.
const KEY_TIME_MS: i64 = 24 * 3600 * 1000;
/// What the paths of runs begin with.
pub const RUNS_PATH: &str = "/v1/runs/";
/// The longest key.
const MAX_KEY_BYTES: usize = 255;

/// The answer to a request that makes something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayableAnswer {
    /// The status.
    pub status: u16,
    /// Where it is.
    pub location: Option<String>,
    /// The body.
    pub body: String,
}

impl ReplayableAnswer {
    /// Returns an answer of JSON.
    pub fn new(status: StatusCode, value: &impl Serialize) -> Self {
        Self {
            status: status.as_u16(),
            location: None,
            body: serde_json::to_string(value).unwrap_or_default(),
        }
    }

    /// Returns the answer with where it is that was made.
    pub fn at(self, location: String) -> Self {
        Self {
            location: Some(location),
            ..self
        }
    }

    /// Returns the id of the run that was made, if one was.
    fn run_id(&self) -> Option<&str> {
        self.location.as_deref()?.strip_prefix(RUNS_PATH)
    }

    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut response = json_text(status, self.body);
        if let Some(location) = self
            .location
            .and_then(|text| HeaderValue::try_from(text).ok())
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// What is stored of a key.
#[derive(Serialize, Deserialize)]
struct StoredKey {
    /// The SHA-256 of the body, in hexadecimal.
    digest: String,
    answer: ReplayableAnswer,
}

/// The key of a request that is carried out.
#[derive(Clone, Debug)]
pub struct PendingKey {
    tenant: String,
    name: String,
    digest: String,
    /// The key as it was given.
    pub text: String,
}

impl PendingKey {
    /// Returns the record of the key, with the answer. It is deleted with a run, if there is one.
    pub fn record(&self, answer: &ReplayableAnswer, run: Option<&str>) -> ServerRecord {
        let stored = StoredKey {
            digest: self.digest.clone(),
            answer: answer.clone(),
        };
        ServerRecord {
            kind: KIND.into(),
            tenant: self.tenant.clone(),
            name: self.name.clone(),
            run: run.map(str::to_owned),
            text: serde_json::to_string(&stored).unwrap_or_default(),
            expires_ms: match run {
                Some(_) => None,
                None => Some(now_ms().saturating_add(KEY_TIME_MS)),
            },
        }
    }

    /// Returns the answer that a record of this key has. Fails if it is of another body.
    pub fn first_answer(&self, record: &ServerRecord) -> Result<ReplayableAnswer, Problem> {
        let stored: StoredKey = serde_json::from_str(&record.text)
            .map_err(|_| Problem::internal("what is stored of the key cannot be read"))?;
        if stored.digest != self.digest {
            return Err(Problem::refused(
                "the key was used before, with another body; use a new key",
            )
            .named("key-reused"));
        }
        Ok(stored.answer)
    }
}

/// Gives a first answer again. Fails if it is about a run that the caller may not see: the tokens of a tenant share their
/// keys.
async fn replay(context: &Context, answer: ReplayableAnswer) -> Result<Response, Problem> {
    if let Some(id) = answer.run_id().map(str::to_owned) {
        let find = move |server: &Server| Ok(server.databases.find_by_id(&id)?);
        let run = context.server.blocking(find).await?;
        if run.is_some_and(|run| !context.caller.may(Deed::See, &run)) {
            return Err(Problem::refused(
                "the key was used before, by another token of the tenant; use a new key",
            )
            .named("key-reused"));
        }
    }
    let mut response = answer.into_response();
    let replayed = HeaderValue::from_static("true");
    response
        .headers_mut()
        .insert("idempotency-replayed", replayed);
    Ok(response)
}

/// Returns the key of a request; `None` if it has none. `scope` says what the request makes something in.
fn key_of(
    headers: &HeaderMap,
    tenant: &str,
    scope: &str,
    body: &[u8],
) -> Result<Option<PendingKey>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let wrong = || {
        Problem::refused(format!(
            "`Idempotency-Key` has to be 1 to {MAX_KEY_BYTES} printable ASCII characters, once"
        ))
        .named("key")
    };
    let text = value.to_str().map_err(|_| wrong())?;
    let is_printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if text.is_empty() || text.len() > MAX_KEY_BYTES || !is_printable || values.next().is_some() {
        return Err(wrong());
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    Ok(Some(PendingKey {
        tenant: tenant.into(),
        name: format!("{scope} {text}"),
        digest: to_hex(digest.as_ref()),
        text: text.into(),
    }))
}

/// What has been made, and whether its key is stored already.
pub enum KeyedAnswer {
    /// The key is not stored yet.
    Now(ReplayableAnswer),
    /// The key is not stored yet, and what is stored with it lacks a secret that is shown once.
    Once {
        /// The answer.
        shown: ReplayableAnswer,
        /// The answer to a repeated request.
        kept: ReplayableAnswer,
    },
    /// The key is stored with what was made.
    WithKey(ReplayableAnswer),
    /// The key was stored before: this is its record.
    Before(Box<ServerRecord>),
}

/// Holds a key against repetitions, and returns what was stored under it before.
async fn hold_key(
    context: &Context,
    records: &Arc<dyn ServerRecords>,
    key: &PendingKey,
) -> Result<(Option<RecordHold>, Option<ServerRecord>), Problem> {
    let (records, key) = (Arc::clone(records), key.clone());
    let hold = move |_: &Server| {
        let hold = records.hold(&key.tenant, &key.name)?;
        let known = records.read_record(KIND, &key.tenant, &key.name)?;
        Ok((hold, known))
    };
    context.server.blocking(hold).await
}

/// Carries out a request that makes something, unless it was carried out before under its key. It is carried out to
/// its end, even if the client goes away. `run` is the run in which it makes something: then the key is kept beside it.
pub async fn make_once<M>(
    context: &Context,
    body: &[u8],
    run: Option<&ServedRun>,
    make: impl FnOnce(Option<PendingKey>) -> M,
) -> Result<Response, Problem>
where
    M: Future<Output = Result<KeyedAnswer, Problem>> + Send + 'static,
{
    let tenant = match run {
        Some(run) => &run.tenant,
        None => context.caller.own_tenant(),
    };
    let scope = match run {
        // A run is named by its name or by its id.
        Some(run) => {
            let last = context.target.rsplit('/').next().unwrap_or_default();
            format!("POST {}/{last}", run.id)
        }
        None => context.target.clone(),
    };
    let Some(key) = key_of(&context.headers, tenant, &scope, body)? else {
        let outcome = tokio::spawn(make(None)).await;
        return match outcome.map_err(|_| Problem::internal("the request was not carried out"))?? {
            KeyedAnswer::Now(answer)
            | KeyedAnswer::WithKey(answer)
            | KeyedAnswer::Once { shown: answer, .. } => Ok(answer.into_response()),
            KeyedAnswer::Before(_) => Err(Problem::internal("a key that was not given is stored")),
        };
    };
    let records = match run {
        Some(run) => context.server.databases.records_of(run),
        None => &context.server.records,
    };
    let (hold, known) = hold_key(context, records, &key).await?;
    if let Some(record) = known {
        return replay(context, key.first_answer(&record)?).await;
    }
    let Some(hold) = hold else {
        return Err(
            Problem::conflict("the first request under this key is under way")
                .named("key-under-way")
                .retry_after(1),
        );
    };
    let making = make(Some(key.clone()));
    let (server, records) = (Arc::clone(&context.server), Arc::clone(records));
    let run = run.map(|run| run.id.clone());
    let stored_key = key.clone();
    let task = tokio::spawn(async move {
        let _hold = hold;
        let (answer, kept) = match making.await? {
            KeyedAnswer::Now(answer) => (answer.clone(), answer),
            KeyedAnswer::Once { shown, kept } => (shown, kept),
            other => return Ok(other),
        };
        let record = stored_key.record(&kept, run.as_deref());
        server
            .blocking(move |_| Ok(records.put_record(&record)?))
            .await?;
        Ok::<_, Problem>(KeyedAnswer::WithKey(answer))
    });
    match task
        .await
        .map_err(|_| Problem::internal("the request was not carried out"))??
    {
        KeyedAnswer::Now(answer)
        | KeyedAnswer::WithKey(answer)
        | KeyedAnswer::Once { shown: answer, .. } => Ok(answer.into_response()),
        KeyedAnswer::Before(record) => replay(context, key.first_answer(&record)?).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(keys: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append("idempotency-key", HeaderValue::from_static(key));
        }
        headers
    }

    #[test]
    fn a_key_is_printable_and_not_too_long() {
        let check = |keys: &[&'static str], expected: Result<bool, u16>| {
            let key = key_of(&headers(keys), "red", "POST /v1/runs", b"{}");
            let found = key.map(|key| key.is_some());
            let found = found.map_err(|problem| problem.status.as_u16());
            assert_eq!(found, expected, "{keys:?}");
        };
        check(&[], Ok(false));
        check(&["one"], Ok(true));
        check(&["with space"], Ok(true));
        check(&[""], Err(422));
        check(&["a", "b"], Err(422));
        check(&[Box::leak("x".repeat(256).into_boxed_str())], Err(422));
        check(&[Box::leak("x".repeat(255).into_boxed_str())], Ok(true));
    }

    #[test]
    fn the_first_answer_is_given_again_for_the_same_body_only() {
        let key = |body: &[u8]| {
            let key = key_of(&headers(&["one"]), "red", "POST /v1/runs", body);
            key.unwrap().unwrap()
        };
        let answer = ReplayableAnswer::new(StatusCode::CREATED, &"first").at("/v1/runs/1".into());
        let record = key(b"{}").record(&answer, Some("1"));
        let first = key(b"{}").first_answer(&record).unwrap();
        assert_eq!(first, answer);
        assert_eq!(first.run_id(), Some("1"));
        let refused = key(b"{ }").first_answer(&record).unwrap_err();
        assert_eq!(refused.status.as_u16(), 422);
    }
}
