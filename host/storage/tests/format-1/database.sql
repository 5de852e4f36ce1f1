CREATE SCHEMA strata;

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

    -- The runs that were deleted because they are kept no longer, of which rows of events and the like may be left.
    CREATE TABLE strata.removal (
        run bigint PRIMARY KEY
    );
    CREATE INDEX overview_ended ON strata.overview (status, ended_ms) WHERE ended_ms IS NOT NULL;

    -- By what the clients of servers know a run (`code` never changes), whose it is, who submitted it, and when that was, in
    -- milliseconds since 1970. `moved` is the number of the transaction that changed the row last, by which servers find the
    -- runs that have changed.
    ALTER TABLE strata.run
        ADD COLUMN code text COLLATE "C" NOT NULL DEFAULT replace(gen_random_uuid()::text, '-', ''),
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
        code text COLLATE "C",
        text text NOT NULL,
        expires_ms bigint,
        PRIMARY KEY (kind, tenant, name)
    );
    CREATE INDEX server_record_run ON strata.server_record (code) WHERE code IS NOT NULL;
    CREATE INDEX server_record_end ON strata.server_record (expires_ms) WHERE expires_ms IS NOT NULL;
    CREATE INDEX server_record_file ON strata.server_record (name) WHERE kind = 'blob';
    CREATE INDEX run_file_digest ON strata.run_file (digest);
