//! `report`: a saved run as one page.

use std::fs;
use std::path::Path;

use super::{Failure, ReportArgs, note, print};
use crate::launch::{is_saved_in, report as gather};
use crate::report::html;

pub(super) fn report(args: &ReportArgs) -> Result<u8, Failure> {
    let report = gather(&args.path)?;
    let page = html::page(&report);
    match &args.output {
        Some(file) if is_saved_in(file, Path::new(&report.beside.path)) => {
            let file = file.display();
            return Err(Failure::usage(format!("the team is saved in `{file}`; give the report another name")));
        }
        Some(file) => {
            let failed = |error| Failure::internal(format!("cannot write `{}`: {error}", file.display()));
            fs::write(file, &page).map_err(failed)?;
            note(format_args!("the report is in `{}`", file.display()));
        }
        None => print(page.trim_end()),
    }
    Ok(0)
}
