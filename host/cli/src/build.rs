//! `build`: builds the source in a directory into a component. Only the component's path is written
//! to stdout.

use std::path::Path;

use strata_host::manifest::did_you_mean_path;

use super::progress::ProgressDisplay;
use super::{CommandFailure, Printer};

pub(super) fn build(dir: &Path, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut progress = ProgressDisplay::start(printer);
    let built = strata_host::build::build(dir, &mut |line| progress.set_activity(line));
    drop(progress);
    let refused = |error| {
        let hint = did_you_mean_path(dir);
        CommandFailure::usage(format!("{error}{hint}"))
    };
    let built = built.map_err(refused)?;
    printer.print(&built.component.display().to_string());
    Ok(0)
}
