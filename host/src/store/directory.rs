//! The storage directory: what lies there, and how a run begins, goes on, or makes room for another.
//!
//! Nothing that was saved is ever deleted here, and a path that holds no team is left as it is.

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use strata_core::environment::Environment;
use strata_core::event::{Event, Status};

use super::error::StoreError;
use super::lock::{Holder, LOCK_FILE, Lock};
use super::progress::Progress;
use super::reader::Reader;
use super::sqlite::{NEW_DATABASE, SqliteStore};
use super::{At, Durability, SavedDefinition, Store, file, group, schema, team_json};
use crate::blob::Blobs;

/// The database's name.
pub(super) const DATABASE: &str = "team.db";
/// What SQLite calls its log.
pub(super) const LOG: &str = "team.db-wal";
/// What it calls the index of that.
pub(super) const LOG_INDEX: &str = "team.db-shm";
/// How far the database got; see `progress`.
pub(super) const PROGRESS: &str = "team.db-progress";
/// What SQLite keeps beside a database where that is changed without the log.
pub(super) const JOURNAL: &str = "team.db-journal";
/// What is kept beside a database.
pub(super) const BESIDE: [&str; 4] = [LOG, LOG_INDEX, JOURNAL, PROGRESS];
/// The name of the state as one file.
pub(super) const TEAM_JSON: &str = "team.json";
/// What the names start with under which the file that MetaGPT wrote is kept beside ours.
const METAGPT_JSON: &str = "team.metagpt";
/// How many of these files there can be.
const MAX_METAGPT: u32 = 1_000;
/// What the directories start with into which earlier teams are moved; a number follows.
const ASIDE: &str = "old-";
/// How many of these directories there can be.
const MAX_ASIDE: u32 = 100_000;

/// A directory that holds a team, or may come to hold one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
}

/// What lies in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// It does not exist.
    Absent,
    /// Nothing.
    Empty,
    /// Nothing of ours.
    Foreign,
    /// A `team.json` alone.
    TeamJson,
    /// A `team.db`, most likely with a `team.json`.
    Database,
}

/// What happens to an unfinished team where a fresh run is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// The fresh run is refused.
    Never,
    /// It is moved aside.
    Unfinished,
}

/// An opened database.
#[derive(Debug)]
pub struct Opened {
    /// The store, which holds the directory's lock.
    pub store: SqliteStore,
    /// Whether somebody else wrote the `team.json` beside it, which is not looked at.
    pub team_json_differs: bool,
}

/// A directory that is held for a fresh run and has no database yet.
#[derive(Debug)]
pub struct Vacant {
    path: PathBuf,
    lock: Lock,
    /// Where the team went that was there before.
    pub moved_to: Option<PathBuf>,
}

