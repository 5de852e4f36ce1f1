//! Runs that are submitted to a database file: adding them with their files, and changing those that nobody owns.
//! `claims` takes them for a worker.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use strata_base::clock::now_ms;
use strata_base::files::blob::Blobs;
use strata_core::record::id::Digest;
use strata_records::error::StoreError;
use strata_records::overview::RunOverview;
use strata_records::work::{
    Handover, KeptSubmission, NewSubmission, RunNeeds, Shortage, SubmissionChange, SubmissionState,
};

use super::super::rows::SqliteReader;
use super::super::write::{NewRun, write_definition, write_note};
use super::super::write_change::new_lineage_id;
use super::change::ChangeTerms;
use super::database::{MissingDatabase, SharedDatabase};
use super::records::{insert_record, read_file};
use super::runs::{free_key, open_named};
use super::settings::require_open;
use super::submission_row::{COLUMNS, NEVER, NOW, SubmissionRow, write_request};
use super::workers::find_workers;
use crate::ServerRecord;
use crate::schema::has_queue_tables;
use crate::sqlite_url::SqliteUrl;

/// What became of a submission.
enum InsertOutcome {
    Run,
    NameTaken,
    /// There is a record of that name.
    RecordTaken(ServerRecord),
}

/// Puts a run into a database for a worker to take.
pub(crate) fn submit(url: &SqliteUrl, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
    let database = SharedDatabase::open_queue(&url.file)?;
    require_open(&database, url)?;
    let row = new_row(submission);
    let (name, base) = (submission.name.to_owned(), submission.base.clone());
    let (definition, blobs) = (submission.definition.clone(), submission.blobs.clone());
    let (files, contents) = (submission.files.clone(), submission.contents.clone());
    let records = submission.records.to_vec();
    let note = submission.resume_note.clone();
    let inserted = database.change(ChangeTerms::durable(), move |conn| {
        for record in &records {
            if let Some(other) = insert_record(conn, record)? {
                return Ok(InsertOutcome::RecordTaken(other));
            }
        }
        let Some(key) = free_key(conn, &name)? else {
            // A record that was inserted before must not stay.
            remove_records(conn, &records)?;
            return Ok(InsertOutcome::NameTaken);
        };
        insert_contents(conn, &contents)?;
        let new = NewRun {
            run: (key, &name),
            lineage: new_lineage_id(conn)?,
            base: &base,
            definition: &definition,
            blobs: &blobs,
        };
        new.insert(conn)?;
        SubmissionRow {
            run: key,
            ..row.clone()
        }
        .insert(conn)?;
        insert_files(conn, key, &files)?;
        if let Some((name, text)) = &note {
            write_note(conn, key, name, text)?;
        }
        Ok(InsertOutcome::Run)
    })?;
    match inserted {
        Some(InsertOutcome::RecordTaken(record)) => Err(StoreError::RecordTaken {
            record: Box::new(record),
        }),
        Some(InsertOutcome::NameTaken) | None => Err(StoreError::NameTaken {
            path: url.to_path(),
            name: submission.name.into(),
        }),
        Some(InsertOutcome::Run) => {
            let run = open_named(url)?.rows.run;
            database.note_changed(run);
            database.notify_workers();
            Ok(())
        }
    }
}

/// Returns the row of a run that is submitted, without its key.
pub(super) fn new_row(submission: &NewSubmission<'_>) -> SubmissionRow {
    let created_ms = now_ms();
    SubmissionRow {
        code: submission.identity.id.clone(),
        tenant: submission.identity.tenant.clone(),
        submitter: submission.identity.submitter.clone(),
        schedule: match submission.handover {
            Handover::Queued => NOW,
            Handover::Detached => NEVER,
        },
        is_requested: submission.resume_note.is_some(),
        labels: submission.needs.labels.clone(),
        secrets: submission.needs.secrets.clone(),
        tags: submission.tags.clone(),
        scope: submission.scope.map(|scope| scope.name().to_owned()),
        created_ms,
        changed_ms: created_ms,
        overview: Some(RunOverview::of_new(submission.team, submission.base)),
        ..SubmissionRow::default()
    }
}

fn remove_records(conn: &Connection, records: &[ServerRecord]) -> rusqlite::Result<()> {
    for record in records {
        let sql = "DELETE FROM server_record WHERE kind = ?1 AND tenant = ?2 AND name = ?3";
        conn.execute(sql, params![record.kind, record.tenant, record.name])?;
    }
    Ok(())
}

/// Stores the bytes of files that are not stored yet.
pub(super) fn insert_contents(conn: &Connection, contents: &Blobs) -> rusqlite::Result<()> {
    for (digest, body) in contents {
        let sql = "INSERT OR IGNORE INTO file VALUES (?1, ?2)";
        conn.execute(sql, params![digest.0, &body[..]])?;
    }
    Ok(())
}

