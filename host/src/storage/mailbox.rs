//! Requests to the process that owns a run: another process sends one, and the owner replies. What
//! the requests mean is defined in `launch::control`; here each is a line of text, and so is its
//! reply.
//!
//! The owner of a storage directory listens on a socket. The socket does not lie in the directory,
//! since that is copied with tools that cannot copy sockets, but among the user's own temporary
//! files. The lock file contains its path.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::{Pid, test_kill_process};
use strata_core::record::id::to_hex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener as AsyncListener, UnixStream as AsyncStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::lock::{LOCK_FILE, MAX_LOCK_BYTES};
#[cfg(not(feature = "postgres"))]
use super::no_database::DatabaseMailbox;
#[cfg(feature = "postgres")]
use super::postgres::DatabaseMailbox;
use super::{StorageDirectory, StoreError, file};
use crate::sha256::sha256;
use crate::user::{self, is_owned_by_user, is_private};

/// The maximum length of a line in bytes: enough for any message that `send` accepts, escaped, with
/// its files in base64.
const MAX_LINE_BYTES: u64 = 256 << 20;
/// The maximum number of concurrent connections. Further ones wait to be accepted.
const MAX_CLIENTS: usize = 16;
/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client waits for the reply. A process that waits for its disk replies sooner; one
/// that is suspended never does.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long `close` waits until pending requests are answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Identifies a request that is kept in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailId(pub(crate) i64);

/// The reply to a request that is kept in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailReply {
    /// The request.
    pub id: MailId,
    /// The reply.
    pub text: String,
}

/// A request to the owner of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingRequest {
    /// What it says.
    pub text: String,
    /// Identifies it if it is kept in a database. Until its reply is stored, it is carried out again
    /// by the next owner.
    pub id: Option<MailId>,
}

/// Carries out a request and returns the reply to it.
pub type RequestHandler = Arc<dyn Fn(IncomingRequest) -> BoxFuture<'static, String> + Send + Sync>;

/// What became of a request to the owner of a run.
#[derive(Debug)]
pub enum RequestOutcome {
    /// There is no owner that listens.
    NoOwner,
    /// The owner ended, and has certainly not carried out the request.
    Ended,
    /// The owner replied.
    Replied(String),
    /// The owner may have carried out the request, but its reply was not received.
    Unknown(io::Error),
}

/// Answers the requests of other processes until it is closed or dropped.
pub enum Mailbox {
    /// Those that arrive at a socket.
    Socket(SocketMailbox),
    /// Those that arrive in a database.
    Database(DatabaseMailbox),
}

impl Mailbox {
    /// Accepts no more requests, and returns once the pending ones have been answered.
    pub async fn close(self) {
        match self {
            Self::Socket(mailbox) => mailbox.close().await,
            Self::Database(mailbox) => mailbox.close().await,
        }
    }
}

/// Answers the requests that arrive at the socket of a storage directory.
pub struct SocketMailbox {
    answering: JoinSet<()>,
    closing: Arc<Notify>,
    /// Held here, because an aborted task releases what it holds only later.
    _socket: RunSocket,
}

impl StorageDirectory {
    /// Starts to answer requests to the owner of the run, which is this process. Must be called
    /// within a tokio runtime.
    pub(super) fn receive_requests(&self, handler: RequestHandler) -> io::Result<SocketMailbox> {
        let socket = RunSocket::open(self.path()).map_err(io::Error::other)?;
        let listener = AsyncListener::from_std(socket.listener()?)?;
        let (mut answering, closing) = (JoinSet::new(), Arc::new(Notify::new()));
        answering.spawn(serve(listener, handler, closing.clone()));
        Ok(SocketMailbox {
            answering,
            closing,
            _socket: socket,
        })
    }

