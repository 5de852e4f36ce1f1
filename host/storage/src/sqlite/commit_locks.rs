//! A file system for SQLite in which a commit takes fewer locks. It is the default one otherwise.
//!
//! SQLite protects each transaction with locks on the shared memory of the log (`team.db-shm`), each of
//! which is a system call. A writer needs the lock of writers. The locks of readers tell whoever moves
//! the log into the database which frames are still needed, and keep the log from being started anew. For
//! a transaction that writes, the lock of writers does that as well: the log is started anew only by a
//! holder of that lock, and moving frames that are committed disturbs nobody who reads the newest
//! state. Between its begin and that lock, a transaction only reads the header of the log, which SQLite
//! compares again once it has the lock, and the first page. So a commit takes no lock of readers, and
//! does not change the marks that belong to these locks: it appears to other connections as a writer
//! that never reads. Everything else takes all locks, also in the connection that commits: reading,
//! moving the log, and restoring the shared memory.
#![expect(
    unsafe_code,
    reason = "SQLite takes a file system as a table of C functions, whose locks are replaced here"
)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use rusqlite::ffi;

/// The name under which SQLite knows the file system.
const NAME: &CStr = c"strata-commit-locks";

/// The lock of the connection that moves the log into the database, or that restores the shared memory.
const CHECKPOINT_LOCK: c_int = 1;
/// The first lock of readers that need the log. The one before it is of readers that do not.
const FIRST_READ_LOCK: c_int = 4;
/// How many locks of readers that need the log there are.
const READ_LOCKS: u8 = 4;

/// The functions of a file in the default file system, and the same with another function for locks.
struct FileMethods {
    original: &'static ffi::sqlite3_io_methods,
    with_fewer_locks: ffi::sqlite3_io_methods,
}

/// The functions of files that take locks as usual. There are others only on file systems without
/// them, where nothing is replaced.
static FILE_METHODS: OnceLock<FileMethods> = OnceLock::new();

type OpenFile = unsafe extern "C" fn(
    *mut ffi::sqlite3_vfs,
    *const c_char,
    *mut ffi::sqlite3_file,
    c_int,
    *mut c_int,
) -> c_int;

/// The function with which the default file system opens files.
static OPEN_FILE: OnceLock<OpenFile> = OnceLock::new();

/// What a commit on this thread has done with locks.
#[derive(Clone, Copy, Debug, Default)]
struct CommitLocks {
    /// How many marks in a row it was not allowed to change.
    refused: u8,
    /// Whether it holds the lock for restoring the shared memory.
    is_restoring: bool,
}

/// What is done with a lock that a commit asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockDecision {
    /// It is taken or released.
    Pass,
    /// Nothing is done, and SQLite is told that it was.
    Skip,
    /// SQLite is told that another connection has it.
    Refuse,
}

thread_local! {
    /// The commit that is in progress on this thread.
    static COMMIT: Cell<Option<CommitLocks>> = const { Cell::new(None) };
}

/// Returns the name of the file system, or `None` if SQLite has no default one, or did not accept it.
pub(super) fn file_system() -> Option<&'static CStr> {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    IS_REGISTERED.get_or_init(register).then_some(NAME)
}

/// Runs a transaction that begins with `BEGIN IMMEDIATE` and ends within `commit`.
pub(super) fn with_fewer_locks<T>(commit: impl FnOnce() -> T) -> T {
    /// Ends the commit also if the function panics.
    struct EndOfCommit;
    impl Drop for EndOfCommit {
        fn drop(&mut self) {
            COMMIT.set(None);
        }
    }
    COMMIT.set(Some(CommitLocks::default()));
    let _end = EndOfCommit;
    commit()
}

