//! Whether a database file is fit to keep runs in.

use rusqlite::{OptionalExtension, Row};
use rustix::fs::{Access, access};
use strata_records::error::StoreError;

use super::runs::open_whole;
use super::settings::{CLOSED_NOTE, INCARNATION_NOTE};
use crate::directory::names::SideFile;
use crate::file;
use crate::lock::lock_holder;
use crate::sqlite_url::SqliteUrl;
use crate::{DatabaseRights, FileReport, Intake};

/// Returns what a database file has of what runs need.
pub(crate) fn examine(url: &SqliteUrl) -> Result<FileReport, StoreError> {
    let directory = file::directory_of(&url.file);
    let can_write = |path| access(path, Access::WRITE_OK).is_ok();
    let reader = open_whole(url)?;
    let is_writable = can_write(directory) && (reader.is_none() || can_write(url.file.as_path()));
    let mut report = FileReport {
        runs: None,
        intake: Intake::Open,
        incarnation: None,
        rights: if is_writable {
            DatabaseRights::Administer
        } else {
            DatabaseRights::Read
        },
        holder: lock_holder(&SideFile::Lock.beside(&url.file))?,
    };
    let Some(reader) = reader else {
        return Ok(report);
    };
    let conn = &reader.rows.conn;
    let note = |name: &str| {
        let sql = "SELECT text FROM note WHERE run = 0 AND name = ?1";
        conn.query_row(sql, [name], |row| row.get::<_, String>(0))
            .optional()
    };
    let read = || -> rusqlite::Result<(i64, Option<String>, Option<String>)> {
        let count = |row: &Row<'_>| row.get(0);
        let runs = conn.query_row("SELECT count(*) FROM run", [], count)?;
        Ok((runs, note(INCARNATION_NOTE)?, note(CLOSED_NOTE)?))
    };
    let (runs, incarnation, closed) = read().map_err(|e| reader.rows.error("read", e))?;
    report.runs = Some(runs.unsigned_abs());
    report.incarnation = incarnation;
    if closed.is_some() {
        report.intake = Intake::Closed;
    }
    Ok(report)
}
