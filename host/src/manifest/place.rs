//! Where components are written, so that what is found out later can still be shown in the team file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Source};
use super::skill::Chosen;
use super::table::At;
use crate::plugin::Limit;

/// Where a component and what belongs to it are written.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The head of the table.
    pub(super) entry: Range<usize>,
    pub(super) component: Range<usize>,
    /// The skill that the component is, where it is named as one.
    pub(super) skill: Option<Chosen>,
    pub(super) pin: Option<Range<usize>>,
    pub(super) function: Option<Range<usize>>,
    pub(super) config: Option<Range<usize>>,
    /// The file with the schema of its output.
    pub(super) output_schema: Option<PathBuf>,
    pub(super) allow: Option<Range<usize>>,
    /// The limits that are written for it, or for all.
    pub(super) limits: BTreeSet<Limit>,
    /// Where its secrets are named.
    pub(super) secrets: Vec<At<String>>,
}

/// A component given on the command line in place of the written one, with the words it was given in.
#[derive(Clone, Debug)]
pub(super) struct Given {
    source: Arc<Source>,
    from: CommandLine,
}

/// The command line that gave a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandLine {
    /// That of this call.
    Current,
    /// That of an earlier call, which was saved with the team.
    Earlier,
}

impl Given {
    pub(super) fn new(argument: &str, from: CommandLine) -> Self {
        let by = match from {
            CommandLine::Current => "command line",
            CommandLine::Earlier => "an earlier command line",
        };
        let source = Arc::new(Source::new(
            format!("--component {argument}"),
            by.into(),
            "/".into(),
        ));
        Self { source, from }
    }

    /// Whether the operator gave it in this call.
    pub(super) fn is_of_this_call(&self) -> bool {
        self.from == CommandLine::Current
    }

    pub(super) fn problem(&self, message: String) -> Diagnostic {
        Diagnostic::at(&self.source, 0..self.source.text.len(), message)
    }
}
