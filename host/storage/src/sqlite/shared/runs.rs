//! Finds, creates and renames the runs of a database by their URLs.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::database_url::require_new_name;
use strata_records::deleted_run::DeletedRun;
use strata_records::error::StoreError;
use strata_records::lineage::NamedRun;
use strata_records::reader::Reader;

use super::super::lineage::{DELETED_RUN_NOTE, next_key};
use super::super::rows::{SqliteReader, SqliteRows, WHOLE_DATABASE};
use super::super::write::NewRun;
use super::super::write_change::new_lineage_id;
use super::change::ChangeTerms;
use super::database::{
    DatabaseHandle, MissingDatabase, SharedDatabase, canonical_path, database_files,
};
use super::queued_writer::{QueuedWriter, SharedLease};
use super::settings::require_open;
use crate::directory::file::FileIdentity;
use crate::progress::WriteProgress;
use crate::sqlite_url::SqliteUrl;
use crate::{Lease, LocationIdentity, ReplacePolicy, SavedDefinition, StateSelector, file};

/// How many runs are listed in messages.
const MAX_RUNS_IN_MESSAGES: i64 = 20;
/// How many earlier runs may have been renamed to make room for one of their name.
const MAX_FORMER_RUNS: u32 = 100_000;

/// Opens the database of a URL for reading what all runs have together; `None` if there is none.
pub(super) fn open_whole(url: &SqliteUrl) -> Result<Option<SqliteReader>, StoreError> {
    file::require_regular(database_files(&url.file))?;
    if SharedDatabase::is_open_here(&url.file)? {
        // It was checked when it was opened.
        let rows = SqliteRows::open_beside_writer(url.file.clone(), WHOLE_DATABASE)?;
        return Ok(Some(SqliteReader::from_rows(rows)));
    }
    if url.file.exists() {
        SqliteRows::open_run(url.file.clone(), WHOLE_DATABASE).map(Some)
    } else {
        WriteProgress::require_no_loss(&url.file).map(|()| None)
    }
}

/// Returns the name of the run of a URL. Fails if it names none.
fn run_name<'a>(url: &'a SqliteUrl, reader: Option<&SqliteReader>) -> Result<&'a str, StoreError> {
    match &url.run {
        Some(name) => Ok(name),
        None => Err(StoreError::RunNotNamed {
            path: url.to_path(),
            known: known_runs(reader)?,
        }),
    }
}

/// Returns the names of the newest runs, the newest first.
fn known_runs(reader: Option<&SqliteReader>) -> Result<Vec<String>, StoreError> {
    let Some(reader) = reader else {
        return Ok(Vec::new());
    };
    let runs = reader.read_consistently(|reader| reader.rows.newest_runs(MAX_RUNS_IN_MESSAGES))?;
    Ok(runs.into_iter().map(|run| run.name).collect())
}

/// Returns the key of the run of a URL, if it exists.
fn run_key(url: &SqliteUrl, reader: Option<&SqliteReader>) -> Result<Option<i64>, StoreError> {
    let name = run_name(url, reader)?;
    match reader {
        Some(reader) => reader.read_consistently(|reader| reader.rows.run_key(name)),
        None => Ok(None),
    }
}

/// Returns who deleted the run of a URL, if somebody did not long ago.
fn read_deletion(reader: &SqliteReader, url: &SqliteUrl) -> Result<Option<DeletedRun>, StoreError> {
    let name = DeletedRun::note_name(url.run.as_deref().unwrap_or_default());
    let sql = "SELECT text FROM note WHERE run = 0 AND name = ?1";
    let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let note = reader.read_consistently(|reader| reader.rows.query_optional(sql, [&name], read))?;
    Ok(note.and_then(|note| DeletedRun::from_note(&note)))
}

/// Fails unless there is a database at a URL, whichever run it names.
pub(crate) fn require_database(url: &SqliteUrl) -> Result<(), StoreError> {
    match open_whole(url)? {
        Some(_) => Ok(()),
        None => Err(StoreError::Absent {
            path: url.to_path(),
        }),
    }
}

