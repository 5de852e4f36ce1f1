//! A run that is to be inserted into a database.

use strata_base::files::blob::Blobs;
use strata_core::state::environment::Environment;
use strata_records::SavedDefinition;
use strata_records::lineage::{StoredLineage, StoredRun, event_key, key_range};
use strata_records::overview::{EndTime, OverviewChange, RunOverview};
use strata_records::snapshot::EncodedSnapshot;
use strata_records::work::{NewSubmission, SubmissionIdentity};

use super::administer::require_open;
use super::connect::StatementError;
use super::connection::Connection;
use super::{overview, records, schedule, write};

/// A run that is to be inserted into a database.
pub(super) struct NewPostgresRun<'a> {
    pub(super) name: &'a str,
    /// The state that it starts from.
    pub(super) base: &'a Environment,
    pub(super) definition: &'a SavedDefinition,
    pub(super) blobs: &'a Blobs,
    /// The name of its team; empty if it is not known yet.
    pub(super) team: &'a str,
    /// What it is if a worker is to take it.
    pub(super) submission: Option<&'a NewSubmission<'a>>,
}

impl NewPostgresRun<'_> {
    /// Inserts it, and returns its key.
    pub(super) fn insert(&self, connection: &Connection) -> Result<i64, StatementError> {
        let lineage = StoredLineage {
            spent: i64::try_from(self.base.spent.0).unwrap_or(i64::MAX),
            ..StoredLineage::first(&self.base.lineage.name)
        };
        let first = StoredRun {
            id: lineage.run,
            name: self.name.into(),
            epoch: 0,
            lineage: lineage.id,
            next_line: strata_records::FIRST_LINE as i64,
        };
        let listed = OverviewChange {
            overview: Some(RunOverview::of_new(self.team, self.base)),
            ended: EndTime::None,
            changed_ms: None,
        };
        let n = event_key(lineage.id, 0);
        let state = EncodedSnapshot::encode(self.base);
        let rows = state.rows(n, key_range(lineage.id).first, Vec::new());
        let identity = match self.submission {
            Some(submission) => submission.identity.clone(),
            None => SubmissionIdentity::unserved(),
        };
        connection.transact("", || {
            require_open(connection)?;
            if let Some(submission) = self.submission {
                records::insert_new(connection, submission.records)?;
            }
            let run = write::insert_run(connection, &first, &identity)?;
            overview::insert(connection, run, &listed)?;
            write::insert_lineage(connection, run, &lineage)?;
            write::insert_snapshot(connection, run, &rows)?;
            write::write_definition(connection, run, self.definition)?;
            write::insert_blobs(connection, run, self.blobs)?;
            if let Some(submission) = self.submission {
                schedule::schedule_submission(connection, run, submission)?;
            }
            Ok(run)
        })
    }
}
