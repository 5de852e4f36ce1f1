//! The files that actions wrote or removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strata_core::machine::stepper::Stepper;
use strata_core::record::file::PathContent;
use strata_core::record::id::RoleId;
use strata_core::record::work::Work;

use strata_driver::public_event::action_name;

/// A file or directory that an action wrote or removed. Serialised, it is an entry of
/// `files --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileChangeView {
    /// Its path.
    pub path: String,
    /// What is there now.
    pub kind: FileChangeKind,
    /// The size of a file in bytes.
    pub bytes: Option<u64>,
    /// The SHA-256 of the bytes of a file.
    pub digest: Option<String>,
    /// The action that wrote or removed it: `ROLE.ACTION`.
    pub by: String,
    /// The step that committed the change; `None` if the activation is still open.
    pub step: Option<u64>,
}

/// What an action left under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileChangeKind {
    /// Nothing: it was removed.
    Removed,
    /// A directory.
    Directory,
    /// A file.
    File,
}

impl FileChangeView {
    /// Returns what actions wrote or removed: first what committed steps did, then what open
    /// activations did.
    pub fn all(stepper: &Stepper) -> Vec<Self> {
        let env = stepper.env();
        let action = |role: RoleId, work: Work| {
            let role = stepper.team().role(role);
            format!("{}.{}", role.name, action_name(role, work))
        };
        let mut changes = Vec::new();
        for (path, file) in &env.files.committed {
            let by = action(file.role, file.work);
            changes.push(Self::new(path, &file.content, by, Some(file.step)));
        }
        for (key, activation) in env.activations() {
            for (work, change) in activation.file_changes() {
                let by = action(key.role, work);
                changes.push(Self::new(&change.path, &change.after, by, None));
            }
        }
        changes
    }

    fn new(path: &str, content: &PathContent, by: String, step: Option<u64>) -> Self {
        let (kind, bytes, digest) = match content {
            PathContent::Absent => (FileChangeKind::Removed, None, None),
            PathContent::Directory => (FileChangeKind::Directory, None, None),
            PathContent::File { digest, bytes } => {
                (FileChangeKind::File, Some(*bytes), Some(digest.0.clone()))
            }
        };
        Self {
            path: path.to_owned(),
            kind,
            bytes,
            digest,
            by,
            step,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_serialised_as_files_prints_it() {
        let check = |content: &PathContent, expected: serde_json::Value| {
            let change = FileChangeView::new("out/a.txt", content, "A.One".into(), Some(2));
            assert_eq!(serde_json::to_value(change).expect("JSON"), expected);
        };
        check(
            &PathContent::Absent,
            json!({
                "path": "out/a.txt", "kind": "removed", "bytes": null, "digest": null, "by": "A.One",
                "step": 2,
            }),
        );
        check(
            &PathContent::File {
                digest: "ab".into(),
                bytes: 3,
            },
            json!({
                "path": "out/a.txt", "kind": "file", "bytes": 3, "digest": "ab", "by": "A.One", "step": 2,
            }),
        );
    }
}
