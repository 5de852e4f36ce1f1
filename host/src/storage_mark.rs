//! Marks: a record of which storage directories this user's own host has written, and with which
//! team files. The state in a directory without a mark may have been written by anybody, and so may a
//! team file that its mark does not contain.
//!
//! A mark is outside of the storage directory, in the user's own state directory
//! (`$XDG_STATE_HOME/strata-host/written`), so that a directory that is copied or unpacked does not
//! bring one. It is found by the path of the storage directory. It contains the inode number and
//! the creation time of that directory, and the digests of the team files with which it was
//! written. A directory that was copied, moved, or put in place of another has no mark, and neither
//! has a team file that somebody else put into a marked directory.
//! The mark of a run in a database is found by its URL, and contains the number and the creation time of
//! the run. The files that were submitted with a run count as part of its team file: others can change
//! them, too.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strata_base::files::replace::{Replacement, replace};
use strata_base::files::sha256::Sha256;
use strata_base::files::user;
use strata_core::record::id::{Digest, to_hex};

use strata_storage::{LocationIdentity, SavedDefinition, StorageLocation};

/// The maximum number of team files per directory. The oldest are removed first.
const MAX_DEFINITIONS: usize = 32;
/// The maximum size of a mark in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// How long the mark of a missing directory is kept. The directory may be on a disk that is not
/// mounted.
const MISSING_KEPT: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Serializes a path as bytes, because it may not be valid UTF-8.
mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        Vec::<u8>::deserialize(deserializer).map(|bytes| OsString::from_vec(bytes).into())
    }
}

/// The reason why marks cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The user has no state directory.
    #[error("neither `XDG_STATE_HOME` nor `HOME` names a directory")]
    NoHome,
    /// A file or directory cannot be used.
    #[error("cannot use `{}`: {source}", path.display())]
    Unusable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The mark of a storage directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StorageMark {
    /// Its path.
    #[serde(with = "path_bytes")]
    path: PathBuf,
    /// Its inode number.
    inode: u64,
    /// Its creation time in nanoseconds since 1970, if the file system records it.
    born_ns: Option<u64>,
    /// The digests of the team files with which it was written, oldest first.
    definitions: Vec<String>,
}

impl StorageMark {
    /// Returns a mark of a run as it is now, without team files.
    fn for_run(identity: LocationIdentity) -> Self {
        Self {
            path: identity.path,
            inode: identity.number,
            born_ns: identity.created_ns,
            definitions: Vec::new(),
        }
    }

    /// Returns whether both marks are about the same directory.
    fn is_same_directory(&self, other: &Self) -> bool {
        (&self.path, self.inode, self.born_ns) == (&other.path, other.inode, other.born_ns)
    }

    fn add_definition(&mut self, definition: String) {
        self.definitions.retain(|known| *known != definition);
        self.definitions.push(definition);
        let excess = self.definitions.len().saturating_sub(MAX_DEFINITIONS);
        self.definitions.drain(..excess);
    }
}

/// A team file, and what else of the team is saved with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MarkedTeam<'a> {
    /// The team file.
    pub(crate) definition: &'a SavedDefinition,
    /// The digests of the files that were submitted with it, by path. `None` if it was not submitted.
    pub(crate) files: Option<&'a BTreeMap<String, Digest>>,
}

impl<'a> From<&'a SavedDefinition> for MarkedTeam<'a> {
    fn from(definition: &'a SavedDefinition) -> Self {
        Self {
            definition,
            files: None,
        }
    }
}

/// Whether this user's host wrote a storage directory and the team file that is saved in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recognition {
    /// This user's host wrote the directory with this team file.
    Own,
    /// This user's host wrote the directory, but with other team files only: this one was changed
    /// or put there since.
    OtherTeamFile,
    /// No mark exists for this directory.
    Unknown,
}

