//! Switches an attempt's view of files to staged directories and back, before and after a guest
//! that uses WASI runs. `stage` implements staged directories.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use strata_base::files::blob::Blobs;
use strata_core::record::file::{FileChange, PathContent};
use strata_services::plugin::{Access, DirGrant};

use super::files_fault::FilesFault;
use super::stage::{MAX_STAGED_BYTES, StageRequest, StagedDirectories, too_large_error};
use super::{AttemptFiles, GrantedDirectory, OpenFiles, content_bytes, size_limit};
use crate::FileView;

impl AttemptFiles {
    /// Stages the directories that the guest may write, or in which it must see other contents than
    /// those on disk.
    pub(crate) async fn stage(&mut self) -> Result<(), FilesFault> {
        let mut wanted = Vec::new();
        for GrantedDirectory { grant, tree, root } in &self.grants {
            let below = self.view.files.iter().filter_map(|(path, content)| {
                let inside = tree.path_inside(path).filter(|inside| !inside.is_empty())?;
                Some((PathBuf::from(&*inside), content))
            });
            let below: Vec<_> = below.collect();
            // Checked before the contents are loaded into memory.
            let bytes = below
                .iter()
                .map(|(_, content)| content_bytes(content))
                .fold(0, u64::saturating_add);
            if bytes > MAX_STAGED_BYTES {
                return Err(FilesFault::staging(&grant.guest, &too_large_error()));
            }
            let mut instead = Vec::new();
            for (inside, content) in below {
                match (self.load_blob(content).await, content) {
                    // The content was not copied when the team was moved.
                    (None, PathContent::File { .. }) => {}
                    (bytes, content) => instead.push((inside, content.clone(), bytes)),
                }
            }
            if grant.access == Access::Write || !instead.is_empty() {
                let (tree, guest, root) = (Arc::clone(tree), grant.guest.clone(), Arc::clone(root));
                wanted.push(StageRequest {
                    tree,
                    guest,
                    root,
                    max_bytes: grant.max_bytes,
                    overrides: instead,
                });
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // Dropping this future ends the copying.
        let waiting = Arc::new(());
        let until = Arc::downgrade(&waiting);
        let staged =
            tokio::task::spawn_blocking(move || StagedDirectories::create(wanted, until)).await;
        drop(waiting);
        let stage = staged
            .map_err(|error| FilesFault::temporary(format!("cannot stage files: {error}")))??;
        for granted in &mut self.grants {
            if let Some(copy) = stage.copy_of(&granted.tree) {
                granted.grant.host = copy.host().into();
                granted.root = copy;
            }
        }
        self.view = Arc::new(FileView {
            files: BTreeMap::new(),
            ..FileView::clone(&self.view)
        });
        self.staged = Some(stage);
        Ok(())
    }

    /// Returns the granted directories with their current paths.
    pub(crate) fn granted_dirs(&self) -> Vec<DirGrant> {
        self.grants
            .iter()
            .map(|granted| granted.grant.clone())
            .collect()
    }

    /// Returns the list of files that the guest has open.
    pub(crate) fn open_files(&self) -> OpenFiles {
        self.staged
            .as_ref()
            .map(StagedDirectories::open_files)
            .unwrap_or_default()
    }

    /// Waits until the guest has written more than a limit allows, and returns the fault.
    pub(crate) fn wait_for_overflow(&self) -> impl Future<Output = FilesFault> + Send + 'static {
        let caps = self.staged.as_ref().map(StagedDirectories::size_limits);
        async move {
            match caps {
                Some(caps) => size_limit::wait_for_overflow(caps).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns the changes of the attempt, by path, and the contents that they refer to. Fails if
    /// they cannot be stored.
    pub(crate) async fn take_all_changes(
        &mut self,
    ) -> Result<(Vec<FileChange>, Blobs), FilesFault> {
        match self.staged.take() {
            None => Ok(self.take_changes()),
            Some(stage) => {
                let changes = tokio::task::spawn_blocking(move || stage.changes()).await;
                changes.map_err(|error| {
                    FilesFault::temporary(format!("cannot look at staged files: {error}"))
                })?
            }
        }
    }

    /// Removes the staged directories. That may take long, so it runs on a blocking thread.
    pub(crate) async fn discard_staged(&mut self) {
        if let Some(stage) = self.staged.take() {
            // Dropping cannot fail. The only other error occurs when the run is being stopped.
            let _ = tokio::task::spawn_blocking(move || drop(stage)).await;
        }
    }
}