impl CommitLocks {
    /// Decides what is done when SQLite takes or releases `count` locks.
    fn decide(&mut self, first: c_int, count: c_int, flags: c_int) -> LockDecision {
        let takes = flags & ffi::SQLITE_SHM_LOCK != 0;
        let is_exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        if is_exclusive && (first..first + count).contains(&CHECKPOINT_LOCK) {
            self.is_restoring = takes;
        }
        if self.is_restoring || !takes || count != 1 || first < FIRST_READ_LOCK {
            // Releasing a lock that was skipped does nothing.
            return LockDecision::Pass;
        }
        if !is_exclusive {
            self.refused = 0;
            return LockDecision::Skip;
        }
        // A transaction uses the largest mark that there is. If there is none at all, it asks again,
        // and sets one.
        if self.refused < READ_LOCKS {
            self.refused += 1;
            return LockDecision::Refuse;
        }
        LockDecision::Pass
    }
}

fn register() -> bool {
    // SAFETY: SQLite returns its default file system, which it never changes or frees, or null.
    let Some(default) = (unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_ref() }) else {
        return false;
    };
    let Some(open) = default.xOpen else {
        return false;
    };
    OPEN_FILE.get_or_init(|| open);
    let own = Box::leak(Box::new(ffi::sqlite3_vfs {
        zName: NAME.as_ptr(),
        pNext: std::ptr::null_mut(),
        xOpen: Some(open_file),
        ..*default
    }));
    // SAFETY: the file system lives for ever. All its functions but one are those of the default one,
    // which find their own data in the copied fields.
    unsafe { ffi::sqlite3_vfs_register(own, 0) == ffi::SQLITE_OK }
}

/// Opens a file as the default file system does. Locks of a database go through `lock` then.
unsafe extern "C" fn open_file(
    file_system: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(open) = OPEN_FILE.get() else {
        return ffi::SQLITE_CANTOPEN;
    };
    // SAFETY: the arguments are those that SQLite has passed for this function.
    let result = unsafe { open(file_system, name, file, flags, out_flags) };
    if result != ffi::SQLITE_OK || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
        return result;
    }
    // SAFETY: an open file has functions, which are constants of SQLite.
    let original: Option<&'static ffi::sqlite3_io_methods> = unsafe { (*file).pMethods.as_ref() };
    let Some(original) = original else {
        return result;
    };
    let methods = FILE_METHODS.get_or_init(|| FileMethods {
        original,
        with_fewer_locks: ffi::sqlite3_io_methods {
            xShmLock: Some(lock),
            ..*original
        },
    });
    if std::ptr::eq(methods.original, original) && original.xShmLock.is_some() {
        // SAFETY: the file is open, and the new functions differ from its own in one that does the same
        // work with the same file.
        unsafe { (*file).pMethods = &raw const methods.with_fewer_locks };
    }
    result
}

