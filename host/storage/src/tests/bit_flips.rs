//! Flips single bits in each file of a storage. Reading it must yield the right data or an error,
//! but never a panic, another state, or a fresh run.
//!
//! Only one in `STRATA_TEST_BITS` bits is flipped, from bit `STRATA_TEST_FIRST_BIT` on. With 1 and 0
//! all of them are, which takes hours; passes with another first bit each do the same in pieces.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use strata_core::state::environment::Environment;
use strata_team_json::write;

use super::conformance::loaded_state;
use super::script::pseudorandom;
use super::script::{definition, scripted_run, team};
use crate::directory::DirectoryContent;
use crate::sqlite::rows::SqliteRows;
use crate::{
    Durability, Lease, Record, RecordedRun, ReplacePolicy, StateSelector, StorageDirectory,
    StoreError,
};

/// The environment variable that says how many bits there are per bit that is flipped.
const STRIDE_VARIABLE: &str = "STRATA_TEST_BITS";
/// The default for it.
const DEFAULT_STRIDE: usize = 4999;
/// The environment variable that says which bit of each file is flipped first; 0 by default.
const FIRST_BIT_VARIABLE: &str = "STRATA_TEST_FIRST_BIT";
/// The number of events in the storage.
const EVENTS: usize = 12;

/// The content of the files of a storage, by their names.
type FileContents = BTreeMap<String, Vec<u8>>;

/// A storage, and what has to be found in it.
struct SavedStorage {
    files: FileContents,
    records: Vec<Record>,
    end: Environment,
}

/// Returns a storage as a process leaves it that stopped in an orderly way, or was killed.
fn saved(killed: bool) -> SavedStorage {
    let (records, end) = scripted_run(&pseudorandom(21, 8 * EVENTS), EVENTS);
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("store"));
    let mut store = directory
        .create(
            ReplacePolicy::Never,
            &Environment::new(&team()),
            &definition(),
        )
        .unwrap()
        .lease;
    for (record, n) in records.iter().zip(0..) {
        let durability = if n % 2 == 0 {
            Durability::Full
        } else {
            Durability::Process
        };
        store
            .append(std::slice::from_ref(record), durability)
            .unwrap();
    }
    let fill: &crate::WriteContent<'_> = &|out| write(&team(), &end, &definition(), out);
    let file = directory.projection();
    file.write(&mut store, fill, Durability::Full).unwrap();
    if killed {
        // The files as they are while the store is open.
        return SavedStorage {
            files: files(directory.path()),
            records,
            end,
        };
    }
    drop(store);
    SavedStorage {
        files: files(directory.path()),
        records,
        end,
    }
}

fn files(directory: &Path) -> FileContents {
    let names = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .map(|name| (name.clone(), std::fs::read(directory.join(name)).unwrap()))
        .collect()
}

/// Reads the storage, continues it, and tries to start a fresh run in it. Returns whether the right
/// data was found; fails on anything but the right data or an error.
fn outcome(directory: &StorageDirectory, saved: &SavedStorage) -> Result<bool, String> {
    let read = || -> Result<bool, StoreError> {
        let reader = SqliteRows::open(directory)?;
        Ok(
            loaded_state(&reader.load(&StateSelector::Head)?) == saved.end
                && reader.records(0, usize::MAX)? == saved.records
                && reader.definition()? == definition()
                && !reader.checkpoints()?.is_empty(),
        )
    };
    let start_fresh = || {
        directory.create(
            ReplacePolicy::Never,
            &Environment::new(&team()),
            &definition(),
        )
    };
    let continue_run = || -> Result<bool, StoreError> {
        let store = directory.open()?.lease;
        Ok(
            loaded_state(&store.load(&StateSelector::Head)?) == saved.end
                && store.records(0, usize::MAX)? == saved.records,
        )
    };
    let begun = start_fresh().is_ok();
    let found = [read(), continue_run()];
    if begun
        && directory
            .content()
            .is_ok_and(|content| content == DirectoryContent::Database)
    {
        return Err("a run began anew".into());
    }
    match found {
        [Ok(true), Ok(true)] => Ok(true),
        [Ok(false), _] => Err("another state was read".into()),
        [_, Ok(false)] => Err("the run goes on from another state".into()),
        // If one of the two is refused, the other may still succeed.
        _ => Ok(false),
    }
}

