//! The binary `strata-host`. The command line is in the library of this package, which the binary
//! of the tests uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_cli::main()
}