/// Takes or releases locks on the shared memory of a database.
unsafe extern "C" fn lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let decision = match COMMIT.get() {
        None => LockDecision::Pass,
        Some(mut commit) => {
            let decision = commit.decide(first, count, flags);
            COMMIT.set(Some(commit));
            decision
        }
    };
    match (decision, FILE_METHODS.get()) {
        (LockDecision::Skip, _) => ffi::SQLITE_OK,
        (LockDecision::Refuse, _) => ffi::SQLITE_BUSY,
        (LockDecision::Pass, Some(methods)) if let Some(original) = methods.original.xShmLock => {
            // SAFETY: the arguments are those that SQLite has passed for a file with these functions.
            unsafe { original(file, first, count, flags) }
        }
        (LockDecision::Pass, _) => ffi::SQLITE_IOERR_SHMLOCK,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use rusqlite::Connection;

    use super::*;
    use crate::damage::saved;
    use crate::directory::names::DATABASE;
    use crate::{Durability, Lease, Record};

    #[test]
    fn a_commit_takes_the_lock_of_writers_and_none_of_readers() {
        const TAKE: c_int = ffi::SQLITE_SHM_LOCK;
        const RELEASE: c_int = ffi::SQLITE_SHM_UNLOCK;
        let (shared, exclusive) = (ffi::SQLITE_SHM_SHARED, ffi::SQLITE_SHM_EXCLUSIVE);
        let mut commit = CommitLocks::default();
        let mut check = |first, count, flags, expected| {
            assert_eq!(commit.decide(first, count, flags), expected);
        };
        use LockDecision::{Pass, Refuse, Skip};
        // The begin of a transaction: a mark of each reader is tried, and the largest is used.
        for mark in 4..8 {
            check(mark, 1, TAKE | exclusive, Refuse);
        }
        check(4, 1, TAKE | shared, Skip);
        check(0, 1, TAKE | exclusive, Pass);
        check(0, 1, RELEASE | exclusive, Pass);
        check(4, 1, RELEASE | shared, Pass);
        // There is no mark yet.
        for mark in 4..8 {
            check(mark, 1, TAKE | exclusive, Refuse);
        }
        check(4, 1, TAKE | exclusive, Pass);
        // The log is started anew, and the shared memory is restored.
        check(3, 1, TAKE | shared, Pass);
        check(4, 4, TAKE | exclusive, Pass);
        check(1, 2, TAKE | exclusive, Pass);
        check(4, 1, TAKE | exclusive, Pass);
        check(1, 2, RELEASE | exclusive, Pass);
    }

    /// How many times the run appends while others use its database.
    const ROUNDS: usize = 300;

    /// Opens a database as another program does.
    fn open(directory: &std::path::Path) -> Connection {
        let conn = Connection::open(directory.join(DATABASE)).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(60))
            .unwrap();
        conn
    }

    /// Does something in each round that it is in time for, until the last one has begun.
    fn once_a_round(rounds: &AtomicUsize, mut work: impl FnMut(usize)) {
        let mut done = 0;
        while done < ROUNDS {
            let round = rounds.load(SeqCst);
            if round == done {
                std::thread::yield_now();
                continue;
            }
            work(round);
            done = round;
        }
    }

    /// Counts events twice in a transaction, during which nothing may change.
    fn count_twice(conn: &Connection) -> i64 {
        let count = || {
            let sql = "SELECT count(*), sum(length(body)) FROM event";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
            conn.query_row(sql, [], read).unwrap()
        };
        conn.execute_batch("BEGIN").unwrap();
        let first = count();
        std::thread::yield_now();
        assert_eq!(count(), first);
        conn.execute_batch("COMMIT").unwrap();
        first.0
    }

    #[test]
    fn other_programs_read_and_move_the_log_and_write_while_a_run_commits() {
        let (_temp, directory, records, _) = saved(60);
        let mut store = directory.open().unwrap().lease;
        let more: Vec<Record> = records[..5].to_vec();
        store.append(&more, Durability::Process).unwrap();
        let before = count_twice(&open(directory.path()));
        let rounds = AtomicUsize::new(0);
        let (path, rounds) = (directory.path(), &rounds);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (conn, mut seen) = (open(path), 0);
                once_a_round(rounds, |_| {
                    let now = count_twice(&conn);
                    assert!(now >= seen);
                    seen = now;
                });
            });
            scope.spawn(move || {
                let conn = open(path);
                once_a_round(rounds, |round| {
                    let how = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][round % 4];
                    let sql = format!("PRAGMA wal_checkpoint({how})");
                    conn.query_row(&sql, [], |_| Ok(())).unwrap();
                });
            });
            scope.spawn(move || {
                let conn = open(path);
                once_a_round(rounds, |_| {
                    let sql = "INSERT OR REPLACE INTO note VALUES (1, 'another program', 'wrote')";
                    conn.execute(sql, []).unwrap();
                });
            });
            for round in 1..=ROUNDS {
                let appended = store.append(&more, Durability::Process);
                // The others end whatever happens.
                let ends = round == ROUNDS || appended.is_err();
                rounds.store(if ends { ROUNDS } else { round }, SeqCst);
                appended.unwrap();
            }
        });
        let conn = open(path);
        let check = |sql: &str| {
            conn.query_row(sql, [], |row| row.get::<_, String>(0))
                .unwrap()
        };
        assert_eq!(check("PRAGMA integrity_check"), "ok");
        assert_eq!(check("SELECT text FROM note"), "wrote");
        assert_eq!(count_twice(&conn), before + (more.len() * ROUNDS) as i64);
    }
}
