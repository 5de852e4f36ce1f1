//! The HTTP client for guests. Performs one exchange, from connecting to the last byte. The
//! exchange is limited in time and size, goes only where the grants allow, including every
//! redirect, and connects to exactly the addresses that were checked (`connections`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use strata_base::text::error_causes::{error_with_causes, find_cause};
use strata_core::record::fault::FaultCause;
use strata_core::record::host_call::Grant;

use super::connections::{
    CONNECTION, ConnectionProgress, ConnectionUse, Connections, ForbiddenAddress, HostLookup,
    HttpClientError,
};
use super::secrets::{self, Secrets};
use super::{
    DEFAULT_TIMEOUT_MS, Header, HttpRequest, HttpResponse, KEY_HEADER, MAX_BODY_BYTES,
    MAX_HEADERS_BYTES, MAX_TIMEOUT_MS, MAX_URL_BYTES, address,
};
use crate::gateway::{Allowance, HostError, HostErrorKind, ITEM_BYTES};
use crate::plugin::http::header::normalize;
use crate::plugin::http::{
    GrantedParts, HttpGrant, authority, check_grants, display_url, secrets_for,
};

/// The maximum number of redirects. Browsers follow about twenty, and services need one or two.
const MAX_REDIRECTS: usize = 5;
/// Headers that authenticate the sender. They are not sent to another host after a redirect.
const CREDENTIAL_HEADERS: [&str; 4] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
];

/// The HTTP client.
pub struct HttpClient {
    connections: Connections,
    secrets: Secrets,
}

/// A failed exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedExchange {
    /// The error that the guest receives.
    pub error: HostError,
    /// Whether the request was sent.
    pub sent: RequestSent,
}

/// Whether a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSent {
    /// It was not sent.
    No,
    /// It may have been sent and may have taken effect.
    Perhaps,
}

/// A request to the original address or to the target of a redirect.
struct HttpHop<'a> {
    request: &'a HttpRequest,
    url: Url,
    /// Whether the origin is still that of the original request. Secrets are sent to no other.
    is_same_origin: bool,
}