/// Returns whether this user's host wrote a storage directory with this team file.
pub(crate) fn recognize(
    storage: &StorageLocation,
    team: MarkedTeam<'_>,
) -> Result<Recognition, MarkError> {
    Ok(match find_mark(storage)? {
        // Nothing is known about the team file if no team file is.
        Some(mark) if mark.definitions.is_empty() => Recognition::Unknown,
        None => Recognition::Unknown,
        Some(mark) if mark.definitions.contains(&team_digest(team)) => Recognition::Own,
        Some(_) => Recognition::OtherTeamFile,
    })
}

/// Marks a storage directory as written with this team file.
pub(crate) fn add_mark(storage: &StorageLocation, team: MarkedTeam<'_>) -> Result<(), MarkError> {
    add_definitions(storage, [team_digest(team)], Replacement::Private)
}

/// Returns whether this user's host wrote the state in a storage directory. States in databases are
/// written by whoever may use the database, and count as its own.
pub(crate) fn is_own_state(storage: &StorageLocation) -> Result<bool, MarkError> {
    Ok(storage.is_in_database() || find_mark(storage)?.is_some())
}

/// Marks the state in a storage directory as written by this user's host, whatever its team file is.
/// The mark may be lost with a loss of power.
pub(crate) fn add_state_mark(storage: &StorageLocation) -> Result<(), MarkError> {
    if storage.is_in_database() {
        return Ok(());
    }
    add_definitions(storage, [], Replacement::Cached)
}

/// The team files with which this user's host wrote a storage directory, if it wrote it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownDefinitions(Option<Vec<String>>);

/// Returns the team files that are known for a storage directory. There are none if it has no mark
/// or the mark cannot be read.
pub(crate) fn known_definitions(storage: &StorageLocation) -> KnownDefinitions {
    let mark = find_mark(storage).ok().flatten();
    let definitions = mark.map(|mark| mark.definitions);
    KnownDefinitions(definitions.or_else(|| storage.is_in_database().then(Vec::new)))
}

/// Marks a storage directory to which the host itself moved or copied a team. If the mark cannot be
/// written, the directory has none.
pub(crate) fn mark_copy(known: KnownDefinitions, to: &StorageLocation) {
    if let Some(definitions) = known.0 {
        let _ = add_definitions(to, definitions, Replacement::Private);
    }
}

fn add_definitions(
    storage: &StorageLocation,
    definitions: impl IntoIterator<Item = String>,
    replacement: Replacement,
) -> Result<(), MarkError> {
    let (file, now) = locate_mark(storage)?;
    let directory = file.parent().unwrap_or(&file);
    user::create_private_dir(directory)
        .map_err(|error| unusable_error(directory, io::Error::other(error.to_string())))?;
    let found = read_mark(&file)?.filter(|mark| mark.is_same_directory(&now));
    let mut mark = found.clone().unwrap_or(now);
    for definition in definitions {
        mark.add_definition(definition);
    }
    // Every resume marks its directory. Usually the mark does not change.
    if found.as_ref() == Some(&mark) {
        return Ok(());
    }
    remove_stale_marks(directory);
    let written = serde_json::to_vec(&mark)
        .map_err(io::Error::from)
        .and_then(|bytes| replace(&file, replacement, |new| new.write_all(&bytes)));
    written.map_err(|source| unusable_error(&file, source))
}

/// Returns the mark of a storage directory, if it is about this very directory.
fn find_mark(storage: &StorageLocation) -> Result<Option<StorageMark>, MarkError> {
    let (file, now) = locate_mark(storage)?;
    Ok(read_mark(&file)?.filter(|mark| mark.is_same_directory(&now)))
}

/// Returns the path of the mark of a storage directory, and a new mark of the directory as it is
/// now.
fn locate_mark(storage: &StorageLocation) -> Result<(PathBuf, StorageMark), MarkError> {
    let identity = storage
        .identity()
        .map_err(|source| unusable_error(storage.path(), io::Error::other(source)))?;
    let name = to_hex(
        &Sha256::new()
            .with(identity.path.as_os_str().as_encoded_bytes())
            .finish(),
    );
    // Marks are distributed over subdirectories, because a whole subdirectory is scanned when a
    // mark is added.
    let (part, name) = name.split_at(2);
    let directory = user::state_dir()
        .ok_or(MarkError::NoHome)?
        .join("strata-host/written")
        .join(part);
    Ok((directory.join(name), StorageMark::for_run(identity)))
}

