//! `files`: lists the files that actions wrote, in a saved state, and copies them to a directory.

use strata_core::machine::stepper::Stepper;
use strata_core::record::file::PathContent;
use strata_core::record::id::RoleId;
use strata_core::record::work::Work;

use super::sanitize::sanitize_line;
use super::{CommandFailure, FilesArgs, note, print_json, print_line, warn};
use crate::launch::saved_files;
use crate::public_event::action_name;

pub(super) fn files(args: &FilesArgs) -> Result<u8, CommandFailure> {
    let saved = saved_files(&args.path, args.to.as_deref())?;
    if args.json {
        print_json(&files_json(&saved.stepper).to_string());
    } else {
        let lines: Vec<String> = describe_files(&saved.stepper).collect();
        if lines.is_empty() {
            note("no action has written a file");
        }
        for line in &lines {
            print_line(line.trim_start());
        }
    }
    for path in &saved.missing {
        let path = sanitize_line(path);
        warn(format_args!(
            "the bytes of `{path}` are not kept here; they may still lie in their place"
        ));
    }
    Ok(0)
}

/// A file or directory that an action wrote or removed.
struct FileRow<'a> {
    path: &'a str,
    content: &'a PathContent,
    /// `ROLE.ACTION`.
    written_by: String,
    /// The step that committed it; `None` if its activation is still open.
    step: Option<u64>,
}

/// Returns a line for each file that actions wrote or removed: first those of committed steps, then
/// those of open activations.
pub(super) fn describe_files(stepper: &Stepper) -> impl Iterator<Item = String> {
    let line = |row: FileRow<'_>| {
        let what = match row.content {
            PathContent::Absent => "removed".into(),
            PathContent::Directory => "directory".into(),
            PathContent::File { bytes, .. } => format!("{bytes} bytes"),
        };
        let step = match row.step {
            Some(step) => format!("in step {step}"),
            None => "in the open step".to_owned(),
        };
        format!(
            "  {:<32} {what:>12}  by {} {step}",
            row.path, row.written_by
        )
    };
    file_rows(stepper).into_iter().map(line)
}

fn file_rows(stepper: &Stepper) -> Vec<FileRow<'_>> {
    let env = stepper.env();
    let action = |role: RoleId, work: Work| {
        let role = stepper.team().role(role);
        format!("{}.{}", role.name, action_name(role, work))
    };
    let mut rows = Vec::new();
    for (path, kept) in &env.files.committed {
        rows.push(FileRow {
            path,
            content: &kept.content,
            written_by: action(kept.role, kept.work),
            step: Some(kept.step),
        });
    }
    for (id, _) in env.activations() {
        for (work, change) in env.uncommitted_changes(id) {
            rows.push(FileRow {
                path: &change.path,
                content: &change.after,
                written_by: action(id, work),
                step: None,
            });
        }
    }
    rows
}

fn files_json(stepper: &Stepper) -> serde_json::Value {
    let json = |row: FileRow<'_>| {
        let (digest, bytes) = match row.content {
            PathContent::File { digest, bytes } => (Some(&digest.0), Some(*bytes)),
            PathContent::Absent | PathContent::Directory => (None, None),
        };
        let kind = match row.content {
            PathContent::Absent => "removed",
            PathContent::Directory => "directory",
            PathContent::File { .. } => "file",
        };
        serde_json::json!({
            "path": row.path, "kind": kind, "bytes": bytes, "digest": digest, "by": row.written_by,
            "step": row.step,
        })
    };
    file_rows(stepper).into_iter().map(json).collect()
}
