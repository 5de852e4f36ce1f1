//! The worker of a database, whichever process it is.

use strata_records::error::StoreError;
use strata_records::work::ListedWorker;

use super::claims::list_workers;
use super::holder::Holder;
use super::holder_request::{HolderRequest, SentWorker};
use super::mail::is_open_elsewhere;
use crate::sqlite_url::SqliteUrl;

/// Returns the worker of a database, if there is one; `None` if another process has the database open and does not say
/// whether it is one.
pub(super) fn find_workers(url: &SqliteUrl) -> Result<Option<Vec<ListedWorker>>, StoreError> {
    if let Some(holder) = Holder::find(url)? {
        let sent: Option<Vec<SentWorker>> = holder.ask(&HolderRequest::ListWorkers)?;
        if let Some(sent) = sent {
            return Ok(Some(sent.into_iter().map(ListedWorker::from).collect()));
        }
    }
    let own = list_workers(url);
    if own.is_empty() && is_open_elsewhere(url)? {
        Ok(None)
    } else {
        Ok(Some(own))
    }
}
