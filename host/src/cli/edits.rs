//! What was done to a `team.json` that has its `team.db` beside it, and does not count.

use std::path::Path;

use super::warn;
use crate::launch::is_edited;

/// Tells whoever changed it, in commands that go by what is saved there.
pub(super) fn look_for_edits(path: &Path) {
    // Why a storage cannot be read is said by the command itself.
    if is_edited(path).unwrap_or(false) {
        tell_edited(path);
    }
}

pub(super) fn tell_edited(path: &Path) {
    let directory = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let directory = directory.display();
    warn(format_args!("`team.json` in `{directory}` was changed by hand; `team.db` beside it is newer and wins"));
}
