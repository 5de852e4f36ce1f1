//! Notices about edited files that have no effect: a `team.json` next to its `team.db`, and a team
//! file that a resume does not name.

use std::path::Path;

use super::{note, path_word, recover, shown, warn};
use crate::launch::{edited_team_file, is_edited};

/// Warns if `team.json` was edited, in commands that read the saved state.
pub(super) fn look_for_edits(path: &Path) {
    // If the storage cannot be read, the command itself reports why.
    if is_edited(path).unwrap_or(false) {
        tell_edited(path);
    }
}

pub(super) fn tell_edited(path: &Path) {
    let directory = if path.is_file() {
        path.parent().unwrap_or(path)
    } else {
        path
    };
    let directory = directory.display();
    warn(format_args!(
        "`team.json` in `{directory}` differs from `team.db`, which is used; to use the edited copy, move it to a \
         directory of its own"
    ));
}

/// Notes that the team file was edited, and that a resume which does not name it uses the saved
/// one.
pub(super) fn tell_mended(path: &Path, policy: Option<&Path>) {
    let Ok(Some(file)) = edited_team_file(path) else {
        return;
    };
    let (file, resume) = (shown(&file), recover(path, policy));
    let word = path_word(Path::new(&file));
    note(format_args!(
        "`{file}` has changed since; `strata-host run {word} {resume}` uses it"
    ));
}
