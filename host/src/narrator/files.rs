//! What is told of files.

use serde_json::{Value, json};
use strata_core::event::Event;
use strata_core::file::{Content, FileChange};

use super::{Narrator, Told};

impl Narrator {
    pub(super) fn files(&self, event: &Event) -> Vec<Told> {
        match event {
            Event::FilesWritten { role, work, files } => {
                let mut fields = self.call(*role, *work);
                fields["files"] = files.iter().map(change).collect();
                vec![("files-written", fields)]
            }
            Event::FilesPlaced { aside, .. } => {
                let told = |(path, kept): &(String, String)| {
                    ("file-kept", json!({ "path": path, "kept": kept }))
                };
                aside.iter().map(told).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn change(change: &FileChange) -> Value {
    let path = &change.path;
    match &change.after {
        Content::Absent => json!({ "path": path, "change": "removed" }),
        Content::Directory => json!({ "path": path, "change": "made" }),
        Content::File { digest, bytes } => {
            json!({ "path": path, "change": "written", "bytes": bytes, "digest": digest.0 })
        }
    }
}
