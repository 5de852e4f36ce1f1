//! `fork`: starts another lineage at a checkpoint.

use serde_json::json;
use strata_core::record::id::CheckpointId;

use super::edit_notices::warn_if_edited;
use super::terminal::warn;
use super::{CommandFailure, ForkArgs, note, print, print_json, shell_path, shell_word};
use crate::launch::{ForkRequest, LaunchError, Pending, fork as make};
use crate::store::StoreError;

pub(super) fn fork(args: &ForkArgs) -> Result<u8, CommandFailure> {
    warn_if_edited(&args.path);
    let made = make(&ForkRequest {
        path: args.path.clone(),
        at: CheckpointId(args.at.clone()),
        set: args.set.clone(),
        to: args.to.clone(),
    });
    let made = made.map_err(|error| match error {
        LaunchError::Store(error @ StoreError::NoCheckpoint { .. }) => {
            let path = shell_path(&args.path);
            CommandFailure::usage(format!("{error}:\n  strata-host checkpoints {path}"))
        }
        error => error.into(),
    })?;
    if args.json {
        let told = json!({
            "checkpoint": made.checkpoint.0, "lineage": made.lineage, "parent": made.parent.0,
            "step": made.step, "path": made.path,
        });
        print_json(&told.to_string());
    } else {
        print(&made.checkpoint.0);
    }
    for Pending { action, place } in &made.pending {
        warn(format_args!(
            "`{action}` had finished in the open step and writes `{place}` too, which takes effect on top of the value \
             set here once that step is committed; to have the value last, begin at a checkpoint before the step"
        ));
    }
    let path = shell_path(&made.path);
    let on = match &args.to {
        Some(_) => format!("strata-host run --recover_path {path}"),
        None => format!(
            "strata-host run --recover_path {path} --checkpoint {}",
            shell_word(&made.checkpoint.0)
        ),
    };
    note(format_args!(
        "lineage `{}` begins at `{}`; resume it with:\n  {on}",
        made.lineage, made.parent
    ));
    Ok(0)
}
