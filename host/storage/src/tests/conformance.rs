//! What every kind of storage must do, run against each of them. Opening and taking over are in
//! `leases`, several lineages in `lineages`, what servers need in `served` and `server_records`; what can only happen to files is in `damage` and
//! `crash`.

mod leases;
mod lineages;
mod listing;
#[cfg(feature = "postgres")]
mod mail;
mod model;
#[cfg(feature = "postgres")]
mod overviews;
#[cfg(feature = "postgres")]
#[path = "../../../../tests/postgres_server.rs"]
pub(crate) mod postgres_server;
mod random_scripts;
#[cfg(feature = "postgres")]
mod restoring;
mod served;
mod server_records;
mod submitted;
#[cfg(feature = "postgres")]
mod work;

#[cfg(feature = "postgres")]
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use strata_base::files::blob::{Blobs, digest_of};
use strata_base::process::wait::wait;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{Event, RunEnded, Status};
use strata_core::state::environment::Environment;
#[cfg(feature = "postgres")]
use strata_postgres::{self as postgres, Database, PostgresLease};
#[cfg(feature = "postgres")]
use strata_records::database_url::DatabaseUrl;
pub(crate) use strata_records::scripted_records::{loaded_state, replay};

use model::Model;

use super::script::{definition, pseudorandom, scripted_run, team};
#[cfg(feature = "postgres")]
use crate::OwnerWait;
use crate::sqlite::shared::{self, SharedDatabase, SharedLease};
use crate::sqlite::{MemoryLease, MemoryWriter};
use crate::sqlite_url::SqliteUrl;
use crate::{
    Append, CheckpointOrigin, CheckpointRow, Durability, FIRST_LINE, Lease, LoadedState, OtherWork,
    Record, ReplacePolicy, SavedDefinition, StateSelector, StorageDirectory, StorageLocation,
    StoreError, checkpoint_of,
};

/// A kind of storage, with a run that is open.
trait TestStorage {
    fn lease(&mut self) -> &mut dyn Lease;
    /// Closes the run and opens it again.
    fn reopen(&mut self);
    /// Takes a second lease while the first is still held.
    fn take_over(&mut self) -> Box<dyn Lease>;
    /// Where the run is kept, if runs are listed there without reading their states.
    fn location(&self) -> Option<StorageLocation> {
        None
    }
    /// Where the run is kept, if that is not in memory.
    fn place(&self) -> Option<StorageLocation> {
        self.location()
    }
}

/// A run in memory, which ends with its lease: it can neither be opened again nor taken over.
struct MemoryStorage(MemoryLease);

impl MemoryStorage {
    fn new(base: &Environment) -> Self {
        Self(MemoryWriter::create(base, &definition()).unwrap())
    }
}

impl TestStorage for MemoryStorage {
    fn lease(&mut self) -> &mut dyn Lease {
        &mut self.0
    }

    fn reopen(&mut self) {}

    fn take_over(&mut self) -> Box<dyn Lease> {
        panic!("nobody else can reach it")
    }
}

struct FileStorage {
    lease: Option<crate::SqliteLease>,
    directory: StorageDirectory,
    _temp: TempDir,
}

impl FileStorage {
    fn new(base: &Environment) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("a % strange?name#/store"));
        let created = directory
            .create(ReplacePolicy::Never, base, &definition())
            .unwrap();
        Self {
            lease: Some(created.lease),
            directory,
            _temp: temp,
        }
    }
}

impl TestStorage for FileStorage {
    fn place(&self) -> Option<StorageLocation> {
        Some(StorageLocation::new(self.directory.path()))
    }

    fn lease(&mut self) -> &mut dyn Lease {
        self.lease.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        drop(self.lease.take());
        self.lease = Some(self.directory.open().unwrap().lease);
    }

