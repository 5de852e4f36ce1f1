//! A database that many runs of this process share, open once for all of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

use rusqlite::Connection;
use strata_base::process::wait::wait;
use strata_records::caps::CapAccounts;
use strata_records::error::StoreError;
use strata_records::record_hold::HeldNames;
use strata_records::served::ChangedRun;
use strata_records::work::WorkerProfile;
use tokio::sync::{Notify, broadcast};

use super::super::create::DatabaseImage;
use super::super::rows::{SqliteReader, SqliteRows, WHOLE_DATABASE};
use super::super::write_connection::WriteConnection;
use super::change::{Change, ChangeTerms, PendingChange};
use super::owner_note::remove_owner_notes;
use super::queue::{LeasedRun, Queue};
use super::writer::start_writer;
use crate::directory::names::SideFile;
use crate::file::{self, FilePlace};
use crate::lock::StorageLock;
use crate::owner_socket::note_in_lock;
use crate::progress::WriteProgress;
use crate::revision::RevisionCounter;
use crate::schema::create_queue_tables;
use crate::sqlite_url::SqliteUrl;

/// The size at which the log is moved into the database, in pages of 4 KiB: 64 MiB. It is larger than that
/// of a single run, since all runs wait meanwhile.
const LOG_PAGES: u32 = 16_000;

/// How many connections are kept that nobody reads with.
const MAX_IDLE_READERS: usize = 8;

/// The databases that are open in this process.
static OPEN: Mutex<OpenDatabases> = Mutex::new(OpenDatabases {
    databases: BTreeMap::new(),
    names: BTreeMap::new(),
});

/// The databases that are open in this process, as long as somebody has a handle.
struct OpenDatabases {
    /// By their paths without links.
    databases: BTreeMap<PathBuf, Weak<SharedDatabase>>,
    /// Their paths without links, by those under which they were opened: after the directory of one was moved away, its
    /// links cannot be resolved.
    names: BTreeMap<PathBuf, PathBuf>,
}

