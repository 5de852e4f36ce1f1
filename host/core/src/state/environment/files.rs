//! Files that actions wrote: the content that committed steps left and that the run intends at each
//! path, and how a role sees them. The bytes of files are kept by the store, the directories belong
//! to the sandbox.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::record::file::{FileChange, PathContent};
use crate::record::id::RoleId;
use crate::record::work::Work;

/// What committed steps left at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedFile {
    /// The content.
    pub content: PathContent,
    /// The role whose action left it.
    pub role: RoleId,
    /// The call that left it.
    pub work: Work,
    /// The step of that call.
    pub step: u64,
}

/// Content that is to be written to its final path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The path.
    pub path: String,
    /// What the run believes to be there. If something else is there, somebody changed it.
    pub expected: PathContent,
    /// What is to be there.
    pub content: PathContent,
}

/// Everything that is recorded about files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecords {
    /// What committed steps left, by path.
    pub committed: BTreeMap<String, CommittedFile>,
    /// What the run last intended to be at each path, including what is not committed yet.
    pub intended: BTreeMap<String, PathContent>,
    /// Placements that may not have been carried out yet, in order. Repeating one does no harm.
    pub pending: Vec<Placement>,
}

impl FileRecords {
    /// Records a change made by an action and schedules its placement. It is placed even if the run
    /// intended the same before: somebody may have removed the file since, and an action sees what
    /// it wrote itself.
    pub fn record_change(&mut self, change: &FileChange) {
        let expected = self
            .intended
            .get(&change.path)
            .unwrap_or(&change.before)
            .clone();
        self.schedule_placement(&change.path, expected, &change.after);
    }

    /// Sets what is to be at a path and schedules a placement if that is new. `before` is what was
    /// found there; it is used if the run intended nothing for the path yet.
    pub fn set_intended(&mut self, path: &str, before: &PathContent, content: &PathContent) {
        let expected = self.intended.get(path).unwrap_or(before).clone();
        if expected != *content {
            self.schedule_placement(path, expected, content);
        } else {
            self.intended.insert(path.into(), content.clone());
        }
    }

    fn schedule_placement(&mut self, path: &str, expected: PathContent, content: &PathContent) {
        self.pending.push(Placement {
            path: path.into(),
            expected,
            content: content.clone(),
        });
        self.intended.insert(path.into(), content.clone());
    }

    /// Records a change as committed.
    pub fn commit_change(&mut self, change: &FileChange, role: RoleId, work: Work, step: u64) {
        self.set_intended(&change.path, &change.before, &change.after);
        let file = CommittedFile {
            content: change.after.clone(),
            role,
            work,
            step,
        };
        self.committed.insert(change.path.clone(), file);
    }
}
