//! `/mcp`: the teams of a tenant as tools, for clients of the Model Context Protocol. What is spoken there is
//! `strata_host::mcp_server`; here it is decided who a client is and what its token may do, as for every other request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::StreamExt;
use strata_host::mcp_server::{HttpService, Offer, Principal, ServedClient};
use strata_host::storage::ServerRecords;
use tower::ServiceExt;

use crate::body::{MAX_BODY_BYTES, read_body};
use crate::caller::{Caller, Right};
use crate::mcp_calls::RecordedCalls;
use crate::mcp_teams::TenantTeams;
use crate::problem::Problem;
use crate::routes::authenticate;
use crate::server::{Server, ServerPhase};
use crate::usage::UsagePermit;

/// The path at which clients of the protocol are served.
const PATH: &str = "/mcp";
/// How long the last answers may take to be sent.
const LAST_ANSWERS_TIME: Duration = Duration::from_millis(300);
/// How often it is looked whether the token of a call or of a stream still counts.
const TOKEN_INTERVAL: Duration = Duration::from_secs(2);

/// What serves clients of the protocol.
#[derive(Clone)]
pub struct McpEndpoint {
    offer: Offer,
    service: HttpService,
}

impl McpEndpoint {
    /// Opens that of a server with these records.
    ///
    /// # Errors
    /// Fails if what is remembered of calls cannot be read or written.
    pub fn open(records: Arc<dyn ServerRecords>) -> io::Result<Self> {
        let offer = Offer::served(Arc::new(RecordedCalls(records)))?;
        let service = HttpService::new(&offer);
        Ok(Self { offer, service })
    }

    /// Returns its route.
    pub fn routes(&self, server: &Arc<Server>) -> Router {
        let (server, service) = (Arc::clone(server), self.service.clone());
        let handle = move |request: Request| {
            let (server, service) = (Arc::clone(&server), service.clone());
            async move {
                let answer = answer(&server, service, request).await;
                answer.unwrap_or_else(IntoResponse::into_response)
            }
        };
        Router::new().route(PATH, any(handle))
    }

    /// Ends all calls and streams. Runs that calls wait for go on, or are continued when the server starts again.
    pub async fn close(&self) {
        self.offer.close().await;
        // What calls have returned is still sent.
        tokio::time::sleep(LAST_ANSWERS_TIME).await;
        self.service.end_streams();
    }
}

/// Answers a request of those who may start runs.
async fn answer(
    server: &Arc<Server>,
    service: HttpService,
    request: Request,
) -> Result<Response, Problem> {
    let (mut head, body) = request.into_parts();
    let (caller, token) = authenticate(server, &head.headers).await?;
    caller.require(Right::Submit)?;
    if *server.phase.borrow() != ServerPhase::Serving {
        return Err(Problem::unavailable("the server is about to end"));
    }
    // A client that is only read to stays connected for as long as it likes.
    let permit = match head.method {
        Method::GET => server.usage.begin_stream(&caller)?,
        _ => server.usage.begin_request(&caller)?,
    };
    let body = read_body(&head.headers, body, MAX_BODY_BYTES).await?;
    head.headers.remove(header::AUTHORIZATION);
    head.extensions.insert(principal_of(&caller));
    let teams = TenantTeams::new(Arc::clone(server), caller);
    head.extensions.insert(ServedClient(Arc::new(teams)));
    let request = Request::from_parts(head, Body::from(body));
    let response = match service.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let guard = (Arc::clone(server), token, permit);
    Ok(response.map(|body| guarded_body(body, guard)))
}

/// Returns who a token is for the protocol. Two tokens are never the same one.
fn principal_of(caller: &Caller) -> Principal {
    // No tenant has a name with this character.
    let tenant = caller.tenant.as_deref().unwrap_or("*");
    Principal::of_token(&format!("{tenant}/{}", caller.name))
}

/// Returns a body that counts as one that is under way until it has ended, which it does when its token is revoked.
fn guarded_body(body: Body, (server, token, permit): (Arc<Server>, String, UsagePermit)) -> Body {
    let revoked = Box::pin(async move {
        while server.is_token_valid(token.clone()).await {
            tokio::time::sleep(TOKEN_INTERVAL).await;
        }
    });
    let chunks = body.into_data_stream().take_until(revoked);
    Body::from_stream(chunks.map(move |chunk| {
        let _permit = &permit;
        chunk
    }))
}
