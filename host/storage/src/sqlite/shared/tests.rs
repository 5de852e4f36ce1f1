//! What runs in one database file have in common: its files, its writer, and what happens to all of them
//! when one of them, or the disk, fails.

mod displaced;
mod first_change;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use strata_base::files::blob::Blobs;
use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_base::process::wait::wait;
use strata_records::error::StoreError;
use tempfile::TempDir;

use super::change::{ChangeTerms, PendingChange};
use super::database::{MissingDatabase, SharedDatabase};
use super::queued_writer::SharedLease;
use super::runs::{take_lease, vacate};
use super::{delete_run, holder, open_reader, receive_requests, request_owner};
use crate::directory::names::SideFile;
use crate::sqlite_url::SqliteUrl;
use crate::tests::conformance::{loaded_state, replay};
use crate::tests::damage::{OTHER_LINEAGE, fork_newest};
use crate::tests::script::pseudorandom;
use crate::tests::script::{copy, definition, names, scripted_run};
use crate::{
    Append, Durability, IncomingRequest, Lease, LockHolder, Record, ReplacePolicy, RequestOutcome,
    StateSelector,
};

fn url(temp: &TempDir, run: &str) -> SqliteUrl {
    SqliteUrl {
        file: temp.path().join("runs.db"),
        run: Some(run.into()),
    }
}

fn create(url: &SqliteUrl) -> Result<SharedLease, StoreError> {
    let vacant = vacate(url, ReplacePolicy::Never)?;
    vacant.create(&replay(&[]), &definition(), &Blobs::new())
}

/// Creates runs in one file, with the names 0, 1, 2 and so on.
fn create_runs(temp: &TempDir, count: usize) -> Vec<SharedLease> {
    let created = |n: usize| create(&url(temp, &n.to_string())).unwrap();
    (0..count).map(created).collect()
}

fn records(count: usize) -> Vec<Record> {
    scripted_run(&pseudorandom(51, 8 * count), count).0
}

/// Returns how many events a run has.
fn count(url: &SqliteUrl) -> Result<usize, StoreError> {
    Ok(open_reader(url)?.records(0, usize::MAX)?.len())
}

/// Keeps the writer of a database busy until it is dropped, so that what is queued meanwhile becomes one
/// batch.
struct BusyWriter {
    _resume: Sender<()>,
    pending: Option<PendingChange<()>>,
}

impl BusyWriter {
    fn of(database: &SharedDatabase) -> Self {
        let (begun, is_begun) = channel();
        let (resume, resumed) = channel::<()>();
        let resumed = std::sync::Mutex::new(resumed);
        let wait_for_resume = move |_: &Connection| {
            begun.send(()).unwrap();
            // Ends when the other end is dropped.
            let _ = resumed.lock().unwrap().recv();
            Ok(())
        };
        let pending = database.begin(ChangeTerms::default(), wait_for_resume);
        is_begun.recv().unwrap();
        Self {
            _resume: resume,
            pending: Some(pending),
        }
    }

    fn release(mut self) {
        let pending = self.pending.take().unwrap();
        drop(self);
        wait(pending.outcome()).unwrap();
    }
}

fn database(temp: &TempDir) -> super::database::DatabaseHandle {
    SharedDatabase::open(&temp.path().join("runs.db"), MissingDatabase::Fail).unwrap()
}

