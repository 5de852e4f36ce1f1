//! The errors of the storage directory. Each variant is a case that an operator can meet, and its
//! message says what to do about it.

mod hints;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use strata_base::advice::Advice;
use strata_core::record::money::Usd;

use super::codec::DecodeError;
use super::deleted_run::DeletedRun;
use super::server_record::ServerRecord;
use hints::{
    absence_hint, checkpoint_hint, describe_holder, lineage_hint, list_names, place_hint, remedy,
};

/// Why the storage directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is nothing at the path.
    #[error("no saved team at `{}`: nothing is there{}", path.display(), place_hint(path))]
    Absent {
        /// The path.
        path: PathBuf,
    },
    /// The URL of a database is wrong.
    #[error("`{url}` is no URL of a database: {what}")]
    InvalidUrl {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The URL of a database names no run.
    #[error("`{}` names no run; add `?run=NAME`{}", path.display(), list_names(known))]
    RunNotNamed {
        /// The URL.
        path: PathBuf,
        /// The names of runs in the database, the newest first.
        known: Vec<String>,
    },
    /// A database has no run of this name.
    #[error("no run `{name}` at `{}`{}", path.display(), absence_hint(name, known, deleted.as_ref()))]
    NoRun {
        /// The URL.
        path: PathBuf,
        /// The name.
        name: String,
        /// The names of runs in the database, the newest first.
        known: Vec<String>,
        /// Who deleted a run of this name, if somebody did not long ago.
        deleted: Option<DeletedRun>,
    },
    /// The server of a database refuses what this user asks of it.
    #[error("the server of `{}` refuses: {what}", path.display())]
    Refused {
        /// The URL.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// The server of a database cannot be reached.
    #[error("cannot reach `{}`: {what}; is the server running, and does it accept connections?", path.display())]
    Unreachable {
        /// The URL.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// The program was built without support for databases.
    #[error("this program was built without the feature `postgres`, which `{}` needs", path.display())]
    Unsupported {
        /// The URL.
        path: PathBuf,
    },
    /// There is something else at the path.
    #[error("no saved team at `{}`: {what}; give a storage directory or its `team.json`", path.display())]
    NoTeam {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// There is a `team.json`, but no database.
    #[error("`{}` holds a `team.json` alone, without what happened before it; a resume begins to record", path.display())]
    NoRecords {
        /// The path.
        path: PathBuf,
    },
    /// A file has one of our names, but this program did not write it.
    #[error("`{}` was not written by strata-host: {what}; choose another storage directory or move it away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// A later program wrote the file, or has taken the run.
    #[error(
        "`{}` has {what} version {found}, this program knows versions up to {known}; use the newer strata-host",
        path.display()
    )]
    Newer {
        /// The file, or the URL.
        path: PathBuf,
        /// What has a version.
        what: &'static str,
        /// Its version.
        found: i64,
        /// The latest version that is understood.
        known: i64,
    },
    /// The tables of a database are those of an earlier program.
    #[error(
        "`{}` has tables of version {found}, this program has version {known}",
        path.display()
    )]
    Outdated {
        /// The URL.
        path: PathBuf,
        /// Their version.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// A file is damaged.
    #[error("`{}` is damaged: {what}; {}", path.display(), remedy(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// Access is refused.
    #[error("cannot {action} `{}`: {source}; give this user write access or work on a copy", path.display())]
    Permission {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The disk is full.
    #[error(
        "cannot {action} `{}`: {}; what was saved before is intact, free some space and resume",
        path.display(),
        if *inodes { "the file system has no room for another file (no inodes are left)" } else { "no space is left" }
    )]
    Full {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Whether the file system is out of inodes rather than out of space.
        inodes: bool,
        /// About how many bytes were to be written; 0 if that is not known.
        needed: u64,
    },
    /// Another process holds the lock of the directory.
    #[error("`{}` is in use by {}; wait for it to end or stop it", path.display(), describe_holder(*pid))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The id of that process, if it has written it into the lock file.
        pid: Option<u32>,
    },
    /// A later lease of the run was taken, so this one cannot change it any more.
    #[error(
        "`{}` was taken over by another process, so this one records nothing more; look with `inspect` what that does",
        path.display()
    )]
    Fenced {
        /// Where the run is kept.
        path: PathBuf,
    },
    /// The server of a database went back to an earlier state of a run, in which nothing is missing
    /// that it had to keep, and which is too old to bring it up to the newest one.
    #[error(
        "the server of `{}` was restarted and has lost the newest events of the run, none of which it had to keep; \
         resume the run",
        path.display()
    )]
    RolledBack {
        /// The URL.
        path: PathBuf,
    },
    /// The database contains less than it had acknowledged.
    #[error("`{}` lost what it had acknowledged: {what}; {}", path.display(), remedy(path))]
    Lost {
        /// The database.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The database is not where it was when this process opened it.
    #[error(
        "`{}` is not where it was when it was opened, or something else is there now, so nothing is read or written; put it \
         back, or stop this process and start it again",
        path.display()
    )]
    Displaced {
        /// The database.
        path: PathBuf,
    },
    /// A write to the database failed so that nobody knows what the disk has of it. The kernel may have dropped what it
    /// could not write, so a sync that succeeds afterwards says nothing.
    #[error(
        "it is not known any more what the disk has of `{}`: {what}; this is found out when it is opened again, and nothing \
         is written before that",
        path.display()
    )]
    WriteFailed {
        /// The database.
        path: PathBuf,
        /// What happened.
        what: String,
    },
    /// A fresh run would replace a team that is not finished.
    #[error("`{}` holds an unfinished team{}", path.display(), of_file(file.as_deref()))]
    Unfinished {
        /// The directory.
        path: PathBuf,
        /// The name of the saved team file, if it can be read. It may be another team than the one
        /// that is to be run.
        file: Option<String>,
    },
    /// A fork would replace a team.
    #[error("`{}` holds a team", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A submitted run would have the name of another.
    #[error("`{}` has a run of the name `{name}` already", path.display())]
    NameTaken {
        /// The database.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A record that is to be stored with a submitted run exists already.
    #[error("there is a record of the name `{}` already", record.name)]
    RecordTaken {
        /// The record that exists.
        record: Box<ServerRecord>,
    },
    /// No runs may be added to a database.
    #[error("`{}` is closed for new runs", path.display())]
    Closed {
        /// The URL.
        path: PathBuf,
    },
    /// A cap is too large to be stored.
    #[error("`{}` stores no cap of {cap}; set at most {most}", path.display())]
    CapTooLarge {
        /// The URL.
        path: PathBuf,
        /// The cap.
        cap: Usd,
        /// The largest one.
        most: Usd,
    },
    /// Two databases have a run of the same name.
    #[error(
        "`{}` and `{}` both have the run `{name}`; name the one that is meant, or leave one database out",
        one.display(),
        other.display()
    )]
    AmbiguousRun {
        /// The name.
        name: String,
        /// The URL of one of the runs.
        one: PathBuf,
        /// The URL of the other one.
        other: PathBuf,
    },
    /// Two databases have the same incarnation.
    #[error(
        "`{}` and `{}` are the same database, or one is a copy of the other",
        one.display(),
        other.display()
    )]
    SameDatabase {
        /// The URL of one of them.
        one: PathBuf,
        /// The URL of the other one.
        other: PathBuf,
    },
    /// The database was restored while this process worked with it.
    #[error(
        "`{}` was restored from a backup since this process began to use it, so it stops; what runs had done since that \
         backup is lost, and they are continued from there once a worker is started again",
        path.display()
    )]
    Restored {
        /// The URL.
        path: PathBuf,
    },
    /// Something else is where a directory has to be, at the path or above it.
    #[error(
        "cannot {action} `{}`: {} {what}, where a directory has to be; name another directory, or move it away",
        path.display(),
        if path == found { "it is".into() } else { format!("`{}` is", found.display()) }
    )]
    NotDirectory {
        /// The path.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Where something else is.
        found: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// No checkpoint has this name.
    #[error("there is no checkpoint `{id}`{}", checkpoint_hint(id, known))]
    NoCheckpoint {
        /// The name.
        id: String,
        /// The ids there are, oldest first.
        known: Vec<String>,
    },
    /// No lineage has this name.
    #[error("there is no lineage `{name}`{}", lineage_hint(name, known))]
    NoLineage {
        /// The name.
        name: String,
        /// The lineages that exist.
        known: Vec<String>,
    },
    /// A lineage would take a name that is in use, or exceed the maximum number of lineages.
    #[error("cannot begin lineage `{name}`: {what}")]
    Lineage {
        /// The name.
        name: String,
        /// Why not.
        what: String,
    },
    /// The machine failed in another way.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The database failed in another way.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl StoreError {
    /// Returns the same error for a change of about so many bytes.
    pub fn needing(self, bytes: u64) -> Self {
        match self {
            Self::Full {
                path,
                action,
                inodes,
                ..
            } => Self::Full {
                path,
                action,
                inodes,
                needed: bytes,
            },
            other => other,
        }
    }

    /// Returns the error for a directory that cannot be read.
    pub fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::io(path, "read", source)
    }
}