    fn take_over(&mut self) -> Box<dyn Lease> {
        // As by somebody who takes the lock of a process that runs for one left behind.
        std::fs::remove_file(self.directory.path().join("team.lock")).unwrap();
        Box::new(self.directory.open().unwrap().lease)
    }
}

/// A run in a database file.
struct SharedStorage {
    lease: Option<SharedLease>,
    url: SqliteUrl,
    /// Its key in the file.
    run: i64,
    /// The lease of another run of the file.
    _other: Option<SharedLease>,
    temp: TempDir,
}

impl SharedStorage {
    /// Creates a run beside another one, which this process has a lease of, too.
    fn new(base: &Environment) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let url = SqliteUrl {
            file: temp.path().join("a % strange?name#/runs"),
            run: Some("run".into()),
        };
        let create = |url: &SqliteUrl| {
            let vacant = shared::vacate(url, ReplacePolicy::Never).unwrap();
            vacant.create(base, &definition(), &Blobs::new()).unwrap()
        };
        Self {
            _other: Some(create(&url.with_run("other"))),
            lease: Some(create(&url)),
            url,
            run: 2,
            temp,
        }
    }
}

impl TestStorage for SharedStorage {
    fn location(&self) -> Option<StorageLocation> {
        Some(StorageLocation::new(self.url.to_path()))
    }

    fn lease(&mut self) -> &mut dyn Lease {
        self.lease.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        drop(self.lease.take());
        self.lease = Some(shared::take_lease(&self.url).unwrap());
    }

    fn take_over(&mut self) -> Box<dyn Lease> {
        // As by another process that takes the lock of one that runs for one left behind.
        let again = SharedDatabase::open_again(&self.url.file);
        Box::new(again.take_lease(self.run))
    }
}

/// Returns the URL of a run that does not exist yet, or `None` if there is no server.
#[cfg(feature = "postgres")]
fn fresh_run() -> Option<Database> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let url = Database::at(DatabaseUrl::parse(postgres_server::database_url()?).unwrap());
    let n = RUNS.fetch_add(1, Ordering::Relaxed);
    Some(url.with_run(&format!("run-{}-{n}", std::process::id())))
}

/// A run in a database.
#[cfg(feature = "postgres")]
struct DatabaseStorage {
    lease: Option<PostgresLease>,
    url: Database,
}

#[cfg(feature = "postgres")]
impl DatabaseStorage {
    /// Creates a run, if there is a server.
    fn new(base: &Environment) -> Option<Self> {
        fresh_run().map(|url| Self::at(url, base))
    }

    /// Creates the run of a URL.
    fn at(url: Database, base: &Environment) -> Self {
        let vacant = postgres::vacate(&url, ReplacePolicy::Never).unwrap();
        Self {
            lease: Some(vacant.create(base, &definition(), &Blobs::new()).unwrap()),
            url,
        }
    }
}

#[cfg(feature = "postgres")]
impl TestStorage for DatabaseStorage {
    fn location(&self) -> Option<StorageLocation> {
        Some(StorageLocation::new(self.url.to_path()))
    }

    fn lease(&mut self) -> &mut dyn Lease {
        self.lease.as_mut().unwrap()
    }

    fn reopen(&mut self) {
        drop(self.lease.take());
        self.lease = Some(postgres::take_lease(&self.url, OwnerWait::Watch).unwrap());
    }

    fn take_over(&mut self) -> Box<dyn Lease> {
        postgres::declare_dead(&self.url);
        Box::new(postgres::take_lease(&self.url, OwnerWait::Watch).unwrap())
    }
}

/// Runs a check against every kind of storage, each with a run that starts from a state.
fn check(base: &Environment, check: impl Fn(&mut dyn TestStorage)) {
    #[cfg(feature = "postgres")]
    if let Some(mut database) = DatabaseStorage::new(base) {
        check(&mut database);
    }
    check(&mut Model::new(base));
    check(&mut FileStorage::new(base));
    check(&mut SharedStorage::new(base));
}