#[test]
fn a_file_is_open_once_and_closed_with_the_last_lease() {
    let temp = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(temp.path(), temp.path().join("link")).unwrap();
    let first = create(&url(&temp, "first")).unwrap();
    let other_path = SqliteUrl {
        file: temp.path().join("link/runs.db"),
        run: Some("second".into()),
    };
    let mut second = create(&other_path).unwrap();
    let refused = take_lease(&SqliteUrl {
        run: Some("first".into()),
        ..other_path.clone()
    });
    match refused {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(first);
    second.append(&records(5), Durability::Full).unwrap();
    let first = take_lease(&url(&temp, "first")).unwrap();
    drop(second);
    assert!(SideFile::Lock.beside(&url(&temp, "first").file).exists());
    drop(first);
    assert_eq!(names(temp.path()), ["link", "runs.db"]);
    assert_eq!(count(&other_path).unwrap(), 5);
}

#[test]
fn runs_that_append_at_the_same_time_do_not_disturb_each_other_when_one_is_taken_over() {
    const RUNS: usize = 12;
    let temp = tempfile::tempdir().unwrap();
    let records = records(60);
    let mut leases = create_runs(&temp, RUNS);
    let file = &url(&temp, "0").file;
    std::thread::scope(|scope| {
        for (n, lease) in leases.iter_mut().enumerate() {
            let records = &records;
            scope.spawn(move || {
                for (at, record) in records.iter().enumerate() {
                    let record = std::slice::from_ref(record);
                    let durability = [Durability::Full, Durability::Process][(n + at) % 2];
                    if n == 0 && at == 30 {
                        let again = SharedDatabase::open_again(file);
                        drop(again.take_lease(1));
                    }
                    let appended = lease.append(record, durability);
                    match (n == 0 && at >= 30, appended) {
                        (false, Ok(())) | (true, Err(StoreError::Fenced { .. })) => {}
                        (_, other) => panic!("run {n}, event {at}: {other:?}"),
                    }
                }
            });
        }
    });
    drop(leases);
    for n in 0..RUNS {
        let expected = if n == 0 { 30 } else { 60 };
        let lease = take_lease(&url(&temp, &n.to_string())).unwrap();
        assert_eq!(
            lease.records(0, usize::MAX).unwrap(),
            records[..expected],
            "run {n}"
        );
        let saved = lease.load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), replay(&records[..expected]));
    }
}

#[test]
fn a_change_that_fails_takes_no_other_of_its_batch_with_it() {
    let temp = tempfile::tempdir().unwrap();
    let _leases = create_runs(&temp, 1);
    let database = database(&temp);
    let busy = BusyWriter::of(&database);
    let insert = |id: i64, sql: &'static str| {
        database.begin(ChangeTerms::default(), move |conn| {
            let name = format!("note {id}");
            conn.execute(sql, rusqlite::params![name]).map(drop)
        })
    };
    let good = "INSERT INTO note VALUES (1, ?1, 'text')";
    let bad = "INSERT INTO note VALUES (1, ?1, NULL)";
    let pending = [
        insert(1, good),
        insert(2, bad),
        insert(3, good),
        insert(1, good),
    ];
    busy.release();
    let outcomes: Vec<bool> = pending
        .into_iter()
        .map(|pending| wait(pending.outcome()).is_ok())
        .collect();
    assert_eq!(outcomes, [true, false, true, false]);
    let notes = database.change(ChangeTerms::default(), |conn| {
        let sql = "SELECT count(*) FROM note WHERE name LIKE 'note %'";
        conn.query_row(sql, [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(notes.unwrap(), Some(2));
}

#[test]
fn a_log_that_cannot_be_synced_fails_all_runs_until_the_database_is_opened_again() {
    let temp = tempfile::tempdir().unwrap();
    drop(create_runs(&temp, 3));
    let lease = |n: usize| take_lease(&url(&temp, &n.to_string())).unwrap();
    let mut leases: Vec<SharedLease> = (0..3).map(lease).collect();
    let records = records(20);
    for lease in &mut leases {
        lease.append(&records[..5], Durability::Process).unwrap();
    }
    // The log is opened to be synced for the first time when that is needed.
    let log = SideFile::Wal.beside(&url(&temp, "0").file);
    let aside = temp.path().join("aside");
    std::fs::rename(&log, &aside).unwrap();
    std::os::unix::fs::symlink("/nowhere", &log).unwrap();
    leases[0]
        .append(&records[5..6], Durability::Full)
        .unwrap_err();
    std::fs::rename(&aside, &log).unwrap();
    for durability in [Durability::Process, Durability::Full] {
        let [first, others @ ..] = &mut leases[..] else {
            unreachable!("there are three")
        };
        first.append(&records[5..6], durability).unwrap_err();
        let others = others.iter_mut();
        let mut failures: Vec<StoreError> = others
            .map(|lease| lease.append(&records[5..6], durability).unwrap_err())
            .collect();
        failures.push(create(&url(&temp, "another")).err().unwrap());
        for failure in failures {
            let is_known = matches!(failure, StoreError::WriteFailed { .. });
            // A lease that has failed writes nothing more by itself.
            assert!(is_known || durability == Durability::Full, "{failure:?}");
        }
    }
    drop(leases);
    assert!(log.exists(), "the log stays as the disk has it");
    for n in 0..3 {
        let mut lease = lease(n);
        let at = lease.records(0, usize::MAX).unwrap().len();
        assert!((5..=6).contains(&at));
        lease.append(&records[at..], Durability::Full).unwrap();
        assert_eq!(lease.records(0, usize::MAX).unwrap(), records);
    }
}

#[test]
fn a_full_disk_fails_what_needs_space_and_the_rest_goes_on_when_there_is_some() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 2);
    let records = records(40);
    let limit = |pages: u32| {
        let limited = database(&temp).change(ChangeTerms::default(), move |conn| {
            conn.pragma_update(None, "max_page_count", pages)
        });
        limited.unwrap();
    };
    leases[0].append(&records[..5], Durability::Full).unwrap();
    limit(1);
    let bytes: Arc<[u8]> = vec![7; 1 << 20].into();
    let blobs = Blobs::from([(strata_base::files::blob::digest_of(&bytes), bytes)]);
    let full = leases[0].put_blobs(&blobs);
    assert!(matches!(full, Err(StoreError::Full { .. })), "{full:?}");
    limit(u32::MAX - 1);
    leases[1].append(&records, Durability::Full).unwrap();
    leases[0].put_blobs(&blobs).unwrap();
    leases[0].append(&records[5..], Durability::Full).unwrap();
    drop(leases);
    for n in 0..2 {
        assert_eq!(count(&url(&temp, &n.to_string())).unwrap(), 40);
    }
}

#[test]
fn a_writer_that_panics_leaves_nobody_waiting() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 2);
    let records = records(10);
    leases[0].append(&records[..5], Durability::Full).unwrap();
    let database = database(&temp);
    let busy = BusyWriter::of(&database);
    let panics = database.begin(ChangeTerms::default(), |_| -> rusqlite::Result<()> {
        panic!("as if an invariant were broken")
    });
    let beside = database.begin(ChangeTerms::default(), |_| Ok(()));
    drop(busy);
    for pending in [panics, beside] {
        assert!(wait(pending.outcome()).is_err());
    }
    for lease in &mut leases {
        lease.append(&records[5..], Durability::Full).unwrap_err();
    }
    drop((leases, database));
    assert_eq!(count(&url(&temp, "0")).unwrap(), 5);
    let mut lease = take_lease(&url(&temp, "0")).unwrap();
    lease.append(&records[5..], Durability::Full).unwrap();
}

