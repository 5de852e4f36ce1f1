//! What is saved of a run, and a run that was opened.

use strata_records::reader::Reader;

use crate::Lease;

/// In which form a run is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedForm {
    /// With its records.
    Records,
    /// As a `team.json` alone.
    TeamJson,
}

/// What is saved of a run.
pub enum SavedRun {
    /// Its records.
    Records(Box<dyn Reader>),
    /// The content of a `team.json` alone.
    TeamJson(Vec<u8>),
}

/// A run that was opened.
pub struct OpenedRun {
    /// The right to change it.
    pub lease: Box<dyn Lease>,
    /// Whether another program changed its `team.json`. The records take precedence.
    pub team_json_differs: bool,
}