UPDATE strata.meta SET version = 4, incarnation = 'incarnation';
INSERT INTO strata.run (id, name, created_at, epoch, owner, lineage, line, schedule, scheduled_at, wake_at, is_requested, labels, secrets, problem, scope, format, owned_at, failures, failed_step, needed_bytes, tags, code, tenant, submitter, created_ms, moved) OVERRIDING SYSTEM VALUE VALUES ('1', 'run', '2026-01-01 00:00:00+00', '2', NULL, '0', '1', '0', '2026-01-01 00:00:00+00', NULL, 'false', '{}', '{}', NULL, NULL, '1', '2026-01-01 00:00:00+00', '0', NULL, '0', '{}', '00000000000000000000000000000001', 'default', '', '1767225600000', '3');
INSERT INTO strata.blob (run, digest, body) OVERRIDING SYSTEM VALUE VALUES ('1', '0f599b9451f725bfe1eb79476b36417380d4c36212d2644b43685e53d70ceb2e', E'\\x746865206279746573206f6620612066696c65');
INSERT INTO strata.bundle (run, n, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '1', '2853485892', E'\\x01046964656114616e20696465610a2271756f7465642220e29c93000004757365720f55736572526571756972656d656e740001053c616c6c3e000005302d302d300673616964203700010109696d6167652f706e6700011568747470733a2f2f6578616d706c652e636f6d2f61094128526f6c6520412901700141020470616972066e6f626f6479000005302d302d31067361696420380100147b2261223a7b2262223a5b5d7d2c227a223a317d010209696d6167652f706e670105612022622200406533623063343432393866633163313439616662663463383939366662393234323761653431653436343962393334636134393539393162373835326238353500094128526f6c6520412901700141020470616972066e6f626f6479000005302d302d32067361696420350100013700094128526f6c652041290001410305717569657407776169742f7e3101440001057468652d4301014105302d302d33067361696420310100013700094128526f6c6520412900014101063c73656c663e0001057468652d4301014105302d302d34067361696420360000094128526f6c65204129036f646401410107776169742f7e310000');
INSERT INTO strata.definition (run, name, base, text, components, sum) OVERRIDING SYSTEM VALUE VALUES ('1', E'\\x7465616d2e746f6d6c', E'\\x2f736f6d657768657265', E'\\x5b7465616d5d0a6e616d65203d202274220a', E'\\x5b22412e703d2f702e7761736d225d', '1077369993');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '1', '1', '0', '1000000', '1', '3058082888', E'\\x01000572756e2d3114616e20696465610a2271756f7465642220e29c9300018090cad2c60e020001000264300101010264310469646561000f55736572526571756972656d656e740100000000000000066d61696e2d300506526f6c652041000000000008526f6c6520422f32000000000006526f6c6520430103010000000006526f6c652044000000000006526f6c652045000000000003036c6f67010005706c61696e000373756d0101');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '10', '10', '0', '1000009', '0', '3939933532', E'\\x010101066d61696e2d3100018080e983b1de16020100000200000506526f6c652041000000000008526f6c6520422f32000000000006526f6c6520430103010000000006526f6c652044000000000006526f6c652045000000000003036c6f67010005706c61696e000373756d010180c4d2d4d10300000000');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '11', '10', '1', '1000010', '0', '3920825852', E'\\x010500000201000002000100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '12', '11', '2', '1000011', '0', '1903398249', E'\\x0105000002010001020430313233046e756c6c80c4d2d4d103000105636865617001076d6f64656c2d310101c80116322807010764656661756c7410697420776173206e6f74207468657265010a63686561702f30313233000477686174');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '13', '13', '0', '1000012', '0', '124910695', E'\\x0105000002010001030430313233215b312c5b325d2c7b2261223a302e33303030303030303030303030303030347d5d80c4d2d4d103000105636865617001076d6f64656c2d310101c80116322807010764656661756c7410697420776173206e6f74207468657265010a63686561702f30313233000477686174');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '14', '13', '1', '1000013', '0', '4257887304', E'\\x010500000201000202020673616964203600000107776169742f7e3101036f64640001067361696420310101370001063c73656c663e010001057468652d4301014100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '15', '14', '2', '1000014', '1', '2014898550', E'\\x010700066d61696e2d3201066d61696e2d300405302d302d30010001700200010001066e6f626f64790000000005302d302d31010001700200010001066e6f626f64790000000005302d302d33010000010000000001057468652d43010141000005302d302d340100036f6464000100000000000000');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '16', '16', '0', '1000015', '0', '2937956960', E'\\x010401020001');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '17', '16', '1', '1000016', '0', '923505162', E'\\x010500000200000001010264300100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '18', '17', '2', '1000017', '0', '1108756767', E'\\x010501000200000001000100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '19', '19', '0', '1000018', '0', '2553341274', E'\\x01050000020000020102067361696420380103227422010209696d6167652f706e67010561202262220040653362306334343239386663316331343961666266346338393936666239323432376165343165343634396239333463613439353939316237383532623835350001014301036f6464000206736169642032000001014300000673616964203700010109696d6167652f706e6700011568747470733a2f2f6578616d706c652e636f6d2f6101063c73656c663e000000');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '2', '1', '1', '1000001', '0', '3315666651', E'\\x0104000100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '20', '19', '1', '1000019', '0', '2544097018', E'\\x010500000201000001000100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '21', '20', '2', '1000020', '0', '2969199199', E'\\x01050100020000070304303132330f504f535420687474703a2f2f612f6200');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '22', '22', '0', '1000021', '0', '1675917239', E'\\x010500000201000201020673616964203501215b312c5b325d2c7b2261223a302e33303030303030303030303030303030347d5d000305717569657407776169742f7e3101440000010673616964203200000107776169742f7e3100000104726f6c6505612f627e31000137');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '23', '22', '1', '1000022', '0', '2727708757', E'\\x010501000200000201020673616964203800010209696d6167652f706e6701056120226222004065336230633434323938666331633134396166626634633839393666623932343237616534316534363439623933346361343935393931623738353262383535000107776169742f7e3101000000010373756d05612f627e3101');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '24', '23', '2', '1000023', '0', '3552630753', E'\\x010501000201000001010264310100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '3', '2', '2', '1000002', '0', '3982045311', E'\\x010500000200000001010264300100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '4', '4', '0', '1000003', '0', '1653425175', E'\\x0105000002000001000430313233046e756c6c80c4d2d4d103020105636865617001076d6f64656c2d310101c80116322807010764656661756c7410697420776173206e6f74207468657265010a63686561702f30313233000477686174');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '5', '4', '1', '1000004', '0', '3693549296', E'\\x0105000002000002010206736169642035010137000305717569657407776169742f7e310144010001057468652d43010141020673616964203700010109696d6167652f706e6700011568747470733a2f2f6578616d706c652e636f6d2f61020470616972066e6f626f647900000673616964203801147b2261223a7b2262223a5b5d7d2c227a223a317d010209696d6167652f706e670105612022622200406533623063343432393866633163313439616662663463383939366662393234323761653431653436343962393334636134393539393162373835326238353500020470616972066e6f626f647900000104726f6c65016b0003227422');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '6', '5', '2', '1000005', '0', '665012410', E'\\x010500000201000001000100');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '7', '7', '0', '1000006', '0', '2973645913', E'\\x010500000201000301000c01120a77656e742077726f6e6701056672616d6502066c696e652031066c696e6520320000');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '8', '7', '1', '1000007', '1', '250682639', E'\\x01080201066d61696e2d3101066d61696e2d3000');
INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '9', '8', '2', '1000008', '0', '3495824631', E'\\x0102020000026433');
INSERT INTO strata.lineage (run, id, number, name, origin, leaves_at, events, last, forgotten, spent, since, sum) OVERRIDING SYSTEM VALUE VALUES ('1', '0', '0', 'main', NULL, NULL, '24', '3552630753', '0', '375000000000', '509', '372298560');
INSERT INTO strata.overview (run, code, team, status, step, spent, budget, requests, faults, changed_ms, ended_ms) OVERRIDING SYSTEM VALUE VALUES ('1', '', '', NULL, '0', '0', NULL, '0', '0', NULL, NULL);
INSERT INTO strata.snapshot (run, n, bundles_sum, bundles, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '0', '4203829559', E'\\x0100', '3697592470', E'\\x01000000000501410201700171020f55736572526571756972656d656e7401790862795f6f726465720003422f320301780179017a02017104776f726b0862795f6f72646572000143020163057468696e6b020171017a1c726561637420287468696e6b206279206120636f6d706f6e656e74290001440304706c616e04776f726b04726573740101630c706c616e5f616e645f6163740001450003036f6464047265737401780568756d616e0001047061697202014103422f32000207776169742f7e310203422f320141014400010571756965740201410143047061697202000000000500000000000000000000000000000000000000000000000000000000000000000000000202000002000000000000000000000000000000000506526f6c652041000000000008526f6c6520422f32000000000006526f6c6520430103010000000006526f6c652044000000000006526f6c652045000000000003036c6f67010005706c61696e000373756d0101046d61696e0000000000000000000000');
INSERT INTO strata.snapshot (run, n, bundles_sum, bundles, sum, body) OVERRIDING SYSTEM VALUE VALUES ('1', '16', '46227446', E'\\x010102063200', '1809237430', E'\\x01000572756e2d3114616e20696465610a2271756f7465642220e29c93000501410201700171020f55736572526571756972656d656e7401790862795f6f726465720003422f320301780179017a02017104776f726b0862795f6f72646572000143020163057468696e6b020171017a1c726561637420287468696e6b206279206120636f6d706f6e656e74290001440304706c616e04776f726b04726573740101630c706c616e5f616e645f6163740001450003036f6464047265737401780568756d616e0001047061697202014103422f32000207776169742f7e310203422f3201410144000105717569657402014101430470616972020000010105000300030501016b032274220101030102040000000000000000000000000000000000000000000000000000010400000000010102010200000000000000000000000000000000000000000000000000000102000000000000000000000000000000000000000000000202000105020000000500010204050201066e6f626f647902066e6f626f64790080ccf7fdf40a0200010080c4d2d4d103de010100000100000001018088a5a9a307bc03020000020000018080e983b1de1603000100026430010101026431020002643301066d61696e2d3201066d61696e2d30030002000506526f6c652041000000000008526f6c6520422f32000000000006526f6c6520430103010000000006526f6c652044000000000006526f6c652045000000000003036c6f67010005706c61696e000373756d0101046d61696e0000000000010a63686561702f30313233030000000000');