#[test]
fn lineages_that_runs_begin_at_the_same_time_get_different_keys() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 3);
    let records = records(60);
    for lease in &mut leases {
        lease.append(&records, Durability::Full).unwrap();
    }
    let forks: Vec<[Record; 1]> = leases
        .iter()
        .map(|lease| [fork_newest(lease).unwrap()])
        .collect();
    // Each chooses the same key, since none is written yet.
    let busy = BusyWriter::of(&database(&temp));
    let begun: Vec<_> = leases
        .iter_mut()
        .zip(&forks)
        .map(|(lease, fork)| lease.begin_append(Append::new(fork, Durability::Full)))
        .collect();
    busy.release();
    for appending in begun {
        appending.finish_blocking().unwrap();
    }
    for lease in &mut leases {
        lease.switch_lineage(OTHER_LINEAGE).unwrap();
    }
    drop(leases);
    for (n, fork) in forks.iter().enumerate() {
        let lease = take_lease(&url(&temp, &n.to_string())).unwrap();
        assert_eq!(lease.lineages().unwrap().len(), 2);
        let found = lease.records(0, usize::MAX).unwrap();
        assert_eq!(found.last(), fork.last(), "run {n}");
        let saved = lease.load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved).lineage.name, OTHER_LINEAGE);
    }
}

#[test]
fn a_damaged_row_of_one_run_fails_no_other_while_the_database_is_open() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 2);
    let records = records(200);
    leases[0].append(&records[..5], Durability::Full).unwrap();
    leases[1].append(&records[..5], Durability::Full).unwrap();
    let damaged = database(&temp).change(ChangeTerms::default(), |conn| {
        conn.execute(
            "UPDATE lineage SET sum = (sum + 1) % 1000 WHERE run = 2",
            [],
        )
    });
    assert_eq!(damaged.unwrap(), Some(1));
    for some in records[5..].chunks(3) {
        leases[0].append(some, Durability::Full).unwrap();
    }
    assert!(leases[1].load(&StateSelector::Head).is_err());
    assert_eq!(leases[0].records(0, usize::MAX).unwrap(), records);
}

