//! How another process speaks to the one that runs a team: one line of JSON there, one back, over the socket in the
//! storage directory.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_core::message::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::LaunchError;
use crate::driver::{Orders, Sent};
use crate::store::{Directory, Socket};

/// The longest line that is read: larger than any message that makes sense.
const MAX_LINE: u64 = 64 << 20;
/// How many are listened to at once; more wait to be accepted.
const MAX_CALLERS: usize = 16;
/// How long one may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Serialize, Deserialize)]
enum Request {
    Send(Box<Message>),
}

/// What is answered.
#[derive(Serialize, Deserialize)]
enum Response {
    Sent(Sent),
    Refused(String),
}

/// Answers other processes until it is dropped.
pub(super) struct Control {
    _answering: JoinSet<()>,
    /// Kept here, since a task that is ended lets go of what it holds only later.
    _socket: Socket,
}

impl Control {
    /// Listens from now on. Needs a runtime.
    pub(super) fn listen(directory: &Path, orders: Orders) -> std::io::Result<Self> {
        let socket = Socket::open(directory).map_err(std::io::Error::other)?;
        let listener = UnixListener::from_std(socket.listener()?)?;
        let mut answering = JoinSet::new();
        answering.spawn(serve(listener, orders));
        Ok(Self { _answering: answering, _socket: socket })
    }
}

async fn serve(listener: UnixListener, orders: Orders) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if callers.len() < MAX_CALLERS => match accepted {
                Ok((stream, _)) => drop(callers.spawn(attend(stream, orders.clone()))),
                // Out of descriptors, most likely: those in use will be free again.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = callers.join_next() => {}
        }
    }
}

async fn attend(mut stream: UnixStream, orders: Orders) {
    let (read, mut write) = stream.split();
    let mut line = String::new();
    let mut lines = tokio::io::BufReader::new(read.take(MAX_LINE));
    let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, lines.read_line(&mut line)).await else { return };
    let response = match serde_json::from_str(&line) {
        Ok(Request::Send(message)) => match orders.send(*message).await {
            Ok(sent) => Response::Sent(sent),
            Err(ended) => Response::Refused(ended.to_string()),
        },
        Err(error) => Response::Refused(format!("the request is not understood: {error}")),
    };
    let text = serde_json::to_string(&response).unwrap_or_default() + "\n";
    // Who has gone away is not told.
    let _ = write.write_all(text.as_bytes()).await;
}

/// Hands a message to the process that runs the team saved at a path. None where none listens.
pub(super) fn hand_over(path: &Path, message: &Message) -> Option<Result<Sent, LaunchError>> {
    let mut stream = Directory::locate(path).ok()?.connect()?;
    let request = serde_json::to_string(&Request::Send(Box::new(message.clone()))).ok()? + "\n";
    let mut line = String::new();
    let answered =
        stream.write_all(request.as_bytes()).and_then(|()| BufReader::new(stream.take(MAX_LINE)).read_line(&mut line));
    let lost = |why: String| LaunchError::Missing(format!("the process that runs the team did not take it: {why}"));
    Some(match (answered, serde_json::from_str(&line)) {
        (Ok(_), Ok(Response::Sent(sent))) => Ok(sent),
        (Ok(_), Ok(Response::Refused(why))) => Err(lost(why)),
        (Ok(_), Err(_)) => Err(lost("it ended before it answered".into())),
        (Err(error), _) => Err(lost(error.to_string())),
    })
}
