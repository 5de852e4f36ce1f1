//! The process that has a database open, as others reach it: it carries out what they ask (`holder_request`), because only
//! it can change the database. A worker and a server listen; a process that runs one team does not.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use strata_base::owner::{ReplyStatus, RunOperation, RunRequest};
use strata_records::error::StoreError;

use super::database::SharedDatabase;
use super::holder_request::{HolderReply, HolderRequest, exchange_directory};
use super::owner_note::OWNER_NOTE;
use super::runs::open_whole;
use crate::LockHolder;
use crate::RequestOutcome;
use crate::directory::names::SideFile;
use crate::lock::lock_holder;
use crate::owner_socket::{connect_to, exchange_within};
use crate::sqlite_url::SqliteUrl;

/// The key under which the process that has a database open notes its socket, and serves what concerns no run that has an
/// owner.
pub(super) const NO_RUN: i64 = 0;
/// How long a reply is waited for: a run with all its records may be copied meanwhile.
const REPLY_TIME: Duration = Duration::from_secs(600);
/// How often a change is tried if the process that has the database open ends, or another one begins.
const MAX_ATTEMPTS: u32 = 10;
/// The delay after the first attempt, which grows linearly.
const RETRY_DELAY: Duration = Duration::from_millis(20);
/// The name of the database in which a run is handed over.
const HANDOVER_FILE: &str = "runs.db";

/// Another process that has a database open and listens.
#[derive(Debug)]
pub(super) struct Holder {
    socket: PathBuf,
    /// The URL, for messages.
    path: PathBuf,
}

impl Holder {
    /// Returns the process that has the database of a URL open, if it is another one and listens.
    pub(super) fn find(url: &SqliteUrl) -> Result<Option<Self>, StoreError> {
        if SharedDatabase::is_open_here(&url.file)? {
            return Ok(None);
        }
        let process = lock_holder(&SideFile::Lock.beside(&url.file))?;
        let reader = match process {
            LockHolder::Nobody => return Ok(None),
            LockHolder::Process { .. } => open_whole(url)?,
        };
        let Some(reader) = reader else {
            return Ok(None);
        };
        let sql = "SELECT text FROM note WHERE run = ?1 AND name = ?2";
        let parameters = rusqlite::params![NO_RUN, OWNER_NOTE];
        let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let socket =
            reader.read_consistently(|reader| reader.rows.query_optional(sql, parameters, read))?;
        Ok(socket.map(|socket| Self {
            socket: socket.into(),
            path: url.to_path(),
        }))
    }

    /// Sends a request, and waits for the reply.
    pub(super) fn send(&self, request: &HolderRequest) -> RequestOutcome {
        let body = match serde_json::to_string(request) {
            Ok(body) => body,
            Err(error) => return RequestOutcome::NotSent(self.failed(error.into())),
        };
        let request = RunRequest {
            operation: RunOperation::Operate,
            body,
        };
        match connect_to(&self.socket) {
            Some(stream) => exchange_within(REPLY_TIME, stream, NO_RUN, request, &self.path),
            None => RequestOutcome::NoOwner,
        }
    }

    /// Asks for something, and returns its result; `None` if the process has ended and has certainly not done it.
    pub(super) fn ask<T: DeserializeOwned>(
        &self,
        request: &HolderRequest,
    ) -> Result<Option<T>, StoreError> {
        let reply = match self.send(request) {
            RequestOutcome::NoOwner | RequestOutcome::Ended => return Ok(None),
            RequestOutcome::NotSent(error) => return Err(error),
            RequestOutcome::Unknown(error) => return Err(self.failed(error)),
            RequestOutcome::Replied(reply) => reply,
        };
        match reply.status {
            ReplyStatus::Done => match serde_json::from_str(&reply.body) {
                Ok(HolderReply::Done(value)) => match serde_json::from_value(value) {
                    Ok(value) => Ok(Some(value)),
                    Err(error) => Err(self.failed(error.into())),
                },
                Ok(HolderReply::Failed(error)) => Err(error.at(&self.path)),
                Err(error) => Err(self.failed(error.into())),
            },
            ReplyStatus::Ended => Ok(None),
            ReplyStatus::Refused | ReplyStatus::Unsaved => {
                Err(self.failed(io::Error::other(reply.body)))
            }
        }
    }

    /// Returns the error for a process that ended before it did what was asked.
    pub(super) fn ended(&self) -> StoreError {
        self.failed(io::Error::other("it has ended"))
    }

    fn failed(&self, error: io::Error) -> StoreError {
        StoreError::io(
            &self.path,
            "change, through the process that has it open,",
            error,
        )
    }
}

/// Makes a change here or, if another process has the database open and listens, lets `ask` ask that for it. `ask` returns
/// `None` if that process has certainly not done it.
pub(super) fn change_through_holder<T>(
    url: &SqliteUrl,
    here: impl Fn() -> Result<T, StoreError>,
    ask: impl Fn(&Holder) -> Result<Option<T>, StoreError>,
) -> Result<T, StoreError> {
    let mut attempt = 1;
    loop {
        let in_use = match here() {
            Err(in_use @ StoreError::Locked { .. }) => in_use,
            done => return done,
        };
        let Some(holder) = Holder::find(url)? else {
            return Err(in_use);
        };
        if let Some(done) = ask(&holder)? {
            return Ok(done);
        }
        if attempt == MAX_ATTEMPTS {
            return Err(in_use);
        }
        std::thread::sleep(RETRY_DELAY * attempt);
        attempt += 1;
    }
}

/// Adds a run to a database with `add`, here or through the process that has it open: then it is added to another file,
/// from which that process copies it.
pub(super) fn add_run(
    url: &SqliteUrl,
    add: impl Fn(&SqliteUrl) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    change_through_holder(
        url,
        || add(url),
        |holder| {
            let directory = exchange_directory();
            let directory = directory.map_err(|e| StoreError::io(&url.to_path(), "write", e))?;
            let beside = SqliteUrl {
                file: directory.path().join(HANDOVER_FILE),
                run: url.run.clone(),
            };
            add(&beside)?;
            holder.ask(&HolderRequest::Import {
                file: beside.file,
                run: url.run.clone().unwrap_or_default(),
            })
        },
    )
}
