//! Watches the files that a team consists of. They are polled, using the same lists that builds
//! use: this works on every file system and ignores what builds generate.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::build;
use crate::driver::clock::now_ms;
use crate::launch::{made_from, saved_in};

/// The polling interval: short for a person, and cheap for a machine.
const OFTEN: Duration = Duration::from_millis(100);
/// How long no further change must follow after a change: editors and version control write several
/// files.
const STEADY: Duration = Duration::from_millis(40);

/// Distinguishes the versions of a file: the time of its last status change in milliseconds since
/// the epoch and the nanoseconds within the second, its length, and its inode.
type Stamp = (i64, i64, u64, u64);

/// The watched files of a team, as they were last seen.
pub(super) struct Watch {
    team: PathBuf,
    /// Files and directories of source next to the team file.
    places: Vec<PathBuf>,
    /// Files elsewhere that actions are built from.
    elsewhere: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Stamp>,
}

/// Files that have changed.
pub(super) struct Change {
    /// Their paths.
    pub(super) files: Vec<PathBuf>,
    /// When the last one was saved, in milliseconds since the epoch.
    pub(super) saved_ms: i64,
}

impl Watch {
    /// Watches from now on. `builds` says whether sources may be built: files elsewhere are found
    /// by build tools, which execute what the source says.
    pub(super) fn of(team: &Path, builds: bool) -> Self {
        let team = std::path::absolute(team).unwrap_or_else(|_| team.to_owned());
        let mut watch = Self {
            team,
            places: Vec::new(),
            elsewhere: Vec::new(),
            seen: BTreeMap::new(),
        };
        watch.follow(builds);
        watch.seen = watch.look();
        watch
    }

    /// Updates which files are watched. Files that are new are not reported as changed.
    pub(super) fn follow(&mut self, builds: bool) {
        let places = made_from(&self.team);
        // If the team file cannot be read, the previous files are watched.
        if !places.is_empty() {
            self.places = places;
        }
        let built = self.places.iter().filter(|_| builds);
        self.elsewhere = built
            .flat_map(|place| build::files_elsewhere(place))
            .collect();
        // Files that the team no longer consists of are not reported as removed.
        let (places, elsewhere) = (&self.places, &self.elsewhere);
        let is_of_it = |file: &Path| places.iter().any(|place| file.starts_with(place));
        self.seen
            .retain(|file, _| *file == self.team || is_of_it(file) || elsewhere.contains(file));
        for (file, stamp) in self.look() {
            self.seen.entry(file).or_insert(stamp);
        }
    }

    /// Returns how many files are watched.
    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }

    /// Waits until files have changed. This is cancel safe.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            tokio::time::sleep(OFTEN).await;
            let mut now = self.look();
            if now == self.seen {
                continue;
            }
            loop {
                tokio::time::sleep(STEADY).await;
                let again = self.look();
                if std::mem::replace(&mut now, again.clone()) == again {
                    break;
                }
            }
            let before = std::mem::replace(&mut self.seen, now);
            let change = self.since(&before);
            if !change.files.is_empty() {
                return change;
            }
        }
    }

    fn since(&self, before: &BTreeMap<PathBuf, Stamp>) -> Change {
        let changed = self
            .seen
            .iter()
            .filter(|(file, stamp)| before.get(*file) != Some(stamp));
        let saved_ms = changed
            .clone()
            .map(|(_, stamp)| stamp.0)
            .max()
            .unwrap_or_else(now_ms);
        let gone = before.keys().filter(|file| !self.seen.contains_key(*file));
        Change {
            files: changed.map(|(file, _)| file).chain(gone).cloned().collect(),
            saved_ms,
        }
    }

    fn look(&self) -> BTreeMap<PathBuf, Stamp> {
        let inside = |place: &PathBuf| {
            if place.is_dir() {
                build::own_files(place)
            } else {
                vec![place.clone()]
            }
        };
        let files = self
            .places
            .iter()
            .flat_map(inside)
            .chain([self.team.clone()])
            .chain(self.elsewhere.clone());
        files
            .filter_map(|file| Some((stamp(&fs::metadata(&file).ok()?), file)))
            .map(|(stamp, file)| (file, stamp))
            .collect()
    }
}

/// Waits until another process has written to what is saved in a directory, such as an answer.
pub(super) async fn written(storage: &Path) {
    let look = || saved_in(storage).map(|file| fs::metadata(file).ok().as_ref().map(stamp));
    let (before, mut now) = (look(), look());
    loop {
        tokio::time::sleep(OFTEN).await;
        let again = look();
        if std::mem::replace(&mut now, again) == again && again != before {
            return;
        }
    }
}

fn stamp(file: &Metadata) -> Stamp {
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
        let mut watch = Watch::of(&team, false);
        assert_eq!(watch.count(), 2);
        fs::write(&team, of("two.js")).unwrap();
        watch.follow(false);
        assert_eq!(
            watch.seen.keys().collect::<Vec<_>>(),
            [&team, &home.path().join("two.js")]
        );
    }
}
