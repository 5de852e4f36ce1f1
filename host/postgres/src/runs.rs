//! Opens and creates the runs of a database.

use std::path::PathBuf;

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::database_url::{DatabaseUrl, require_new_name};
use strata_records::error::StoreError;
use strata_records::lineage::NamedRun;
use strata_records::{Lease, OwnerWait, Reader, ReplacePolicy, SavedDefinition, StateSelector};
use tokio_postgres::types::Type;

use super::administer::require_open;
use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::new_run::NewPostgresRun;
use super::owner::acquire;
use super::rows::{PostgresReader, PostgresRows};
use super::run_name::{find_run, run_key, run_name};
use super::schema::migrate;
use super::server_writer::{PostgresLease, ServerWriter};

/// How many earlier runs may have been renamed to make room for one of their name.
const MAX_FORMER_RUNS: u32 = 100_000;

/// What distinguishes a run from another of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// Its key.
    pub key: u64,
    /// When it was created, by the server's clock.
    pub created_ns: u64,
}

/// A database without a run of a name, which is about to be created.
#[derive(Debug)]
pub struct VacantRun {
    database: Database,
    connection: Connection,
    /// What the previous run of that name is called now.
    pub moved_to: Option<PathBuf>,
}

/// Fails unless there is the run of a URL.
pub fn require_run(database: &Database) -> Result<(), StoreError> {
    find_run(&database.connect()?).map(drop)
}

/// Fails if there is the run of a URL.
pub fn require_vacant(database: &Database) -> Result<(), StoreError> {
    let connection = database.connect()?;
    match run_key(&connection)? {
        Some(_) => Err(StoreError::Occupied {
            path: connection.path().into(),
        }),
        None => Ok(()),
    }
}

/// Returns what distinguishes a run from another of the same name.
pub fn run_identity(database: &Database) -> Result<RunIdentity, StoreError> {
    let connection = database.connect()?;
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
pub fn open_reader(database: &Database) -> Result<Box<dyn Reader>, StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    let rows = PostgresRows { connection, run };
    Ok(Box::new(PostgresReader::from_rows(rows)))
}

/// Opens the records of a run that was listed, without looking for it again.
pub fn open_run(database: &Database, run: &NamedRun) -> Result<Box<dyn Reader>, StoreError> {
    let rows = PostgresRows {
        connection: database.with_run(&run.name).connect()?,
        run: run.key,
    };
    Ok(Box::new(PostgresReader::from_rows(rows)))
}

/// Takes a lease of a run.
pub fn take_lease(database: &Database, wait: OwnerWait) -> Result<PostgresLease, StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    lease(database, connection, run, wait)
}

fn lease(
    database: &Database,
    connection: Connection,
    run: i64,
    wait: OwnerWait,
) -> Result<PostgresLease, StoreError> {
    let owner = acquire(database, &connection, run, wait)?;
    ServerWriter::lease(database, connection, run, owner)
}

/// Prepares the creation of a run. A finished one of its name gets another name, an unfinished one only
/// if `replace` says so.
pub fn vacate(database: &Database, replace: ReplacePolicy) -> Result<VacantRun, StoreError> {
    require_new_name(database, database.run())?;
    let connection = database.connect()?;
    run_name(&connection)?;
    migrate(&connection)?;
    // The previous run of that name is not renamed in vain.
    require_open(&connection)?;
    let Some(run) = run_key(&connection)? else {
        return Ok(VacantRun {
            database: database.clone(),
            connection,
            moved_to: None,
        });
    };
    // Nobody may be changing it. It is given up before it is renamed, which another process that
    // takes it in between survives: it knows the run by its key.
    let former = lease(database, database.connect()?, run, OwnerWait::Watch)?;
    if replace == ReplacePolicy::Never && !former.load(&StateSelector::Head)?.is_finished() {
        return Err(StoreError::Unfinished {
            path: connection.path().into(),
            file: former.definition().ok().map(|saved| saved.name),
        });
    }
    drop(former);
    let moved_to = rename_run(&connection, run)?;
    Ok(VacantRun {
        database: database.clone(),
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
    pub fn create(
        self,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<PostgresLease, StoreError> {
        create_run(&self.database, self.connection, base, definition, blobs)
    }
}

fn create_run(
    database: &Database,
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
    let run = inserted.map_err(|error| {
        if error.is_name_taken {
            StoreError::Occupied {
                path: connection.path().into(),
            }
        } else {
            error.meaning
        }
    })?;
    lease(database, connection, run, OwnerWait::Watch)
}

/// Saves a run that starts from `base`, with the bytes of its files, where there is none of its name.
pub fn place_run(
    database: &Database,
    base: &Environment,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<(), StoreError> {
    require_new_name(database, database.run())?;
    let connection = database.connect()?;
    run_name(&connection)?;
    migrate(&connection)?;
    create_run(database, connection, base, definition, blobs).map(drop)
}
