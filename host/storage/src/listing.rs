//! Lists the runs that are kept at a location.

use std::collections::BTreeMap;

use strata_base::process::machine;
use strata_core::record::event::Status;

use super::directory::DirectoryContent;
use super::error::StoreError;
use super::lineage::DIRECTORY_RUN;
use super::location::{Place, SavedRun, StorageLocation};
use super::lock::{LOCK_FILE, held_since_ms};
#[cfg(not(feature = "postgres"))]
use super::no_database as database;
use super::overview::{LifecycleState, RunOverview, has_ended};
#[cfg(feature = "postgres")]
use super::postgres as database;
use super::sqlite::shared;
use super::{LockHolder, Reader, StateSelector};

/// A run, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRun {
    /// Where it is kept.
    pub location: StorageLocation,
    /// Its number there.
    pub key: i64,
    /// Its name there.
    pub name: String,
    /// Its status; `None` if what is saved of it cannot be read.
    pub status: Option<Status>,
}

/// A run, as it is listed without reading its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// Where it is kept.
    pub location: StorageLocation,
    /// Its name there.
    pub name: String,
    /// What its state is; `None` if only the state itself tells.
    pub overview: Option<RunOverview>,
    /// Where it is in its life, as far as that does not depend on a state that has to be read.
    pub state: LifecycleState,
    /// Which process works on it.
    pub owner: Option<ListedOwner>,
    /// What a server knows of it.
    pub queued: Option<QueuedRun>,
    /// When it was created, in milliseconds since 1970, if that is known.
    pub created_ms: Option<i64>,
    /// When it last changed, in the same way.
    pub changed_ms: Option<i64>,
    /// When it ended, in the same way.
    pub ended_ms: Option<i64>,
}

impl RunListing {
    /// Adds what the state of the run is, which was read.
    pub fn with_overview(mut self, overview: RunOverview) -> Self {
        let is_open = matches!(
            self.state,
            LifecycleState::Resting | LifecycleState::Detached
        );
        if is_open && has_ended(overview.status) {
            self.state = LifecycleState::Ended;
        }
        self.overview = Some(overview);
        self
    }

    /// Returns the name of its status: `queued` before it begins.
    pub fn status_name(&self) -> Option<&'static str> {
        let overview = self.overview.as_ref()?;
        let is_waiting = matches!(self.state, LifecycleState::Queued | LifecycleState::Refused);
        Some(match is_waiting && overview.run.is_empty() {
            true => LifecycleState::Queued.name(),
            false => overview.status.name(),
        })
    }
}

/// The process that works on a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedOwner {
    /// The id of the worker, or of the process on this machine.
    pub worker: String,
    /// The name of its machine; empty if it is not known.
    pub host: String,
    /// Since when, in milliseconds since 1970, if that is known.
    pub since_ms: Option<i64>,
}

/// What a server knows of a run besides its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuedRun {
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<String>,
    /// What was noted with it to find it by.
    pub tags: BTreeMap<String, String>,
    /// The labels that a worker needs for it.
    pub needs: Vec<String>,
    /// Why a worker could not run it.
    pub problem: Option<String>,
}

/// Which runs are listed. What is empty excludes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFilter {
    /// The names of statuses, `queued` among them.
    pub statuses: Vec<String>,
    /// The states.
    pub states: Vec<LifecycleState>,
    /// The name of the team.
    pub team: Option<String>,
    /// The cap that applies besides that of all runs.
    pub scope: Option<String>,
    /// What was noted with them.
    pub tags: Vec<(String, String)>,
    /// The name, in which `*` stands for any characters and `?` for any one.
    pub name: Option<String>,
    /// The earliest time of the last change, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The latest time of the last change.
    pub until_ms: Option<i64>,
    /// How many are listed at most: those that changed last.
    pub limit: usize,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self {
            statuses: Vec::new(),
            states: Vec::new(),
            team: None,
            scope: None,
            tags: Vec::new(),
            name: None,
            since_ms: None,
            until_ms: None,
            limit: usize::MAX,
        }
    }
}

impl RunFilter {
    /// Whether nothing is excluded but by number.
    pub fn is_open(&self) -> bool {
        *self
            == Self {
                limit: self.limit,
                ..Self::default()
            }
    }

    /// Whether a run is listed.
    pub fn accepts(&self, run: &RunListing) -> bool {
        let status = run.status_name();
        let has_status = |name: &String| status == Some(name.as_str());
        let queued = run.queued.as_ref();
        let has_tag = |(key, value): &(String, String)| {
            queued.is_some_and(|queued| queued.tags.get(key) == Some(value))
        };
        (self.statuses.is_empty() || self.statuses.iter().any(has_status))
            && (self.states.is_empty() || self.states.contains(&run.state))
            && self.team.as_ref().is_none_or(|team| {
                run.overview
                    .as_ref()
                    .is_some_and(|overview| overview.team == *team)
            })
            && self
                .scope
                .as_ref()
                .is_none_or(|scope| queued.and_then(|queued| queued.scope.as_ref()) == Some(scope))
            && self.tags.iter().all(has_tag)
            && self
                .name
                .as_ref()
                .is_none_or(|pattern| matches_pattern(pattern, &run.name))
            && self
                .since_ms
                .is_none_or(|since| run.changed_ms.is_some_and(|changed| changed >= since))
            && self
                .until_ms
                .is_none_or(|until| run.changed_ms.is_some_and(|changed| changed <= until))
    }
}

