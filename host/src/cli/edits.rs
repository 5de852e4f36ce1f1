//! What was done to files that do not count: to a `team.json` that has its `team.db` beside it, to a team file that a
//! resume does not name.

use std::path::Path;

use super::{note, path_word, recover, shown, warn};
use crate::launch::{edited_team_file, is_edited};

/// Tells whoever changed it, in commands that go by what is saved there.
pub(super) fn look_for_edits(path: &Path) {
    // Why a storage cannot be read is said by the command itself.
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

/// Tells whoever changed the team file that a resume which does not name it goes by the one that was saved.
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
