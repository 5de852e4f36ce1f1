//! Files: the changes of a successful attempt are recorded together with its success, and written
//! to their paths after that. This module also decides which file contents an attempt sees.

use std::sync::Arc;

use strata_core::record::event::{Event, FilesPlaced};
use strata_core::record::file::PathContent;
use strata_core::record::id::RoleId;
use strata_core::state::environment::files::Placement;

use super::{Driver, DriverError};
use crate::gateway::HostAnswer;
use crate::sandbox::{FileView, PlacementOutcome, is_visible_in};

impl Driver {
    /// Returns how an attempt of this role sees files.
    pub(super) fn file_view(&self, role: RoleId) -> Arc<FileView> {
        let base = self.services.directories.base().to_path_buf();
        let files = self
            .replayed_files
            .clone()
            .unwrap_or_else(|| self.journal.env().files_seen_by(role));
        Arc::new(FileView {
            base,
            files,
            hidden: self.services.directories.hidden_storage().clone(),
        })
    }

    /// Returns the content of a stored file.
    pub(super) fn read_stored_file(
        &self,
        digest: &strata_core::record::id::Digest,
    ) -> Result<HostAnswer, DriverError> {
        Ok(HostAnswer::File(self.journal.store_ref().blob(digest)?))
    }

    /// Writes recorded files to their paths. Since they are durable, this can be repeated until it
    /// succeeds. A file waits while an attempt of another role is running that could see the
    /// change, so that what the attempt sees does not depend on timing.
    pub(super) fn place_files(&mut self) -> Result<(), DriverError> {
        let pending = &self.journal.env().files.pending;
        let watched = pending
            .iter()
            .position(|placement| self.is_visible_to_running(&placement.path));
        // Copies only these: many others may be waiting, and this runs after every event.
        let pending = pending[..watched.unwrap_or(pending.len())].to_vec();
        if pending.is_empty() {
            return Ok(());
        }
        self.journal.flush()?;
        let (mut count, mut aside, mut failed) = (0, Vec::new(), Ok(()));
        for batch in placement_batches(&pending) {
            failed = self.place_batch(&batch, &mut aside);
            if failed.is_err() {
                // The files of this batch that were written are written again later.
                break;
            }
            count += batch.len() as u32;
        }
        if count > 0 {
            self.journal
                .stage(Event::FilesPlaced(FilesPlaced { count, aside }))?;
        } else {
            // No event records these names; the replaced files are found again next time.
            for (path, name) in &aside {
                tracing::warn!("`{path}` was changed by somebody; kept as `{name}`");
            }
        }
        failed
    }

    /// Writes the files of a batch, and adds the path and new name of each foreign file that was in
    /// the way to `aside`.
    fn place_batch(
        &self,
        batch: &[&Placement],
        aside: &mut Vec<(String, String)>,
    ) -> Result<(), DriverError> {
        for placement in batch {
            match self.place_file(placement)? {
                PlacementOutcome::Written => {}
                PlacementOutcome::OtherKept(name) => aside.push((placement.path.clone(), name)),
                PlacementOutcome::NotGranted => tracing::warn!(
                    "`{}` is not put in its place: no action is granted to write there any more",
                    placement.path
                ),
                PlacementOutcome::InvalidName => tracing::warn!(
                    "`{}` is not put in its place: the file system there takes no such name",
                    placement.path
                ),
                PlacementOutcome::ContentMissing => tracing::warn!(
                    "`{}` is not put in its place: its bytes were not brought along when the team was moved",
                    placement.path
                ),
            }
        }
        Ok(())
    }

    fn place_file(&self, placement: &Placement) -> Result<PlacementOutcome, DriverError> {
        let store = self.journal.store_ref();
        let bytes = match &placement.content {
            PathContent::File { digest, .. } => store.blob(digest)?,
            PathContent::Absent | PathContent::Directory => None,
        };
        let known =
            |digest: &strata_core::record::id::Digest| matches!(store.blob(digest), Ok(Some(_)));
        Ok(self
            .services
            .directories
            .place(placement, bytes.as_deref(), known)?)
    }

    /// Returns whether a running attempt of a role that has no change of its own at a path could
    /// see what is there.
    fn is_visible_to_running(&self, path: &str) -> bool {
        let env = self.journal.env();
        let mut running = self.attempts.values();
        running.any(|attempt| {
            let own = env
                .uncommitted_changes(attempt.key().role)
                .any(|(_, change)| change.path == path);
            let plugin = attempt.plugin();
            !own && plugin.is_some_and(|plugin| {
                is_visible_in(self.services.directories.base(), &plugin.grants.dirs, path)
            })
        })
    }
}

/// Groups pending placements into batches, each in an order in which it can be carried out:
/// removals first, the contents of a directory before the directory. A new batch starts where a
/// path is repeated or out of order.
fn placement_batches(pending: &[Placement]) -> impl Iterator<Item = Vec<&Placement>> {
    pending.chunk_by(|a, b| a.path < b.path).map(|batch| {
        let (removals, others) = batch
            .iter()
            .partition::<Vec<_>, _>(|placement| placement.content == PathContent::Absent);
        removals.into_iter().rev().chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_a_directory_goes_before_it_and_all_that_goes_before_what_comes() {
        let check = |pending: &[&str], expected: &[&[&str]]| {
            let placement = |path: &&str| {
                let content = if path.starts_with('-') {
                    PathContent::Absent
                } else {
                    PathContent::Directory
                };
                Placement {
                    path: path.trim_start_matches('-').into(),
                    expected: PathContent::Absent,
                    content,
                }
            };
            let pending: Vec<Placement> = pending.iter().map(placement).collect();
            let rows: Vec<Vec<&str>> = placement_batches(&pending)
                .map(|batch| {
                    batch
                        .iter()
                        .map(|placement| placement.path.as_str())
                        .collect()
                })
                .collect();
            assert_eq!(rows, expected);
        };
        check(
            &["-d", "-d/a", "-d/a/b", "e"],
            &[&["d/a/b", "d/a", "d", "e"]],
        );
        check(&["d", "-d/x"], &[&["d/x", "d"]]);
        // A repeated path starts a new batch.
        check(&["d", "d/x", "-d", "-d/x"], &[&["d", "d/x"], &["d/x", "d"]]);
        check(&["-d/x", "-d"], &[&["d/x"], &["d"]]);
    }
}
