//! What `inspect` takes.

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host inspect workspace/storage/team\n  strata-host inspect store@main-1 --json | jq .env.roles\n  \
        strata-host inspect store --action Coder.Write\n  strata-host inspect store --calls\n  strata-host inspect store --message idea"
)]
pub(in crate::cli) struct InspectArgs {
    /// The storage directory or its team.json, optionally followed by @CHECKPOINT or @LINEAGE.
    #[arg(value_name = "PATH[@ID]")]
    pub(in crate::cli) path: String,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Show this checkpoint instead of the newest state.
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) checkpoint: Option<String>,
    /// Show one action: its state, what it used, its last output, its fault. `ROLE.think` is what chooses for a role.
    #[arg(long, value_name = "ROLE.ACTION", allow_hyphen_values = true)]
    pub(in crate::cli) action: Option<String>,
    /// Show the recorded host calls and their results, oldest first; with `--action`, those of one action.
    #[arg(long, conflicts_with = "checkpoint")]
    pub(in crate::cli) calls: bool,
    /// Show one message in full.
    #[arg(long, value_name = "ID", conflicts_with_all = ["action", "calls"])]
    pub(in crate::cli) message: Option<String>,
}
