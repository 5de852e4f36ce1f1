//! The arguments of `dev`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "A role at fault is tried again with the fixed component. For any other change, the run goes back to the \
    checkpoint before its first use; what came after stays saved, in its own lineage. A change of roles, routes or the \
    idea starts a new run.\n\nExamples:\n  strata-host dev team.toml\n  strata-host dev team.toml \"write a snake game\"\n  \
    strata-host dev team.toml --storage workspace/storage/hello --until-done"
)]
pub(crate) struct DevArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(crate) team: PathBuf,
    /// The idea, instead of the one in the file.
    pub(crate) idea: Option<String>,
    /// The storage directory; `workspace/storage/NAME.dev` by default, by the team's name. A team saved there is resumed.
    #[arg(long, value_name = "DIR")]
    pub(crate) storage: Option<PathBuf>,
    /// Write events to this file as they happen, one JSON object per line; `-` is stdout.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) events: Option<PathBuf>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// End as soon as the team is done, instead of waiting for the next change.
    #[arg(long)]
    pub(crate) until_done: bool,
}
