//! Where components are written, so that problems found later (when a component is loaded or run)
//! can be shown in the team file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use strata_base::text::component_replacement::ComponentReplacement;
use strata_services::plugin::Limit;

use super::diagnostic::{Diagnostic, SourceText};
use super::skill::SkillReference;
use super::table::Located;

/// Where a component and the keys that belong to it are written.
#[derive(Clone, Debug)]
pub(super) struct ComponentLocation {
    /// The span of the header of the table.
    pub(super) entry: Range<usize>,
    pub(super) component: Range<usize>,
    /// The skill, if the component is named as one.
    pub(super) skill: Option<SkillReference>,
    pub(super) pin: Option<Range<usize>>,
    pub(super) function: Option<Range<usize>>,
    pub(super) config: Option<Range<usize>>,
    /// The file that contains the schema of its output.
    pub(super) output_schema: Option<PathBuf>,
    pub(super) allow: Option<Range<usize>>,
    /// The limits that the team file sets for this component, or for all components.
    pub(super) limits: BTreeSet<Limit>,
    /// The names of its secrets, where they are written.
    pub(super) secrets: Vec<Located<String>>,
}

/// A component given on the command line that replaces the one in the team file, together with the
/// argument.
#[derive(Clone, Debug)]
pub(super) struct ComponentOverride {
    source: Arc<SourceText>,
    origin: OverrideOrigin,
}

/// Which command line gave a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OverrideOrigin {
    /// The command line of this process.
    Current,
    /// An earlier command line, which was saved with the team.
    Earlier,
}

impl ComponentOverride {
    pub(super) fn new(replacement: &ComponentReplacement, origin: OverrideOrigin) -> Self {
        let by = match origin {
            OverrideOrigin::Current => "command line",
            OverrideOrigin::Earlier => "an earlier command line",
        };
        let source = Arc::new(SourceText::new(
            format!("--component {replacement}"),
            by.into(),
            "/".into(),
        ));
        Self { source, origin }
    }

    /// Returns whether it was given on the command line of this process.
    pub(super) fn is_from_current_command(&self) -> bool {
        self.origin == OverrideOrigin::Current
    }

    pub(super) fn problem(&self, message: String) -> Diagnostic {
        Diagnostic::at(&self.source, 0..self.source.text.len(), message)
    }
}
