//! Inserts a run with all its records, which is copied from elsewhere, as one that was submitted.

use rusqlite::{Connection, params};
use strata_base::clock::now_ms;
use strata_base::files::blob::Blobs;
use strata_records::error::StoreError;
use strata_records::lineage::{StoredLineage, StoredRun};
use strata_records::overview::OverviewChange;
use strata_records::transfer::{CopiedRecords, CopiedRow, CopyKeys, RunCopy};

use super::super::lineage::SqliteRow;
use super::super::lineage::{DELETED_LINEAGE_NOTE, DELETED_RUN_NOTE};
use super::super::write::{write_definition, write_note};
use super::super::write_change::{LossCheck, new_lineage_id};
use super::change::ChangeTerms;
use super::database::SharedDatabase;
use super::delete::note_deleted;
use super::runs::free_key;
use super::settings::require_open;
use super::submission_row::{SubmissionRow, write_request, write_schedule, write_shown};
use super::submit::{insert_contents, insert_files, new_row};
use crate::blob::insert_blobs;
use crate::sqlite_url::SqliteUrl;

/// A row that is to be inserted.
enum NewRow {
    Event([i64; 5], u32, Vec<u8>),
    Gap([i64; 3], u32),
    Snapshot(i64, u32, Vec<u8>, u32, Vec<u8>),
    Bundle(i64, u32, Vec<u8>),
}

impl From<CopiedRow<'_>> for NewRow {
    fn from(row: CopiedRow<'_>) -> Self {
        match row {
            CopiedRow::Event(row) => Self::Event(
                [row.n, row.line, row.lines, row.time_ms, row.marks],
                row.sum,
                row.body.to_vec(),
            ),
            CopiedRow::Gap(gap) => Self::Gap([gap.n, gap.last, gap.step], gap.sum),
            CopiedRow::Snapshot {
                n,
                list,
                list_sum,
                body,
                sum,
            } => Self::Snapshot(n, list_sum, list, sum, body),
            CopiedRow::Bundle { n, sum, body } => Self::Bundle(n, sum, body.to_vec()),
        }
    }
}

impl NewRow {
    fn insert(&self, conn: &Connection) -> rusqlite::Result<usize> {
        match self {
            Self::Event([n, line, lines, time_ms, marks], sum, body) => conn
                .prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
                .execute(params![n, line, lines, time_ms, marks, sum, body]),
            Self::Gap([n, last, step], sum) => conn
                .prepare_cached("INSERT INTO gap VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![n, last, step, sum]),
            Self::Snapshot(n, list_sum, list, sum, body) => conn
                .prepare_cached("INSERT INTO snapshot VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute(params![n, list_sum, list, sum, body]),
            Self::Bundle(n, sum, body) => conn
                .prepare_cached("INSERT INTO bundle VALUES (?1, ?2, ?3)")?
                .execute(params![n, sum, body]),
        }
    }
}

/// Inserts the copy of a run: all of it, or nothing.
pub(crate) fn insert_copy(
    url: &SqliteUrl,
    copy: &RunCopy<'_>,
    records: &dyn CopiedRecords,
) -> Result<(), StoreError> {
    let submission = copy.submission;
    let url = url.with_run(submission.name);
    let taken = || StoreError::NameTaken {
        path: url.to_path(),
        name: submission.name.into(),
    };
    let database = SharedDatabase::open_queue(&url.file)?;
    require_open(&database, &url)?;
    let keys = reserve_keys(&database, submission.name, records.lineage_count())?;
    let Some(keys) = keys else {
        return Err(taken());
    };
    let mut rows = Vec::new();
    let lineages = records.visit(keys, &mut |row| {
        rows.push(NewRow::from(row));
        Ok(())
    })?;
    let own = |line: &StoredLineage| usize::try_from(line.events - line.start()).unwrap_or(0);
    let terms = ChangeTerms {
        loss_check: LossCheck::Events(lineages.iter().map(own).sum()),
        ..ChangeTerms::durable()
    };
    let run = StoredRun {
        id: keys.run,
        name: submission.name.into(),
        epoch: 0,
        lineage: records.current(keys)?,
        next_line: records.next_line(),
    };
    let mut blobs: Blobs = records.blobs()?;
    blobs.extend(submission.blobs.clone());
    let queued = QueuedCopy::new(keys.run, copy);
    let (definition, note) = (
        submission.definition.clone(),
        submission.resume_note.clone(),
    );
    let (files, contents) = (submission.files.clone(), submission.contents.clone());
    let inserted = database.change(terms, move |conn| {
        if free_key(conn, &run.name)?.is_none() {
            return Ok(false);
        }
        run.write(conn)?;
        lineages.iter().try_for_each(|line| line.write(conn))?;
        rows.iter().try_for_each(|row| row.insert(conn).map(drop))?;
        write_definition(conn, run.id, &definition)?;
        insert_blobs(conn, run.id, &blobs)?;
        queued.insert(conn)?;
        insert_contents(conn, &contents)?;
        insert_files(conn, run.id, &files)?;
        if let Some((name, text)) = &note {
            write_note(conn, run.id, name, text)?;
            write_request(conn, run.id)?;
        }
        Ok(true)
    })?;
    if inserted != Some(true) {
        return Err(taken());
    }
    database.note_changed(keys.run);
    database.notify_workers();
    Ok(())
}

/// Reserves the keys of a run with so many lineages; `None` if there is one of its name. What is stored under them depends
/// on them, and is prepared before it is inserted.
fn reserve_keys(
    database: &SharedDatabase,
    name: &str,
    lineages: usize,
) -> Result<Option<CopyKeys>, StoreError> {
    let name = name.to_owned();
    let more = i64::try_from(lineages).unwrap_or(i64::MAX).max(1) - 1;
    let keys = database.change(ChangeTerms::durable(), move |conn| {
        let Some(run) = free_key(conn, &name)? else {
            return Ok(None);
        };
        let lineage = new_lineage_id(conn)?;
        note_deleted(conn, DELETED_RUN_NOTE, Some(run))?;
        note_deleted(conn, DELETED_LINEAGE_NOTE, Some(lineage + more))?;
        Ok(Some(CopyKeys { run, lineage }))
    })?;
    Ok(keys.flatten())
}

/// What is stored of a copy for the queue.
struct QueuedCopy {
    row: SubmissionRow,
    shown: OverviewChange,
    schedule: crate::RunSchedule,
    changed_ms: Option<i64>,
}

impl QueuedCopy {
    fn new(run: i64, copy: &RunCopy<'_>) -> Self {
        let mut row = new_row(copy.submission);
        row.run = run;
        row.overview = Some(copy.overview.clone());
        let changed_ms = copy.changed_ms;
        let shown =
            OverviewChange::of_copy(copy.overview.clone(), Some(changed_ms.unwrap_or(now_ms())));
        Self {
            row,
            shown,
            schedule: copy.schedule,
            changed_ms,
        }
    }

    fn insert(&self, conn: &Connection) -> rusqlite::Result<()> {
        let run = self.row.run;
        self.row.insert(conn)?;
        write_shown(conn, run, &self.shown)?;
        write_schedule(conn, run, self.schedule)?;
        let sql = "UPDATE submission SET changed_ms = coalesce(?2, changed_ms) WHERE run = ?1";
        conn.execute(sql, params![run, self.changed_ms]).map(drop)
    }
}
