//! What other processes ask of the process that owns a run, as HTTP: `POST /v1/runs/RUN/messages`,
//! `…/answers`, `…/cancel`, `…/pause`, `…/prune` and `…/operate`. Bodies are JSON, which this module does not look into.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::Extension;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Exchange, ExchangePhase};
use super::response::{JSON, Problem, respond};
use crate::text::units::format_bytes;

/// The maximum size of a request's or a reply's body in bytes: enough for any message that `send`
/// accepts, escaped, with its files in base64.
pub(super) const MAX_BODY_BYTES: usize = 256 << 20;
/// The limits of the bodies of the requests to an owner.
const BODY_LIMITS: BodyLimits = BodyLimits {
    max_bytes: MAX_BODY_BYTES,
    max_total_bytes: 2 * MAX_BODY_BYTES,
    small_bytes: 1 << 20,
    room_timeout: Duration::from_secs(5),
};
/// The unit in bytes in which room for bodies is counted.
const ROOM_UNIT_BYTES: usize = 1 << 10;
/// The type of an error that stands for a status, up to the name of the status.
const PROBLEM_TYPE_PREFIX: &str = "urn:strata-host:";

/// What can be asked of the process that owns a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOperation {
    /// Put a message into the mailboxes.
    Send,
    /// Record answers of people.
    Answer,
    /// End the run for good.
    Cancel,
    /// End the run for a while.
    Pause,
    /// Remove old checkpoints.
    Prune,
    /// Do something that only the process can do which has many runs open, under the number 0.
    Operate,
}

impl RunOperation {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::Send,
        Self::Answer,
        Self::Cancel,
        Self::Pause,
        Self::Prune,
        Self::Operate,
    ];

    /// Returns its name: the last part of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "messages",
            Self::Answer => "answers",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Prune => "prune",
            Self::Operate => "operate",
        }
    }

    /// Returns the operation of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns its path for a run.
    pub(super) fn path(self, run: i64) -> String {
        format!("/v1/runs/{run}/{}", self.name())
    }
}

/// A request to the process that owns a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// What is asked.
    pub operation: RunOperation,
    /// What it is about, as JSON.
    pub body: String,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyStatus {
    /// It was carried out, and what it changed is durable.
    Done,
    /// It was not accepted, and nothing has changed.
    Refused,
    /// It may have been carried out, but it could not be saved.
    Unsaved,
    /// The run ended before the request was carried out.
    Ended,
}

impl ReplyStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Done, Self::Refused, Self::Unsaved, Self::Ended];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Unsaved => "unsaved",
            Self::Ended => "ended",
        }
    }

    /// Returns the status of this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns the type of the error that stands for it.
    fn problem_type(self) -> String {
        format!("{PROBLEM_TYPE_PREFIX}{}", self.name())
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReply {
    /// What became of the request.
    pub status: ReplyStatus,
    /// The result as JSON if the request was carried out, else the reason, in words.
    pub body: String,
}

impl RunReply {
    /// Returns the reply to a request that was not accepted.
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            status: ReplyStatus::Refused,
            body: why.into(),
        }
    }

    /// Returns the reply that a response contains, or `None` if it is not the response of an owner to
    /// a request that it has carried out or decided about.
    pub(super) fn from_response(status: StatusCode, body: String) -> Option<Self> {
        if status == StatusCode::OK {
            let status = ReplyStatus::Done;
            return Some(Self { status, body });
        }
        let problem: Problem = serde_json::from_str(&body).ok()?;
        let name = problem.kind.strip_prefix(PROBLEM_TYPE_PREFIX)?;
        Some(Self {
            status: ReplyStatus::from_name(name)?,
            body: problem.detail,
        })
    }
}

impl IntoResponse for RunReply {
    fn into_response(self) -> Response {
        let (http_status, title) = match self.status {
            ReplyStatus::Done => return respond(StatusCode::OK, JSON, self.body),
            ReplyStatus::Refused => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "The request was not accepted",
            ),
            ReplyStatus::Unsaved => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "The request could not be saved",
            ),
            ReplyStatus::Ended => (StatusCode::CONFLICT, "The run has ended"),
        };
        let kind = self.status.problem_type();
        Problem::new(&kind, title, http_status, self.body).into_response()
    }
}

