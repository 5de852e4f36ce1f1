//! `checkpoints`: lists the checkpoints of all lineages, oldest first.

use strata_host::launch::list_checkpoints as list;
use strata_host::public_event::rfc3339;
use strata_host::storage::CheckpointRow;

use super::edit_notices::warn_if_edited;
use super::{CommandFailure, Printer, SavedArgs};

pub(super) fn checkpoints(args: &SavedArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let (rows, current) = list(&args.path)?;
    warn_if_edited(&args.path, printer);
    if args.json {
        let rows: Vec<_> = rows.iter().map(checkpoint_json).collect();
        printer.print_json(&serde_json::Value::Array(rows).to_string());
        return Ok(0);
    }
    let newest = rows
        .iter()
        .rev()
        .find(|row| row.lineage == current)
        .map(|row| &row.id);
    let width = rows
        .iter()
        .map(|row| row.id.0.len())
        .max()
        .unwrap_or_default()
        .max(12);
    printer.print_line(&format!(
        "  {:<width$} {:>6}  {:<width$} {:<10} {:<14} time",
        "id", "step", "parent", "source", "status"
    ));
    for row in &rows {
        // The checkpoint that a resume continues from by default is marked.
        let mark = if newest == Some(&row.id) { '*' } else { ' ' };
        let parent = row.parent.as_ref().map_or("-", |id| id.0.as_str());
        let time = row.time_ms.map_or_else(String::new, rfc3339);
        let (source, status) = (row.source.name(), row.status.name());
        let line = format!(
            "{mark} {:<width$} {:>6}  {parent:<width$} {source:<10} {status:<14} {time}",
            row.id.0, row.step
        );
        printer.print_line(line.trim_end());
    }
    Ok(0)
}

fn checkpoint_json(row: &CheckpointRow) -> serde_json::Value {
    serde_json::json!({
        "id": row.id.0, "step": row.step, "parent": row.parent.as_ref().map(|id| &id.0),
        "source": row.source.name(), "status": row.status.name(), "time": row.time_ms.map(rfc3339),
        "lineage": row.lineage,
    })
}
