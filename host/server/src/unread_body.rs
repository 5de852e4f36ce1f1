//! What is left of a body whose request was answered before all of it came. It is read and forgotten: a connection that
//! is closed while the client sends would take the answer from it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use hyper::body::{Body, Bytes, Frame, SizeHint};

/// How much of it is read at most, and for how long.
const MAX_UNREAD_BYTES: usize = 64 << 20;
const UNREAD_TIME: Duration = Duration::from_secs(30);

/// A body of which the rest is read once nobody wants it any more.
pub struct UnreadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    body: Option<B>,
}

impl<B> UnreadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    /// Returns one of a body.
    pub fn new(body: B) -> Self {
        Self { body: Some(body) }
    }
}

impl<B> Body for UnreadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.as_ref().map(Body::size_hint);
        hint.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl<B> Drop for UnreadBody<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    fn drop(&mut self) {
        let rest = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, tokio::runtime::Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(UNREAD_TIME, read_rest(rest)));
        }
    }
}

async fn read_rest<B>(body: B)
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    let mut chunks = axum::body::Body::new(body).into_data_stream();
    let mut read = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        read += chunk.len();
        if read > MAX_UNREAD_BYTES {
            return;
        }
    }
}
