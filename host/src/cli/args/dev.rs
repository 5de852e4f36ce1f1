//! The arguments of `dev`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "A role at fault is tried again with what was mended. What else is changed is used from before the \
    checkpoint where it was first used; what came after stays saved, in a lineage of its own. A change of roles, routes or \
    the idea begins anew.\n\nExamples:\n  strata-host dev team.toml\n  strata-host dev team.toml \"write a snake game\"\n  \
    strata-host dev team.toml --storage workspace/storage/team --until-done"
)]
pub(crate) struct DevArgs {
    /// The team file.
    #[arg(value_name = "TEAM.toml", default_value = "team.toml")]
    pub(crate) team: PathBuf,
    /// The idea, in place of the one in the file.
    pub(crate) idea: Option<String>,
    /// Where it is saved. What is saved there is gone on with.
    #[arg(long, value_name = "DIR", default_value = "./workspace/storage/dev")]
    pub(crate) storage: PathBuf,
    /// Write events there as they happen, one JSON object a line; `-` is stdout.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) events: Option<PathBuf>,
    /// One more policy that binds the team, beside those of the machine, of the user and of `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// End as soon as the team is done, instead of waiting for the next change.
    #[arg(long)]
    pub(crate) until_done: bool,
}
