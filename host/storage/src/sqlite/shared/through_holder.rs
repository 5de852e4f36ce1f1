//! Changes of a database that this process makes itself or, if another one has it open, asks that for (`holder`).

use std::io;

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::caps::{CapChange, CapScope};
use strata_records::error::StoreError;
use strata_records::retention::Retention;
use strata_records::transfer::{CopiedRecords, RunCopy};
use strata_records::work::{ListedWorker, NewSubmission, SubmissionChange};

use super::holder::{Holder, add_run, change_through_holder};
use super::holder_request::{HolderRequest, SentChange};
use crate::sqlite_url::SqliteUrl;
use crate::{DatabaseSettings, Intake, SavedDefinition};

/// Creates a database, unless it exists, and returns what is set for it. One that another process has open is as that
/// process made it.
pub(crate) fn prepare(url: &SqliteUrl) -> Result<DatabaseSettings, StoreError> {
    let in_use = match super::settings::prepare(url) {
        Err(in_use @ StoreError::Locked { .. }) => in_use,
        done => return done,
    };
    let report = super::examine::examine(url)?;
    let intake = report.intake;
    match report.incarnation {
        Some(incarnation) => Ok(DatabaseSettings {
            incarnation,
            intake,
        }),
        None => Err(in_use),
    }
}

/// Puts a run into a database for a worker to take.
pub(crate) fn submit(url: &SqliteUrl, submission: &NewSubmission<'_>) -> Result<(), StoreError> {
    add_run(url, |url| super::submit::submit(url, submission))
}

/// Inserts the copy of a run: all of it, or nothing.
pub(crate) fn insert_copy(
    url: &SqliteUrl,
    copy: &RunCopy<'_>,
    records: &dyn CopiedRecords,
) -> Result<(), StoreError> {
    let url = url.with_run(copy.submission.name);
    add_run(&url, |url| {
        super::insert_copy::insert_copy(url, copy, records)
    })
}

/// Saves a run that starts from `base`, with the bytes of its files, where there is none of its name.
pub(crate) fn place_run(
    url: &SqliteUrl,
    base: &Environment,
    definition: &SavedDefinition,
    blobs: &Blobs,
) -> Result<(), StoreError> {
    add_run(url, |url| {
        super::runs::place_run(url, base, definition, blobs)
    })
}

/// Changes a submitted run that nobody owns.
pub(crate) fn change_submission(
    url: &SqliteUrl,
    change: &SubmissionChange,
) -> Result<(), StoreError> {
    let here = || super::submit::change_submission(url, change);
    change_through_holder(url, here, |holder| {
        // The directory has to exist until the change was received.
        let (change, _contents) = SentChange::new(change).map_err(|e| not_sent(url, e))?;
        let run = name_of(url);
        holder.ask(&HolderRequest::Change { run, change })
    })
}

/// Asks workers to take up a run. Does nothing to one that workers do not take.
pub(crate) fn request_work(url: &SqliteUrl) -> Result<(), StoreError> {
    let ask = |holder: &Holder| holder.ask(&HolderRequest::RequestWork { run: name_of(url) });
    change_through_holder(url, || super::submit::request_work(url), ask)
}

/// Deletes a run that nobody owns, and the submitted files that only it had.
pub(crate) fn delete_run(url: &SqliteUrl, by: Option<&str>) -> Result<(), StoreError> {
    let ask = |holder: &Holder| {
        holder.ask(&HolderRequest::Delete {
            run: name_of(url),
            by: by.map(str::to_owned),
        })
    };
    change_through_holder(url, || super::delete::delete_run(url, by), ask)
}

/// A run that the process which has its database open keeps. Dropping it gives the run up.
#[derive(Debug)]
pub(crate) struct HeldByHolder {
    holder: Holder,
    run: String,
    /// The epoch under which it is kept; `None` once it is not.
    epoch: Option<u64>,
}

impl HeldByHolder {
    /// Lets the process that has the database open keep a run, so that nobody changes it; `None` if there is no such process.
    pub(crate) fn new(url: &SqliteUrl) -> Result<Option<Self>, StoreError> {
        let Some(holder) = Holder::find(url)? else {
            return Ok(None);
        };
        let run = name_of(url);
        let epoch = holder.ask(&HolderRequest::Hold { run: run.clone() })?;
        Ok(epoch.map(|epoch| Self {
            holder,
            run,
            epoch: Some(epoch),
        }))
    }

    /// Deletes the run.
    pub(crate) fn delete(mut self, by: Option<&str>) -> Result<(), StoreError> {
        let Some(epoch) = self.epoch.take() else {
            return Ok(());
        };
        let deleted = self.holder.ask(&HolderRequest::DeleteHeld {
            run: self.run.clone(),
            epoch,
            by: by.map(str::to_owned),
        })?;
        deleted.ok_or_else(|| self.holder.ended())
    }
}

impl Drop for HeldByHolder {
    fn drop(&mut self) {
        let Some(epoch) = self.epoch else {
            return;
        };
        let run = self.run.clone();
        let released = self
            .holder
            .ask::<()>(&HolderRequest::Release { run, epoch });
        if let Err(error) = released {
            tracing::debug!("a run is kept for nobody: {error}");
        }
    }
}

/// Says for how long runs are kept that have ended.
pub(crate) fn set_retention(url: &SqliteUrl, retention: &Retention) -> Result<(), StoreError> {
    let keep = retention.to_string();
    let ask = |holder: &Holder| holder.ask(&HolderRequest::SetRetention { keep: keep.clone() });
    change_through_holder(url, || super::delete::set_retention(url, retention), ask)
}

/// Changes a cap. Returns whether there is one of this scope.
pub(crate) fn change_cap(
    url: &SqliteUrl,
    scope: &CapScope,
    change: CapChange,
) -> Result<bool, StoreError> {
    let ask = |holder: &Holder| {
        holder.ask(&HolderRequest::ChangeCap {
            scope: scope.name().into(),
            change: change.into(),
        })
    };
    change_through_holder(url, || super::caps::change_cap(url, scope, change), ask)
}

/// Says whether runs may be added to a database.
pub(crate) fn set_intake(url: &SqliteUrl, intake: Intake) -> Result<(), StoreError> {
    let is_open = intake == Intake::Open;
    let ask = |holder: &Holder| holder.ask(&HolderRequest::SetIntake { is_open });
    change_through_holder(url, || super::settings::set_intake(url, intake), ask)
}

/// Returns the worker of a database, if there is one.
pub(crate) fn list_workers(url: &SqliteUrl) -> Result<Vec<ListedWorker>, StoreError> {
    Ok(super::workers::find_workers(url)?.unwrap_or_default())
}

/// Tells the worker of a database to take no more runs and to end. Returns whether it has this id.
pub(crate) fn drain_worker(url: &SqliteUrl, id: &str) -> Result<bool, StoreError> {
    let asked = match Holder::find(url)? {
        Some(holder) => holder.ask(&HolderRequest::Drain { id: id.into() })?,
        None => None,
    };
    Ok(asked.unwrap_or(false))
}

fn name_of(url: &SqliteUrl) -> String {
    url.run.clone().unwrap_or_default()
}

fn not_sent(url: &SqliteUrl, error: io::Error) -> StoreError {
    StoreError::io(&url.to_path(), "change", error)
}
