//! Files: the changes of a successful attempt are recorded together with its success, and written
//! to their paths after that. This module also decides which file contents an attempt sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::event::{Event, FilesPlaced};
use strata_core::record::file::PathContent;
use strata_core::record::id::Digest;
use strata_core::record::work::ActivationKey;
use strata_core::state::environment::Environment;
use strata_core::state::environment::files::Placement;
use strata_sandbox::{Directories, FileView, PlacementOutcome, is_visible_in};
use strata_services::plugin::Plugin;
use strata_storage::Lease;

use super::attempts::Attempts;
use super::{DriverError, Journal};

/// The directories in which actions may write files.
pub struct ActionFiles {
    directories: Directories,
}

/// What became of files that were due.
struct PlacedFiles {
    /// Records the files that were placed; `None` if none was.
    event: Option<Event>,
    /// Fails if a file could not be placed. Those after it wait.
    result: Result<(), DriverError>,
}

impl ActionFiles {
    /// Creates the files of a run that uses these directories.
    pub fn new(directories: Directories) -> Self {
        Self { directories }
    }

    /// Returns how an attempt sees files if these contents differ from those on disk.
    pub fn view(&self, files: BTreeMap<String, PathContent>) -> Arc<FileView> {
        Arc::new(FileView {
            base: self.directories.base().to_path_buf(),
            files,
            hidden: self.directories.hidden_storage().clone(),
        })
    }

    /// Writes the files that are due to their paths and stages what came of it.
    pub(super) async fn place_due(
        &self,
        journal: &mut Journal,
        running: &Attempts,
    ) -> Result<(), DriverError> {
        if journal.env().files.pending.is_empty() {
            return Ok(());
        }
        let due = self.due(journal.env(), running.plugins());
        if due.is_empty() {
            return Ok(());
        }
        journal.flush().await?;
        let placed = self.place(&due, journal.store_ref());
        if let Some(event) = placed.event {
            journal.stage(event)?;
        }
        placed.result
    }

    /// Returns the recorded files that can be written to their paths now, in order. A file waits
    /// while another attempt is `running` that could see the change and is not meant to, so that what
    /// the attempt sees does not depend on timing.
    fn due<'a>(
        &self,
        env: &Environment,
        running: impl Iterator<Item = (ActivationKey, &'a Plugin)> + Clone,
    ) -> Vec<Placement> {
        let pending = &env.files.pending;
        let is_visible = |path: &str| {
            running.clone().any(|(activation, plugin)| {
                let mut own = env.visible_changes(activation);
                !own.any(|change| change.path == path)
                    && is_visible_in(self.directories.base(), &plugin.grants.dirs, path)
            })
        };
        let watched = pending
            .iter()
            .position(|placement| is_visible(&placement.path));
        // Copies only these: many others may be waiting, and this runs after every event.
        pending[..watched.unwrap_or(pending.len())].to_vec()
    }

    /// Writes files to their paths. They must be durable; then this can be repeated until it
    /// succeeds.
    fn place(&self, due: &[Placement], store: &dyn Lease) -> PlacedFiles {
        let (mut count, mut aside, mut result) = (0, Vec::new(), Ok(()));
        for batch in placement_batches(due) {
            result = self.place_batch(&batch, store, &mut aside);
            if result.is_err() {
                // The files of this batch that were written are written again later.
                break;
            }
            count += batch.len() as u32;
        }
        if count == 0 {
            // No event records these names; the replaced files are found again next time.
            for (path, name) in &aside {
                tracing::warn!("`{path}` was changed by somebody; kept as `{name}`");
            }
        }
        PlacedFiles {
            event: (count > 0).then_some(Event::FilesPlaced(FilesPlaced { count, aside })),
            result,
        }
    }

    /// Writes the files of a batch, and adds the path and new name of each foreign file that was in
    /// the way to `aside`.
    fn place_batch(
        &self,
        batch: &[&Placement],
        store: &dyn Lease,
        aside: &mut Vec<(String, String)>,
    ) -> Result<(), DriverError> {
        for placement in batch {
            match self.place_file(placement, store)? {
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

    fn place_file(
        &self,
        placement: &Placement,
        store: &dyn Lease,
    ) -> Result<PlacementOutcome, DriverError> {
        let bytes = match &placement.content {
            PathContent::File { digest, .. } => store.blob(digest)?,
            PathContent::Absent | PathContent::Directory => None,
        };
        let known = |digest: &Digest| matches!(store.blob(digest), Ok(Some(_)));
        Ok(self.directories.place(placement, bytes.as_deref(), known)?)
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
    use std::path::Path;

    use strata_core::record::id::RoleId;
    use strata_services::plugin::{Access, DirGrant};

    use super::*;
    use crate::tests::fixture::{ROLE, RunningTeam};

    #[test]
    fn a_file_waits_while_an_attempt_of_another_role_could_see_it() {
        let mut env = RunningTeam::start(ROLE).stepper.into_env();
        for path in ["a/1", "b/1", "a/2"] {
            env.files.pending.push(Placement {
                path: path.into(),
                expected: PathContent::Absent,
                content: PathContent::Directory,
            });
        }
        let files = ActionFiles::new(Directories::new(Path::new("/teams"), std::iter::empty()));
        let check = |granted: &[&str], expected: usize| {
            let mut plugin = Plugin::new("/teams/one.wasm");
            for dir in granted {
                plugin.grants.dirs.push(DirGrant {
                    host: Path::new("/teams").join(dir),
                    guest: format!("/{dir}"),
                    access: Access::Read,
                    max_bytes: None,
                });
            }
            let running = [(ActivationKey::of_mail(RoleId(0)), &plugin)];
            assert_eq!(files.due(&env, running.into_iter()).len(), expected);
        };
        check(&[], 3);
        check(&["c"], 3);
        check(&["b"], 1);
        check(&["b", "a"], 0);
    }

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
