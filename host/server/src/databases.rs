//! The databases of a server. New runs are put into the first one, its home, where it also keeps what it remembers; the runs
//! of all of them are listed, found and worked on. What is said of all runs is said only if every database answers: a list
//! that lacks some would look complete.

use std::sync::Arc;

use strata_host::storage::{
    DatabaseRevisions, ListedWorker, RunChanges, RunDatabase, ServedFilter, ServedRun,
    ServerRecords, StoreError,
};

/// Which run is meant, among those of all databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    /// The place of its database among all of them.
    pub database: usize,
    /// The key that it has there.
    pub key: i64,
}

/// A database, with the records that servers keep in it.
struct Member {
    database: RunDatabase,
    records: Arc<dyn ServerRecords>,
}

/// The databases of a server, of which there is at least one.
pub struct Databases {
    home: Member,
    others: Vec<Member>,
}

impl Member {
    fn open(database: &RunDatabase) -> Result<Self, StoreError> {
        Ok(Self {
            records: database.records()?.into(),
            database: database.clone(),
        })
    }

    /// Whether a run is kept in this database.
    fn has(&self, run: &ServedRun) -> bool {
        self.database.location(&run.listing.name) == run.listing.location
    }
}

impl Databases {
    /// Opens databases, the first of which is the home.
    ///
    /// # Errors
    /// Fails if one of them cannot be reached.
    pub fn open(home: &RunDatabase, others: &[RunDatabase]) -> Result<Self, StoreError> {
        let others = others.iter().map(Member::open);
        Ok(Self {
            home: Member::open(home)?,
            others: others.collect::<Result<_, _>>()?,
        })
    }

