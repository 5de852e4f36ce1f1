//! `lock`: writes down which components a team has, so that others are refused.

use super::{Failure, LockArgs, counted, note, print};
use crate::launch;
use crate::manifest::operator::in_force;

pub(super) fn lock(args: &LockArgs) -> Result<u8, Failure> {
    let written = launch::lock(&args.team, &in_force(args.policy.as_deref())?, &mut |line| note(line))?;
    for (name, before, now) in &written.changed {
        note(format_args!("`{name}` was `{}` and is `{}`", before.sha256, now.sha256));
    }
    note(format_args!("locked {}", counted(written.components as u64, "component")));
    print(&written.path.display().to_string());
    Ok(0)
}
