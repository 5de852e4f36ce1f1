//! Carries out what other processes ask of this one, which has a database open (`holder`).

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use strata_base::files::blob::Blobs;
use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_core::record::id::Digest;
use strata_records::caps::CapScope;
use strata_records::error::StoreError;
use strata_records::mailbox::{IncomingRequest, Mailbox, RequestHandler};
use strata_records::overview::RunOverview;
use strata_records::reader::RecordedRun;
use strata_records::retention::Retention;
use strata_records::rows::RunRows;
use strata_records::transfer::{RunCopy, RunRecords};
use strata_records::work::{
    Handover, KeptSubmission, NewSubmission, RESUME_NOTE, RunNeeds, SubmissionIdentity,
};

use super::caps::change_cap;
use super::change::ChangeTerms;
use super::claims::list_workers;
use super::database::{DatabaseHandle, MissingDatabase, SharedDatabase};
use super::delete::{delete_run, set_retention};
use super::held_runs::HeldRuns;
use super::holder::NO_RUN;
use super::holder_request::{HolderReply, HolderRequest, SentWorker, require_exchanged};
use super::insert_copy::insert_copy;
use super::owner_note::{insert_owner_note, remove_owner_note};
use super::runs::{open_named, place_run};
use super::settings::set_intake;
use super::submit::{FileRun, change_submission, request_work};
use crate::file;
use crate::owner_socket::{RunSocket, SocketMailbox};
use crate::sqlite_url::SqliteUrl;
use crate::{Intake, RunSchedule, StateSelector, StorageLocation};

/// Does something with a run that nobody owns, as the owner of a run does it that is asked. Waits until it is done.
pub type UnownedRunHandler = Arc<dyn Fn(&StorageLocation, &RunRequest) -> RunReply + Send + Sync>;

/// Answers what other processes ask of this one, which has a database open, until it is closed or dropped.
pub struct HolderMailbox {
    mailbox: Mailbox,
    _note: SocketNote,
}

/// The note with the path of the socket, which is removed with this.
struct SocketNote(DatabaseHandle);

impl Drop for SocketNote {
    fn drop(&mut self) {
        let removed = self.0.change(ChangeTerms::default(), |conn| {
            remove_owner_note(conn, NO_RUN)
        });
        if let Err(error) = removed {
            tracing::debug!("the note of who has the database open stays: {error}");
        }
    }
}

impl HolderMailbox {
    /// Starts to answer. Must be called within a tokio runtime.
    pub(crate) fn start(url: &SqliteUrl, unowned: UnownedRunHandler) -> io::Result<Self> {
        let database = SharedDatabase::open(&url.file, MissingDatabase::Fail);
        let database = database.map_err(io::Error::other)?;
        let url = SqliteUrl {
            file: database.path().to_owned(),
            run: None,
        };
        let failed = io::Error::other;
        let identity = url.file.to_string_lossy();
        let socket = RunSocket::bind(&url.to_path(), identity.as_bytes()).map_err(failed)?;
        let sockets = file::directory_of(socket.path());
        database.note_reachable(sockets).map_err(failed)?;
        let text = socket.path().to_string_lossy().into_owned();
        let noted = database.change(ChangeTerms::default(), move |conn| {
            insert_owner_note(conn, NO_RUN, &text)
        });
        noted.map_err(failed)?;
        let note = SocketNote(database);
        let held = Arc::new(HeldRuns::default());
        let handler: RequestHandler = Arc::new(move |incoming: IncomingRequest| {
            let (url, unowned) = (url.clone(), Arc::clone(&unowned));
            let held = Arc::clone(&held);
            Box::pin(async move {
                let request = incoming.request;
                let carried_out =
                    tokio::task::spawn_blocking(move || answer(&url, &held, request, &unowned));
                carried_out.await.unwrap_or_else(|_| RunReply {
                    status: ReplyStatus::Unsaved,
                    body: "it ended unexpectedly".into(),
                })
            })
        });
        Ok(Self {
            mailbox: Mailbox::new(SocketMailbox::start(socket, NO_RUN, handler)?),
            _note: note,
        })
    }

    /// Accepts no more requests, and returns once the pending ones have been answered.
    pub async fn close(self) {
        self.mailbox.close().await;
    }
}

fn answer(
    url: &SqliteUrl,
    held: &Arc<HeldRuns>,
    request: RunRequest,
    unowned: &UnownedRunHandler,
) -> RunReply {
    if request.operation != RunOperation::Operate {
        return RunReply::refused("the request is about no run");
    }
    let asked: HolderRequest = match serde_json::from_str(&request.body) {
        Ok(asked) => asked,
        Err(error) => return RunReply::refused(format!("the request is not understood: {error}")),
    };
    let reply = match asked {
        HolderRequest::Run {
            run,
            operation,
            body,
        } => {
            let Some(operation) = RunOperation::from_name(&operation) else {
                return RunReply::refused("the request is not understood");
            };
            let location = StorageLocation::of_shared(url.with_run(&run));
            return unowned(&location, &RunRequest { operation, body });
        }
        asked => match carry_out(url, held, asked) {
            Ok(value) => HolderReply::Done(value),
            Err(error) => HolderReply::Failed(error.into()),
        },
    };
    RunReply {
        status: ReplyStatus::Done,
        body: serde_json::to_string(&reply).unwrap_or_default(),
    }
}

