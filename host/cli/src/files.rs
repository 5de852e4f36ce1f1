//! `files`: lists the files that actions wrote, in a saved state, and copies them to a directory.

use strata_host::launch::saved_files;
use strata_host::view::{FileChangeKind, FileChangeView};

use super::sanitize::sanitize_line;
use super::{CommandFailure, FilesArgs, Printer};

pub(super) fn files(args: &FilesArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let saved = saved_files(&args.path, args.to.as_deref())?;
    let changes = FileChangeView::all(&saved.stepper);
    if args.json {
        // Only maps with keys that are not strings cannot be serialised, and there are none.
        let document = serde_json::to_value(&changes).unwrap_or_default();
        printer.print_json(&document.to_string());
    } else {
        show(&changes, printer);
    }
    for path in &saved.missing {
        let path = sanitize_line(path);
        printer.warn(format_args!(
            "the bytes of `{path}` are not kept here; they may still lie in their place"
        ));
    }
    Ok(0)
}

/// Shows the files that actions wrote or removed.
pub(super) fn show(changes: &[FileChangeView], printer: &Printer) {
    let lines = describe_files(changes);
    if lines.is_empty() {
        printer.note("no action has written a file");
    }
    for line in &lines {
        printer.print_line(line.trim_start());
    }
}

/// Returns a line for each file that actions wrote or removed.
pub(super) fn describe_files(changes: &[FileChangeView]) -> Vec<String> {
    changes.iter().map(describe_file).collect()
}

fn describe_file(change: &FileChangeView) -> String {
    let what = match change.kind {
        FileChangeKind::Removed => "removed".into(),
        FileChangeKind::Directory => "directory".into(),
        FileChangeKind::File => format!("{} bytes", change.bytes.unwrap_or_default()),
    };
    let step = match change.step {
        Some(step) => format!("in step {step}"),
        None => "in the open step".to_owned(),
    };
    format!("  {:<32} {what:>12}  by {} {step}", change.path, change.by)
}
