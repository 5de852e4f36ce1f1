//! `checkpoints`: lists the checkpoints of all lineages, oldest first.

use serde_json::Value;
use strata_host::launch::list_checkpoints;
use strata_host::view::CheckpointView;

use super::edit_notices::warn_if_edited;
use super::sanitize::sanitize;
use super::{CommandFailure, Printer, SavedArgs};

pub(super) fn checkpoints(args: &SavedArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let (rows, current) = list_checkpoints(&args.path)?;
    let checkpoints = CheckpointView::list(&rows, &current);
    warn_if_edited(&args.path, printer);
    if args.json {
        printer.print_json_line(&checkpoints)?;
        return Ok(0);
    }
    let lines: Vec<Value> = checkpoints
        .iter()
        .filter_map(|checkpoint| serde_json::to_value(checkpoint).ok())
        .collect();
    show(&lines, printer);
    Ok(0)
}

/// Prints checkpoints as a table.
pub(super) fn show(checkpoints: &[Value], printer: &Printer) {
    for line in lines(checkpoints) {
        printer.print_line(&line);
    }
}

/// Returns the lines of a table of checkpoints.
fn lines(checkpoints: &[Value]) -> Vec<String> {
    let text = |checkpoint: &Value, name: &str| sanitize(checkpoint[name].as_str().unwrap_or("-"));
    let lengths = checkpoints.iter().map(|one| text(one, "id").len());
    let width = lengths.max().unwrap_or_default().max(12);
    let mut lines = vec![format!(
        "  {:<width$} {:>6}  {:<width$} {:<10} {:<14} time",
        "id", "step", "parent", "source", "status"
    )];
    for one in checkpoints {
        // The checkpoint that a resume continues from by default is marked.
        let mark = if one["newest"] == true { '*' } else { ' ' };
        let line = format!(
            "{mark} {:<width$} {:>6}  {:<width$} {:<10} {:<14} {}",
            text(one, "id"),
            // A JSON value is not padded.
            one["step"].to_string(),
            text(one, "parent"),
            text(one, "source"),
            text(one, "status"),
            one["time"].as_str().unwrap_or_default()
        );
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_checkpoints_are_below_their_heads() {
        let checkpoint = serde_json::json!({
            "id": "main-0", "step": 7, "parent": null, "source": "entry", "status": "done", "time": "now",
        });
        let [head, row] = &lines(&[checkpoint])[..] else {
            panic!("a head and a row");
        };
        let ends = |line: &str, cell: &str| line.find(cell).map(|start| start + cell.len());
        assert_eq!(ends(head, "step"), ends(row, "7"));
        for (name, cell) in [
            ("parent", "-   "),
            ("source", "entry"),
            ("status", "done"),
            ("time", "now"),
        ] {
            assert_eq!(head.find(name), row.find(cell), "{name}\n{head}\n{row}");
        }
    }
}