fn fresh() -> Environment {
    Environment::new(&team())
}

#[test]
fn what_is_kept_of_checkpoints_is_the_first_and_the_newest() {
    let (records, end) = scripted_run(&pseudorandom(7, 3000), 200);
    check(&fresh(), |kept| {
        kept.lease().append(&records, Durability::Process).unwrap();
        let all = kept.lease().checkpoints().unwrap();
        assert!(all.len() > 6, "{} checkpoints say little", all.len());
        kept.lease().keep_checkpoints(3).unwrap();
        kept.reopen();
        let rows = kept.lease().checkpoints().unwrap();
        let newest = all.len() - 3;
        // Checkpoints where the run waited for a person stay, too.
        let waits = |row: &CheckpointRow| {
            row.status == Status::Waiting && row.source != CheckpointOrigin::Answer
        };
        let stays = |(at, row): &(usize, &CheckpointRow)| *at == 0 || *at >= newest || waits(row);
        let expected: Vec<_> = all
            .iter()
            .enumerate()
            .filter(stays)
            .map(|(_, row)| row.id.clone())
            .collect();
        assert!(expected.len() < all.len() - 2, "little is forgotten");
        assert_eq!(
            rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(rows[0].parent, None);
        for pair in rows.windows(2) {
            assert_eq!(pair[1].parent.as_ref(), Some(&pair[0].id));
        }
        let gone = all.iter().find(|row| !expected.contains(&row.id)).unwrap();
        let forgotten = kept
            .lease()
            .load(&StateSelector::Checkpoint(gone.id.clone()));
        assert!(
            matches!(forgotten, Err(StoreError::NoCheckpoint { .. })),
            "{forgotten:?}"
        );
        assert_eq!(kept.lease().records(0, usize::MAX).unwrap(), records);
        assert_eq!(
            loaded_state(&kept.lease().load(&StateSelector::Head).unwrap()),
            end
        );
    });
}

#[test]
fn what_is_appended_is_loaded() {
    let (records, end) = scripted_run(&pseudorandom(1, 3000), 400);
    check(&fresh(), |kept| {
        assert_eq!(
            kept.lease().load(&StateSelector::Head).unwrap(),
            LoadedState {
                base: fresh(),
                tail: vec![],
                next_line: FIRST_LINE
            }
        );
        for (i, some) in records.chunks(7).enumerate() {
            let durability = if i % 2 == 0 {
                Durability::Process
            } else {
                Durability::Full
            };
            kept.lease().append(some, durability).unwrap();
            kept.lease().append(&[], durability).unwrap();
        }
        for _ in 0..2 {
            let saved = kept.lease().load(&StateSelector::Head).unwrap();
            assert_eq!(saved.tail, records);
            assert_eq!(loaded_state(&saved), end);
            let last = records.last().unwrap();
            assert_eq!(saved.next_line, last.line + u64::from(last.lines));
            assert_eq!(kept.lease().records(0, usize::MAX).unwrap(), records);
            assert_eq!(kept.lease().records(10, 5).unwrap(), records[10..15]);
            assert_eq!(kept.lease().records(398, 5).unwrap(), records[398..]);
            assert_eq!(kept.lease().records(u64::MAX, 5).unwrap(), []);
            kept.reopen();
        }
    });
}

#[test]
fn events_that_are_appended_beside_other_work_are_loaded_like_any_others() {
    let (records, end) = scripted_run(&pseudorandom(8, 3000), 200);
    check(&fresh(), |kept| {
        for (i, some) in records.chunks(7).enumerate() {
            let durability = match i % 3 {
                0 => Durability::Process,
                _ => Durability::Full,
            };
            let append = Append {
                other_work: OtherWork::Some,
                ..Append::new(some, durability)
            };
            let mut calls = 0;
            let appending = kept.lease().begin_append(append);
            wait(appending.finish_beside(|| calls += 1)).unwrap();
            assert!(calls <= 1, "the other work was done {calls} times");
            if i % 5 == 4 {
                kept.reopen();
            }
        }
        assert_eq!(kept.lease().records(0, usize::MAX).unwrap(), records);
        let saved = kept.lease().load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), end);
    });
}

