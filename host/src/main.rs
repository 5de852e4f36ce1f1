//! The binary `strata-host`. Everything it does is in the library's `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    strata_host::cli::main()
}
