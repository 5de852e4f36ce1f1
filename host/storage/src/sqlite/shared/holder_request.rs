//! What other processes ask of the one that has a database open, and what it replies. They cannot change the database
//! themselves meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::files::user;
use strata_base::text::component_replacement::ComponentReplacement;
use strata_core::record::id::Digest;
use strata_core::record::money::Usd;
use strata_records::caps::CapChange;
use strata_records::error::StoreError;
use strata_records::work::{ListedWorker, SubmissionChange, WorkerProfile};
use tempfile::TempDir;

use crate::SavedDefinition;

/// What is asked. Runs are given by their names.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HolderRequest {
    /// Do something with a run that nobody owns: `operation` is the name of what is asked of the owner of a run.
    Run {
        run: String,
        operation: String,
        body: String,
    },
    /// Copy a run from another database.
    Import { file: PathBuf, run: String },
    /// Change a submitted run.
    Change { run: String, change: SentChange },
    /// Let workers take a submitted run.
    RequestWork { run: String },
    /// Delete a run.
    Delete { run: String, by: Option<String> },
    /// Keep a run, so that nobody changes it while it is copied elsewhere. The result is an epoch.
    Hold { run: String },
    /// Give up a run that is kept.
    Release { run: String, epoch: u64 },
    /// Delete a run that is kept.
    DeleteHeld {
        run: String,
        epoch: u64,
        by: Option<String>,
    },
    /// Say for how long runs are kept that have ended.
    SetRetention { keep: String },
    /// Change a cap.
    ChangeCap {
        scope: String,
        change: SentCapChange,
    },
    /// Say whether runs may be added.
    SetIntake { is_open: bool },
    /// Say which worker takes runs.
    ListWorkers,
    /// Take nothing more, and end.
    Drain { id: String },
}

/// What became of a request, unless it is about a run that nobody owns.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HolderReply {
    /// It was carried out, with this result.
    Done(Value),
    /// It failed.
    Failed(SentError),
}

/// A change of a cap.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SentCapChange {
    Set(Usd),
    Restart,
    Remove,
}

impl From<CapChange> for SentCapChange {
    fn from(change: CapChange) -> Self {
        match change {
            CapChange::Set(usd) => Self::Set(usd),
            CapChange::Restart => Self::Restart,
            CapChange::Remove => Self::Remove,
        }
    }
}

impl From<SentCapChange> for CapChange {
    fn from(change: SentCapChange) -> Self {
        match change {
            SentCapChange::Set(usd) => Self::Set(usd),
            SentCapChange::Restart => Self::Restart,
            SentCapChange::Remove => Self::Remove,
        }
    }
}

/// A worker, as it is listed.
#[derive(Serialize, Deserialize)]
pub(super) struct SentWorker {
    id: String,
    host: String,
    labels: Vec<String>,
    secrets: Vec<String>,
    room: usize,
    version: String,
    runs: u64,
    is_draining: bool,
}

impl From<ListedWorker> for SentWorker {
    fn from(worker: ListedWorker) -> Self {
        Self {
            id: worker.id,
            host: worker.profile.host,
            labels: worker.profile.labels,
            secrets: worker.profile.secrets,
            room: worker.profile.room,
            version: worker.version,
            runs: worker.runs,
            is_draining: worker.is_draining,
        }
    }
}

impl From<SentWorker> for ListedWorker {
    fn from(sent: SentWorker) -> Self {
        Self {
            id: sent.id,
            profile: WorkerProfile {
                host: sent.host,
                labels: sent.labels,
                secrets: sent.secrets,
                room: sent.room,
            },
            version: sent.version,
            runs: sent.runs,
            // It has just answered.
            beat_age_ms: 0,
            is_draining: sent.is_draining,
        }
    }
}

