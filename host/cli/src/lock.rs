//! `lock`: records the digests of a team's components, so that other components are refused.

use strata_host::launch;
use strata_host::manifest::operator::in_force;

use super::{CommandFailure, LockArgs, Printer, pluralize};
use crate::progress::ProgressDisplay;

pub(super) fn lock(args: &LockArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut progress = ProgressDisplay::start(printer);
    let written = launch::lock_components(
        &args.team,
        &in_force(args.policy.as_deref())?,
        &mut |line| progress.set_activity(line),
    );
    drop(progress);
    let written = written?;
    for (name, before, now) in &written.changed {
        printer.note(format_args!(
            "`{name}` was `{}` and is `{}`",
            before.sha256, now.sha256
        ));
    }
    printer.note(format_args!(
        "locked {}",
        pluralize(written.components as u64, "component")
    ));
    printer.print(&written.path.display().to_string());
    Ok(0)
}
