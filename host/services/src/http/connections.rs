//! The connections of the HTTP client. They are made to exactly the addresses that a name was checked
//! to have, which depend on the name alone. So a connection that was made for one request may carry
//! another to the same name and port, whoever makes it.
//!
//! A connection that becomes idle is kept for a while, and used for reads only: if the server had
//! closed it, it would be unclear whether a write was sent. Proxies of the environment are not used,
//! because the addresses behind a proxy cannot be checked.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, ClientBuilder, Url};
use strata_base::text::error_causes::error_with_causes;
use tower::Service;

use super::address;
use crate::client;

/// The maximum time for connecting. An available server accepts within a few round trips.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept. Servers close theirs after five seconds or more.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// How many idle connections to one server are kept: as many as a team uses at once by default.
const MAX_IDLE_PER_SERVER: usize = 8;

tokio::task_local! {
    /// The connection of the current exchange.
    pub(super) static CONNECTION: Arc<ConnectionProgress>;
}

/// A function that resolves a host name.
pub type HostLookup =
    Arc<dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The HTTP client cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the client for http: {0}")]
pub struct HttpClientError(String);

/// Which connections a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionUse {
    /// A new one.
    New,
    /// An idle one, or else a new one, which is kept afterwards.
    Kept,
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionSecurity {
    /// They are not, and no root certificates are needed.
    Plain,
    Tls,
}

/// How far the connection for a request is. A request that uses an idle connection needs none.
#[derive(Debug, Default)]
pub(super) struct ConnectionProgress(AtomicU8);

impl ConnectionProgress {
    const NOT_NEEDED: u8 = 0;
    const BEGUN: u8 = 1;
    const DONE: u8 = 2;

    /// Prepares for another request.
    pub(super) fn reset(&self) {
        self.0.store(Self::NOT_NEEDED, Ordering::Relaxed);
    }

    /// Returns whether a new connection was established, including TLS. Nothing of a request that needs
    /// one is sent before that.
    pub(super) fn is_done(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::DONE
    }

    /// Returns whether it was begun to establish a connection, and it is not established yet.
    pub(super) fn is_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::BEGUN
    }

    /// Notes the progress of the current exchange. A connection that is established for a request which
    /// meanwhile uses another one belongs to no exchange.
    fn note(progress: u8) {
        let _ = CONNECTION.try_with(|connection| connection.0.store(progress, Ordering::Relaxed));
    }
}

/// The connections.
pub(super) struct Connections {
    new: Clients,
    kept: Clients,
    resolver: Arc<CheckedResolver>,
}

/// The clients that make a kind of connections, each created when it is first needed. So a machine
/// without root certificates can still reach its own servers.
#[derive(Default)]
struct Clients {
    plain: OnceLock<Result<Client, String>>,
    /// For TLS.
    secure: OnceLock<Result<Client, String>>,
}

impl Connections {
    /// Returns connections to names that are resolved with `lookup`.
    pub(super) fn new(lookup: HostLookup) -> Result<Self, HttpClientError> {
        let connections = Self {
            new: Clients::default(),
            kept: Clients::default(),
            resolver: Arc::new(CheckedResolver { lookup }),
        };
        // If this machine cannot make any, that is an error now.
        connections
            .client_with(ConnectionUse::New, ConnectionSecurity::Plain)
            .map_err(HttpClientError)?;
        Ok(connections)
    }

    /// Returns the client for a request to this address. Fails if it needs TLS, and that cannot be set
    /// up on this machine.
    pub(super) fn client(&self, url: &Url, reuse: ConnectionUse) -> Result<&Client, String> {
        let security = match url.scheme() {
            "http" => ConnectionSecurity::Plain,
            _ => ConnectionSecurity::Tls,
        };
        self.client_with(reuse, security)
    }

    fn client_with(
        &self,
        reuse: ConnectionUse,
        security: ConnectionSecurity,
    ) -> Result<&Client, String> {
        let clients = match reuse {
            ConnectionUse::New => &self.new,
            ConnectionUse::Kept => &self.kept,
        };
        let client = match security {
            ConnectionSecurity::Plain => &clients.plain,
            ConnectionSecurity::Tls => &clients.secure,
        };
        let build = || {
            let builder = self.builder(reuse);
            let builder = match security {
                ConnectionSecurity::Plain => builder.tls_certs_only([]),
                ConnectionSecurity::Tls => builder,
            };
            builder.build().map_err(|error| error_with_causes(&error))
        };
        client.get_or_init(build).as_ref().map_err(String::clone)
    }

    fn builder(&self, reuse: ConnectionUse) -> ClientBuilder {
        let idle = match reuse {
            ConnectionUse::New => 0,
            ConnectionUse::Kept => MAX_IDLE_PER_SERVER,
        };
        client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .connector_layer(tower::layer::layer_fn(ObservedConnector))
            .no_proxy()
            .pool_max_idle_per_host(idle)
            .pool_idle_timeout(MAX_IDLE)
            .dns_resolver(Arc::clone(&self.resolver))
    }
}

/// Notes the progress of connections.
#[derive(Clone)]
struct ObservedConnector<S>(S);

impl<R, S: Service<R>> Service<R> for ObservedConnector<S>
where
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        ConnectionProgress::note(ConnectionProgress::BEGUN);
        let connecting = self.0.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            ConnectionProgress::note(ConnectionProgress::DONE);
            Ok(connection)
        })
    }
}

/// Resolves names and withholds addresses that are not allowed. The client connects to exactly the
/// addresses that are returned.
struct CheckedResolver {
    lookup: HostLookup,
}

/// The error for a name that resolves only to addresses that are not allowed. It does not contain
/// them: otherwise a guest could map a private network.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{name}` is not at a public address; if that is meant, use the address itself and grant it"
)]
pub(super) struct ForbiddenAddress {
    name: String,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let found = (self.lookup)(name.clone());
        Box::pin(async move {
            let (allowed, forbidden) = found
                .await?
                .into_iter()
                .partition::<Vec<IpAddr>, _>(|address| address::is_allowed(&name, *address));
            match forbidden.first() {
                Some(address) if allowed.is_empty() => {
                    tracing::warn!(
                        "`{name}` is at the address {address}, which is not public: it is not connected to"
                    );
                    Err(ForbiddenAddress { name }.into())
                }
                _ => {
                    let addresses: Addrs = Box::new(
                        allowed
                            .into_iter()
                            .map(|address| SocketAddr::new(address, 0)),
                    );
                    Ok(addresses)
                }
            }
        })
    }
}
