//! Requests to the owner of a run that arrive at a socket of this machine.
//!
//! The owner of a storage directory serves them over HTTP (`strata_base::owner`). The socket does not
//! lie in the directory, since that is copied with tools that cannot copy sockets, but among the
//! user's own temporary files. The lock file contains its path.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustix::process::{Pid, test_kill_process};
use strata_base::files::sha256::sha256;
use strata_base::files::user::{self, is_owned_by_user, is_private};
use strata_base::owner::{OwnerServer, RunRequest, SendError, send_request};
use strata_core::record::id::to_hex;
use strata_records::lineage::DIRECTORY_RUN;
use strata_records::mailbox::{
    IncomingRequest, MailReceiver, RESPONSE_TIMEOUT, RequestHandler, RequestOutcome, no_reply,
};

use super::lock::{LOCK_FILE, MAX_LOCK_BYTES};
use super::{StorageDirectory, StoreError, file};

/// Answers the requests that arrive at the socket of a storage directory.
pub struct SocketMailbox {
    server: OwnerServer,
    /// Held here, because an aborted task releases what it holds only later.
    _socket: RunSocket,
}

impl SocketMailbox {
    /// Starts to answer the requests for a run, by its key, that arrive at a socket. Must be called
    /// within a tokio runtime.
    pub(super) fn start(socket: RunSocket, run: i64, handler: RequestHandler) -> io::Result<Self> {
        let handler = Arc::new(move |request| handler(IncomingRequest { request, id: None }));
        Ok(Self {
            server: OwnerServer::start(socket.listener()?, run, handler)?,
            _socket: socket,
        })
    }
}

impl StorageDirectory {
    /// Starts to answer requests to the owner of the run, which is this process. Must be called
    /// within a tokio runtime.
    pub(super) fn receive_requests(&self, handler: RequestHandler) -> io::Result<SocketMailbox> {
        let socket = RunSocket::open(self.path()).map_err(io::Error::other)?;
        SocketMailbox::start(socket, DIRECTORY_RUN.0, handler)
    }

    /// Sends a request to the owner of the run and waits for the reply.
    pub(super) fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        let Some(stream) = self.connect() else {
            return RequestOutcome::NoOwner;
        };
        exchange(stream, DIRECTORY_RUN.0, request, self.path())
    }
}

impl MailReceiver for SocketMailbox {
    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.server.close().await })
    }
}

/// Sends a request about a run, by its key, over a connection to its owner, and waits for the reply. `path`
/// is where the run is kept, for messages.
pub(super) fn exchange(
    stream: UnixStream,
    run: i64,
    request: RunRequest,
    path: &Path,
) -> RequestOutcome {
    exchange_within(RESPONSE_TIMEOUT, stream, run, request, path)
}

/// Sends a request as `exchange` does, and waits for the reply at most for so long.
pub(super) fn exchange_within(
    timeout: Duration,
    stream: UnixStream,
    run: i64,
    request: RunRequest,
    path: &Path,
) -> RequestOutcome {
    match send_request(stream, run, request, timeout) {
        Ok(reply) => RequestOutcome::Replied(reply),
        Err(SendError::NotSent(error)) => {
            let action = "send a request to the owner of";
            RequestOutcome::NotSent(StoreError::io(path, action, error))
        }
        Err(SendError::NotReceived) => RequestOutcome::Ended,
        Err(SendError::Unanswered(error)) if error.kind() == ErrorKind::TimedOut => {
            RequestOutcome::Unknown(no_reply())
        }
        Err(SendError::Unanswered(error)) => RequestOutcome::Unknown(error),
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
        let socket = Self::bind(directory, directory.as_os_str().as_bytes())?;
        note_in_lock(&directory.join(LOCK_FILE), &socket.path)?;
        Ok(socket)
    }

    /// Opens a socket for what is kept at a path. `identity` distinguishes it from all else that this
    /// process has a socket for.
    pub(super) fn bind(path: &Path, identity: &[u8]) -> Result<Self, StoreError> {
        let place = user::temporary_dir().map_err(|e| StoreError::io(path, "listen for", e))?;
        remove_stale_sockets(&place);
        let name = to_hex(&sha256(identity)[..6]);
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
        Ok(socket)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the listener. It does not block.
    fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// Adds a path to the lock that this process holds, at which it can be reached.
pub(super) fn note_in_lock(lock: &Path, path: &Path) -> Result<(), StoreError> {
    let mut line = path.as_os_str().as_bytes().to_vec();
    line.push(b'\n');
    let note = || file::options().append(true).open(lock)?.write_all(&line);
    note().map_err(|e| StoreError::io(lock, "write", e))
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
        connect_to(&PathBuf::from(OsString::from_vec(path.to_vec())))
    }
}

/// Connects to a socket, if a host of this user has made it and listens.
pub(super) fn connect_to(path: &Path) -> Option<UnixStream> {
    is_own_host_socket(path)
        .then(|| UnixStream::connect(path).ok())
        .flatten()
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
