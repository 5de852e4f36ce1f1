//! `report`: writes a saved run as one HTML page.

use std::io::Write;

use strata_host::launch::{OutputFile, TeamInputs, WriteTime, gather_report as gather};
use strata_host::open;
use strata_host::report::html;
use strata_host::storage::StorageLocation;

use super::events_sink::ensure_not_input;
use super::{CommandFailure, Printer, ReportArgs};

pub(super) fn report(args: &ReportArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let report = gather(&args.path)?;
    let page = html::page(&report);
    match &args.output {
        Some(file) => {
            let storage = StorageLocation::new(&report.storage.path);
            let inputs = TeamInputs {
                storage: Some(&storage),
                ..TeamInputs::default()
            };
            let output = OutputFile {
                path: file,
                beginning: html::BEGINNING.as_bytes(),
                time: WriteTime::AfterRun,
            };
            ensure_not_input("-o", output, &inputs)?;
            let failed = |error| {
                CommandFailure::internal(format!("cannot write `{}`: {error}", file.display()))
            };
            open::to_replace(file)
                .and_then(|mut file| file.write_all(page.as_bytes()))
                .map_err(failed)?;
            printer.note(format_args!("the report is in `{}`", file.display()));
        }
        None => printer.print(page.trim_end()),
    }
    Ok(0)
}
