//! The tables that a database has besides those of its runs if workers take runs from it: which runs were submitted
//! with which files, when a worker takes them, what a list shows of them, and what a server remembers.

/// The statements that create them.
pub(super) const QUEUE_TABLES: &str = "
    -- Runs that were submitted. `code` is the id by which clients know a run; it never changes. `schedule` says when a worker
    -- takes it: never 0, now 1, at `wake_ms` or on request 2, on request 3. `is_taken` is 1 while a worker runs it.
    -- `started` is the id that the run has in its records, empty before it begins. Without a `status`, what the state is
    -- has to be read. Money is in units of 10^-12 US dollars, times are in milliseconds since 1970, and labels, secrets and
    -- tags are JSON.
    CREATE TABLE submission (
        run INTEGER PRIMARY KEY,
        code TEXT NOT NULL UNIQUE,
        tenant TEXT NOT NULL,
        submitter TEXT NOT NULL,
        schedule INTEGER NOT NULL,
        scheduled_ms INTEGER NOT NULL,
        wake_ms INTEGER,
        is_requested INTEGER NOT NULL,
        is_taken INTEGER NOT NULL,
        taken_ms INTEGER,
        labels TEXT NOT NULL,
        secrets TEXT NOT NULL,
        tags TEXT NOT NULL,
        scope TEXT,
        problem TEXT,
        failures INTEGER NOT NULL,
        failed_step INTEGER,
        needed_bytes INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        started TEXT NOT NULL,
        team TEXT NOT NULL,
        status TEXT,
        step INTEGER NOT NULL,
        spent INTEGER NOT NULL,
        budget INTEGER,
        requests INTEGER NOT NULL,
        faults INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX submission_order ON submission (tenant, created_ms, code);
    CREATE INDEX submission_schedule ON submission (schedule, scheduled_ms);
    CREATE INDEX submission_status ON submission (tenant, status, created_ms, code);
    CREATE INDEX submission_unbegun ON submission (tenant, created_ms, code) WHERE started = '';
    CREATE INDEX submission_asking ON submission (tenant, created_ms, code) WHERE status IS NULL OR requests > 0;

    -- The files that were submitted, each once, and which run has them at which path.
    CREATE TABLE file (
        digest TEXT PRIMARY KEY,
        body BLOB NOT NULL
    ) STRICT;
    CREATE TABLE run_file (
        run INTEGER NOT NULL,
        path TEXT NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (run, path)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX run_file_digest ON run_file (digest);

    -- What a server remembers: its tokens, which tenant uploaded which file, answers to repeated requests. `code` is that of
    -- the run with which a record is deleted.
    CREATE TABLE server_record (
        kind TEXT NOT NULL,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        code TEXT,
        text TEXT NOT NULL,
        expires_ms INTEGER,
        PRIMARY KEY (kind, tenant, name)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX server_record_run ON server_record (code);
";

/// The indexes that SQLite creates by itself for them, and their tables.
pub(super) const QUEUE_INDEXES: [(&str, &str); 2] = [
    ("sqlite_autoindex_submission_1", "submission"),
    ("sqlite_autoindex_file_1", "file"),
];