impl Vacant {
    /// Makes the database.
    pub fn create(
        self,
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Created, StoreError> {
        let store = SqliteStore::create(self.lock, &self.path, (base, definition), &Blobs::new())?;
        Ok(Created {
            store,
            moved_to: self.moved_to,
        })
    }
}

/// A created database.
#[derive(Debug)]
pub struct Created {
    /// The store, which holds the directory's lock.
    pub store: SqliteStore,
    /// Where the team went that was there before.
    pub moved_to: Option<PathBuf>,
}

impl Directory {
    /// The directory at this path, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The directory that an operator means: the path itself, or that of its `team.json`.
    pub fn locate(path: &Path) -> Result<Self, StoreError> {
        let meta = match std::fs::metadata(path) {
            Ok(meta) => meta,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(StoreError::Absent { path: path.into() });
            }
            Err(e) => return Err(StoreError::io(path, "open", e)),
        };
        if meta.is_dir() {
            return Ok(Self::new(path));
        }
        if path.file_name().is_some_and(|name| name == TEAM_JSON) {
            // A bare file name has an empty parent.
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            return Ok(Self::new(parent.unwrap_or(Path::new("."))));
        }
        Err(StoreError::NoTeam {
            path: path.into(),
            what: "it is a file of another name than `team.json`".into(),
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of its `team.json`.
    pub fn team_json(&self) -> PathBuf {
        self.path.join(TEAM_JSON)
    }

    /// The path of its database.
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Which process has it, if any.
    pub fn holder(&self) -> Result<Holder, StoreError> {
        Holder::of(&self.path)
    }

    /// Whether a file is one of those in which its team is saved, or has the name of one.
    pub fn holds(&self, file: &Path) -> bool {
        let whole = |path: &Path| path.canonicalize().ok();
        let above = |path: &Path| {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            whole(above.unwrap_or(Path::new(".")))
        };
        let is_ours = |name: &str| {
            file::NAMES.contains(&name) || group::is_link(name) || name.starts_with(METAGPT_JSON)
        };
        let is_named = file
            .file_name()
            .and_then(OsStr::to_str)
            .is_some_and(is_ours)
            && above(file).is_some_and(|above| Some(above) == whole(&self.path));
        let is_one = |file: PathBuf| {
            file::NAMES
                .iter()
                .any(|name| whole(&self.path.join(name)).as_ref() == Some(&file))
        };
        is_named || whole(file).is_some_and(is_one)
    }

    /// What lies in it.
    pub fn content(&self) -> Result<Content, StoreError> {
        let entries = match std::fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Content::Absent),
            Err(e) => return Err(StoreError::io(&self.path, "open", e)),
        };
        let mut content = Content::Empty;
        for entry in entries {
            let name = entry
                .map_err(|e| StoreError::io(&self.path, "open", e))?
                .file_name();
            match name.to_str() {
                Some(DATABASE) => return Ok(Content::Database),
                Some(TEAM_JSON) => content = Content::TeamJson,
                Some(name) if is_leftover(name) => {}
                _ if content == Content::Empty => content = Content::Foreign,
                _ => {}
            }
        }
        Ok(content)
    }

    /// Fails if a database that is gone had more than nothing: whoever went on without it would do everything again.
    fn check_no_loss(&self, content: Content) -> Result<(), StoreError> {
        let may_lack = match content {
            Content::TeamJson => true,
            // Else it is that of the team which was moved aside.
            Content::Empty | Content::Foreign => self.newest_aside().is_none(),
            Content::Database | Content::Absent => false,
        };
        if !may_lack {
            return Ok(());
        }
        match Progress::read(&self.path)?.map_or(0, |progress| progress.required()) {
            0 => Ok(()),
            changes => {
                let what = format!("it is not there, and {changes} changes were recorded in it");
                Err(StoreError::corrupt(&self.database(), what))
            }
        }
    }

    /// What lies in it, if that is a team.
    pub fn team(&self) -> Result<Content, StoreError> {
        let none = |what: &str| {
            Err(StoreError::NoTeam {
                path: self.path.clone(),
                what: what.into(),
            })
        };
        let content = self.content()?;
        self.check_no_loss(content)?;
        match content {
            Content::Absent => Err(StoreError::Absent {
                path: self.path.clone(),
            }),
            Content::Empty | Content::Foreign if let Some(aside) = self.newest_aside() => {
                let aside = aside.display();
                none(&format!(
                    "a fresh run was cut off before it began; the team before it lies in `{aside}`"
                ))
            }
            Content::Empty => none("the directory is empty"),
            Content::Foreign => none("the directory holds neither `team.db` nor `team.json`"),
            team @ (Content::TeamJson | Content::Database) => Ok(team),
        }
    }

    /// The bytes of its `team.json`.
    pub fn read_team_json(&self) -> Result<Vec<u8>, StoreError> {
        file::require_files(&self.path)?;
        let path = self.team_json();
        let size = std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
        if size > team_json::MAX_BYTES {
            let what = format!(
                "the file has {size} bytes, at most {} are read",
                team_json::MAX_BYTES
            );
            return Err(StoreError::NoTeam { path, what });
        }
        file::read(&path)?.ok_or(StoreError::Absent { path })
    }

    /// Opens its database to go on with the run.
    pub fn open(&self) -> Result<Opened, StoreError> {
        let lock = Lock::take(&self.path)?;
        let store = SqliteStore::open(lock, &self.path)?;
        let team_json_differs = store.team_json_differs()?;
        Ok(Opened {
            store,
            team_json_differs,
        })
    }

