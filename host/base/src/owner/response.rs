//! Responses: they are not cached, and errors are described as RFC 9457 defines.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// The media type of what is sent to the owner of a run, and of its replies.
pub(super) const JSON: &str = "application/json";
/// The media type of an error.
const PROBLEM_JSON: &str = "application/problem+json";
/// The type of an error of which the status says everything.
const STATUS_ONLY: &str = "about:blank";

/// Returns a response that is not cached, since it is out of date soon.
pub(super) fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, body).into_response()
}

/// An error, as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Problem {
    /// A URI that identifies the kind of error.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of error in words.
    pub title: String,
    /// The status of the response.
    pub status: u16,
    /// What is wrong in this case.
    pub detail: String,
}

impl Problem {
    /// Returns the error of a kind of its own.
    pub(super) fn new(
        kind: &str,
        title: &str,
        status: StatusCode,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
        }
    }

    /// Returns the error that has a status of HTTP as its kind.
    pub(super) fn of_status(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        Self::new(STATUS_ONLY, title, status, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_string(&self).unwrap_or_default();
        respond(status, PROBLEM_JSON, body)
    }
}
