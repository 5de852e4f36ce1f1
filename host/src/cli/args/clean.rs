//! What `clean` takes.

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "All of it is made again when it is needed, which takes time and perhaps a download.\n\n\
    Examples:\n  strata-host clean\n  strata-host clean python javascript\n  strata-host clean --all --dry-run"
)]
pub(in crate::cli) struct CleanArgs {
    /// The parts to remove, by the names in the list. Without any, the list alone is printed.
    #[arg(value_name = "NAME", conflicts_with = "all")]
    pub(in crate::cli) parts: Vec<String>,
    /// Remove all parts.
    #[arg(long)]
    pub(in crate::cli) all: bool,
    /// Say how much would be removed, and remove nothing.
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Print the list as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
