//! What a team that shares a log finds after a loss of power: its database as of its last own sync,
//! and the group log.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use strata_core::record::id::Digest;
use tempfile::TempDir;

use super::*;
use crate::blob::{Blobs, digest_of};
use crate::storage::conformance::{loaded_state, pseudorandom, replay};
use crate::storage::directory::OpenedDirectory;
use crate::storage::script::{copy, definition, scripted_run};
use crate::storage::{ReplacePolicy, StateSelector, StorageDirectory};

/// A team, and what would be left of it on the disk.
struct TestDisk {
    store: SqliteLease,
    directory: StorageDirectory,
    /// Its database as of its last own sync.
    synced: TempDir,
    _temp: TempDir,
}

fn is_database(name: &str) -> bool {
    matches!(name, "team.db" | "team.db-wal")
}

impl TestDisk {
    fn new(group: &GroupLog) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let mut store = directory
            .create(ReplacePolicy::Never, &replay(&[]), &definition())
            .unwrap()
            .lease;
        store.join(group);
        Self {
            store,
            directory,
            synced: tempfile::tempdir().unwrap(),
            _temp: temp,
        }
    }

    fn entries(&self) -> usize {
        log_links(self.directory.path()).unwrap()[0]
            .entries()
            .unwrap()
            .len()
    }

    /// Makes a durable change. Returns whether the group log alone made it durable; otherwise, the
    /// team's own WAL was synced.
    fn durable_change(&mut self, work: impl FnOnce(&mut SqliteLease)) -> bool {
        let before = self.entries();
        work(&mut self.store);
        let is_shared = self.entries() > before;
        if !is_shared {
            copy(self.directory.path(), self.synced.path(), is_database);
        }
        is_shared
    }

    fn append(&mut self, records: &[Record]) -> bool {
        self.durable_change(|store| store.append(records, Durability::Full).unwrap())
    }

    /// Returns the store that is found after a loss of power now. What was written since the last
    /// own sync was either written back by chance, or lost.
    fn after_loss(&self, by_chance: bool) -> (OpenedDirectory, TempDir) {
        let left = tempfile::tempdir().unwrap();
        let database = if by_chance {
            self.directory.path()
        } else {
            self.synced.path()
        };
        copy(database, left.path(), is_database);
        copy(self.directory.path(), left.path(), |name| {
            name.starts_with("team.shared-log-") || name == "team.json"
        });
        (StorageDirectory::new(left.path()).open().unwrap(), left)
    }
}

/// Checks what is left of the appended records after a loss of power: at least the first `safe` of them, and the blob.
fn check_recovered(
    opened: &OpenedDirectory,
    appended: &[Record],
    safe: usize,
    blob: Option<&Digest>,
) {
    assert!(!opened.team_json_differs);
    let kept = opened.lease.records(0, usize::MAX).unwrap();
    assert!(
        kept.len() >= safe && kept.len() <= appended.len(),
        "{} of {safe} are left",
        kept.len()
    );
    assert_eq!(kept, appended[..kept.len()]);
    assert_eq!(
        loaded_state(&opened.lease.load(&StateSelector::Head).unwrap()),
        replay(&kept)
    );
    assert!(blob.is_none_or(|blob| opened.lease.blob(blob).unwrap().is_some()));
}

