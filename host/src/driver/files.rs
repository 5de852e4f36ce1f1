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
        let files = self.then.clone().unwrap_or_else(|| self.journal.env().files_seen_by(role));
        Arc::new(View { base, files })
    }

    /// The bytes of a file that is kept.
    pub(super) fn file(&self, digest: &strata_core::id::Digest) -> Result<Answer, DriverError> {
        Ok(Answer::File(self.journal.records().blob(digest)?))
    }

    /// Puts files in their places: durable as they are, they get there sooner or later, and getting there twice does no
    /// harm. While an attempt of another role runs that could see it happen, they wait: it shall see the same whoever
    /// is faster.
    pub(super) fn place(&mut self) -> Result<(), DriverError> {
        if self.journal.env().files.pending.is_empty() {
            return Ok(());
        }
        self.journal.flush()?;
        let pending = self.journal.env().files.pending.clone();
        let (mut count, mut aside, mut failed) = (0, Vec::new(), Ok(()));
        for placement in pending.iter().take_while(|placement| !self.is_watched(&placement.path)) {
            match self.put(placement) {
                Ok(Placed::There) => {}
                Ok(Placed::Aside(name)) => aside.push((placement.path.clone(), name)),
                Ok(Placed::NotGranted) => tracing::warn!(
                    "`{}` is not put in its place: no action is granted to write there any more",
                    placement.path
                ),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
            count += 1;
        }
        if count > 0 {
            self.journal.stage(Event::FilesPlaced { count, aside })?;
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
        Ok(self.equipment.directories.place(placement, bytes.as_deref(), known)?)
    }

    /// Whether a running attempt could see what lies at a path, and not because its own role decided it.
    fn is_watched(&self, path: &str) -> bool {
        let env = self.journal.env();
        let mut running = self.attempts.values();
        running.any(|attempt| {
            let own = env.open_changes(attempt.role()).any(|(_, change)| change.path == path);
            let plugin = attempt.plugin();
            !own && plugin
                .is_some_and(|plugin| is_seen_from(self.equipment.directories.base(), &plugin.grants.dirs, path))
        })
    }
}