/// Carries out a request and returns the reply to it.
pub type RunRequestHandler = Arc<dyn Fn(RunRequest) -> BoxFuture<'static, RunReply> + Send + Sync>;

/// Returns the routes of a run.
pub(super) fn run_routes(run: i64, handler: &RunRequestHandler) -> Router {
    let mut routes = Router::new();
    let room = BodyRoom::new(BODY_LIMITS);
    for operation in RunOperation::ALL {
        let (handler, room) = (Arc::clone(handler), room.clone());
        let serve = move |Extension(exchange): Extension<Exchange>, body: Body| async move {
            match room.receive(body).await {
                Ok(body) => carry_out(operation, handler, exchange, body).await,
                Err(problem) => problem.into_response(),
            }
        };
        routes = routes.route(&operation.path(run), post(serve));
    }
    routes
        .method_not_allowed_fallback(reject_method)
        .fallback(reject_path)
}

async fn carry_out(
    operation: RunOperation,
    handler: RunRequestHandler,
    exchange: Exchange,
    body: ReceivedBody,
) -> Response {
    exchange.enter(ExchangePhase::Handling);
    // If this process was suspended, the client may have given up and made its request elsewhere or
    // again. Nobody receives this response then.
    if exchange.is_client_gone() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let request = RunRequest {
        operation,
        body: body.text,
    };
    let reply = handler(request).await;
    // The request has been carried out, so its body no longer takes room.
    drop(body.room);
    reply.into_response()
}

/// How much clients may send at the same time.
#[derive(Clone, Copy, Debug)]
struct BodyLimits {
    /// The maximum size of a body in bytes.
    max_bytes: usize,
    /// The maximum size in bytes of all bodies together that are received or carried out. Without it,
    /// all clients together could make the owner hold as many of the largest as there may be clients.
    max_total_bytes: usize,
    /// The size in bytes up to which a body does not count: nearly all are smaller, and those of all
    /// clients together take little.
    small_bytes: usize,
    /// How long a request waits for room. It is less than a request may take, so that the client gets an
    /// answer.
    room_timeout: Duration,
}

/// The room for the bodies of requests, which all clients share.
#[derive(Clone)]
struct BodyRoom {
    limits: BodyLimits,
    free: Arc<Semaphore>,
}

/// A body, with the room that it takes.
#[derive(Debug)]
struct ReceivedBody {
    text: String,
    /// `None` for a small body.
    room: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    fn new(limits: BodyLimits) -> Self {
        let free = Semaphore::new(limits.max_total_bytes / ROOM_UNIT_BYTES);
        Self {
            limits,
            free: Arc::new(free),
        }
    }

    /// Receives a body. One that is said to be too large is not received at all, and one that is not
    /// small only once there is room for the whole of it: clients that had room for a part each could
    /// wait for each other.
    async fn receive(&self, body: Body) -> Result<ReceivedBody, Problem> {
        let invalid = |detail| Problem::of_status(StatusCode::BAD_REQUEST, detail);
        let max_bytes = self.limits.max_bytes;
        let mut body = body.into_data_stream();
        let mut bytes = Vec::new();
        let mut room = None;
        loop {
            let hint = body.size_hint();
            let least_bytes = (bytes.len() as u64).saturating_add(hint.lower());
            if least_bytes > max_bytes as u64 {
                let detail = format!("a body has at most {}", format_bytes(max_bytes as u64));
                return Err(Problem::of_status(StatusCode::PAYLOAD_TOO_LARGE, detail));
            }
            if room.is_none() && least_bytes > self.limits.small_bytes as u64 {
                // Nothing is known about the rest of a body whose size was not declared.
                let is_known = hint.exact().is_some();
                let most_bytes = if is_known {
                    least_bytes as usize
                } else {
                    max_bytes
                };
                room = Some(self.reserve(most_bytes).await?);
            }
            match body.next().await {
                Some(Ok(piece)) => bytes.extend_from_slice(&piece),
                Some(Err(error)) => {
                    return Err(invalid(format!("the body cannot be received: {error}")));
                }
                None => break,
            }
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| invalid(format!("the body is not text: {}", error.utf8_error())))?;
        Ok(ReceivedBody { text, room })
    }

