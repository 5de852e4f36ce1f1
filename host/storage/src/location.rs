//! Where a run is kept. The path or the URL that an operator gives becomes a location once; code outside
//! of `storage` uses a run through its location and does not know how it is kept.

mod backend;
mod creation;
mod foreign_url;
mod in_directory;
mod in_file;
#[cfg(feature = "postgres")]
mod in_server;
mod run_hold;
mod saved_run;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_base::owner::RunRequest;
use strata_core::state::environment::Environment;
#[cfg(feature = "postgres")]
use strata_postgres::Database;
use strata_records::database_url::DatabaseUrl;
use strata_records::error::StoreError;
use strata_records::mailbox::{Mailbox, RequestHandler, RequestOutcome};
use strata_records::reader::Reader;

use super::LockHolder;
use super::sqlite::shared;
use super::sqlite_url::SqliteUrl;
use super::{
    DatabaseReport, Epoch, FileReport, Lease, ListedRun, LocationIdentity, NewSubmission,
    OwnerWait, RunDatabase, RunFilter, RunListing, RunStatistics, SavedDefinition,
    SubmissionChange, SubmissionState, SubmittedRun, TeamJsonFile,
};
use backend::{Backend, RunContents};
pub use creation::{PreparedRun, VacantLocation};
use foreign_url::refuse_foreign_url;
use in_directory::DirectoryPath;
pub use run_hold::RunHold;
pub use saved_run::{OpenedRun, SavedForm, SavedRun};

/// Where a run is kept: a storage directory, given by its own path or by that of a `team.json` in it
/// that exists; a database file that holds many runs, given as `sqlite:PATH?run=NAME`; or a database, given by a URL
/// such as `postgres://HOST/DATABASE?run=NAME`. There need not be anything yet.
///
/// ```
/// use strata_storage::StorageLocation;
///
/// let location = StorageLocation::new("workspace/storage/team");
/// let path = std::path::Path::new("workspace/storage/team");
/// assert_eq!(location.local_paths(), [path]);
/// assert!(location.read().is_err(), "nothing is saved there");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageLocation {
    /// As it was given; a URL without its password.
    path: PathBuf,
    kind: LocationKind,
}

/// In what a run is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LocationKind {
    Directory(DirectoryPath),
    Shared(SqliteUrl),
    #[cfg(feature = "postgres")]
    Database(Box<Database>),
    /// A database of which this program knows nothing, because it was built without the feature.
    #[cfg(not(feature = "postgres"))]
    Unsupported,
    /// A URL that cannot be used, with what is wrong with it.
    Invalid(Arc<str>),
}

impl<P: AsRef<Path> + ?Sized> From<&P> for StorageLocation {
    fn from(path: &P) -> Self {
        Self::new(path.as_ref())
    }
}

