//! The changes of files in public events.

use schemars::JsonSchema;
use serde::Serialize;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WrittenFile {
    /// the path, relative to the granted directory
    pub path: String,
    /// what happened to it
    #[serde(flatten)]
    pub change: WrittenContent,
}

/// What happened to a file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum WrittenContent {
    /// The file or directory was removed.
    Removed,
    /// A directory was made.
    Made,
    /// The file was written.
    Written {
        /// its size in bytes
        bytes: u64,
        /// the SHA-256 of its content
        digest: String,
    },
}
