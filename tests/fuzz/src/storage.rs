//! A storage directory whose database was changed: all that is in it can be read, or is refused with the reason.

use std::fs;
use std::path::Path;

use strata_core::stepper::Stepper;
use strata_host::manifest::{Definition, Overrides};
use strata_host::store::{At, Directory, Reader, Record, Saved, Store, StoreError};
use strata_host::{LiveEnvironment, Start, WhenIdle};
use tempfile::TempDir;

use crate::{Taker, boundary};

/// Applies edits to a good database: three bytes say where (of 2^24), one what to put over it, as often as there are
/// four. Bytes that begin like a database are one.
pub(super) fn storage() -> Taker {
    let folder = saved();
    let good = fs::read(folder.path().join("store/team.db")).unwrap();
    Box::new(move |bytes| {
        let mut database = good.clone();
        if bytes.starts_with(b"SQLite format 3") {
            database = bytes.to_vec();
        } else {
            for edit in bytes.chunks_exact(4) {
                let at = u32::from_be_bytes([0, edit[0], edit[1], edit[2]]) as usize % good.len();
                database[at] ^= edit[3];
            }
        }
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("team.db"), database).unwrap();
        let team = folder.path().join("team.toml");
        // Without and with the file of an orderly stop beside it.
        let _ = read_all(temp.path(), &team);
        fs::copy(folder.path().join("store/team.json"), temp.path().join("team.json")).unwrap();
        let _ = go_on(temp.path(), &team);
    })
}

/// The folder of a team with a few steps, a join and a fault behind it.
fn saved() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let team = folder.path().join("team.toml");
    fs::write(&team, include_str!("../team.toml")).unwrap();
    fs::copy(boundary::built("plugins/probe"), folder.path().join("probe.wasm")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (store, overrides) = (folder.path().join("store"), Overrides::default());
        let start = Start::new(&team, &store, &overrides);
        let mut environment = LiveEnvironment::create(start).unwrap_or_else(|error| panic!("{error}"));
        environment.start(WhenIdle::End).unwrap();
        environment.ended().await.unwrap();
    });
    folder
}

/// Everything that can be asked of a storage.
fn read_all(path: &Path, team: &Path) -> Result<(), StoreError> {
    let reader = Reader::open(&Directory::new(path))?;
    replay(reader.load(&At::Head), team)?;
    for row in reader.checkpoints()? {
        // One that is damaged says nothing of the others.
        let _ = replay(reader.load(&At::Checkpoint(row.id)), team);
    }
    for row in reader.lineages()? {
        let _ = replay(reader.load(&At::Lineage(row.name)), team);
    }
    reader.records(0, usize::MAX)?;
    reader.spent()?;
    reader.definition()?;
    Ok(())
}

/// The same by who works on it.
fn go_on(path: &Path, team: &Path) -> Result<(), StoreError> {
    let mut opened = Directory::new(path).open()?;
    let saved = opened.store.load(&At::Head)?;
    let base = saved.base.clone();
    replay(Ok(saved), team)?;
    opened.store.save_snapshot(&base)
}

/// Applies what was read, event by event: an event that does not fit is refused.
fn replay(saved: Result<Saved, StoreError>, team: &Path) -> Result<(), StoreError> {
    let saved = saved?;
    let definition = Definition::read(team).unwrap();
    let mut stepper = Stepper::new(definition.team.into(), saved.base);
    let fits = |record: &Record| stepper.apply(&record.event).is_ok();
    let _ = saved.tail.iter().all(fits);
    Ok(())
}