fn read_mark(file: &Path) -> Result<Option<StorageMark>, MarkError> {
    let opened = match fs::File::open(file) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(None);
        }
        opened => opened.map_err(|source| unusable_error(file, source))?,
    };
    let meta = opened
        .metadata()
        .map_err(|source| unusable_error(file, source))?;
    // A mark that others can write proves nothing.
    if !meta.is_file() || !user::is_private(&meta) {
        return Err(unusable_error(
            file,
            io::Error::other("it is not a private file of this user"),
        ));
    }
    let mut bytes = Vec::new();
    opened
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|source| unusable_error(file, source))?;
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Removes marks of directories that have been missing for long; those of runs in databases are kept.
/// Errors are ignored.
fn remove_stale_marks(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let is_old = |meta: Metadata| {
            meta.modified()
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MISSING_KEPT))
        };
        let is_gone = || {
            read_mark(&entry.path()).is_ok_and(|mark| {
                mark.is_none_or(|mark| mark.path.is_absolute() && !mark.path.exists())
            })
        };
        if entry.metadata().is_ok_and(is_old) && is_gone() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn team_digest(team: MarkedTeam<'_>) -> String {
    let SavedDefinition {
        name,
        base,
        text,
        components,
    } = team.definition;
    let parts = [
        name.as_bytes(),
        base.as_os_str().as_encoded_bytes(),
        text.as_bytes(),
    ];
    let components: Vec<String> = components.iter().map(ToString::to_string).collect();
    let parts = parts
        .into_iter()
        .chain(components.iter().map(String::as_bytes));
    // Begins with what no component is called.
    let files = team.files.into_iter().flat_map(|files| {
        let entries = files.iter();
        let named = entries.flat_map(|(path, digest)| [path.as_bytes(), digest.0.as_bytes()]);
        std::iter::once(&b"files"[..]).chain(named)
    });
    // Each part is preceded by its length, so that different parts never have the same
    // concatenation.
    let add = |sum: Sha256, part: &[u8]| sum.with((part.len() as u64).to_le_bytes()).with(part);
    to_hex(&parts.chain(files).fold(Sha256::new(), add).finish())
}

fn unusable_error(path: &Path, source: io::Error) -> MarkError {
    MarkError::Unusable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use strata_base::golden::golden;

    use super::*;

    #[test]
    fn a_submitted_team_with_other_files_is_another() {
        let definition = SavedDefinition::default();
        let digest_with = |files: &[(&str, &str)]| {
            let entries = files.iter();
            let files = entries
                .map(|(path, digest)| ((*path).to_owned(), Digest((*digest).to_owned())))
                .collect();
            team_digest(MarkedTeam {
                definition: &definition,
                files: Some(&files),
            })
        };
        let own = digest_with(&[("a", "1")]);
        assert_eq!(own, digest_with(&[("a", "1")]));
        for other in [
            digest_with(&[("a", "2")]),
            digest_with(&[("b", "1")]),
            digest_with(&[]),
        ] {
            assert_ne!(own, other);
        }
        assert_ne!(digest_with(&[]), team_digest((&definition).into()));
    }

    #[test]
    fn a_mark_is_as_the_golden_file() {
        let mark = StorageMark {
            path: "/srv/teams/store".into(),
            inode: 12_345,
            born_ns: Some(1_700_000_000_123_456_789),
            definitions: vec!["a".repeat(64), "b".repeat(64)],
        };
        let text = golden("storage-mark.json", &serde_json::to_vec(&mark).unwrap());
        assert_eq!(serde_json::from_slice::<StorageMark>(&text).unwrap(), mark);
    }
}