/// Stores at which path a run has which file.
pub(super) fn insert_files(
    conn: &Connection,
    run: i64,
    files: &BTreeMap<String, Digest>,
) -> rusqlite::Result<()> {
    for (path, digest) in files {
        let sql = "INSERT INTO run_file VALUES (?1, ?2, ?3)";
        conn.execute(sql, params![run, path, digest.0])?;
    }
    Ok(())
}

/// What is known of a submitted run besides its records.
pub(crate) struct FileRun {
    reader: SqliteReader,
    url: SqliteUrl,
}

impl FileRun {
    /// Returns that of the run of a URL; `None` if it was not submitted.
    pub(crate) fn open(url: &SqliteUrl) -> Result<Option<Self>, StoreError> {
        let reader = open_named(url)?;
        let submission = Self {
            reader,
            url: url.clone(),
        };
        Ok(submission.row()?.map(|_| submission))
    }

    pub(super) fn row(&self) -> Result<Option<SubmissionRow>, StoreError> {
        let rows = &self.reader.rows;
        let read = || -> rusqlite::Result<Option<SubmissionRow>> {
            if !has_queue_tables(&rows.conn)? {
                return Ok(None);
            }
            let sql = format!("SELECT {COLUMNS} FROM submission s WHERE s.run = ?1");
            let row = rows
                .conn
                .query_row(&sql, [rows.run], SubmissionRow::from_row);
            row.optional()
        };
        read().map_err(|e| self.reader.rows.error("read", e))
    }
}

impl KeptSubmission for FileRun {
    fn files(&self) -> Result<BTreeMap<String, Digest>, StoreError> {
        let sql = "SELECT path, digest FROM run_file WHERE run = ?1";
        let rows = &self.reader.rows;
        let read = rows.query_all(sql, [rows.run], |row| {
            Ok((row.get::<_, String>(0)?, Digest(row.get(1)?)))
        });
        Ok(read?.into_iter().collect())
    }

    fn bytes(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let bytes = read_file(&self.reader, digest)?;
        bytes.ok_or_else(|| {
            StoreError::corrupt(
                &self.url.to_path(),
                format!("the submitted file `{digest}` is missing or has changed"),
            )
        })
    }

    /// Returns the state. Only the process that has the database open runs it.
    fn state(&self) -> Result<SubmissionState, StoreError> {
        let row = self.row()?.unwrap_or_default();
        let holder = super::mail::holder(&self.url)?;
        let needs = RunNeeds {
            labels: row.labels.clone(),
            secrets: row.secrets.clone(),
        };
        // One that does not say whether it is a worker is taken for one.
        let workers = find_workers(&self.url)?;
        Ok(SubmissionState {
            schedule: row.run_schedule(),
            is_owned: holder != crate::LockHolder::Nobody,
            problem: row.problem,
            shortage: workers.and_then(|workers| Shortage::find(&needs, &workers)),
            needs,
        })
    }
}

/// Asks workers to take up a run. Does nothing to one that workers do not take.
pub(crate) fn request_work(url: &SqliteUrl) -> Result<(), StoreError> {
    let Some(submission) = FileRun::open(url)? else {
        return Ok(());
    };
    let run = submission.reader.rows.run;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    database.change(ChangeTerms::durable(), move |conn| write_request(conn, run))?;
    database.note_changed(run);
    database.notify_workers();
    Ok(())
}

/// Changes a submitted run that nobody owns.
pub(crate) fn change_submission(
    url: &SqliteUrl,
    change: &SubmissionChange,
) -> Result<(), StoreError> {
    let Some(submission) = FileRun::open(url)? else {
        return Ok(());
    };
    let run = submission.reader.rows.run;
    let database = SharedDatabase::open(&url.file, MissingDatabase::Fail)?;
    let Some(_leased) = database.lease_run(run) else {
        return Err(StoreError::Locked {
            path: url.to_path(),
            pid: Some(std::process::id()),
        });
    };
    let change = change.clone();
    database.change(ChangeTerms::durable(), move |conn| {
        if let Some(definition) = &change.definition {
            insert_contents(conn, &change.contents)?;
            write_definition(conn, run, definition)?;
            conn.execute("DELETE FROM run_file WHERE run = ?1", [run])?;
            insert_files(conn, run, &change.files)?;
            let sql = "UPDATE submission SET secrets = ?2 WHERE run = ?1";
            let secrets = serde_json::json!(change.secrets).to_string();
            conn.execute(sql, params![run, secrets])?;
        }
        if let Some((name, text)) = &change.note {
            write_note(conn, run, name, text)?;
        }
        if change.resumes {
            write_request(conn, run)?;
        }
        Ok(())
    })?;
    database.note_changed(run);
    database.notify_workers();
    Ok(())
}
