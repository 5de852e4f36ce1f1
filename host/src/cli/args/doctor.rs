//! What `doctor` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "The exit code is 0 if everything that every team needs is present, otherwise 1.\n\nExamples:\n  strata-host doctor\n  \
    strata-host doctor --json | jq '.[] | select(.state != \"good\")'"
)]
pub(in crate::cli) struct DoctorArgs {
    /// Where teams would be saved; the speed of its disk is measured.
    #[arg(long, value_name = "DIR", default_value = "workspace/storage")]
    pub(in crate::cli) storage: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
