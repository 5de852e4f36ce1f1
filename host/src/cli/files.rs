//! `files`: lists the files that actions wrote, in a saved state, and copies them to a directory.

use strata_core::event::Work;
use strata_core::file::Content;
use strata_core::id::RoleId;
use strata_core::stepper::Stepper;

use super::plain::one_line;
use super::{Failure, FilesArgs, note, show_json, show_line, warn};
use crate::launch::files as saved_files;
use crate::public_event::action_name;

pub(super) fn files(args: &FilesArgs) -> Result<u8, Failure> {
    let saved = saved_files(&args.path, args.to.as_deref())?;
    if args.json {
        show_json(&json(&saved.stepper).to_string());
    } else {
        let lines: Vec<String> = listing(&saved.stepper).collect();
        if lines.is_empty() {
            note("no action has written a file");
        }
        for line in &lines {
            show_line(line.trim_start());
        }
    }
    for path in &saved.missing {
        let path = one_line(path);
        warn(format_args!(
            "the bytes of `{path}` are not kept here; they may still lie in their place"
        ));
    }
    Ok(0)
}

/// Returns a line for each file that actions wrote or removed: first those of committed steps, then
/// those of open activations.
pub(super) fn listing(stepper: &Stepper) -> impl Iterator<Item = String> {
    let line = move |(path, content, by, step): Row<'_>| {
        let what = match content {
            Content::Absent => "removed".into(),
            Content::Directory => "directory".into(),
            Content::File { bytes, .. } => format!("{bytes} bytes"),
        };
        let step = step.map_or_else(
            || "in the open step".to_owned(),
            |step| format!("in step {step}"),
        );
        format!("  {path:<32} {what:>12}  by {by} {step}")
    };
    rows(stepper).into_iter().map(line)
}

/// A path, its content, the action that wrote it, and the step that committed it.
type Row<'a> = (&'a str, &'a Content, String, Option<u64>);

fn rows(stepper: &Stepper) -> Vec<Row<'_>> {
    let env = stepper.env();
    let by = |role: RoleId, work: Work| {
        let role = stepper.team().role(role);
        format!("{}.{}", role.name, action_name(role, work))
    };
    let kept = env.files.kept.iter();
    let mut rows: Vec<Row<'_>> = kept
        .map(|(path, kept)| {
            (
                path.as_str(),
                &kept.content,
                by(kept.role, kept.work),
                Some(kept.step),
            )
        })
        .collect();
    for (id, _) in env.activations() {
        let open = env.open_changes(id);
        rows.extend(
            open.map(|(work, change)| (change.path.as_str(), &change.after, by(id, work), None)),
        );
    }
    rows
}

fn json(stepper: &Stepper) -> serde_json::Value {
    let row = |(path, content, by, step): Row<'_>| {
        let (digest, bytes) = match content {
            Content::File { digest, bytes } => (Some(&digest.0), Some(*bytes)),
            Content::Absent | Content::Directory => (None, None),
        };
        let kind = match content {
            Content::Absent => "removed",
            Content::Directory => "directory",
            Content::File { .. } => "file",
        };
        serde_json::json!({ "path": path, "kind": kind, "bytes": bytes, "digest": digest, "by": by, "step": step })
    };
    rows(stepper).into_iter().map(row).collect()
}
