//! Files that actions wrote: what is recorded of them, what the run decided should lie in their places, and how a role
//! sees them. Their bytes are the store's, the directories the sandbox's.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::event::Work;
use crate::id::{Digest, RoleId};

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A file with these bytes.
    File {
        /// Their SHA-256.
        digest: Digest,
        /// How many they are.
        bytes: u64,
    },
}

impl Content {
    /// The digest of a file's bytes.
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::File { digest, .. } => Some(digest),
            Self::Absent | Self::Directory => None,
        }
    }
}

/// What an action did at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where: relative to the directory of the team file if it lies below it, else absolute.
    pub path: String,
    /// What the action found there.
    pub before: Content,
    /// What it left there.
    pub after: Content,
}

impl FileChange {
    /// Whether it is one: what is there as it was, was made and removed again. A file that was written is another
    /// thing, with whatever bytes: who asks what a run wrote wants to hear of it.
    pub fn is_one(&self) -> bool {
        self.before != self.after || matches!(self.after, Content::File { .. })
    }
}

/// What the steps that were committed left at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// It.
    pub content: Content,
    /// Whose action left it.
    pub role: RoleId,
    /// Which of its actions.
    pub work: Work,
    /// In which step.
    pub step: u64,
}

/// Something that is to be put in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Where.
    pub path: String,
    /// What the run believes to lie there. Where it is something else, somebody changed it.
    pub expected: Content,
    /// What is to lie there.
    pub content: Content,
}

/// All that is known of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// What committed steps left, by path.
    pub kept: BTreeMap<String, Kept>,
    /// What the run decided last for each path, committed or not.
    pub decided: BTreeMap<String, Content>,
    /// What may not lie in its place yet, in order. Putting it there again does no harm.
    pub pending: Vec<Placement>,
}

impl Files {
    /// An action did this. It is put in its place even where the run decided the same before: somebody may have removed
    /// it since, and an action sees what it wrote itself.
    pub fn record(&mut self, change: &FileChange) {
        let expected = self
            .decided
            .get(&change.path)
            .unwrap_or(&change.before)
            .clone();
        self.settle(&change.path, expected, &change.after);
    }

    /// From now on this is to lie there. What lay there is told where the run decided nothing for that path before.
    pub fn decide(&mut self, path: &str, before: &Content, content: &Content) {
        let expected = self.decided.get(path).unwrap_or(before).clone();
        if expected != *content {
            self.settle(path, expected, content);
        } else {
            self.decided.insert(path.into(), content.clone());
        }
    }

    fn settle(&mut self, path: &str, expected: Content, content: &Content) {
        self.pending.push(Placement {
            path: path.into(),
            expected,
            content: content.clone(),
        });
        self.decided.insert(path.into(), content.clone());
    }

    /// What a committed action left.
    pub fn keep(&mut self, change: &FileChange, (role, work, step): (RoleId, Work, u64)) {
        self.decide(&change.path, &change.before, &change.after);
        let kept = Kept {
            content: change.after.clone(),
            role,
            work,
            step,
        };
        self.kept.insert(change.path.clone(), kept);
    }
}

impl Environment {
    /// What finished actions of an open activation did, oldest first.
    pub fn open_changes(&self, id: RoleId) -> impl Iterator<Item = (Work, &FileChange)> {
        let done = self
            .role(id)
            .activation
            .iter()
            .flat_map(|activation| &activation.done);
        done.flat_map(|done| done.tried.files.iter().map(|change| (done.work, change)))
    }

    /// The digests of all files that this state needs: those that committed steps left, and both sides of what is open.
    pub fn file_digests(&self) -> BTreeSet<Digest> {
        let kept = self.files.kept.values().map(|kept| &kept.content);
        let pending = self
            .files
            .pending
            .iter()
            .flat_map(|placement| [&placement.expected, &placement.content]);
        let open = self.activations().flat_map(|(id, _)| self.open_changes(id));
        let open = open.flat_map(|(_, change)| [&change.before, &change.after]);
        kept.chain(self.files.decided.values())
            .chain(pending)
            .chain(open)
            .filter_map(Content::digest)
            .cloned()
            .collect()
    }

    /// Where a role sees something else than what may lie there: its own finished actions' files, and for what others
    /// did in steps that are not committed yet, what was there before. So it sees the same whoever is faster.
    pub fn files_seen_by(&self, id: RoleId) -> BTreeMap<String, Content> {
        let mut seen = BTreeMap::new();
        if self.files.decided.is_empty() {
            // No file was ever changed, as in most teams, and this is asked before every call.
            return seen;
        }
        for (other, _) in self.activations().filter(|(other, _)| *other != id) {
            for (_, change) in self.open_changes(other) {
                let kept = self.files.kept.get(&change.path).map(|kept| &kept.content);
                seen.entry(change.path.clone())
                    .or_insert_with(|| kept.unwrap_or(&change.before).clone());
            }
        }
        seen.extend(
            self.open_changes(id)
                .map(|(_, change)| (change.path.clone(), change.after.clone())),
        );
        seen
    }
}
