//! Watches the files that a team consists of. They are polled, using the same lists that builds
//! use: this works on every file system and ignores what builds generate.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use strata_host::build;
use strata_host::clock::now_ms;
use strata_host::launch::source_files;
use strata_host::storage::StorageLocation;

/// The polling interval: short for a person, and cheap for a machine.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long no further change must follow after a change: editors and version control write several
/// files.
const SETTLE_TIME: Duration = Duration::from_millis(40);

/// Distinguishes the versions of a file: the time of its last status change in milliseconds since
/// the epoch and the nanoseconds within the second, its length, and its inode.
type FileStamp = (i64, i64, u64, u64);

/// The watched files of a team, as they were last seen.
pub(super) struct FileWatcher {
    team: PathBuf,
    /// Files and directories of source next to the team file.
    sources: Vec<PathBuf>,
    /// Files elsewhere that actions are built from.
    external_sources: Vec<PathBuf>,
    stamps: BTreeMap<PathBuf, FileStamp>,
}

/// Files that have changed.
pub(super) struct ChangedFiles {
    /// Their paths.
    pub(super) files: Vec<PathBuf>,
    /// When the last one was saved, in milliseconds since the epoch.
    pub(super) saved_ms: i64,
}

impl FileWatcher {
    /// Watches from now on. `builds` says whether sources may be built: files elsewhere are found
    /// by build tools, which execute what the source says.
    pub(super) fn new(team: &Path, builds: bool) -> Self {
        let team = std::path::absolute(team).unwrap_or_else(|_| team.to_owned());
        let mut watch = Self {
            team,
            sources: Vec::new(),
            external_sources: Vec::new(),
            stamps: BTreeMap::new(),
        };
        watch.refresh(builds);
        watch.stamps = watch.scan();
        watch
    }

    /// Updates which files are watched. Files that are new are not reported as changed.
    pub(super) fn refresh(&mut self, builds: bool) {
        let places = source_files(&self.team);
        // If the team file cannot be read, the previous files are watched.
        if !places.is_empty() {
            self.sources = places;
        }
        let built = self.sources.iter().filter(|_| builds);
        self.external_sources = built
            .flat_map(|place| build::external_inputs(place))
            .collect();
        // Files that the team no longer consists of are not reported as removed.
        let (places, elsewhere) = (&self.sources, &self.external_sources);
        let is_of_it = |file: &Path| places.iter().any(|place| file.starts_with(place));
        self.stamps
            .retain(|file, _| *file == self.team || is_of_it(file) || elsewhere.contains(file));
        for (file, stamp) in self.scan() {
            self.stamps.entry(file).or_insert(stamp);
        }
    }

    /// Returns how many files are watched.
    pub(super) fn count(&self) -> usize {
        self.stamps.len()
    }

    /// Waits until files have changed. This is cancel safe.
    pub(super) async fn changed(&mut self) -> ChangedFiles {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let mut now = self.scan();
            if now == self.stamps {
                continue;
            }
            loop {
                tokio::time::sleep(SETTLE_TIME).await;
                let next = self.scan();
                if std::mem::replace(&mut now, next.clone()) == next {
                    break;
                }
            }
            let before = std::mem::replace(&mut self.stamps, now);
            let change = self.changes_since(&before);
            if !change.files.is_empty() {
                return change;
            }
        }
    }

    fn changes_since(&self, before: &BTreeMap<PathBuf, FileStamp>) -> ChangedFiles {
        let changed = self
            .stamps
            .iter()
            .filter(|(file, stamp)| before.get(*file) != Some(stamp));
        let saved_ms = changed
            .clone()
            .map(|(_, stamp)| stamp.0)
            .max()
            .unwrap_or_else(now_ms);
        let gone = before
            .keys()
            .filter(|file| !self.stamps.contains_key(*file));
        ChangedFiles {
            files: changed.map(|(file, _)| file).chain(gone).cloned().collect(),
            saved_ms,
        }
    }

    fn scan(&self) -> BTreeMap<PathBuf, FileStamp> {
        let inside = |place: &PathBuf| {
            if place.is_dir() {
                build::source_files(place)
            } else {
                vec![place.clone()]
            }
        };
        let files = self
            .sources
            .iter()
            .flat_map(inside)
            .chain([self.team.clone()])
            .chain(self.external_sources.clone());
        files
            .filter_map(|file| Some((stamp(&fs::metadata(&file).ok()?), file)))
            .map(|(stamp, file)| (file, stamp))
            .collect()
    }
}

/// Waits until another process has written to what is saved, such as an answer.
pub(super) async fn storage_written(storage: &StorageLocation) {
    let files = storage.changing_files();
    let look = || -> Vec<Option<FileStamp>> {
        let stamp_of = |file: &PathBuf| fs::metadata(file).ok().as_ref().map(stamp);
        files.iter().map(stamp_of).collect()
    };
    let (before, mut now) = (look(), look());
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let again = look();
        if again == now && again != before {
            return;
        }
        now = again;
    }
}

fn stamp(file: &Metadata) -> FileStamp {
    (
        file.ctime() * 1000 + file.ctime_nsec() / 1_000_000,
        file.ctime_nsec(),
        file.len(),
        file.ino(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_team_is_no_longer_made_from_is_not_missed() {
        let home = tempfile::tempdir().unwrap();
        let team = home.path().join("team.toml");
        let of = |script: &str| {
            let team = "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\n";
            format!(
                "{team}watch = [\"UserRequirement\"]\n[[role.action]]\nname = \"a\"\nscript = \"{script}\"\n"
            )
        };
        for name in ["one.js", "two.js"] {
            fs::write(home.path().join(name), "").unwrap();
        }
        fs::write(&team, of("one.js")).unwrap();
        let mut watch = FileWatcher::new(&team, false);
        assert_eq!(watch.count(), 2);
        fs::write(&team, of("two.js")).unwrap();
        watch.refresh(false);
        assert_eq!(
            watch.stamps.keys().collect::<Vec<_>>(),
            [&team, &home.path().join("two.js")]
        );
    }
}