#[test]
fn what_was_appended_in_full_survives_a_loss_of_power() {
    let (records, _) = scripted_run(&pseudorandom(23, 3000), 400);
    let group = GroupLog::new();
    let mut others = TestDisk::new(&group);
    let mut alone = 0;
    for seed in 0..4 {
        let mut chance = StdRng::seed_from_u64(seed);
        let mut disk = TestDisk::new(&group);
        let (mut at, mut safe, mut blob) = (0, 0, None);
        while at < records.len() {
            let next = (at + chance.random_range(1..4)).min(records.len());
            let mut new_blob = None;
            match chance.random_range(0..20) {
                0 => disk.store.save_snapshot(&replay(&records[..at])).unwrap(),
                1 => disk.store.keep_checkpoints(3).unwrap(),
                2 => {
                    let note = at.to_string();
                    disk.durable_change(|store| {
                        store.set_note("n", &note, Durability::Full).unwrap()
                    });
                    safe = at;
                }
                3 => {
                    let bytes: Arc<[u8]> = at.to_le_bytes().into();
                    new_blob = Some(digest_of(&bytes));
                    disk.store
                        .put_blobs(&Blobs::from([(digest_of(&bytes), bytes)]))
                        .unwrap();
                }
                _ => {}
            }
            if chance.random_bool(0.3) && new_blob.is_none() {
                disk.store
                    .append(&records[at..next], Durability::Process)
                    .unwrap();
            } else {
                alone += usize::from(!disk.append(&records[at..next]));
                (safe, blob) = (next, new_blob.or(blob));
            }
            at = next;
            others.append(&records[others.store.current.line().events as usize..][..1]);
            if chance.random_bool(0.1) && safe > 0 {
                let (opened, left) = disk.after_loss(chance.random());
                check_recovered(&opened, &records[..at], safe, blob.as_ref());
                assert_eq!(log_links(left.path()).unwrap().len(), 0);
            }
        }
        others = TestDisk::new(&group);
    }
    assert!(
        (20..200).contains(&alone),
        "its own log was synced {alone} times"
    );
}

#[test]
fn what_is_found_may_be_found_again() {
    let (records, end) = scripted_run(&pseudorandom(5, 800), 60);
    let group = GroupLog::new();
    let mut disk = TestDisk::new(&group);
    for some in records.chunks(2) {
        disk.append(some);
    }
    let (opened, left) = disk.after_loss(false);
    drop(opened);
    // Killed before the link was removed.
    copy(disk.directory.path(), left.path(), |name| {
        name.starts_with("team.shared-log-")
    });
    let store = StorageDirectory::new(left.path()).open().unwrap().lease;
    assert_eq!(
        loaded_state(&store.load(&StateSelector::Head).unwrap()),
        end
    );
    assert_eq!(log_links(left.path()).unwrap().len(), 0);
}

#[test]
fn a_log_that_goes_on_further_on_is_refused() {
    let (records, _) = scripted_run(&pseudorandom(5, 800), 60);
    let group = GroupLog::new();
    let mut disk = TestDisk::new(&group);
    for some in records[..20].chunks(2) {
        disk.append(some);
    }
    disk.store.set_definition(&definition()).unwrap();
    let earlier = tempfile::tempdir().unwrap();
    copy(disk.synced.path(), earlier.path(), is_database);
    disk.append(&records[20..22]);
    let link = log_links(disk.directory.path()).unwrap().remove(0);
    let last = link.entries().unwrap().pop().unwrap();
    let mut store = StorageDirectory::new(earlier.path()).open().unwrap().lease;
    let refused = store
        .restore_events(GroupLogEntry::read(&link, &last).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("the database ends with event 2, this goes on with event 21"),
        "{refused}"
    );
    assert!(GroupLogEntry::read(&link, &last[..last.len() - 1]).is_err());
}

#[test]
fn who_leaves_takes_nothing_along_and_leaves_nothing_behind() {
    let (records, end) = scripted_run(&pseudorandom(5, 800), 60);
    let group = GroupLog::new();
    let [mut one, mut two] = [TestDisk::new(&group), TestDisk::new(&group)];
    for some in records.chunks(3) {
        one.append(some);
        two.append(some);
    }
    let TestDisk {
        store,
        directory,
        _temp,
        ..
    } = one;
    drop(store);
    assert_eq!(log_links(directory.path()).unwrap().len(), 0);
    let mut store = directory.open().unwrap().lease;
    assert_eq!(
        loaded_state(&store.load(&StateSelector::Head).unwrap()),
        end
    );
    store.join(&group);
    assert_eq!(log_links(directory.path()).unwrap().len(), 1);
    assert_eq!(
        loaded_state(
            &two.after_loss(false)
                .0
                .lease
                .load(&StateSelector::Head)
                .unwrap()
        ),
        end
    );
}
