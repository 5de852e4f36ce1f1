//! `fork`: starts another lineage at a checkpoint.

use serde_json::json;
use strata_core::record::id::CheckpointId;
use strata_host::launch::{ForkRequest, LaunchError, Pending, fork as make};
use strata_host::storage::{StorageLocation, StoreError};

use super::edit_notices::warn_if_edited;
use super::{CommandFailure, ForkArgs, Printer, shell_path, shell_word};

pub(super) fn fork(args: &ForkArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    warn_if_edited(&args.path, printer);
    let result = make(&ForkRequest {
        storage: args.path.clone(),
        at: CheckpointId(args.at.clone()),
        edits: args.set.clone(),
        to: args.to.as_ref().map(StorageLocation::from),
        queued: None,
    });
    let fork = result.map_err(|error| match error {
        LaunchError::Store(error @ StoreError::NoCheckpoint { .. }) => {
            let path = shell_path(args.path.path());
            CommandFailure::usage(format!("{error}:\n  strata-host checkpoints {path}"))
        }
        error => error.into(),
    })?;
    if args.json {
        let document = json!({
            "checkpoint": fork.checkpoint.0, "lineage": fork.lineage, "parent": fork.parent.0,
            "step": fork.step, "path": fork.storage.path(),
        });
        printer.print_json(&document.to_string());
    } else {
        printer.print(&fork.checkpoint.0);
    }
    for Pending { action, place } in &fork.pending {
        printer.warn(format_args!(
            "`{action}` had finished in the open step and writes `{place}` too, which takes effect on top of the value \
             set here once that step is committed; to have the value last, begin at a checkpoint before the step"
        ));
    }
    let path = shell_path(fork.storage.path());
    let on = match &args.to {
        Some(_) => format!("strata-host run --recover_path {path}"),
        None => format!(
            "strata-host run --recover_path {path} --checkpoint {}",
            shell_word(&fork.checkpoint.0)
        ),
    };
    printer.note(format_args!(
        "lineage `{}` begins at `{}`; resume it with:\n  {on}",
        fork.lineage, fork.parent
    ));
    Ok(0)
}