impl HttpClient {
    /// Creates a client that can insert these secrets.
    pub fn new(secrets: Secrets) -> Result<Self, HttpClientError> {
        let lookup: HostLookup = Arc::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        });
        Self::with_lookup(secrets, lookup)
    }

    /// Creates a client that resolves names with `lookup`.
    pub fn with_lookup(secrets: Secrets, lookup: HostLookup) -> Result<Self, HttpClientError> {
        Ok(Self {
            connections: Connections::new(lookup)?,
            secrets,
        })
    }

    /// Returns the value of a secret.
    pub(crate) fn secret(&self, name: &str) -> Option<&str> {
        self.secrets.value(name)
    }

    /// Returns a text in which the values of these secrets are replaced.
    pub(crate) fn redact(&self, text: &str, names: &[String]) -> String {
        self.secrets.redact(text, &names.iter().cloned().collect())
    }

    /// Sends a request to a server that the team file names, and returns the response before its body is
    /// read. No redirect is followed, and it takes as long as it takes.
    pub(crate) async fn open(
        &self,
        request: &HttpRequest,
    ) -> Result<reqwest::Response, FailedExchange> {
        let hop = HttpHop {
            request,
            url: request.url.clone(),
            is_same_origin: true,
        };
        let connection = Arc::new(ConnectionProgress::default());
        let sending = CONNECTION.scope(connection.clone(), self.send(&hop, ""));
        let known = request.secrets.iter().cloned().collect();
        sending.await.map_err(|failed| {
            let failed = if connection.is_done() {
                failed
            } else {
                FailedExchange {
                    sent: RequestSent::No,
                    ..failed
                }
            };
            self.describe_failure(request, &known, failed)
        })
    }

    /// Performs one exchange. `key` is the idempotency key for a write that has none of its own.
    /// The size of the response is limited by `allowance`.
    pub async fn fetch(
        &self,
        request: &HttpRequest,
        grants: &[HttpGrant],
        key: &str,
        allowance: &Allowance,
    ) -> Result<HttpResponse, FailedExchange> {
        let limit = Duration::from_millis(
            request
                .timeout_ms
                .unwrap_or(DEFAULT_TIMEOUT_MS)
                .clamp(1, MAX_TIMEOUT_MS)
                .into(),
        );
        let connection = Arc::new(ConnectionProgress::default());
        let late = |_| {
            // A write needs a connection of its own.
            let waits_for_connection =
                connection.is_begun() || request.is_write() && !connection.is_done();
            let (what, sent) = if waits_for_connection {
                ("connection", RequestSent::No)
            } else {
                ("whole answer", RequestSent::Perhaps)
            };
            FailedExchange {
                sent,
                ..exchange_failure(
                    HostErrorKind::Upstream,
                    format!("there was no {what} within {limit:?}"),
                )
            }
        };
        // Only these secrets are replaced in the response. Replacing others would reveal their
        // values.
        let mut known: BTreeSet<String> = request.secrets.iter().cloned().collect();
        let exchange = async {
            let response = self.follow(request, grants, key, &mut known).await?;
            self.read_response(response, &known, allowance).await
        };
        let exchange = CONNECTION.scope(connection.clone(), exchange);
        let exchange = tokio::time::timeout(limit, exchange).await;
        exchange
            .unwrap_or_else(|elapsed| Err(late(elapsed)))
            .map_err(|failed| self.describe_failure(request, &known, failed))
    }

    /// Adds the request to the message of a failure and removes secrets from it.
    fn describe_failure(
        &self,
        request: &HttpRequest,
        known: &BTreeSet<String>,
        failed: FailedExchange,
    ) -> FailedExchange {
        let message = format!("`{}` failed: {}", request.describe(), failed.error.message);
        let sent = if request.is_write() {
            failed.sent
        } else {
            RequestSent::No
        };
        FailedExchange {
            error: HostError {
                message: self.secrets.redact(&message, known),
                ..failed.error
            },
            sent,
        }
    }

    /// Sends a request and, for reads, follows redirects. Adds to `known` the secrets that each
    /// host may receive.
    async fn follow(
        &self,
        request: &HttpRequest,
        grants: &[HttpGrant],
        key: &str,
        known: &mut BTreeSet<String>,
    ) -> Result<reqwest::Response, FailedExchange> {
        let mut hop = HttpHop {
            request,
            url: request.url.clone(),
            is_same_origin: true,
        };
        let headers: Vec<&str> = request
            .headers
            .iter()
            .map(|header| header.name.as_str())
            .collect();
        for _ in 0..=MAX_REDIRECTS {
            let secrets: &[String] = if hop.is_same_origin {
                &request.secrets
            } else {
                &[]
            };
            check_grants(
                grants,
                &request.method,
                &hop.url,
                GrantedParts {
                    secrets,
                    headers: &headers,
                },
            )
            .map_err(|refusal| {
                if hop.url == request.url {
                    exchange_failure(HostErrorKind::Denied, refusal.to_string())
                } else {
                    exchange_failure(HostErrorKind::Denied, format!("redirected: {refusal}"))
                }
            })?;
            known.extend(secrets_for(grants, &hop.url).cloned());
            let response = self.send(&hop, key).await?;
            match redirect_target(&hop, &response)? {
                Some(next) => hop = next,
                None => return Ok(response),
            }
        }
        Err(exchange_failure(
            HostErrorKind::Upstream,
            format!("redirected more than {MAX_REDIRECTS} times"),
        ))
    }

    /// Sends a request. A read may be sent over a connection that is kept; if the server has closed
    /// that, the read is sent again over a new one.
    async fn send(
        &self,
        hop: &HttpHop<'_>,
        key: &str,
    ) -> Result<reqwest::Response, FailedExchange> {
        let failed = |error: reqwest::Error| connection_failure(&error.without_url());
        CONNECTION.with(|connection| connection.reset());
        if !hop.request.is_write() {
            let sent = self.request(hop, key, ConnectionUse::Kept)?.send().await;
            let is_new = CONNECTION.with(|connection| connection.is_done());
            match sent {
                Err(error) if !is_new && !error.is_connect() => {
                    let error = error.without_url();
                    tracing::debug!("a connection that was kept is not usable: {error}");
                }
                sent => return sent.map_err(failed),
            }
        }
        let request = self.request(hop, key, ConnectionUse::New)?;
        request.send().await.map_err(failed)
    }

    /// Builds a request.
    fn request(
        &self,
        hop: &HttpHop<'_>,
        key: &str,
        reuse: ConnectionUse,
    ) -> Result<reqwest::RequestBuilder, FailedExchange> {
        let request = hop.request;
        let method = Method::from_bytes(request.method.as_bytes())
            .map_err(|_| exchange_failure(HostErrorKind::Invalid, "there is no such method"))?;
        let client = self.connections.client(&hop.url, reuse).map_err(|error| {
            exchange_failure(
                HostErrorKind::Upstream,
                format!("cannot set up TLS: {error}"),
            )
        })?;
        let mut built = client
            .request(method, self.url_with_secrets(hop)?)
            .headers(self.headers(hop)?);
        let key = request.key.as_deref().unwrap_or(key);
        if request.is_write() && !key.is_empty() {
            let key = HeaderValue::from_str(key).map_err(|_| {
                exchange_failure(
                    HostErrorKind::Invalid,
                    "the idempotency key is no value of a header",
                )
            })?;
            built = built.header(KEY_HEADER, key);
        }
        if let Some(body) = &request.body {
            let names: &[String] = if hop.is_same_origin {
                &request.secrets
            } else {
                &[]
            };
            let filled = self.secrets.fill_bytes(body, names, MAX_BODY_BYTES);
            built = built.body(filled.ok_or_else(|| too_long_failure("body is", MAX_BODY_BYTES))?);
        }
        Ok(built)
    }

    /// Returns the address with its secrets inserted. No secrets are inserted into the target of a
    /// redirect, because a server could then obtain any of them.
    fn url_with_secrets(&self, hop: &HttpHop<'_>) -> Result<Url, FailedExchange> {
        let mut url = hop.url.clone();
        if hop.request.secrets.is_empty() || !hop.is_same_origin {
            return Ok(url);
        }
        if url.scheme() == "http" && !is_literal(&url) {
            let message =
                "secrets are sent over https only, or to an address that is granted literally";
            return Err(exchange_failure(HostErrorKind::Denied, message));
        }
        if hop.url == hop.request.url {
            let too_long = || too_long_failure("address is", MAX_URL_BYTES);
            if let Some(query) = url.query() {
                let filled = self
                    .secrets
                    .fill_encoded(query, &hop.request.secrets, MAX_URL_BYTES);
                url.set_query(Some(&filled.ok_or_else(too_long)?));
            }
            if url.as_str().len() > MAX_URL_BYTES {
                return Err(too_long());
            }
        }
        Ok(url)
    }

    fn headers(&self, hop: &HttpHop<'_>) -> Result<HeaderMap, FailedExchange> {
        let (mut headers, mut length) = (HeaderMap::new(), 0);
        for Header { name, value } in &hop.request.headers {
            let secret = secrets::contains_placeholder(value.as_bytes(), &hop.request.secrets);
            let is_credential = CREDENTIAL_HEADERS.contains(&normalize(name).as_str());
            if !hop.is_same_origin && (secret || is_credential) {
                continue;
            }
            let invalid = |what: &str| {
                exchange_failure(HostErrorKind::Invalid, format!("`{name}` cannot be {what}"))
            };
            let key =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("a header's name"))?;
            length += name.len();
            let room = MAX_HEADERS_BYTES.checked_sub(length);
            let filled = room.and_then(|room| self.secrets.fill(value, &hop.request.secrets, room));
            let filled =
                filled.ok_or_else(|| too_long_failure("headers are", MAX_HEADERS_BYTES))?;
            length += filled.len();
            let mut filled =
                HeaderValue::from_str(&filled).map_err(|_| invalid("sent with this value"))?;
            filled.set_sensitive(secret);
            headers.append(key, filled);
        }
        Ok(headers)
    }

    /// Reads the response, as far as the limits allow.
    async fn read_response(
        &self,
        mut response: reqwest::Response,
        known: &BTreeSet<String>,
        allowance: &Allowance,
    ) -> Result<HttpResponse, FailedExchange> {
        let allowed = |bytes| {
            allowance.take(bytes).map_err(|error| FailedExchange {
                error,
                sent: RequestSent::Perhaps,
            })
        };
        let large = |what: &str, limit: usize| {
            let message = format!("the response's {what} are larger than {} KiB", limit >> 10);
            FailedExchange {
                sent: RequestSent::Perhaps,
                ..exchange_failure(HostErrorKind::Upstream, message)
            }
        };
        let length: usize = response
            .headers()
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        if length > MAX_HEADERS_BYTES {
            return Err(large("headers", MAX_HEADERS_BYTES));
        }
        allowed(length + response.headers().len() * ITEM_BYTES)?;
        let header = |(name, value): (&HeaderName, &HeaderValue)| Header {
            name: name.as_str().to_owned(),
            value: self
                .secrets
                .redact(&String::from_utf8_lossy(value.as_bytes()), known),
        };
        // A name cannot contain the replacement text, so a header whose name contains a secret is
        // omitted.
        let clean = |(name, _): &(&HeaderName, &HeaderValue)| {
            !self.secrets.is_in_header_name(name.as_str(), known)
        };
        let headers = response
            .headers()
            .iter()
            .filter(clean)
            .map(header)
            .collect();
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| connection_failure(&error.without_url()))?
        {
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(large("contents", MAX_BODY_BYTES));
            }
            allowed(chunk.len())?;
            body.extend_from_slice(&chunk);
        }
        let hidden = self.secrets.redact_bytes(&body, known);
        // The replacement may be longer than the secret.
        allowed(hidden.len().saturating_sub(body.len()))?;
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers,
            body: hidden,
        })
    }
}

