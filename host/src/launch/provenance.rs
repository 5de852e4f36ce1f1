//! Finds out the provenance of a team.

use std::path::Path;

use strata_manifest::Definition;
use strata_services::plugin::builtin::is_builtin;
use strata_view::Provenance;

use crate::bundle::{is_saved_base, submitted_path};

/// Returns the provenance of a team as its file is now. The files of a submitted team are named as whoever
/// submitted it knows them.
pub(crate) fn provenance_of(definition: &Definition) -> Provenance {
    let base = &definition.source.base;
    let is_submitted = definition.is_submitted() || is_saved_base(base);
    Provenance::new(definition, |path: &Path| {
        if is_submitted && !is_builtin(path) {
            submitted_path(path, base)
        } else {
            path.to_owned()
        }
    })
}
