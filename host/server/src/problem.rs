//! Errors, as problem documents (RFC 9457). Which status an error of the library has is decided here, by its kind and
//! never by its text.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use strata_host::driver::{AnswerError, DriverError};
use strata_host::launch::LaunchError;
use strata_host::owner::NotForServer;
use strata_host::storage::StoreError;

/// The media type of a problem document.
const PROBLEM_JSON: &str = "application/problem+json";
/// What the types of problems begin with.
const TYPE_PREFIX: &str = "urn:strata-host:";

/// A field of a document that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// Where it is (RFC 6901).
    pub pointer: String,
    /// What is wrong with it.
    pub detail: String,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    /// The name of the kind of problem; `None` if the status says all of it.
    name: Option<&'static str>,
    title: &'static str,
    detail: String,
    hint: Option<Box<str>>,
    errors: Vec<FieldProblem>,
    /// Further members of the document.
    members: Box<Map<String, Value>>,
    /// After how many seconds the request may be repeated.
    retry_after_s: Option<u32>,
}

impl Problem {
    fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            name: None,
            title,
            detail: detail.into(),
            hint: None,
            errors: Vec::new(),
            members: Box::default(),
            retry_after_s: None,
        }
    }

    /// The body is no JSON, or the request is malformed in another way.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "The request is malformed", detail)
    }

    /// There is no token, or none that is valid.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        let title = "A valid token is needed";
        Self::new(StatusCode::UNAUTHORIZED, title, detail)
            .with_hint("send the header `Authorization: Bearer TOKEN`")
    }

    /// What the token sees, but may not do.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        let title = "The token does not have the right to do this";
        Self::new(StatusCode::FORBIDDEN, title, detail)
    }

    /// There is no such thing, as far as the token may know.
    pub fn not_found(what: &str) -> Self {
        let detail = format!("there is no such {what}, or none that this token may see");
        Self::new(StatusCode::NOT_FOUND, "Unknown", detail)
    }

    /// The method is not one of the path.
    pub fn method_not_allowed() -> Self {
        let title = "The path does not have this method";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            title,
            "see `/v1/openapi.json`",
        )
    }

    /// The state does not allow it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        let title = "The state does not allow this";
        Self::new(StatusCode::CONFLICT, title, detail)
    }

    /// It was there and was pruned.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Pruned", detail)
    }

    /// The body is larger than it may be.
    pub fn too_large(limit: u64) -> Self {
        let detail = format!("the body may have {limit} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is too large",
            detail,
        )
    }

    /// The head is larger than it may be.
    pub fn head_too_large(limit: usize) -> Self {
        let detail = format!("the headers may have {limit} bytes");
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "The head is too large", detail)
    }

    /// The body has another media type.
    pub fn unsupported(detail: impl Into<String>) -> Self {
        let title = "The body has another media type than is needed";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, title, detail)
    }

    /// It is understood, and refused.
    pub fn refused(detail: impl Into<String>) -> Self {
        let title = "The request is understood and refused";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, title, detail)
    }

    /// A field of the body is wrong.
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        // The pointer of the whole body is empty.
        let text = match pointer.as_str() {
            "" => detail.clone(),
            _ => format!("`{pointer}`: {detail}"),
        };
        let mut problem = Self::refused(text).named("field");
        problem.errors.push(FieldProblem { pointer, detail });
        problem
    }

    /// Too much is under way for this token.
    pub fn too_many(detail: impl Into<String>) -> Self {
        let title = "Too many requests are under way";
        Self::new(StatusCode::TOO_MANY_REQUESTS, title, detail).retry_after(1)
    }

    /// The server cannot do it at the moment.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        let title = "The server cannot do this at the moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, title, detail).retry_after(5)
    }

    /// The storage cannot be used at the moment.
    pub fn without_storage() -> Self {
        Self::unavailable("the storage cannot be used")
    }

    /// The client took too long to send its request.
    pub fn timeout() -> Self {
        let title = "The request was not sent in time";
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            title,
            "a request is read within 30 s",
        )
    }

    /// A bug of the server.
    pub fn internal(detail: impl Into<String>) -> Self {
        let title = "The server failed";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, title, detail)
    }

    /// Returns it with the name of its kind.
    pub fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Returns it with what can be done about it.
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns it with a field that is wrong.
    pub fn with_field(mut self, pointer: String, detail: String) -> Self {
        self.errors.push(FieldProblem { pointer, detail });
        self
    }

    /// Returns it with a further member of the document.
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.members.insert(name.into(), value);
        self
    }

    /// Returns it with the time after which the request may be repeated.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Returns what is wrong.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the document.
    pub fn to_json(&self) -> Value {
        let kind = match self.name {
            Some(name) => format!("{TYPE_PREFIX}{name}"),
            None => "about:blank".into(),
        };
        let mut document = json!({
            "type": kind, "title": self.title, "status": self.status.as_u16(), "detail": self.detail,
        });
        if let Some(hint) = &self.hint {
            document["hint"] = json!(hint);
        }
        if !self.errors.is_empty() {
            let errors = self.errors.iter();
            let errors: Vec<Value> = errors
                .map(|one| json!({ "pointer": one.pointer, "detail": one.detail }))
                .collect();
            document["errors"] = json!(errors);
        }
        if let Value::Object(document) = &mut document {
            document.extend((*self.members).clone());
        }
        document
    }
}

