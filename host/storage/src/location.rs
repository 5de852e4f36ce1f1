//! Where a run is kept. The path or the URL that an operator gives becomes a location once; code outside
//! of `storage` uses a run through its location and does not know how it is kept.

mod lifecycle;
mod saved_run;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_base::owner::RunRequest;
use strata_core::state::environment::Environment;

use super::database_url::DatabaseUrl;
use super::directory::default_location::update_latest_link;
use super::directory::names::SideFile;
use super::directory::{DirectoryContent, StorageDirectory};
use super::error::StoreError;
use super::lock::LockHolder;
use super::mailbox::{Mailbox, RequestHandler, RequestOutcome};
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
#[cfg(feature = "postgres")]
use super::postgres as database;
use super::reader::Reader;
use super::sqlite::rows::SqliteReader;
use super::sqlite::shared;
use super::sqlite_url::SqliteUrl;
use super::{
    DatabaseReport, Epoch, FileReport, Lease, LocationIdentity, SavedDefinition, TeamJsonFile,
};
use database::OwnerWait;
pub use lifecycle::{PreparedRun, VacantLocation};
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
    Directory,
    Shared(SqliteUrl),
    Database(Box<DatabaseUrl>),
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
                DatabaseUrl::parse(url).map_or_else(invalid, Self::of_database)
            }
            Some(url) if SqliteUrl::is_url(url) => {
                SqliteUrl::parse(url).map_or_else(invalid, Self::of_shared)
            }
            _ => Self {
                path,
                kind: LocationKind::Directory,
            },
        }
    }

    /// Refers to a run in a database file that holds many.
    pub(super) fn of_shared(url: SqliteUrl) -> Self {
        Self {
            path: url.to_path(),
            kind: LocationKind::Shared(url),
        }
    }

    /// Refers to a run in a database.
    pub(super) fn of_database(url: DatabaseUrl) -> Self {
        Self {
            path: url.to_path(),
            kind: LocationKind::Database(Box::new(url)),
        }
    }

    /// Whether a text is the URL of a run in a database rather than a path.
    pub fn is_url(text: &str) -> bool {
        DatabaseUrl::is_url(text) || SqliteUrl::is_url(text)
    }

    /// Returns the location at another path, or of another run in the same database, whose URL is
    /// `path`.
    pub fn beside(&self, path: &Path) -> Self {
        let name = path
            .to_str()
            .and_then(|url| DatabaseUrl::parse(url).ok()?.run);
        match (&self.kind, name) {
            (LocationKind::Database(url), Some(run)) => Self {
                path: path.into(),
                kind: LocationKind::Database(Box::new(url.with_run(&run))),
            },
            _ => Self::new(path),
        }
    }

    /// Returns the path as it was given, for messages and commands. A URL is without its password.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the paths on this machine at or under which everything lies that is stored of the run. There
    /// are none if it is stored elsewhere.
    pub fn local_paths(&self) -> Vec<PathBuf> {
        match &self.kind {
            LocationKind::Directory => vec![self.operand().into()],
            LocationKind::Shared(url) => shared::storage_files(url),
            LocationKind::Database(_) | LocationKind::Invalid(_) => Vec::new(),
        }
    }

    /// Returns the path or the URL that names the run in commands: the path of the directory, even
    /// if that of its `team.json` was given.
    pub fn operand(&self) -> &Path {
        match self.kind {
            LocationKind::Directory => StorageDirectory::path_for(&self.path),
            LocationKind::Shared(_) | LocationKind::Database(_) | LocationKind::Invalid(_) => {
                &self.path
            }
        }
    }

    /// Returns the same location, given by its operand.
    pub fn normalized(&self) -> Self {
        Self {
            path: self.operand().into(),
            kind: self.kind.clone(),
        }
    }

    /// Returns whether a run can be saved here as a `team.json` alone.
    pub fn accepts_team_json(&self) -> bool {
        matches!(self.kind, LocationKind::Directory)
    }

    /// Makes the link beside the storage directories of several teams lead to this one. Does nothing
    /// if the run is not kept in a directory, or if something else has the name of the link.
    pub fn update_latest_link(&self) -> io::Result<()> {
        match self.kind {
            LocationKind::Directory => update_latest_link(self.operand()),
            LocationKind::Shared(_) | LocationKind::Database(_) | LocationKind::Invalid(_) => {
                Ok(())
            }
        }
    }

    /// Refers to the directory, whether or not there is something; or to the database.
    pub(super) fn place(&self) -> Result<Place<'_>, StoreError> {
        match &self.kind {
            LocationKind::Directory => {
                let directory = StorageDirectory::path_for(&self.path);
                Ok(Place::Directory(StorageDirectory::new(directory)))
            }
            LocationKind::Shared(url) => Ok(Place::Shared(url)),
            LocationKind::Database(url) => Ok(Place::Database(url)),
            LocationKind::Invalid(what) => Err(StoreError::InvalidUrl {
                url: self.to_string(),
                what: what.to_string(),
            }),
        }
    }

    /// Returns the directory if there is something, or the database.
    pub(super) fn existing(&self) -> Result<Place<'_>, StoreError> {
        match self.place()? {
            Place::Directory(_) => Ok(Place::Directory(StorageDirectory::locate(&self.path)?)),
            database => Ok(database),
        }
    }

    /// Returns the directory if there is something. Fails for a database, which has no files.
    fn existing_directory(&self) -> Result<StorageDirectory, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => Ok(directory),
            Place::Shared(_) | Place::Database(_) => Err(self.without_team_json()),
        }
    }

    fn without_team_json(&self) -> StoreError {
        StoreError::NoTeam {
            path: self.path.clone(),
            what: "a database has no `team.json`; `inspect --team-json` prints one".into(),
        }
    }

    /// Returns in which form a run is saved here. Fails if there is none.
    pub fn saved_form(&self) -> Result<SavedForm, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => match directory.require_team()? {
                DirectoryContent::Database => Ok(SavedForm::Records),
                _ => Ok(SavedForm::TeamJson),
            },
            Place::Shared(url) => shared::require_run(url).map(|()| SavedForm::Records),
            Place::Database(url) => database::require_run(url).map(|()| SavedForm::Records),
        }
    }

    /// Takes a lease of the run that is saved here. Fails with `StoreError::Locked` if another
    /// process holds one. In a database, this takes seconds if that process may have been killed.
    pub fn open(&self) -> Result<OpenedRun, StoreError> {
        self.open_with(OwnerWait::Watch)
    }

    /// Takes a lease of the run that is saved here. Fails with `StoreError::Locked` at once if another
    /// process may hold one and has been heard of lately.
    pub fn open_if_free(&self) -> Result<OpenedRun, StoreError> {
        self.open_with(OwnerWait::Brief)
    }

    fn open_with(&self, wait: OwnerWait) -> Result<OpenedRun, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => {
                let opened = directory.open()?;
                Ok(OpenedRun {
                    lease: Box::new(opened.lease),
                    team_json_differs: opened.team_json_differs,
                })
            }
            Place::Shared(url) => Ok(OpenedRun {
                lease: Box::new(shared::take_lease(url)?),
                team_json_differs: false,
            }),
            Place::Database(url) => Ok(OpenedRun {
                lease: Box::new(database::take_lease(url, wait)?),
                team_json_differs: false,
            }),
        }
    }

    /// Opens the records of the run for reading, whoever holds a lease. Fails with
    /// `StoreError::NoRecords` if there is a `team.json` alone.
    pub fn read(&self) -> Result<Box<dyn Reader>, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => match directory.require_team()? {
                DirectoryContent::Database => Ok(Box::new(SqliteReader::open(&directory)?)),
                _ => Err(StoreError::NoRecords {
                    path: self.path.clone(),
                }),
            },
            Place::Shared(url) => shared::open_reader(url),
            Place::Database(url) => database::open_reader(url),
        }
    }

    /// Reads what is saved of the run, in whichever form, whoever holds a lease.
    pub fn read_saved(&self) -> Result<SavedRun, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => match directory.require_team()? {
                DirectoryContent::Database => {
                    Ok(SavedRun::Records(Box::new(SqliteReader::open(&directory)?)))
                }
                _ => Ok(SavedRun::TeamJson(directory.read_team_json()?)),
            },
            Place::Shared(url) => shared::open_reader(url).map(SavedRun::Records),
            Place::Database(url) => database::open_reader(url).map(SavedRun::Records),
        }
    }

    /// Returns which process holds a lease of the run.
    pub fn holder(&self) -> Result<LockHolder, StoreError> {
        match self.existing()? {
            Place::Directory(directory) => directory.holder(),
            Place::Shared(url) => shared::holder(url),
            Place::Database(url) => database::holder(url),
        }
    }

    /// Returns the `team.json` of the run, to write it, if it is kept in a directory.
    pub fn team_json(&self) -> Option<TeamJsonFile> {
        match self.kind {
            LocationKind::Directory => Some(TeamJsonFile::in_directory(self.operand())),
            LocationKind::Shared(_) | LocationKind::Database(_) | LocationKind::Invalid(_) => None,
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
        self.existing_directory()?.read_team_json()
    }

    /// Returns whether another program changed the `team.json` beside its records.
    pub fn is_team_json_edited(&self) -> Result<bool, StoreError> {
        let Place::Directory(directory) = self.existing()? else {
            return Ok(false);
        };
        match directory.require_team()? {
            DirectoryContent::Database => {
                directory.is_team_json_edited(&SqliteReader::open(&directory)?)
            }
            _ => Ok(false),
        }
    }

    /// Creates records from a `team.json` alone, and takes a lease. `bytes` is the content of that
    /// file, and `base` the state that it describes.
    pub fn import_team_json(
        &self,
        bytes: &[u8],
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Box<dyn Lease>, StoreError> {
        let directory = self.existing_directory()?;
        let lease = directory.import_team_json(bytes, base, definition)?;
        Ok(Box::new(lease))
    }

    /// Fails if a run is saved here, in whatever form.
    pub fn require_vacant(&self) -> Result<(), StoreError> {
        let directory = match self.place()? {
            Place::Directory(directory) => directory,
            Place::Shared(url) => return shared::require_vacant(url),
            Place::Database(url) => return database::require_vacant(url),
        };
        match directory.content()? {
            DirectoryContent::TeamJson | DirectoryContent::Database => Err(StoreError::Occupied {
                path: self.path.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// Saves a `team.json` here, where no run may be saved yet. Fails for a database.
    pub fn place_team_json(&self, text: &str) -> Result<(), StoreError> {
        match self.place()? {
            Place::Directory(directory) => directory.place_team_json(text),
            Place::Shared(_) | Place::Database(_) => Err(self.without_team_json()),
        }
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
        match self.place()? {
            Place::Directory(directory) => directory.place_team(text, base, definition, blobs),
            Place::Shared(url) => shared::place_run(url, base, definition, blobs),
            Place::Database(url) => database::place_run(url, base, definition, blobs),
        }
    }

    /// Returns what the server has of what runs need, or `None` if the run is kept elsewhere.
    pub fn examine_database(&self) -> Result<Option<DatabaseReport>, StoreError> {
        match self.place()? {
            Place::Directory(_) | Place::Shared(_) => Ok(None),
            Place::Database(url) => database::examine(url).map(Some),
        }
    }

    /// Returns what the file has of what runs need, if the run is kept in a file of many.
    pub fn examine_file(&self) -> Result<Option<FileReport>, StoreError> {
        match self.place()? {
            Place::Shared(url) => shared::examine(url).map(Some),
            Place::Directory(_) | Place::Database(_) => Ok(None),
        }
    }

    /// Returns what distinguishes the run that is kept here from another that could be.
    pub fn identity(&self) -> Result<LocationIdentity, StoreError> {
        match self.place()? {
            Place::Directory(directory) => directory.identity(),
            Place::Shared(url) => shared::run_identity(url),
            Place::Database(url) => {
                let identity = database::run_identity(url)?;
                Ok(LocationIdentity {
                    path: self.path.clone(),
                    number: identity.key,
                    created_ns: Some(identity.created_ns),
                })
            }
        }
    }

    /// Starts to answer requests to the owner of the run, which is this process, under a lease with this
    /// epoch. Must be called within a tokio runtime.
    pub fn receive_requests(&self, epoch: Epoch, handler: RequestHandler) -> io::Result<Mailbox> {
        match self.place().map_err(io::Error::other)? {
            Place::Directory(directory) => directory.receive_requests(handler).map(Mailbox::Socket),
            Place::Shared(url) => {
                shared::receive_requests(url, epoch, handler).map(Mailbox::Socket)
            }
            Place::Database(url) => {
                database::receive_requests(url, epoch, handler).map(Mailbox::Database)
            }
        }
    }

    /// Sends a request to the owner of the run and waits for the reply.
    pub fn request_owner(&self, request: RunRequest) -> RequestOutcome {
        match self.place() {
            Ok(Place::Directory(directory)) => directory.request_owner(request),
            Ok(Place::Shared(url)) => shared::request_owner(url, request),
            Ok(Place::Database(url)) => database::request_owner(url, &request),
            Err(error) => RequestOutcome::NotSent(error),
        }
    }

    /// Returns the name of the run, if it is kept in a database.
    pub fn run_name(&self) -> Option<&str> {
        match &self.kind {
            LocationKind::Shared(url) => url.run.as_deref(),
            LocationKind::Database(url) => url.run.as_deref(),
            LocationKind::Directory | LocationKind::Invalid(_) => None,
        }
    }

    /// Returns whether the run is kept in a database server. Only those whom its operator has let in
    /// can write to it, whereas a file may come from anybody.
    pub fn is_in_database(&self) -> bool {
        matches!(self.kind, LocationKind::Database(_))
    }

    /// Returns why nothing can be created here, if something else is where it has to be.
    pub fn obstacle(&self) -> Option<StoreError> {
        match self.place() {
            Ok(Place::Directory(directory)) => directory.obstacle(),
            Ok(Place::Shared(url)) => shared::obstacle(url),
            Ok(Place::Database(_)) => None,
            Err(error) => Some(error),
        }
    }

    /// Whether a file is one of those in which the run is saved, or has the name of one.
    pub fn is_storage_file(&self, file: &Path) -> bool {
        match self.existing() {
            Ok(Place::Directory(directory)) => directory.is_storage_file(file),
            Ok(Place::Shared(url)) => shared::is_storage_file(url, file),
            Ok(Place::Database(_)) | Err(_) => false,
        }
    }

    /// Returns the files that change whenever the run is saved.
    pub fn changing_files(&self) -> Vec<PathBuf> {
        match self.place() {
            Ok(Place::Directory(directory)) => vec![directory.database(), directory.team_json()],
            Ok(Place::Shared(url)) => {
                vec![url.file.clone(), SideFile::Wal.beside(&url.file)]
            }
            _ => Vec::new(),
        }
    }

    /// Whether two locations are the same, however they are given.
    pub fn is_same(&self, other: &Self) -> bool {
        let resolve = |location: &Self| {
            let directory = location.existing_directory()?;
            let path = directory.path();
            Ok::<_, StoreError>(std::fs::canonicalize(path).unwrap_or_else(|_| path.into()))
        };
        match (&self.kind, &other.kind) {
            (LocationKind::Database(one), LocationKind::Database(other)) => one == other,
            (LocationKind::Shared(one), LocationKind::Shared(other)) => shared::is_same(one, other),
            _ => matches!((resolve(self), resolve(other)), (Ok(one), Ok(other)) if one == other),
        }
    }
}

/// A directory, a database file or a database.
pub(super) enum Place<'a> {
    Directory(StorageDirectory),
    Shared(&'a SqliteUrl),
    Database(&'a DatabaseUrl),
}