impl From<PathBuf> for StorageLocation {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

impl fmt::Display for StorageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl StorageLocation {
    /// Refers to what is kept at a path or a URL.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let invalid = |error| match error {
            StoreError::InvalidUrl { url, what } => Self {
                path: url.into(),
                kind: LocationKind::Invalid(what.into()),
            },
            error => Self {
                path: PathBuf::from("postgres://"),
                kind: LocationKind::Invalid(error.to_string().into()),
            },
        };
        match path.to_str() {
            Some(url) if DatabaseUrl::is_url(url) => {
                DatabaseUrl::parse(url).map_or_else(invalid, Self::in_server)
            }
            Some(url) if SqliteUrl::is_url(url) => {
                SqliteUrl::parse(url).map_or_else(invalid, Self::of_shared)
            }
            // What is there already can be read, whatever its name.
            Some(text)
                if let Some(error) = refuse_foreign_url(text)
                    && !path.exists() =>
            {
                invalid(error)
            }
            _ => Self::in_directory(path),
        }
    }

    /// Refers to a storage directory by its own path or by that of a `team.json` in it.
    pub(super) fn in_directory(path: PathBuf) -> Self {
        Self {
            kind: LocationKind::Directory(DirectoryPath(path.clone())),
            path,
        }
    }

    /// Refers to a run in a database file that holds many.
    pub(super) fn of_shared(url: SqliteUrl) -> Self {
        Self {
            path: url.to_path(),
            kind: LocationKind::Shared(url),
        }
    }

    /// Refers to a run in a database server, if this program can reach one.
    fn in_server(url: DatabaseUrl) -> Self {
        #[cfg(feature = "postgres")]
        return Self::of_database(Database::at(url));
        #[cfg(not(feature = "postgres"))]
        Self {
            path: url.to_path(),
            kind: LocationKind::Unsupported,
        }
    }

    /// Refers to a run in a database.
    #[cfg(feature = "postgres")]
    pub(super) fn of_database(database: Database) -> Self {
        Self {
            path: database.to_path(),
            kind: LocationKind::Database(Box::new(database)),
        }
    }

    /// Whether a text is the URL of a run in a database rather than a path.
    pub fn is_url(text: &str) -> bool {
        DatabaseUrl::is_url(text) || SqliteUrl::is_url(text)
    }

    /// Returns the location at another path, or of another run in the same database, whose URL is
    /// `path`.
    pub fn beside(&self, path: &Path) -> Self {
        #[cfg(feature = "postgres")]
        if let LocationKind::Database(database) = &self.kind
            && let Some(run) = path
                .to_str()
                .and_then(|url| DatabaseUrl::parse(url).ok()?.run)
        {
            return Self {
                path: path.into(),
                kind: LocationKind::Database(Box::new(database.with_run(&run))),
            };
        }
        Self::new(path)
    }

    /// Returns the path as it was given, for messages and commands. A URL is without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what does the work. Fails if the location is a URL that cannot be used.
    pub(super) fn backend(&self) -> Result<&dyn Backend, StoreError> {
        match &self.kind {
            LocationKind::Directory(path) => Ok(path),
            LocationKind::Shared(url) => Ok(url),
            #[cfg(feature = "postgres")]
            LocationKind::Database(url) => Ok(&**url),
            #[cfg(not(feature = "postgres"))]
            LocationKind::Unsupported => Err(StoreError::Unsupported {
                path: self.path.clone(),
            }),
            LocationKind::Invalid(what) => Err(self.invalid(what)),
        }
    }

    fn invalid(&self, what: &str) -> StoreError {
        StoreError::InvalidUrl {
            url: self.to_string(),
            what: what.into(),
        }
    }

    /// Returns the paths on this machine at or under which everything lies that is stored of the run. There
    /// are none if it is stored elsewhere.
    pub fn local_paths(&self) -> Vec<PathBuf> {
        self.backend()
            .map_or_else(|_| Vec::new(), Backend::local_paths)
    }

    /// Returns the path or the URL that names the run in commands: the path of the directory, even
    /// if that of its `team.json` was given.
    pub fn operand(&self) -> &Path {
        match &self.kind {
            LocationKind::Directory(path) => path.operand(),
            _ => &self.path,
        }
    }

    /// Returns the same location, given by its operand.
    pub fn normalized(&self) -> Self {
        match &self.kind {
            LocationKind::Directory(path) => Self::in_directory(path.operand().into()),
            _ => self.clone(),
        }
    }

    /// Returns whether a run can be saved here as a `team.json` alone.
    pub fn accepts_team_json(&self) -> bool {
        matches!(self.kind, LocationKind::Directory(_))
    }

    /// Makes the link beside the storage directories of several teams lead to this one. Does nothing
    /// if the run is not kept in a directory, or if something else has the name of the link.
    pub fn update_latest_link(&self) -> io::Result<()> {
        self.backend().map_or(Ok(()), Backend::update_latest_link)
    }

    /// Returns in which form a run is saved here. Fails if there is none.
    pub fn saved_form(&self) -> Result<SavedForm, StoreError> {
        self.backend()?.saved_form()
    }

    /// Takes a lease of the run that is saved here. Fails with `StoreError::Locked` if another
    /// process holds one. In a database, this takes seconds if that process may have been killed.
    pub fn open(&self) -> Result<OpenedRun, StoreError> {
        self.backend()?.open(OwnerWait::Watch)
    }

    /// Takes a lease of the run that is saved here. Fails with `StoreError::Locked` at once if another
    /// process may hold one and has been heard of lately.
    pub fn open_if_free(&self) -> Result<OpenedRun, StoreError> {
        self.backend()?.open(OwnerWait::Brief)
    }

    /// Keeps the run that is saved here, so that nobody changes it. Fails with `StoreError::Locked` at once if a process
    /// works on it.
    pub fn hold(&self) -> Result<RunHold, StoreError> {
        let keeper = self.backend()?.hold()?;
        Ok(RunHold::new(self.clone(), keeper))
    }

    /// Opens the records of the run for reading, whoever holds a lease. Fails with
    /// `StoreError::NoRecords` if there is a `team.json` alone.
    pub fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.backend()?.read()
    }

    /// Reads what is saved of the run, in whichever form, whoever holds a lease.
    pub fn read_saved(&self) -> Result<SavedRun, StoreError> {
        self.backend()?.read_saved()
    }

    /// Lists the runs that are kept here, the newest first, whoever holds leases of them. In a directory
    /// there is at most one. Of a database, these are the run that the URL names or else the `limit`
    /// newest ones. Reads the newest state of each of them.
    ///
    /// ```
    /// use strata_storage::StorageLocation;
    ///
    /// # fn main() -> Result<(), strata_storage::StoreError> {
    /// let runs = StorageLocation::new("workspace/storage/team").list(20)?;
    /// assert!(runs.is_empty(), "nothing is saved there");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if the directory or the database cannot be read, and if the database cannot be reached any
    /// more while the runs are read.
    pub fn list(&self, limit: usize) -> Result<Vec<ListedRun>, StoreError> {
        self.backend()?.list(limit)
    }

    /// Lists the runs that are kept here and that a filter accepts, whoever holds leases of them, without
    /// reading states. Of a database, these are the run that the URL names or else all; one whose state has to be
    /// read is listed, too, whatever the filter says of states. Nothing is sorted.
    ///
    /// # Errors
    /// Fails if the directory or the database cannot be read.
    pub fn list_overviews(&self, filter: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        self.backend()?.list_overviews(filter)
    }

    /// Returns what the runs that are kept here are doing, whether or not the location names one of them.
    ///
    /// # Errors
    /// Fails if the directory or the database cannot be read.
    pub fn statistics(&self) -> Result<RunStatistics, StoreError> {
        self.backend()?.statistics()
    }

    /// Returns which process holds a lease of the run.
    pub fn holder(&self) -> Result<LockHolder, StoreError> {
        self.backend()?.holder()
    }

    /// Returns the `team.json` of the run, to write it, if it is kept in a directory.
    pub fn team_json(&self) -> Option<TeamJsonFile> {
        match &self.kind {
            LocationKind::Directory(path) => Some(TeamJsonFile::in_directory(path.operand())),
            _ => None,
        }
    }

    /// Returns the path of its `team.json`, for messages.
    pub fn team_json_path(&self) -> PathBuf {
        match self.team_json() {
            Some(file) => file.path(),
            None => self.path.clone(),
        }
    }

    /// Returns the content of its `team.json`.
    pub fn read_team_json(&self) -> Result<Vec<u8>, StoreError> {
        self.backend()?.existing_directory()?.read_team_json()
    }

    /// Returns whether another program changed the `team.json` beside its records.
    pub fn is_team_json_edited(&self) -> Result<bool, StoreError> {
        self.backend()?.is_team_json_edited()
    }

    /// Creates records from a `team.json` alone, and takes a lease. `bytes` is the content of that
    /// file, and `base` the state that it describes.
    pub fn import_team_json(
        &self,
        bytes: &[u8],
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Box<dyn Lease>, StoreError> {
        let directory = self.backend()?.existing_directory()?;
        let lease = directory.import_team_json(bytes, base, definition)?;
        Ok(Box::new(lease))
    }

    /// Fails if a run is saved here, in whatever form.
    pub fn require_vacant(&self) -> Result<(), StoreError> {
        self.backend()?.require_vacant()
    }

    /// Saves a `team.json` here, where no run may be saved yet. Fails for a database.
    pub fn place_team_json(&self, text: &str) -> Result<(), StoreError> {
        self.backend()?.place_team_json(text)
    }

    /// Saves a run that starts from `base`, with its `team.json` and the bytes of its files, where
    /// no run may be saved yet.
    pub fn place_run(
        &self,
        text: &str,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<(), StoreError> {
        let contents = RunContents {
            base,
            definition,
            blobs,
        };
        self.backend()?.place_run(text, contents)
    }

    /// Prepares a run that starts from `base`. `blobs` are the bytes of the files that `base` refers
    /// to. This changes nothing.
    pub fn prepare<'a>(
        &'a self,
        base: &'a Environment,
        definition: &'a SavedDefinition,
        blobs: &'a Blobs,
    ) -> Result<PreparedRun<'a>, StoreError> {
        let contents = RunContents {
            base,
            definition,
            blobs,
        };
        self.backend()?.prepare(contents).map(PreparedRun)
    }

    /// Removes the oldest teams that were moved aside in a storage directory, so that the last
    /// `KEPT_ASIDE` are left, and returns their directories. A database keeps all its runs.
    pub fn remove_oldest_aside(&self) -> Vec<PathBuf> {
        self.backend()
            .map_or_else(|_| Vec::new(), Backend::remove_oldest_aside)
    }

    /// Returns what the server has of what runs need, or `None` if the run is kept elsewhere.
    pub fn examine_database(&self) -> Result<Option<DatabaseReport>, StoreError> {
        self.backend()?.examine_database()
    }

    /// Returns what the file has of what runs need, if the run is kept in a file of many.
    pub fn examine_file(&self) -> Result<Option<FileReport>, StoreError> {
        self.backend()?.examine_file()
    }

    /// Returns what distinguishes the run that is kept here from another that could be.
    pub fn identity(&self) -> Result<LocationIdentity, StoreError> {
        self.backend()?.identity()
    }

    /// Starts to answer requests to the owner of the run, which is this process, under a lease with this
    /// epoch. Must be called within a tokio runtime.
    pub fn receive_requests(&self, epoch: Epoch, handler: RequestHandler) -> io::Result<Mailbox> {
        let backend = self.backend().map_err(io::Error::other)?;
        backend.receive_requests(epoch, handler)
    }

    /// Sends a request to the owner of the run and waits for the reply.
    pub fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        match self.backend() {
            Ok(backend) => backend.request_owner(request),
            Err(error) => RequestOutcome::NotSent(error),
        }
    }

    /// Returns the name of the run, if it is kept in a database.
    pub fn run_name(&self) -> Option<&str> {
        self.backend().ok()?.run_name()
    }

    /// Returns whether the run is kept in a database server. Only those whom its operator has let in
    /// can write to it, whereas a file may come from anybody.
    pub fn is_in_database(&self) -> bool {
        self.backend().is_ok_and(Backend::is_server)
    }

    /// Returns the database in which the run is kept, if it is kept in one.
    pub fn database(&self) -> Option<RunDatabase> {
        self.backend().ok()?.database()
    }

    /// Returns whether runs can be submitted to where it is kept, with their files.
    pub fn accepts_submissions(&self) -> bool {
        self.backend().is_ok_and(Backend::accepts_submissions)
    }

    /// Opens what is kept of the run besides its records. `None` if it is kept in a directory, or was not submitted.
    pub fn open_submission(&self) -> Result<Option<SubmittedRun>, StoreError> {
        self.backend()?.open_submission()
    }

    /// Asks workers to take up the run, if it is one that they take.
    pub fn request_work(&self) -> Result<(), StoreError> {
        self.backend()?.request_work()
    }

    /// Saves a run with the files of its team here, in a database, where no run may be saved yet.
    pub fn place_submission(&self, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
        self.backend()?.place_submission(submission)
    }

    /// Changes a submitted run that nobody owns. Does nothing if it was not submitted.
    ///
    /// # Errors
    /// Fails with `StoreError::Locked` if a process owns it. Then nothing is changed.
    pub fn change_submission(&self, change: &SubmissionChange) -> Result<(), StoreError> {
        self.backend()?.change_submission(change)
    }

    /// Deletes the run. Fails with `StoreError::Locked` if a process owns it. For a while, it is remembered who did it.
    pub fn delete_run(&self, by: Option<&str>) -> Result<(), StoreError> {
        self.backend()?.delete_run(by)
    }

    /// Returns what is known of the run without reading its records. `None` if it is kept in a
    /// directory.
    pub fn submission_state(&self) -> Result<Option<SubmissionState>, StoreError> {
        let submission = self.open_submission()?;
        submission.map(|submission| submission.state()).transpose()
    }

    /// Returns why nothing can be created here, if something else is where it has to be.
    pub fn obstacle(&self) -> Option<StoreError> {
        self.backend().map_or_else(Some, Backend::obstacle)
    }

    /// Whether a file is one of those in which the run is saved, or has the name of one.
    pub fn is_storage_file(&self, file: &Path) -> bool {
        self.backend()
            .is_ok_and(|backend| backend.is_storage_file(file))
    }

    /// Returns the files that change whenever the run is saved.
    pub fn changing_files(&self) -> Vec<PathBuf> {
        self.backend()
            .map_or_else(|_| Vec::new(), Backend::changing_files)
    }

    /// Whether two locations are the same, however they are given.
    pub fn is_same(&self, other: &Self) -> bool {
        let resolve = |location: &Self| {
            let directory = location.backend()?.existing_directory()?;
            let path = directory.path();
            Ok::<_, StoreError>(std::fs::canonicalize(path).unwrap_or_else(|_| path.into()))
        };
        match (&self.kind, &other.kind) {
            #[cfg(feature = "postgres")]
            (LocationKind::Database(one), LocationKind::Database(other)) => one == other,
            (LocationKind::Shared(one), LocationKind::Shared(other)) => shared::is_same(one, other),
            _ => matches!((resolve(self), resolve(other)), (Ok(one), Ok(other)) if one == other),
        }
    }
}