/// Returns a reference to the schema of problem documents, which the OpenAPI document has under this name.
pub fn problem_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/components/schemas/Problem" })
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        let problem = match &error {
            StoreError::Absent { .. }
            | StoreError::NoRun { .. }
            | StoreError::NoTeam { .. }
            | StoreError::RunNotNamed { .. } => Self::not_found("run"),
            StoreError::NoCheckpoint { .. } => Self::not_found("checkpoint"),
            StoreError::NoLineage { .. } => Self::not_found("lineage"),
            StoreError::NameTaken { .. } | StoreError::Occupied { .. } => {
                Self::conflict("there is a run of this name").named("name-taken")
            }
            StoreError::Closed { .. } => Self::conflict(text.clone()).named("closed"),
            StoreError::Locked { .. } => Self::conflict("a process works on the run")
                .named("in-use")
                .retry_after(1),
            StoreError::Fenced { .. } | StoreError::RecordTaken { .. } => {
                Self::conflict("something else was done at the same time; repeat the request")
                    .retry_after(1)
            }
            StoreError::Unreachable { .. } | StoreError::RolledBack { .. } => {
                Self::without_storage()
            }
            StoreError::Full { .. } => {
                Self::unavailable("the storage has no space left for this").named("full")
            }
            StoreError::WriteFailed { .. } => Self::unavailable(
                "the disk failed, so it is not known whether this was recorded; the server ends",
            ),
            StoreError::Displaced { .. } => {
                Self::unavailable("the storage is not where it was when the server was started")
            }
            StoreError::InvalidUrl { what, .. } => Self::refused(what.clone()).named("name"),
            _ => Self::internal("the storage failed"),
        };
        if problem.status.is_server_error() {
            tracing::error!("a request failed: {text}");
        }
        problem
    }
}

impl From<NotForServer> for Problem {
    fn from(why: NotForServer) -> Self {
        match why {
            NotForServer::OtherHost => Self::new(
                StatusCode::MISDIRECTED_REQUEST,
                "The request is for another server",
                "the header `Host` names neither this machine with the port of the server nor a host that it was told",
            ),
            NotForServer::OtherOrigin => Self::new(
                StatusCode::FORBIDDEN,
                "The request comes from another origin",
                "pages of other servers may not use this one",
            ),
        }
    }
}

impl From<DriverError> for Problem {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Store(error) => error.into(),
            other => {
                tracing::error!("a request failed: {other}");
                Self::internal("the run cannot be changed")
            }
        }
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        let text = error.to_string();
        match error {
            AnswerError::NotOpen { .. }
            | AnswerError::OtherQuestion { .. }
            | AnswerError::Expired { .. } => Self::conflict(text).named("not-open"),
            _ => Self::refused(text).named("answer"),
        }
    }
}

impl From<LaunchError> for Problem {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Store(error) => error.into(),
            LaunchError::Driver(error) => error.into(),
            LaunchError::Answer(error) => error.into(),
            LaunchError::Definition(diagnostics) => {
                let hints = diagnostics.iter().flat_map(|one| one.hints());
                let hints: Vec<String> = hints.map(ToString::to_string).collect();
                let problem = Self::refused(diagnostics.to_string()).named("team");
                if hints.is_empty() {
                    problem.with_hint("correct the team file and upload it again")
                } else {
                    problem.with_hint(hints.join("; "))
                }
            }
            LaunchError::Refused(refused) => Self::refused(refused.to_string())
                .named("not-allowed")
                .with_hint("the operator can allow it with `serve --policy FILE`"),
            LaunchError::Unconfirmed(_) => {
                Self::unavailable("whether it was done is not known").named("unconfirmed")
            }
            LaunchError::Sandbox(_) | LaunchError::Http(_) | LaunchError::Place(_) => {
                tracing::error!("a request failed: {error}");
                Self::internal("the server cannot run teams")
            }
            error => {
                let advice = error.advice();
                let problem = Self::refused(error.to_string());
                match advice {
                    Some(advice) => problem.with_hint(advice.to_string()),
                    None => problem,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_missing_is_named_without_an_empty_pointer() {
        let document = Problem::field("", "missing field `bundle`").to_json();
        assert_eq!(document["detail"], "missing field `bundle`");
        assert_eq!(document["errors"][0]["pointer"], "");
    }

    #[test]
    fn a_wrong_field_is_named_by_its_pointer() {
        let document = Problem::field("/colour", "unknown field").to_json();
        assert_eq!(document["status"], 422);
        assert_eq!(document["type"], "urn:strata-host:field");
        assert_eq!(document["errors"][0]["pointer"], "/colour");
    }

    #[test]
    fn a_status_follows_from_the_kind_of_an_error() {
        let check = |error: StoreError, expected: u16| {
            assert_eq!(Problem::from(error).status.as_u16(), expected);
        };
        check(StoreError::Absent { path: "x".into() }, 404);
        let taken = StoreError::NameTaken {
            path: "x".into(),
            name: "one".into(),
        };
        check(taken, 409);
        let away = StoreError::Unreachable {
            path: "x".into(),
            what: "refused".into(),
        };
        check(away, 503);
    }
}
