//! `checkpoints`: lists the checkpoints of all lineages, oldest first.

use strata_host::launch::list_checkpoints;
use strata_host::view::CheckpointView;

use super::edit_notices::warn_if_edited;
use super::{CommandFailure, Printer, SavedArgs};

pub(super) fn checkpoints(args: &SavedArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let (rows, current) = list_checkpoints(&args.path)?;
    let checkpoints = CheckpointView::list(&rows, &current);
    warn_if_edited(&args.path, printer);
    if args.json {
        printer.print_json_line(&checkpoints)?;
        return Ok(0);
    }
    let lengths = checkpoints.iter().map(|checkpoint| checkpoint.id.0.len());
    let width = lengths.max().unwrap_or_default().max(12);
    printer.print_line(&format!(
        "  {:<width$} {:>6}  {:<width$} {:<10} {:<14} time",
        "id", "step", "parent", "source", "status"
    ));
    for checkpoint in &checkpoints {
        // The checkpoint that a resume continues from by default is marked.
        let mark = if checkpoint.newest { '*' } else { ' ' };
        let parent = checkpoint.parent.as_ref().map_or("-", |id| id.0.as_str());
        let (source, status) = (checkpoint.source.name(), checkpoint.status.name());
        let line = format!(
            "{mark} {:<width$} {:>6}  {parent:<width$} {source:<10} {status:<14} {}",
            checkpoint.id.0,
            checkpoint.step,
            checkpoint.time.as_deref().unwrap_or_default()
        );
        printer.print_line(line.trim_end());
    }
    Ok(0)
}
