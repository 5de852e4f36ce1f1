//! Switches an attempt's view of files to staged directories and back, before and after a guest
//! that uses WASI runs. `stage` implements staged directories.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use strata_core::file::{Content, FileChange};

use super::stage::{FilesFault, STAGED_BYTES, Stage, Wanted, too_much};
use super::{Files, Granted, Opened, cap, size};
use crate::blob::Blobs;
use crate::plugin::{Access, DirGrant};
use crate::sandbox::View;

impl Files {
    /// Stages the directories that the guest may write, or in which it must see other contents than
    /// those on disk.
    pub(in crate::sandbox) async fn stage(&mut self) -> Result<(), FilesFault> {
        let mut wanted = Vec::new();
        for Granted { grant, tree, root } in &self.grants {
            let below = self.view.files.iter().filter_map(|(path, content)| {
                let inside = tree.inside(path).filter(|inside| !inside.is_empty())?;
                Some((PathBuf::from(&*inside), content))
            });
            let below: Vec<_> = below.collect();
            // Checked before the contents are loaded into memory.
            let bytes = below
                .iter()
                .map(|(_, content)| size(content))
                .fold(0, u64::saturating_add);
            if bytes > STAGED_BYTES {
                return Err(FilesFault::staging(&grant.guest, &too_much()));
            }
            let mut instead = Vec::new();
            for (inside, content) in below {
                match (self.blob(content).await, content) {
                    // The content was not copied when the team was moved.
                    (None, Content::File { .. }) => {}
                    (bytes, content) => instead.push((inside, content.clone(), bytes)),
                }
            }
            if grant.access == Access::Write || !instead.is_empty() {
                let (tree, guest, root) = (Arc::clone(tree), grant.guest.clone(), Arc::clone(root));
                wanted.push(Wanted {
                    tree,
                    guest,
                    root,
                    max_bytes: grant.max_bytes,
                    instead,
                });
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // Dropping this future ends the copying.
        let waiting = Arc::new(());
        let until = Arc::downgrade(&waiting);
        let staged = tokio::task::spawn_blocking(move || Stage::make(wanted, until)).await;
        drop(waiting);
        let stage = staged
            .map_err(|error| FilesFault::temporary(format!("cannot stage files: {error}")))??;
        for granted in &mut self.grants {
            if let Some(copy) = stage.copy_of(&granted.tree) {
                granted.grant.host = copy.host().into();
                granted.root = copy;
            }
        }
        self.view = Arc::new(View {
            files: BTreeMap::new(),
            ..View::clone(&self.view)
        });
        self.stage = Some(stage);
        Ok(())
    }

    /// Returns the granted directories with their current paths.
    pub(in crate::sandbox) fn dirs(&self) -> Vec<DirGrant> {
        self.grants
            .iter()
            .map(|granted| granted.grant.clone())
            .collect()
    }

    /// Returns the list of files that the guest has open.
    pub(in crate::sandbox) fn opened(&self) -> Opened {
        self.stage.as_ref().map(Stage::opened).unwrap_or_default()
    }

    /// Waits until the guest has written more than a limit allows, and returns the fault.
    pub(in crate::sandbox) fn overflow(&self) -> impl Future<Output = FilesFault> + Send + 'static {
        let caps = self.stage.as_ref().map(Stage::caps);
        async move {
            match caps {
                Some(caps) => cap::overflow(caps).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the changes of the attempt, by path, and the contents that they refer to. Fails if
    /// they cannot be stored.
    pub(in crate::sandbox) async fn finish(
        &mut self,
    ) -> Result<(Vec<FileChange>, Blobs), FilesFault> {
        match self.stage.take() {
            None => Ok(self.take()),
            Some(stage) => {
                let changes = tokio::task::spawn_blocking(move || stage.changes()).await;
                changes.map_err(|error| {
                    FilesFault::temporary(format!("cannot look at staged files: {error}"))
                })?
            }
        }
    }

    /// Removes the staged directories. That may take long, so it runs on a blocking thread.
    pub(in crate::sandbox) async fn let_go(&mut self) {
        if let Some(stage) = self.stage.take() {
            // Dropping cannot fail. The only other error occurs when the run is being stopped.
            let _ = tokio::task::spawn_blocking(move || drop(stage)).await;
        }
    }
}