    fn members(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.home).chain(&self.others)
    }

    /// Returns the database of new runs.
    pub fn home(&self) -> &RunDatabase {
        &self.home.database
    }

    /// Returns all databases, the home first.
    pub fn all(&self) -> impl Iterator<Item = &RunDatabase> {
        self.members().map(|member| &member.database)
    }

    /// Returns where the server keeps what it remembers.
    pub fn records(&self) -> &Arc<dyn ServerRecords> {
        &self.home.records
    }

    /// Returns the records of all databases, those of the home first.
    pub fn all_records(&self) -> impl Iterator<Item = &Arc<dyn ServerRecords>> {
        self.members().map(|member| &member.records)
    }

    /// Returns the database of a run that was listed or found, and its place among all of them.
    fn of_run(&self, run: &ServedRun) -> (usize, &Member) {
        let mut members = self.members().enumerate();
        // What is listed or found here is in one of them.
        let found = members.find(|(_, member)| member.has(run));
        found.unwrap_or((0, &self.home))
    }

    /// Returns the database of a run that was listed or found.
    pub fn database_of(&self, run: &ServedRun) -> &RunDatabase {
        &self.of_run(run).1.database
    }

    /// Returns the records that are kept in the database of a run.
    pub fn records_of(&self, run: &ServedRun) -> &Arc<dyn ServerRecords> {
        &self.of_run(run).1.records
    }

    /// Returns which run it is among those of all databases.
    pub fn key_of(&self, run: &ServedRun) -> RunKey {
        RunKey {
            database: self.of_run(run).0,
            key: run.key,
        }
    }

    /// Lists at most `limit` runs of all databases that a filter accepts, the newest first.
    ///
    /// # Errors
    /// Fails if one of the databases cannot be read.
    pub fn list(&self, filter: &ServedFilter, limit: usize) -> Result<Vec<ServedRun>, StoreError> {
        let mut lists = Vec::new();
        for database in self.all() {
            lists.push(database.list_served(filter, limit)?);
        }
        Ok(merge(lists, limit))
    }

    /// Returns the run of a tenant with a name: that of the first database that has one.
    ///
    /// # Errors
    /// Fails if a database cannot be read before one has the run.
    pub fn find_by_name(&self, tenant: &str, name: &str) -> Result<Option<ServedRun>, StoreError> {
        for database in self.all() {
            let found = database.find_served_by_name(tenant, name)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Returns the run with an id, which no other run has.
    ///
    /// # Errors
    /// Fails if a database cannot be read and none of the others has the run.
    pub fn find_by_id(&self, id: &str) -> Result<Option<ServedRun>, StoreError> {
        find_in(self.all(), |database| database.find_served_by_id(id))
    }

    /// Returns the run with a key.
    ///
    /// # Errors
    /// Fails if its database cannot be read.
    pub fn find_by_key(&self, key: RunKey) -> Result<Option<ServedRun>, StoreError> {
        match self.all().nth(key.database) {
            Some(database) => database.find_served_by_key(key.key),
            None => Ok(None),
        }
    }

    /// Returns whether a database has a run that is stored under this name.
    ///
    /// # Errors
    /// Fails if a database cannot be read.
    pub fn has_run(&self, stored_name: &str) -> Result<bool, StoreError> {
        for database in self.all() {
            if database.has_run(stored_name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails with `StoreError::NameTaken` if a database other than the home has a run that is stored under this name. That
    /// the home has none is found out when a run is put there.
    ///
    /// # Errors
    /// Also fails if a database cannot be read.
    pub fn require_free_elsewhere(&self, stored_name: &str) -> Result<(), StoreError> {
        for member in &self.others {
            if member.database.has_run(stored_name)? {
                return Err(name_taken(stored_name));
            }
        }
        Ok(())
    }

    /// Returns what `read` finds in the records of the first database in which it finds something.
    ///
    /// # Errors
    /// Fails if a database cannot be read and nothing is found in the others.
    pub fn find_in_records<T>(
        &self,
        read: impl Fn(&dyn ServerRecords) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        find_in(self.all_records(), |records| read(records.as_ref()))
    }

    /// Returns the workers of all databases, each with its database.
    ///
    /// # Errors
    /// Fails if a database cannot be read.
    pub fn workers(&self) -> Result<Vec<(&RunDatabase, ListedWorker)>, StoreError> {
        let mut all = Vec::new();
        for database in self.all() {
            let workers = database.workers()?;
            all.extend(workers.into_iter().map(|worker| (database, worker)));
        }
        Ok(all)
    }

    /// Tells which runs change from now on, for each database.
    ///
    /// # Errors
    /// Fails if a database cannot be reached.
    pub fn watch(&self) -> Result<Vec<RunChanges>, StoreError> {
        self.all().map(RunDatabase::watch_runs).collect()
    }

    /// Returns the revisions of all databases; `None` if other processes change one of them, too.
    ///
    /// # Errors
    /// Fails if a database cannot be opened.
    pub fn revisions(&self) -> Result<Option<Vec<DatabaseRevisions>>, StoreError> {
        self.all().map(RunDatabase::revisions).collect()
    }
}

/// Returns the error for a run whose name another one has.
pub fn name_taken(stored_name: &str) -> StoreError {
    StoreError::NameTaken {
        path: "runs".into(),
        name: stored_name.into(),
    }
}

/// Returns what `find` finds in the first place in which it finds something. Fails if it finds nothing, and one of the places
/// could not be asked.
fn find_in<P, T>(
    places: impl Iterator<Item = P>,
    find: impl Fn(P) -> Result<Option<T>, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut failed = None;
    for place in places {
        match find(place) {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) => {}
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(None), Err)
}

/// Merges lists of runs, each with the newest first, into one with at most `limit` runs.
fn merge(lists: Vec<Vec<ServedRun>>, limit: usize) -> Vec<ServedRun> {
    let mut runs: Vec<ServedRun> = lists.into_iter().flatten().collect();
    // The order in which each database lists them, in which positions are compared.
    let position = |run: &ServedRun| (run.listing.created_ms.unwrap_or(0), run.id.clone());
    runs.sort_by_cached_key(|run| std::cmp::Reverse(position(run)));
    runs.truncate(limit);
    runs
}

#[cfg(test)]
mod tests {
    use strata_host::storage::{LifecycleState, RunListing, StorageLocation};

    use super::*;

    fn run(created_ms: i64, id: &str) -> ServedRun {
        ServedRun {
            id: id.into(),
            key: 1,
            tenant: "default".into(),
            submitter: "ann".into(),
            listing: RunListing {
                location: StorageLocation::new("sqlite:runs.db?run=one"),
                name: "one".into(),
                overview: None,
                state: LifecycleState::Running,
                owner: None,
                queued: None,
                created_ms: Some(created_ms),
                changed_ms: None,
                ended_ms: None,
            },
            due_ms: None,
        }
    }

    #[test]
    fn lists_are_merged_with_the_newest_first_up_to_the_limit() {
        let lists = || {
            vec![
                vec![run(5, "b"), run(3, "x"), run(1, "a")],
                vec![run(5, "c"), run(5, "a"), run(2, "z")],
                vec![],
            ]
        };
        let merged = |limit: usize| -> String {
            let runs = merge(lists(), limit);
            runs.iter().map(|run| run.id.as_str()).collect()
        };
        assert_eq!(merged(10), "cbaxza");
        assert_eq!(merged(4), "cbax");
    }

    #[test]
    fn what_is_found_counts_and_what_is_not_found_only_if_all_could_be_asked() {
        type Answer = Result<Option<u8>, ()>;
        let check = |answers: &[Answer], expected: Answer| {
            let away = || StoreError::Absent { path: "x".into() };
            let found = find_in(answers.iter(), |answer| answer.map_err(|()| away()));
            assert_eq!(found.map_err(drop), expected, "{answers:?}");
        };
        check(&[Ok(None), Ok(None)], Ok(None));
        check(&[Ok(None), Ok(Some(1)), Ok(Some(2))], Ok(Some(1)));
        check(&[Err(()), Ok(Some(1))], Ok(Some(1)));
        check(&[Err(()), Ok(None)], Err(()));
        check(&[Ok(None), Err(())], Err(()));
    }

    #[test]
    fn a_run_is_of_the_database_in_whose_place_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let file = |name: &str| RunDatabase::in_file(&temp.path().join(name));
        let databases = Databases::open(&file("a.db"), &[file("b.db")]).unwrap();
        for (n, database) in databases.all().enumerate() {
            let mut run = run(1, "a");
            run.listing.location = database.location("one");
            assert_eq!(databases.database_of(&run), database);
            let expected = RunKey {
                database: n,
                key: 1,
            };
            assert_eq!(databases.key_of(&run), expected);
        }
    }
}
