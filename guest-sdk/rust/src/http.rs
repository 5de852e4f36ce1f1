//! HTTP and HTTPS requests, as far as `allow.http` grants them. Responses are recorded: a repeated
//! attempt gets the recorded ones.
//!
//! ```
//! # use strata_action::{http, secrets, Failure};
//! # strata_action::testing::Host::new().secret("TOKEN").response(200, "{\"id\":7}").within(|| -> Result<(), Failure> {
//! let response = http::Request::post("https://api.example.com/v1/orders")
//!     .bearer(&secrets::named("TOKEN")?)
//!     .json(&["tea"])?
//!     .idempotency_key("run/0/Buyer/0")
//!     .send()?;
//! assert!(response.is_success());
//! # Ok(()) }).unwrap();
//! ```
//!
//! A request other than `GET` and `HEAD` is a write. If its response is lost (the host was killed,
//! or the connection broke), it is repeated only if it has an idempotency key; otherwise the run
//! stops until the operator has decided what to do.

use crate::failure::invalid;
use crate::secrets::Secret;
use crate::{Failure, HostError, host, json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

pub use crate::bindings::strata::action::http::{Header, Request, Response};

/// Makes a `GET` request.
///
/// # Errors
/// Fails if it is not granted or there is no response. A response with any status is a success.
pub fn get(url: impl Into<String>) -> Result<Response, HostError> {
    Request::get(url).send()
}

/// Makes several requests concurrently. The results are in the order of the requests.
pub fn fetch_many(requests: &[Request]) -> Vec<Result<Response, HostError>> {
    host::http::fetch_many(requests)
}

impl Request {
    /// Creates a request. The method must be in upper case.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            secrets: Vec::new(),
            timeout_ms: None,
            idempotency_key: None,
        }
    }

    /// Creates a `GET` request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Creates a `POST` request.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(Header {
            name: name.into(),
            value: value.into(),
        });
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets a JSON body, and its `content-type`, unless the request has one.
    ///
    /// # Errors
    /// Fails if the value cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, HostError> {
        let text = json::write("the body of a request", value).map_err(invalid)?;
        let has_type = self
            .headers
            .iter()
            .any(|header| header.name.eq_ignore_ascii_case("content-type"));
        Ok(if has_type {
            self
        } else {
            self.header("content-type", "application/json")
        }
        .body(text))
    }

    /// Lets the host replace the placeholder of this secret in headers, the query of the URL, and
    /// the body.
    #[must_use]
    pub fn secret(mut self, secret: &Secret) -> Self {
        let name = secret.name().to_owned();
        if !self.secrets.contains(&name) {
            self.secrets.push(name);
        }
        self
    }

    /// Sends a secret as bearer token.
    #[must_use]
    pub fn bearer(self, secret: &Secret) -> Self {
        self.secret(secret)
            .header("authorization", format!("Bearer {secret}"))
    }

    /// Sets the largest duration of the request.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout_ms = Some(u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Sets a key by which the service recognises a repetition of this request, so that it can be
    /// repeated. Derive it from the attempt's key.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Makes the request.
    ///
    /// # Errors
    /// Fails if it is not granted or there is no response. A response with any status is a success.
    pub fn send(&self) -> Result<Response, HostError> {
        host::http::fetch(self)
    }
}

impl Response {
    /// Returns whether the status is between 200 and 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns whether the operator decided to skip the request, which was a write in doubt.
    pub fn is_skipped(&self) -> bool {
        self.status == 0
    }

    /// Returns the first header with this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))?;
        Some(&header.value)
    }

    /// Returns the body as text. Invalid UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Fails if the body is not a `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        json::parse("the body of a response", &self.text())
    }
}