    /// Waits until there is room for this many bytes.
    async fn reserve(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = bytes.div_ceil(ROOM_UNIT_BYTES);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let waiting = Arc::clone(&self.free).acquire_many_owned(units);
        match tokio::time::timeout(self.limits.room_timeout, waiting).await {
            Ok(Ok(room)) => Ok(room),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(Problem::of_status(
                StatusCode::SERVICE_UNAVAILABLE,
                "other clients send large requests; try again when these have been carried out",
            )),
        }
    }
}

async fn reject_path(uri: Uri) -> Problem {
    let detail = format!("nothing is served at `{}`", uri.path());
    Problem::of_status(StatusCode::NOT_FOUND, detail)
}

async fn reject_method(method: Method, uri: Uri) -> Problem {
    let detail = format!("`{}` is used with POST, not with {method}", uri.path());
    Problem::of_status(StatusCode::METHOD_NOT_ALLOWED, detail)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    /// Limits that the tests reach: room for two of the largest bodies.
    const LIMITS: BodyLimits = BodyLimits {
        max_bytes: 8,
        max_total_bytes: 2 * ROOM_UNIT_BYTES,
        small_bytes: 2,
        room_timeout: Duration::from_millis(1),
    };

    /// Returns a body whose size is not known in advance.
    fn chunked(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> = pieces.iter().copied().map(Ok::<_, Infallible>).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_rejected_alike_whether_its_size_was_declared() {
        let too_large = StatusCode::PAYLOAD_TOO_LARGE.as_u16();
        let check = async |body: Body, expected: Result<&str, u16>| {
            let received = BodyRoom::new(LIMITS).receive(body).await;
            let received = received.map_err(|problem| problem.status);
            let received = received.map(|body| body.text);
            assert_eq!(received.as_deref().map_err(|status| *status), expected);
        };
        check(Body::from("12345678"), Ok("12345678")).await;
        check(chunked(&["1234", "", "5678"]), Ok("12345678")).await;
        check(Body::from("123456789"), Err(too_large)).await;
        check(chunked(&["1234", "56789"]), Err(too_large)).await;
        check(chunked(&["1234", "5678", "\u{ff}"]), Err(too_large)).await;
        let endless = stream::repeat_with(|| Ok::<_, Infallible>("1234"));
        check(Body::from_stream(endless), Err(too_large)).await;
    }

    #[tokio::test]
    async fn bodies_that_are_received_at_the_same_time_are_bounded_together() {
        let room = BodyRoom::new(LIMITS);
        let received = async |body: Body| {
            let received = room.receive(body).await;
            received.map_err(|problem| problem.status)
        };
        let first = received(Body::from("12345678")).await.expect("room");
        let second = received(chunked(&["1234"])).await.expect("room");
        let busy = StatusCode::SERVICE_UNAVAILABLE.as_u16();
        for body in [Body::from("123"), chunked(&["12", "3"])] {
            assert_eq!(received(body).await.map(|body| body.text), Err(busy));
        }
        // Small ones are always received, and none that is too large waits for room.
        assert!(received(Body::from("12")).await.is_ok());
        let too_large = StatusCode::PAYLOAD_TOO_LARGE.as_u16();
        let large = received(Body::from("123456789")).await;
        assert_eq!(large.map(|body| body.text), Err(too_large));
        drop(second);
        let third = received(Body::from("123")).await.expect("room");
        drop((first, third));
        assert_eq!(room.free.available_permits(), 2);
    }

    #[test]
    fn there_is_room_for_the_largest_body() {
        const { assert!(BODY_LIMITS.max_total_bytes >= BODY_LIMITS.max_bytes) };
        let units = BODY_LIMITS.max_total_bytes / ROOM_UNIT_BYTES;
        assert!(units <= Semaphore::MAX_PERMITS.min(u32::MAX as usize));
    }
}
