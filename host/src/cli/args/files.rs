//! What `files` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host files store@main-3\n  strata-host files store@main-3 --to before\n\n\
    Files that no action ever wrote are not saved."
)]
pub(in crate::cli) struct FilesArgs {
    /// The storage directory or its team.json, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]")]
    pub(in crate::cli) path: String,
    /// Extract the files into this directory, which is created. Other files in it are left alone.
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) to: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
