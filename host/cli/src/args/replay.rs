//! The arguments of `replay`.

use std::path::PathBuf;

use clap::Args;
use strata_host::ComponentReplacement;
use strata_host::storage::StorageLocation;

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host replay store --verify\n  \
    strata-host replay store --step 3 --action Engineer.WriteCode\n\n\
    The exit code is 0, and with --verify 3 if an attempt differs from the record.")]
pub(crate) struct ReplayArgs {
    /// The storage directory, its team.json or the URL of a run in a database.
    #[arg(value_parser = super::saved_path())]
    pub(crate) path: StorageLocation,
    /// The team file, instead of the saved one.
    #[arg(value_name = "TEAM.toml")]
    pub(crate) team: Option<PathBuf>,
    /// Stop at the first difference, with exit code 3.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Use the team file that is saved at PATH, whoever wrote it. It decides which sources are built, and which
    /// directories and variables actions may read.
    #[arg(long)]
    pub(crate) trust: bool,
    /// Only attempts of this step.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u64>,
    /// Only attempts of this action (or of `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION", allow_hyphen_values = true)]
    pub(crate) action: Option<String>,
    /// The component that made an action's attempts, if it has been replaced since.
    #[arg(long, value_name = "ROLE.ACTION=FILE", allow_hyphen_values = true)]
    pub(crate) component: Vec<ComponentReplacement>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Use the events that led to the newest state of this lineage instead of the current one.
    #[arg(long, value_name = "NAME")]
    pub(crate) lineage: Option<String>,
}