impl OpenDatabases {
    /// Returns the database at a path, if it is open. Fails with `StoreError::Displaced` if it is, and its file is not there
    /// any more.
    fn find(&self, path: &Path) -> Result<Option<Arc<SharedDatabase>>, StoreError> {
        let find = |path: &PathBuf| self.databases.get(path).and_then(Weak::upgrade);
        match canonical_path(path) {
            Ok(path) => {
                let found = find(&path);
                if let Some(database) = &found {
                    database.place.check()?;
                }
                Ok(found)
            }
            Err(StoreError::Absent { .. }) => {
                let name = std::path::absolute(path).ok();
                match name.and_then(|name| self.names.get(&name)).and_then(find) {
                    Some(_) => Err(StoreError::Displaced { path: path.into() }),
                    None => Ok(None),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn insert(&mut self, name: &Path, path: PathBuf, database: &Arc<SharedDatabase>) {
        self.databases.retain(|_, other| other.strong_count() > 0);
        self.databases
            .insert(path.clone(), Arc::downgrade(database));
        let databases = &self.databases;
        self.names.retain(|_, path| databases.contains_key(path));
        self.names
            .extend(std::path::absolute(name).map(|name| (name, path)));
    }
}

/// What happens if there is no database at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingDatabase {
    /// It is created, with its directory.
    Create,
    /// Opening it fails.
    Fail,
}

/// A database that is open to change its runs. It is closed when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct SharedDatabase {
    path: Arc<Path>,
    /// Where its file has to be.
    place: FilePlace,
    queue: Arc<Queue>,
    /// `None` once it has ended.
    writer: Option<JoinHandle<()>>,
    /// Whether the lock says that this process can be reached.
    is_reachable: OnceLock<()>,
    /// Whether it is known to have the tables of a queue.
    is_queue: OnceLock<()>,
    /// The worker of this process that takes its runs, and how that is told of new ones.
    worker: Mutex<FileWorkerState>,
    /// The names that are held of its records.
    held_names: HeldNames,
    /// What this process may spend of the caps of its runs, while one of them or the worker needs it.
    caps: Mutex<Weak<CapAccounts>>,
    /// Connections that nobody reads with at the moment: opening one checks the schema.
    idle_readers: Mutex<Vec<SqliteReader>>,
    /// Dropped after the thread has closed the database.
    _lock: StorageLock,
}

/// A connection that reads what all runs have together. It is used again by others.
pub(super) struct SharedReader {
    /// `None` only while it is dropped.
    reader: Option<SqliteReader>,
    database: DatabaseHandle,
}

impl std::ops::Deref for SharedReader {
    type Target = SqliteReader;

    fn deref(&self) -> &SqliteReader {
        self.reader
            .as_ref()
            .expect("it is there until it is dropped")
    }
}

impl Drop for SharedReader {
    fn drop(&mut self) {
        let mut idle = self.database.idle_readers();
        if idle.len() < MAX_IDLE_READERS {
            idle.extend(self.reader.take());
        }
    }
}

/// The worker of this process.
#[derive(Debug, Default)]
struct FileWorkerState {
    /// What it says about itself while it takes runs.
    profile: Option<WorkerProfile>,
    notified: Option<Arc<Notify>>,
    /// Whether it was told to take no more runs and to end.
    is_draining: bool,
}

/// Keeps a database open. Whoever opens it next waits until it is closed.
#[derive(Clone, Debug)]
pub(super) struct DatabaseHandle(Option<Arc<SharedDatabase>>);

impl Drop for DatabaseHandle {
    fn drop(&mut self) {
        let _open = open_databases();
        self.0 = None;
    }
}

impl std::ops::Deref for DatabaseHandle {
    type Target = SharedDatabase;

    fn deref(&self) -> &SharedDatabase {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DatabaseHandle {
    /// Returns what this process may spend of the caps of its runs, or creates it.
    pub(super) fn caps_or_create(
        &self,
        create: impl FnOnce(Self) -> Arc<CapAccounts>,
    ) -> Arc<CapAccounts> {
        let mut known = self.caps.lock().unwrap_or_else(PoisonError::into_inner);
        known.upgrade().unwrap_or_else(|| {
            let caps = create(self.clone());
            *known = Arc::downgrade(&caps);
            caps
        })
    }

    /// Creates the tables that a database needs for submitted runs, unless it has them.
    fn with_queue_tables(self) -> Result<Self, StoreError> {
        if self.is_queue.get().is_none() {
            self.change(ChangeTerms::durable(), create_queue_tables)?;
            let _ = self.is_queue.set(());
        }
        Ok(self)
    }

    /// Makes a change, beginning when it is polled. Fails if the change is refused.
    pub(super) async fn make<T: Send + 'static>(
        self,
        terms: ChangeTerms,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outcome = self.begin(terms, write).outcome().await?;
        outcome.ok_or_else(|| StoreError::Fenced {
            path: self.path().into(),
        })
    }
}

fn open_databases() -> MutexGuard<'static, OpenDatabases> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the files of a database: itself, those beside it and its lock.
pub(super) fn database_files(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![
        path.to_path_buf(),
        file::temporary_path(path),
        SideFile::Lock.beside(path),
    ];
    files.extend(SideFile::OF_DATABASE.map(|side| side.beside(path)));
    files
}

impl SharedDatabase {
    /// Opens the database at a path, or returns the one that is open in this process. Fails with
    /// `StoreError::Locked` if another process has it open to change it, and with `StoreError::Absent` if
    /// there is none.
    pub(super) fn open(
        path: &Path,
        missing: MissingDatabase,
    ) -> Result<DatabaseHandle, StoreError> {
        let mut open = open_databases();
        if let Some(database) = open.find(path)? {
            return Ok(DatabaseHandle(Some(database)));
        }
        let directory = file::directory_of(path);
        if missing == MissingDatabase::Create {
            std::fs::create_dir_all(directory).map_err(|e| StoreError::creating(directory, e))?;
        }
        let real_path = canonical_path(path)?;
        let database = Arc::new(Self::open_unshared(&real_path, missing)?);
        open.insert(path, real_path, &database);
        Ok(DatabaseHandle(Some(database)))
    }

    /// Opens the database at a path for submitted runs. Creates it, and the tables that it needs for them.
    pub(super) fn open_queue(path: &Path) -> Result<DatabaseHandle, StoreError> {
        Self::open(path, MissingDatabase::Create)?.with_queue_tables()
    }

    /// Opens the database of a URL for submitted runs. Fails with `StoreError::Absent` if there is none: a setting for a
    /// database that nobody has created is meant for another.
    pub(super) fn open_existing_queue(url: &SqliteUrl) -> Result<DatabaseHandle, StoreError> {
        let open = Self::open(&url.file, MissingDatabase::Fail);
        let open = open.map_err(|error| match error {
            StoreError::Absent { .. } => StoreError::Absent {
                path: url.to_path(),
            },
            error => error,
        });
        open?.with_queue_tables()
    }

    /// Returns the database at a path, if this process has it open to change it. Fails with `StoreError::Displaced` if the
    /// file that is open is not there any more.
    fn find_open(path: &Path) -> Result<Option<DatabaseHandle>, StoreError> {
        let found = open_databases().find(path)?;
        Ok(found.map(|database| DatabaseHandle(Some(database))))
    }

    /// Whether this process has the database at a path open to change it. Fails with `StoreError::Displaced` if it does,
    /// and the file is not there any more.
    pub(super) fn is_open_here(path: &Path) -> Result<bool, StoreError> {
        Ok(Self::find_open(path)?.is_some())
    }

    /// Opens a database that is not open in this process.
    fn open_unshared(path: &Path, missing: MissingDatabase) -> Result<Self, StoreError> {
        file::require_regular(database_files(path))?;
        if !path.exists() && missing == MissingDatabase::Fail {
            return Err(StoreError::Absent { path: path.into() });
        }
        let lock = StorageLock::acquire_file(SideFile::Lock.beside(path), path)?;
        let connection = if path.exists() {
            WriteConnection::open(path, WHOLE_DATABASE, LOG_PAGES)?
        } else {
            WriteProgress::require_no_loss(path)?;
            let image = DatabaseImage::without_runs(path)?;
            WriteConnection::create(path, &image, WHOLE_DATABASE, LOG_PAGES)?
        };
        let place = connection.place().clone();
        let queue = Arc::new(Queue::new(path.to_path_buf()));
        let writer = start_writer(connection, Arc::clone(&queue))
            .map_err(|e| StoreError::io(path, "start a thread that writes to", e))?;
        let database = Self {
            path: path.into(),
            place,
            queue,
            writer: Some(writer),
            is_reachable: OnceLock::new(),
            is_queue: OnceLock::new(),
            worker: Mutex::default(),
            held_names: HeldNames::default(),
            caps: Mutex::default(),
            idle_readers: Mutex::default(),
            _lock: lock,
        };
        // They are of processes that were killed. What is written later comes after this.
        drop(database.begin(ChangeTerms::default(), remove_owner_notes));
        Ok(database)
    }

    /// Opens a database as another process does that takes the lock for one left behind.
    #[cfg(test)]
    pub(crate) fn open_again(path: &Path) -> TestDatabase {
        let path = canonical_path(path).unwrap();
        std::fs::remove_file(SideFile::Lock.beside(&path)).unwrap();
        let database = Self::open_unshared(&path, MissingDatabase::Fail).unwrap();
        TestDatabase(DatabaseHandle(Some(Arc::new(database))))
    }

    /// Returns its path, without links.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails with `StoreError::WriteFailed` if nothing can be written any more before it is opened again.
    pub(super) fn check_writable(&self) -> Result<(), StoreError> {
        self.queue.failure().map_or(Ok(()), Err)
    }

    /// Returns what `check_writable` does for the database at a path, if this process has that open to change it.
    pub(super) fn check_open_writable(path: &Path) -> Result<(), StoreError> {
        match Self::find_open(path) {
            Ok(Some(database)) => database.check_writable(),
            // One that was moved away can be put back.
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Notes that a lease of a run is taken; returns `None` if this process has one.
    pub(super) fn lease_run(&self, run: i64) -> Option<LeasedRun> {
        self.queue.lease(run)
    }

    /// Begins a change, which another thread writes.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        terms: ChangeTerms,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> PendingChange<T> {
        let (change, pending) = Change::new(Arc::clone(&self.path), terms, write);
        self.queue.push(change);
        pending
    }

    /// Makes a change. Returns what it wrote, or `None` if it was refused.
    pub(super) fn change<T: Send + 'static>(
        &self,
        terms: ChangeTerms,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        wait(self.begin(terms, write).outcome())
    }

    fn idle_readers(&self) -> MutexGuard<'_, Vec<SqliteReader>> {
        self.idle_readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection that reads the database at a path, if this process has that open to change it.
    pub(super) fn shared_reader(path: &Path) -> Result<Option<SharedReader>, StoreError> {
        let Some(database) = Self::find_open(path)? else {
            return Ok(None);
        };
        let idle = database.idle_readers().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => {
                // It was checked when it was opened.
                let path = database.path().to_path_buf();
                SqliteReader::from_rows(SqliteRows::open_beside_writer(path, WHOLE_DATABASE)?)
            }
        };
        Ok(Some(SharedReader {
            reader: Some(reader),
            database,
        }))
    }

    /// Returns the names that are held of its records.
    pub(super) fn held_names(&self) -> &HeldNames {
        &self.held_names
    }

    fn worker(&self) -> MutexGuard<'_, FileWorkerState> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether a worker of this process takes its runs, and what it says about itself.
    pub(super) fn set_claiming(&self, profile: Option<WorkerProfile>) {
        let mut worker = self.worker();
        worker.profile = profile;
        worker.is_draining = false;
    }

    /// Tells the worker of this process to take no more runs and to end. Returns whether there is one, and has this id.
    pub(super) fn drain_worker(&self, id: &str) -> bool {
        let is_meant = {
            let mut worker = self.worker();
            let is_meant = worker.profile.is_some() && id == std::process::id().to_string();
            worker.is_draining |= is_meant;
            is_meant
        };
        self.notify_workers();
        is_meant
    }

    /// Returns whether this process takes runs.
    pub(super) fn is_claiming(&self) -> bool {
        self.worker().profile.is_some()
    }

    /// Returns whether the worker of this process was told to take no more runs and to end.
    pub(super) fn is_draining(&self) -> bool {
        self.worker().is_draining
    }

    /// Returns what the worker of this process says about itself that takes the runs of the database at a path, and whether
    /// it is about to end.
    pub(super) fn claiming(path: &Path) -> Option<(WorkerProfile, bool)> {
        let database = Self::find_open(path).ok().flatten()?;
        let worker = database.worker();
        let profile = worker.profile.clone()?;
        Some((profile, worker.is_draining))
    }

    /// Returns how many runs of the database at a path this process has leases of.
    pub(super) fn count_leases(path: &Path) -> usize {
        let database = Self::find_open(path).ok().flatten();
        database.map_or(0, |database| database.queue.leases())
    }

    /// Has `notified` fire when runs may have become due.
    pub(super) fn notify_with(&self, notified: Arc<Notify>) {
        self.worker().notified = Some(notified);
    }

    /// Tells the worker of this process that runs may have become due.
    pub(super) fn notify_workers(&self) {
        if let Some(notified) = &self.worker().notified {
            notified.notify_one();
        }
    }

    /// Tells which runs change from now on.
    pub(super) fn watch_changes(&self) -> broadcast::Receiver<ChangedRun> {
        self.queue.changes().subscribe()
    }

    /// Returns what counts its changes.
    pub(super) fn revision(&self) -> RevisionCounter {
        self.queue.revision().clone()
    }

    /// Tells those who watch that a run has changed.
    pub(super) fn note_changed(&self, run: i64) {
        self.queue.note_changed(run);
    }

    /// Has the lock say that this process can be reached at sockets in a directory, so that others do not
    /// wait for the lock.
    pub(super) fn note_reachable(&self, sockets: &Path) -> Result<(), StoreError> {
        if self.is_reachable.set(()).is_err() {
            return Ok(());
        }
        note_in_lock(&SideFile::Lock.beside(&self.path), sockets)
    }
}

impl Drop for SharedDatabase {
    fn drop(&mut self) {
        // A connection would keep the log from being moved.
        self.idle_readers().clear();
        self.queue.close();
        let ended = self.writer.take().map(JoinHandle::join);
        self.queue.revision().close();
        if let Some(Err(_)) = ended {
            tracing::warn!(
                "the thread that wrote `{}` has panicked",
                self.path.display()
            );
        }
    }
}

/// A database that is open a second time.
#[cfg(test)]
pub(crate) struct TestDatabase(DatabaseHandle);

#[cfg(test)]
impl TestDatabase {
    /// Takes a lease of a run.
    pub(crate) fn take_lease(&self, run: i64) -> super::SharedLease {
        super::QueuedWriter::take(self.0.clone(), run, Path::new("sqlite:again")).unwrap()
    }
}

/// Returns the path of a database without links above it. The database itself need not exist.
pub(super) fn canonical_path(path: &Path) -> Result<PathBuf, StoreError> {
    let directory = file::directory_of(path);
    match directory.canonicalize() {
        Ok(directory) => Ok(directory.join(path.file_name().unwrap_or_default())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(StoreError::Absent { path: path.into() })
        }
        Err(e) => Err(StoreError::io(directory, "open", e)),
    }
}