/// Carries out a request, and returns its result.
fn carry_out(
    url: &SqliteUrl,
    held: &Arc<HeldRuns>,
    request: HolderRequest,
) -> Result<Value, StoreError> {
    let failed = |error: io::Error| StoreError::io(&url.to_path(), "change", error);
    match request {
        // It is carried out by who knows what runs are about.
        HolderRequest::Run { .. } => Ok(Value::Null),
        HolderRequest::Import { file, run } => {
            require_exchanged(&file).map_err(failed)?;
            to_value(import(url, &file, &run)?)
        }
        HolderRequest::Change { run, change } => {
            let change = change.receive().map_err(failed)?;
            to_value(change_submission(&url.with_run(&run), &change)?)
        }
        HolderRequest::RequestWork { run } => to_value(request_work(&url.with_run(&run))?),
        HolderRequest::Delete { run, by } => {
            to_value(delete_run(&url.with_run(&run), by.as_deref())?)
        }
        HolderRequest::Hold { run } => to_value(held.hold(&url.with_run(&run))?),
        HolderRequest::Release { run, epoch } => {
            to_value(held.release(&url.with_run(&run), epoch)?)
        }
        HolderRequest::DeleteHeld { run, epoch, by } => {
            to_value(held.delete(&url.with_run(&run), epoch, by.as_deref())?)
        }
        HolderRequest::SetRetention { keep } => {
            let kept = Retention::parse(&keep).map_err(io::Error::other);
            to_value(set_retention(url, &kept.map_err(failed)?)?)
        }
        HolderRequest::ChangeCap { scope, change } => {
            let scope = CapScope::parse(&scope).map_err(io::Error::other);
            to_value(change_cap(url, &scope.map_err(failed)?, change.into())?)
        }
        HolderRequest::SetIntake { is_open } => {
            to_value(set_intake(url, Intake::from_open(is_open))?)
        }
        HolderRequest::ListWorkers => {
            let workers = list_workers(url).into_iter();
            to_value(workers.map(SentWorker::from).collect::<Vec<_>>())
        }
        HolderRequest::Drain { id } => {
            let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
            to_value(database.drain_worker(&id))
        }
    }
}

fn to_value(result: impl Serialize) -> Result<Value, StoreError> {
    // What this program sends can be written as JSON.
    Ok(serde_json::to_value(result).unwrap_or_default())
}

/// Copies a run from another database, with what is stored of it for the queue.
fn import(url: &SqliteUrl, file: &Path, run: &str) -> Result<(), StoreError> {
    let (from, to) = (
        SqliteUrl {
            file: file.to_owned(),
            run: Some(run.into()),
        },
        url.with_run(run),
    );
    let reader = open_named(&from)?;
    let definition = reader.definition()?;
    let Some(submission) = FileRun::open(&from)? else {
        let base = reader.load(&StateSelector::Head)?.base;
        let mut blobs = Blobs::new();
        for digest in reader.rows.blob_digests()? {
            let digest = Digest(digest);
            let bytes = reader.blob(&digest)?.unwrap_or_default();
            blobs.insert(digest, bytes);
        }
        return place_run(&to, &base, &definition, &blobs);
    };
    let row = submission.row()?.unwrap_or_default();
    let files = submission.files()?;
    let mut contents = Blobs::new();
    for digest in files.values() {
        contents.insert(digest.clone(), submission.bytes(digest)?.into());
    }
    let base = reader.load(&StateSelector::Head)?.base;
    let missing = || reader.rows.corrupt("what is listed of the run is missing");
    let overview: RunOverview = row.overview.clone().ok_or_else(missing)?;
    let schedule = row.run_schedule();
    let scope = row.scope.as_deref().map(CapScope::from_stored);
    let resume_note = reader.note(RESUME_NOTE)?;
    let submission = NewSubmission {
        name: run,
        team: &overview.team,
        base: &base,
        definition: &definition,
        blobs: &Blobs::new(),
        files: &files,
        contents: &contents,
        needs: &RunNeeds {
            labels: row.labels.clone(),
            secrets: row.secrets.clone(),
        },
        tags: &row.tags,
        handover: match schedule {
            Some(_) => Handover::Queued,
            None => Handover::Detached,
        },
        scope: scope.as_ref(),
        identity: SubmissionIdentity {
            id: row.code.clone(),
            tenant: row.tenant.clone(),
            submitter: row.submitter.clone(),
        },
        resume_note: resume_note.map(|note| (RESUME_NOTE.to_owned(), note)),
        records: &[],
    };
    let copy = RunCopy {
        submission: &submission,
        overview: overview.clone(),
        schedule: schedule.unwrap_or(RunSchedule::OnRequest),
        changed_ms: Some(row.changed_ms),
    };
    insert_copy(&to, &copy, &RunRecords::new(reader)?)
}
