//! The tables in PostgreSQL, and their version.
//!
//! They are those of an SQLite database, with the run in front of each key. Keys and checksums are those
//! of a database with this run alone, so that the rows of a run are the same wherever it is kept.

use std::path::Path;

use strata_records::error::StoreError;
use tokio_postgres::types::Type;

use super::connection::Connection;

/// The version of the schema.
const VERSION: i64 = 4;

/// The format of what this program records of runs. It rises with the first event, or part of one, that earlier
/// programs cannot read, so that they do not take runs of which such events may be recorded.
pub(super) const RECORD_FORMAT: i64 = 1;

/// The lock under which the schema is changed: "STRT".
const MIGRATION_LOCK: i64 = 0x5354_5254;

/// The statements that lead from each version to the next. A released one is never changed.
pub const MIGRATIONS: [&str; VERSION as usize] = ["
    -- Which version of the schema this is. `incarnation` changes when the database was restored, and runs are added
    -- only while it `is_open`.
    CREATE TABLE strata.meta (
        one bigint PRIMARY KEY CHECK (one = 1),
        version bigint NOT NULL,
        incarnation text NOT NULL DEFAULT gen_random_uuid()::text,
        is_open boolean NOT NULL DEFAULT true
    );
    INSERT INTO strata.meta (one, version) VALUES (1, 0);

    -- The processes that own runs. `beat` rises while one is alive. `machine` is where its process id is valid.
    CREATE TABLE strata.worker (
        id text PRIMARY KEY,
        machine text NOT NULL,
        process bigint NOT NULL,
        started text NOT NULL,
        beat bigint NOT NULL,
        beat_at timestamptz NOT NULL,
        -- Whether it takes runs by itself; on which machine, with which version, labels and names of secrets.
        claims boolean NOT NULL DEFAULT false,
        host text NOT NULL DEFAULT '',
        version text NOT NULL DEFAULT '',
        labels text[] NOT NULL DEFAULT '{}',
        secrets text[] NOT NULL DEFAULT '{}'
    ) WITH (fillfactor = 50);

    -- Runs. `owner` may change a run, under `epoch`, which rises with each owner: a change under an earlier one is
    -- refused. `lineage` is the one that the run continues by default, and `line` the first public line that none of
    -- its lineages uses.
    CREATE TABLE strata.run (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        epoch bigint NOT NULL,
        owner text,
        lineage bigint NOT NULL,
        line bigint NOT NULL,
        -- When a worker takes it: never 0, now 1, at `wake_at` or on request 2, on request 3.
        schedule smallint NOT NULL DEFAULT 0,
        scheduled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        wake_at timestamptz,
        -- Whether somebody asked for it to be continued since it was last taken.
        is_requested boolean NOT NULL DEFAULT false,
        -- The labels and the secrets that a worker needs for it.
        labels text[] NOT NULL DEFAULT '{}',
        secrets text[] NOT NULL DEFAULT '{}',
        -- Why a worker could not run it.
        problem text,
        -- The cap that applies to it besides that of all runs.
        scope text,
        -- The newest format in which something may be recorded of it: only programs that know it take the run.
        format bigint NOT NULL
    ) WITH (fillfactor = 70);
    CREATE INDEX run_ready ON strata.run (scheduled_at) WHERE schedule = 1 AND owner IS NULL;
    CREATE INDEX run_due ON strata.run (wake_at) WHERE schedule = 2 AND wake_at IS NOT NULL;
    CREATE INDEX run_owned ON strata.run (owner) WHERE owner IS NOT NULL;

    -- What runs may cost together, in units of 10^-12 US dollars: all of them (`all`), or those with this scope. `used`
    -- includes what processes hold of it. `generation` is a number that no other cap has, and that changes when it is
    -- counted anew.
    CREATE TABLE strata.cap (
        scope text PRIMARY KEY,
        generation bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
        usd bigint NOT NULL,
        used bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50);

    -- The parts of caps that processes took ahead of time, less what they have drawn of it. `drawn` is what they have
    -- drawn and is not known to be spent. `beat_at` rises while the process is alive.
    CREATE TABLE strata.slice (
        holder text NOT NULL,
        scope text NOT NULL REFERENCES strata.cap ON DELETE CASCADE,
        held bigint NOT NULL,
        drawn bigint NOT NULL,
        beat_at timestamptz NOT NULL,
        PRIMARY KEY (holder, scope)
    ) WITH (fillfactor = 50);

    -- The files that were submitted with runs, each once, and which run has them at which path.
    CREATE TABLE strata.file (
        digest text PRIMARY KEY CHECK (digest = encode(sha256(body), 'hex')),
        body bytea NOT NULL
    );
    ALTER TABLE strata.file ALTER COLUMN body SET STORAGE EXTERNAL;
    CREATE TABLE strata.run_file (
        run bigint NOT NULL REFERENCES strata.run,
        path text NOT NULL,
        digest text NOT NULL REFERENCES strata.file,
        PRIMARY KEY (run, path)
    );

    CREATE TABLE strata.lineage (
        run bigint NOT NULL REFERENCES strata.run,
        id bigint NOT NULL,
        number bigint NOT NULL,
        name text NOT NULL,
        origin bigint,
        leaves_at bigint,
        events bigint NOT NULL,
        last bigint NOT NULL,
        forgotten bigint NOT NULL,
        spent bigint NOT NULL,
        since bigint NOT NULL,
        sum bigint NOT NULL,
        PRIMARY KEY (run, id),
        UNIQUE (run, name)
    ) WITH (fillfactor = 70);

    -- The event tables are only inserted into. What is in them is compressed, if at all, before it is stored.
    CREATE TABLE strata.event (
        run bigint NOT NULL,
        n bigint NOT NULL,
        line bigint NOT NULL,
        lines bigint NOT NULL,
        time_ms bigint NOT NULL,
        marks bigint NOT NULL,
        sum bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (run, n)
    );
    ALTER TABLE strata.event ALTER COLUMN body SET STORAGE EXTERNAL;

    CREATE TABLE strata.gap (
        run bigint NOT NULL,
        n bigint NOT NULL,
        last bigint NOT NULL,
        step bigint NOT NULL,
        sum bigint NOT NULL,
        PRIMARY KEY (run, n)
    );

    CREATE TABLE strata.snapshot (
        run bigint NOT NULL,
        n bigint NOT NULL,
        bundles_sum bigint NOT NULL,
        bundles bytea NOT NULL,
        sum bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (run, n)
    );

    CREATE TABLE strata.bundle (
        run bigint NOT NULL,
        n bigint NOT NULL,
        sum bigint NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (run, n)
    );
    ALTER TABLE strata.bundle ALTER COLUMN body SET STORAGE EXTERNAL;

    CREATE TABLE strata.definition (
        run bigint PRIMARY KEY,
        name bytea NOT NULL,
        base bytea NOT NULL,
        text bytea NOT NULL,
        components bytea NOT NULL,
        sum bigint NOT NULL
    );

    CREATE TABLE strata.note (
        run bigint NOT NULL,
        name text NOT NULL,
        text text NOT NULL,
        PRIMARY KEY (run, name)
    );

    CREATE TABLE strata.blob (
        run bigint NOT NULL,
        digest text NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (run, digest)
    );
    ALTER TABLE strata.blob ALTER COLUMN body SET STORAGE EXTERNAL;

    -- Requests to the owners of runs. `epoch` is that of the owner that took a request up. What it became is stored
    -- together with its reply, by one statement: a request without that is taken up by the next owner. Whoever sent
    -- it removes it.
    CREATE TABLE strata.mail (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run bigint NOT NULL,
        sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        epoch bigint,
        request bytea NOT NULL,
        reply bytea
    ) WITH (autovacuum_vacuum_scale_factor = 0.01);
    CREATE INDEX mail_of_run ON strata.mail (run, id);
", "
    -- From which runs are listed: what is shown of the state of each. It changes with the events of the run, in the same
    -- statement. `code` is the id of the run, empty before it begins. Without a `status`, what the state is has to be
    -- read. Money is in units of 10^-12 US dollars, times are in milliseconds since 1970 by the owner's clock.
    CREATE TABLE strata.overview (
        run bigint PRIMARY KEY REFERENCES strata.run,
        code text NOT NULL DEFAULT '',
        team text NOT NULL DEFAULT '',
        status text,
        step bigint NOT NULL DEFAULT 0,
        spent bigint NOT NULL DEFAULT 0,
        budget bigint,
        requests bigint NOT NULL DEFAULT 0,
        faults bigint NOT NULL DEFAULT 0,
        changed_ms bigint,
        ended_ms bigint
    ) WITH (fillfactor = 50);
    CREATE INDEX overview_status ON strata.overview (status);
    INSERT INTO strata.overview (run) SELECT id FROM strata.run;

    -- Since when a run has its owner. How often in a row it failed at the step `failed_step` because of its storage or its
    -- worker, and how many bytes the storage could not take then. What whoever submitted it noted with it to find it by.
    ALTER TABLE strata.run ADD COLUMN owned_at timestamptz;
    ALTER TABLE strata.run ADD COLUMN failures bigint NOT NULL DEFAULT 0;
    ALTER TABLE strata.run ADD COLUMN failed_step bigint;
    ALTER TABLE strata.run ADD COLUMN needed_bytes bigint NOT NULL DEFAULT 0;
    ALTER TABLE strata.run ADD COLUMN tags jsonb NOT NULL DEFAULT '{}';

    -- How many runs a worker runs at a time, and whether it was told to take no more and to end.
    ALTER TABLE strata.worker ADD COLUMN room bigint NOT NULL DEFAULT 0;
    ALTER TABLE strata.worker ADD COLUMN is_draining boolean NOT NULL DEFAULT false;

    -- For how long runs are kept that have ended, as it was given.
    ALTER TABLE strata.meta ADD COLUMN retention text NOT NULL DEFAULT '';

    -- The runs, as the command `runs` lists them. Its columns change only with a new major version of the program.
    CREATE VIEW strata.runs AS
        SELECT r.name, o.code AS id, o.team,
               CASE WHEN w.id IS NOT NULL THEN 'running'
                    WHEN r.problem IS NOT NULL THEN 'refused'
                    WHEN r.schedule = 1 THEN 'queued'
                    WHEN r.schedule = 2 THEN 'resting'
                    WHEN o.status IN ('done', 'failed', 'out-of-budget', 'stalled', 'step-limit', 'in-doubt', 'cancelled')
                        THEN 'ended'
                    WHEN r.schedule = 0 THEN 'detached'
                    ELSE 'resting' END AS state,
               CASE WHEN o.code = '' AND r.schedule <> 0 AND o.status = 'running' THEN 'queued'
                    ELSE o.status END AS status,
               o.step, o.spent / 1e12 AS spent, o.budget / 1e12 AS budget, o.requests, o.faults,
               w.id AS owner_worker, w.host AS owner_host, CASE WHEN w.id IS NOT NULL THEN r.owned_at END AS owner_since,
               r.scope, r.tags AS labels, r.labels AS needs, r.problem,
               r.created_at AS created,
               coalesce(to_timestamp(o.changed_ms / 1000.0), r.created_at) AS changed,
               to_timestamp(o.ended_ms / 1000.0) AS ended
        FROM strata.run r JOIN strata.overview o ON o.run = r.id
             LEFT JOIN strata.worker w ON w.id = r.owner AND clock_timestamp() - w.beat_at < interval '10 seconds';
", "
    -- The runs that were deleted because they are kept no longer, of which rows of events and the like may be left.
    CREATE TABLE strata.removal (
        run bigint PRIMARY KEY
    );
    CREATE INDEX overview_ended ON strata.overview (status, ended_ms) WHERE ended_ms IS NOT NULL;
", "
    -- By what the clients of servers know a run (`code` never changes), whose it is, who submitted it, and when that was, in
    -- milliseconds since 1970. `moved` is the number of the transaction that changed the row last, by which servers find the
    -- runs that have changed.
    ALTER TABLE strata.run
        ADD COLUMN code text COLLATE \"C\" NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
        ADD COLUMN tenant text NOT NULL DEFAULT 'default',
        ADD COLUMN submitter text NOT NULL DEFAULT '',
        ADD COLUMN created_ms bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        ADD COLUMN moved bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint;
    UPDATE strata.run SET created_ms = (extract(epoch FROM created_at) * 1000)::bigint;
    CREATE UNIQUE INDEX run_code ON strata.run (code);
    CREATE INDEX run_of_tenant ON strata.run (tenant, created_ms, code);
    CREATE INDEX run_order ON strata.run (created_ms, code);
    CREATE INDEX run_moved ON strata.run (moved);
    CREATE FUNCTION strata.note_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        NEW.moved := pg_current_xact_id()::text::bigint;
        RETURN NEW;
    END $$;
    CREATE TRIGGER run_moves BEFORE UPDATE ON strata.run FOR EACH ROW EXECUTE FUNCTION strata.note_moved();

    -- The runs that were deleted lately, for servers, too.
    CREATE TABLE strata.deletion (
        run bigint PRIMARY KEY,
        moved bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
        deleted_at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE INDEX deletion_moved ON strata.deletion (moved);
    CREATE FUNCTION strata.note_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO strata.deletion (run) VALUES (OLD.id) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END $$;
    CREATE TRIGGER run_is_deleted AFTER DELETE ON strata.run FOR EACH ROW EXECUTE FUNCTION strata.note_deletion();

    -- What servers remember: their tokens, which tenant uploaded which file, answers to repeated requests. `code` is that of
    -- the run with which a record is deleted, `expires_ms` when it stops counting, in milliseconds since 1970.
    CREATE TABLE strata.server_record (
        kind text NOT NULL,
        tenant text NOT NULL,
        name text NOT NULL,
        code text COLLATE \"C\",
        text text NOT NULL,
        expires_ms bigint,
        PRIMARY KEY (kind, tenant, name)
    );
    CREATE INDEX server_record_run ON strata.server_record (code) WHERE code IS NOT NULL;
    CREATE INDEX server_record_end ON strata.server_record (expires_ms) WHERE expires_ms IS NOT NULL;
    CREATE INDEX server_record_file ON strata.server_record (name) WHERE kind = 'blob';
    CREATE INDEX run_file_digest ON strata.run_file (digest);
"];

/// Whether a database has our tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaState {
    Absent,
    /// They are those of an earlier version, which `migrate` brings to the current one.
    Outdated(i64),
    Current,
}

/// Fails if what is recorded of a run may be in a format that this program does not know.
pub(super) fn require_known_format(path: &Path, found: i64) -> Result<(), StoreError> {
    if found > RECORD_FORMAT {
        return Err(StoreError::Newer {
            path: path.into(),
            what: "record",
            found,
            known: RECORD_FORMAT,
        });
    }
    Ok(())
}

/// Returns whether a database has our tables. Fails if it has others of that name, or those of a later
/// program.
pub(super) fn schema_state(connection: &Connection) -> Result<SchemaState, StoreError> {
    match version(connection)? {
        None | Some(0) => Ok(SchemaState::Absent),
        Some(VERSION) => Ok(SchemaState::Current),
        Some(found) if found > VERSION => Err(StoreError::Newer {
            path: connection.path().into(),
            what: "schema",
            found,
            known: VERSION,
        }),
        Some(found) if found > 0 => Ok(SchemaState::Outdated(found)),
        Some(found) => Err(StoreError::corrupt(
            connection.path(),
            format!("its schema version is {found}"),
        )),
    }
}

/// Returns whether a database has our tables. Fails if they are those of an earlier version: whoever only reads does not
/// change them.
pub(super) fn has_current_tables(connection: &Connection) -> Result<bool, StoreError> {
    match schema_state(connection)? {
        SchemaState::Absent => Ok(false),
        SchemaState::Current => Ok(true),
        SchemaState::Outdated(found) => Err(StoreError::Outdated {
            path: connection.path().into(),
            found,
            known: VERSION,
        }),
    }
}

/// Returns the version of the schema, or `None` if there is none.
fn version(connection: &Connection) -> Result<Option<i64>, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'strata'), \
                      EXISTS (SELECT FROM pg_tables WHERE schemaname = 'strata'), \
                      EXISTS (SELECT FROM pg_tables WHERE schemaname = 'strata' AND tablename = 'meta')";
    let Some(row) = connection.query_optional(sql, &[])? else {
        return Ok(None);
    };
    let (has_schema, has_tables, has_meta): (bool, bool, bool) =
        (row.get(0), row.get(1), row.get(2));
    if !has_schema || !has_tables {
        return Ok(None);
    }
    let foreign = |what: &str| StoreError::Foreign {
        path: connection.path().into(),
        what: what.into(),
    };
    if !has_meta {
        return Err(foreign(
            "its schema `strata` holds the tables of another program",
        ));
    }
    let row = connection.query_optional("SELECT version FROM strata.meta", &[]);
    let version = row?.and_then(|row| row.try_get(0).ok());
    version
        .map(Some)
        .ok_or_else(|| foreign("its table `strata.meta` says nothing of its version"))
}

/// Creates the tables, or brings them to the version of this program.
pub(super) fn migrate(connection: &Connection) -> Result<(), StoreError> {
    if schema_state(connection)? == SchemaState::Current {
        return Ok(());
    }
    connection.transact("", || -> Result<(), StoreError> {
        let lock = "SELECT pg_advisory_xact_lock($1)";
        connection.query(lock, &[(&MIGRATION_LOCK, Type::INT8)])?;
        // Another process may have done it meanwhile.
        let found = version(connection)?;
        if found.is_none() {
            connection.execute_all("CREATE SCHEMA IF NOT EXISTS strata")?;
        }
        let first = usize::try_from(found.unwrap_or(0)).unwrap_or(MIGRATIONS.len());
        for migration in MIGRATIONS.iter().skip(first) {
            connection.execute_all(migration)?;
        }
        let update = "UPDATE strata.meta SET version = $1 WHERE version < $1";
        connection.execute(update, &[(&VERSION, Type::INT8)])?;
        Ok(())
    })
}
