//! The control socket, over which another process talks to the one that runs a team. A request is
//! one line of JSON, and so is its response. The lock file names the socket.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_core::message::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::LaunchError;
use crate::driver::{Answered, Given, Orders, Sent, Unserved};
use crate::store::{Directory, Socket};

/// The maximum length of a line in bytes: enough for any message that `send` accepts, escaped.
const MAX_LINE: u64 = 128 << 20;
/// The maximum number of concurrent connections. Further ones wait to be accepted.
const MAX_CALLERS: usize = 16;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client waits for the response. A process that waits for its disk responds sooner; one
/// that is suspended never does.
const ANSWER: Duration = Duration::from_secs(30);

/// A request to the process that runs the team.
#[derive(Serialize, Deserialize)]
enum Request {
    Send(Box<Message>),
    Answer(Vec<Given>),
}

/// The response to a request.
#[derive(Serialize, Deserialize)]
enum Response {
    Sent(Sent),
    Answered(Vec<Answered>),
    Refused(String),
    /// The request may have been carried out, but it could not be saved, for this reason.
    Unsaved(String),
    /// The run ended before the request was handled.
    Ended,
}

impl From<Unserved> for Response {
    fn from(why: Unserved) -> Self {
        match why {
            Unserved::Ended => Self::Ended,
            Unserved::Unsaved(why) => Self::Unsaved(why),
        }
    }
}

/// The outcome of a request to the process that runs a team.
pub(super) enum Reached<T> {
    /// No process listens.
    Nobody,
    /// The process ended, and has certainly not carried out the request.
    Ended,
    Told(Result<T, LaunchError>),
}

impl<T> Reached<T> {
    pub(super) fn map<U>(self, told: impl FnOnce(T) -> U) -> Reached<U> {
        match self {
            Self::Nobody => Reached::Nobody,
            Self::Ended => Reached::Ended,
            Self::Told(result) => Reached::Told(result.map(told)),
        }
    }
}

/// How long `close` waits until pending requests are answered.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Answers other processes until it is closed or dropped.
pub(super) struct Control {
    answering: JoinSet<()>,
    closing: Arc<Notify>,
    /// Held here, because an aborted task releases what it holds only later.
    _socket: Socket,
}

impl Control {
    /// Starts to listen. Must be called within a tokio runtime.
    pub(super) fn listen(directory: &Path, orders: Orders) -> std::io::Result<Self> {
        let socket = Socket::open(directory).map_err(std::io::Error::other)?;
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
        let _ = tokio::time::timeout(LAST_CALL, self.answering.join_next()).await;
    }
}

async fn serve(listener: UnixListener, orders: Orders, closing: Arc<Notify>) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.notified() => break,
            accepted = listener.accept(), if callers.len() < MAX_CALLERS => match accepted {
                Ok((stream, _)) => {
                    callers.spawn(attend(stream, orders.clone()));
                }
                // Most likely there are no free file descriptors. Some will become free.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = callers.join_next() => {}
        }
    }
    while callers.join_next().await.is_some() {}
}

async fn attend(mut stream: UnixStream, orders: Orders) {
    let mut line = String::new();
    let mut lines = tokio::io::BufReader::new((&mut stream).take(MAX_LINE));
    let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, lines.read_line(&mut line)).await else {
        return;
    };
    // If this process was suspended, the client may have given up and made its request elsewhere or
    // again.
    let response = tokio::select! {
        biased;
        () = hung_up(&mut stream) => return,
        response = response(&line, &orders) => response,
    };
    let text = serde_json::to_string(&response).unwrap_or_default() + "\n";
    // The client may have disconnected. The error is ignored.
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Carries out the request in a line.
async fn response(line: &str, orders: &Orders) -> Response {
    match serde_json::from_str(line) {
        Ok(Request::Send(message)) => match orders.send(*message).await {
            Ok(sent) => Response::Sent(sent),
            Err(why) => why.into(),
        },
        Ok(Request::Answer(given)) => match orders.answer(given).await {
            Ok(Ok(answered)) => Response::Answered(answered),
            Ok(Err(why)) => Response::Refused(why.to_string()),
            Err(why) => why.into(),
        },
        Err(error) => Response::Refused(format!("the request is not understood: {error}")),
    }
}

/// Returns when the client has disconnected. Anything else that it sends is not part of the
/// protocol.
async fn hung_up(stream: &mut UnixStream) {
    if !has_hung_up(stream) {
        while stream
            .read(&mut [0; 64])
            .await
            .is_ok_and(|length| length > 0)
        {}
    }
}

/// Returns whether the client has disconnected. Asks the system, because tokio may learn of it only
/// later if this process was suspended.
fn has_hung_up(stream: &UnixStream) -> bool {
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else {
        return false;
    };
    // This does not block: the duplicate shares the non-blocking mode of the stream.
    std::os::unix::net::UnixStream::from(stream)
        .read(&mut [0])
        .is_ok_and(|length| length == 0)
}

/// Sends a message to the process that runs the team saved at a path.
pub(super) fn hand_over(path: &Path, message: &Message) -> Reached<Sent> {
    match call(path, &Request::Send(Box::new(message.clone()))) {
        Some(Ok(Response::Sent(sent))) => Reached::Told(Ok(sent)),
        other => not_taken(other),
    }
}

/// Sends answers to the process that runs the team saved at a path.
pub(super) fn answer(path: &Path, given: &[Given]) -> Reached<Vec<Answered>> {
    match call(path, &Request::Answer(given.to_vec())) {
        Some(Ok(Response::Answered(answered))) => Reached::Told(Ok(answered)),
        other => not_taken(other),
    }
}

/// Sends a request to the process that runs the team saved at a path. Returns `None` if no process
/// listens.
fn call(path: &Path, request: &Request) -> Option<std::io::Result<Response>> {
    let mut stream = Directory::locate(path).ok()?.connect()?;
    let request = serde_json::to_string(request).ok()? + "\n";
    let mut line = String::new();
    let asked = stream
        .set_read_timeout(Some(ANSWER))
        .and_then(|()| stream.set_write_timeout(Some(ANSWER)));
    let asked = asked.and_then(|()| stream.write_all(request.as_bytes()));
    let answered = asked.and_then(|()| BufReader::new(stream.take(MAX_LINE)).read_line(&mut line));
    let lost = |_| std::io::Error::other("it ended before it answered");
    Some(
        answered
            .map_err(late)
            .and_then(|_| serde_json::from_str(&line).map_err(lost)),
    )
}

/// Replaces a timeout by an error that says what to do.
fn late(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let seconds = ANSWER.as_secs();
            std::io::Error::other(format!(
                "it has not answered for {seconds} s; if it is stopped, let it go on first"
            ))
        }
        _ => error,
    }
}

fn not_taken<T>(response: Option<std::io::Result<Response>>) -> Reached<T> {
    Reached::Told(Err(match response {
        None => return Reached::Nobody,
        Some(Ok(Response::Ended)) => return Reached::Ended,
        // The process closed the connection before it had read the whole request.
        Some(Err(error))
            if matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            return Reached::Ended;
        }
        Some(Ok(Response::Refused(why))) => LaunchError::Missing(format!(
            "the process that runs the team did not take it: {why}"
        )),
        Some(Ok(Response::Unsaved(why))) => {
            LaunchError::Unanswered(format!("it could not save it: {why}"))
        }
        Some(Ok(_)) => LaunchError::Unanswered("it answered something else".into()),
        Some(Err(error)) => LaunchError::Unanswered(error.to_string()),
    }))
}
