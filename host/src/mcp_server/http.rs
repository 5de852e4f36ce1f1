//! Clients over HTTP: who may connect, and what answers them.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use rmcp::model::ErrorCode;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use strata_base::files::sha256::sha256;
use strata_base::owner::{
    GuardedService, HttpBody, HttpGuard, HttpRefusal, ServerNames, ServiceServer,
};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::handler::ClientHandler;
use super::sessions::{BoundedSessions, REQUEST_CLIENT, RequestClient};
use super::{Offer, Principal};

/// The path at which the server is.
const PATH: &str = "/mcp";
/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The media type of messages.
const JSON: &str = "application/json";
/// After how many seconds a client may try again to open a session.
const SESSIONS_RETRY_SECONDS: u64 = 30;

/// Who may connect to a server over HTTP.
#[derive(Clone)]
pub struct HttpAccess {
    /// The digest of the token that each request has to bear.
    token: Option<[u8; 32]>,
    /// Names, besides those of this machine, to which requests may be addressed.
    hosts: Vec<String>,
}

/// The address is not one of this machine alone, and there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` can be reached from other machines, so each request needs a token: name a file that has one with `--token-file`"
)]
pub struct MissingToken(SocketAddr);

/// What answers requests over HTTP, for a server that has its own connections and knows who its clients are. Each
/// request has its [`Principal`] in its extensions.
#[derive(Clone)]
pub struct HttpService {
    inner: StreamableHttpService<ClientHandler, BoundedSessions>,
    streams: CancellationToken,
}

impl HttpService {
    /// Returns a service that offers tools.
    pub fn new(offer: &Offer) -> Self {
        let streams = CancellationToken::new();
        // What it lacks is checked before: `Host`, `Origin` and the token.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(MAX_REQUEST_BYTES)
            .with_cancellation_token(streams.clone());
        // Copies share the limit of calls.
        let handler = ClientHandler::new(offer.clone(), None);
        let inner = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(BoundedSessions::default()),
            config,
        );
        Self { inner, streams }
    }

    /// Ends the responses that are being sent.
    pub fn end_streams(&self) {
        self.streams.cancel();
    }
}

impl Service<Request<HttpBody>> for HttpService {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<HttpBody>) -> Self::Future {
        let client = RequestClient {
            principal: request.extensions().get::<Principal>().cloned(),
            is_refused: Arc::default(),
        };
        let is_refused = Arc::clone(&client.is_refused);
        let is_json = is_json(request.headers());
        let inner = self.inner.clone();
        let answered = async move { inner.handle(request).await };
        let answered = REQUEST_CLIENT.scope(client, answered);
        Box::pin(async move {
            let mut response = answered.await.map(HttpBody::new);
            if is_refused.load(Ordering::Relaxed) {
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                let seconds = HeaderValue::from(SESSIONS_RETRY_SECONDS);
                response.headers_mut().insert(RETRY_AFTER, seconds);
            }
            // The library says this of a body that it cannot read, too.
            if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
                return Ok(unreadable());
            }
            Ok(response)
        })
    }
}

/// Returns whether a body is JSON by its media type.
fn is_json(headers: &HeaderMap) -> bool {
    let value = header(headers, &CONTENT_TYPE).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON)
}

/// Returns the response to a body that is no message.
fn unreadable() -> Response<HttpBody> {
    let text = "the body is no JSON, or no message of the protocol; batches are not taken";
    let error = json!({ "code": ErrorCode::PARSE_ERROR.0, "message": text });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
    let mut response = Response::new(HttpBody::from(body));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let json = HeaderValue::from_static(JSON);
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A server over HTTP. It runs until it is closed or dropped.
pub struct HttpServer {
    server: ServiceServer,
    /// Ends the streams of responses.
    streams: CancellationToken,
}

impl HttpAccess {
    /// Returns the access to a server at this address.
    ///
    /// # Errors
    /// Fails if other machines can reach the address and there is no token.
    pub fn new(
        address: SocketAddr,
        token: Option<String>,
        hosts: Vec<String>,
    ) -> Result<Self, MissingToken> {
        if token.is_none() && !address.ip().is_loopback() {
            return Err(MissingToken(address));
        }
        let token = token.map(sha256);
        Ok(Self { token, hosts })
    }

    /// Checks the head of a request to a server with these names, and notes who sent it.
    fn check(&self, names: &ServerNames, head: &mut Parts) -> Result<(), HttpRefusal> {
        let authority = head.uri.authority().map(|authority| authority.as_str());
        names.check(&head.headers, authority)?;
        let principal = match &self.token {
            None => Principal::local(),
            Some(expected) => {
                let token = header(&head.headers, &AUTHORIZATION).and_then(bearer_token);
                // Digests are compared, so the time of the comparison says nothing about the token.
                if token.map(sha256) != Some(*expected) {
                    return Err(HttpRefusal {
                        status: 401,
                        detail: "the request does not bear the token".into(),
                    });
                }
                Principal::of_token("http")
            }
        };
        head.extensions.insert(principal);
        Ok(())
    }
}

/// Returns the value of a header that occurs once and is a text.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next()?, values.next());
    second.is_none().then(|| first.to_str().ok()).flatten()
}

