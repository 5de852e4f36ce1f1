//! Opens and creates the runs of a database.

use std::path::PathBuf;

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use tokio_postgres::types::Type;

use super::administer::require_open;
use super::connect::StatementError;
use super::connection::Connection;
use super::new_run::NewPostgresRun;
use super::owner::acquire;
use super::rows::{PostgresReader, PostgresRows};
use super::run_name::{find_run, run_key, run_name};
use super::schema::migrate;
use super::server_writer::PostgresLease;
use crate::database_url::{DatabaseUrl, require_new_name};
use crate::error::StoreError;
use crate::lineage::NamedRun;
use crate::{Lease, OwnerWait, Reader, ReplacePolicy, SavedDefinition, StateSelector};

/// How many earlier runs may have been renamed to make room for one of their name.
const MAX_FORMER_RUNS: u32 = 100_000;

/// What distinguishes a run from another of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunIdentity {
    /// Its key.
    pub key: u64,
    /// When it was created, by the server's clock.
    pub created_ns: u64,
}

/// A database without a run of a name, which is about to be created.
#[derive(Debug)]
pub(crate) struct VacantRun {
    connection: Connection,
    /// What the previous run of that name is called now.
    pub(crate) moved_to: Option<PathBuf>,
}

/// Fails unless there is the run of a URL.
pub(crate) fn require_run(url: &DatabaseUrl) -> Result<(), StoreError> {
    find_run(&Connection::open(url)?).map(drop)
}

/// Fails if there is the run of a URL.
pub(crate) fn require_vacant(url: &DatabaseUrl) -> Result<(), StoreError> {
    let connection = Connection::open(url)?;
    match run_key(&connection)? {
        Some(_) => Err(StoreError::Occupied {
            path: connection.path().into(),
        }),
        None => Ok(()),
    }
}

/// Returns what distinguishes a run from another of the same name.
pub(crate) fn run_identity(url: &DatabaseUrl) -> Result<RunIdentity, StoreError> {
    let connection = Connection::open(url)?;
    let key = find_run(&connection)?;
    let sql =
        "SELECT (extract(epoch FROM created_at) * 1000000)::bigint FROM strata.run WHERE id = $1";
    let row = connection.query_optional(sql, &[(&key, Type::INT8)])?;
    let created_us: i64 = row.map_or(0, |row| row.get(0));
    Ok(RunIdentity {
        key: key as u64,
        created_ns: (created_us as u64).saturating_mul(1000),
    })
}

/// Opens the records of a run for reading.
pub(crate) fn open_reader(url: &DatabaseUrl) -> Result<Box<dyn Reader>, StoreError> {
    let connection = Connection::open(url)?;
    let run = find_run(&connection)?;
    let rows = PostgresRows { connection, run };
    Ok(Box::new(PostgresReader::from_rows(rows)))
}

/// Opens the records of a run that was listed, without looking for it again.
pub(crate) fn open_run(url: &DatabaseUrl, run: &NamedRun) -> Result<Box<dyn Reader>, StoreError> {
    let rows = PostgresRows {
        connection: Connection::open(&url.with_run(&run.name))?,
        run: run.key,
    };
    Ok(Box::new(PostgresReader::from_rows(rows)))
}

/// Takes a lease of a run.
pub(crate) fn take_lease(url: &DatabaseUrl, wait: OwnerWait) -> Result<PostgresLease, StoreError> {
    let connection = Connection::open(url)?;
    let run = find_run(&connection)?;
    lease(connection, run, wait)
}

fn lease(connection: Connection, run: i64, wait: OwnerWait) -> Result<PostgresLease, StoreError> {
    let owner = acquire(&connection, run, wait)?;
    PostgresLease::of_owner(connection, run, owner)
}

/// Prepares the creation of a run. A finished one of its name gets another name, an unfinished one only
/// if `replace` says so.
pub(crate) fn vacate(url: &DatabaseUrl, replace: ReplacePolicy) -> Result<VacantRun, StoreError> {
    require_new_name(url, url.run.as_deref())?;
    let connection = Connection::open(url)?;
    run_name(&connection)?;
    migrate(&connection)?;
    // The previous run of that name is not renamed in vain.
    require_open(&connection)?;
    let Some(run) = run_key(&connection)? else {
        return Ok(VacantRun {
            connection,
            moved_to: None,
        });
    };
    // Nobody may be changing it. It is given up before it is renamed, which another process that
    // takes it in between survives: it knows the run by its key.
    let former = lease(Connection::open(url)?, run, OwnerWait::Watch)?;
    if replace == ReplacePolicy::Never && !former.load(&StateSelector::Head)?.is_finished() {
        return Err(StoreError::Unfinished {
            path: connection.path().into(),
            file: former.definition().ok().map(|saved| saved.name),
        });
    }
    drop(former);
    let moved_to = rename_run(&connection, run)?;
    Ok(VacantRun {
        connection,
        moved_to: Some(moved_to.to_path()),
    })
}

/// Gives a run a name that none has, and returns its URL.
fn rename_run(connection: &Connection, run: i64) -> Result<DatabaseUrl, StoreError> {
    let name = run_name(connection)?;
    for n in 1..MAX_FORMER_RUNS {
        let new = format!("{name}.old-{n}");
        let sql = "UPDATE strata.run SET name = $2 WHERE id = $1 \
                   AND NOT EXISTS (SELECT FROM strata.run WHERE name = $2)";
        match connection.execute(sql, &[(&run, Type::INT8), (&new, Type::TEXT)]) {
            Ok(1) => return Ok(connection.url().with_run(&new)),
            Ok(_) => {}
            Err(StatementError {
                is_name_taken: true,
                ..
            }) => {}
            Err(error) => return Err(error.meaning),
        }
    }
    let error = std::io::Error::other(format!("there are {MAX_FORMER_RUNS} earlier runs already"));
    Err(StoreError::io(connection.path(), "rename a run in", error))
}

impl VacantRun {
    /// Creates the run, and takes a lease of it.
    pub(crate) fn create(
        self,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<PostgresLease, StoreError> {
        create_run(self.connection, base, definition, blobs)
    }
}

fn create_run(
    connection: Connection,
    base: &Environment,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<PostgresLease, StoreError> {
    let new = NewPostgresRun {
        name: run_name(&connection)?,
        base,
        definition,
        blobs,
        team: "",
        submission: None,
    };
    let inserted = new.insert(&connection);
    let run = inserted.map_err(|error| match error.is_name_taken {
        true => StoreError::Occupied {
            path: connection.path().into(),
        },
        false => error.meaning,
    })?;
    lease(connection, run, OwnerWait::Watch)
}

/// Saves a run that starts from `base`, with the bytes of its files, where there is none of its name.
pub(crate) fn place_run(
    url: &DatabaseUrl,
    base: &Environment,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<(), StoreError> {
    require_new_name(url, url.run.as_deref())?;
    let connection = Connection::open(url)?;
    run_name(&connection)?;
    migrate(&connection)?;
    create_run(connection, base, definition, blobs).map(drop)
}