/// Returns the target of a redirect, if the response to a read is one. The guest handles all other
/// responses, including redirects of writes.
fn redirect_target<'a>(
    hop: &HttpHop<'a>,
    response: &reqwest::Response,
) -> Result<Option<HttpHop<'a>>, FailedExchange> {
    let request = hop.request;
    let location = response
        .headers()
        .get("location")
        .and_then(|location| location.to_str().ok());
    let (Some(location), 301 | 302 | 303 | 307 | 308, false) =
        (location, response.status().as_u16(), request.is_write())
    else {
        return Ok(None);
    };
    let denied = |why: String| exchange_failure(HostErrorKind::Denied, format!("redirected {why}"));
    let mut url = hop
        .url
        .join(location)
        .map_err(|_| denied("to what is no address".into()))?;
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https")
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(denied(format!(
            "to an address of the scheme `{}` or with credentials",
            url.scheme()
        )));
    }
    if hop.url.scheme() == "https" && url.scheme() == "http" {
        return Err(denied(format!("from https to `{}`", display_url(&url))));
    }
    let home = hop.is_same_origin && url.origin() == request.url.origin();
    if !home
        && request
            .body
            .as_ref()
            .is_some_and(|body| secrets::contains_placeholder(body, &request.secrets))
    {
        return Err(denied(format!(
            "to `{}`, where the secret in the request's body must not go",
            authority(&url)
        )));
    }
    Ok(Some(HttpHop {
        request,
        url,
        is_same_origin: home,
    }))
}

