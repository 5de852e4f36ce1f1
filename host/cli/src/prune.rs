//! `prune`: removes old checkpoints and what only they needed.

use strata_host::launch::{PruneResult, prune_by as carry_out};
use strata_host::operate::RunDeed;
use strata_host::storage::StorageLocation;

use super::bulk::{BulkTask, Outcome};
use super::{CommandFailure, Printer, PruneArgs, pluralize};

pub(super) fn prune(args: &PruneArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let selection = &args.selection;
    if let ([only], false, false) = (
        &selection.places[..],
        selection.is_many(),
        selection.dry_run,
    ) {
        return prune_one(only, args, printer);
    }
    let task = BulkTask {
        selection,
        deed: RunDeed::Prune,
        result: "pruned",
    };
    let by = selection.author();
    task.carry_out(printer, |location| {
        let result = carry_out(location, args.keep, Some(&by))?;
        let details = describe(&result).as_object().cloned();
        Ok(Outcome {
            details: details.unwrap_or_default(),
            ..Outcome::default()
        })
    })
}

fn describe(result: &PruneResult) -> serde_json::Value {
    let pruned = result.pruned;
    serde_json::json!({
        "keep": result.keep, "checkpoints": pruned.checkpoints, "events": pruned.events, "bytes": pruned.bytes,
    })
}

fn prune_one(
    location: &StorageLocation,
    args: &PruneArgs,
    printer: &Printer,
) -> Result<u8, CommandFailure> {
    let result = carry_out(location, args.keep, Some(&args.selection.author()))?;
    show(&result, args.selection.json, printer);
    Ok(0)
}

/// Shows what the pruning of a run freed.
pub(super) fn show(result: &PruneResult, json: bool, printer: &Printer) {
    let pruned = result.pruned;
    if json {
        printer.print_json(&describe(result).to_string());
        return;
    }
    let (checkpoints, events) = (
        pluralize(pruned.checkpoints, "checkpoint"),
        pluralize(pruned.events, "event"),
    );
    let freed = match (pruned.events, pruned.bytes) {
        (0, 0) => String::new(),
        // If few pages are freed, the file does not become smaller.
        (_, 0) => ", too little to make the file smaller".into(),
        (_, bytes) => format!(", {} freed", format_size(bytes)),
    };
    printer.note(format_args!(
        "pruned {checkpoints} and {events}{freed}; the newest {} of each lineage can still be resumed from",
        result.keep
    ));
}

fn format_size(bytes: u64) -> String {
    match bytes {
        0..1024 => pluralize(bytes, "byte"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
