//! Several databases that share the runs of an installation. A run is in one of them, and no database knows
//! of the others: a new run goes to the one that its name selects, and an existing one is found by asking
//! all of them.

use strata_base::files::sha256::Sha256;
use strata_records::{DatabaseSettings, Intake};

use crate::{RunDatabase, StoreError};

/// Whether another run may have the name of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrigin {
    /// The operator chose it.
    Given,
    /// It contains a random number, so that no other run has it.
    Generated,
}

/// The database that was selected for a new run.
#[derive(Debug)]
pub struct SelectedDatabase {
    /// The database.
    pub database: RunDatabase,
    /// Those that could not be asked, and why not.
    pub unavailable: Vec<(RunDatabase, StoreError)>,
}

/// Databases that share the runs of an installation.
#[derive(Clone, Debug)]
pub struct DatabaseSet {
    databases: Vec<RunDatabase>,
}

impl DatabaseSet {
    /// Returns the set of these databases.
    pub fn new(databases: Vec<RunDatabase>) -> Self {
        Self { databases }
    }

    /// Selects the database for a new run: among those that take new runs, the one that the name of the
    /// run determines. Creates the tables in those that have none.
    ///
    /// # Errors
    /// Fails with `StoreError::NameTaken` if one of them has a run of that name, and with
    /// `StoreError::Closed` if none takes new runs. Fails if one cannot be asked whether it has a run of a
    /// name that the operator chose, and if none can be asked.
    pub fn select(&self, run: &str, name: NameOrigin) -> Result<SelectedDatabase, StoreError> {
        let mut available = Vec::new();
        let mut unavailable = Vec::new();
        for database in &self.databases {
            match database.prepare() {
                Ok(settings) => available.push((database, settings)),
                Err(error @ StoreError::Unreachable { .. }) if name == NameOrigin::Generated => {
                    unavailable.push((database.clone(), error));
                }
                Err(error) => return Err(error),
            }
        }
        require_distinct(&available)?;
        // Two submissions at the same time select the same database, which has each name once.
        for (database, _) in &available {
            if name == NameOrigin::Given && database.has_run(run)? {
                return Err(StoreError::NameTaken {
                    path: database.location(run).path().into(),
                    name: run.into(),
                });
            }
        }
        let is_open = |settings: &DatabaseSettings| settings.intake == Intake::Open;
        let open: Vec<_> = available.iter().filter(|(_, one)| is_open(one)).collect();
        let incarnations: Vec<&str> = open.iter().map(|(_, one)| &*one.incarnation).collect();
        if let Some(selected) = select_by_name(run, &incarnations) {
            return Ok(SelectedDatabase {
                database: open[selected].0.clone(),
                unavailable,
            });
        }
        match available.first() {
            Some((database, _)) => Err(StoreError::Closed {
                path: database.location(run).path().into(),
            }),
            None => Err(unavailable.remove(0).1),
        }
    }

    /// Returns the database that has a run of this name, or `None` if none has one.
    ///
    /// # Errors
    /// Fails with `StoreError::AmbiguousRun` if two have one. Fails if one cannot be asked, unless another has
    /// the run.
    pub fn find(&self, run: &str) -> Result<Option<RunDatabase>, StoreError> {
        let mut found: Option<&RunDatabase> = None;
        let mut unavailable = None;
        for database in &self.databases {
            match (database.has_run(run), found) {
                (Ok(true), None) => found = Some(database),
                (Ok(true), Some(other)) => {
                    return Err(StoreError::AmbiguousRun {
                        name: run.into(),
                        one: other.location(run).path().into(),
                        other: database.location(run).path().into(),
                    });
                }
                (Ok(false), _) => {}
                (Err(error), _) => unavailable = Some(error),
            }
        }
        match (found, unavailable) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found.cloned()),
        }
    }
}

/// Fails if two databases have the same incarnation, because one of them is a copy of the other, or both
/// are the same.
pub fn require_distinct(databases: &[(&RunDatabase, DatabaseSettings)]) -> Result<(), StoreError> {
    for (n, (database, settings)) in databases.iter().enumerate() {
        let same = |(_, other): &&(&RunDatabase, DatabaseSettings)| {
            other.incarnation == settings.incarnation
        };
        if let Some((other, _)) = databases[..n].iter().find(same) {
            return Err(StoreError::SameDatabase {
                one: other.to_string().into(),
                other: database.to_string().into(),
            });
        }
    }
    Ok(())
}

/// Selects one of several databases by rendezvous hashing: the one whose incarnation, together with the
/// name of the run, has the largest digest. So an additional database changes nothing for the names for
/// which it is not selected itself.
fn select_by_name(run: &str, incarnations: &[&str]) -> Option<usize> {
    let weight = |incarnation: &str| {
        let mut sum = Sha256::new();
        sum.update(incarnation.as_bytes());
        // Neither of them contains this byte.
        sum.update(&[0]);
        sum.update(run.as_bytes());
        sum.finish()
    };
    (0..incarnations.len()).max_by_key(|&n| weight(incarnations[n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: std::ops::Range<u32> = 0..3000;

    fn selected(incarnations: &[&str]) -> Vec<usize> {
        let select = |n: u32| select_by_name(&format!("run-{n}"), incarnations).unwrap();
        NAMES.map(select).collect()
    }

    #[test]
    fn runs_are_distributed_over_the_databases() {
        let selected = selected(&["a", "b", "c"]);
        for database in 0..3 {
            let runs = selected.iter().filter(|&&one| one == database).count();
            assert!((800..1200).contains(&runs), "{database}: {runs}");
        }
        assert_eq!(select_by_name("run", &[]), None);
    }

    #[test]
    fn the_selection_depends_on_neither_the_order_nor_databases_that_are_not_selected() {
        let (two, three) = (selected(&["a", "b"]), selected(&["a", "b", "c"]));
        for (before, after) in two.iter().zip(&three) {
            assert!(before == after || *after == 2);
        }
        let reversed = selected(&["c", "b", "a"]);
        let back: Vec<usize> = reversed.iter().map(|one| 2 - one).collect();
        assert_eq!(three, back);
    }
}
