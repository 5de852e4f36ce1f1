//! `lock`: records the digests of a team's components, so that other components are refused.

use super::{Failure, LockArgs, counted, note, print};
use crate::cli::progress::Progress;
use crate::launch;
use crate::manifest::operator::in_force;

pub(super) fn lock(args: &LockArgs) -> Result<u8, Failure> {
    let mut progress = Progress::begin();
    let written = launch::lock(
        &args.team,
        &in_force(args.policy.as_deref())?,
        &mut |line| progress.note(line),
    );
    drop(progress);
    let written = written?;
    for (name, before, now) in &written.changed {
        note(format_args!(
            "`{name}` was `{}` and is `{}`",
            before.sha256, now.sha256
        ));
    }
    note(format_args!(
        "locked {}",
        counted(written.components as u64, "component")
    ));
    print(&written.path.display().to_string());
    Ok(0)
}
