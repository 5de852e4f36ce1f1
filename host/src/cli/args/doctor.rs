//! What `doctor` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Exit code 0 when all is there that every team needs, else 1.\n\nExamples:\n  strata-host doctor\n  \
    strata-host doctor --json | jq '.[] | select(.state != \"good\")'"
)]
pub(in crate::cli) struct DoctorArgs {
    /// Where teams would be saved: its disk is measured.
    #[arg(long, value_name = "DIR", default_value = "./workspace/storage/team")]
    pub(in crate::cli) storage: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
