//! The control socket, over which another process talks to the one that runs a team. A request is
//! one line of JSON, and so is its response. The lock file names the socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_core::record::message::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::LaunchError;
use crate::driver::{AnsweredRequest, CommandError, DriverHandle, HumanReply, SendReceipt};
use crate::storage::{RunSocket, StorageDirectory};

/// The maximum length of a line in bytes: enough for any message that `send` accepts, escaped.
const MAX_LINE_BYTES: u64 = 128 << 20;
/// The maximum number of concurrent connections. Further ones wait to be accepted.
const MAX_CLIENTS: usize = 16;
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client waits for the response. A process that waits for its disk responds sooner; one
/// that is suspended never does.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request to the process that runs the team.
#[derive(Serialize, Deserialize)]
enum ControlRequest {
    Send(Box<Message>),
    Answer(Vec<HumanReply>),
}

/// The response to a request.
#[derive(Serialize, Deserialize)]
enum ControlResponse {
    Sent(SendReceipt),
    Answered(Vec<AnsweredRequest>),
    Refused(String),
    /// The request may have been carried out, but it could not be saved, for this reason.
    Unsaved(String),
    /// The run ended before the request was handled.
    Ended,
}

impl From<CommandError> for ControlResponse {
    fn from(why: CommandError) -> Self {
        match why {
            CommandError::Ended => Self::Ended,
            CommandError::Unsaved(why) => Self::Unsaved(why),
        }
    }
}

/// The outcome of a request to the process that runs a team.
pub(super) enum ControlOutcome<T> {
    /// No process listens.
    Nobody,
    /// The process ended, and has certainly not carried out the request.
    Ended,
    Answered(Result<T, LaunchError>),
}

impl<T> ControlOutcome<T> {
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> ControlOutcome<U> {
        match self {
            Self::Nobody => ControlOutcome::Nobody,
            Self::Ended => ControlOutcome::Ended,
            Self::Answered(result) => ControlOutcome::Answered(result.map(convert)),
        }
    }
}

/// How long `close` waits until pending requests are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers other processes until it is closed or dropped.
pub(super) struct ControlSocket {
    answering: JoinSet<()>,
    closing: Arc<Notify>,
    /// Held here, because an aborted task releases what it holds only later.
    _socket: RunSocket,
}

impl ControlSocket {
    /// Starts to listen. Must be called within a tokio runtime.
    pub(super) fn listen(directory: &Path, orders: DriverHandle) -> std::io::Result<Self> {
        let socket = RunSocket::open(directory).map_err(std::io::Error::other)?;
        let listener = UnixListener::from_std(socket.listener()?)?;
        let (mut answering, closing) = (JoinSet::new(), Arc::new(Notify::new()));
        answering.spawn(serve(listener, orders, closing.clone()));
        Ok(Self {
            answering,
            closing,
            _socket: socket,
        })
    }

    /// Accepts no more connections, and returns once the pending requests have been answered.
    pub(super) async fn close(mut self) {
        self.closing.notify_one();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.answering.join_next()).await;
    }
}

async fn serve(listener: UnixListener, orders: DriverHandle, closing: Arc<Notify>) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.notified() => break,
            accepted = listener.accept(), if callers.len() < MAX_CLIENTS => match accepted {
                Ok((stream, _)) => {
                    callers.spawn(serve_client(stream, orders.clone()));
                }
                // Most likely there are no free file descriptors. Some will become free.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = callers.join_next() => {}
        }
    }
    while callers.join_next().await.is_some() {}
}

