//! Who owns a run, and requests to that owner.

use std::io;
use std::path::Path;

use strata_base::owner::RunRequest;
use strata_records::error::StoreError;
use strata_records::reader::RecordedRun;

use super::change::{ChangeTerms, RunRight};
use super::database::{MissingDatabase, SharedDatabase, canonical_path};
use super::holder::Holder;
use super::holder_request::HolderRequest;
use super::owner_note::{OWNER_NOTE, insert_owner_note};
use super::runs::open_named;
use crate::LockHolder;
use crate::directory::names::SideFile;
use crate::file;
use crate::lock::lock_holder;
use crate::owner_socket::{RunSocket, SocketMailbox, connect_to, exchange};
use crate::sqlite_url::SqliteUrl;
use crate::{Epoch, RequestHandler, RequestOutcome};

/// Who owns a run.
struct RunOwner {
    /// The key of the run.
    run: i64,
    process: LockHolder,
    /// The path of the owner's socket; empty if it does not listen.
    socket: String,
}

/// Returns who owns the run of a URL.
fn read_owner(url: &SqliteUrl) -> Result<RunOwner, StoreError> {
    let reader = open_named(url)?;
    let run = reader.rows.run;
    let process = lock_holder(&SideFile::Lock.beside(&url.file))?;
    // The lock comes first: what is noted then is of its holder, or of one that ends meanwhile.
    Ok(match reader.note(OWNER_NOTE)? {
        Some(socket) => RunOwner {
            run,
            process,
            socket,
        },
        None => RunOwner {
            run,
            process: LockHolder::Nobody,
            socket: String::new(),
        },
    })
}

/// Returns which process holds a lease of the run of a URL.
pub(crate) fn holder(url: &SqliteUrl) -> Result<LockHolder, StoreError> {
    read_owner(url).map(|owner| owner.process)
}

/// Returns whether another process has the database of a URL open to change it.
pub(super) fn is_open_elsewhere(url: &SqliteUrl) -> Result<bool, StoreError> {
    let process = lock_holder(&SideFile::Lock.beside(&url.file))?;
    Ok(process != LockHolder::Nobody && !SharedDatabase::is_open_here(&url.file)?)
}

/// Starts to answer requests to the owner of a run, which is this process, under a lease with this epoch.
/// Must be called within a tokio runtime.
pub(crate) fn receive_requests(
    url: &SqliteUrl,
    epoch: Epoch,
    handler: RequestHandler,
) -> io::Result<SocketMailbox> {
    let run = open_named(url).map_err(io::Error::other)?.rows.run;
    let socket = announce(url, run, epoch).map_err(io::Error::other)?;
    SocketMailbox::start(socket, run, handler)
}

/// Opens a socket, and notes its path.
fn announce(url: &SqliteUrl, run: i64, epoch: Epoch) -> Result<RunSocket, StoreError> {
    let path = url.to_path();
    let file = canonical_path(&url.file)?;
    let socket = RunSocket::bind(&path, format!("{}\0{run}", file.display()).as_bytes())?;
    let database = SharedDatabase::open(&file, MissingDatabase::Fail)?;
    database.note_reachable(file::directory_of(socket.path()))?;
    let terms = ChangeTerms {
        right: Some(RunRight {
            run,
            epoch: epoch.0 as i64,
        }),
        ..ChangeTerms::default()
    };
    let text = socket.path().to_string_lossy().into_owned();
    match database.change(terms, move |conn| insert_owner_note(conn, run, &text))? {
        Some(()) => Ok(socket),
        None => Err(StoreError::Fenced { path }),
    }
}

/// Lets the process that has the database open carry out a request about a run that nobody owns.
fn request_holder(url: &SqliteUrl, request: RunRequest) -> RequestOutcome {
    match Holder::find(url) {
        Ok(Some(holder)) => holder.send(&HolderRequest::Run {
            run: url.run.clone().unwrap_or_default(),
            operation: request.operation.name().into(),
            body: request.body,
        }),
        Ok(None) => RequestOutcome::NoOwner,
        Err(error) => RequestOutcome::NotSent(error),
    }
}

/// Sends a request to the owner of a run and waits for the reply. Without an owner, the process that has the database open
/// carries it out, if it is another one and listens.
pub(crate) fn request_owner(url: &SqliteUrl, request: RunRequest) -> RequestOutcome {
    let owner = match read_owner(url) {
        Ok(owner) => owner,
        Err(error) => return RequestOutcome::NotSent(error),
    };
    if owner.process == LockHolder::Nobody {
        return request_holder(url, request);
    }
    match connect_to(Path::new(&owner.socket)) {
        Some(stream) => exchange(stream, owner.run, request, &url.to_path()),
        None => RequestOutcome::NoOwner,
    }
}
