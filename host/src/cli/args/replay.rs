//! What `replay` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host replay store --verify\n  \
    strata-host replay store --step 3 --action Engineer.WriteCode\n\n\
    The exit code is 0, and with --verify 3 where an attempt does something else than is recorded.")]
pub(in crate::cli) struct ReplayArgs {
    /// The storage directory or its team.json.
    pub(in crate::cli) path: PathBuf,
    /// The team file, in place of the saved one.
    #[arg(value_name = "TEAM.toml")]
    pub(in crate::cli) team: Option<PathBuf>,
    /// End at the first difference, with exit code 3.
    #[arg(long)]
    pub(in crate::cli) verify: bool,
    /// Only attempts of this step.
    #[arg(long, value_name = "N")]
    pub(in crate::cli) step: Option<u64>,
    /// Only attempts of this action (or of `ROLE.think`).
    #[arg(long, value_name = "ROLE.ACTION")]
    pub(in crate::cli) action: Option<String>,
    /// The component that made the attempts of an action, where it was replaced since.
    #[arg(long, value_name = "ROLE.ACTION=FILE")]
    pub(in crate::cli) component: Vec<String>,
    /// One more policy that binds the team, beside those of the machine, of the user and of `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) policy: Option<PathBuf>,
    /// Those that lead to the newest state of this lineage instead of the current one.
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) lineage: Option<String>,
}
