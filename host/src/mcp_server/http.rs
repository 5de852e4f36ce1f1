//! Clients over HTTP: who may connect, and the sessions of clients that speak older revisions.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::stream::Stream;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use strata_base::files::sha256::sha256;
use strata_base::owner::{GuardedService, HttpGuard, HttpRefusal, ServiceServer};
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use super::{Offer, Principal};

/// The path at which the server is.
const PATH: &str = "/mcp";
/// The maximum size of a request, in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// How many sessions of clients with older revisions there may be. Each has tasks of its own, for five
/// minutes after its last request.
const MAX_SESSIONS: usize = 256;

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

    /// Checks the head of a request to a server that listens on `address`, and notes who sent it.
    fn check(&self, address: SocketAddr, head: &mut Parts) -> Result<(), HttpRefusal> {
        let host = header(&head.headers, &HOST).unwrap_or_default().to_owned();
        if !self.is_own_host(&host, address) {
            return Err(refuse(421, "the request is addressed to another host"));
        }
        // A page of another site must not use the browser of somebody who may.
        if let Some(origin) = header(&head.headers, &ORIGIN) {
            let own = [format!("http://{host}"), format!("https://{host}")];
            if !own.iter().any(|own| own.eq_ignore_ascii_case(origin)) {
                return Err(refuse(
                    403,
                    "the request comes from a page of another origin",
                ));
            }
        } else if head.headers.contains_key(ORIGIN) {
            return Err(refuse(
                403,
                "the request comes from a page of another origin",
            ));
        }
        let principal = match &self.token {
            None => Principal::local(),
            Some(expected) => {
                let given = header(&head.headers, &AUTHORIZATION).and_then(bearer_token);
                // Digests are compared, so the time of the comparison says nothing about the token.
                if given.map(sha256) != Some(*expected) {
                    return Err(refuse(401, "the request does not bear the token"));
                }
                Principal::of_token("http")
            }
        };
        head.extensions.insert(principal);
        Ok(())
    }

    /// Returns whether a `Host` is one of this server's.
    fn is_own_host(&self, host: &str, address: SocketAddr) -> bool {
        if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return true;
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        if self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return true;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_this_machine = name.eq_ignore_ascii_case("localhost")
            || bare.parse().is_ok_and(|ip: IpAddr| {
                ip.is_loopback() || (ip == address.ip() && !ip.is_unspecified())
            });
        is_this_machine && port == Some(address.port())
    }
}

fn refuse(status: u16, detail: &str) -> HttpRefusal {
    HttpRefusal {
        status,
        detail: detail.to_owned(),
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
    let streams = CancellationToken::new();
    // What it lacks is checked before: `Host`, `Origin` and the token.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_REQUEST_BYTES)
        .with_cancellation_token(streams.clone());
    // Copies share the limit of calls.
    let handler = Handler::new(offer.clone(), None);
    let service = StreamableHttpService::new(
        move || Ok(handler.clone()),
        Arc::new(BoundedSessions::default()),
        config,
    );
    let serve = |bound: SocketAddr| {
        let guard: HttpGuard = Arc::new(move |head: &mut Parts| access.check(bound, head));
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

/// The sessions of clients with older revisions, up to a maximum number.
#[derive(Default)]
struct BoundedSessions(LocalSessionManager);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
enum SessionProblem {
    #[error(
        "there are {MAX_SESSIONS} sessions, and no more are opened; close one, or try again later"
    )]
    TooMany,
    #[error(transparent)]
    Session(#[from] LocalSessionManagerError),
}

impl SessionManager for BoundedSessions {
    type Error = SessionProblem;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionProblem> {
        if self.0.sessions.read().await.len() >= MAX_SESSIONS {
            return Err(SessionProblem::TooMany);
        }
        Ok(self.0.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionProblem> {
        Ok(self.0.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionProblem> {
        Ok(self.0.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionProblem> {
        Ok(self.0.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.0.create_stream(id, message).await?)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionProblem> {
        Ok(self.0.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.0.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionProblem> {
        Ok(self.0.resume(id, last_event_id).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(access: &HttpAccess, headers: &[(HeaderName, &str)]) -> Result<Principal, u16> {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            let value = value.parse().expect("a value");
            request.headers_mut().append(name, value);
        }
        let (mut head, ()) = request.into_parts();
        let address = SocketAddr::from(([127, 0, 0, 1], 7465));
        let checked = access.check(address, &mut head);
        checked.map_err(|refusal| refusal.status)?;
        Ok(head.extensions.get::<Principal>().cloned().expect("noted"))
    }

    fn open() -> HttpAccess {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        HttpAccess::new(address, None, vec!["proxy.example".into()]).expect("loopback")
    }

    #[test]
    fn a_request_is_addressed_to_this_server() {
        for own in [
            "localhost:7465",
            "127.0.0.1:7465",
            "[::1]:7465",
            "proxy.example",
            "proxy.example:443",
        ] {
            assert_eq!(
                check(&open(), &[(HOST, own)]),
                Ok(Principal::local()),
                "{own}"
            );
        }
        for other in [
            "",
            "localhost",
            "localhost:80",
            "evil.example:7465",
            "127.0.0.1.evil.example:7465",
            "10.0.0.1:7465",
        ] {
            assert_eq!(check(&open(), &[(HOST, other)]), Err(421), "{other}");
        }
        assert_eq!(check(&open(), &[]), Err(421));
        let twice = [(HOST, "localhost:7465"), (HOST, "evil.example")];
        assert_eq!(check(&open(), &twice), Err(421));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let from = |origin| check(&open(), &[(HOST, "localhost:7465"), (ORIGIN, origin)]);
        assert_eq!(from("http://localhost:7465"), Ok(Principal::local()));
        for other in [
            "http://evil.example",
            "null",
            "http://localhost:80",
            "http://localhost",
        ] {
            assert_eq!(from(other), Err(403), "{other}");
        }
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
