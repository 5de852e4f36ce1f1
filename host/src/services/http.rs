//! HTTP: the vocabulary, and the client behind it.
//!
//! What is granted is decided in `plugin::http`; which addresses a name may stand for in `address`; the exchange itself
//! is in `client`, what secrets do on the way in `secret`, the form of a record in `record`. How secrets are found again
//! is in `services::trace`; whether an exchange is replayed is the driver's.

mod address;
mod client;
mod record;
pub mod secret;

pub use client::{Failed, Http, HttpError, Lookup, Sent};
pub use record::operators;

use reqwest::Url;

/// The largest body that is sent or taken. A record of an exchange holds the response whole, and a run holds its
/// records in memory.
pub const BODY_BYTES: usize = 8 << 20;
/// All headers of a request or a response together: more than servers take.
pub const HEADERS_BYTES: usize = 64 << 10;
/// The longest address; servers take less.
pub const URL_BYTES: usize = 8 << 10;
/// How long an exchange may take where the request says nothing.
pub const TIMEOUT_MS: u32 = 30_000;
/// How long it may take at most.
pub const MAX_TIMEOUT_MS: u32 = 600_000;
/// The header by which servers know a repeated request.
pub const KEY_HEADER: &str = "idempotency-key";

/// A header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The name, in lower case.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method, in upper case.
    pub method: String,
    /// The address.
    pub url: Url,
    /// The headers, without that of the key.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Option<Vec<u8>>,
    /// Secrets to put in, by name.
    pub secrets: Vec<String>,
    /// By what the other side knows a repetition.
    pub key: Option<String>,
    /// How long the exchange may take.
    pub timeout_ms: Option<u32>,
}

impl Request {
    /// Whether it may change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }

    /// What it is, for people: without query, headers and body.
    pub fn told(&self) -> String {
        format!("{} {}", self.method, crate::plugin::http::shown(&self.url))
    }
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status; 0 for a write that the operator chose to skip.
    pub status: u16,
    /// The headers.
    pub headers: Vec<Header>,
    /// The body.
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests;
