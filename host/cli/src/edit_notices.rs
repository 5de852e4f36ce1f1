//! Notices about edited files that have no effect: a `team.json` next to its `team.db`, and a team
//! file that a resume does not name.

use std::path::Path;

use strata_host::display_path::relative_path;
use strata_host::launch::edited_team_file;
use strata_host::storage::StorageLocation;

use super::{Printer, recover_args, shell_path};

/// Warns if `team.json` was edited, in commands that read the saved state.
pub(super) fn warn_if_edited(location: &StorageLocation, printer: &Printer) {
    // If the storage cannot be read, the command itself reports why.
    if location.is_team_json_edited().unwrap_or(false) {
        warn_edited(location, printer);
    }
}

pub(super) fn warn_edited(location: &StorageLocation, printer: &Printer) {
    let directory = location.operand().display();
    printer.warn(format_args!(
        "`team.json` in `{directory}` differs from `team.db`, which is used; to use the edited copy, move it to a \
         directory of its own"
    ));
}

/// Notes that the team file was edited, and that a resume which does not name it uses the saved
/// one.
pub(super) fn note_edited_team_file(
    location: &StorageLocation,
    policy: Option<&Path>,
    printer: &Printer,
) {
    let Ok(Some(file)) = edited_team_file(location) else {
        return;
    };
    let (file, resume) = (relative_path(&file), recover_args(location.path(), policy));
    let word = shell_path(Path::new(&file));
    printer.note(format_args!(
        "`{file}` has changed since; `strata-host run {word} {resume}` uses it"
    ));
}