async fn serve_client(mut stream: UnixStream, orders: DriverHandle) {
    let mut line = String::new();
    let mut lines = tokio::io::BufReader::new((&mut stream).take(MAX_LINE_BYTES));
    let Ok(Ok(_)) = tokio::time::timeout(REQUEST_TIMEOUT, lines.read_line(&mut line)).await else {
        return;
    };
    // If this process was suspended, the client may have given up and made its request elsewhere or
    // again.
    let response = tokio::select! {
        biased;
        () = disconnected(&mut stream) => return,
        response = handle_request(&line, &orders) => response,
    };
    let text = serde_json::to_string(&response).unwrap_or_default() + "\n";
    // The client may have disconnected. The error is ignored.
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Carries out the request in a line.
async fn handle_request(line: &str, orders: &DriverHandle) -> ControlResponse {
    match serde_json::from_str(line) {
        Ok(ControlRequest::Send(message)) => match orders.send(*message).await {
            Ok(sent) => ControlResponse::Sent(sent),
            Err(why) => why.into(),
        },
        Ok(ControlRequest::Answer(replies)) => match orders.answer(replies).await {
            Ok(Ok(answered)) => ControlResponse::Answered(answered),
            Ok(Err(why)) => ControlResponse::Refused(why.to_string()),
            Err(why) => why.into(),
        },
        Err(error) => ControlResponse::Refused(format!("the request is not understood: {error}")),
    }
}

/// Returns when the client has disconnected. Anything else that it sends is not part of the
/// protocol.
async fn disconnected(stream: &mut UnixStream) {
    if !has_disconnected(stream) {
        while stream
            .read(&mut [0; 64])
            .await
            .is_ok_and(|length| length > 0)
        {}
    }
}

/// Returns whether the client has disconnected. Asks the system, because tokio may learn of it only
/// later if this process was suspended.
fn has_disconnected(stream: &UnixStream) -> bool {
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else {
        return false;
    };
    // This does not block: the duplicate shares the non-blocking mode of the stream.
    std::os::unix::net::UnixStream::from(stream)
        .read(&mut [0])
        .is_ok_and(|length| length == 0)
}

/// Sends a message to the process that runs the team saved at a path.
pub(super) fn send_message(path: &Path, message: &Message) -> ControlOutcome<SendReceipt> {
    match send_request(path, &ControlRequest::Send(Box::new(message.clone()))) {
        Some(Ok(ControlResponse::Sent(sent))) => ControlOutcome::Answered(Ok(sent)),
        other => unexpected_response(other),
    }
}

/// Sends answers to the process that runs the team saved at a path.
pub(super) fn send_answers(
    path: &Path,
    replies: &[HumanReply],
) -> ControlOutcome<Vec<AnsweredRequest>> {
    match send_request(path, &ControlRequest::Answer(replies.to_vec())) {
        Some(Ok(ControlResponse::Answered(answered))) => ControlOutcome::Answered(Ok(answered)),
        other => unexpected_response(other),
    }
}

/// Sends a request to the process that runs the team saved at a path. Returns `None` if no process
/// listens.
fn send_request(path: &Path, request: &ControlRequest) -> Option<std::io::Result<ControlResponse>> {
    let mut stream = StorageDirectory::locate(path).ok()?.connect()?;
    let request = serde_json::to_string(request).ok()? + "\n";
    let mut line = String::new();
    let asked = stream
        .set_read_timeout(Some(RESPONSE_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(RESPONSE_TIMEOUT)));
    let asked = asked.and_then(|()| stream.write_all(request.as_bytes()));
    let answered =
        asked.and_then(|()| BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line));
    let lost = |_| std::io::Error::other("it ended before it answered");
    Some(
        answered
            .map_err(explain_timeout)
            .and_then(|_| serde_json::from_str(&line).map_err(lost)),
    )
}

/// Replaces a timeout by an error that says what to do.
fn explain_timeout(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let seconds = RESPONSE_TIMEOUT.as_secs();
            std::io::Error::other(format!(
                "it has not answered for {seconds} s; if it is stopped, let it go on first"
            ))
        }
        _ => error,
    }
}

fn unexpected_response<T>(response: Option<std::io::Result<ControlResponse>>) -> ControlOutcome<T> {
    ControlOutcome::Answered(Err(match response {
        None => return ControlOutcome::Nobody,
        Some(Ok(ControlResponse::Ended)) => return ControlOutcome::Ended,
        // The process closed the connection before it had read the whole request.
        Some(Err(error))
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            return ControlOutcome::Ended;
        }
        Some(Ok(ControlResponse::Refused(why))) => LaunchError::InvalidInput(format!(
            "the process that runs the team did not take it: {why}"
        )),
        Some(Ok(ControlResponse::Unsaved(why))) => {
            LaunchError::Unconfirmed(format!("it could not save it: {why}"))
        }
        Some(Ok(_)) => LaunchError::Unconfirmed("it answered something else".into()),
        Some(Err(error)) => LaunchError::Unconfirmed(error.to_string()),
    }))
}
