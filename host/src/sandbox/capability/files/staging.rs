//! Moving an attempt's view of files onto staged directories, and back: for guests that use WASI, before and after they
//! run. What a staged directory is lies in `stage`.

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
    /// Lets a guest that uses WASI work in copies of the directories that it may write, or sees otherwise than they are.
    pub(in crate::sandbox) async fn stage(&mut self) -> Result<(), FilesFault> {
        let mut wanted = Vec::new();
        for Granted { grant, tree, root } in &self.grants {
            let below = self.view.files.iter().filter_map(|(path, content)| {
                let inside = tree.inside(path).filter(|inside| !inside.is_empty())?;
                Some((PathBuf::from(&*inside), content))
            });
            let below: Vec<_> = below.collect();
            // Before their bytes are in memory.
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
                    // Its bytes were not brought along when the team was moved.
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
        // Where this future is dropped, copying ends.
        let waiting = Arc::new(());
        let until = Arc::downgrade(&waiting);
        let made = tokio::task::spawn_blocking(move || Stage::make(wanted, until)).await;
        drop(waiting);
        let stage =
            made.map_err(|error| FilesFault::temporary(format!("cannot stage files: {error}")))??;
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

    /// The granted directories, where they are now.
    pub(in crate::sandbox) fn dirs(&self) -> Vec<DirGrant> {
        self.grants
            .iter()
            .map(|granted| granted.grant.clone())
            .collect()
    }

    /// Where it is noted what the guest has open.
    pub(in crate::sandbox) fn opened(&self) -> Opened {
        self.stage.as_ref().map(Stage::opened).unwrap_or_default()
    }

    /// Waits until the guest has written more than it may, whatever it writes with; then says so.
    pub(in crate::sandbox) fn overflow(&self) -> impl Future<Output = FilesFault> + Send + 'static {
        let caps = self.stage.as_ref().map(Stage::caps);
        async move {
            match caps {
                Some(caps) => cap::overflow(caps).await,
                None => std::future::pending().await,
            }
        }
    }

    /// What the attempt did, by path, and the bytes that belong to it; or why that cannot be kept.
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

    /// Removes what was staged and not taken. What a guest left there may take long, so it is done where it holds up
    /// nobody.
    pub(in crate::sandbox) async fn let_go(&mut self) {
        if let Some(stage) = self.stage.take() {
            // Nothing in it can fail, and a run that is being stopped needs no answer.
            let _ = tokio::task::spawn_blocking(move || drop(stage)).await;
        }
    }
}