impl StoreError {
    /// Returns what the user can do about it, if a command of the program helps.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::Unfinished { path, .. } => Some(Advice::ResumeOrReplace {
                storage: path.clone(),
            }),
            Self::Occupied { .. } => Some(Advice::ChooseForkStorage),
            Self::NameTaken { .. } => Some(Advice::ChooseRunName),
            Self::Closed { path } => Some(Advice::OpenDatabase {
                database: path.clone(),
            }),
            Self::Outdated { path, .. } => Some(Advice::MigrateDatabase {
                database: path.clone(),
            }),
            Self::SameDatabase { other, .. } => Some(Advice::FenceDatabase {
                database: other.clone(),
            }),
            _ => None,
        }
    }

    /// Returns whether the path itself is wrong: a component of it is a file, is a link that leads
    /// nowhere, or is too long.
    pub fn is_of_path(&self) -> bool {
        use rustix::io::Errno;
        let source = match self {
            Self::NotDirectory { .. } => return true,
            Self::Io { source, .. } => source,
            _ => return false,
        };
        let wrong = [Errno::NOTDIR, Errno::EXIST, Errno::LOOP, Errno::NAMETOOLONG];
        wrong
            .iter()
            .any(|errno| source.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// What an error of the file system means.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission {
                    path,
                    action,
                    source,
                }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let inodes = has_no_inodes(&path);
                Self::Full {
                    path,
                    action,
                    inodes,
                    needed: 0,
                }
            }
            io::ErrorKind::NotADirectory if let Some(error) = Self::no_directory(&path, action) => {
                error
            }
            _ => Self::Io {
                path,
                action,
                source,
            },
        }
    }

    /// What an error means that the file system gave when a directory was to be created, with those above it.
    pub fn creating(directory: &Path, source: io::Error) -> Self {
        Self::no_directory(directory, "create")
            .unwrap_or_else(|| Self::io(directory, "create", source))
    }

    /// Returns the error that something is not a directory, at a path or above it, if there is such a thing.
    pub fn no_directory(path: &Path, action: &'static str) -> Option<Self> {
        let is_there = |place: &&Path| place.symlink_metadata().is_ok();
        let found = path.ancestors().find(is_there)?;
        let what = match found.metadata() {
            Ok(meta) if meta.is_dir() => return None,
            Ok(meta) if meta.is_file() => "a file",
            Ok(_) => "a pipe or a device",
            Err(_) => "a link that leads nowhere",
        };
        Some(Self::NotDirectory {
            path: path.to_path_buf(),
            action,
            found: found.to_owned(),
            what,
        })
    }

    /// Whether a database refused a change because it is in an earlier state than it was.
    pub fn is_behind(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::RolledBack { .. })
    }

    /// Returns the error that it is not known any more what the disk has of a database, because a write failed.
    pub fn write_failed(path: &Path, what: impl ToString) -> Self {
        Self::WriteFailed {
            path: path.to_path_buf(),
            what: what.to_string(),
        }
    }

    /// Returns the error that a database has less than it had acknowledged.
    pub fn lost(path: &Path, what: impl Into<String>) -> Self {
        Self::Lost {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }

    /// What it means that something in a database cannot be decoded.
    pub(crate) fn undecodable(path: &Path, what: &str, damage: DecodeError) -> Self {
        Self::corrupt(path, format!("{what} cannot be read: {damage}"))
    }

    /// Returns the error that what is at a path is damaged.
    pub fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            what: what.into(),
        }
    }
}

