//! Sends a request to the process that owns a run.

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::response::JSON;
use super::run_api::{MAX_BODY_BYTES, RunReply, RunRequest};
use crate::text::error_causes::find_cause;

/// The maximum number of bytes of a request that wait to be written; also the maximum size of a
/// response's head.
const BUFFER_BYTES: usize = 64 << 10;

/// Why a request has no reply.
#[derive(Debug)]
pub enum SendError {
    /// This process could not send it, so it has certainly not been carried out.
    NotSent(io::Error),
    /// The process closed the connection before it had received the whole request, so it has certainly
    /// not carried it out.
    NotReceived,
    /// The process may have carried out the request.
    Unanswered(io::Error),
}

/// Sends a request for a run to its owner and waits for the reply. Fails with
/// `SendError::Unanswered`, of `ErrorKind::TimedOut`, if that takes longer than `timeout`.
pub fn send_request(
    stream: UnixStream,
    run: i64,
    request: RunRequest,
    timeout: Duration,
) -> Result<RunReply, SendError> {
    let send = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(SendError::NotSent)?;
        runtime.block_on(async {
            tokio::time::timeout(timeout, exchange(stream, run, request))
                .await
                .unwrap_or_else(|_| Err(SendError::Unanswered(ErrorKind::TimedOut.into())))
        })
    };
    // The calling thread may be one of a runtime, which cannot wait for another one.
    let sending = std::thread::Builder::new()
        .spawn(send)
        .map_err(SendError::NotSent)?;
    sending
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

async fn exchange(
    stream: UnixStream,
    run: i64,
    request: RunRequest,
) -> Result<RunReply, SendError> {
    stream.set_nonblocking(true).map_err(SendError::NotSent)?;
    let stream = tokio::net::UnixStream::from_std(stream).map_err(SendError::NotSent)?;
    // Without this, the connection would be read first, and an owner that had closed it before anything
    // was sent could not be told from one that ended later.
    stream.writable().await.map_err(SendError::NotSent)?;
    let not_sent =
        |error: Box<dyn Error + Send + Sync>| SendError::NotSent(io::Error::other(error));
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| not_sent(error.into()))?;
    tokio::spawn(connection);
    let body = RequestBody::new(request.body);
    let is_taken = Arc::clone(&body.is_taken);
    let request = Request::post(request.operation.path(run))
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, JSON)
        .body(body)
        .map_err(|error| not_sent(error.into()))?;
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return Err(explain(&error, is_taken.load(Ordering::Relaxed))),
    };
    // The process has decided about the request, whatever becomes of the rest of the response.
    let other = || SendError::Unanswered(io::Error::other("it answered something else"));
    let status = response.status();
    let body = to_bytes(Body::new(response.into_body()), MAX_BODY_BYTES).await;
    let body = String::from_utf8(body.map_err(|_| other())?.into()).map_err(|_| other())?;
    RunReply::from_response(status, body).ok_or_else(other)
}

/// Returns what a failure means for a request. `is_taken` says whether all of it was passed on to be
/// written.
fn explain(error: &hyper::Error, is_taken: bool) -> SendError {
    let cause = error.source();
    let io_kind = cause.and_then(find_cause::<io::Error>).map(io::Error::kind);
    match io_kind {
        // Something that was sent was not read.
        Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => SendError::NotReceived,
        Some(_) => SendError::Unanswered(io::Error::other(error.to_string())),
        None if error.is_incomplete_message() && is_taken => {
            SendError::Unanswered(io::Error::other("it ended before it answered"))
        }
        None if error.is_incomplete_message() => SendError::NotReceived,
        // Nothing was sent. Either the connection was closed, or what arrived was no response.
        None if error.is_canceled()
            && cause
                .and_then(find_cause::<hyper::Error>)
                .is_none_or(hyper::Error::is_incomplete_message) =>
        {
            SendError::NotReceived
        }
        None => SendError::Unanswered(io::Error::other("it answered something else")),
    }
}

/// The body of a request, which notes when all of it was passed on to be written.
struct RequestBody {
    rest: Bytes,
    is_taken: Arc<AtomicBool>,
}

impl RequestBody {
    fn new(text: String) -> Self {
        Self {
            is_taken: Arc::new(AtomicBool::new(text.is_empty())),
            rest: text.into(),
        }
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(BUFFER_BYTES);
        let piece = self.rest.split_to(length);
        if self.rest.is_empty() {
            self.is_taken.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
