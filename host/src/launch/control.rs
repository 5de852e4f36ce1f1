//! How another process speaks to the one that runs a team: one line of JSON there, one back, over the socket that the
//! lock file names.

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

/// The longest line that is read: any message that `send` takes, escaped.
const MAX_LINE: u64 = 128 << 20;
/// How many are listened to at once; more wait to be accepted.
const MAX_CALLERS: usize = 16;
/// How long one may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer is waited for. A process that is held up by its disk takes less; one that is stopped takes for ever.
const ANSWER: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Serialize, Deserialize)]
enum Request {
    Send(Box<Message>),
    Answer(Vec<Given>),
}

/// What is answered.
#[derive(Serialize, Deserialize)]
enum Response {
    Sent(Sent),
    Answered(Vec<Answered>),
    Refused(String),
    /// Why it is not known what came of it.
    Unsaved(String),
    /// The run ended before it came to it.
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

/// What came of speaking to the process that runs a team.
pub(super) enum Reached<T> {
    /// None listens.
    Nobody,
    /// It ended meanwhile, and has certainly not done what was asked.
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

/// How long the end waits for those who were heard to be answered.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Answers other processes until it is closed, or dropped.
pub(super) struct Control {
    answering: JoinSet<()>,
    closing: Arc<Notify>,
    /// Kept here, since a task that is ended lets go of what it holds only later.
    _socket: Socket,
}

impl Control {
    /// Listens from now on. Needs a runtime.
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

    /// Listens to nobody else, and is gone once those who were heard have been answered.
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
                Ok((stream, _)) => drop(callers.spawn(attend(stream, orders.clone()))),
                // Out of descriptors, most likely: those in use will be free again.
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
    // Where this process was held up, who asked has given up by now and may have asked somebody else, or again.
    let response = tokio::select! {
        biased;
        () = hung_up(&mut stream) => return,
        response = response(&line, &orders) => response,
    };
    let text = serde_json::to_string(&response).unwrap_or_default() + "\n";
    // Who has gone away is not told.
    let _ = stream.write_all(text.as_bytes()).await;
}

/// Does what a line asks for.
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

/// Ends when nobody is at the other end any more. What else comes from there is nothing that was agreed on.
async fn hung_up(stream: &mut UnixStream) {
    if !has_hung_up(stream) {
        while stream
            .read(&mut [0; 64])
            .await
            .is_ok_and(|length| length > 0)
        {}
    }
}

/// Whether nobody is there now. Asked of the system: after it was stopped for a while, tokio hears of it only later.
fn has_hung_up(stream: &UnixStream) -> bool {
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else {
        return false;
    };
    // It does not block, since the stream of which it is a copy does not.
    std::os::unix::net::UnixStream::from(stream)
        .read(&mut [0])
        .is_ok_and(|length| length == 0)
}

/// Hands a message to the process that runs the team saved at a path.
pub(super) fn hand_over(path: &Path, message: &Message) -> Reached<Sent> {
    match call(path, &Request::Send(Box::new(message.clone()))) {
        Some(Ok(Response::Sent(sent))) => Reached::Told(Ok(sent)),
        other => not_taken(other),
    }
}

/// Hands answers to the process that runs the team saved at a path.
pub(super) fn answer(path: &Path, given: &[Given]) -> Reached<Vec<Answered>> {
    match call(path, &Request::Answer(given.to_vec())) {
        Some(Ok(Response::Answered(answered))) => Reached::Told(Ok(answered)),
        other => not_taken(other),
    }
}

/// Asks the process that runs the team saved at a path. None where none listens.
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

/// Says of an error that nothing came in time, if that is it.
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
        // It went away without having read all that was asked.
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