/// Whether the file system that a path lies in takes no more files.
fn has_no_inodes(path: &Path) -> bool {
    let place = path
        .ancestors()
        .find(|place| place.exists())
        .unwrap_or(Path::new("."));
    rustix::fs::statvfs(place).is_ok_and(|room| room.f_files > 0 && room.f_favail == 0)
}

/// Names a team file.
fn of_file(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" (of `{name}`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_with_an_unfinished_team_is_advised_to_be_resumed_or_replaced() {
        let error = StoreError::Unfinished {
            path: "store".into(),
            file: Some("team.toml".into()),
        };
        let expected = "`store` holds an unfinished team (of `team.toml`)";
        assert_eq!(error.to_string(), expected);
        let storage = "store".into();
        assert_eq!(error.advice(), Some(Advice::ResumeOrReplace { storage }));
    }

    #[test]
    fn a_checkpoint_that_was_pruned_is_not_taken_for_a_slip() {
        let check = |id: &str, known: &[&str], expected: &str| {
            let known = known.iter().map(|&id| id.to_owned()).collect();
            let error = StoreError::NoCheckpoint {
                id: id.into(),
                known,
            };
            assert!(error.to_string().contains(expected), "{error}");
        };
        check(
            "main-1",
            &["main-2", "main-3"],
            "`main-1` any more: it was pruned",
        );
        check(
            "mian-2",
            &["main-2", "main-3"],
            "`mian-2`; did you mean `main-2`? the newest is `main-3`",
        );
        check("else", &["main-2"], "`else`; the newest is `main-2`");
        check("main-1", &[], "the run has none yet");
    }
}
