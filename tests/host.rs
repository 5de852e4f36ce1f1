//! The binary `strata-host` under another name, for the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_cli::main()
}