#[test]
fn a_finished_run_of_the_same_name_gets_another_and_an_unfinished_one_only_if_wanted() {
    let temp = tempfile::tempdir().unwrap();
    let url = url(&temp, "run");
    let (records, _) = scripted_run(&[], 1000);
    create(&url).unwrap();
    assert!(matches!(create(&url), Err(StoreError::Unfinished { .. })));
    let mut lease = take_lease(&url).unwrap();
    lease.append(&records, Durability::Full).unwrap();
    assert!(matches!(create(&url), Err(StoreError::Locked { .. })));
    drop(lease);
    for (n, replace) in [(1, ReplacePolicy::Never), (2, ReplacePolicy::Unfinished)] {
        let vacant = vacate(&url, replace).unwrap();
        let former = url.with_run(&format!("run.old-{n}"));
        assert_eq!(vacant.moved_to, Some(former.to_path()));
        drop(vacant.create(&replay(&[]), &definition(), &Blobs::new()));
        assert_eq!(count(&url).unwrap(), 0);
        assert_eq!(
            count(&former).unwrap(),
            if n == 1 { records.len() } else { 0 }
        );
    }
}

#[test]
fn a_run_that_is_deleted_is_no_loss_to_the_others_also_after_a_kill() {
    let temp = TempDir::new().unwrap();
    let mut leases = create_runs(&temp, 3);
    for lease in &mut leases {
        lease.append(&records(100), Durability::Full).unwrap();
    }
    drop(leases.remove(0));
    delete_run(&url(&temp, "0"), Some("Anna")).unwrap();
    assert!(matches!(
        delete_run(&url(&temp, "1"), None),
        Err(StoreError::Locked { .. })
    ));
    // The files as a kill leaves them.
    let killed = copy_of(&temp, |_| true);
    let found = take_lease(&url(&killed, "0")).map(drop);
    assert!(matches!(found, Err(StoreError::NoRun { .. })), "{found:?}");
    let lease = take_lease(&url(&killed, "1")).unwrap();
    let last = lease.records(99, 1).unwrap();
    assert_eq!(last.len(), 1);
    drop(lease);
    leases.clear();
    // The name is free again.
    let mut again = create(&url(&temp, "0")).unwrap();
    again.append(&records(10), Durability::Full).unwrap();
    drop(again);
    assert_eq!(count(&url(&temp, "0")).unwrap(), 10);
    assert_eq!(count(&url(&temp, "2")).unwrap(), 100);
}

#[test]
fn what_is_not_there_is_named() {
    let temp = tempfile::tempdir().unwrap();
    let check = |url: &SqliteUrl, expected: &str| {
        for error in [open_reader(url).err(), take_lease(url).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    };
    let named = url(&temp, "snake");
    let unnamed = SqliteUrl {
        run: None,
        ..named.clone()
    };
    check(&named, "nothing is there");
    check(
        &unnamed,
        "names no run; add `?run=NAME`; there is none in it yet",
    );
    drop(create(&named).unwrap());
    check(&unnamed, "in it are: snake");
    check(&named.with_run("snaek"), "did you mean `snake`?");
    assert_eq!(names(temp.path()), ["runs.db"]);
}

#[test]
fn files_that_are_not_ours_are_refused_and_left_alone() {
    let check = |make: &dyn Fn(&Path), expected: &str| {
        let temp = tempfile::tempdir().unwrap();
        let url = url(&temp, "run");
        make(&url.file);
        let before = names(temp.path());
        for error in [open_reader(&url).err(), create(&url).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(names(temp.path()), before);
    };
    check(
        &|file| std::fs::write(file, "mine").unwrap(),
        "it is no SQLite database",
    );
    check(
        &|file| {
            let conn = Connection::open(file).unwrap();
            conn.execute_batch("CREATE TABLE mine (n)").unwrap();
        },
        "the database of another program",
    );
    check(
        &|file| {
            let temp = file.parent().unwrap().join("other");
            std::fs::create_dir(&temp).unwrap();
            std::os::unix::fs::symlink(temp.join("runs.db"), file).unwrap();
        },
        "it is a symbolic link",
    );
    check(
        &|file| {
            let temp = tempfile::tempdir().unwrap();
            drop(create(&url(&temp, "run")).unwrap());
            std::fs::copy(url(&temp, "run").file, file).unwrap();
            let conn = Connection::open(file).unwrap();
            conn.execute_batch("CREATE VIEW v AS SELECT 1").unwrap();
        },
        "which strata-host does not create",
    );
}

/// Copies the files of a database, as a kill would leave them.
fn copy_of(temp: &TempDir, wanted: impl Fn(&str) -> bool) -> TempDir {
    let copied = tempfile::tempdir().unwrap();
    copy(temp.path(), copied.path(), |name| {
        name != "runs.db-lock" && wanted(name)
    });
    copied
}

#[test]
fn a_log_that_was_lost_emptied_or_cut_off_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 3);
    let records = records(30);
    for record in &records {
        for lease in &mut leases {
            let record = std::slice::from_ref(record);
            lease.append(record, Durability::Process).unwrap();
        }
    }
    let found = |copied: &TempDir| -> Result<Vec<usize>, StoreError> {
        (0..3)
            .map(|n| count(&url(copied, &n.to_string())))
            .collect()
    };
    assert_eq!(found(&copy_of(&temp, |_| true)).unwrap(), [30, 30, 30]);
    let check = |copied: &TempDir| {
        let lost = found(copied);
        assert!(matches!(lost, Err(StoreError::Lost { .. })), "{lost:?}");
        let lost = take_lease(&url(copied, "1")).map(drop);
        assert!(matches!(lost, Err(StoreError::Lost { .. })), "{lost:?}");
        let lost = create(&url(copied, "new")).map(drop);
        assert!(matches!(lost, Err(StoreError::Lost { .. })), "{lost:?}");
    };
    check(&copy_of(&temp, |name| !name.ends_with("-wal")));
    check(&copy_of(&temp, |name| name == "runs.db"));
    check(&copy_of(&temp, |name| name != "runs.db"));
    for keeps in [0, 20 * 4120, 60 * 4120] {
        let copied = copy_of(&temp, |name| !name.ends_with("-shm"));
        let log = std::fs::File::options()
            .write(true)
            .open(copied.path().join("runs.db-wal"));
        log.unwrap().set_len(keeps).unwrap();
        check(&copied);
    }
}

