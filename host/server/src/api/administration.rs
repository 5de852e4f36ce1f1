//! Tokens, workers, and what a process says about itself.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use strata_host::clock::{now_ms, parse_rfc3339, rfc3339};

use crate::answer::{empty, json};
use crate::body::{MAX_BODY_BYTES, parse_json};
use crate::caller::{Caller, Right};
use crate::context::Context;
use crate::idempotency::{KeyedAnswer, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::server::ServerPhase;
use crate::tokens::{
    NewToken, check_token_name, create_token as create, list_tokens as list, revoke_token as revoke,
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
    let items: Vec<serde_json::Value> = tokens
        .iter()
        .map(|token| {
            json!({
                "name": token.caller.name, "tenant": token.caller.tenant, "rights": token.caller.rights,
                "created": rfc3339(token.created_ms), "expires": token.expires_ms.map(rfc3339),
            })
        })
        .collect();
    Ok(json(
        StatusCode::OK,
        &json!({ "items": items, "next": null }),
    ))
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
    Ok(json(
        StatusCode::OK,
        &json!({
            "name": caller.name, "tenant": caller.tenant, "rights": caller.rights,
            "expires": expires_ms.map(rfc3339),
        }),
    ))
}

pub async fn create_token(mut context: Context) -> Answer {
    context.caller.require(Right::Admin)?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let request: TokenRequest = parse_json(&body)?;
    check_token_name(&request.name).map_err(|why| Problem::field("/name", why))?;
    if let Some(tenant) = &request.tenant {
        check_token_name(tenant).map_err(|why| Problem::field("/tenant", why))?;
    }
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
            let value = json!({
                "name": new.name, "tenant": new.tenant, "rights": new.rights,
                "expires": new.expires_ms.map(rfc3339), "token": text,
            });
            ReplayableAnswer::new(StatusCode::CREATED, &value)
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
    let items: Vec<serde_json::Value> = workers
        .iter()
        .map(|(database, worker)| {
            json!({
                "id": worker.id, "database": database, "host": worker.profile.host, "version": worker.version,
                "labels": worker.profile.labels, "secrets": worker.profile.secrets, "room": worker.profile.room,
                "runs": worker.runs, "beat_age_ms": worker.beat_age_ms, "draining": worker.is_draining,
            })
        })
        .collect();
    Ok(json(
        StatusCode::OK,
        &json!({ "items": items, "next": null, "database": home }),
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
    let version = env!("CARGO_PKG_VERSION");
    json(
        StatusCode::OK,
        &json!({ "status": "ok", "version": version }),
    )
}

pub async fn get_readiness(context: Context) -> Answer {
    if *context.server.phase.borrow() != ServerPhase::Serving {
        return Err(Problem::unavailable("the server is about to end"));
    }
    let places = context.server.databases.all_records().cloned().collect();
    context.server.readiness.check(places).await?;
    Ok(json(StatusCode::OK, &json!({ "status": "ready" })))
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
