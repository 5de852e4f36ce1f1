//! HTTP: the types of requests and responses, and the client that guests use.
//!
//! `plugin::http` decides what is granted. Here, `address` decides which IP addresses a name may
//! resolve to, `connections` makes and keeps connections, `client` performs exchanges, `secrets` inserts and removes secrets, and `record`
//! defines the format of records. `services::redaction` finds secrets in responses. The driver decides
//! whether an exchange is replayed.

mod address;

pub use self::address::{is_private, is_public};
mod client;
mod connections;
mod outbound;
mod record;
pub mod secrets;

pub use client::{FailedExchange, HttpClient, RequestSent};
pub use connections::{HostLookup, HttpClientError};
pub use record::parse_operator_response;

use reqwest::Url;

/// The maximum size of a body in bytes, in both directions. A record of an exchange contains the
/// whole response, and a run keeps its records in memory.
pub const MAX_BODY_BYTES: usize = 8 << 20;
/// The maximum size of all headers of a request or a response in bytes. It is more than servers
/// accept.
pub const MAX_HEADERS_BYTES: usize = 64 << 10;
/// The maximum length of an address in bytes. Servers accept less.
pub const MAX_URL_BYTES: usize = 8 << 10;
/// The timeout of an exchange in milliseconds if the request sets none.
pub const DEFAULT_TIMEOUT_MS: u32 = 30_000;
/// The maximum timeout of an exchange in milliseconds.
pub const MAX_TIMEOUT_MS: u32 = 600_000;
/// The header by which servers recognize a repeated request.
pub const KEY_HEADER: &str = "idempotency-key";

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A request of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method, in upper case.
    pub method: String,
    /// The address.
    pub url: Url,
    /// The headers, without the idempotency key.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// The names of the secrets to insert.
    pub secrets: Vec<String>,
    /// The idempotency key.
    pub key: Option<String>,
    /// The timeout of the exchange in milliseconds.
    pub timeout_ms: Option<u32>,
}

impl HttpRequest {
    /// Returns whether the request may change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// Describes the request for display: its method and its address without the query.
    pub fn describe(&self) -> String {
        format!(
            "{} {}",
            self.method,
            crate::plugin::http::display_url(&self.url)
        )
    }
}

/// Requests that a guest makes at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpBatch(pub Vec<HttpRequest>);

/// The response to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status. It is 0 for a write that the operator chose to skip.
    pub status: u16,
    /// The headers.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests;