    /// Sends a request to the owner of the run and waits for the reply.
    pub(super) fn request_owner(&self, request: &str) -> RequestOutcome {
        let Some(mut stream) = self.connect() else {
            return RequestOutcome::NoOwner;
        };
        let mut line = String::new();
        let asked = stream
            .set_read_timeout(Some(RESPONSE_TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(RESPONSE_TIMEOUT)))
            .and_then(|()| stream.write_all(format!("{request}\n").as_bytes()));
        let answered =
            asked.and_then(|()| BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line));
        match answered.map_err(explain_timeout) {
            Ok(_) if line.ends_with('\n') => RequestOutcome::Replied(line),
            Ok(_) => RequestOutcome::Unknown(io::Error::other("it ended before it answered")),
            // The process closed the connection before it had read the whole request.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                RequestOutcome::Ended
            }
            Err(error) => RequestOutcome::Unknown(error),
        }
    }
}

impl SocketMailbox {
    /// Accepts no more requests, and returns once the pending ones have been answered.
    async fn close(mut self) {
        self.closing.notify_one();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.answering.join_next()).await;
    }
}

async fn serve(listener: AsyncListener, handler: RequestHandler, closing: Arc<Notify>) {
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.notified() => break,
            accepted = listener.accept(), if callers.len() < MAX_CLIENTS => match accepted {
                Ok((stream, _)) => {
                    callers.spawn(serve_client(stream, handler.clone()));
                }
                // Most likely there are no free file descriptors. Some will become free.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = callers.join_next() => {}
        }
    }
    while callers.join_next().await.is_some() {}
}

async fn serve_client(mut stream: AsyncStream, handler: RequestHandler) {
    let mut line = String::new();
    let mut lines = tokio::io::BufReader::new((&mut stream).take(MAX_LINE_BYTES));
    let Ok(Ok(_)) = tokio::time::timeout(REQUEST_TIMEOUT, lines.read_line(&mut line)).await else {
        return;
    };
    // If this process was suspended, the client may have given up and made its request elsewhere or
    // again.
    let reply = tokio::select! {
        biased;
        () = disconnected(&mut stream) => return,
        reply = handler(IncomingRequest { text: line, id: None }) => reply,
    };
    // The client may have disconnected. The error is ignored.
    let _ = stream.write_all((reply + "\n").as_bytes()).await;
}

/// Returns when the client has disconnected. Anything else that it sends is not part of the
/// protocol.
async fn disconnected(stream: &mut AsyncStream) {
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
fn has_disconnected(stream: &AsyncStream) -> bool {
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else {
        return false;
    };
    // This does not block: the duplicate shares the non-blocking mode of the stream.
    UnixStream::from(stream)
        .read(&mut [0])
        .is_ok_and(|length| length == 0)
}

/// Replaces a timeout by an error that says what to do.
fn explain_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let seconds = RESPONSE_TIMEOUT.as_secs();
            io::Error::other(format!(
                "it has not answered for {seconds} s; if it is stopped, let it go on first"
            ))
        }
        _ => error,
    }
}

