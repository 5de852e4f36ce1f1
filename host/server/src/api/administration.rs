//! Tokens, workers, and what a process says about itself.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strata_host::clock::{now_ms, parse_rfc3339, rfc3339};
use strata_host::storage::ListedWorker;

use crate::answer::{Page, empty, json};
use crate::body::{MAX_BODY_BYTES, parse_json};
use crate::caller::{Caller, Right};
use crate::context::Context;
use crate::idempotency::{KeyedAnswer, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::server::ServerPhase;
use crate::tokens::{
    NewToken, TokenPart, check_new_token, create_token as create, list_tokens as list,
    revoke_token as revoke,
};

/// A token that is to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Its name, which is recorded as who did something.
    #[schemars(length(min = 1, max = strata_host::storage::MAX_NAME_CHARS))]
    name: String,
    /// Its tenant. Without one, it is that of the token with which it is made; for a token without a tenant: all.
    tenant: Option<String>,
    /// Its rights.
    rights: Vec<Right>,
    /// When it stops counting.
    #[schemars(extend("format" = "date-time"))]
    expires: Option<String>,
}

/// A token without its text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenView {
    /// Its name.
    name: String,
    /// Its tenant; `null` for all.
    tenant: Option<String>,
    /// Its rights.
    rights: Vec<Right>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// When it stops counting; `null` for never.
    expires: Option<String>,
}

impl TokenView {
    fn new(caller: &Caller, expires_ms: Option<i64>) -> Self {
        Self {
            name: caller.name.clone(),
            tenant: caller.tenant.clone(),
            rights: caller.rights.clone(),
            created: None,
            expires: expires_ms.map(rfc3339),
        }
    }
}

/// A token that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MadeToken {
    /// Its name.
    name: String,
    /// Its tenant; `null` for all.
    tenant: Option<String>,
    /// Its rights.
    rights: Vec<Right>,
    /// When it stops counting; `null` for never.
    expires: Option<String>,
    /// Its text, which is shown once: `null` in the answer to a repeated request.
    token: Option<String>,
}

/// A worker.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerView {
    /// Its id.
    id: String,
    /// The database for which it works.
    database: String,
    /// The name of its machine.
    host: String,
    /// Its version.
    version: String,
    /// Its labels, which the needs of runs name.
    labels: Vec<String>,
    /// The names of the secrets that it has.
    secrets: Vec<String>,
    /// For how many runs it has room.
    room: usize,
    /// How many runs it works on.
    runs: u64,
    /// How long ago it last said that it lives, in milliseconds.
    beat_age_ms: i64,
    /// Whether it takes no more runs.
    draining: bool,
}

impl From<(String, ListedWorker)> for WorkerView {
    fn from((database, worker): (String, ListedWorker)) -> Self {
        Self {
            id: worker.id,
            database,
            host: worker.profile.host,
            version: worker.version,
            labels: worker.profile.labels,
            secrets: worker.profile.secrets,
            room: worker.profile.room,
            runs: worker.runs,
            beat_age_ms: worker.beat_age_ms,
            draining: worker.is_draining,
        }
    }
}

/// The list of workers, which has only one page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerPage {
    /// The workers.
    items: Vec<WorkerView>,
    /// Always `null`.
    next: Option<String>,
    /// The database that new runs are put into.
    database: String,
}

/// That the process lives.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Health {
    /// Always `ok`.
    status: &'static str,
    /// The version of the program.
    version: &'static str,
}

/// That the server takes requests.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Readiness {
    /// Always `ready`.
    status: &'static str,
}

/// Returns the tenant of a token that a caller makes or revokes.
fn tenant_of(caller: &Caller, named: Option<&str>) -> Result<Option<String>, Problem> {
    caller.require(Right::Admin)?;
    match (&caller.tenant, named) {
        (None, named) => Ok(named.map(str::to_owned)),
        (Some(own), None) => Ok(Some(own.clone())),
        (Some(own), Some(named)) if own == named => Ok(Some(own.clone())),
        (Some(_), Some(_)) => Err(Problem::forbidden("a token without a tenant is needed")),
    }
}

pub async fn list_tokens(context: Context) -> Answer {
    context.caller.require(Right::Admin)?;
    let tenant = context.caller.tenant.clone();
    let tokens = context
        .server
        .blocking(move |server| Ok(list(server.records.as_ref(), tenant.as_deref())?))
        .await?;
    let items = tokens.iter().map(|token| TokenView {
        created: Some(rfc3339(token.created_ms)),
        ..TokenView::new(&token.caller, token.expires_ms)
    });
    Ok(json(StatusCode::OK, &Page::whole(items.collect())))
}

pub async fn get_own_token(context: Context) -> Answer {
    let caller = context.caller;
    let own = caller.clone();
    let tokens = context
        .server
        .blocking(move |server| Ok(list(server.records.as_ref(), own.tenant.as_deref())?))
        .await?;
    let own = tokens.iter().find(|token| token.caller == caller);
    let expires_ms = own.and_then(|token| token.expires_ms);
    Ok(json(StatusCode::OK, &TokenView::new(&caller, expires_ms)))
}