/// Returns the token of an `Authorization`.
fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Serves clients over HTTP.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub async fn serve_http(
    offer: &Offer,
    address: SocketAddr,
    access: HttpAccess,
) -> io::Result<HttpServer> {
    let service = HttpService::new(offer);
    let streams = service.streams.clone();
    let serve = |bound: SocketAddr| {
        let names = ServerNames::new(bound, false, access.hosts.clone());
        let guard: HttpGuard = Arc::new(move |head: &mut Parts| access.check(&names, head));
        GuardedService {
            path: PATH,
            max_body_bytes: MAX_REQUEST_BYTES,
            guard,
            service,
        }
    };
    let server = ServiceServer::start(address, serve).await?;
    Ok(HttpServer { server, streams })
}

impl HttpServer {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Accepts no more requests and ends the responses that are being sent.
    pub async fn close(self) {
        self.streams.cancel();
        self.server.close().await;
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, ORIGIN};

    use super::*;

    fn check(access: &HttpAccess, headers: &[(HeaderName, &str)]) -> Result<Principal, u16> {
        let mut request = Request::new(());
        for (name, value) in headers {
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        let (mut head, ()) = request.into_parts();
        let address = SocketAddr::from(([127, 0, 0, 1], 7465));
        let names = ServerNames::new(address, false, access.hosts.clone());
        let checked = access.check(&names, &mut head);
        checked.map_err(|refusal| refusal.status)?;
        Ok(head.extensions.get::<Principal>().cloned().expect("noted"))
    }

    fn open() -> HttpAccess {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        HttpAccess::new(address, None, vec!["proxy.example".into()]).expect("loopback")
    }

    #[test]
    fn a_request_for_another_host_or_from_a_page_of_another_origin_is_refused() {
        let local = Ok(Principal::local());
        assert_eq!(check(&open(), &[(HOST, "localhost:7465")]), local);
        assert_eq!(check(&open(), &[(HOST, "proxy.example:443")]), local);
        assert_eq!(check(&open(), &[(HOST, "evil.example:7465")]), Err(421));
        assert_eq!(check(&open(), &[]), Err(421));
        let from = |origin| check(&open(), &[(HOST, "localhost:7465"), (ORIGIN, origin)]);
        assert_eq!(from("http://localhost:7465"), local);
        assert_eq!(from("http://evil.example"), Err(403));
    }

    #[test]
    fn an_address_that_others_can_reach_needs_a_token() {
        let address = SocketAddr::from(([0, 0, 0, 0], 7465));
        assert!(HttpAccess::new(address, None, Vec::new()).is_err());
        let access = HttpAccess::new(address, Some("secret".into()), Vec::new()).expect("a token");
        let with = |value| check(&access, &[(HOST, "localhost:7465"), (AUTHORIZATION, value)]);
        assert_eq!(with("Bearer secret"), Ok(Principal::of_token("http")));
        assert_eq!(with("bearer secret"), Ok(Principal::of_token("http")));
        for wrong in ["Bearer", "Bearer Secret", "Basic secret", "secret", ""] {
            assert_eq!(with(wrong), Err(401), "{wrong}");
        }
        assert_eq!(check(&access, &[(HOST, "localhost:7465")]), Err(401));
    }
}