    /// Makes a database of its `team.json`, whose bytes were read before and stand for `base`.
    pub fn adopt(
        &self,
        bytes: &[u8],
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<SqliteStore, StoreError> {
        let lock = Lock::take(&self.path)?;
        let content = self.content()?;
        if content == Content::Database {
            // Another process did the same in the meantime, and its run may have gone on from there.
            return Err(StoreError::Locked {
                path: self.path.clone(),
                pid: None,
            });
        }
        self.check_no_loss(content)?;
        if team_json::is_foreign(bytes) {
            self.keep_foreign(bytes)?;
        }
        let mut store = SqliteStore::create(lock, &self.path, (base, definition), &Blobs::new())?;
        store.know_team_json(bytes)?;
        Ok(store)
    }

    /// Keeps the file that another program wrote, which ours will replace: `team.metagpt.json`, or with a number where
    /// another one is there. Only the holder of the lock may do so.
    fn keep_foreign(&self, bytes: &[u8]) -> Result<(), StoreError> {
        for n in 1..=MAX_METAGPT {
            let number = if n == 1 {
                String::new()
            } else {
                format!("-{n}")
            };
            let name = format!("{METAGPT_JSON}{number}.json");
            match std::fs::symlink_metadata(self.path.join(&name)) {
                Err(_) => {
                    return file::prepare(&self.path, &name, &|out| out.write_all(bytes))?
                        .publish();
                }
                Ok(meta) if meta.is_file() && meta.len() == bytes.len() as u64 => {
                    if file::read(&self.path.join(&name))?.is_some_and(|kept| kept == bytes) {
                        return Ok(());
                    }
                }
                Ok(_) => {}
            }
        }
        let error = std::io::Error::other(format!("there are {MAX_METAGPT} such files already"));
        Err(StoreError::io(
            &self.path.join(format!("{METAGPT_JSON}.json")),
            "create",
            error,
        ))
    }

    /// Puts a `team.json` here, where no team is yet.
    pub fn give(&self, text: &str) -> Result<(), StoreError> {
        let _lock = self.take_empty()?;
        file::prepare(&self.path, TEAM_JSON, &|out| out.write_all(text.as_bytes()))?.publish()
    }

    /// Puts a team here, where none is yet, with the bytes of its files: a database, and the `team.json` of it.
    pub fn give_with(
        &self,
        text: &str,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<(), StoreError> {
        let lock = self.take_empty()?;
        let mut store = SqliteStore::create(lock, &self.path, (base, definition), blobs)?;
        store.write_team_json(&|out| out.write_all(text.as_bytes()), Durability::Full)
    }

    /// Locks the directory, made where it is not there, in which there must be no team.
    fn take_empty(&self) -> Result<Lock, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(|e| StoreError::io(&self.path, "create", e))?;
        let lock = Lock::take(&self.path)?;
        match self.content()? {
            Content::TeamJson | Content::Database => Err(StoreError::Occupied {
                path: self.path.clone(),
            }),
            _ => Ok(lock),
        }
    }

    /// Makes a database for a fresh run, as `vacate` and `Vacant::create` do.
    pub fn create(
        &self,
        replace: Replace,
        base: &Environment,
        definition: &SavedDefinition,
    ) -> Result<Created, StoreError> {
        self.vacate(replace)?.create(base, definition)
    }

    /// Takes the directory for a fresh run. What is finished makes room by itself, what is not only where `replace` says
    /// so; either is moved aside.
    pub fn vacate(&self, replace: Replace) -> Result<Vacant, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(|e| StoreError::io(&self.path, "create", e))?;
        let mut lock = Lock::take(&self.path)?;
        if replace == Replace::Never
            && self.content()? == Content::Database
            && !group::links(&self.path)?.is_empty()
        {
            // Whether it is finished is read from the database, which takes in what a shared log has of it when opened.
            drop(SqliteStore::open(lock, &self.path)?);
            lock = Lock::take(&self.path)?;
        }
        let content = self.content()?;
        if replace == Replace::Never {
            self.check_no_loss(content)?;
        }
        let moved_to = match content {
            Content::Absent | Content::Empty | Content::Foreign => None,
            Content::TeamJson | Content::Database
                if replace == Replace::Unfinished || self.is_finished()? =>
            {
                Some(self.move_aside()?)
            }
            Content::TeamJson | Content::Database => {
                return Err(StoreError::Unfinished {
                    path: self.path.clone(),
                    file: self.team_file(),
                });
            }
        };
        Ok(Vacant {
            path: self.path.clone(),
            lock,
            moved_to,
        })
    }

