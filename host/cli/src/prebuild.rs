//! `prebuild`: makes the files that are installed with the program, for those who package it.

use strata_host::prebuild::prebuild;

use super::args::PrebuildArgs;
use super::progress::ProgressDisplay;
use super::{CommandFailure, Printer};

pub(super) fn run(args: &PrebuildArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut progress = ProgressDisplay::start(printer);
    let result = prebuild(&args.to, &args.interpreter, &args.actions, &mut |line| {
        progress.set_activity(line);
    });
    drop(progress);
    result.map_err(|error| CommandFailure::usage(error.to_string()))?;
    printer.print(&args.to.display().to_string());
    Ok(0)
}