/// Opens the run of a URL for reading. Fails if there is none.
pub(crate) fn open_named(url: &SqliteUrl) -> Result<SqliteReader, StoreError> {
    let Some(whole) = open_whole(url)? else {
        run_name(url, None)?;
        return Err(StoreError::Absent {
            path: url.to_path(),
        });
    };
    match run_key(url, Some(&whole))? {
        Some(key) => Ok(whole.rows.of_run(key)),
        None => Err(StoreError::NoRun {
            path: url.to_path(),
            name: run_name(url, Some(&whole))?.into(),
            known: known_runs(Some(&whole))?,
            deleted: read_deletion(&whole, url)?,
        }),
    }
}

/// Returns whether there is the run of a URL.
pub(crate) fn has_run(url: &SqliteUrl) -> Result<bool, StoreError> {
    Ok(run_key(url, open_whole(url)?.as_ref())?.is_some())
}

/// Opens the records of a run for reading.
pub(crate) fn open_reader(url: &SqliteUrl) -> Result<Box<dyn Reader>, StoreError> {
    Ok(Box::new(open_named(url)?))
}

/// Fails unless there is the run of a URL.
pub(crate) fn require_run(url: &SqliteUrl) -> Result<(), StoreError> {
    open_named(url).map(drop)
}

/// Fails if there is the run of a URL.
pub(crate) fn require_vacant(url: &SqliteUrl) -> Result<(), StoreError> {
    match run_key(url, open_whole(url)?.as_ref())? {
        Some(_) => Err(StoreError::Occupied {
            path: url.to_path(),
        }),
        None => Ok(()),
    }
}

/// Reads the run that a URL names, if it exists, or else the `limit` newest ones, the newest first. The
/// database is opened once for all of them.
pub(crate) fn read_runs(
    url: &SqliteUrl,
    limit: usize,
    mut read: impl FnMut(NamedRun, &dyn Reader) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let Some(mut reader) = open_whole(url)? else {
        return Ok(());
    };
    let runs = match &url.run {
        Some(name) => {
            let key = run_key(url, Some(&reader))?;
            let named = key.map(|key| NamedRun {
                key,
                name: name.clone(),
            });
            named.into_iter().take(limit).collect()
        }
        None => {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            reader.read_consistently(|reader| reader.rows.newest_runs(limit))?
        }
    };
    for run in runs {
        reader = reader.rows.of_run(run.key);
        read(run, &reader)?;
    }
    Ok(())
}

/// Returns what distinguishes a run from another of the same name.
pub(crate) fn run_identity(url: &SqliteUrl) -> Result<LocationIdentity, StoreError> {
    let key = open_named(url)?.rows.run;
    let FileIdentity {
        path, created_ns, ..
    } = FileIdentity::read(&url.file)?;
    let url = SqliteUrl {
        file: path,
        run: url.run.clone(),
    };
    Ok(LocationIdentity {
        path: url.to_path(),
        number: key as u64,
        created_ns,
    })
}

/// Returns why no database can be created where a URL says, if something else is there.
pub(crate) fn obstacle(url: &SqliteUrl) -> Option<StoreError> {
    StoreError::no_directory(file::directory_of(&url.file), "create")
}

/// Whether two URLs are of the same run.
pub(crate) fn is_same(one: &SqliteUrl, other: &SqliteUrl) -> bool {
    let files = [one, other].map(|url| canonical_path(&url.file));
    one.run == other.run && matches!(files, [Ok(one), Ok(other)] if one == other)
}

/// Returns the files in which the runs of a URL's database are saved.
pub(crate) fn storage_files(url: &SqliteUrl) -> Vec<PathBuf> {
    database_files(&url.file)
}

/// Whether a file is one of those, or has the name of one.
pub(crate) fn is_storage_file(url: &SqliteUrl, file: &Path) -> bool {
    let Ok(file) = canonical_path(file) else {
        return false;
    };
    let own = database_files(&url.file);
    own.iter()
        .any(|own| canonical_path(own).is_ok_and(|own| own == file))
}

/// Takes a lease of a run.
pub(crate) fn take_lease(url: &SqliteUrl) -> Result<SharedLease, StoreError> {
    let run = open_named(url)?.rows.run;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    QueuedWriter::take(database, run, &url.to_path())
}