#[test]
fn the_database_alone_covers_all_its_events_once_the_log_was_moved() {
    let temp = tempfile::tempdir().unwrap();
    let mut leases = create_runs(&temp, 3);
    let records = records(300);
    for some in records.chunks(7) {
        for lease in &mut leases {
            lease.append(some, Durability::Process).unwrap();
        }
    }
    drop(leases);
    assert_eq!(names(temp.path()), ["runs.db"]);
    let conn = Connection::open(url(&temp, "0").file).unwrap();
    let sql = "SELECT count(*) FROM lineage WHERE events = 300";
    let covered: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(covered, 3);
}

/// An owner who tells of requests, and answers each with its own text.
fn echo(tell: Sender<RunRequest>) -> crate::RequestHandler {
    Arc::new(move |incoming: IncomingRequest| {
        tell.send(incoming.request.clone()).unwrap();
        let reply = RunReply {
            status: ReplyStatus::Done,
            body: incoming.request.body,
        };
        Box::pin(std::future::ready(reply))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_reaches_the_owner_of_its_run_and_no_other() {
    let temp = tempfile::tempdir().unwrap();
    let leases = create_runs(&temp, 3);
    let listen = |n: usize| {
        let (tell, told): (_, Receiver<RunRequest>) = channel();
        let url = url(&temp, &n.to_string());
        let mailbox = receive_requests(&url, leases[n].epoch(), echo(tell)).unwrap();
        (mailbox, told)
    };
    let (first, second) = (listen(0), listen(1));
    let request = |n: usize| {
        let url = url(&temp, &n.to_string());
        let request = RunRequest {
            operation: RunOperation::Send,
            body: format!("to {n}"),
        };
        tokio::task::spawn_blocking(move || request_owner(&url, request))
    };
    for (n, (_, told)) in [&first, &second].into_iter().enumerate() {
        match request(n).await.unwrap() {
            RequestOutcome::Replied(reply) => assert_eq!(reply.body, format!("to {n}")),
            other => panic!("{other:?}"),
        }
        assert_eq!(told.try_iter().count(), 1);
    }
    // One that does not listen, and one that nobody owns any more.
    let process = LockHolder::Process {
        pid: Some(std::process::id()),
    };
    assert_eq!(holder(&url(&temp, "2")).unwrap(), process);
    assert!(matches!(request(2).await.unwrap(), RequestOutcome::NoOwner));
    drop((first, second));
    let mut leases = leases;
    drop(leases.remove(0));
    assert_eq!(holder(&url(&temp, "0")).unwrap(), LockHolder::Nobody);
    assert_eq!(holder(&url(&temp, "1")).unwrap(), process);
    for n in 0..2 {
        assert!(matches!(request(n).await.unwrap(), RequestOutcome::NoOwner));
    }
    drop(leases);
    assert_eq!(holder(&url(&temp, "1")).unwrap(), LockHolder::Nobody);
}
