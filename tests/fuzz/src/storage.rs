//! A storage directory whose database was changed: its content can be read, or is rejected with a
//! reason.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use strata_core::machine::stepper::Stepper;
use strata_core::record::shape::Shape;
use strata_host::manifest::{Definition, Overrides};
use strata_host::public_event::EventTranslator;
use strata_host::storage::{LoadedState, Record, StateSelector, StorageLocation, StoreError};
use strata_host::{LiveEnvironment, Start, WhenIdle};
use tempfile::TempDir;

use crate::seal::{change, seal};
use crate::{Taker, boundary};

/// The prefix of inputs that are edits of cells instead of the file.
const CELLS: &[u8] = b"cells";

/// A target that applies edits to a valid database: each four bytes are a position (of 2^24) and a
/// byte to write there, or they are edits of cells as in `seal`. An input that begins like a
/// database is one. It is used unchanged, and then with corrected checksums.
pub(super) fn storage() -> Taker {
    let folder = saved();
    let good = fs::read(folder.path().join("store/team.db")).unwrap();
    let sealed = seal(&Connection::open(folder.path().join("store/team.db")).unwrap());
    assert_eq!(sealed, Ok(0), "checksums are made as the store makes them");
    Box::new(move |bytes| {
        let mut database = good.clone();
        let cells = bytes.strip_prefix(CELLS);
        if bytes.starts_with(b"SQLite format 3") {
            database = bytes.to_vec();
        } else if cells.is_none() {
            for edit in bytes.chunks_exact(4) {
                let at = u32::from_be_bytes([0, edit[0], edit[1], edit[2]]) as usize % good.len();
                database[at] ^= edit[3];
            }
        }
        let team = folder.path().join("team.toml");
        let letter = folder.path().join("store/team.json");
        take(&database, &team, &letter);
        if let Some(sealed) = resealed(&database, cells.unwrap_or_default()) {
            take(&sealed, &team, &letter);
        }
    })
}

/// Reads a database and continues its run, without and with the file of an orderly stop beside it.
fn take(database: &[u8], team: &Path, team_json: &Path) {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("team.db"), database).unwrap();
    let _ = read_all(temp.path(), team);
    fs::copy(team_json, temp.path().join("team.json")).unwrap();
    let _ = go_on(temp.path(), team);
}

/// Returns the database with changed cells and corrected checksums, if it is still a database.
fn resealed(database: &[u8], edits: &[u8]) -> Option<Vec<u8>> {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("team.db");
    fs::write(&path, database).unwrap();
    let conn = Connection::open(&path).ok()?;
    conn.execute_batch("PRAGMA trusted_schema = off; PRAGMA journal_mode = delete;")
        .ok()?;
    change(&conn, edits);
    seal(&conn).ok()?;
    conn.close().ok()?;
    // A log beside the new database would be taken for a lost one.
    let mut sealed = fs::read(&path).unwrap();
    sealed.get_mut(18..20)?.copy_from_slice(&database[18..20]);
    Some(sealed)
}

/// Returns a directory with a saved team that has made a few steps, and has a join and a fault.
fn saved() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let team = folder.path().join("team.toml");
    fs::write(&team, include_str!("../team.toml")).unwrap();
    fs::copy(
        boundary::built("plugins/probe"),
        folder.path().join("probe.wasm"),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (store, overrides) = (folder.path().join("store"), Overrides::default());
        let start = Start::new(&team, &store, overrides.clone());
        let mut environment =
            LiveEnvironment::create(start).unwrap_or_else(|error| panic!("{error}"));
        environment.start(WhenIdle::End).unwrap();
        environment.ended().await.unwrap();
    });
    folder
}

/// Reads everything from a storage directory.
fn read_all(path: &Path, team: &Path) -> Result<(), StoreError> {
    let reader = StorageLocation::new(path).read()?;
    replay(reader.load(&StateSelector::Head), team)?;
    for row in reader.checkpoints()? {
        // A damaged part has no effect on the others.
        let _ = replay(reader.load(&StateSelector::Checkpoint(row.id)), team);
    }
    for row in reader.lineages()? {
        let _ = replay(reader.load(&StateSelector::Lineage(row.name)), team);
    }
    reader.dropped()?;
    reader.earliest_state()?;
    let mut translator = EventTranslator::new(reader.load(&StateSelector::Head)?.base.shape, 0);
    for record in reader.records(0, usize::MAX)? {
        translator.translate(&record.event, record.line, record.time_ms);
    }
    reader.spent()?;
    reader.definition()?;
    // The attempts as reported before they are applied, and everything that is shown of a state.
    let _ = path.to_str().map(strata_host::launch::gather_report);
    Ok(())
}

/// Reads the same as the owner of the run.
fn go_on(path: &Path, team: &Path) -> Result<(), StoreError> {
    let mut opened = StorageLocation::new(path).open()?;
    let saved = opened.lease.load(&StateSelector::Head)?;
    let base = saved.base.clone();
    replay(Ok(saved), team)?;
    opened.lease.save_snapshot(&base)
}

/// Applies the events in order. An event that does not fit is rejected.
fn replay(saved: Result<LoadedState, StoreError>, team: &Path) -> Result<(), StoreError> {
    let saved = saved?;
    let definition = Definition::read(team).unwrap();
    if saved.base.shape != Shape::from_team(&definition.team) {
        // A resume shows this first.
        return Ok(());
    }
    let mut stepper = Stepper::new(definition.team.into(), saved.base);
    let fits = |record: &Record| stepper.apply(&record.event).is_ok();
    let _ = saved.tail.iter().all(fits);
    // A report reads all messages.
    let env = stepper.env();
    assert_eq!(env.messages.iter().count(), env.messages.len());
    let _ = stepper.next();
    Ok(())
}
