//! The storage directory: what it contains, and how a run is started or continued in it. How it is
//! moved aside is in `aside`.
//!
//! Nothing that was saved is deleted here unless that is asked for, and a path without a team is left unchanged.

mod aside;
pub(super) mod default_location;
mod deletions;
pub(super) mod file;
pub(super) mod lock;
pub(super) mod names;
pub(super) mod progress;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::error::StoreError;
use strata_records::lineage::DIRECTORY_RUN;
use strata_records::reader::RecordedRun;

use super::TEAM_JSON;
use super::lock::{LOCK_FILE, StorageLock, directory_holder};
use super::progress::WriteProgress;
use super::sqlite::rows::{SqliteReader, SqliteRows};
use super::sqlite::{DatabaseImage, InlineWriter, SqliteLease};
use super::{Durability, Lease, LocationIdentity, SavedDefinition, StateSelector, TeamJsonFile};
use super::{LockHolder, ReplacePolicy};

use aside::ASIDE_PREFIX;
pub use aside::KEPT_ASIDE;
use file::FileIdentity;
use names::{DATABASE, PROGRESS_FILE, TEMPORARY_DATABASE};

/// The prefix of the names under which a file that MetaGPT wrote is preserved.
const METAGPT_PREFIX: &str = "team.metagpt";
/// The maximum number of such files.
const MAX_METAGPT_FILES: u32 = 1_000;

/// A directory that holds a team, or may hold one later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageDirectory {
    path: PathBuf,
}

impl AsRef<Path> for StorageDirectory {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// What a directory contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryContent {
    /// The directory does not exist.
    Absent,
    /// Nothing.
    Empty,
    /// Files, but none of ours.
    Foreign,
    /// A `team.json`, but no database.
    TeamJson,
    /// A `team.db`, usually with a `team.json`.
    Database,
}

/// A run that was opened.
#[derive(Debug)]
pub struct OpenedDirectory {
    /// The right to append to it. It holds the directory's lock.
    pub lease: SqliteLease,
    /// Whether another program changed the `team.json` beside it. The database takes precedence.
    pub team_json_differs: bool,
}

/// A directory that is locked for a fresh run and has no database yet.
#[derive(Debug)]
pub struct VacantDirectory {
    path: PathBuf,
    lock: StorageLock,
    /// The directory to which the previous team was moved.
    pub moved_to: Option<PathBuf>,
}

impl VacantDirectory {
    /// Creates the database from its bytes.
    pub(super) fn create(self, image: &DatabaseImage) -> Result<SqliteLease, StoreError> {
        InlineWriter::create(self.lock, &self.path, image)
    }
}

/// A run that was created.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct CreatedRun {
    /// The right to append to it. It holds the directory's lock.
    pub lease: SqliteLease,
    /// The directory to which the previous team was moved.
    pub moved_to: Option<PathBuf>,
}

