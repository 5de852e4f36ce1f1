//! Inserts a run with all its records, which is copied from elsewhere.

use std::cell::{Cell, RefCell};

use strata_records::error::StoreError;
use strata_records::lineage::StoredRun;
use strata_records::overview::OverviewChange;
use strata_records::rows::EventRow;
use strata_records::transfer::{CopiedRecords, CopiedRow, CopyKeys, RunCopy, RunRecords};
use tokio_postgres::types::Type;

use super::administer::require_open;
use super::connect::StatementError;
use super::connection::Connection;
use super::database::Database;
use super::notifications::notify_workers;
use super::rows::{PostgresReader, PostgresRows};
use super::run_name::find_run;
use super::schema::migrate;
use super::work::insert_missing_files;
use super::{overview, schedule, write};

/// About how many bytes of events are sent at a time, and how many rows at most.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_ROWS: usize = 500;

/// Opens the records of a run for a copy of it.
pub fn open_copied(database: &Database) -> Result<Box<dyn CopiedRecords>, StoreError> {
    let connection = database.connect()?;
    let run = find_run(&connection)?;
    let reader = PostgresReader::from_rows(PostgresRows { connection, run });
    Ok(Box::new(RunRecords::new(reader)?))
}

/// Inserts the copy of a run: all of it, or nothing.
pub fn insert_copy(
    database: &Database,
    copy: &RunCopy<'_>,
    records: &dyn CopiedRecords,
) -> Result<(), StoreError> {
    let connection = database.connect()?;
    migrate(&connection)?;
    insert_missing_files(&connection, copy.submission.contents)?;
    let first = StoredRun {
        id: 0,
        name: copy.submission.name.into(),
        epoch: 0,
        lineage: records.current(CopyKeys::OWN)?,
        next_line: records.next_line(),
    };
    let blobs = records.blobs()?;
    let listed = OverviewChange::of_copy(copy.overview.clone(), copy.changed_ms);
    let inserted = connection.transact("", || -> Result<(), StatementError> {
        require_open(&connection)?;
        let run = write::insert_run(&connection, &first, &copy.submission.identity)?;
        overview::insert(&connection, run, &listed)?;
        let events = RefCell::new(EventBatch::new(&connection, run));
        let failure: Cell<Option<StatementError>> = Cell::new(None);
        let lineages = records.visit(CopyKeys::OWN, &mut |row| {
            let inserted = insert_row(&connection, run, row, &mut events.borrow_mut());
            inserted.map_err(|error| {
                failure.set(Some(error));
                // It only ends the visit.
                StoreError::corrupt(connection.path(), "a row could not be written")
            })
        });
        if let Some(error) = failure.take() {
            return Err(error);
        }
        let lineages = lineages?;
        events.borrow_mut().send()?;
        for line in &lineages {
            write::insert_lineage(&connection, run, line)?;
        }
        write::write_definition(&connection, run, copy.submission.definition)?;
        write::insert_blobs(&connection, run, &blobs)?;
        write::insert_blobs(&connection, run, copy.submission.blobs)?;
        schedule::schedule_submission(&connection, run, copy.submission)?;
        schedule::write_schedule(&connection, run, copy.schedule)
    });
    match inserted {
        Ok(()) => notify_workers(&connection),
        Err(error) if error.is_name_taken => Err(StoreError::NameTaken {
            path: connection.path().into(),
            name: copy.submission.name.into(),
        }),
        Err(error) => Err(error.meaning),
    }
}

fn insert_row(
    connection: &Connection,
    run: i64,
    row: CopiedRow<'_>,
    events: &mut EventBatch<'_>,
) -> Result<(), StatementError> {
    match row {
        CopiedRow::Event(row) => events.add(&row),
        CopiedRow::Gap(gap) => {
            let sql =
                "INSERT INTO strata.gap (run, n, last, step, sum) VALUES ($1, $2, $3, $4, $5)";
            let sum = i64::from(gap.sum);
            let arguments = [
                (&run as _, Type::INT8),
                (&gap.n as _, Type::INT8),
                (&gap.last as _, Type::INT8),
                (&gap.step as _, Type::INT8),
                (&sum as _, Type::INT8),
            ];
            connection.execute(sql, &arguments).map(drop)
        }
        CopiedRow::Snapshot {
            n,
            list,
            list_sum,
            body,
            sum,
        } => {
            let sql = "INSERT INTO strata.snapshot (run, n, bundles_sum, bundles, sum, body) \
                       VALUES ($1, $2, $3, $4, $5, $6)";
            let (list_sum, sum) = (i64::from(list_sum), i64::from(sum));
            let arguments = [
                (&run as _, Type::INT8),
                (&n as _, Type::INT8),
                (&list_sum as _, Type::INT8),
                (&list as _, Type::BYTEA),
                (&sum as _, Type::INT8),
                (&body as _, Type::BYTEA),
            ];
            connection.execute(sql, &arguments).map(drop)
        }
        CopiedRow::Bundle { n, sum, body } => {
            let sql = "INSERT INTO strata.bundle (run, n, sum, body) VALUES ($1, $2, $3, $4)";
            let sum = i64::from(sum);
            let arguments = [
                (&run as _, Type::INT8),
                (&n as _, Type::INT8),
                (&sum as _, Type::INT8),
                (&body as _, Type::BYTEA),
            ];
            connection.execute(sql, &arguments).map(drop)
        }
    }
}

/// Events that are inserted together.
struct EventBatch<'a> {
    connection: &'a Connection,
    run: i64,
    /// The columns `n`, `line`, `lines`, `time_ms`, `marks` and `sum`.
    numbers: [Vec<i64>; 6],
    bodies: Vec<Vec<u8>>,
    bytes: usize,
}

impl<'a> EventBatch<'a> {
    fn new(connection: &'a Connection, run: i64) -> Self {
        Self {
            connection,
            run,
            numbers: Default::default(),
            bodies: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, row: &EventRow<'_>) -> Result<(), StatementError> {
        let values = [
            row.n,
            row.line,
            row.lines,
            row.time_ms,
            row.marks,
            i64::from(row.sum),
        ];
        for (column, value) in self.numbers.iter_mut().zip(values) {
            column.push(value);
        }
        self.bodies.push(row.body.to_vec());
        self.bytes += row.body.len();
        if self.bytes >= BATCH_BYTES || self.bodies.len() >= BATCH_ROWS {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), StatementError> {
        if self.bodies.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body) \
                   SELECT $1, t.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], \
                                              $7::bigint[], $8::bytea[]) t";
        let [n, line, lines, time_ms, marks, sum] = &self.numbers;
        let arguments = [
            (&self.run as _, Type::INT8),
            (n as _, Type::INT8_ARRAY),
            (line as _, Type::INT8_ARRAY),
            (lines as _, Type::INT8_ARRAY),
            (time_ms as _, Type::INT8_ARRAY),
            (marks as _, Type::INT8_ARRAY),
            (sum as _, Type::INT8_ARRAY),
            (&self.bodies as _, Type::BYTEA_ARRAY),
        ];
        self.connection.execute(sql, &arguments)?;
        *self = Self::new(self.connection, self.run);
        Ok(())
    }
}