/// Whether a name matches a pattern in which `*` stands for any characters and `?` for any one.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read) = (0, 0);
    // Where the last `*` is, and how much of the name it stands for.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(&c) if c == '?' || c == name[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((position, taken)) => {
                    star = Some((position, taken + 1));
                    at = position + 1;
                    read = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Returns the status that is listed if reading it had this result. Fails if the result says nothing about the run.
fn listed_status(read: Result<Option<Status>, StoreError>) -> Result<Option<Status>, StoreError> {
    match read {
        Err(error @ StoreError::Unreachable { .. }) => Err(error),
        read => Ok(read.ok().flatten()),
    }
}

/// Returns the status of the run that is saved at a location, or `None` if its `team.json` is damaged.
fn saved_status(location: &StorageLocation) -> Result<Option<Status>, StoreError> {
    match location.read_saved()? {
        SavedRun::Records(reader) => newest_status(reader.as_ref()).map(Some),
        SavedRun::TeamJson(bytes) => Ok(strata_team_json::saved_status(&bytes)),
    }
}

fn newest_status(reader: &dyn Reader) -> Result<Status, StoreError> {
    Ok(reader.load(&StateSelector::Head)?.status())
}

impl StorageLocation {
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
        let mut runs = Vec::new();
        match self.place()? {
            Place::Directory(directory) => {
                let content = directory.content()?;
                if matches!(
                    content,
                    DirectoryContent::TeamJson | DirectoryContent::Database
                ) {
                    let (key, name) = DIRECTORY_RUN;
                    runs.push(ListedRun {
                        location: self.clone(),
                        key,
                        name: name.to_owned(),
                        status: listed_status(saved_status(self))?,
                    });
                }
            }
            Place::Shared(url) => shared::read_runs(url, limit, |run, reader| {
                runs.push(ListedRun {
                    location: Self::of_shared(url.with_run(&run.name)),
                    key: run.key,
                    name: run.name,
                    status: listed_status(newest_status(reader).map(Some))?,
                });
                Ok(())
            })?,
            Place::Database(url) => {
                for run in database::list_runs(url, limit)? {
                    let reader = database::open_run(url, &run);
                    let status = reader.and_then(|reader| newest_status(reader.as_ref()));
                    runs.push(ListedRun {
                        location: Self::of_database(url.with_run(&run.name)),
                        key: run.key,
                        name: run.name,
                        status: listed_status(status.map(Some))?,
                    });
                }
            }
        }
        Ok(runs)
    }

    /// Lists the runs that are kept here and that a filter accepts, whoever holds leases of them, without
    /// reading states. Of a database, these are the run that the URL names or else all; one whose state has to be
    /// read is listed, too, whatever the filter says of states. Nothing is sorted.
    ///
    /// # Errors
    /// Fails if the directory or the database cannot be read.
    pub fn list_overviews(&self, filter: &RunFilter) -> Result<Vec<RunListing>, StoreError> {
        match self.place()? {
            Place::Directory(directory) => {
                let content = directory.content()?;
                let is_saved = matches!(
                    content,
                    DirectoryContent::TeamJson | DirectoryContent::Database
                );
                let listed = is_saved.then(|| self.directory_listing());
                listed.into_iter().collect()
            }
            Place::Shared(url) => shared::list_overviews(url),
            Place::Database(url) => database::list_overviews(url, filter),
        }
    }

    /// Lists the run of a directory. Its name is that of the directory.
    fn directory_listing(&self) -> Result<RunListing, StoreError> {
        let name = self.operand().file_name().unwrap_or_default();
        let owner = match self.holder()? {
            LockHolder::Nobody => None,
            LockHolder::Process { pid } => {
                let lock = self.operand().join(LOCK_FILE);
                Some(ListedOwner::local(pid, held_since_ms(&lock)))
            }
        };
        Ok(RunListing {
            location: self.normalized(),
            name: name.to_string_lossy().into_owned(),
            overview: None,
            state: match owner {
                Some(_) => LifecycleState::Running,
                None => LifecycleState::Resting,
            },
            owner,
            queued: None,
            created_ms: None,
            changed_ms: None,
            ended_ms: None,
        })
    }
}

impl ListedOwner {
    /// Returns a process of this machine.
    pub(crate) fn local(pid: Option<u32>, since_ms: Option<i64>) -> Self {
        Self {
            worker: pid.map_or_else(String::new, |pid| pid.to_string()),
            host: machine::name(),
            since_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        };
        check("night*", "nightly", true);
        check("night*", "a-nightly", false);
        check("*a*b", "xaxbab", true);
        check("*a*b", "xaxba", false);
        check("n?ght", "night", true);
        check("n?ght", "nght", false);
        check("", "", true);
        check("**", "", true);
        check("n_ght", "night", false);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_run_of_a_database_that_cannot_be_reached_is_not_listed_as_unreadable() {
        // Nothing listens at this port.
        let location = StorageLocation::new("postgres://nobody@127.0.0.1:1/runs?run=one");
        let listed = listed_status(saved_status(&location));
        assert!(
            matches!(listed, Err(StoreError::Unreachable { .. })),
            "{listed:?}"
        );
    }
}