/// A database without a run of a name, which is about to be created.
#[derive(Debug)]
pub(crate) struct VacantName {
    database: DatabaseHandle,
    url: SqliteUrl,
    /// What the previous run of that name is called now.
    pub(crate) moved_to: Option<PathBuf>,
}

/// Prepares the creation of a run. A finished one of its name gets another name, an unfinished one only
/// if `replace` says so.
pub(crate) fn vacate(url: &SqliteUrl, replace: ReplacePolicy) -> Result<VacantName, StoreError> {
    require_new_name(url, url.run.as_deref())?;
    run_name(url, open_whole(url)?.as_ref())?;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create)?;
    require_open(&database, url)?;
    let mut vacant = VacantName {
        database,
        url: url.clone(),
        moved_to: None,
    };
    let whole = open_whole(url)?;
    let Some(run) = run_key(url, whole.as_ref())? else {
        return Ok(vacant);
    };
    let mut former = QueuedWriter::take(vacant.database.clone(), run, &url.to_path())?;
    if replace == ReplacePolicy::Never && !former.load(&StateSelector::Head)?.is_finished() {
        return Err(StoreError::Unfinished {
            path: url.to_path(),
            file: former.definition().ok().map(|saved| saved.name),
        });
    }
    let new = free_name(url, whole.as_ref())?;
    former.writer().rename(&new)?;
    vacant.moved_to = Some(url.with_run(&new).to_path());
    Ok(vacant)
}

/// Returns the name that the former run of a name gets, which none has.
fn free_name(url: &SqliteUrl, whole: Option<&SqliteReader>) -> Result<String, StoreError> {
    let name = run_name(url, whole)?;
    for n in 1..MAX_FORMER_RUNS {
        let new = format!("{name}.old-{n}");
        if run_key(&url.with_run(&new), whole)?.is_none() {
            return Ok(new);
        }
    }
    let error = std::io::Error::other(format!("there are {MAX_FORMER_RUNS} earlier runs already"));
    Err(StoreError::io(&url.to_path(), "rename a run in", error))
}

impl VacantName {
    /// Creates the run, and takes a lease of it.
    pub(crate) fn create(
        self,
        base: &Environment,
        definition: &SavedDefinition,
        blobs: &Blobs,
    ) -> Result<SharedLease, StoreError> {
        let Self { database, url, .. } = self;
        let name = run_name(&url, None)?.to_owned();
        let (base, definition, blobs) = (base.clone(), definition.clone(), blobs.clone());
        let created = database.change(ChangeTerms::durable(), move |conn| {
            let Some(key) = free_key(conn, &name)? else {
                return Ok(None);
            };
            let new = NewRun {
                run: (key, &name),
                lineage: new_lineage_id(conn)?,
                base: &base,
                definition: &definition,
                blobs: &blobs,
            };
            new.insert(conn).map(|()| Some(key))
        })?;
        match created.flatten() {
            Some(run) => QueuedWriter::take(database, run, &url.to_path()),
            None => Err(StoreError::Occupied {
                path: url.to_path(),
            }),
        }
    }
}

/// Returns the key of a new run, unless there is one of its name.
pub(super) fn free_key(conn: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT EXISTS (SELECT 1 FROM run WHERE name = ?1)";
    let is_taken: bool = conn.query_row(sql, [name], |row| row.get(0))?;
    // The key 0 stands for no run.
    let key = next_key(conn, "run", DELETED_RUN_NOTE)?.max(1);
    Ok((!is_taken).then_some(key))
}

/// Saves a run that starts from `base`, with the bytes of its files, where there is none of its name.
pub(crate) fn place_run(
    url: &SqliteUrl,
    base: &Environment,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<(), StoreError> {
    require_new_name(url, url.run.as_deref())?;
    run_name(url, open_whole(url)?.as_ref())?;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create)?;
    require_open(&database, url)?;
    let vacant = VacantName {
        database,
        url: url.clone(),
        moved_to: None,
    };
    vacant.create(base, definition, blobs).map(drop)
}