/// Flips bits of one file. Returns how many were flipped, and how often the right data was found
/// nevertheless.
fn flip(saved: &SavedStorage, name: &str, stride: usize) -> (usize, usize) {
    let place = if Path::new("/dev/shm").is_dir() {
        "/dev/shm".into()
    } else {
        std::env::temp_dir()
    };
    let bits = saved.files[name].len() * 8;
    // All bits of a small file.
    let (stride, first) = if bits < stride * 4 {
        (1, 0)
    } else {
        (stride, number_from_environment(FIRST_BIT_VARIABLE, 0))
    };
    let (next, right) = (AtomicUsize::new(first), AtomicUsize::new(0));
    let work = || {
        let temp = tempfile::tempdir_in(&place).unwrap();
        let path = temp.path().join("store");
        loop {
            let bit = next.fetch_add(stride, Ordering::Relaxed);
            if bit >= bits {
                return;
            }
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            for (file, bytes) in &saved.files {
                let mut bytes = bytes.clone();
                if file == name {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                std::fs::write(path.join(file), bytes).unwrap();
            }
            let found = outcome(&StorageDirectory::new(&path), saved);
            let found = found.unwrap_or_else(|what| {
                panic!("bit {} of byte {} of `{name}`: {what}", bit % 8, bit / 8)
            });
            right.fetch_add(usize::from(found), Ordering::Relaxed);
        }
    };
    std::thread::scope(|threads| (0..2).for_each(|_| drop(threads.spawn(work))));
    (
        bits.saturating_sub(first).div_ceil(stride),
        right.into_inner(),
    )
}

fn number_from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |number| number.parse().unwrap())
}

fn check(killed: bool, expected: &[&str]) {
    let stride = number_from_environment(STRIDE_VARIABLE, DEFAULT_STRIDE);
    let saved = saved(killed);
    assert_eq!(saved.files.keys().collect::<Vec<_>>(), expected);
    for name in expected {
        let (flips, right) = flip(&saved, name, stride);
        eprintln!(
            "{name}: {flips} flips, {right} right, {} refused",
            flips - right
        );
    }
}

#[test]
fn a_flipped_bit_in_what_an_orderly_stop_leaves_is_refused_or_does_not_matter() {
    check(false, &["team.db", "team.json"]);
}

#[test]
fn a_flipped_bit_in_what_a_killed_process_leaves_is_refused_or_does_not_matter() {
    check(
        true,
        &[
            "team.db",
            "team.db-progress",
            "team.db-shm",
            "team.db-wal",
            "team.json",
            "team.lock",
        ],
    );
}

#[test]
fn every_bit_of_the_header_of_a_log_matters_and_none_of_it_is_taken_for_an_empty_one() {
    let saved = saved(true);
    let temp = tempfile::tempdir().unwrap();
    let of = |keep: &dyn Fn(&str) -> bool, bit: usize| {
        let path = temp.path().join("store");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        for (file, bytes) in saved.files.iter().filter(|(name, _)| keep(name)) {
            let mut bytes = bytes.clone();
            if file == "team.db-wal" {
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            std::fs::write(path.join(file), bytes).unwrap();
        }
        outcome(&StorageDirectory::new(&path), &saved)
    };
    for bit in 0..32 * 8 {
        assert_eq!(of(&|_| true, bit), Ok(false), "{bit}");
        // Without the other files, as in a copy of these two.
        assert_eq!(
            of(&|name| ["team.db", "team.db-wal"].contains(&name), bit),
            Ok(false),
            "{bit}"
        );
    }
}
