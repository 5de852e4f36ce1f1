//! The operations that concern the server itself: its tokens, its workers, and what it says about itself.

use axum::http::Method;

use super::schema::{any, list_of, schema_of};
use super::{Content, Operation};
use crate::api;

/// Returns the operations.
pub fn operations() -> Vec<Operation> {
    let mut all = tokens();
    all.extend(about_server());
    all
}

fn tokens() -> Vec<Operation> {
    use api::administration::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/tokens",
            "listTokens",
            "Lists the tokens of a tenant, or of all.",
            list_tokens,
        )
        .gives(200, Content::Json(list_of::<TokenView>)),
        Operation::new(
            Method::GET,
            "/v1/token",
            "getOwnToken",
            "Returns the token of the request, without its text.",
            get_own_token,
        )
        .gives(200, Content::Json(schema_of::<TokenView>)),
        Operation::new(
            Method::POST,
            "/v1/tokens",
            "createToken",
            "Makes a token. Its text is shown once: a repeated request gets `null` in its place.",
            create_token,
        )
        .keyed()
        .takes(Content::Json(schema_of::<TokenRequest>))
        .gives(201, Content::Json(schema_of::<MadeToken>))
        .fails(&[409]),
        Operation::new(
            Method::DELETE,
            "/v1/tokens/{name}",
            "revokeToken",
            "Revokes a token.",
            revoke_token,
        )
        .with("tenant", "its tenant, for a token of all tenants")
        .gives(204, Content::Empty)
        .fails(&[422]),
    ]
}

fn about_server() -> Vec<Operation> {
    use api::administration::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/workers",
            "listWorkers",
            "Lists the workers, and names the database that they share.",
            list_workers,
        )
        .gives(200, Content::Json(schema_of::<WorkerPage>)),
        Operation::new(
            Method::GET,
            "/v1/openapi.json",
            "getOpenApi",
            "Returns this document.",
            get_openapi,
        )
        .open()
        .gives(200, Content::Json(any)),
        Operation::new(
            Method::GET,
            "/health",
            "getHealth",
            "Says that the process lives.",
            get_health,
        )
        .open()
        .gives(200, Content::Json(schema_of::<Health>)),
        Operation::new(
            Method::GET,
            "/ready",
            "getReadiness",
            "Says whether the server takes requests.",
            get_readiness,
        )
        .open()
        .gives(200, Content::Json(schema_of::<Readiness>)),
        Operation::new(
            Method::GET,
            "/metrics",
            "getMetrics",
            "Returns metrics for a collector of Prometheus.",
            get_metrics,
        )
        .gives(200, Content::Other("text/plain")),
    ]
}