#[test]
fn a_checkpoint_is_the_state_after_the_event_that_made_it() {
    let (records, _) = scripted_run(&pseudorandom(2, 3000), 300);
    let made: Vec<_> = records
        .iter()
        .enumerate()
        .filter_map(|(i, r)| Some((i, checkpoint_of(&r.event)?)))
        .collect();
    assert!(made.len() > 5, "{}", made.len());
    check(&fresh(), |kept| {
        kept.lease().append(&records, Durability::Process).unwrap();
        kept.lease().save_snapshot(&replay(&records)).unwrap();
        kept.reopen();
        for (i, id) in &made {
            let saved = kept
                .lease()
                .load(&StateSelector::Checkpoint((*id).clone()))
                .unwrap();
            assert_eq!(loaded_state(&saved), replay(&records[..=*i]));
            let last = records.last().unwrap();
            assert_eq!(saved.next_line, last.line + u64::from(last.lines));
        }
        match kept
            .lease()
            .load(&StateSelector::Checkpoint("none-such".into()))
        {
            Err(StoreError::NoCheckpoint { id, known }) if !known.is_empty() => {
                assert_eq!(id, "none-such")
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn checkpoints_are_listed_as_a_chain_and_the_first_step_below_the_entry() {
    let (records, _) = scripted_run(&pseudorandom(3, 3000), 300);
    check(&fresh(), |kept| {
        assert_eq!(kept.lease().checkpoints().unwrap(), []);
        kept.lease().append(&records, Durability::Process).unwrap();
        kept.reopen();
        let rows = kept.lease().checkpoints().unwrap();
        let made: Vec<_> = records
            .iter()
            .filter_map(|record| checkpoint_of(&record.event))
            .collect();
        assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), made);
        assert_eq!(
            (rows[0].source, rows[0].step, rows[0].parent.clone()),
            (CheckpointOrigin::Entry, 0, None)
        );
        for pair in rows.windows(2) {
            let is_first = pair[1].source == CheckpointOrigin::Step && pair[1].step == 0;
            assert_eq!(
                pair[1].parent.as_ref(),
                Some(if is_first { &rows[0].id } else { &pair[0].id })
            );
            assert!(pair[0].step <= pair[1].step);
        }
        let ends = |r: &&Record| {
            matches!(
                r.event,
                Event::RunEnded(RunEnded {
                    status: Status::Failed,
                    checkpoint: Some(_),
                    ..
                })
            )
        };
        let faults = rows
            .iter()
            .filter(|row| row.source.name() == "fault" && row.status == Status::Failed)
            .count();
        assert_eq!(faults, records.iter().filter(ends).count());
        assert!(faults > 0);
    });
}

#[test]
fn the_newest_checkpoint_says_how_the_run_ended() {
    // Without random bytes everything succeeds, and the team is done.
    let (records, end) = scripted_run(&[], 500);
    assert_eq!(end.status, Status::Done);
    check(&fresh(), |kept| {
        kept.lease().append(&records, Durability::Process).unwrap();
        let rows = kept.lease().checkpoints().unwrap();
        let (last, before) = rows.split_last().unwrap();
        assert_eq!(
            (last.source, last.status),
            (CheckpointOrigin::Step, Status::Done)
        );
        assert!(before.iter().all(|row| row.status == Status::Running));
    });
}

#[test]
fn snapshots_do_not_change_what_is_loaded() {
    let (records, end) = scripted_run(&pseudorandom(4, 3000), 200);
    check(&fresh(), |kept| {
        for (i, record) in records.iter().enumerate() {
            kept.lease()
                .append(std::slice::from_ref(record), Durability::Process)
                .unwrap();
            if i % 17 == 3 {
                kept.lease().save_snapshot(&replay(&records[..=i])).unwrap();
            }
            let saved = kept.lease().load(&StateSelector::Head).unwrap();
            assert!(saved.tail.len() <= 17.max(i % 17 + 1));
            assert_eq!(saved.next_line, record.line + u64::from(record.lines));
        }
        kept.lease().save_snapshot(&end).unwrap();
        kept.reopen();
        let saved = kept.lease().load(&StateSelector::Head).unwrap();
        assert_eq!((saved.tail.len(), &saved.base), (0, &end));
        assert_eq!(
            saved.next_line,
            records[199].line + u64::from(records[199].lines)
        );
        assert_eq!(kept.lease().records(0, 1000).unwrap(), records);
    });
}

#[test]
fn a_run_can_start_from_any_state() {
    let (_, base) = scripted_run(&pseudorandom(5, 3000), 120);
    let (id, parent) = (base.checkpoint.clone().unwrap(), base.parent.clone());
    assert!(parent.is_some());
    check(&base, |kept| {
        let rows = kept.lease().checkpoints().unwrap();
        assert_eq!((rows.len(), &rows[0].id, &rows[0].parent), (1, &id, &None));
        assert_eq!(
            (rows[0].source, rows[0].status),
            (CheckpointOrigin::Import, base.status)
        );
        kept.reopen();
        for at in [StateSelector::Head, StateSelector::Checkpoint(id.clone())] {
            assert_eq!(
                kept.lease().load(&at).unwrap(),
                LoadedState {
                    base: base.clone(),
                    tail: vec![],
                    next_line: 1
                }
            );
        }
    });
}

#[test]
fn the_bytes_of_files_are_kept_by_what_they_are() {
    let one: &[u8] = b"one\0";
    let none: &[u8] = b"";
    check(&fresh(), |kept| {
        for bytes in [one, none, one] {
            kept.lease()
                .put_blobs(&[(digest_of(bytes), bytes.into())].into())
                .unwrap();
        }
        kept.reopen();
        for bytes in [one, none] {
            assert_eq!(
                kept.lease().blob(&digest_of(bytes)).unwrap().as_deref(),
                Some(bytes)
            );
        }
        assert_eq!(kept.lease().blob(&digest_of(b"two")).unwrap(), None);
    });
}

#[test]
fn the_definition_is_kept_and_can_be_replaced() {
    check(&fresh(), |kept| {
        assert_eq!(kept.lease().definition().unwrap(), definition());
        let new = SavedDefinition {
            name: "mended.toml".into(),
            base: "/a b".into(),
            text: "é\r\n\0".into(),
            components: vec!["A.p=/mended \"p\".wasm".into()],
        };
        kept.lease().set_definition(&new).unwrap();
        kept.reopen();
        assert_eq!(kept.lease().definition().unwrap(), new);
    });
}

#[test]
fn ten_thousand_events_are_kept_and_summed_up_now_and_then() {
    let (records, end) = scripted_run(&pseudorandom(6, 60_000), 10_000);
    assert_eq!(records.len(), 10_000);
    check(&fresh(), |kept| {
        let mut stepper = Stepper::new(team(), fresh());
        let mut snapshots = 0;
        for record in &records {
            kept.lease()
                .append(std::slice::from_ref(record), Durability::Process)
                .unwrap();
            stepper.apply(&record.event).unwrap();
            if kept.lease().snapshot_due() {
                kept.lease().save_snapshot(stepper.env()).unwrap();
                assert!(!kept.lease().snapshot_due());
                snapshots += 1;
            }
        }
        assert!((1..20).contains(&snapshots), "{snapshots}");
        kept.reopen();
        assert_eq!(
            loaded_state(&kept.lease().load(&StateSelector::Head).unwrap()),
            end
        );
        assert_eq!(kept.lease().records(0, usize::MAX).unwrap(), records);
    });
}
