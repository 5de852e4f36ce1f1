//! What `report` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host report store -o report.html\n  \
    strata-host report store@main-3 > then.html\n\n\
    The page is self-contained (no network, no server, no scripts but its own few lines) and can be e-mailed. It \
    shows what roles said and were told."
)]
pub(in crate::cli) struct ReportArgs {
    /// The storage directory or its team.json, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]")]
    pub(in crate::cli) path: String,
    /// The file to write; stdout by default.
    #[arg(short, long, value_name = "FILE")]
    pub(in crate::cli) output: Option<PathBuf>,
}