impl StorageDirectory {
    /// Refers to the directory at this path, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the directory that an operator refers to, by its own path or by that of its
    /// `team.json`.
    pub fn locate(path: &Path) -> Result<Self, StoreError> {
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return Err(deletions::absence(path));
            }
            Err(e) => return Err(StoreError::io(path, "open", e)),
        };
        if meta.is_dir() {
            return Ok(Self::new(path));
        }
        if path.file_name().is_some_and(|name| name == TEAM_JSON) {
            return Ok(Self::new(Self::path_for(path)));
        }
        Err(StoreError::NoTeam {
            path: path.into(),
            what: "it is a file of another name than `team.json`".into(),
        })
    }

    /// Returns the path of the directory that an operator refers to, whether or not it exists. Only
    /// an existing file named `team.json` refers to the directory that contains it: if nothing is
    /// there yet, a directory of that name will be.
    pub(super) fn path_for(path: &Path) -> &Path {
        let is_file = || std::fs::metadata(path).is_ok_and(|meta| !meta.is_dir());
        let is_team_json = path.file_name().is_some_and(|name| name == TEAM_JSON) && is_file();
        match path.parent() {
            Some(parent) if is_team_json && parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) if is_team_json => parent,
            _ => path,
        }
    }

    /// Returns why it cannot be created if something else is where it has to be, at its path or above.
    pub fn obstacle(&self) -> Option<StoreError> {
        StoreError::no_directory(&self.path, "create")
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of its `team.json`.
    pub fn team_json(&self) -> PathBuf {
        self.projection().path()
    }

    /// Returns its `team.json`, to write it.
    pub fn projection(&self) -> TeamJsonFile {
        TeamJsonFile::in_directory(&self.path)
    }

    /// Returns the path of its database.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Returns what distinguishes it from another directory at the same path.
    pub fn identity(&self) -> Result<LocationIdentity, StoreError> {
        let FileIdentity {
            path,
            inode,
            created_ns,
        } = FileIdentity::read(&self.path)?;
        Ok(LocationIdentity {
            path,
            number: inode,
            created_ns,
        })
    }

    /// Returns which process holds its lock.
    pub fn holder(&self) -> Result<LockHolder, StoreError> {
        directory_holder(&self.path)
    }

    /// Whether a file is one of those in which the team is saved, or has the name of one.
    pub fn is_storage_file(&self, file: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let above = |path: &Path| {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            whole(above.unwrap_or(Path::new(".")))
        };
        let is_ours =
            |name: &str| file::STORAGE_FILES.contains(&name) || name.starts_with(METAGPT_PREFIX);
        let is_named = file
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(is_ours)
            && above(file).is_some_and(|above| Some(above) == whole(&self.path));
        let is_one = |file: PathBuf| {
            file::STORAGE_FILES
                .iter()
                .any(|name| whole(&self.path.join(name)).as_ref() == Some(&file))
        };
        is_named || whole(file).is_some_and(is_one)
    }

    /// Returns what the directory contains.
    pub fn content(&self) -> Result<DirectoryContent, StoreError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(DirectoryContent::Absent),
            Err(e) => return Err(StoreError::io(&self.path, "open", e)),
        };
        let mut content = DirectoryContent::Empty;
        for entry in entries {
            let name = entry
                .map_err(|e| StoreError::io(&self.path, "open", e))?
                .file_name();
            match name.to_str() {
                Some(DATABASE) => return Ok(DirectoryContent::Database),
                Some(TEAM_JSON) => content = DirectoryContent::TeamJson,
                Some(name) if is_leftover(name) => {}
                _ if content == DirectoryContent::Empty => content = DirectoryContent::Foreign,
                _ => {}
            }
        }
        Ok(content)
    }

    /// Fails if the database is missing although changes were recorded in it: continuing without it
    /// would repeat all of them.
    fn check_no_loss(&self, content: DirectoryContent) -> Result<(), StoreError> {
        let may_lack = match content {
            DirectoryContent::TeamJson => true,
            // Otherwise the recorded changes are those of the team that was moved aside.
            DirectoryContent::Empty | DirectoryContent::Foreign => self.newest_aside().is_none(),
            DirectoryContent::Database | DirectoryContent::Absent => false,
        };
        if may_lack {
            WriteProgress::require_no_loss(&self.database())?;
        }
        Ok(())
    }

    /// Returns what the directory contains. Fails if that is not a team.
    pub fn require_team(&self) -> Result<DirectoryContent, StoreError> {
        let none = |what: &str| {
            Err(StoreError::NoTeam {
                path: self.path.clone(),
                what: what.into(),
            })
        };
        let content = self.content()?;
        self.check_no_loss(content)?;
        match content {
            DirectoryContent::Absent => Err(deletions::absence(&self.path)),
            DirectoryContent::Empty | DirectoryContent::Foreign
                if let Some(aside) = self.newest_aside() =>
            {
                let aside = aside.display();
                none(&format!(
                    "a fresh run was cut off before it began; the team before it lies in `{aside}`"
                ))
            }
            DirectoryContent::Empty => none("the directory is empty"),
            DirectoryContent::Foreign => {
                none("the directory holds neither `team.db` nor `team.json`")
            }
            team @ (DirectoryContent::TeamJson | DirectoryContent::Database) => Ok(team),
        }
    }

    /// Returns the content of its `team.json`.
    pub fn read_team_json(&self) -> Result<Vec<u8>, StoreError> {
        file::require_regular_files(&self.path)?;
        let path = self.team_json();
        let size = std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
        if size > strata_team_json::MAX_BYTES {
            let what = format!(
                "the file has {size} bytes, at most {} are read",
                strata_team_json::MAX_BYTES
            );
            return Err(StoreError::NoTeam { path, what });
        }
        file::read_if_exists(&path)?.ok_or(StoreError::Absent { path })
    }

    /// Opens its database, to continue the run.
    pub fn open(&self) -> Result<OpenedDirectory, StoreError> {
        let lock = StorageLock::acquire(&self.path)?;
        let store = InlineWriter::open(lock, &self.path, DIRECTORY_RUN.0)?;
        let team_json_differs = self.projection().differs(|name| store.note(name))?;
        Ok(OpenedDirectory {
            lease: store,
            team_json_differs,
        })
    }

    /// Returns whether another program changed the `team.json` beside a database that is open for
    /// reading.
    pub fn is_team_json_edited(&self, reader: &SqliteReader) -> Result<bool, StoreError> {
        self.projection().differs(|name| reader.note(name))
    }

    /// Creates a database from its `team.json`. `bytes` is the content of that file, and `base` the
    /// state that it describes.
    pub fn import_team_json(
        &self,
        bytes: &[u8],
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<SqliteLease, StoreError> {
        let lock = StorageLock::acquire(&self.path)?;
        let content = self.content()?;
        if content == DirectoryContent::Database {
            // Another process has imported it in the meantime, and its run may have continued
            // since.
            return Err(StoreError::Locked {
                path: self.path.clone(),
                pid: None,
            });
        }
        self.check_no_loss(content)?;
        if strata_team_json::is_foreign(bytes) {
            self.preserve_metagpt_json(bytes)?;
        }
        let image = DatabaseImage::new(&self.path, base, definition, &Blobs::new())?;
        let mut store = InlineWriter::create(lock, &self.path, &image)?;
        self.projection().remember(&mut store, bytes)?;
        Ok(store)
    }

    /// Preserves the file of another program, which ours will replace: as `team.metagpt.json`, or
    /// with a number if that name is taken. Only the holder of the lock may do so.
    fn preserve_metagpt_json(&self, bytes: &[u8]) -> Result<(), StoreError> {
        for n in 1..=MAX_METAGPT_FILES {
            let number = if n == 1 {
                String::new()
            } else {
                format!("-{n}")
            };
            let name = format!("{METAGPT_PREFIX}{number}.json");
            match std::fs::symlink_metadata(self.path.join(&name)) {
                Err(_) => {
                    return file::prepare_file(&self.path, &name, &|out| out.write_all(bytes))?
                        .publish();
                }
                Ok(meta) if meta.is_file() && meta.len() == bytes.len() as u64 => {
                    if file::read_if_exists(&self.path.join(&name))?
                        .is_some_and(|kept| kept == bytes)
                    {
                        return Ok(());
                    }
                }
                Ok(_) => {}
            }
        }
        let error =
            std::io::Error::other(format!("there are {MAX_METAGPT_FILES} such files already"));
        Err(StoreError::io(
            &self.path.join(format!("{METAGPT_PREFIX}.json")),
            "create",
            error,
        ))
    }

    /// Writes a `team.json` into a directory that contains no team yet.
    pub fn place_team_json(&self, text: &str) -> Result<(), StoreError> {
        let _lock = self.lock_empty()?;
        file::prepare_file(&self.path, TEAM_JSON, &|out| out.write_all(text.as_bytes()))?.publish()
    }

    /// Creates a database and its `team.json` in a directory that contains no team yet. `blobs` are
    /// the bytes of the team's files.
    pub fn place_team(
        &self,
        text: &str,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<(), StoreError> {
        let lock = self.lock_empty()?;
        let image = DatabaseImage::new(&self.path, base, definition, blobs)?;
        let mut store = InlineWriter::create(lock, &self.path, &image)?;
        let fill: &super::WriteContent<'_> = &|out| out.write_all(text.as_bytes());
        self.projection().write(&mut store, fill, Durability::Full)
    }

    /// Creates the directory if necessary, and locks it. Fails if it contains a team.
    fn lock_empty(&self) -> Result<StorageLock, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(|e| StoreError::creating(&self.path, e))?;
        let lock = StorageLock::acquire(&self.path)?;
        match self.content()? {
            DirectoryContent::TeamJson | DirectoryContent::Database => Err(StoreError::Occupied {
                path: self.path.clone(),
            }),
            _ => Ok(lock),
        }
    }

    /// Creates a database for a fresh run, like `vacate` followed by `VacantDirectory::create`.
    #[cfg(test)]
    pub(super) fn create(
        &self,
        replace: ReplacePolicy,
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<CreatedRun, StoreError> {
        let vacant = self.vacate(replace)?;
        let moved_to = vacant.moved_to.clone();
        let image = DatabaseImage::new(&self.path, base, definition, &Blobs::new())?;
        let lease = vacant.create(&image)?;
        Ok(CreatedRun { lease, moved_to })
    }

    /// Locks the directory for a fresh run. A finished team is moved aside; an unfinished one only
    /// if `replace` says so.
    pub fn vacate(&self, replace: ReplacePolicy) -> Result<VacantDirectory, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(|e| StoreError::creating(&self.path, e))?;
        let lock = StorageLock::acquire(&self.path)?;
        let content = self.content()?;
        if replace == ReplacePolicy::Never {
            self.check_no_loss(content)?;
        }
        let moved_to = match content {
            DirectoryContent::Absent | DirectoryContent::Empty | DirectoryContent::Foreign => None,
            DirectoryContent::TeamJson | DirectoryContent::Database
                if replace == ReplacePolicy::Unfinished || self.is_finished()? =>
            {
                Some(self.move_aside()?)
            }
            DirectoryContent::TeamJson | DirectoryContent::Database => {
                return Err(StoreError::Unfinished {
                    path: self.path.clone(),
                    file: self.team_file_name(),
                });
            }
        };
        Ok(VacantDirectory {
            path: self.path.clone(),
            lock,
            moved_to,
        })
    }

    /// Returns the name of the team file of the saved team.
    fn team_file_name(&self) -> Option<String> {
        let definition = match self.content().ok()? {
            DirectoryContent::Database => SqliteRows::open(self).ok()?.definition().ok()?,
            _ => strata_team_json::saved_definition(&self.read_team_json().ok()?).ok()??,
        };
        Some(definition.name)
    }

    /// Whether a resume of the saved team would have nothing to do.
    fn is_finished(&self) -> Result<bool, StoreError> {
        if self.content()? != DirectoryContent::Database {
            let finished = strata_team_json::is_finished(&self.read_team_json()?);
            return finished.map_err(|e| StoreError::Foreign {
                path: self.team_json(),
                what: e.to_string(),
            });
        }
        let saved = SqliteRows::open(self)?.load(&StateSelector::Head)?;
        Ok(saved.is_finished())
    }
}

/// Whether a name is that of a file or directory that this program leaves beside teams.
fn is_leftover(name: &str) -> bool {
    let starts = [TEMPORARY_DATABASE, ASIDE_PREFIX]
        .iter()
        .any(|start| name.starts_with(start));
    starts || [LOCK_FILE, PROGRESS_FILE, ".team.json.new"].contains(&name)
}