/// A change of a submitted run. The bytes of its files are in a directory, by their digests.
#[derive(Serialize, Deserialize)]
pub(super) struct SentChange {
    definition: Option<SentDefinition>,
    files: BTreeMap<String, String>,
    contents: PathBuf,
    secrets: Vec<String>,
    note: Option<(String, String)>,
    resumes: bool,
}

#[derive(Serialize, Deserialize)]
struct SentDefinition {
    name: String,
    base: PathBuf,
    text: String,
    components: Vec<ComponentReplacement>,
}

impl SentChange {
    /// Returns a change as it is sent, with the directory that has to exist until it was received.
    pub(super) fn new(change: &SubmissionChange) -> io::Result<(Self, TempDir)> {
        let directory = exchange_directory()?;
        for (digest, bytes) in &change.contents {
            fs::write(directory.path().join(&digest.0), bytes)?;
        }
        let files = change.files.iter();
        let definition = change.definition.as_ref().map(|saved| SentDefinition {
            name: saved.name.clone(),
            base: saved.base.clone(),
            text: saved.text.clone(),
            components: saved.components.clone(),
        });
        let sent = Self {
            definition,
            files: files
                .map(|(path, digest)| (path.clone(), digest.0.clone()))
                .collect(),
            contents: directory.path().to_owned(),
            secrets: change.secrets.clone(),
            note: change.note.clone(),
            resumes: change.resumes,
        };
        Ok((sent, directory))
    }

    /// Returns the change that was sent.
    pub(super) fn receive(self) -> io::Result<SubmissionChange> {
        require_exchanged(&self.contents)?;
        let mut contents = Blobs::new();
        for entry in fs::read_dir(&self.contents)? {
            let bytes = fs::read(entry?.path())?;
            contents.insert(digest_of(&bytes), bytes.into());
        }
        let files = self.files.into_iter();
        Ok(SubmissionChange {
            definition: self.definition.map(SavedDefinition::from),
            files: files.map(|(path, digest)| (path, Digest(digest))).collect(),
            contents,
            secrets: self.secrets,
            note: self.note,
            resumes: self.resumes,
        })
    }
}

impl From<SentDefinition> for SavedDefinition {
    fn from(sent: SentDefinition) -> Self {
        Self {
            name: sent.name,
            base: sent.base,
            text: sent.text,
            components: sent.components,
        }
    }
}

/// Creates a directory in which files are handed over to another process of this user.
pub(super) fn exchange_directory() -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix("handover-")
        .tempdir_in(user::temporary_dir()?)
}

/// Fails unless a path is that of something that was handed over.
pub(super) fn require_exchanged(path: &Path) -> io::Result<()> {
    let place = user::temporary_dir()?.canonicalize()?;
    if !path.canonicalize()?.starts_with(&place) {
        return Err(io::Error::other(format!(
            "`{}` is in another place than what is handed over",
            path.display()
        )));
    }
    Ok(())
}

/// Why a request failed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SentError {
    NameTaken { name: String },
    NoRun { name: String },
    Occupied,
    Closed,
    InUse,
    Other { text: String },
}

impl From<StoreError> for SentError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NameTaken { name, .. } => Self::NameTaken { name },
            StoreError::NoRun { name, .. } => Self::NoRun { name },
            StoreError::Occupied { .. } => Self::Occupied,
            StoreError::Closed { .. } => Self::Closed,
            StoreError::Locked { .. } => Self::InUse,
            other => Self::Other {
                text: other.to_string(),
            },
        }
    }
}

impl SentError {
    /// Returns the error for what is kept at a path.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::NameTaken { name } => StoreError::NameTaken { path, name },
            Self::NoRun { name } => StoreError::NoRun {
                path,
                name,
                known: Vec::new(),
                deleted: None,
            },
            Self::Occupied => StoreError::Occupied { path },
            Self::Closed => StoreError::Closed { path },
            Self::InUse => StoreError::Locked { path, pid: None },
            Self::Other { text } => StoreError::io(&path, "change", io::Error::other(text)),
        }
    }
}
