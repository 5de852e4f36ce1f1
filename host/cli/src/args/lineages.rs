//! The arguments of `fork`, `diff` and `prune`.

use std::path::PathBuf;

use clap::Args;
use strata_host::launch::StateEdit;
use strata_host::storage::StorageLocation;

use super::SelectionArgs;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host fork store --at main-1 --set tracking/k=9 --to branch\n  \
    strata-host fork store --at main-1 --set role/Engineer/plan=shorter"
)]
pub(crate) struct ForkArgs {
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_parser = super::saved_path())]
    pub(crate) path: StorageLocation,
    /// The checkpoint to start from.
    #[arg(long, value_name = "ID")]
    pub(crate) at: String,
    /// Set a value in a scope of the new lineage: a scope of the team file, or `role/NAME` for a role's private one.
    /// What is not JSON is a text, unless it begins with `{`, `[` or `"`.
    #[arg(long, value_name = "SCOPE/KEY=JSON")]
    pub(crate) set: Vec<StateEdit>,
    /// Write the new lineage to this directory as a separate team, instead of into the same storage.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Print the new lineage as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(
    after_help = "Each side is PATH (its newest state), or PATH@ID (one of its checkpoints or lineages).\n\n\
    Examples:\n  strata-host diff store@main store@main.1\n  strata-host diff store branch\n\n\
    The exit code is 0 whether or not they differ."
)]
pub(crate) struct DiffArgs {
    /// One side: a storage directory or its team.json, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]", value_parser = super::parse_expanded)]
    pub(crate) one: String,
    /// The other.
    #[arg(value_name = "PATH[@ID]", value_parser = super::parse_expanded)]
    pub(crate) other: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host prune store --keep 3\n  \
    strata-host prune postgres://host/teams --team crawler --keep 3")]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// How many checkpoints to keep per lineage, besides its first, those that other lineages start from, and those that
    /// wait for a person. By default what the team file says; if that keeps all of them, 10.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: Option<u32>,
}
