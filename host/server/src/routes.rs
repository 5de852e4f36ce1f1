//! From a request to its operation: which requests are for this server, who makes them, and what every answer has.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use strata_host::owner::ServerNames;
use tokio::sync::watch;

use crate::answer::unless_known;
use crate::api::administration::health;
use crate::caller::Caller;
use crate::context::{BodySlot, Context};
use crate::kept_answers::AnswerKey;
use crate::operations::{Answer, Operation, operations};
use crate::page;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Server;
use crate::tokens::bearer_token;

/// The maximum size of a request head in bytes.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// What answers requests. Its clones are the same one.
#[derive(Clone)]
pub struct Site {
    /// The names by which the server is reached.
    pub names: Arc<ServerNames>,
    /// What is served at the moment.
    pub routes: watch::Receiver<Router>,
}

/// Returns what is served before the storage could be used for the first time: the page, and that nothing else can be done.
pub fn routes_without_storage() -> Router {
    let reject = |request: Request| async move {
        page::for_path(request.method(), request.uri().path(), request.headers())
            .unwrap_or_else(|| Problem::without_storage().into_response())
    };
    Router::new()
        .route("/health", get(|| async { health() }))
        .merge(page::routes())
        .fallback(reject)
}

/// Returns all that is served. `others` are further routes, below paths of their own.
pub fn router(server: &Arc<Server>, others: Router) -> Router {
    let mut paths: BTreeMap<&'static str, MethodRouter> = BTreeMap::new();
    for operation in operations() {
        let Some(filter) = method_filter(&operation.method) else {
            continue;
        };
        let (server, path) = (Arc::clone(server), operation.path);
        let operation = Arc::new(operation);
        let handle = move |params: Result<RawPathParams, _>, request: Request| {
            let (server, operation) = (Arc::clone(&server), Arc::clone(&operation));
            async move {
                let params: Result<_, axum::extract::rejection::RawPathParamsRejection> = params;
                let Ok(params) = params else {
                    return Problem::not_found("path").into_response();
                };
                let params = params
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                let answer = carry_out(&server, &operation, params, request).await;
                answer.unwrap_or_else(IntoResponse::into_response)
            }
        };
        let route = on(filter, handle);
        let before = paths.remove(path).unwrap_or_default();
        paths.insert(path, before.merge(route));
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        let not_allowed = || async { Problem::method_not_allowed() };
        router = router.route(path, methods.fallback(not_allowed));
    }
    router.merge(page::routes()).merge(others).fallback(reject)
}

async fn reject(request: Request) -> Response {
    page::for_path(request.method(), request.uri().path(), request.headers())
        .unwrap_or_else(|| Problem::not_found("path").into_response())
}

fn method_filter(method: &Method) -> Option<MethodFilter> {
    MethodFilter::try_from(method.clone()).ok()
}

/// Carries out an operation.
async fn carry_out(
    server: &Arc<Server>,
    operation: &Operation,
    params: Vec<(String, String)>,
    request: Request,
) -> Answer {
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let (caller, token) = if operation.needs_token {
        authenticate(server, &parts.headers).await?
    } else {
        (nobody(), String::new())
    };
    let permit = operation
        .needs_token
        .then(|| server.usage.begin_request(&caller))
        .transpose()?;
    query.allow(&operation.parameter_names())?;
    let key = operation.is_kept.then(|| AnswerKey {
        operation: operation.id,
        params: params.clone(),
        query: query.clone(),
        caller: caller.clone(),
    });
    let context = Context {
        server: Arc::clone(server),
        caller,
        token,
        params,
        query,
        target: format!("{} {}", parts.method, parts.uri.path()),
        headers: parts.headers,
        body: BodySlot::new(body),
        permit,
        cut_off: parts.extensions.get().cloned().unwrap_or_default(),
    };
    match key {
        Some(key) => answer_once(operation, key, context).await,
        None => (operation.handler)(context).await,
    }
}

/// Returns the answer to a request that was kept, or carries the request out and keeps its answer.
async fn answer_once(operation: &Operation, key: AnswerKey, mut context: Context) -> Answer {
    let server = Arc::clone(&context.server);
    // The whole answer is kept, whatever of it this client has.
    let known = context.headers.get_all(header::IF_NONE_MATCH);
    let known: Vec<HeaderValue> = known.iter().cloned().collect();
    context.headers.remove(header::IF_NONE_MATCH);
    let response = match server.answers.find(&key) {
        Some(response) => response,
        None => {
            let revision = server.answers.revision();
            let response = (operation.handler)(context).await?;
            match revision {
                Some(revision) => server.answers.keep(key, revision, response).await,
                None => response,
            }
        }
    };
    Ok(unless_known(response, known.iter()))
}

/// Returns the caller of an operation that needs no token. It has no rights.
fn nobody() -> Caller {
    Caller {
        name: String::new(),
        tenant: None,
        rights: Vec::new(),
    }
}

/// Returns who makes a request.
pub async fn authenticate(
    server: &Arc<Server>,
    headers: &HeaderMap,
) -> Result<(Caller, String), Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Err(Problem::unauthorized("the request has no token"));
    };
    let token = value.to_str().ok().and_then(bearer_token);
    let invalid = || Problem::unauthorized("the token is not valid").named("token");
    let token = token
        .filter(|_| values.next().is_none())
        .ok_or_else(invalid)?
        .to_owned();
    let known = match server.tokens.recall(&token) {
        Some(known) => known,
        None => {
            let text = token.clone();
            server
                .blocking(move |server| {
                    Ok(server.tokens.recognise(&text, server.records.as_ref())?)
                })
                .await?
        }
    };
    known.map(|caller| (caller, token)).ok_or_else(invalid)
}

/// Answers a request: one that is not for this server is refused before anything else.
pub async fn answer(site: Site, request: Request) -> Response {
    use tower::ServiceExt as _;
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().to_owned());
    // What reads heads may let some pass that are twice as long.
    let lengths = request
        .headers()
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    let length = lengths.sum::<usize>() + request.uri().path().len();
    let checked = if length > MAX_HEAD_BYTES {
        Err(Problem::head_too_large(MAX_HEAD_BYTES))
    } else {
        let checked = site.names.check(request.headers(), authority.as_deref());
        checked.map_err(Problem::from)
    };
    let router = site.routes.borrow().clone();
    let mut response = match checked {
        Ok(()) => match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::REFERRER_POLICY)
        .or_insert(HeaderValue::from_static("no-referrer"));
    response
}
