//! Changes that actions made to files. Which content the run intends at each path is in
//! `environment::files`, the bytes are kept by the store, the directories belong to the sandbox.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::record::id::Digest;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathContent {
    /// Nothing.
    Absent,
    /// A directory.
    Directory,
    /// A file.
    File {
        /// The SHA-256 of its bytes.
        digest: Digest,
        /// Its size in bytes.
        bytes: u64,
    },
}

impl PathContent {
    /// Returns the digest of the bytes of a file.
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::File { digest, .. } => Some(digest),
            Self::Absent | Self::Directory => None,
        }
    }
}

/// A change that an action made at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The path: relative to the directory of the team file if it lies below it, otherwise
    /// absolute.
    pub path: String,
    /// What the action found there.
    pub before: PathContent,
    /// What the action left there.
    pub after: PathContent,
}

impl FileChange {
    /// Returns whether the change has to be recorded. A path that is as it was before has not
    /// changed, e.g. a file that was made and removed again. A file that was written always counts,
    /// even with the bytes it had before, because the record answers what a run wrote.
    pub fn is_recorded(&self) -> bool {
        self.before != self.after || matches!(self.after, PathContent::File { .. })
    }
}