    /// What the team file is called that the team here goes by.
    fn team_file(&self) -> Option<String> {
        let definition = match self.content().ok()? {
            Content::Database => Reader::open(self).ok()?.definition().ok()?,
            _ => team_json::saved_definition(&self.read_team_json().ok()?).ok()??,
        };
        Some(definition.name)
    }

    /// Whether nothing would be left to do if the team here were resumed.
    fn is_finished(&self) -> Result<bool, StoreError> {
        if self.content()? != Content::Database {
            let finished = team_json::is_finished(&self.read_team_json()?);
            return finished.map_err(|e| StoreError::Foreign {
                path: self.team_json(),
                what: e.to_string(),
            });
        }
        let saved = Reader::open(self)?.load(&At::Head)?;
        // Mail that came later is not handled yet, unless nobody is to handle it.
        let counts = |event: &Event| !matches!(event, Event::MessageSent { routed, .. } if routed.to.is_empty());
        Ok(
            match saved.tail.iter().rfind(|record| counts(&record.event)) {
                Some(last) => matches!(
                    last.event,
                    Event::RunEnded {
                        status: Status::Done,
                        ..
                    }
                ),
                None => saved.base.is_finished(),
            },
        )
    }

    /// Moves the team here into a directory of its own.
    fn move_aside(&self) -> Result<PathBuf, StoreError> {
        let database = self.database();
        if database.exists() {
            match schema::recognise(&database) {
                Err(e @ StoreError::Foreign { .. }) => return Err(e),
                // Closing it brings the log into the database. Where that fails they are moved as they are.
                _ => drop(
                    Connection::open(&database).and_then(|conn| conn.close().map_err(|(_, e)| e)),
                ),
            }
        }
        let aside = self.make_aside()?;
        // What its log has, and a shared one, stays here, too, until there is another database: wherever this is cut off,
        // one place holds the whole state.
        for link in group::links(&self.path)? {
            link.put_into(&aside)?;
        }
        for name in [LOG, PROGRESS] {
            file::put_into(&self.path.join(name), &aside.join(name))?;
        }
        let sync = || {
            [&aside, &self.path]
                .into_iter()
                .try_for_each(|directory| file::sync_directory(directory))
        };
        sync()?;
        for name in [TEAM_JSON, DATABASE, LOG_INDEX] {
            match std::fs::rename(self.path.join(name), aside.join(name)) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::io(&aside, "move to", e));
                }
                _ => {}
            }
        }
        sync()?;
        Ok(aside)
    }

    /// Where the team lies that was set aside last.
    fn newest_aside(&self) -> Option<PathBuf> {
        let aside = |n: &u32| self.path.join(format!("{ASIDE}{n}"));
        (1..MAX_ASIDE)
            .take_while(|n| aside(n).is_dir())
            .last()
            .map(|n| aside(&n))
    }

    fn make_aside(&self) -> Result<PathBuf, StoreError> {
        for n in 1..MAX_ASIDE {
            let aside = self.path.join(format!("{ASIDE}{n}"));
            match std::fs::create_dir(&aside) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StoreError::io(&aside, "create", e)),
                Ok(()) => return Ok(aside),
            }
        }
        let e = std::io::Error::other(format!("there are {MAX_ASIDE} earlier teams already"));
        Err(StoreError::io(&self.path, "move a team aside in", e))
    }
}

/// Whether a name is of what we leave behind beside teams.
fn is_leftover(name: &str) -> bool {
    let starts = [NEW_DATABASE, ASIDE]
        .iter()
        .any(|start| name.starts_with(start));
    starts || [LOCK_FILE, PROGRESS, ".team.json.new"].contains(&name) || group::is_link(name)
}
