//! Files: what an attempt that succeeded did to them is recorded with its success, and put in its place after that.
//! How it saw them is decided here too.

use std::sync::Arc;

use strata_core::event::Event;
use strata_core::file::{Content, Placement};
use strata_core::id::RoleId;

use super::{Driver, DriverError};
use crate::gateway::Answer;
use crate::sandbox::{Placed, View, is_seen_from};

impl Driver {
    /// How an attempt of a role sees files.
    pub(super) fn view(&self, role: RoleId) -> Arc<View> {
        let base = self.equipment.directories.base().to_path_buf();
        let files = self
            .then
            .clone()
            .unwrap_or_else(|| self.journal.env().files_seen_by(role));
        Arc::new(View {
            base,
            files,
            own: self.equipment.directories.own().clone(),
        })
    }

    /// The bytes of a file that is kept.
    pub(super) fn file(&self, digest: &strata_core::id::Digest) -> Result<Answer, DriverError> {
        Ok(Answer::File(self.journal.records().blob(digest)?))
    }

    /// Puts files in their places: durable as they are, they get there sooner or later, and getting there twice does no
    /// harm. While an attempt of another role runs that could see it happen, they wait: it shall see the same whoever
    /// is faster.
    pub(super) fn place(&mut self) -> Result<(), DriverError> {
        let pending = &self.journal.env().files.pending;
        let watched = pending
            .iter()
            .position(|placement| self.is_watched(&placement.path));
        // Only of these: many others may wait for long, and this is looked at whenever something happens.
        let pending = pending[..watched.unwrap_or(pending.len())].to_vec();
        if pending.is_empty() {
            return Ok(());
        }
        self.journal.flush()?;
        let (mut count, mut aside, mut failed) = (0, Vec::new(), Ok(()));
        for row in in_rows(&pending) {
            failed = row.iter().try_for_each(|placement| {
                match self.put(placement)? {
                    Placed::There => {}
                    Placed::Aside(name) => aside.push((placement.path.clone(), name)),
                    Placed::NotGranted => tracing::warn!(
                        "`{}` is not put in its place: no action is granted to write there any more",
                        placement.path
                    ),
                    Placed::NoName => tracing::warn!(
                        "`{}` is not put in its place: the file system there takes no such name",
                        placement.path
                    ),
                    Placed::Missing => tracing::warn!(
                        "`{}` is not put in its place: its bytes were not brought along when the team was moved",
                        placement.path
                    ),
                }
                Ok(())
            });
            if failed.is_err() {
                // Those of this row that are in their places are put there once more.
                break;
            }
            count += row.len() as u32;
        }
        if count > 0 {
            self.journal.stage(Event::FilesPlaced { count, aside })?;
        } else {
            // No event will tell of these: the files in whose place they were are found there next time.
            aside.iter().for_each(|(path, name)| {
                tracing::warn!("`{path}` was changed by somebody; kept as `{name}`")
            });
        }
        failed
    }

    fn put(&self, placement: &Placement) -> Result<Placed, DriverError> {
        let store = self.journal.records();
        let bytes = match &placement.content {
            Content::File { digest, .. } => store.blob(digest)?,
            Content::Absent | Content::Directory => None,
        };
        let known = |digest: &strata_core::id::Digest| matches!(store.blob(digest), Ok(Some(_)));
        Ok(self
            .equipment
            .directories
            .place(placement, bytes.as_deref(), known)?)
    }

    /// Whether a running attempt could see what lies at a path, and not because its own role decided it.
    fn is_watched(&self, path: &str) -> bool {
        let env = self.journal.env();
        let mut running = self.attempts.values();
        running.any(|attempt| {
            let own = env
                .open_changes(attempt.role())
                .any(|(_, change)| change.path == path);
            let plugin = attempt.plugin();
            !own && plugin.is_some_and(|plugin| {
                is_seen_from(self.equipment.directories.base(), &plugin.grants.dirs, path)
            })
        })
    }
}

/// What is to be put in place, in an order in which it can be: of paths that were recorded in theirs, what is to be gone
/// goes first, and what lies in a directory before it. Paths that come again, or in another order, are a row of their own.
fn in_rows(pending: &[Placement]) -> impl Iterator<Item = Vec<&Placement>> {
    pending.chunk_by(|a, b| a.path < b.path).map(|row| {
        let (gone, there): (Vec<_>, Vec<_>) = row
            .iter()
            .partition(|placement| placement.content == Content::Absent);
        gone.into_iter().rev().chain(there).collect()
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
                    Content::Absent
                } else {
                    Content::Directory
                };
                Placement {
                    path: path.trim_start_matches('-').into(),
                    expected: Content::Absent,
                    content,
                }
            };
            let pending: Vec<Placement> = pending.iter().map(placement).collect();
            let rows: Vec<Vec<&str>> = in_rows(&pending)
                .map(|row| {
                    row.iter()
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
        // A path that comes again comes in its turn.
        check(&["d", "d/x", "-d", "-d/x"], &[&["d", "d/x"], &["d/x", "d"]]);
        check(&["-d/x", "-d"], &[&["d/x"], &["d"]]);
    }
}