pub async fn create_token(mut context: Context) -> Answer {
    context.caller.require(Right::Admin)?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let request: TokenRequest = parse_json(&body)?;
    check_new_token(&request.name, request.tenant.as_deref()).map_err(|(part, why)| {
        let pointer = match part {
            TokenPart::Name => "/name",
            TokenPart::Tenant => "/tenant",
        };
        Problem::field(pointer, why)
    })?;
    if request.rights.is_empty() {
        return Err(Problem::field(
            "/rights",
            "a token without rights can do nothing",
        ));
    }
    let tenant = tenant_of(&context.caller, request.tenant.as_deref())?;
    let expires_ms = request
        .expires
        .as_deref()
        .map(|text| {
            let time_ms = parse_rfc3339(text).filter(|time_ms| *time_ms > now_ms());
            time_ms.ok_or_else(|| {
                Problem::field(
                    "/expires",
                    "give a time to come, such as 2099-01-31T12:00:00Z",
                )
            })
        })
        .transpose()?;
    let new = NewToken {
        name: request.name,
        tenant,
        rights: request.rights,
        expires_ms,
    };
    let server = Arc::clone(&context.server);
    make_once(&context, &body, None, move |_| async move {
        let (text, new) = server
            .blocking(move |server| {
                let text = create(server.records.as_ref(), &new)?;
                server.tokens.forget();
                Ok::<_, Problem>((text, new))
            })
            .await?;
        let text = text.ok_or_else(|| {
            Problem::conflict("there is a token of this name").named("name-taken")
        })?;
        let answer = |text: Option<&str>| {
            let made = MadeToken {
                name: new.name.clone(),
                tenant: new.tenant.clone(),
                rights: new.rights.clone(),
                expires: new.expires_ms.map(rfc3339),
                token: text.map(str::to_owned),
            };
            ReplayableAnswer::new(StatusCode::CREATED, &made)
        };
        // Texts of tokens are not stored, so a repeated request cannot get this one.
        Ok(KeyedAnswer::Once {
            shown: answer(Some(&text)),
            kept: answer(None),
        })
    })
    .await
}

pub async fn revoke_token(context: Context) -> Answer {
    let named = context.query.one("tenant")?;
    let tenant = tenant_of(&context.caller, named)?;
    let name = context.param("name").to_owned();
    let was_there = context
        .server
        .blocking(move |server| {
            let was_there = revoke(server.records.as_ref(), tenant.as_deref(), &name)?;
            server.tokens.forget();
            Ok(was_there)
        })
        .await?;
    if was_there {
        Ok(empty(StatusCode::NO_CONTENT))
    } else {
        Err(Problem::not_found("token"))
    }
}

pub async fn list_workers(context: Context) -> Answer {
    context.caller.require_all_tenants()?;
    let workers = context
        .server
        .blocking(|server| {
            let workers = server.databases.workers()?.into_iter();
            let named = workers.map(|(database, worker)| (database.to_string(), worker));
            Ok(named.collect::<Vec<_>>())
        })
        .await?;
    let home = context.server.databases.home().to_string();
    let items = workers.into_iter().map(WorkerView::from);
    Ok(json(
        StatusCode::OK,
        &WorkerPage {
            items: items.collect(),
            next: None,
            database: home,
        },
    ))
}

pub async fn get_openapi(_: Context) -> Answer {
    Ok(json(StatusCode::OK, &crate::openapi::document()))
}

pub async fn get_health(_: Context) -> Answer {
    Ok(health())
}

/// Says that the process is there.
pub fn health() -> Response {
    json(
        StatusCode::OK,
        &Health {
            status: "ok",
            version: env!("CARGO_PKG_VERSION"),
        },
    )
}

pub async fn get_readiness(context: Context) -> Answer {
    if *context.server.phase.borrow() != ServerPhase::Serving {
        return Err(Problem::unavailable("the server is about to end"));
    }
    let places = context.server.databases.all_records().cloned().collect();
    context.server.readiness.check(places).await?;
    Ok(json(StatusCode::OK, &Readiness { status: "ready" }))
}

pub async fn get_metrics(context: Context) -> Answer {
    context.caller.require_all_tenants()?;
    let (requests, streams) = context.server.usage.totals();
    let text = context
        .server
        .blocking(move |server| {
            server.metrics.refresh();
            let mut out = server.metrics.to_writer();
            let name = "strata_api_requests";
            out.family(name, "gauge", "Requests that are being answered.");
            out.sample(name, &[], requests);
            let name = "strata_api_streams";
            out.family(name, "gauge", "Streams of events that somebody reads.");
            out.sample(name, &[], streams);
            Ok(out.into_text())
        })
        .await?;
    let media_type = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    Ok((StatusCode::OK, media_type, text).into_response())
}
