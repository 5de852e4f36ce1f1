//! One client at a pair of streams, such as standard input and output: a message is a line.
//!
//! The library reads and writes the messages. What it leaves open is decided here: how many requests
//! may be open, that no two of them have the same id, that a client which does not read is not read
//! from either, and that everything ends when the input ends.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetMeta, JsonRpcMessage,
    ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{ServerInitializeError, ServiceExt};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::handler::{Handler, REVISIONS};
use super::{Offer, Principal};

/// The maximum size of a message, in bytes. A longer line is skipped.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
/// How many requests of a client may be open at the same time. Each is a task; tool calls have a
/// lower limit of their own.
const MAX_OPEN_REQUESTS: usize = 256;
/// How many messages may wait to be written. If a client does not read them, no more is read from it.
const MAX_UNSENT_MESSAGES: usize = 512;

/// Serves one client until the input ends or the offer is closed. Runs that are going on then are
/// interrupted and saved; `Offer::close` waits for that.
///
/// # Errors
/// Fails if the output cannot be written before the client has opened a session.
pub async fn serve_streams<R, W>(
    offer: &Offer,
    principal: Principal,
    input: R,
    output: W,
) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let transport = AsyncRwTransport::new_server(input, output);
    let guarded = GuardedTransport {
        inner: transport.with_max_line_length(MAX_MESSAGE_BYTES),
        open: Arc::default(),
        room: Arc::new(Semaphore::new(MAX_UNSENT_MESSAGES)),
        is_open: false,
        offer: offer.clone(),
    };
    let handler = Handler::new(offer.clone(), Some(principal));
    // The token ends what waits for the client; calls end by the offer's own.
    let serving = handler.serve_with_ct(guarded, offer.closing.child_token());
    match serving.await {
        Ok(session) => {
            // It ends with the input. An error in its task ends the session like that.
            let _ = session.waiting().await;
            Ok(())
        }
        Err(ServerInitializeError::TransportError { error, .. }) => {
            Err(io::Error::other(error.to_string()))
        }
        // The input ended, or what came was no request.
        Err(_) => Ok(()),
    }
}

/// A transport that refuses what would cost too much or cannot be answered.
struct GuardedTransport<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    /// The ids of the requests that are not answered yet.
    open: Arc<Mutex<BTreeSet<String>>>,
    /// Room for messages that wait to be written.
    room: Arc<Semaphore>,
    /// Whether the client has opened a session. Before that, the library takes requests only.
    is_open: bool,
    offer: Offer,
}

impl<R, W> Transport<RoleServer> for GuardedTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        if let Some(id) = answered {
            self.close_request(&id);
        }
        self.send_counted(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // A client that does not read what it is sent is not read from. The permit is returned at
            // once: it only shows that there is room.
            let room = Arc::clone(&self.room);
            drop(room.acquire_owned().await.ok()?);
            let Some(message) = self.inner.receive().await else {
                self.offer.closing.cancel();
                return None;
            };
            match self.check(&message) {
                Verdict::Pass => return Some(message),
                Verdict::Drop => {}
                Verdict::Refuse(id, why) => {
                    let refusal = ServerJsonRpcMessage::error(why, Some(id));
                    tokio::spawn(self.send_counted(refusal));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

/// What becomes of a message.
enum Verdict {
    Pass,
    Drop,
    Refuse(RequestId, ErrorData),
}

impl<R, W> GuardedTransport<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Sends a message, which takes room until it is written.
    fn send_counted(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let permit: Option<OwnedSemaphorePermit> = Arc::clone(&self.room).try_acquire_owned().ok();
        let sent = self.inner.send(message);
        async move {
            let result = sent.await;
            drop(permit);
            result
        }
    }

    fn check(&mut self, message: &ClientJsonRpcMessage) -> Verdict {
        match message {
            JsonRpcMessage::Request(request) => {
                let verdict = self.open_request(&request.id);
                if matches!(verdict, Verdict::Pass) {
                    self.is_open |= opens_session(&request.request);
                }
                verdict
            }
            JsonRpcMessage::Notification(_) if !self.is_open => Verdict::Drop,
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // It is not answered.
                    self.close_request(id);
                }
                Verdict::Pass
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) if !self.is_open => {
                Verdict::Drop
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Verdict::Pass,
        }
    }

    /// Notes that a request is open. Refuses it if it cannot be answered.
    fn open_request(&mut self, id: &RequestId) -> Verdict {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key_of(id);
        if open.contains(&key) {
            let why = "a request with this id is open; its answer would not be told from that of this one";
            return Verdict::Refuse(id.clone(), ErrorData::invalid_request(why, None));
        }
        if open.len() >= MAX_OPEN_REQUESTS {
            let why = format!("{MAX_OPEN_REQUESTS} requests are open, and no more are taken");
            return Verdict::Refuse(id.clone(), ErrorData::internal_error(why, None));
        }
        open.insert(key);
        Verdict::Pass
    }

    fn close_request(&mut self, id: &RequestId) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.remove(&key_of(id));
    }
}

/// Returns an id as a key: the number 1 and the text "1" are different ids.
fn key_of(id: &RequestId) -> String {
    serde_json::to_string(id).unwrap_or_default()
}

/// Returns whether a request opens a session, after which the library takes every kind of message.
fn opens_session(request: &ClientRequest) -> bool {
    let meta = request.get_meta();
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        _ => {
            let newest = ProtocolVersion::V_2026_07_28;
            let revision = meta.protocol_version();
            meta.missing_required_keys(&newest).is_empty()
                && revision.is_some_and(|revision| REVISIONS.contains(&revision))
        }
    }
}