/// Returns whether the host is an IP address or this machine. Such a host is reachable only if it
/// was granted literally.
fn is_literal(url: &Url) -> bool {
    !matches!(url.host(), Some(url::Host::Domain(name)) if name != address::LOCALHOST)
}

fn exchange_failure(kind: HostErrorKind, message: impl Into<String>) -> FailedExchange {
    let error = HostError::new(kind, message);
    let error = match kind {
        HostErrorKind::Denied => error.caused_by(FaultCause::NotGranted(Grant::Http)),
        _ => error,
    };
    FailedExchange {
        error,
        sent: RequestSent::No,
    }
}

/// Returns the failure for a request that exceeds a limit once its secrets are inserted.
fn too_long_failure(what: &str, limit: usize) -> FailedExchange {
    let message = format!(
        "with the secrets in it, its {what} larger than {} KiB",
        limit >> 10
    );
    exchange_failure(HostErrorKind::Invalid, message)
}

/// Returns the failure for a connection error.
fn connection_failure(error: &reqwest::Error) -> FailedExchange {
    if let Some(forbidden) = find_cause::<ForbiddenAddress>(error) {
        return exchange_failure(HostErrorKind::Denied, forbidden.to_string());
    }
    let sent = if error.is_connect() || error.is_builder() {
        RequestSent::No
    } else {
        RequestSent::Perhaps
    };
    FailedExchange {
        sent,
        ..exchange_failure(HostErrorKind::Upstream, error_with_causes(error))
    }
}