/// A socket that accepts connections until it is dropped.
#[derive(Debug)]
pub(super) struct RunSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl RunSocket {
    /// Opens a socket for the team in a directory. Only the holder of its lock may do so.
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let place =
            user::temporary_dir().map_err(|e| StoreError::io(directory, "listen for", e))?;
        remove_stale_sockets(&place);
        let name = to_hex(&sha256(directory.as_os_str().as_bytes())[..6]);
        let path = place.join(format!("{}-{name}.sock", std::process::id()));
        file::remove_if_exists(&path).map_err(|e| StoreError::io(&path, "replace", e))?;
        let fail = |e| StoreError::io(&path, "listen at", e);
        let listener = UnixListener::bind(&path).map_err(fail)?;
        // From here on, dropping `socket` removes the file, also if something fails.
        let socket = Self {
            path: path.clone(),
            listener,
        };
        socket.listener.set_nonblocking(true).map_err(fail)?;
        let lock = directory.join(LOCK_FILE);
        let mut line = path.as_os_str().as_bytes().to_vec();
        line.push(b'\n');
        let note = || file::options().append(true).open(&lock)?.write_all(&line);
        note().map_err(|e| StoreError::io(&lock, "write", e))?;
        Ok(socket)
    }

    /// Returns the listener. It does not block.
    fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for RunSocket {
    fn drop(&mut self) {
        // A file that cannot be removed is removed by a later run; see `remove_stale_sockets`.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl StorageDirectory {
    /// Connects to the process that runs the team here, if there is one that listens. The lock file
    /// may have been written by another user, who could redirect messages for the team to a process
    /// of theirs. So only sockets that a host of this user has made are connected to.
    fn connect(&self) -> Option<UnixStream> {
        let mut text = Vec::new();
        file::options()
            .read(true)
            .open(self.path().join(LOCK_FILE))
            .ok()?
            .take(MAX_LOCK_BYTES as u64)
            .read_to_end(&mut text)
            .ok()?;
        let path = text
            .split(|byte| *byte == b'\n')
            .nth(1)
            .filter(|path| !path.is_empty())?;
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        is_own_host_socket(&path)
            .then(|| UnixStream::connect(path).ok())
            .flatten()
    }
}

/// Whether a path is that of a socket made by a host of this user. The directory for temporary
/// files of that host may differ from ours.
fn is_own_host_socket(path: &Path) -> bool {
    let Some(place) = path
        .parent()
        .filter(|place| place.ends_with(user::temporary_dir_name()))
    else {
        return false;
    };
    let of = |path| std::fs::symlink_metadata(path);
    let private = of(place).is_ok_and(|meta| meta.is_dir() && is_private(&meta));
    // In a private directory, no other user can replace the socket after this check.
    private
        && path.is_absolute()
        && of(path).is_ok_and(|meta| meta.file_type().is_socket() && is_owned_by_user(&meta))
}

/// Removes sockets that killed processes left behind.
fn remove_stale_sockets(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.split_once('-'))
            .and_then(|(pid, _)| pid.parse().ok());
        let gone = |pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
        if pid.and_then(Pid::from_raw).is_some_and(gone) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    use super::super::lock::StorageLock;
    use super::*;

    #[test]
    fn a_socket_is_found_by_the_directory_it_serves_and_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let directory = StorageDirectory::new(&deep);
        let _lock = StorageLock::acquire(&deep).unwrap();
        assert!(directory.connect().is_none());
        let socket = RunSocket::open(&deep).unwrap();
        directory.connect().unwrap().write_all(b"hello").unwrap();
        socket.listener.set_nonblocking(false).unwrap();
        let mut heard = String::new();
        socket
            .listener()
            .unwrap()
            .accept()
            .unwrap()
            .0
            .read_to_string(&mut heard)
            .unwrap();
        assert_eq!(heard, "hello");
        drop(socket);
        assert!(directory.connect().is_none());
        assert_eq!(std::fs::read_dir(&deep).unwrap().count(), 1);
    }

    #[test]
    fn a_lock_file_leads_to_sockets_of_the_users_own_hosts_only() {
        let dir = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(dir.path());
        let (private, other) = (
            dir.path().join(user::temporary_dir_name()),
            dir.path().join("other"),
        );
        for place in [&private, &other] {
            DirBuilder::new().mode(0o700).create(place).unwrap();
        }
        let leads_to = |path: &Path| {
            std::fs::write(
                dir.path().join(LOCK_FILE),
                format!("1\n{}\n", path.display()),
            )
            .unwrap();
            directory.connect().is_some()
        };
        let listener = |path: PathBuf| (UnixListener::bind(&path).unwrap(), path);
        let (_own, own) = listener(private.join("1-a.sock"));
        let (_stranger, stranger) = listener(other.join("1-a.sock"));
        assert!(leads_to(&own));
        assert!(!leads_to(&stranger), "another directory");
        let link = private.join("2-a.sock");
        std::os::unix::fs::symlink(&stranger, &link).unwrap();
        assert!(!leads_to(&link), "a link to one");
        assert!(
            !leads_to(&private.join("../other/1-a.sock")),
            "a way around"
        );
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(!leads_to(&own), "others can enter the directory");
    }
}
