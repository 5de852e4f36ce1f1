//! The binary `strata-host`. The command line is implemented in the library's module `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_host::cli::main()
}
